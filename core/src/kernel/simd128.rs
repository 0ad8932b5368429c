//! WebAssembly with vectors of 128 bits: the four rows of a block are the lanes of a vector. Floats have the bits of the
//! scalar kernel, because each lane adds its products in the same order and rounds each of them.

use core::arch::wasm32::{
    f32x4_abs, f32x4_add, f32x4_div, f32x4_extract_lane, f32x4_mul, f32x4_pmin, f32x4_splat, f32x4_sub, i8x16_shuffle,
    i16x8_extend_high_i8x16, i16x8_extend_low_i8x16, i32x4, i32x4_add, i32x4_dot_i16x8, i32x4_extract_lane, i32x4_mul,
    i32x4_shl, i32x4_splat, v128, v128_bitselect, v128_load, v128_load32_splat, v128_store,
};

use crate::tanh::{DOUBLING, LIMIT, P, PER_DOUBLING, ROUND};

/// Floats are summed in four blocks at a time, because each sum waits for its last product.
const TOGETHER: usize = 4;

fn floats(lanes: &[f32; 4]) -> v128 {
    // SAFETY: the reference is to 16 bytes, and the load needs no alignment.
    unsafe { v128_load(lanes.as_ptr().cast()) }
}

fn of_floats(lanes: v128) -> [f32; 4] {
    [
        f32x4_extract_lane::<0>(lanes),
        f32x4_extract_lane::<1>(lanes),
        f32x4_extract_lane::<2>(lanes),
        f32x4_extract_lane::<3>(lanes),
    ]
}

/// [`accumulate`](super::accumulate) in f32.
pub fn accumulate(acc: [f32; 4], block: &[[f32; 4]], x: &[f32]) -> [f32; 4] {
    let mut acc = floats(&acc);
    for (w, &x) in block.iter().zip(x) {
        acc = f32x4_add(acc, f32x4_mul(floats(w), f32x4_splat(x)));
    }
    of_floats(acc)
}

/// [`accumulate`] of as many blocks as there are sums, one behind the other.
fn accumulate_all([a, b, c, d]: [v128; TOGETHER], blocks: &[[f32; 4]], x: &[f32]) -> [v128; TOGETHER] {
    let (p, rest) = blocks.split_at_checked(x.len()).unwrap_or_default();
    let (q, rest) = rest.split_at_checked(x.len()).unwrap_or_default();
    let (r, rest) = rest.split_at_checked(x.len()).unwrap_or_default();
    let (mut a, mut b, mut c, mut d) = (a, b, c, d);
    for ((((p, q), r), s), &x) in p.iter().zip(q).zip(r).zip(rest).zip(x) {
        let x = f32x4_splat(x);
        a = f32x4_add(a, f32x4_mul(floats(p), x));
        b = f32x4_add(b, f32x4_mul(floats(q), x));
        c = f32x4_add(c, f32x4_mul(floats(r), x));
        d = f32x4_add(d, f32x4_mul(floats(s), x));
    }
    [a, b, c, d]
}

/// [`Weight::sum_two`](super::Weight::sum_two) in f32.
pub fn sum_two(
    bias: &[[f32; 4]],
    (mut input, x): (&[[f32; 4]], &[f32]),
    (mut recurrent, h): (&[[f32; 4]], &[f32]),
    sums: &mut [[f32; 4]],
) {
    let (bias, bias_rest) = bias.as_chunks::<TOGETHER>();
    let (sums, rest) = sums.as_chunks_mut::<TOGETHER>();
    for (sums, [a, b, c, d]) in sums.iter_mut().zip(bias) {
        let start = [floats(a), floats(b), floats(c), floats(d)];
        *sums = accumulate_all(accumulate_all(start, input, x), recurrent, h).map(of_floats);
        input = input.get(TOGETHER * x.len()..).unwrap_or_default();
        recurrent = recurrent.get(TOGETHER * h.len()..).unwrap_or_default();
    }
    // The biases may extend beyond the sums.
    let bias = bias.get(sums.len()).map_or(bias_rest, |bias| bias.as_slice());
    for (sum, &bias) in rest.iter_mut().zip(bias) {
        *sum = accumulate(accumulate(bias, input, x), recurrent, h);
        input = input.get(x.len()..).unwrap_or_default();
        recurrent = recurrent.get(h.len()..).unwrap_or_default();
    }
}

/// Replaces each x by `scale` tanh(`scale` x) + `offset`, with the operations of [`tanh`](crate::tanh::tanh).
#[inline(always)]
pub fn of_four(values: &mut [f32; 4], scale: [f32; 4], offset: [f32; 4]) {
    let (scale, offset) = (floats(&scale), floats(&offset));
    let x = f32x4_mul(scale, floats(values));
    // NaN is propagated: `pmin` is its first operand unless the second is less.
    let size = f32x4_pmin(f32x4_abs(x), f32x4_splat(LIMIT));
    let shifted = f32x4_add(f32x4_mul(size, f32x4_splat(PER_DOUBLING)), f32x4_splat(ROUND));
    let r = f32x4_sub(size, f32x4_mul(f32x4_sub(shifted, f32x4_splat(ROUND)), f32x4_splat(DOUBLING)));
    let [a, b, c, d, e] = P;
    let next = |sum, p| f32x4_add(f32x4_mul(sum, r), f32x4_splat(p));
    let grown = f32x4_mul(next(next(next(next(next(f32x4_splat(e), d), c), b), a), 2.0), r);
    let power = i32x4_add(i32x4_shl(shifted, 23), f32x4_splat(1.0));
    let expm1 = f32x4_add(f32x4_mul(grown, power), f32x4_sub(power, f32x4_splat(1.0)));
    let ratio = f32x4_div(expm1, f32x4_add(expm1, f32x4_splat(2.0)));
    let tanh = v128_bitselect(x, ratio, f32x4_splat(-0.0));
    // SAFETY: the reference is to 16 bytes, and the store needs no alignment.
    unsafe { v128_store(values.as_mut_ptr().cast(), f32x4_add(f32x4_mul(scale, tanh), offset)) };
}

/// The sums of [`Blocked::dot`](super::Blocked::dot): four columns in a turn.
pub fn dot([a, b, c, d]: [i32; 4], block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
    let ((block, block_rest), (x, x_rest)) = (block.as_chunks::<4>(), x.as_chunks::<4>());
    let mut sums = i32x4(a, b, c, d);
    for (columns, x) in block.iter().zip(x) {
        // SAFETY: the references are to 16 and to 8 bytes, and the loads need no alignment.
        let (weights, low, high) = unsafe {
            let pairs = x.as_ptr().cast::<u32>();
            (v128_load(columns.as_ptr().cast()), v128_load32_splat(pairs), v128_load32_splat(pairs.add(1)))
        };
        // The weights of a row in two neighboring columns come together.
        let weights = i8x16_shuffle::<0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15>(weights, weights);
        let low = i32x4_dot_i16x8(i16x8_extend_low_i8x16(weights), low);
        let high = i32x4_dot_i16x8(i16x8_extend_high_i8x16(weights), high);
        sums = i32x4_add(sums, i32x4_add(low, high));
    }
    // The padding of `x` may be a turn of its own.
    let x_rest = x.get(block.len()).map_or(x_rest, |x| x.as_slice());
    for (&column, &x) in block_rest.iter().zip(x_rest) {
        let [p, q, r, s] = column.map(i32::from);
        sums = i32x4_add(sums, i32x4_mul(i32x4(p, q, r, s), i32x4_splat(x.into())));
    }
    [
        i32x4_extract_lane::<0>(sums),
        i32x4_extract_lane::<1>(sums),
        i32x4_extract_lane::<2>(sums),
        i32x4_extract_lane::<3>(sums),
    ]
}
