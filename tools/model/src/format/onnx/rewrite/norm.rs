//! Normalizations over the last dimensions, as exporters write them out.
//!
//! ```text
//! Div(d, Sqrt(ReduceMean(d²) + ε))   d = x - ReduceMean(x)    a layer normalization
//! Div(x, Sqrt(ReduceMean(x²) + ε))                            an RMS normalization; also written as a product with the reciprocal
//! ```

use super::{Replaced, Seen, int, node};
use crate::format::onnx::graph::Attributes;
use crate::format::onnx::proto::{AttributeProto, NodeProto, kind};

pub(super) fn found(seen: &Seen<'_>) -> Vec<Replaced> {
    let nodes = seen.graph.node.iter().enumerate();
    nodes.filter_map(|(at, node)| Some(Replaced { at, nodes: vec![norm(seen, node)?] })).collect()
}

fn norm(seen: &Seen<'_>, product: &NodeProto) -> Option<NodeProto> {
    let output = product.output.first()?;
    let (value, deviation) = match product.op_type.as_str() {
        "Div" => (product.input.first()?.as_str(), seen.made_by(product.input.get(1)?, "Sqrt")?),
        "Mul" => seen.pair(output, "Mul", Some, |name| reciprocal(seen, name))?,
        _ => return None,
    };
    let sum = deviation.input.first()?;
    let (variance, epsilon) =
        seen.pair(sum, "Add", |name| seen.made_by(name, "ReduceMean"), |name| seen.number(name))?;
    let square = variance.input.first()?;
    let squared = match (seen.made_by(square, "Mul"), seen.made_by(square, "Pow")) {
        (Some(product), _) if product.input.first() == product.input.get(1) => product.input.first()?,
        (_, Some(power)) if seen.number(power.input.get(1)?)? == 2.0 => power.input.first()?,
        _ => return None,
    };
    let axes = mean(seen, variance)?;
    let (op, x) = match (centered(seen, value), centered(seen, squared)) {
        (Some((x, own)), Some(other)) if other == (x, own.clone()) && own == axes => ("LayerNormalization", x),
        _ if value == squared => ("RMSNormalization", value),
        _ => return None,
    };
    let f = AttributeProto { name: "epsilon".into(), f: epsilon, kind: kind::FLOAT, ..AttributeProto::default() };
    let made = node(op, &[x], &[output], vec![int("axis", -(axes.len() as i64)), f]);
    Some(NodeProto { name: product.name.clone(), ..made })
}

/// The root whose reciprocal a value is.
fn reciprocal<'a>(seen: &Seen<'a>, name: &str) -> Option<&'a NodeProto> {
    let root = match (seen.made_by(name, "Reciprocal"), seen.made_by(name, "Div")) {
        (Some(node), _) => node.input.first()?,
        (_, Some(quotient)) if seen.number(quotient.input.first()?)? == 1.0 => quotient.input.get(1)?,
        _ => return None,
    };
    seen.made_by(root, "Sqrt")
}

/// x and the axes, if a value is `x - ReduceMean(x)`.
fn centered<'a>(seen: &Seen<'a>, name: &str) -> Option<(&'a str, Vec<i64>)> {
    let [x, of] = &seen.made_by(name, "Sub")?.input[..] else { return None };
    let reduction = seen.made_by(of, "ReduceMean")?;
    (reduction.input.first() == Some(x)).then_some(())?;
    Some((x, mean(seen, reduction)?))
}

/// The axes of a mean, if they are the last ones and stay.
fn mean<'a>(seen: &Seen<'a>, reduction: &'a NodeProto) -> Option<Vec<i64>> {
    let mut axes = seen.axes(reduction)?;
    if axes.iter().any(|axis| *axis >= 0) {
        let rank = seen.rank(reduction.input.first()?)?;
        axes.iter_mut().filter(|axis| **axis >= 0).for_each(|axis| *axis -= rank);
    }
    axes.sort_unstable();
    let last = axes.iter().rev().zip(1..).all(|(&axis, from_end)| axis == -from_end);
    (last && !axes.is_empty() && Attributes::of(reduction).int("keepdims", 1).ok()? == 1).then_some(axes)
}
