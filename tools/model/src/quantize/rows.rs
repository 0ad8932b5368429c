//! Quantization of weight rows: the scale of each row, and the multiplier that converts its sums to the output scale.
//!
//! `scale` is the unit of a value, `step` that of a weight, and `unit` = `step` · `scale` that of a sum. Of two parts, the
//! finer one has the smaller unit.

use tidegate::Numeric;
use tidegate::internals::{
    image::{GROUP, MAX_FACTOR},
    quant::{MAX, cannot_wrap},
};

use super::covariance::Factor;
use super::draw::{Draw, Finest};

/// Greatest integer weight.
pub const MOST_WEIGHT: f64 = 127.0;
/// Step of a grid on which the greatest weight is 128, relative to the least step that fits it; 128 is clipped to 127.
const LEAST_CLIPPED: f64 = MOST_WEIGHT / (MOST_WEIGHT + 1.0) - 1e-6;
/// Greatest right shift of a sum.
const MOST_SHIFT: f64 = 31.0;
/// Number of scales that are tried for a row of `i4x16` in each octave around that of `i8x16`.
const TRIED_UNITS: i32 = 12;
/// Greatest shift between the two planes of weights.
const FINE_BITS: i32 = 8;
/// The factor by which a scale grows until no sum wraps.
const COARSER: f64 = 1.0625;
/// Limit of starts and multipliers.
const MOST_SUM: f64 = 2_147_483_647.0;
/// The least variance of a value, as a share of the mean square of all values of its part.
const LEAST_SHARE: f64 = 1e-3;
/// The variance of a value that is rounded to an integer.
const ROUNDED: f64 = 1.0 / 12.0;

/// One of the two products of a row: its weights, and the values that they are multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The weights of one row.
    pub weights: &'a [f32],
    /// The scale of the values.
    pub scale: f64,
    /// The mean and the variance of each value.
    pub operand: &'a Operand,
}

/// The mean and the variance of the values that the columns of a matrix are multiplied by, in units of their scale.
#[derive(Clone, Debug, Default)]
pub struct Operand {
    mean: Vec<f64>,
    variance: Vec<f64>,
    /// Whether the scales of weights minimize the expected error of the sum, because calibration observed the values or a
    /// search on its data judges the result.
    is_observed: bool,
}

impl Operand {
    /// The values of an absent part.
    pub const NONE: Self = Self { mean: Vec::new(), variance: Vec::new(), is_observed: false };

    /// Values that were not observed: all alike, and uniform over 16 bits.
    pub fn unknown(cols: usize) -> Self {
        let most = f64::from(MAX);
        Self { mean: vec![0.0; cols], variance: vec![most * most / 3.0; cols], is_observed: false }
    }

    /// [`unknown`](Self::unknown) values for a search that judges the result on calibration data.
    pub fn unweighed(cols: usize) -> Self {
        Self { is_observed: true, ..Self::unknown(cols) }
    }

    /// Values with these means and mean squares, which have this scale.
    pub fn observed(mean: &[f64], square: &[f64], scale: f64) -> Self {
        let all = square.iter().sum::<f64>() / square.len().max(1) as f64;
        let variance = |(mean, square): (&f64, &f64)| {
            // A value that hardly changes in the calibration may change elsewhere, and every value is rounded.
            ((square - mean * mean).max(0.0) + LEAST_SHARE * all) / (scale * scale) + ROUNDED
        };
        let variance = mean.iter().zip(square).map(variance).collect();
        Self { mean: mean.iter().map(|mean| mean / scale).collect(), variance, is_observed: true }
    }
}

impl Part<'_> {
    /// An absent part.
    pub const NONE: Self = Self { weights: &[], scale: 1.0, operand: &Operand::NONE };

    /// The least scale of the sum with which the greatest weight fits eight bits.
    fn least_unit(&self) -> f64 {
        let most = self.weights.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
        f64::from(most) / MOST_WEIGHT * self.scale
    }

    /// A scale of the sum such that all products of weights are multiples of it and fit eight bits, if there is one: the
    /// weights were quantized before. Such weights are kept exactly.
    pub fn exact_unit(&self) -> Option<f64> {
        let magnitudes = || self.weights.iter().map(|weight| f64::from(weight.abs()));
        let most = magnitudes().fold(0.0, f64::max);
        let least = magnitudes().filter(|&weight| weight > most * 1e-4).fold(most, f64::min);
        let is_exact = |step: f64| {
            most / step <= MOST_WEIGHT + 1.0 + 1e-3
                && magnitudes().all(|weight| (weight / step - (weight / step).round()).abs() <= 1e-3)
        };
        let powers = (0..8).map(|half| (most / (MOST_WEIGHT + 1.0)).log2().ceil().exp2() * f64::from(1 << half));
        let steps = (1..=4).map(|share| least / f64::from(share)).chain(powers);
        (most > 0.0)
            .then(|| steps.filter(|&step| is_exact(step)).fold(0.0, f64::max))
            .filter(|&step| step > 0.0)
            .map(|step| step * self.scale)
    }

    /// The integer weights, and in `i4x16` the factor of each group.
    fn quantized(&self, unit: f64, numeric: Numeric) -> (Vec<i8>, Vec<i8>) {
        let step = unit / self.scale;
        if numeric == Numeric::I4x16 {
            let groups = || self.weights.chunks(GROUP).zip(self.operand.variance.chunks(GROUP));
            let factors: Vec<i8> = groups().map(|group| factor(group, step).0).collect();
            let mut weights = Vec::with_capacity(self.weights.len());
            for (group, &factor) in self.weights.chunks(GROUP).zip(&factors) {
                let by = f64::from(factor);
                // -8 · 16 = -128 is the least i8.
                weights.extend(group.iter().map(|&weight| (nibble(weight.into(), step * by) * by) as i8));
            }
            return (weights, factors);
        }
        (self.weights.iter().map(|&weight| byte(weight.into(), step) as i8).collect(), Vec::new())
    }

    /// [`loss`](Self::loss) in `i4x16`.
    fn loss_of_nibbles(&self, unit: f64) -> f64 {
        let groups = self.weights.chunks(GROUP).zip(self.operand.variance.chunks(GROUP));
        groups.map(|group| factor(group, unit / self.scale).1).sum::<f64>() * self.scale * self.scale
    }

    /// The error of each product's factor: how far the weights are from the quantized ones, times the scale of the
    /// values.
    fn errors(&self, quantized: &[i8], unit: f64) -> impl Iterator<Item = f64> {
        let error = move |(&weight, &integer): (&f32, &i8)| f64::from(weight) * self.scale - f64::from(integer) * unit;
        self.weights.iter().zip(quantized).map(error)
    }

    /// The expected squared error of the sum, besides its mean.
    fn loss(&self, quantized: &[i8], unit: f64) -> f64 {
        self.errors(quantized, unit).zip(&self.operand.variance).map(|(error, variance)| error * error * variance).sum()
    }

    /// The mean error of the sum, which the start corrects.
    fn mean_error(&self, quantized: &[i8], unit: f64) -> f64 {
        self.errors(quantized, unit).zip(&self.operand.mean).map(|(error, mean)| error * mean).sum()
    }
}

/// An eight-bit weight with the scale `unit`.
fn byte(weight: f64, unit: f64) -> f64 {
    (weight / unit).round().clamp(-MOST_WEIGHT, MOST_WEIGHT)
}

/// A four-bit weight with the scale `unit`. A sum with this constant has no fraction, so that it is rounded to the nearest
/// even number, several times as fast as by `round_ties_even` without SSE4.1.
fn nibble(weight: f64, unit: f64) -> f64 {
    const WHOLE: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52
    ((weight / unit).clamp(-8.0, 7.0) + WHOLE) - WHOLE
}

/// The factor of a group of weights with the least expected squared error, and this error. The second slice holds the
/// variances of the values.
fn factor((group, variances): (&[f32], &[f64]), step: f64) -> (i8, f64) {
    let most = group.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
    // Candidates are the least factor with which the greatest weight fits, and half of it.
    let fits = (f64::from(most) / step / 7.5).log2().ceil().clamp(0.0, f64::from(MAX_FACTOR.ilog2())) as u32;
    let lost = |shift: u32| {
        let unit = step * f64::from(1 << shift);
        let error = |&weight: &f32| f64::from(weight) - nibble(weight.into(), unit) * unit;
        (1 << shift, group.iter().map(error).zip(variances).map(|(error, variance)| error * error * variance).sum())
    };
    let (coarse, fine) = (lost(fits), lost(fits.saturating_sub(1)));
    if fine.1 < coarse.1 { fine } else { coarse }
}

/// A quantized row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Weights, in the order of the parts. Of [`wide`] weights these are the coarse planes.
    pub weights: [Vec<i8>; 2],
    /// The fine planes of [`wide`] weights, in the order of the parts; otherwise empty.
    pub fine: [Vec<i8>; 2],
    /// Factor of each group of weights, in `i4x16`.
    pub factors: [Vec<i8>; 2],
    /// The same for the fine planes.
    pub fine_factors: [Vec<i8>; 2],
    /// The constants of the sum.
    pub sum: Sum,
    /// The constants of the sum over the second part, if each part has its own sum.
    pub second: Option<Sum>,
    /// The real value of an integer weight of 1, for each part.
    pub steps: [f64; 2],
    /// The scale of the complete sum.
    unit: f64,
    /// The expected squared error of the sum that comes from rounding the weights.
    pub loss: f64,
}

/// The constants of a requantized sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Initial value of the finer sum: the bias, and corrections for rounding down and for the mean error of the weights.
    pub start: i32,
    /// Converts the sum to the output scale, divided by 2^32.
    pub multiplier: i32,
    /// Right shift of the finer sum.
    pub shift: u8,
}

impl Sum {
    /// A sum in units of `unit`, whose finer part has `2^shift` times as many, and starts from `bias`. `None` if no
    /// multiplier is large enough.
    fn new(bias: f64, [unit, shift]: [f64; 2], to: f64) -> Option<Self> {
        let multiplier = (unit / to * 4_294_967_296.0).round();
        if multiplier >= MOST_SUM {
            return None;
        }
        let multiplier = multiplier.max(1.0);
        // The shift rounds to nearest, the multiplication rounds down: half a unit, on average.
        let half = if shift > 0.0 { (shift - 1.0).exp2() } else { 0.0 };
        let lost = f64::from(1_u32 << 31) / multiplier * shift.exp2();
        let start = (bias / unit * shift.exp2() + half + lost).round().clamp(-MOST_SUM, MOST_SUM) as i32;
        Some(Self { start, multiplier: multiplier as i32, shift: shift as u8 })
    }

    /// Whether no input can make the sum wrap.
    fn fits(self, fine: &[i8], coarse: &[i8]) -> bool {
        let sum = |weights: &[i8]| weights.iter().map(|weight| u64::from(weight.unsigned_abs())).sum();
        // A clipped start is not valid.
        self.start.abs() < i32::MAX && cannot_wrap(self.start, self.shift, sum(fine), sum(coarse))
    }
}

/// The target of a row.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The term that is added to the sums.
    pub bias: f64,
    /// The scale of the result.
    pub to: f64,
    /// The numeric of the weights.
    pub numeric: Numeric,
    /// How the weights are rounded.
    pub draw: Draw,
}

/// Quantizes a row; of the two parts, `parts[first]` has the finer sum. Takes the scales with the least loss among those
/// that fit. `None` if no multiplier is large enough, so that the result must be coarser.
pub fn row(parts: [Part<'_>; 2], first: usize, target: Target) -> Option<Row> {
    let (fine, coarse) = (parts[first], parts[1 - first]);
    let least = fine.least_unit() * target.draw.grid;
    let unit = (coarse.least_unit() * target.draw.grid).max(target.negligible()).max(least);
    // The scales of the two sums differ by a power of two, so one part is stored up to one bit coarser than its weights
    // allow. Without observed values, either part may lose up to half a bit.
    let room = if least > 0.0 { (unit / least).log2().clamp(0.0, MOST_SHIFT) } else { 0.0 };
    let is_observed = parts.iter().any(|part| part.operand.is_observed);
    let mut shifts = match target.draw.finest {
        Finest::Better if is_observed => vec![room.floor(), room.ceil()],
        Finest::Better => vec![room.round()],
        Finest::Coarse => vec![room.floor()],
        Finest::Fine => vec![room.ceil()],
    };
    let exact = [coarse, fine].map(|part| part.exact_unit());
    // The shift with which both parts are exact.
    if let ([Some(coarse), Some(fine)], Finest::Better) = (exact, target.draw.finest) {
        let shift = (coarse / fine).log2();
        if (shift - shift.round()).abs() < 1e-6 && (0.0..=MOST_SHIFT).contains(&shift.round()) {
            shifts.push(shift.round());
        }
    }
    let scales = shifts.into_iter().flat_map(|shift| {
        let exact = [exact[0], exact[1].map(|exact| exact * shift.exp2())];
        // The least weight of 8 bits, -128, is clipped to -127.
        let exact = exact.into_iter().flatten().filter(|&exact| exact >= unit * LEAST_CLIPPED);
        [unit.max(least * shift.exp2())].into_iter().chain(exact).map(move |unit| [unit, shift])
    });
    let rows = scales.filter_map(|scales| fitting(parts, first, scales, target));
    let (row, scales) = rows.min_by(|(a, _), (b, _)| a.loss.total_cmp(&b.loss))?;
    if target.numeric == Numeric::I4x16 { of_nibbles(parts, first, scales, target) } else { Some(row) }
}

/// [`row`] with scales that were chosen before, for other weights. Chooses new scales if the sum could wrap with them.
pub fn fixed(parts: [Part<'_>; 2], first: usize, scales: [f64; 2], target: Target) -> Option<Row> {
    let row = with_units(parts, first, scales, target).filter(|row| row.fits(first));
    row.or_else(|| self::row(parts, first, target))
}

impl Target {
    /// The scale below which a sum has no influence on the result.
    fn negligible(self) -> f64 {
        self.to / f64::from(1_u32 << 31)
    }
}

/// A row with these scales, or with the nearest coarser scales with which no sum wraps, and the scales used.
fn fitting(
    parts: [Part<'_>; 2],
    first: usize,
    [mut unit, most_shift]: [f64; 2],
    target: Target,
) -> Option<(Row, [f64; 2])> {
    let target = Target { numeric: Numeric::I8x16, ..target };
    loop {
        let mut shift = most_shift;
        loop {
            let row = with_units(parts, first, [unit, shift], target)?;
            if row.fits(first) {
                return Some((row, [unit, shift]));
            }
            if shift == 0.0 {
                break;
            }
            // Retries with a coarser scale of the finer part.
            shift -= 1.0;
        }
        unit *= COARSER;
    }
}

/// The rows with the smaller loss of the two choices for the finer part, and the index of that part. `None` if neither
/// choice is possible.
pub fn better(orders: [Option<Vec<Row>>; 2]) -> Option<(Vec<Row>, usize)> {
    let loss = |rows: &[Row]| rows.iter().map(|row| row.loss).sum::<f64>();
    let orders = orders.into_iter().enumerate().filter_map(|(first, rows)| Some((rows?, first)));
    orders.min_by(|(a, _), (b, _)| loss(a).total_cmp(&loss(b)))
}

/// [`row`] in `i4x16`: tries scales near those of `i8x16`, and returns the fitting one with the least loss.
fn of_nibbles(parts: [Part<'_>; 2], first: usize, [unit, shift]: [f64; 2], target: Target) -> Option<Row> {
    let units = (-TRIED_UNITS..=TRIED_UNITS).map(|tried| unit * (f64::from(tried) / f64::from(TRIED_UNITS)).exp2());
    let mut tried: Vec<(f64, [f64; 2])> = units
        .flat_map(|unit| {
            let coarse = parts[1 - first].loss_of_nibbles(unit);
            [shift, (shift - 1.0).max(0.0)].map(|shift| {
                let fine = parts[first].loss_of_nibbles(unit / shift.exp2());
                (fine + coarse, [unit, shift])
            })
        })
        .collect();
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rows = tried.into_iter().filter_map(|(_, units)| with_units(parts, first, units, target));
    rows.into_iter().find(|row| row.fits(first))
}

/// Quantizes a row with given scales. `unit` is the scale of the coarser sum, `2^shift` times that of the finer.
fn with_units(parts: [Part<'_>; 2], first: usize, [unit, shift]: [f64; 2], target: Target) -> Option<Row> {
    let mut units = [unit; 2];
    units[first] = unit / shift.exp2();
    let [(a, a_factors), (b, b_factors)] = [0, 1].map(|part| parts[part].quantized(units[part], target.numeric));
    let (weights, factors) = ([a, b], [a_factors, b_factors]);
    let loss = (0..2).map(|part| parts[part].loss(&weights[part], units[part])).sum();
    let mean = (0..2).map(|part| parts[part].mean_error(&weights[part], units[part])).sum::<f64>();
    let sum = Sum::new(target.bias + mean, [unit, shift], target.to)?;
    let steps = [0, 1].map(|part| units[part] / parts[part].scale);
    let none = || [Vec::new(), Vec::new()];
    Some(Row { weights, fine: none(), factors, fine_factors: none(), sum, second: None, steps, unit, loss })
}

/// Quantizes a row to [`wide`] weights; each part has a sum of its own. `None` if no multiplier is large enough.
pub fn wide_pair(parts: [Part<'_>; 2], target: Target) -> Option<Row> {
    let [one, two] = [wide(parts[0], target)?, wide(parts[1], Target { bias: 0.0, ..target })?];
    let both = |[a, _]: [Vec<i8>; 2], [b, _]: [Vec<i8>; 2]| [a, b];
    Some(Row {
        weights: both(one.weights, two.weights),
        fine: both(one.fine, two.fine),
        factors: both(one.factors, two.factors),
        fine_factors: both(one.fine_factors, two.fine_factors),
        sum: one.sum,
        second: Some(two.sum),
        steps: [one.steps[0], two.steps[0]],
        unit: one.unit,
        loss: one.loss + two.loss,
    })
}

/// Quantizes a row over one part to weights in two planes: twice the bits of the numeric's weights. `None` if no multiplier
/// is large enough.
pub fn wide(part: Part<'_>, target: Target) -> Option<Row> {
    let numeric = target.numeric;
    let mut unit = part.least_unit().max(target.negligible());
    loop {
        let (weights, factors) = part.quantized(unit, numeric);
        // The rest that the coarse plane leaves.
        let rest: Vec<f32> = part.errors(&weights, unit).map(|error| (error / part.scale) as f32).collect();
        let rest = Part { weights: &rest, ..part };
        let rows = (1..=FINE_BITS).map(f64::from).filter_map(|shift| {
            let fine_unit = unit / shift.exp2();
            let (fine, fine_factors) = rest.quantized(fine_unit, numeric);
            let sum = Sum::new(target.bias + rest.mean_error(&fine, fine_unit), [unit, shift], target.to)?;
            let loss = rest.loss(&fine, fine_unit);
            Some(Row {
                loss,
                weights: [weights.clone(), Vec::new()],
                fine: [fine, Vec::new()],
                factors: [factors.clone(), Vec::new()],
                fine_factors: [fine_factors, Vec::new()],
                sum,
                second: None,
                steps: [unit / part.scale, 1.0],
                unit,
            })
        });
        let fitting = rows.filter(|row| row.sum.fits(&row.fine[0], &row.weights[0]));
        if let Some(row) = fitting.min_by(|a, b| a.loss.total_cmp(&b.loss)) {
            return Some(row);
        }
        // Ends where even one step is too coarse for the result.
        Sum::new(target.bias, [unit, 0.0], target.to)?;
        unit *= COARSER;
    }
}

impl Row {
    /// The scale of the complete sum, and the shift of its finer part.
    pub fn scales(&self) -> [f64; 2] {
        [self.unit, self.sum.shift.into()]
    }

    /// This row with the same scales and weights that compensate each other's errors; the row itself if that does not
    /// fit, or if it has [`wide`] weights. `first` is the finer part. `covers` says which parts the factor includes.
    pub fn compensated(
        self,
        parts: [Part<'_>; 2],
        first: usize,
        target: Target,
        (factor, covers): (&Factor, [bool; 2]),
    ) -> Self {
        if self.fine.iter().any(|fine| !fine.is_empty()) {
            return self;
        }
        let mut row = self.clone();
        let units = [0, 1].map(|part| self.steps[part] * parts[part].scale);
        let covered = (0..2).filter(|&part| covers[part]);
        let covered: Vec<(usize, usize)> =
            covered.flat_map(|part| (0..parts[part].weights.len()).map(move |col| (part, col))).collect();
        let exact = covered.iter().map(|&(part, col)| f64::from(parts[part].weights[col]) * parts[part].scale);
        factor.round(&exact.collect::<Vec<f64>>(), |at, weight| {
            let ((part, col), unit) = (covered[at], units[covered[at].0]);
            let integer = match self.factors[part].get(col / GROUP) {
                Some(&by) => nibble(weight, unit * f64::from(by)) * f64::from(by),
                None => byte(weight, unit),
            };
            row.weights[part][col] = integer as i8;
            integer * unit
        });
        let [one, two] = [0, 1].map(|part| parts[part].mean_error(&row.weights[part], units[part]));
        let shift = f64::from(self.sum.shift);
        let sum = Sum::new(target.bias + one + two, [self.unit, shift], target.to);
        let fits = sum.is_some_and(|sum| {
            row.sum = sum;
            row.fits(first)
        });
        if fits { row } else { self }
    }

    /// Whether no input can make the sum of both parts wrap.
    fn fits(&self, first: usize) -> bool {
        self.sum.fits(&self.weights[first], &self.weights[1 - first])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(to: f64) -> Target {
        Target { bias: 0.0, to, numeric: Numeric::I8x16, draw: Draw::new(0, 0, 1.0) }
    }

    #[test]
    fn a_row_gives_its_sum_in_the_unit_asked_for() {
        let (input, recurrent) = ([0.5, -0.25, 0.125], [0.003, -0.001]);
        let operands = (Operand::unknown(3), Operand::unknown(2));
        let parts = (
            Part { weights: &input, scale: 0.01, operand: &operands.0 },
            Part { weights: &recurrent, scale: 1.0 / 32768.0, operand: &operands.1 },
        );
        let (x, h, to) = ([1000.0, -2000.0, 500.0], [30000.0, 20000.0], 1.0 / 4096.0);
        let row =
            row([parts.0, parts.1], 1, Target { bias: 0.75, to, numeric: Numeric::I8x16, draw: Draw::new(0, 0, 1.0) })
                .unwrap();
        assert!(row.sum.shift > 0 && row.fits(1));
        let sum = |weights: &[i8], x: &[f64]| weights.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum::<f64>() as i64;
        let total = ((i64::from(row.sum.start) + sum(&row.weights[1], &h)) >> row.sum.shift) + sum(&row.weights[0], &x);
        let got = (total * i64::from(row.sum.multiplier)) >> 32;
        let exact: f64 = 0.75
            + input.iter().zip(x).map(|(w, x)| f64::from(*w) * x * 0.01).sum::<f64>()
            + recurrent.iter().zip(h).map(|(w, h)| f64::from(*w) * h / 32768.0).sum::<f64>();
        // At most half a step for each weight.
        let bound = 0.5 / 127.0 * (0.5 * 35.0 + 0.003 * 1.6) * 2.0_f64.sqrt() / to;
        assert!((got as f64 - exact / to).abs() <= bound + 1.0, "{got} is not {}", exact / to);
    }

    #[test]
    fn rows_that_would_wrap_are_made_coarser() {
        let weights = vec![1.0_f32; 1 << 16];
        let part = Part { weights: &weights, scale: 1.0 / 32768.0, operand: &Operand::unknown(weights.len()) };
        let row = row([part, Part::NONE], 0, target(1.0 / 4096.0)).unwrap();
        assert!(row.fits(0) && row.weights[0][0] < 127 && row.weights[0][0] > 0);
    }

    #[test]
    fn where_one_order_is_too_fine_the_other_is_taken() {
        // To be 2^k of the other's least scale, this scale would grow by 2^0.4, and the scale of the sum would exceed
        // half of 1.
        let (coarse, fine) = ([0.45 * 127.0], [0.45 * 127.0 * 2.0_f32.powf(-1.6)]);
        let operand = Operand::unknown(1);
        let part = |weights| Part { weights, scale: 1.0, operand: &operand };
        for (parts, fits) in [([part(&coarse), part(&fine)], 0), ([part(&fine), part(&coarse)], 1)] {
            let rows = [0, 1].map(|first| row(parts, first, target(1.0)).map(|row| vec![row]));
            assert!(rows[fits].is_some() && rows[1 - fits].is_none());
            assert_eq!(better(rows).unwrap().1, fits);
        }
        assert_eq!(better([None, None]), None);
    }

    /// The calibration shows which part counts, and that part keeps its scale.
    #[test]
    fn the_part_that_counts_keeps_its_scale() {
        // On no grid, and the last weight has the greatest magnitude.
        let weights = |most: f32| -> Vec<f32> { (1..=101).map(|k| (k as f32 / 101.0).sqrt() * most).collect() };
        let (input, recurrent) = (weights(1.0), weights(1.5));
        for loud in [0, 1] {
            let operands = [0, 1].map(|part| {
                let square = if part == loud { 1e8 } else { 1.0 };
                Operand::observed(&[0.0; 101], &[square; 101], 1.0)
            });
            let parts = [
                Part { weights: &input, scale: 1.0, operand: &operands[0] },
                Part { weights: &recurrent, scale: 1.0, operand: &operands[1] },
            ];
            let rows = [0, 1].map(|first| row(parts, first, target(1.0)).map(|row| vec![row]));
            let step = better(rows).unwrap().0[0].steps[loud];
            let least = [1.0, 1.5][loud] / 127.0;
            assert!((step / least - 1.0).abs() < 1e-6, "part {loud}: {step} is not {least}");
        }
    }

    #[test]
    fn the_order_that_loses_less_is_taken_and_of_equals_the_input_first() {
        let of = |loss| {
            let part = Part { weights: &[1.0], scale: 1.0, operand: &Operand::unknown(1) };
            let row = row([part, Part::NONE], 0, target(1.0)).unwrap();
            Some(vec![Row { loss, ..row }])
        };
        let taken = |orders| better(orders).map(|(_, first)| first);
        assert_eq!(
            [taken([of(1.0), of(2.0)]), taken([of(2.0), of(1.0)]), taken([of(1.0), of(1.0)])],
            [Some(0), Some(1), Some(0)]
        );
    }

    #[test]
    fn a_unit_that_is_too_fine_is_not_given() {
        let part = Part { weights: &[127.0], scale: 1.0, operand: &Operand::unknown(1) };
        assert_eq!(row([part, Part::NONE], 0, target(1.0)), None);
    }
}
