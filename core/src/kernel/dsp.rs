//! Armv7E-M and Armv8-M with the DSP extension (Cortex-M4, M7, M33): two products per instruction, 1.19 instructions
//! per product in total. On other targets the same layout is read in plain Rust.

use super::{Blocked, CortexM4};

impl Blocked for CortexM4 {
    /// Four columns of four rows, one word per row: columns 0, 2, 1, 3.
    type Unit = [u32; 4];
    /// Four columns, two per word.
    type Operand<'x> = &'x [[u32; 2]];

    fn block_len(cols: usize) -> usize {
        cols.div_ceil(4)
    }

    fn operand(x: &[i16], _: usize) -> &[[u32; 2]] {
        // Slots and states begin on whole words.
        bytemuck::try_cast_slice(x.as_chunks::<4>().0).unwrap_or_default()
    }

    #[cfg(all(target_arch = "arm", feature = "dsp"))]
    fn dot(start: [i32; 4], block: &[[u32; 4]], x: &[[u32; 2]]) -> [i32; 4] {
        super::dsp_asm::dot(start, block, x)
    }

    #[cfg(not(all(target_arch = "arm", feature = "dsp")))]
    fn dot(start: [i32; 4], block: &[[u32; 4]], x: &[[u32; 2]]) -> [i32; 4] {
        let mut sums = start;
        for (rows, &x) in block.iter().zip(x) {
            let x: [i16; 4] = bytemuck::must_cast(x);
            for (sum, &row) in sums.iter_mut().zip(rows) {
                let [w0, w2, w1, w3]: [i8; 4] = bytemuck::must_cast(row);
                let products = [w0, w1, w2, w3].into_iter().zip(x).map(|(w, x)| i32::from(w) * i32::from(x));
                *sum = products.fold(*sum, i32::wrapping_add);
            }
        }
        sums
    }
}
