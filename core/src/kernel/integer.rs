//! The kernels of layouts for cores without vectors: plain safe Rust. Hosts and browsers with vectors use them for
//! [`Portable`].

use super::{Blocked, CortexM0, Portable};

/// Adds the products column by column to `start`.
#[inline(always)]
fn columns<W: Copy + Into<i32>>(start: [i32; 4], block: &[[W; 4]], x: &[i16]) -> [i32; 4] {
    let [mut a, mut b, mut c, mut d] = start;
    for (&[wa, wb, wc, wd], &x) in block.iter().zip(x) {
        let x = i32::from(x);
        a = a.wrapping_add(wa.into() * x);
        b = b.wrapping_add(wb.into() * x);
        c = c.wrapping_add(wc.into() * x);
        d = d.wrapping_add(wd.into() * x);
    }
    [a, b, c, d]
}

/// [`columns`] with four columns per turn: RV32 has registers for four, and the compiler does not unroll its loops.
#[inline(always)]
#[cfg_attr(
    all(
        not(test),
        any(target_arch = "x86_64", target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128"))
    ),
    expect(dead_code)
)]
fn turns<W: Copy + Into<i32>>(start: [i32; 4], block: &[[W; 4]], x: &[i16]) -> [i32; 4] {
    let ((block, block_rest), (x, x_rest)) = (block.as_chunks::<4>(), x.as_chunks::<4>());
    let sums = block.iter().zip(x).fold(start, |sums, (block, x)| columns(sums, block, x));
    // The padding of `x` may be a turn of its own.
    columns(sums, block_rest, x.get(block.len()).map_or(x_rest, |x| x.as_slice()))
}

impl Blocked for Portable {
    type Unit = [i8; 4];
    type Operand<'x> = &'x [i16];

    fn block_len(cols: usize) -> usize {
        cols
    }

    fn operand(x: &[i16], _: usize) -> &[i16] {
        x
    }

    #[cfg(target_arch = "x86_64")]
    fn dot(start: [i32; 4], block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
        super::sse2::dot(start, block, x)
    }

    #[cfg(target_arch = "aarch64")]
    fn dot(start: [i32; 4], block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
        super::neon::dot(start, block, x)
    }

    #[cfg(not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        all(target_arch = "wasm32", target_feature = "simd128")
    )))]
    fn dot(start: [i32; 4], block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
        if cfg!(target_arch = "riscv32") { turns(start, block, x) } else { columns(start, block, x) }
    }

    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    fn dot(start: [i32; 4], block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
        super::simd128::dot(start, block, x)
    }
}

impl Blocked for CortexM0 {
    type Unit = [u8; 4];
    /// The second field is 128 times the sum of `x`. Weights are stored plus 128; subtracting the field corrects the
    /// products.
    type Operand<'x> = (&'x [i16], i32);

    fn block_len(cols: usize) -> usize {
        cols
    }

    fn operand(x: &[i16], len: usize) -> (&[i16], i32) {
        let x = x.get(..len).unwrap_or_default();
        (x, x.iter().fold(0_i32, |sum, &x| sum.wrapping_add(i32::from(x) << 7)))
    }

    fn dot(start: [i32; 4], block: &[[u8; 4]], (x, excess): (&[i16], i32)) -> [i32; 4] {
        columns(start.map(|sum| sum.wrapping_sub(excess)), block, x)
    }
}

#[cfg(test)]
mod tests {
    use super::{Portable, columns, turns};
    use crate::kernel::Blocked;

    #[test]
    fn kernels_have_the_same_sums() {
        let weights: [[i8; 4]; 24] = core::array::from_fn(|k| [k, 50 * k, 90 * k + 1, 127 * k].map(|w| w as i8));
        let x: [i16; 24] = core::array::from_fn(|k| (k * 25_931) as i16);
        let start = [1, -2, i32::MAX, i32::MIN];
        for columns_of_block in 0..=weights.len() {
            let block = &weights[..columns_of_block];
            for filled in columns_of_block..=x.len() {
                let x = &x[..filled];
                let expected = columns(start, block, x);
                assert_eq!(turns(start, block, x), expected, "{columns_of_block}");
                assert_eq!(Portable::dot(start, block, x), expected, "{columns_of_block}");
            }
        }
    }
}
