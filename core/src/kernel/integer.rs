//! The reference kernels of every layout: plain safe Rust.

use super::{CortexM0, CortexM4, CortexM55, Kernel, Portable};

impl Kernel for Portable {
    fn dot(block: &[u8], x: &[i16]) -> [i32; 4] {
        let [mut a, mut b, mut c, mut d] = [0_i32; 4];
        let (columns, _) = block.as_chunks::<4>();
        for (&[wa, wb, wc, wd], &x) in columns.iter().zip(x) {
            a = a.wrapping_add(product(wa, x));
            b = b.wrapping_add(product(wb, x));
            c = c.wrapping_add(product(wc, x));
            d = d.wrapping_add(product(wd, x));
        }
        [a, b, c, d]
    }
}

impl Kernel for CortexM0 {
    /// Weights are stored plus 128: the sums are too great by 128 times that of `x`.
    fn dot(block: &[u8], x: &[i16]) -> [i32; 4] {
        let [mut a, mut b, mut c, mut d, mut sum] = [0_i32; 5];
        let (columns, _) = block.as_chunks::<4>();
        for (&[wa, wb, wc, wd], &x) in columns.iter().zip(x) {
            let x = i32::from(x);
            sum = sum.wrapping_add(x);
            a = a.wrapping_add(i32::from(wa) * x);
            b = b.wrapping_add(i32::from(wb) * x);
            c = c.wrapping_add(i32::from(wc) * x);
            d = d.wrapping_add(i32::from(wd) * x);
        }
        [a, b, c, d].map(|of| of.wrapping_sub(sum << 7))
    }
}

impl Kernel for CortexM4 {
    fn dot(block: &[u8], x: &[i16]) -> [i32; 4] {
        let mut sums = [0; 4];
        let (words, _) = block.as_chunks::<16>();
        for (rows, x) in words.iter().zip(x.chunks(4)) {
            let (rows, _) = rows.as_chunks::<4>();
            for (sum, &[w0, w2, w1, w3]) in sums.iter_mut().zip(rows) {
                *sum = row([w0, w1, w2, w3].into_iter(), x, *sum);
            }
        }
        sums
    }
}

impl Kernel for CortexM55 {
    fn dot(block: &[u8], x: &[i16]) -> [i32; 4] {
        let mut sums = [0; 4];
        let (vectors, _) = block.as_chunks::<64>();
        for (rows, x) in vectors.iter().zip(x.chunks(16)) {
            let (rows, _) = rows.as_chunks::<16>();
            for (sum, w) in sums.iter_mut().zip(rows) {
                *sum = row(w.iter().copied(), x, *sum);
            }
        }
        sums
    }
}

fn row(weights: impl Iterator<Item = u8>, x: &[i16], sum: i32) -> i32 {
    weights.zip(x).fold(sum, |sum, (w, &x)| sum.wrapping_add(product(w, x)))
}

fn product(weight: u8, x: i16) -> i32 {
    i32::from(weight.cast_signed()) * i32::from(x)
}
