//! Armv8.1-M with the vector extension (Cortex-M55, M85): eight products per instruction, and one instruction to load
//! their weights; 0.27 instructions per product. On other targets the same layout is read in plain Rust.

use super::{Blocked, CortexM55};

impl Blocked for CortexM55 {
    type Unit = [[i8; 16]; 4];
    type Operand<'x> = &'x [[i16; 16]];

    fn block_len(cols: usize) -> usize {
        cols.div_ceil(16)
    }

    fn operand(x: &[i16], _: usize) -> &[[i16; 16]] {
        x.as_chunks().0
    }

    #[cfg(all(target_arch = "arm", feature = "mve"))]
    fn dot(start: [i32; 4], block: &[[[i8; 16]; 4]], x: &[[i16; 16]]) -> [i32; 4] {
        super::mve_asm::dot(start, block, x)
    }

    #[cfg(not(all(target_arch = "arm", feature = "mve")))]
    fn dot(start: [i32; 4], block: &[[[i8; 16]; 4]], x: &[[i16; 16]]) -> [i32; 4] {
        let mut sums = start;
        for (rows, x) in block.iter().zip(x) {
            for (sum, row) in sums.iter_mut().zip(rows) {
                let products = row.iter().zip(x).map(|(&w, &x)| i32::from(w) * i32::from(x));
                *sum = products.fold(*sum, i32::wrapping_add);
            }
        }
        sums
    }
}
