//! The kernels of layouts for cores without vectors: plain safe Rust.

use super::{CortexM0, Kernel, Portable};

impl Kernel for Portable {
    const COLUMNS: usize = 1;
    type Unit = [i8; 4];
    type Operand<'x> = &'x [i16];

    fn operand(x: &[i16], _: usize) -> &[i16] {
        x
    }

    fn dot(block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
        let [mut a, mut b, mut c, mut d] = [0_i32; 4];
        for (&[wa, wb, wc, wd], &x) in block.iter().zip(x) {
            let x = i32::from(x);
            a = a.wrapping_add(i32::from(wa) * x);
            b = b.wrapping_add(i32::from(wb) * x);
            c = c.wrapping_add(i32::from(wc) * x);
            d = d.wrapping_add(i32::from(wd) * x);
        }
        [a, b, c, d]
    }
}

impl Kernel for CortexM0 {
    const COLUMNS: usize = 1;
    type Unit = [u8; 4];
    /// With 128 times the sum of `x`, by which the products with weights that are stored plus 128 are too great.
    type Operand<'x> = (&'x [i16], i32);

    fn operand(x: &[i16], len: usize) -> (&[i16], i32) {
        let x = x.get(..len).unwrap_or_default();
        (x, x.iter().fold(0_i32, |sum, &x| sum.wrapping_add(i32::from(x) << 7)))
    }

    fn dot(block: &[[u8; 4]], (x, excess): (&[i16], i32)) -> [i32; 4] {
        let [mut a, mut b, mut c, mut d] = [0_i32.wrapping_sub(excess); 4];
        for (&[wa, wb, wc, wd], &x) in block.iter().zip(x) {
            let x = i32::from(x);
            a = a.wrapping_add(i32::from(wa) * x);
            b = b.wrapping_add(i32::from(wb) * x);
            c = c.wrapping_add(i32::from(wc) * x);
            d = d.wrapping_add(i32::from(wd) * x);
        }
        [a, b, c, d]
    }
}
