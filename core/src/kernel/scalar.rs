//! The reference kernel: plain safe Rust.

use super::Weight;

/// `acc[row] += Σ_k block[k][row] · x[k]`, k ascending, each product rounded before it is added.
pub fn accumulate<W: Weight>(acc: [f32; 4], block: &[[W; 4]], x: &[f32]) -> [f32; 4] {
    let [mut a, mut b, mut c, mut d] = acc;
    for (&[wa, wb, wc, wd], &x) in block.iter().zip(x) {
        a += wa.widen() * x;
        b += wb.widen() * x;
        c += wc.widen() * x;
        d += wd.widen() * x;
    }
    [a, b, c, d]
}
