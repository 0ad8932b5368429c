//! Quantization of weight rows: the scale of each row, and the multiplier that converts its sums to the output scale.

use tidegate::Numeric;
use tidegate::internals::{
    image::{GROUP, MAX_FACTOR},
    quant::cannot_wrap,
};

/// Greatest integer weight.
const MOST_WEIGHT: f64 = 127.0;
/// Greatest right shift of a sum.
const MOST_SHIFT: f64 = 31.0;
/// Number of scales that are tried for a row of `i4x16` in each octave around that of `i8x16`.
const TRIED_UNITS: i32 = 12;
/// Limit of starts and multipliers.
const MOST_SUM: f64 = 2_147_483_647.0;

/// One of the two products of a row: its weights and the scale of the values that they are multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The weights of one row.
    pub weights: &'a [f32],
    /// The scale of the values.
    pub scale: f64,
}

impl Part<'_> {
    /// An absent part.
    pub const NONE: Self = Self { weights: &[], scale: 1.0 };

    /// The least scale of the sum with which the greatest weight fits eight bits.
    fn least_unit(&self) -> f64 {
        let most = self.weights.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
        f64::from(most) / MOST_WEIGHT * self.scale
    }

    /// The integer weights, and in `i4x16` the factor of each group.
    fn quantized(&self, unit: f64, numeric: Numeric) -> (Vec<i8>, Vec<i8>) {
        let step = unit / self.scale;
        if numeric == Numeric::I4x16 {
            let factors: Vec<i8> = self.weights.chunks(GROUP).map(|group| factor(group, step).0).collect();
            let mut weights = Vec::with_capacity(self.weights.len());
            for (group, &factor) in self.weights.chunks(GROUP).zip(&factors) {
                let by = f64::from(factor);
                // -8 · 16 is the least value of eight bits.
                weights.extend(group.iter().map(|&weight| (nibble(weight, step * by) * by) as i8));
            }
            return (weights, factors);
        }
        let round = |&weight: &f32| (f64::from(weight) / step).round().clamp(-127.0, 127.0) as i8;
        (self.weights.iter().map(round).collect(), Vec::new())
    }

    /// [`loss`](Self::loss) in `i4x16`.
    fn loss_of_nibbles(&self, unit: f64) -> f64 {
        let lost = self.weights.chunks(GROUP).map(|group| factor(group, unit / self.scale).1);
        lost.sum::<f64>() * self.scale * self.scale
    }

    /// The squared error of the quantized weights, times the squared scale of the values that they are multiplied by.
    fn loss(&self, quantized: &[i8], unit: f64) -> f64 {
        let far = |(&weight, &integer): (&f32, &i8)| f64::from(weight) * self.scale - f64::from(integer) * unit;
        self.weights.iter().zip(quantized).map(far).map(|far| far * far).sum()
    }
}

/// A four-bit weight with the scale `unit`.
fn nibble(weight: f32, unit: f64) -> f64 {
    (f64::from(weight) / unit).round_ties_even().clamp(-8.0, 7.0)
}

/// The factor of a group with the least squared error, and this error.
fn factor(group: &[f32], step: f64) -> (i8, f64) {
    let most = group.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
    // Candidates are the least factor with which the greatest weight fits, and half of it.
    let fits = (f64::from(most) / step / 7.5).log2().ceil().clamp(0.0, f64::from(MAX_FACTOR.ilog2())) as u32;
    let lost = |shift: u32| {
        let unit = step * f64::from(1 << shift);
        let far = |&weight: &f32| f64::from(weight) - nibble(weight, unit) * unit;
        (1 << shift, group.iter().map(far).map(|far| far * far).sum())
    };
    let (coarse, fine) = (lost(fits), lost(fits.saturating_sub(1)));
    if fine.1 < coarse.1 { fine } else { coarse }
}

/// A quantized row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Weights, in the order of the parts.
    pub weights: [Vec<i8>; 2],
    /// Factor of each group of weights, in `i4x16`.
    pub factors: [Vec<i8>; 2],
    /// Initial value of the finer sum: the bias, and a correction for rounding down.
    pub start: i32,
    /// Converts the sum to the output scale, divided by 2^32.
    pub multiplier: i32,
    /// Right shift of the finer sum.
    pub shift: u8,
    /// The real value of an integer weight of 1, for each part.
    pub steps: [f64; 2],
    /// The squared error of the weights, in units of the sum.
    pub loss: f64,
}

/// Quantizes a row whose sum has the scale `to`; of the two parts, `parts[first]` has the finer sum. `None` if no
/// multiplier is large enough, so that `to` must be coarser.
pub fn row(parts: [Part<'_>; 2], first: usize, bias: f64, to: f64, numeric: Numeric) -> Option<Row> {
    let (fine, coarse) = (parts[first], parts[1 - first]);
    // Below this scale, a sum has no influence on the output.
    let negligible = to / f64::from(1_u32 << 31);
    let (least, mut unit) = (fine.least_unit(), coarse.least_unit().max(negligible).max(fine.least_unit()));
    loop {
        // Either the finer or the coarser part loses up to half a bit.
        let room = if least > 0.0 { (unit / least).log2() } else { 0.0 };
        let (down, up) = (room.floor(), room.ceil());
        let (whole, mut shift) = if room - down <= 0.5 { (unit, down) } else { (least * up.exp2(), up) };
        shift = shift.clamp(0.0, MOST_SHIFT);
        loop {
            let row = with_units(parts, first, [whole, shift], bias, to, Numeric::I8x16)?;
            if row.fits(first) {
                let nibbles = numeric == Numeric::I4x16;
                return if nibbles { of_nibbles(parts, first, [whole, shift], bias, to) } else { Some(row) };
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
    let multiplier = (unit / to * 4_294_967_296.0).round();
    if multiplier >= MOST_SUM {
        return None;
    }
    let multiplier = multiplier.max(1.0);
    let mut units = [unit; 2];
    units[first] = unit / shift.exp2();
    let [(a, a_factors), (b, b_factors)] = [0, 1].map(|part| parts[part].quantized(units[part], numeric));
    let (weights, factors) = ([a, b], [a_factors, b_factors]);
    let loss = (0..2).map(|part| parts[part].loss(&weights[part], units[part])).sum();
    // The shift rounds to nearest, the multiplication rounds down: half a unit, on average.
    let half = if shift > 0.0 { (shift - 1.0).exp2() } else { 0.0 };
    let lost = f64::from(1_u32 << 31) / multiplier * shift.exp2();
    let start = (bias / units[first] + half + lost).round().clamp(-MOST_SUM, MOST_SUM) as i32;
    let steps = [0, 1].map(|part| units[part] / parts[part].scale);
    Some(Row { weights, factors, start, multiplier: multiplier as i32, shift: shift as u8, steps, loss })
}

impl Row {
    /// Whether no input can make a sum wrap.
    fn fits(&self, first: usize) -> bool {
        let sum = |part: usize| self.weights[part].iter().map(|weight| u64::from(weight.unsigned_abs())).sum();
        // A clipped start is not valid.
        self.start.abs() < i32::MAX && cannot_wrap(self.start, self.shift, sum(first), sum(1 - first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_its_sum_in_the_unit_asked_for() {
        let (input, recurrent) = ([0.5, -0.25, 0.125], [0.003, -0.001]);
        let parts = (Part { weights: &input, scale: 0.01 }, Part { weights: &recurrent, scale: 1.0 / 32768.0 });
        let (x, h, to) = ([1000.0, -2000.0, 500.0], [30000.0, 20000.0], 1.0 / 4096.0);
        let row = row([parts.0, parts.1], 1, 0.75, to, Numeric::I8x16).unwrap();
        assert!(row.shift > 0 && row.fits(1));
        let sum = |weights: &[i8], x: &[f64]| weights.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum::<f64>() as i64;
        let total = ((i64::from(row.start) + sum(&row.weights[1], &h)) >> row.shift) + sum(&row.weights[0], &x);
        let got = (total * i64::from(row.multiplier)) >> 32;
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
        let row =
            row([Part { weights: &weights, scale: 1.0 / 32768.0 }, Part::NONE], 0, 0.0, 1.0 / 4096.0, Numeric::I8x16)
                .unwrap();
        assert!(row.fits(0) && row.weights[0][0] < 127 && row.weights[0][0] > 0);
    }

    #[test]
    fn where_one_order_is_too_fine_the_other_is_taken() {
        // To be 2^k of the other's least scale, this scale would grow by 2^0.4, and the scale of the sum would exceed
        // half of 1.
        let (coarse, fine) = ([0.45 * 127.0], [0.45 * 127.0 * 2.0_f32.powf(-1.6)]);
        let part = |weights| Part { weights, scale: 1.0 };
        for (parts, fits) in [([part(&coarse), part(&fine)], 0), ([part(&fine), part(&coarse)], 1)] {
            let rows = [0, 1].map(|first| row(parts, first, 0.0, 1.0, Numeric::I8x16).map(|row| vec![row]));
            assert!(rows[fits].is_some() && rows[1 - fits].is_none());
            assert_eq!(better(rows).unwrap().1, fits);
        }
        assert_eq!(better([None, None]), None);
    }

    #[test]
    fn the_order_that_loses_less_is_taken_and_of_equals_the_input_first() {
        let of = |loss| {
            let row = row([Part { weights: &[1.0], scale: 1.0 }, Part::NONE], 0, 0.0, 1.0, Numeric::I8x16).unwrap();
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
        assert_eq!(row([Part { weights: &[127.0], scale: 1.0 }, Part::NONE], 0, 0.0, 1.0, Numeric::I8x16), None);
    }
}
