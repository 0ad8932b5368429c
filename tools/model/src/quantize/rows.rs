//! Quantization of weight rows: the scale of each row, and the multiplier that converts its sums to the output scale.

use tidegate::Numeric;
use tidegate::internals::{
    image::{GROUP, MAX_FACTOR},
    quant::{MAX, cannot_wrap},
};

use super::covariance::Factor;

/// Greatest integer weight.
const MOST_WEIGHT: f64 = 127.0;
/// Greatest right shift of a sum.
const MOST_SHIFT: f64 = 31.0;
/// Number of scales that are tried for a row of `i4x16` in each octave around that of `i8x16`.
const TRIED_UNITS: i32 = 12;
/// Bits of the fine plane of weights of 16 bits beyond the coarse one.
const FINE_BITS: i32 = 8;
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
}

impl Operand {
    /// The values of an absent part.
    pub const NONE: Self = Self { mean: Vec::new(), variance: Vec::new() };

    /// Values that were not observed: all alike, and uniform over 16 bits.
    pub fn unknown(cols: usize) -> Self {
        let most = f64::from(MAX);
        Self { mean: vec![0.0; cols], variance: vec![most * most / 3.0; cols] }
    }

    /// Values with these means and mean squares, which have this scale.
    pub fn observed(mean: &[f64], square: &[f64], scale: f64) -> Self {
        let all = square.iter().sum::<f64>() / square.len().max(1) as f64;
        let variance = |(mean, square): (&f64, &f64)| {
            // A value that hardly changes in the calibration may change elsewhere, and every value is rounded.
            ((square - mean * mean).max(0.0) + LEAST_SHARE * all) / (scale * scale) + ROUNDED
        };
        let variance = mean.iter().zip(square).map(variance).collect();
        Self { mean: mean.iter().map(|mean| mean / scale).collect(), variance }
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

    /// A scale of the sum of which all products of weights are multiples, if there is one that fits eight bits: the
    /// weights were quantized before. Such weights are kept exactly.
    pub fn exact_unit(&self) -> Option<f64> {
        let magnitudes = || self.weights.iter().map(|weight| f64::from(weight.abs()));
        let most = magnitudes().fold(0.0, f64::max);
        let least = magnitudes().filter(|&weight| weight > most * 1e-4).fold(most, f64::min);
        let is_exact = |step: f64| {
            most / step <= MOST_WEIGHT + 0.5
                && magnitudes().all(|weight| (weight / step - (weight / step).round()).abs() <= 1e-3)
        };
        let powers = (0..8).map(|half| (most / MOST_WEIGHT).log2().ceil().exp2() * f64::from(1 << half));
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
                weights.extend(group.iter().map(|&weight| (nibble(weight, step * by) * by) as i8));
            }
            return (weights, factors);
        }
        let round = |&weight: &f32| (f64::from(weight) / step).round().clamp(-127.0, 127.0) as i8;
        (self.weights.iter().map(round).collect(), Vec::new())
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

/// A four-bit weight with the scale `unit`.
fn nibble(weight: f32, unit: f64) -> f64 {
    (f64::from(weight) / unit).round_ties_even().clamp(-8.0, 7.0)
}

/// The factor of a group of weights with the least expected squared error, and this error. The second slice holds the
/// variances of the values.
fn factor((group, variances): (&[f32], &[f64]), step: f64) -> (i8, f64) {
    let most = group.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
    // Candidates are the least factor with which the greatest weight fits, and half of it.
    let fits = (f64::from(most) / step / 7.5).log2().ceil().clamp(0.0, f64::from(MAX_FACTOR.ilog2())) as u32;
    let lost = |shift: u32| {
        let unit = step * f64::from(1 << shift);
        let error = |&weight: &f32| f64::from(weight) - nibble(weight, unit) * unit;
        (1 << shift, group.iter().map(error).zip(variances).map(|(error, variance)| error * error * variance).sum())
    };
    let (coarse, fine) = (lost(fits), lost(fits.saturating_sub(1)));
    if fine.1 < coarse.1 { fine } else { coarse }
}

/// A quantized row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Weights, in the order of the parts. With 16 bits, these are the coarse planes.
    pub weights: [Vec<i8>; 2],
    /// The fine planes of weights of 16 bits, in the order of the parts; otherwise empty.
    pub fine: [Vec<i8>; 2],
    /// Factor of each group of weights, in `i4x16`.
    pub factors: [Vec<i8>; 2],
    /// The constants of the sum.
    pub sum: Sum,
    /// The constants of the sum over the second part, if each part has its own sum.
    pub second: Option<Sum>,
    /// The real value of an integer weight of 1, for each part.
    pub steps: [f64; 2],
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

/// Quantizes a row whose sum has the scale `to`; of the two parts, `parts[first]` has the finer sum. Of the scales that
/// fit, those with the least loss are taken. `None` if no multiplier is large enough, so that `to` must be coarser.
pub fn row(parts: [Part<'_>; 2], first: usize, bias: f64, to: f64, numeric: Numeric) -> Option<Row> {
    let (fine, coarse) = (parts[first], parts[1 - first]);
    // Below this scale, a sum has no influence on the output.
    let negligible = to / f64::from(1_u32 << 31);
    let (least, unit) = (fine.least_unit(), coarse.least_unit().max(negligible).max(fine.least_unit()));
    // The scales of the two sums differ by a power of two, so the finer or the coarser part loses up to one bit.
    let room = if least > 0.0 { (unit / least).log2().clamp(0.0, MOST_SHIFT) } else { 0.0 };
    let mut scales = vec![[unit, room.floor()]];
    for shift in [room.floor(), room.ceil()] {
        scales.push([unit.max(least * shift.exp2()), shift]);
        let exact = [coarse.exact_unit(), fine.exact_unit().map(|exact| exact * shift.exp2())];
        scales.extend(exact.into_iter().flatten().filter(|&exact| exact >= unit).map(|exact| [exact, shift]));
    }
    let rows = scales.into_iter().filter_map(|scales| fitting(parts, first, scales, bias, to));
    let (row, scales) = rows.min_by(|(a, _), (b, _)| a.loss.total_cmp(&b.loss))?;
    if numeric == Numeric::I4x16 { of_nibbles(parts, first, scales, bias, to) } else { Some(row) }
}

/// A row with these scales, or with the nearest coarser ones with which no sum wraps; and its scales.
fn fitting(
    parts: [Part<'_>; 2],
    first: usize,
    [mut unit, most_shift]: [f64; 2],
    bias: f64,
    to: f64,
) -> Option<(Row, [f64; 2])> {
    loop {
        let mut shift = most_shift;
        loop {
            let row = with_units(parts, first, [unit, shift], bias, to, Numeric::I8x16)?;
            if row.fits(first) {
                return Some((row, [unit, shift]));
            }
            if shift == 0.0 {
                break;
            }
            // Retries with a coarser scale of the finer part.
            shift -= 1.0;
        }
        unit *= 1.0625;
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
fn of_nibbles(parts: [Part<'_>; 2], first: usize, [unit, shift]: [f64; 2], bias: f64, to: f64) -> Option<Row> {
    let units = (-TRIED_UNITS..=TRIED_UNITS).map(|tried| unit * (f64::from(tried) / f64::from(TRIED_UNITS)).exp2());
    let mut tried: Vec<(f64, [f64; 2])> = units
        .flat_map(|unit| [[unit, shift], [unit, (shift - 1.0).max(0.0)]])
        .map(|[unit, shift]| {
            let fine = parts[first].loss_of_nibbles(unit / shift.exp2());
            (fine + parts[1 - first].loss_of_nibbles(unit), [unit, shift])
        })
        .collect();
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rows = tried.into_iter().filter_map(|(_, units)| with_units(parts, first, units, bias, to, Numeric::I4x16));
    rows.into_iter().find(|row| row.fits(first))
}

/// Quantizes a row with given scales. `unit` is the scale of the coarser sum, `2^shift` times that of the finer.
fn with_units(
    parts: [Part<'_>; 2],
    first: usize,
    [unit, shift]: [f64; 2],
    bias: f64,
    to: f64,
    numeric: Numeric,
) -> Option<Row> {
    let mut units = [unit; 2];
    units[first] = unit / shift.exp2();
    let [(a, a_factors), (b, b_factors)] = [0, 1].map(|part| parts[part].quantized(units[part], numeric));
    let (weights, factors) = ([a, b], [a_factors, b_factors]);
    let loss = (0..2).map(|part| parts[part].loss(&weights[part], units[part])).sum();
    let bias = bias + (0..2).map(|part| parts[part].mean_error(&weights[part], units[part])).sum::<f64>();
    let sum = Sum::new(bias, [unit, shift], to)?;
    let steps = [0, 1].map(|part| units[part] / parts[part].scale);
    Some(Row { weights, fine: [Vec::new(), Vec::new()], factors, sum, second: None, steps, loss })
}

/// Quantizes a row of which each part has a sum of its own. `is_wide` is whether the weights have 16 bits. `None` if no
/// multiplier is large enough.
pub fn split(parts: [Part<'_>; 2], bias: f64, to: f64, numeric: Numeric, is_wide: bool) -> Option<Row> {
    let alone = |part: Part<'_>, bias: f64| {
        if is_wide { wide(part, bias, to) } else { row([part, Part::NONE], 0, bias, to, numeric) }
    };
    let [one, two] = [alone(parts[0], bias)?, alone(parts[1], 0.0)?];
    let both = |[a, _]: [Vec<i8>; 2], [b, _]: [Vec<i8>; 2]| [a, b];
    Some(Row {
        weights: both(one.weights, two.weights),
        fine: both(one.fine, two.fine),
        factors: both(one.factors, two.factors),
        sum: one.sum,
        second: Some(two.sum),
        steps: [one.steps[0], two.steps[0]],
        loss: one.loss + two.loss,
    })
}

/// Quantizes a row over one part to weights of 16 bits in two planes of 8 bits.
pub fn wide(part: Part<'_>, bias: f64, to: f64) -> Option<Row> {
    let mut unit = part.least_unit().max(to / f64::from(1_u32 << 31));
    loop {
        for shift in (1..=FINE_BITS).rev().map(f64::from) {
            let (weights, _) = part.quantized(unit, Numeric::I8x16);
            let fine_unit = unit / shift.exp2();
            let rest = part.errors(&weights, unit).map(|error| (error / fine_unit).round().clamp(-127.0, 127.0) as i8);
            let fine: Vec<i8> = rest.collect();
            let left = part.errors(&weights, unit).zip(&fine).map(|(error, &fine)| error - f64::from(fine) * fine_unit);
            let left: Vec<f64> = left.collect();
            let weighed =
                |by: &[f64], power: i32| -> f64 { left.iter().zip(by).map(|(error, by)| error.powi(power) * by).sum() };
            let bias = bias + weighed(&part.operand.mean, 1);
            let sum = Sum::new(bias, [unit, shift], to)?;
            if sum.fits(&fine, &weights) {
                return Some(Row {
                    weights: [weights, Vec::new()],
                    fine: [fine, Vec::new()],
                    factors: [Vec::new(), Vec::new()],
                    sum,
                    second: None,
                    steps: [unit / part.scale, 1.0],
                    loss: weighed(&part.operand.variance, 2),
                });
            }
        }
        unit *= 1.0625;
    }
}

/// Rounding that compensates the error of each weight by other weights. `covers` says which parts the factor includes.
#[derive(Clone, Copy, Debug)]
pub struct Rounding<'a> {
    /// The factor of the covariance.
    pub factor: &'a Factor,
    /// Whether each part is included.
    pub covers: [bool; 2],
}

impl Row {
    /// This row with the same scales and weights that compensate each other's errors; the row itself if that does not
    /// fit. `first` is the finer part, or `None` if each part has its own sum.
    pub fn compensated(
        self,
        parts: [Part<'_>; 2],
        first: Option<usize>,
        bias: f64,
        to: f64,
        numeric: Numeric,
        rounding: Rounding<'_>,
    ) -> Self {
        if self.fine.iter().any(|fine| !fine.is_empty()) {
            return self;
        }
        let mut row = self.clone();
        let units = [0, 1].map(|part| self.steps[part] * parts[part].scale);
        let covered = (0..2).filter(|&part| rounding.covers[part]);
        let covered: Vec<(usize, usize)> =
            covered.flat_map(|part| (0..parts[part].weights.len()).map(move |col| (part, col))).collect();
        let exact = covered.iter().map(|&(part, col)| f64::from(parts[part].weights[col]) * parts[part].scale);
        rounding.factor.round(&exact.collect::<Vec<f64>>(), |at, weight| {
            let (part, col) = covered[at];
            let unit = units[part];
            let integer = if numeric == Numeric::I4x16 {
                let by = f64::from(self.factors[part].get(col / GROUP).copied().unwrap_or(1));
                (weight / (unit * by)).round_ties_even().clamp(-8.0, 7.0) * by
            } else {
                (weight / unit).round().clamp(-127.0, 127.0)
            };
            row.weights[part][col] = integer as i8;
            integer * unit
        });
        let mean = [0, 1].map(|part| parts[part].mean_error(&row.weights[part], units[part]));
        let fits = match first {
            Some(first) => {
                let unit = units[1 - first];
                // A part without weights has no unit of its own.
                let unit = if parts[1 - first].weights.is_empty() {
                    units[first] * f64::from(self.sum.shift).exp2()
                } else {
                    unit
                };
                Sum::new(bias + mean[0] + mean[1], [unit, self.sum.shift.into()], to).filter(|sum| {
                    row.sum = *sum;
                    row.fits(first)
                })
            }
            None => {
                let sums = [Sum::new(bias + mean[0], [units[0], 0.0], to), Sum::new(mean[1], [units[1], 0.0], to)];
                match sums {
                    [Some(one), Some(two)] => {
                        (row.sum, row.second) = (one, Some(two));
                        (one.fits(&row.weights[0], &[]) && two.fits(&row.weights[1], &[])).then_some(one)
                    }
                    _ => None,
                }
            }
        };
        if fits.is_some() { row } else { self }
    }

    /// Whether no input can make the sum of both parts wrap.
    fn fits(&self, first: usize) -> bool {
        self.sum.fits(&self.weights[first], &self.weights[1 - first])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_its_sum_in_the_unit_asked_for() {
        let (input, recurrent) = ([0.5, -0.25, 0.125], [0.003, -0.001]);
        let operands = (Operand::unknown(3), Operand::unknown(2));
        let parts = (
            Part { weights: &input, scale: 0.01, operand: &operands.0 },
            Part { weights: &recurrent, scale: 1.0 / 32768.0, operand: &operands.1 },
        );
        let (x, h, to) = ([1000.0, -2000.0, 500.0], [30000.0, 20000.0], 1.0 / 4096.0);
        let row = row([parts.0, parts.1], 1, 0.75, to, Numeric::I8x16).unwrap();
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
        let row = row([part, Part::NONE], 0, 0.0, 1.0 / 4096.0, Numeric::I8x16).unwrap();
        assert!(row.fits(0) && row.weights[0][0] < 127 && row.weights[0][0] > 0);
    }

    #[test]
    fn where_a_greater_shift_is_too_coarse_the_smaller_one_is_taken() {
        // To be 2^2 of the other's least scale, this scale would grow by 2^0.4, and the scale of the sum would exceed
        // half of 1.
        let (coarse, fine) = ([0.45 * 127.0], [0.45 * 127.0 * 2.0_f32.powf(-1.6)]);
        let operand = Operand::unknown(1);
        let part = |weights| Part { weights, scale: 1.0, operand: &operand };
        for (parts, first) in [([part(&coarse), part(&fine)], 1), ([part(&fine), part(&coarse)], 0)] {
            assert_eq!(row(parts, first, 0.0, 1.0, Numeric::I8x16).unwrap().sum.shift, 1);
        }
        assert_eq!(better([None, None]), None);
    }

    #[test]
    fn the_order_that_loses_less_is_taken_and_of_equals_the_input_first() {
        let of = |loss| {
            let part = Part { weights: &[1.0], scale: 1.0, operand: &Operand::unknown(1) };
            let row = row([part, Part::NONE], 0, 0.0, 1.0, Numeric::I8x16).unwrap();
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
        assert_eq!(row([part, Part::NONE], 0, 0.0, 1.0, Numeric::I8x16), None);
    }
}
