//! Rows of weights to integers: the scales of each, and how its sums are brought to a unit.

use tidegate::quant::MAX;

/// The greatest weight.
const MOST_WEIGHT: f64 = 127.0;
/// What the sums and the bias of a row stay below.
const MOST_SUM: f64 = 2_147_483_647.0;

/// What a row is multiplied with: weights, and what a unit of the other factor is worth.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Of one row.
    pub weights: &'a [f32],
    /// Of what they are multiplied with.
    pub scale: f64,
}

impl Part<'_> {
    /// What a unit of the sum is worth at least.
    fn least_unit(&self) -> f64 {
        let most = self.weights.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
        f64::from(most) / MOST_WEIGHT * self.scale
    }

    fn quantized(&self, unit: f64) -> Vec<i8> {
        let step = unit / self.scale;
        self.weights.iter().map(|&weight| (f64::from(weight) / step).round().clamp(-127.0, 127.0) as i8).collect()
    }
}

/// A row in integers.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Of the input, and of what is carried.
    pub weights: [Vec<i8>; 2],
    /// In units of the coarser sum, with what rounding down takes away.
    pub bias: i32,
    /// Brings the sum to its unit, over 2^32.
    pub multiplier: i32,
    /// Of the sums of both parts; one of them is 0.
    pub shifts: [u8; 2],
}

/// A row whose sum is to count `to`. `None` where no multiplier is large enough: `to` must be coarser.
pub fn row(input: Part<'_>, recurrent: Option<Part<'_>>, bias: f64, to: f64) -> Option<Row> {
    let empty = Part { weights: &[], scale: 1.0 };
    let parts = [input, recurrent.unwrap_or(empty)];
    // Below this a sum has no influence on what it is brought to.
    let negligible = to / f64::from(1_u32 << 31);
    let least = parts.map(|part| part.least_unit());
    let mut coarse = least[0].max(least[1]).max(negligible).max(bias.abs() / f64::from(1 << 30));
    loop {
        let row = with_unit(parts, least, coarse, bias, to)?;
        if row.fits() {
            return Some(row);
        }
        coarse *= 1.0625;
    }
}

/// `coarse` is at least what the coarser part needs.
fn with_unit(parts: [Part<'_>; 2], least: [f64; 2], coarse: f64, bias: f64, to: f64) -> Option<Row> {
    const MOST_SHIFT: f64 = 31.0;
    let fine = if least[0] < least[1] { 0 } else { 1 };
    // Either the finer part loses up to half a bit, or the coarser does.
    let room = if least[fine] > 0.0 { (coarse / least[fine]).log2() } else { 0.0 };
    let (down, up) = (room.floor().clamp(0.0, MOST_SHIFT), room.ceil().clamp(0.0, MOST_SHIFT));
    let (coarse, shift) = if room - down <= 0.5 || up == down { (coarse, down) } else { (least[fine] * up.exp2(), up) };
    let mut units = [coarse; 2];
    units[fine] = coarse / shift.exp2();
    let mut shifts = [0; 2];
    shifts[fine] = shift as u8;
    let multiplier = (coarse / to * 4_294_967_296.0).round();
    if multiplier >= MOST_SUM {
        return None;
    }
    let multiplier = multiplier.max(1.0);
    // A shift and the multiplication round down: half a unit each, on average.
    let lost = if shift > 0.0 { 0.5 } else { 0.0 } + f64::from(1_u32 << 31) / multiplier;
    Some(Row {
        weights: [parts[0].quantized(units[0]), parts[1].quantized(units[1])],
        bias: (bias / coarse + lost).round() as i32,
        multiplier: multiplier as i32,
        shifts,
    })
}

impl Row {
    /// Whether no input can make a sum wrap.
    fn fits(&self) -> bool {
        let mut total = f64::from(self.bias).abs();
        for (weights, shift) in self.weights.iter().zip(self.shifts) {
            let most: f64 = weights.iter().map(|&weight| f64::from(weight).abs()).sum::<f64>() * f64::from(MAX);
            if most > MOST_SUM {
                return false;
            }
            total += most / f64::from(shift).exp2() + 1.0;
        }
        total < MOST_SUM
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
        let row = row(parts.0, Some(parts.1), 0.75, to).unwrap();
        assert!(row.shifts.contains(&0) && row.fits());
        let sum = |weights: &[i8], x: &[f64]| weights.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum::<f64>() as i64;
        let total = (sum(&row.weights[0], &x) >> row.shifts[0])
            + (sum(&row.weights[1], &h) >> row.shifts[1])
            + i64::from(row.bias);
        let got = (total * i64::from(row.multiplier)) >> 32;
        let exact: f64 = 0.75
            + input.iter().zip(x).map(|(w, x)| f64::from(*w) * x * 0.01).sum::<f64>()
            + recurrent.iter().zip(h).map(|(w, h)| f64::from(*w) * h / 32768.0).sum::<f64>();
        // A half step of each weight at most.
        let bound = 0.5 / 127.0 * (0.5 * 35.0 + 0.003 * 1.6) * 2.0_f64.sqrt() / to;
        assert!((got as f64 - exact / to).abs() <= bound + 1.0, "{got} is not {}", exact / to);
    }

    #[test]
    fn rows_that_would_wrap_are_made_coarser() {
        let weights = vec![1.0_f32; 1 << 16];
        let row = row(Part { weights: &weights, scale: 1.0 / 32768.0 }, None, 0.0, 1.0 / 4096.0).unwrap();
        assert!(row.fits() && row.weights[0][0] < 127 && row.weights[0][0] > 0);
    }

    #[test]
    fn a_unit_that_is_too_fine_is_not_given() {
        assert_eq!(row(Part { weights: &[127.0], scale: 1.0 }, None, 0.0, 1.0), None);
    }
}
