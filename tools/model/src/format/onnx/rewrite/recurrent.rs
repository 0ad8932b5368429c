//! Parts that the patterns of an LSTM and of a GRU share: sums of products that are split into equal parts, one for each
//! gate, and the recurrent operator that replaces a cell.

use super::{Replaced, Seen, int, ints, node};
use crate::format::onnx::graph::Attributes;
use crate::format::onnx::proto::{AttributeProto, NodeProto};
use crate::format::onnx::value::Value;

/// A part of the gates' sums: the name of the sums, and the number of the part.
pub(super) type Part<'a> = (&'a str, usize);

/// One of `parts` equal parts of a split along the last dimension of two.
pub(super) fn part<'a>(seen: &Seen<'a>, name: &str, parts: usize) -> Option<Part<'a>> {
    let split = seen.made_by(name, "Split")?;
    let axis = Attributes::of(split).int("axis", 0).ok()?;
    let equal = match Attributes::of(split).ints("split").ok()? {
        Some(sizes) => sizes.windows(2).all(|pair| pair[0] == pair[1]),
        None => match split.input.get(1).filter(|name| !name.is_empty()) {
            Some(sizes) => seen.constant(sizes)?.known_ints().ok()?.windows(2).all(|pair| pair[0] == pair[1]),
            None => true,
        },
    };
    (split.output.len() == parts && matches!(axis, -1 | 1) && equal).then_some(())?;
    Some((split.input.first()?, split.output.iter().position(|output| output == name)?))
}

/// The operand of an activation.
pub(super) fn operand<'a>(seen: &Seen<'a>, name: &str, activation: &str) -> Option<&'a str> {
    seen.made_by(name, activation)?.input.first().map(String::as_str)
}

/// The terms of a sum.
pub(super) struct Terms<'a> {
    /// Values, and the matrices that they are multiplied by.
    pub products: Vec<(&'a str, Value)>,
    pub biases: Vec<Value>,
}

impl<'a> Terms<'a> {
    pub fn of(seen: &Seen<'a>, name: &'a str) -> Option<Self> {
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

/// A recurrent operator in place of a cell.
pub(super) struct Operator<'a> {
    pub op_type: &'static str,
    pub units: usize,
    pub x: &'a str,
    /// The states before and after the step: h, and c of an LSTM.
    pub states: Vec<[&'a str; 2]>,
    /// `[columns, gates · units]`, in the order of the parts.
    pub weights: Value,
    pub recurrent: Value,
    /// The biases of both products.
    pub biases: [Vec<Value>; 2],
    /// The numbers of the parts in ONNX's order of the gates.
    pub order: Vec<usize>,
    /// Attributes besides `hidden_size`.
    pub attributes: Vec<AttributeProto>,
}

impl<'a> Operator<'a> {
    /// Whether all weights have one column for each unit and gate.
    pub fn fits(&self) -> bool {
        let columns = self.units.checked_mul(self.order.len());
        let [&[rows, of_h], &[_, of_x]] = [&self.recurrent.shape[..], &self.weights.shape[..]] else { return false };
        let alike = self.biases.iter().flatten().all(|bias| Some(bias.len()) == columns);
        self.units > 0 && rows == self.units && [Some(of_h), Some(of_x)] == [columns; 2] && alike
    }

    /// Number of weights that [`replaced`](Self::replaced) copies.
    pub fn copied(&self) -> usize {
        2 * (self.weights.len() + self.recurrent.len())
    }

    /// Replaces the node of the state that is computed first, the last of `states`, by the operator over one step. `graph`
    /// is the number of the graph that contains the cell.
    pub fn replaced(self, seen: &Seen<'a>, graph: usize) -> (Vec<Replaced>, Vec<(String, Value)>) {
        let (columns, [_, new_h]) = (self.order.len() * self.units, self.states[0]);
        let name = |part: &str| format!("{new_h}/cell/{graph}/{part}");
        let raised = |from: &str, to: &str| node("Unsqueeze", &[from], &[to], vec![ints("axes", &[0])]);
        let lowered = |from: &str, to: &str, axis| node("Squeeze", &[from], &[to], vec![ints("axes", &[axis])]);
        let whole = unstacked(seen, self.x);
        let [w, r, b, x, y] = ["W", "R", "B", "x", "y"].map(name);
        let before: Vec<String> = (0..self.states.len()).map(|k| name(&format!("before{k}"))).collect();
        let after: Vec<String> = (0..self.states.len()).map(|k| name(&format!("after{k}"))).collect();
        let with = |first: &[&str], all: &[String]| -> Vec<String> {
            first.iter().map(|&name| name.to_owned()).chain(all.iter().cloned()).collect()
        };
        let mut attribute = self.attributes.clone();
        attribute.push(int("hidden_size", self.units as i64));
        let operator = NodeProto {
            input: with(&[&x, &w, &r, &b, ""], &before),
            output: with(&[&y], &after),
            attribute,
            ..node(self.op_type, &[], &[&y], vec![])
        };
        let mut nodes =
            vec![whole.map_or_else(|| raised(self.x, &x), |whole| node("Identity", &[whole], &[&x], vec![]))];
        nodes.extend(self.states.iter().zip(&before).map(|([old, _], before)| raised(old, before)));
        nodes.push(operator);
        nodes.extend(self.states.iter().zip(&after).map(|([_, new], after)| lowered(after, new, 0)));
        let at = |name: &str| seen.place(name).unwrap_or_default();
        let mut places = self.states.iter().rev().map(|[_, new]| at(new));
        let mut replaced = vec![Replaced { at: places.next().unwrap_or_default(), nodes }];
        replaced.extend(places.map(|at| Replaced { at, nodes: vec![] }));
        // A graph that stacks the output to a sequence again reads the sequence output of the operator instead.
        for (at, stack) in seen.graph.node.iter().enumerate().filter(|_| whole.is_some()) {
            if let ("Unsqueeze", Some(from), [to]) = (stack.op_type.as_str(), stack.input.first(), &stack.output[..])
                && from == new_h
                && seen.axes(stack) == Some(vec![0])
            {
                replaced.push(Replaced { at, nodes: vec![lowered(&y, to, 1)] });
            }
        }
        let [of_x, of_h] = self.biases.each_ref().map(|biases| self.bias(biases));
        let bias = Value::floats(vec![1, 2 * columns], [of_x, of_h].concat());
        (replaced, vec![(w, self.matrix(&self.weights)), (r, self.matrix(&self.recurrent)), (b, bias)])
    }

    /// The parts of a row in ONNX's order.
    fn ordered(&self, row: &[f32]) -> Vec<f32> {
        self.order.iter().flat_map(|&part| row[part * self.units..][..self.units].to_vec()).collect()
    }

    /// From `[columns, gates · units]` to `[1, gates · units, columns]`.
    fn matrix(&self, of: &Value) -> Value {
        let columns = self.order.len() * self.units;
        let data = of.known_floats().unwrap_or_default();
        let rows: Vec<Vec<f32>> = data.chunks(columns).map(|row| self.ordered(row)).collect();
        let data = (0..columns).flat_map(|gate| rows.iter().map(move |row| row[gate])).collect();
        Value::floats(vec![1, columns, of.shape[0]], data)
    }

    /// The sum of biases.
    fn bias(&self, biases: &[Value]) -> Vec<f32> {
        let mut bias = vec![0.0; self.order.len() * self.units];
        for more in biases.iter().filter_map(|bias| bias.known_floats().ok()) {
            bias.iter_mut().zip(more).for_each(|(bias, more)| *bias += more);
        }
        self.ordered(&bias)
    }
}

/// The sequence `[1, batch, features]` that has x as its only step.
fn unstacked<'a>(seen: &Seen<'a>, x: &str) -> Option<&'a str> {
    let squeeze = seen.made_by(x, "Squeeze")?;
    (seen.axes(squeeze)? == [0]).then_some(())?;
    let split = seen.made_by(squeeze.input.first()?, "Split")?;
    let axis = Attributes::of(split).int("axis", 0).ok()?;
    (axis == 0 && split.output.len() == 1).then(|| split.input.first().map(String::as_str))?
}
