//! An LSTM cell as operators:
//!
//! ```text
//! a = x W + h R + b             in any order, by MatMul or Gemm, split into i, f, g, o in any order
//! c' = σ(f) ⊙ c + σ(i) ⊙ tanh(g)
//! h' = σ(o) ⊙ tanh(c')
//! ```

use super::Seen;
use super::recurrent::{Operator, Terms, operand, part};
use crate::format::onnx::proto::NodeProto;
use crate::format::onnx::value::Value;

/// The cell whose h' a product is.
pub(super) fn of<'a>(seen: &Seen<'a>, output: &'a NodeProto) -> Option<Operator<'a>> {
    let sigmoid = |name: &'a str| part(seen, operand(seen, name, "Sigmoid")?, 4);
    let tanh = |name: &'a str| part(seen, operand(seen, name, "Tanh")?, 4);
    let shown = |name: &'a str| operand(seen, name, "Tanh");
    let new_h = output.output.first()?;
    let ((sums, o), new_c) = seen.pair(new_h, "Mul", sigmoid, shown)?;
    let new = |name: &'a str| seen.pair(name, "Mul", sigmoid, tanh);
    let kept = |name: &'a str| seen.pair(name, "Mul", sigmoid, |c| tanh(c).is_none().then_some(c));
    let (((of_i, i), (of_g, g)), ((of_f, f), c)) = seen.pair(new_c, "Add", new, kept)?;
    let mut all = [i, f, g, o];
    all.sort_unstable();
    ([of_i, of_g, of_f] == [sums; 3] && all == [0, 1, 2, 3]).then_some(())?;
    let Terms { products, biases } = Terms::of(seen, sums)?;
    let [(a, of_a), (b, of_b)] = <[_; 2]>::try_from(products).ok()?;
    // h is cut from the same value as c, or from another input of the graph; it then has as many features as units.
    let from = root(seen, c);
    let is_beside = |name: &'a str| root(seen, name) == from;
    let is_state = |name: &'a str, of: &Value| {
        let square = matches!(of.shape[..], [units, columns] if units.checked_mul(4) == Some(columns));
        square && seen.is_input(from) && seen.is_input(root(seen, name))
    };
    let known = [is_beside(a), is_beside(b)];
    let known = if known == [false; 2] { [is_state(a, &of_a), is_state(b, &of_b)] } else { known };
    let ((x, weights), (h, recurrent)) = match known {
        [false, true] => ((a, of_a), (b, of_b)),
        [true, false] => ((b, of_b), (a, of_a)),
        _ => return None,
    };
    let cell = Operator {
        op_type: "LSTM",
        units: *recurrent.shape.first()?,
        x,
        states: vec![[h, new_h], [c, new_c]],
        weights,
        recurrent,
        biases: [biases, vec![]],
        order: vec![i, o, f, g],
        attributes: vec![],
    };
    cell.fits().then_some(cell)
}

/// The value that a value was cut or reshaped from.
fn root<'a>(seen: &Seen<'a>, mut name: &'a str) -> &'a str {
    const MOVES: [&str; 7] = ["Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze"];
    for _ in 0..seen.graph.node.len() {
        match seen.producer(name).filter(|node| MOVES.contains(&node.op_type.as_str())) {
            Some(node) => match node.input.first() {
                Some(from) => name = from,
                None => return name,
            },
            None => return name,
        }
    }
    name
}
