//! A second implementation of the front end of TensorFlow Lite Micro, written from FORMAT.md: computed from the
//! section's bytes in 64 and 128 bits, with a recursive FFT. It shares nothing with `core`.

use tidegate::front_end::{Method, MfccSettings};

type Complex = [i64; 2];

/// A stream: the tables, read from the bytes of a section, and the noise estimates.
pub struct Twin {
    points: usize,
    /// log₂ of `points`.
    points_log: u32,
    multiplier: u64,
    addend: u64,
    most: u64,
    smoothing: [u64; 2],
    least: u64,
    smoothing_bits: u32,
    snr_shift: u32,
    sines: Vec<i64>,
    edges: Vec<usize>,
    window: Vec<i64>,
    weights: Vec<i64>,
    gain: Vec<i64>,
    estimates: Vec<u64>,
}

/// The value modulo 2^16 as an i16.
fn wrapped(value: i64) -> i64 {
    (value + 32_768).rem_euclid(65_536) - 32_768
}

fn round(value: i64) -> i64 {
    assert!(i32::try_from(value + 16_384).is_ok(), "{value}");
    wrapped((value + 16_384) >> 15)
}

/// The value modulo 2^32.
fn word(value: u128) -> u64 {
    (value % (1 << 32)) as u64
}

impl Twin {
    /// Reads a section.
    ///
    /// # Panics
    /// If the section is shorter than its settings require.
    pub fn new(section: &[u8], settings: &MfccSettings) -> Self {
        let long = |at: usize| u64::from(u32::from_le_bytes(*section[at..].first_chunk().unwrap()));
        let half = |at: usize| u64::from(u16::from_le_bytes(*section[at..].first_chunk().unwrap()));
        let mut at = 72;
        let mut table = |count: usize| -> Vec<i64> {
            let values = section[at..][..2 * count].as_chunks::<2>().0;
            at += 2 * count;
            values.iter().map(|&value| i64::from(i16::from_le_bytes(value))).collect()
        };
        let points = settings.fft_len as usize;
        let (sines, edges) = (table(points / 4 + 1), table(settings.mel_bands as usize + 2));
        let window = table(settings.window_len as usize);
        let edges: Vec<usize> = edges.into_iter().map(|edge| edge as usize).collect();
        let weights = table(2 * (edges[edges.len() - 1] - edges[0]));
        let gain = table(if settings.method == Method::Micro { 95 } else { 0 });
        assert_eq!(at, section.len());
        Self {
            points,
            points_log: settings.fft_len.ilog2(),
            multiplier: long(52),
            addend: long(56),
            most: long(60),
            smoothing: [half(64), half(66)],
            least: half(68),
            smoothing_bits: u32::from(section[70]),
            snr_shift: u32::from(section[71]),
            sines,
            edges,
            window,
            weights,
            gain,
            estimates: vec![0; settings.mel_bands as usize],
        }
    }

    /// The features of the next frame.
    pub fn features(&mut self, samples: &[i16]) -> Vec<i16> {
        let mut x: Vec<i64> = samples
            .iter()
            .zip(&self.window)
            .map(|(&sample, weight)| wrapped((i64::from(sample) * weight) >> 12))
            .collect();
        let loudest = x.iter().filter(|&&value| value != -32_768).map(|value| value.unsigned_abs()).max();
        let shift = 15 - loudest.unwrap_or(0).checked_ilog2().map_or(0, |log| log + 1);
        x.iter_mut().for_each(|value| *value = wrapped(*value << shift));
        x.resize(self.points, 0);
        let energies = self.energies(&self.fft(x.as_chunks::<2>().0));
        let side = |channel: usize, which: usize| -> u128 {
            let bins = self.edges[channel]..self.edges[channel + 1];
            bins.map(|bin| energies[bin] * self.weights[2 * (bin - self.edges[0]) + which] as u128).sum()
        };
        let sums: Vec<u128> =
            (0..self.estimates.len()).map(|channel| side(channel, 1) + side(channel + 1, 0)).collect();
        sums.iter().enumerate().map(|(channel, &sum)| self.feature(channel, sum, shift)).collect()
    }

    fn feature(&mut self, channel: usize, sum: u128, shift: u32) -> i16 {
        let signal = nearest_root(sum) >> shift;
        let scaled = word(u128::from(signal) << self.smoothing_bits);
        let share = u128::from(self.smoothing[channel % 2]);
        let mean = u128::from(scaled) * share + u128::from(self.estimates[channel]) * (16_384 - share);
        let estimate = word(mean >> 14);
        self.estimates[channel] = estimate;
        let kept = (scaled - scaled.min(estimate)) >> self.smoothing_bits;
        let least = (signal * self.least) >> 14;
        let mut signal = if kept < least { least } else { kept };
        if !self.gain.is_empty() {
            let ratio = word((u128::from(signal) * u128::from(self.gain_of(estimate) as u32)) >> self.snr_shift);
            signal = if ratio < 8192 { (ratio * ratio) >> 20 } else { (ratio >> 6) - 64 };
        }
        let raw = logarithm(word(u128::from(signal) << (self.points_log - 6)));
        ((raw * self.multiplier + self.addend) >> 18).min(self.most) as i16
    }

    fn gain_of(&self, estimate: u64) -> i64 {
        if estimate < 2 {
            return self.gain[estimate as usize];
        }
        let octave = estimate.ilog2();
        let f = (((estimate << 10) >> octave) % 1024) as i64;
        let &[start, slope, bend] = self.gain[2..].as_chunks().0.get(octave as usize - 1).unwrap();
        wrapped((((((bend * f) >> 5) + (slope << 5)) * f + 16_384) >> 15) + start)
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

    fn turned(&self, [re, im]: Complex, index: usize) -> Complex {
        let [cos, sin] = self.angle(index);
        [round(re * cos + im * sin), round(im * cos - re * sin)]
    }

    fn fft(&self, x: &[Complex]) -> Vec<Complex> {
        let sum = |a: Complex, b: Complex| [0, 1].map(|part| wrapped(a[part] + b[part]));
        let difference = |a: Complex, b: Complex| [0, 1].map(|part| wrapped(a[part] - b[part]));
        match *x {
            [point] => vec![point],
            [a, b] => {
                let [a, b] = [a, b].map(|point| point.map(|part| round(16_383 * part)));
                vec![sum(a, b), difference(a, b)]
            }
            _ => {
                let quarter = x.len() / 4;
                let part = |from: usize| self.fft(&x.iter().copied().skip(from).step_by(4).collect::<Vec<_>>());
                let parts = [0, 1, 2, 3].map(part);
                let mut out = vec![[0; 2]; x.len()];
                for k in 0..quarter {
                    let step = self.points / x.len();
                    let [a, b, c, d] = [0, 1, 2, 3].map(|n| parts[n][k].map(|part| round(8191 * part)));
                    let [b, c, d] = [(b, 1), (c, 2), (d, 3)].map(|(point, n)| self.turned(point, n * k * step));
                    let (both, apart) = (sum(b, d), difference(b, d));
                    let minus_i = [apart[1], -apart[0]];
                    out[k] = sum(sum(a, c), both);
                    out[k + quarter] = sum(difference(a, c), minus_i);
                    out[k + 2 * quarter] = difference(sum(a, c), both);
                    out[k + 3 * quarter] = difference(difference(a, c), minus_i);
                }
                out
            }
        }
    }

    fn energies(&self, spectrum: &[Complex]) -> Vec<u128> {
        let (count, mut energies) = (spectrum.len(), vec![0; spectrum.len()]);
        for k in 1..=count / 2 {
            let p = spectrum[k].map(|part| round(16_383 * part));
            let [re, im] = spectrum[count - k];
            let q = [re, wrapped(-im)].map(|part| round(16_383 * part));
            let f = [0, 1].map(|part| wrapped(p[part] + q[part]));
            let g = [0, 1].map(|part| wrapped(p[part] - q[part]));
            let [cos, sin] = self.angle(k);
            let t = [round(g[1] * cos - g[0] * sin), round(-g[0] * cos - g[1] * sin)];
            let energy = |re: i64, im: i64| ((re >> 1).pow(2) + (im >> 1).pow(2)) as u128;
            energies[k] = energy(f[0] + t[0], f[1] + t[1]);
            energies[count - k] = energy(f[0] - t[0], t[1] - f[1]);
        }
        energies
    }
}

fn nearest_root(sum: u128) -> u64 {
    assert!(sum < 1 << 64);
    let root = sum.isqrt();
    let root = if sum - root * root > root { root + 1 } else { root };
    root.min(if sum < 1 << 32 { 0xffff } else { 0xffff_ffff }) as u64
}

fn logarithm(v: u64) -> u64 {
    if v < 2 {
        return 0;
    }
    let n = v.ilog2();
    let f = ((v - (1 << n)) << 16) >> n;
    let chord = |k: u64| {
        let x = k as f64 / 128.0;
        (65_536.0 * ((1.0 + x).log2() - x)).round() as i64
    };
    let (from, to) = (chord(f >> 9), chord((f >> 9) + 1));
    let l = (i64::from(n) << 16) + f as i64 + from + (((to - from) * (f % 512) as i64) >> 16);
    ((((45_426 * l as u64 + 32_768) >> 16) << 6) + 32_768) >> 16
}
