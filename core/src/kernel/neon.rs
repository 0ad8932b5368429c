//! The kernel of [`Portable`](super::Portable) on AArch64, where NEON is part of the ABI: the four rows of a column are the
//! lanes of a vector.

use core::arch::aarch64::{
    int16x4_t, vcreate_s8, vdup_n_s16, vget_high_s16, vget_low_s16, vld1q_s32, vmlal_s16, vmovl_s8, vst1q_s32,
};

/// Adds the products column by column to `start`. The sums wrap, so their order does not matter.
#[inline]
pub fn dot(start: [i32; 4], block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
    // SAFETY: the CPU has NEON, because the target does.
    unsafe { dot_of_vectors(start, block, x) }
}

#[inline]
#[target_feature(enable = "neon")]
fn dot_of_vectors(start: [i32; 4], block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
    let block = block.get(..x.len()).unwrap_or(block);
    // SAFETY: the pointer is to four integers.
    let mut sums = unsafe { vld1q_s32(start.as_ptr()) };
    let ((pairs, last), (operands, x_last)) = (block.as_chunks::<2>(), x.as_chunks::<2>());
    for (&pair, &[a, b]) in pairs.iter().zip(operands) {
        let (first, second) = widened(pair);
        sums = vmlal_s16(vmlal_s16(sums, first, vdup_n_s16(a)), second, vdup_n_s16(b));
    }
    // The padding of `x` may complete a pair.
    let x = operands.get(pairs.len()).map_or(x_last, |x| x.as_slice());
    if let (&[column], &[x, ..]) = (last, x) {
        sums = vmlal_s16(sums, widened([column, [0; 4]]).0, vdup_n_s16(x));
    }
    let mut to = start;
    // SAFETY: as above.
    unsafe { vst1q_s32(to.as_mut_ptr(), sums) };
    to
}

/// The weights of two columns in 16 bits.
#[inline]
#[target_feature(enable = "neon")]
fn widened(columns: [[i8; 4]; 2]) -> (int16x4_t, int16x4_t) {
    let wide = vmovl_s8(vcreate_s8(bytemuck::must_cast::<_, u64>(columns)));
    (vget_low_s16(wide), vget_high_s16(wide))
}
