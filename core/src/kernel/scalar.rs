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

/// `acc[row] += Σ_k block[k][row] · x[row][k]`: [`accumulate`], where every row has an operand of its own.
pub fn accumulate_each<W: Weight>(acc: [f32; 4], block: &[[W; 4]], x: [&[f32]; 4]) -> [f32; 4] {
    let ([mut a, mut b, mut c, mut d], [xa, xb, xc, xd]) = (acc, x);
    let x = xa.iter().zip(xb).zip(xc.iter().zip(xd));
    for (&[wa, wb, wc, wd], ((&xa, &xb), (&xc, &xd))) in block.iter().zip(x) {
        a += wa.widen() * xa;
        b += wb.widen() * xb;
        c += wc.widen() * xc;
        d += wd.widen() * xd;
    }
    [a, b, c, d]
}
