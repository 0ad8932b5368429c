//! A GRU cell as operators, with the reset after the product, as PyTorch's `GRUCell`:
//!
//! ```text
//! a = x W + b                   by MatMul or Gemm, split into r, z, n in any order
//! d = h R + c                   in the same order
//! r = σ(a_r + d_r), z = σ(a_z + d_z), n = tanh(a_n + r ⊙ d_n)
//! h' = n + z ⊙ (h - n), or (1 - z) ⊙ n + z ⊙ h
//! ```

use super::recurrent::{Operator, Part, Terms, operand, part};
use super::{Seen, int};
use crate::format::onnx::proto::NodeProto;

/// The cell whose h' a sum is.
pub(super) fn of<'a>(seen: &Seen<'a>, output: &'a NodeProto) -> Option<Operator<'a>> {
    let new_h = output.output.first()?;
    let (z, n, h) = mixed(seen, new_h)?;
    let part = |name: &'a str| part(seen, name, 3);
    let gate = |name: &'a str| -> Option<[Part<'a>; 2]> {
        seen.pair(operand(seen, name, "Sigmoid")?, "Add", part, part).map(|(a, b)| [a, b])
    };
    let reset = |name: &'a str| seen.pair(name, "Mul", gate, part);
    let ((of_x, k_n), (of_r, (of_h, k_d))) = seen.pair(operand(seen, n, "Tanh")?, "Add", part, reset)?;
    let of_z = gate(z)?;
    // The parts of both gates, one of the sums over x and one of those over h.
    let both = |parts: [Part<'a>; 2]| {
        let [(a, k), (b, l)] = parts;
        (k == l && ([a, b] == [of_x, of_h] || [a, b] == [of_h, of_x])).then_some(k)
    };
    let (k_r, k_z) = (both(of_r)?, both(of_z)?);
    let mut all = [k_r, k_z, k_n];
    all.sort_unstable();
    (of_x != of_h && k_n == k_d && all == [0, 1, 2]).then_some(())?;
    let [of_x, of_h] = [Terms::of(seen, of_x)?, Terms::of(seen, of_h)?];
    let [(x, weights)] = <[_; 1]>::try_from(of_x.products).ok()?;
    let [(seen_h, recurrent)] = <[_; 1]>::try_from(of_h.products).ok()?;
    let cell = Operator {
        op_type: "GRU",
        units: *recurrent.shape.first()?,
        x,
        states: vec![[h, new_h]],
        weights,
        recurrent,
        biases: [of_x.biases, of_h.biases],
        order: vec![k_z, k_r, k_n],
        attributes: vec![int("linear_before_reset", 1)],
    };
    (seen_h == h && cell.fits()).then_some(cell)
}

/// z, n and h of a sum that mixes n and h.
fn mixed<'a>(seen: &Seen<'a>, name: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    let gate = |name: &'a str| seen.made_by(name, "Sigmoid").map(|_| name);
    let new = |name: &'a str| seen.made_by(name, "Tanh").map(|_| name);
    let difference = |name: &'a str| match &seen.made_by(name, "Sub")?.input[..] {
        [a, b] => Some((a.as_str(), b.as_str())),
        _ => None,
    };
    let gated_difference = |name: &'a str| seen.pair(name, "Mul", gate, difference);
    if let Some((n, (z, (h, of_n)))) = seen.pair(name, "Add", new, gated_difference) {
        return (of_n == n).then_some((z, n, h));
    }
    let rest = |name: &'a str| difference(name).filter(|(one, _)| seen.number(one) == Some(1.0)).map(|(_, z)| z);
    let of_new = |name: &'a str| seen.pair(name, "Mul", rest, new);
    let of_old = |name: &'a str| seen.pair(name, "Mul", gate, |h| new(h).is_none().then_some(h));
    let ((of_z, n), (z, h)) = seen.pair(name, "Add", of_new, of_old)?;
    (of_z == z).then_some((z, n, h))
}
