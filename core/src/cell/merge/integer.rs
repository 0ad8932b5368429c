//! Combines parts in the integer numerics. Each part may have its own unit.
//!
//! Let m_k be the multiplier of part k, and r_k = mulh(x_k · 2^16, m_k), in the unit of the output with 8 fraction
//! bits:
//!
//! ```text
//! y = (r_1 + r_2 + … + r_k + 2^7) >> 8                 add, without an option, and average: m_k includes 1 / k of the mean
//! y = (r_1 - r_2 + 2^7) >> 8                           subtract
//! y = (max(r_1, r_2, …, r_k) + 2^7) >> 8               maximum
//! y = (mulh(p x_k · 2, m_1) + 2^7) >> 8                multiply: p is x_1, (p x_2) / 2^15, …, up to x_(k - 1)
//! y = (⌊√(r_1² + r_2² + … + r_k²)⌋ + 2^7) >> 8        norm: in 64 bits
//! y = (r_1 s + r_2 (2^15 - s)) / 2^15                  blend: r rounded to no fraction bits, s = r_3, from 0 to 2^15
//! ```
//!
//! A quotient by 2^15 is rounded to nearest.

use super::{ADD, AVERAGE, BLEND, MAXIMUM, MULTIPLY, NORM, SUBTRACT};
use crate::cell::integer::CHUNK;
use crate::cell::prelude::*;
use crate::quant::{ONE, from_q15, rescaled, rescaled_product, saturate, whole};

/// The options of a plain sum.
const SUMS: u32 = 1 << ADD | 1 << AVERAGE;
const MULTIPLIERS: usize = SPEC.tensor("multipliers");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << ADD | 1 << MULTIPLY | 1 << AVERAGE | 1 << MAXIMUM | 1 << BLEND | 1 << NORM | 1 << SUBTRACT,
    tensors: &[
        TensorSpec::vector("multipliers", &[], Dim::Quotient(&[Dim::Input, Dim::Output])).stored(Storage::Multipliers)
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
};

const QUANTIZATION: Quantization = Quantization {
    reads: Reads::Parts,
    output: &[(1 << MAXIMUM | 1 << BLEND, OutputScale::Coarsest), (0, OutputScale::Measured)],
    least_output: LeastScale::Parts,
    ..Quantization::MOVE
};

/// One step. `x` is `[parts · output]`, `y` is `[output]`.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, y, .. } = io;
    // There are as many parts as multipliers, so the length of the tensor is not needed.
    let (x, multipliers) = (x.get(..node.input_size).unwrap_or_default(), node.whole(MULTIPLIERS));
    // Single values, such as those of an amplifier, need no memory for sums.
    if let ([y], 0) = (&mut *y, node.options & !SUMS) {
        let sum = x.iter().zip(multipliers).fold(0, |sum: i32, (&x, &by)| sum.wrapping_add(rescaled(x, by)));
        *y = saturate(whole(sum));
        return;
    }
    if node.has(BLEND) {
        return blend(x, multipliers, y);
    }
    if node.has(NORM) {
        return norm(x, multipliers, y);
    }
    let size = y.len();
    // A single part is converted to the unit of the output as a sum is.
    let multiply = node.has(MULTIPLY) && size < x.len();
    for (chunk, y) in y.chunks_mut(CHUNK).enumerate() {
        let parts = x.chunks(size.max(1)).map(|part| part.get(chunk * CHUNK..).unwrap_or_default());
        let mut sums = [0; CHUNK];
        if multiply {
            product(&mut sums, parts, multipliers);
        } else if node.has(MAXIMUM) {
            sums = [i32::MIN; CHUNK];
            merge(&mut sums, parts, multipliers, i32::max);
        } else if node.has(SUBTRACT) {
            merge(&mut sums, parts.clone().take(1), multipliers, i32::wrapping_add);
            merge(&mut sums, parts.skip(1), multipliers.get(1..).unwrap_or_default(), i32::wrapping_sub);
        } else {
            merge(&mut sums, parts, multipliers, i32::wrapping_add);
        }
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = saturate(whole(sum));
        }
    }
}

fn merge<'x>(
    sums: &mut [i32],
    parts: impl Iterator<Item = &'x [i16]>,
    multipliers: &[i32],
    merge: impl Fn(i32, i32) -> i32,
) {
    for (part, &multiplier) in parts.zip(multipliers) {
        for (sum, &x) in sums.iter_mut().zip(part) {
            *sum = merge(*sum, rescaled(x, multiplier));
        }
    }
}

/// The product of at least two parts. Only the last product is converted to the unit of the output.
fn product<'x>(sums: &mut [i32], mut parts: impl Iterator<Item = &'x [i16]>, multipliers: &[i32]) {
    let (Some(first), Some(&multiplier)) = (parts.next(), multipliers.first()) else { return };
    for (sum, &x) in sums.iter_mut().zip(first) {
        *sum = x.into();
    }
    let mut next = parts.next();
    while let Some(part) = next {
        next = parts.next();
        for (sum, &x) in sums.iter_mut().zip(part) {
            let product = sum.wrapping_mul(x.into());
            *sum = if next.is_none() { rescaled_product(product, multiplier) } else { from_q15(product) };
        }
    }
}

/// The sums of squares keep all bits, so that a small magnitude is as precise as its parts.
fn norm(x: &[i16], multipliers: &[i32], y: &mut [i16]) {
    let size = y.len().max(1);
    for (unit, y) in y.iter_mut().enumerate() {
        let parts = x.iter().skip(unit).step_by(size).zip(multipliers);
        let square = |(&x, &multiplier): (&i16, &i32)| u64::from(rescaled(x, multiplier).unsigned_abs()).pow(2);
        let sum = parts.map(square).fold(0, u64::wrapping_add);
        // The root has 32 bits; that of values within the range of the output has 24.
        *y = saturate(whole(sum.isqrt().min(1 << 30) as i32));
    }
}

fn blend(x: &[i16], multipliers: &[i32], y: &mut [i16]) {
    let &[to_first, to_second, to_share, ..] = multipliers else { return };
    let Some((first, others)) = x.split_at_checked(y.len()) else { return };
    let Some((second, share)) = others.split_at_checked(y.len()) else { return };
    for (((y, &first), &second), &share) in y.iter_mut().zip(first).zip(second).zip(share) {
        let value = |x, multiplier| i32::from(saturate(whole(rescaled(x, multiplier))));
        let share = whole(rescaled(share, to_share)).clamp(0, ONE);
        let (first, second) = (value(first, to_first), value(second, to_second));
        *y = from_q15(first.wrapping_mul(share).wrapping_add(second.wrapping_mul(ONE - share))) as i16;
    }
}
