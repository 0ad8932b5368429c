//! The pitch period of a frame, found as in Opus's CELT: the autocorrelation of the prediction error, at a quarter, half
//! and then the full rate, and a check of its fractions.

/// Samples in which a period is looked for: two frames.
const FRAME: usize = 2 * super::FRAME;
/// Periods in samples at 48 kHz, for pitches of 62.5 to 800 Hz.
const SHORTEST: usize = 60;
const LONGEST: usize = 768;
/// The samples that [`Pitch::find`] reads.
pub const PAST: usize = LONGEST + FRAME;
/// Lags that are tried, from [`LONGEST`] down.
const LAGS: usize = LONGEST - 3 * SHORTEST;
/// At half the rate.
const HALF: usize = PAST / 2;

/// Period and gain of the last frame: the next one is likely to be near.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pitch {
    period: usize,
    gain: f32,
}

impl Pitch {
    /// The period of the newest two frames, in samples: at least [`SHORTEST`], at most [`LONGEST`].
    pub fn find(&mut self, past: &[f32; PAST]) -> usize {
        let half = whitened(past);
        *self = self.of_fractions(&half, LONGEST - start(&half));
        self.period
    }

    /// Autocorrelation has maxima at multiples of the period too. Takes a fraction of the found period if its correlation is
    /// about as good.
    fn of_fractions(self, half: &[f32; HALF], found: usize) -> Self {
        const LAST: usize = LONGEST / 2;
        /// For each divisor, the multiple of the fraction that must correlate too.
        const MULTIPLES: [usize; 16] = [0, 0, 3, 2, 3, 2, 5, 2, 3, 2, 3, 2, 5, 2, 3, 2];
        let frame = &half[LAST..];
        let with = |lag: usize| dot(frame, &half[LAST - lag..][..FRAME / 2]);
        let whole = (found / 2).min(LAST - 1);
        let power = with(0);
        // The power of the frame by lag: each lag takes in a sample and drops one.
        let mut powers = [power; LAST + 1];
        let mut of_lag = power;
        for (lag, kept) in powers.iter_mut().enumerate().skip(1) {
            let (new, old) = (half[LAST - lag], half[HALF - lag]);
            of_lag += new * new - old * old;
            *kept = of_lag.max(0.0);
        }
        let gain_of = |product: f32, of_lag: f32| product / (1.0 + power * of_lag).sqrt();
        let mut best = (whole, with(whole), powers[whole]);
        let gain_of_whole = gain_of(best.1, best.2);
        let mut gain = gain_of_whole;
        for (divisor, &multiple) in MULTIPLES.iter().enumerate().skip(2) {
            let rounded = |times: usize| (2 * times * whole + divisor) / (2 * divisor);
            let lag = rounded(1);
            if lag < SHORTEST / 2 {
                break;
            }
            let other = match divisor {
                2 if lag + whole > LAST => whole,
                2 => lag + whole,
                _ => rounded(multiple),
            };
            let product = (with(lag) + with(other)) / 2.0;
            let of_lag = (powers[lag] + powers[other]) / 2.0;
            let continued = match lag.abs_diff(self.period / 2) {
                0 | 1 => self.gain,
                2 if 5 * divisor * divisor < whole => self.gain / 2.0,
                _ => 0.0,
            };
            // A short period must correlate better: neighboring samples are alike.
            let needed = if lag < 3 * SHORTEST / 2 {
                (0.85 * gain_of_whole - continued).max(0.4)
            } else {
                (0.7 * gain_of_whole - continued).max(0.3)
            };
            if gain_of(product, of_lag) > needed {
                best = (lag, product, of_lag);
                gain = gain_of(product, of_lag);
            }
        }
        let (lag, product, of_lag) = best;
        let product = product.max(0.0);
        let share = if of_lag <= product { 1.0 } else { product / (of_lag + 1.0) };
        let period = (2 * lag).saturating_add_signed(nearer([with(lag - 1), with(lag), with(lag + 1)]));
        Self { period: period.max(SHORTEST), gain: share.min(gain) }
    }
}

/// At half the rate, filtered by an error predictor of order 4 and a zero, so that formants weigh less.
fn whitened(past: &[f32; PAST]) -> [f32; HALF] {
    let mut half = [0.0; HALF];
    half[0] = (past[1] / 2.0 + past[0]) / 2.0;
    for (y, x) in half[1..].iter_mut().zip(past[1..].windows(3).step_by(2)) {
        *y = ((x[0] + x[2]) / 2.0 + x[1]) / 2.0;
    }
    let mut correlations: [f32; 5] = std::array::from_fn(|lag| dot(&half[lag..], &half[..HALF - lag]));
    // A noise floor of -40 dB, and a window over the lags.
    correlations[0] *= 1.0001;
    for (lag, value) in (0_u8..).zip(&mut correlations) {
        let narrower = 0.008 * f32::from(lag);
        *value -= *value * narrower * narrower;
    }
    let mut predictor = predictor(&correlations);
    let mut damping = 1.0;
    for coefficient in &mut predictor {
        damping *= 0.9;
        *coefficient *= damping;
    }
    let [a, b, c, d] = predictor;
    let taps = [1.0, a + 0.8, b + 0.8 * a, c + 0.8 * b, d + 0.8 * c, 0.8 * d];
    let mut newest = [0.0; 6];
    half.map(|x| {
        newest.rotate_right(1);
        newest[0] = x;
        dot(&newest, &taps)
    })
}

/// Levinson and Durbin's recursion: the coefficients that predict a signal from its last four samples, negated. Ends at a
/// prediction gain of 30 dB.
fn predictor(correlations: &[f32; 5]) -> [f32; 4] {
    let mut coefficients = [0.0; 4];
    let mut error = correlations[0];
    if error == 0.0 {
        return coefficients;
    }
    for order in 0..4 {
        let known = &coefficients[..order];
        let reflected = known.iter().zip(correlations[1..=order].iter().rev()).map(|(a, r)| a * r).sum::<f32>();
        let reflection = -(reflected + correlations[order + 1]) / error;
        let last = coefficients;
        for (a, reversed) in coefficients[..order].iter_mut().zip(last[..order].iter().rev()) {
            *a += reflection * reversed;
        }
        coefficients[order] = reflection;
        error -= reflection * reflection * error;
        if error < 0.001 * correlations[0] {
            break;
        }
    }
    coefficients
}

/// Where the part that is most like the frame starts, in samples at the full rate.
fn start(half: &[f32; HALF]) -> usize {
    let frame = &half[LONGEST / 2..];
    let quarter: [f32; HALF / 2] = std::array::from_fn(|k| half[2 * k]);
    let of_quarter: [f32; LAGS / 4] =
        std::array::from_fn(|at| dot(&quarter[LONGEST / 4..], &quarter[at..][..FRAME / 4]));
    let candidates = best_two(&of_quarter, &quarter, FRAME / 4);
    let of_half: [f32; LAGS / 2] = std::array::from_fn(|at| {
        let is_near = candidates.iter().any(|candidate| at.abs_diff(2 * candidate) <= 2);
        if is_near { dot(frame, &half[at..][..FRAME / 2]).max(-1.0) } else { 0.0 }
    });
    let [best, _] = best_two(&of_half, half, FRAME / 2);
    let near = best.checked_sub(1).and_then(|before| of_half.get(before..)?.first_chunk());
    (2 * best).saturating_add_signed(-near.map_or(0, |&values| nearer(values)))
}

/// The two parts of `past` with the largest correlations for their power.
fn best_two(correlations: &[f32], past: &[f32], length: usize) -> [usize; 2] {
    // Squared correlation, power and start. Products are compared, not quotients.
    let mut best = [(-1.0, 0.0, 0), (-1.0, 0.0, 1)];
    let mut power = 1.0 + past[..length].iter().map(|y| y * y).sum::<f32>();
    for (at, &correlation) in correlations.iter().enumerate() {
        let squared = correlation * correlation;
        let is_better = |(other, of_other, _): (f32, f32, usize)| squared * of_other > other * power;
        if correlation > 0.0 && is_better(best[1]) {
            best[1] = (squared, power, at);
            if is_better(best[0]) {
                best.swap(0, 1);
            }
        }
        power = (power + past[at + length] * past[at + length] - past[at] * past[at]).max(1.0);
    }
    best.map(|(.., at)| at)
}

/// -1 or 1 if the maximum lies between the middle value and a neighbor, at twice the rate; else 0.
fn nearer([before, middle, after]: [f32; 3]) -> isize {
    if after - before > 0.7 * (middle - before) {
        1
    } else if before - after > 0.7 * (middle - after) {
        -1
    } else {
        0
    }
}

/// With four partial sums, so that the compiler can use SIMD.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (fours, rest) = a.as_chunks::<4>();
    let (others, other_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in fours.iter().zip(others) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let whole: f32 = sums.iter().sum();
    rest.iter().zip(other_rest).fold(whole, |sum, (a, b)| sum + a * b)
}
