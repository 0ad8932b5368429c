//! A second implementation of the integer front end, written from FORMAT.md: computed from the section's bytes in 64
//! and 128 bits, with a recursive FFT. It shares nothing with `core`. Every value is checked to fit the width that
//! FORMAT.md states.

use tidegate::front_end::{First, Method, MfccSettings, Spectrum};

type Complex = [i64; 2];

/// The tables, read from the bytes of a section whose settings are `settings`.
pub struct Twin {
    settings: MfccSettings,
    log_floor: i64,
    energy: i64,
    /// `emphasis`, `gain`, `offset`, `middle`, `most`
    log_mel: Option<[i64; 5]>,
    sines: Vec<i64>,
    edges: Vec<usize>,
    dct: Vec<i64>,
    window: Vec<i64>,
    weights: Vec<i64>,
    /// ln(1 + k / 64) in units of 2^-24, and half the greatest error of the chord to the next value.
    steps: Vec<i64>,
}

/// `value`, checked to fit in `bits` bits plus the sign.
fn held(value: i128, bits: u32) -> i64 {
    assert!(value.unsigned_abs() <= 1 << bits, "{value} has more than {bits} bits");
    value as i64
}

impl Twin {
    /// Reads a section.
    ///
    /// # Panics
    /// If the section is shorter than its settings require.
    pub fn new(section: &[u8], settings: &MfccSettings) -> Self {
        let word = |at: usize| i64::from(i32::from_le_bytes(*section[at..].first_chunk().unwrap()));
        let half = |at: usize| i64::from(u16::from_le_bytes(*section[at..].first_chunk().unwrap()));
        let is_log_mel = matches!(settings.method, Method::LogMel(_));
        let energies = usize::from(settings.first == First::LogEnergy);
        let rows = if is_log_mel { 0 } else { settings.coefficients as usize - energies };
        let words = if is_log_mel { 60 } else { 48 };
        let counts =
            [settings.fft_len as usize / 4 + 1, settings.mel_bands as usize + 2, rows * settings.mel_bands as usize];
        let mut at = if is_log_mel { 92 } else { 60 };
        let [sines, edges, dct] = counts.map(|count| {
            let table: Vec<i64> = (0..count).map(|k| word(at + 4 * k)).collect();
            at += 4 * count;
            table
        });
        let edges: Vec<usize> = edges.into_iter().map(|edge| edge as usize).collect();
        let bins = edges[edges.len() - 1] - edges[0];
        let mut halves: Vec<i64> = (at..section.len()).step_by(2).map(half).collect();
        let weights = halves.split_off(halves.len() - bins);
        let step = |k: u32| {
            let from = f64::from(64 + k);
            (((from / 64.0).ln() + 1.0 / (16.0 * from * from)) * f64::from(1 << 24)).round() as i64
        };
        Self {
            settings: *settings,
            log_floor: word(words + 4),
            energy: word(words + 8),
            log_mel: is_log_mel.then(|| [72, 76, 80, 84, 88].map(word)),
            sines,
            edges,
            dct,
            window: halves,
            weights,
            steps: (0..=64).map(step).collect(),
        }
    }

    /// The features of a frame of samples after the sample `before`.
    pub fn features(&self, before: i16, samples: &[i16]) -> Vec<i16> {
        let settings = &self.settings;
        let points = settings.fft_len as usize;
        let heard: Vec<i64> = samples.iter().take(points).map(|&sample| i64::from(sample)).collect();
        let weight = |n: usize| if self.window.len() == 1 { self.window[0] } else { self.window[n] };
        let (windowed, shift) = match self.log_mel {
            Some([emphasis, ..]) => {
                let previous = [i64::from(before)].into_iter().chain(heard.iter().copied());
                let y: Vec<i64> = heard
                    .iter()
                    .zip(previous)
                    .map(|(x, previous)| held(i128::from(x * (1 << 14) - emphasis * previous), 30))
                    .collect();
                let fits = |by: &u32| y.iter().all(|y| (-(1 << 30)..1 << 30).contains(&(y << by)));
                let shift = (0..=30).rev().find(fits).unwrap();
                let windowed =
                    y.iter().enumerate().map(|(n, y)| held(i128::from(product(y << shift, weight(n) << 15)), 29));
                (windowed.collect(), i64::from(shift) - 1)
            }
            None => self.plain(&heard, weight),
        };
        self.features_of(windowed, shift)
    }

    /// The samples in the window, and their shift.
    fn plain(&self, heard: &[i64], weight: impl Fn(usize) -> i64) -> (Vec<i64>, i64) {
        // The greatest shift that keeps every sample within 16 bits.
        let fits = |by: &u32| heard.iter().all(|sample| (-32768..32768).contains(&(sample << by)));
        let shift = (0..16).rev().find(fits).unwrap();
        let windowed = heard
            .iter()
            .enumerate()
            .map(|(n, sample)| {
                held(i128::from(held(i128::from(sample << shift) * i128::from(weight(n)) + 2, 31) >> 2), 29)
            })
            .collect();
        (windowed, i64::from(shift))
    }

    fn features_of(&self, mut windowed: Vec<i64>, shift: i64) -> Vec<i16> {
        let settings = &self.settings;
        let points = settings.fft_len as usize;
        windowed.resize(points, 0);
        let pairs: Vec<Complex> = windowed.as_chunks::<2>().0.to_vec();
        let spectrum = self.fft(&pairs);
        let bins: Vec<Complex> = (0..=points / 2).map(|k| self.bin(&spectrum, k)).collect();
        let log2 = i64::from(points.ilog2());
        let square = |&[re, im]: &Complex| i128::from(re) * i128::from(re) + i128::from(im) * i128::from(im);
        let power = settings.spectrum == Spectrum::Power;
        let sizes: Vec<i128> =
            bins.iter().map(|bin| if power { square(bin) } else { i128::from(magnitude(*bin)) << 15 }).collect();
        let exponent = if power { log2 - 60 - 2 * shift } else { log2 - 45 - shift };
        let gain = if power { 0 } else { 2_553_930 };
        let share = |from: usize, to: usize| -> (i128, i128) {
            (from..to).fold((0, 0), |(falling, rising), k| {
                let weighted = (sizes[k] * i128::from(self.weights[k - self.edges[0]])) >> 15;
                (falling + weighted, rising + sizes[k] - weighted)
            })
        };
        let logs: Vec<i64> = self
            .edges
            .windows(3)
            .map(|edges| self.log(share(edges[0], edges[1]).1 + share(edges[1], edges[2]).0, exponent, gain))
            .collect();
        if let Some([_, gain, offset, middle, most]) = self.log_mel {
            let feature = |&log: &i64| {
                let v = held(i128::from(product(log, gain) + offset), 31);
                let up = if v < middle << 10 { 1023 } else { 0 };
                ((v + up) >> 10).clamp(0, most) as i16
            };
            return logs.iter().map(feature).collect();
        }
        let half = 1 << 9;
        let mut features = Vec::new();
        if settings.first == First::LogEnergy {
            let exponent = if power { log2 - 60 - 2 * shift } else { 2 * log2 - 60 - 2 * shift };
            let energy = self.log(bins.iter().map(square).sum(), exponent, 0);
            features.push(half + product(energy, self.energy));
        }
        for row in self.dct.chunks(logs.len()) {
            let start = half + logs.len() as i64 / 2;
            let terms = row.iter().zip(&logs).map(|(&weight, &log)| product(log, weight));
            features.push(terms.fold(start, |sum, term| held(i128::from(sum + term), 31)));
        }
        features.into_iter().map(|feature| (feature >> 10).clamp(-32767, 32767) as i16).collect()
    }

    /// cos and sin of the angle of `index` FFT points.
    fn angle(&self, index: usize) -> [i64; 2] {
        let quarter = self.sines.len() - 1;
        let (turns, rest) = (index / quarter, index % quarter);
        let [mut cos, mut sin] = [self.sines[quarter - rest], self.sines[rest]];
        for _ in 0..turns {
            (cos, sin) = (-sin, cos);
        }
        [cos, sin]
    }

    /// Half of a point, rotated back.
    fn turned(&self, [re, im]: Complex, index: usize) -> Complex {
        let [cos, sin] = self.angle(index);
        [
            held(i128::from(product(re, cos) + product(im, sin)), 31),
            held(i128::from(product(im, cos) - product(re, sin)), 31),
        ]
    }

    /// The FFT, divided by the number of points.
    fn fft(&self, x: &[Complex]) -> Vec<Complex> {
        let halves = |re: i64, im: i64| [held(i128::from(re), 31) >> 1, held(i128::from(im), 31) >> 1];
        match *x {
            [point] => vec![point],
            [a, b] => vec![halves(a[0] + b[0], a[1] + b[1]), halves(a[0] - b[0], a[1] - b[1])],
            _ => {
                let quarter = x.len() / 4;
                let part = |from: usize| self.fft(&x.iter().copied().skip(from).step_by(4).collect::<Vec<_>>());
                let parts = [0, 1, 2, 3].map(part);
                let mut out = vec![[0; 2]; x.len()];
                for k in 0..quarter {
                    let step = self.settings.fft_len as usize / x.len();
                    let [a, b, c, d] = [0, 1, 2, 3].map(|n| match (n, k) {
                        (0, _) | (_, 0) => parts[n][k].map(|part| part >> 1),
                        _ => self.turned(parts[n][k], n * k * step),
                    });
                    let [re, im] = [0, 1];
                    out[k] = halves(a[re] + b[re] + c[re] + d[re], a[im] + b[im] + c[im] + d[im]);
                    out[k + quarter] = halves(a[re] + b[im] - c[re] - d[im], a[im] - b[re] - c[im] + d[re]);
                    out[k + 2 * quarter] = halves(a[re] - b[re] + c[re] - d[re], a[im] - b[im] + c[im] - d[im]);
                    out[k + 3 * quarter] = halves(a[re] - b[im] - c[re] + d[im], a[im] + b[re] - c[im] - d[re]);
                }
                out
            }
        }
    }

    /// A bin of the real FFT, divided by half the number of samples.
    fn bin(&self, spectrum: &[Complex], k: usize) -> Complex {
        let count = spectrum.len();
        let ([a, b], [c, d]) = (spectrum[k % count], spectrum[(count - k) % count]);
        let [re, im] = self.turned([a - c, b + d], k);
        [held(i128::from(((a + c) >> 1) + im), 31), held(i128::from(((b - d) >> 1) - re), 31)]
    }

    fn log(&self, sum: i128, exponent: i64, gain: i64) -> i64 {
        assert!((0..1 << 62).contains(&sum), "{sum}");
        if sum == 0 {
            return self.log_floor;
        }
        let top = i64::from(sum.ilog2());
        let mantissa = ((sum << 62) >> (top + 62 - 19)) as i64;
        let (step, part) = ((mantissa >> 13) as usize - 64, mantissa & 8191);
        let between = self.steps[step] + (((self.steps[step + 1] - self.steps[step]) * part) >> 13);
        held(i128::from((top + exponent) * 11_629_080 + between - gain), 31).max(self.log_floor)
    }
}

/// The high word of a product.
fn product(a: i64, b: i64) -> i64 {
    held((i128::from(a) * i128::from(b)) >> 32, 31)
}

fn magnitude([re, im]: Complex) -> i64 {
    let (mut x, mut y) = (re.abs().max(im.abs()), re.abs().min(im.abs()));
    for turn in 1..=7 {
        (x, y) = (held(i128::from(x + (y >> turn)), 31), (y - (x >> turn)).abs());
    }
    x
}
