//! An LSTM cell as operators:
//!
//! ```text
//! a = x W + h R + b             in any order, by MatMul or Gemm, split into i, f, g, o in any order
//! c' = σ(f) ⊙ c + σ(i) ⊙ tanh(g)
//! h' = σ(o) ⊙ tanh(c')
//! ```

use super::{Replaced, Seen, int, ints, node};
use crate::canonical::MAX_NODES;
use crate::format::onnx::graph::Attributes;
use crate::format::onnx::proto::NodeProto;
use crate::format::onnx::value::Value;

/// The LSTM cells of a graph, at most as many as a network may have nodes.
pub(super) fn found<'a>(seen: &Seen<'a>) -> Vec<Cell<'a>> {
    let products = seen.graph.node.iter().filter(|node| node.op_type == "Mul");
    products.filter_map(|output| Cell::of(seen, output)).take(MAX_NODES).collect()
}

/// A part of the gates' sums: the name of the sums, and the number of the part.
type Part<'a> = (&'a str, usize);

pub(super) struct Cell<'a> {
    /// Numbers of the parts i, o, f, g, in ONNX's order.
    order: [usize; 4],
    x: &'a str,
    h: &'a str,
    c: &'a str,
    new_h: &'a str,
    new_c: &'a str,
    weights: Value,
    recurrent: Value,
    biases: Vec<Value>,
}

impl<'a> Cell<'a> {
    fn of(seen: &Seen<'a>, output: &'a NodeProto) -> Option<Self> {
        let sigmoid = |name: &'a str| gate(seen, name, "Sigmoid");
        let tanh = |name: &'a str| gate(seen, name, "Tanh");
        let shown = |name: &'a str| seen.made_by(name, "Tanh")?.input.first().map(String::as_str);
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
        let (&[units, columns], &[_, of_x]) = (&recurrent.shape[..], &weights.shape[..]) else { return None };
        let fits = units.checked_mul(4) == Some(columns) && of_x == columns && units > 0;
        let alike = biases.iter().all(|bias| bias.len() == columns);
        let order = [i, o, f, g];
        (fits && alike).then_some(Self { order, x, h, c, new_h, new_c, weights, recurrent, biases })
    }

    /// Number of weights that [`replaced`](Self::replaced) copies.
    pub fn weights(&self) -> usize {
        2 * (self.weights.len() + self.recurrent.len())
    }

    /// Replaces the sum for c' by an LSTM over one step, which also outputs h'. `graph` is the number of the graph that
    /// contains the cell.
    pub fn replaced(self, seen: &Seen<'a>, graph: usize) -> (Vec<Replaced>, Vec<(String, Value)>) {
        let Self { order, x, h, c, new_h, new_c, weights, recurrent, biases } = self;
        let units = recurrent.shape[0];
        let ordered = |row: &[f32]| -> Vec<f32> {
            order.iter().flat_map(|&part| row[part * units..][..units].to_vec()).collect()
        };
        // From [columns, 4 · units] to [1, 4 · units, columns].
        let matrix = |of: &Value| {
            let data = of.known_floats().unwrap_or_default();
            let rows: Vec<Vec<f32>> = data.chunks(4 * units).map(ordered).collect();
            let data = (0..4 * units).flat_map(|gate| rows.iter().map(move |row| row[gate])).collect();
            Value::floats(vec![1, 4 * units, of.shape[0]], data)
        };
        let mut bias = vec![0.0; 4 * units];
        for more in biases.iter().filter_map(|bias| bias.known_floats().ok()) {
            bias.iter_mut().zip(more).for_each(|(bias, more)| *bias += more);
        }
        let mut both = ordered(&bias);
        both.resize(8 * units, 0.0);
        let name = |part: &str| format!("{new_h}/cell/{graph}/{part}");
        let [w, r, b, x_3, h_3, c_3, y, y_h, y_c] = ["W", "R", "B", "x", "h", "c", "y", "y_h", "y_c"].map(name);
        let raised = |from: &str, to: &str| node("Unsqueeze", &[from], &[to], vec![ints("axes", &[0])]);
        let lowered = |from: &str, to: &str, axis| node("Squeeze", &[from], &[to], vec![ints("axes", &[axis])]);
        let whole = unstacked(seen, x);
        let lstm = vec![
            whole.map_or_else(|| raised(x, &x_3), |whole| node("Identity", &[whole], &[&x_3], vec![])),
            raised(h, &h_3),
            raised(c, &c_3),
            node(
                "LSTM",
                &[&x_3, &w, &r, &b, "", &h_3, &c_3],
                &[&y, &y_h, &y_c],
                vec![int("hidden_size", units as i64)],
            ),
            lowered(&y_h, new_h, 0),
            lowered(&y_c, new_c, 0),
        ];
        let at = |name: &str| seen.place(name).unwrap_or_default();
        let mut replaced = vec![Replaced { at: at(new_c), nodes: lstm }, Replaced { at: at(new_h), nodes: vec![] }];
        // A graph that stacks the output to a sequence again reads the sequence output of the LSTM instead.
        for (at, stack) in seen.graph.node.iter().enumerate().filter(|_| whole.is_some()) {
            if let ("Unsqueeze", Some(from), [to]) = (stack.op_type.as_str(), stack.input.first(), &stack.output[..])
                && from == new_h
                && seen.axes(stack) == Some(vec![0])
            {
                replaced.push(Replaced { at, nodes: vec![lowered(&y, to, 1)] });
            }
        }
        let weights = [(w, matrix(&weights)), (r, matrix(&recurrent)), (b, Value::floats(vec![1, 8 * units], both))];
        (replaced, weights.into())
    }
}

/// The part of the sums that an activation reads: one of four equal parts of a split along the last dimension of two.
fn gate<'a>(seen: &Seen<'a>, name: &str, activation: &str) -> Option<Part<'a>> {
    let part = seen.made_by(name, activation)?.input.first()?;
    let split = seen.made_by(part, "Split")?;
    let axis = Attributes::of(split).int("axis", 0).ok()?;
    let equal = match Attributes::of(split).ints("split").ok()? {
        Some(sizes) => sizes.windows(2).all(|pair| pair[0] == pair[1]),
        None => match split.input.get(1).filter(|name| !name.is_empty()) {
            Some(sizes) => seen.constant(sizes)?.known_ints().ok()?.windows(2).all(|pair| pair[0] == pair[1]),
            None => true,
        },
    };
    (split.output.len() == 4 && matches!(axis, -1 | 1) && equal).then_some(())?;
    Some((split.input.first()?, split.output.iter().position(|output| output == part)?))
}

/// The terms of a sum.
struct Terms<'a> {
    /// Values, and the matrices that they are multiplied by.
    products: Vec<(&'a str, Value)>,
    biases: Vec<Value>,
}

impl<'a> Terms<'a> {
    fn of(seen: &Seen<'a>, name: &'a str) -> Option<Self> {
        const MOST: usize = 8;
        let (mut rest, mut all) = (vec![name], Self { products: Vec::new(), biases: Vec::new() });
        while let Some(name) = rest.pop() {
            if rest.len() + all.products.len() + all.biases.len() > MOST {
                return None;
            }
            if let Some(sum) = seen.made_by(name, "Add") {
                rest.extend(sum.input.iter().map(String::as_str));
            } else if let Some(product) = seen.made_by(name, "MatMul") {
                let [x, weights] = &product.input[..] else { return None };
                all.products.push((x, seen.weights(weights)?));
            } else if let Some(product) = seen.made_by(name, "Gemm") {
                let (x, weights, bias) = match &product.input[..] {
                    [x, weights] => (x, weights, None),
                    [x, weights, bias] => (x, weights, Some(bias)),
                    _ => return None,
                };
                let weights = seen.weights(weights)?;
                all.products.push((x, if transposed(product)? { weights.transposed(&[1, 0]).ok()? } else { weights }));
                rest.extend(bias.map(String::as_str));
            } else {
                all.biases.push(seen.weights(name)?);
            }
        }
        Some(all)
    }
}

/// Whether a Gemm transposes its second operand; `None` if it does anything else beside a product and a sum.
fn transposed(gemm: &NodeProto) -> Option<bool> {
    let attributes = Attributes::of(gemm);
    let [alpha, beta] = ["alpha", "beta"].map(|name| attributes.float(name, 1.0).ok());
    let [a, b] = ["transA", "transB"].map(|name| attributes.int(name, 0).ok());
    ((alpha, beta, a) == (Some(1.0), Some(1.0), Some(0))).then_some(b? != 0)
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

/// The sequence `[1, batch, features]` that has x as its only step.
fn unstacked<'a>(seen: &Seen<'a>, x: &str) -> Option<&'a str> {
    let squeeze = seen.made_by(x, "Squeeze")?;
    (seen.axes(squeeze)? == [0]).then_some(())?;
    let split = seen.made_by(squeeze.input.first()?, "Split")?;
    let axis = Attributes::of(split).int("axis", 0).ok()?;
    (axis == 0 && split.output.len() == 1).then(|| split.input.first().map(String::as_str))?
}
