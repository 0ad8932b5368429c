//! `Div(d, Sqrt(ReduceMean(d²) + ε))` with `d = x - ReduceMean(x)`, over the last dimensions: a layer normalization.

use super::{Replaced, Seen, int, node};
use crate::format::onnx::graph::Attributes;
use crate::format::onnx::proto::{AttributeProto, NodeProto, kind};

pub(super) fn found(seen: &Seen<'_>) -> Vec<Replaced> {
    let nodes = seen.graph.node.iter().enumerate().filter(|(_, node)| node.op_type == "Div");
    nodes.filter_map(|(at, division)| Some(Replaced { at, nodes: vec![norm(seen, division)?] })).collect()
}

fn norm(seen: &Seen<'_>, division: &NodeProto) -> Option<NodeProto> {
    let [difference, deviation] = &division.input[..] else { return None };
    let (x, axes) = centered(seen, difference)?;
    let sum = seen.made_by(deviation, "Sqrt")?.input.first()?;
    let (variance, epsilon) =
        seen.pair(sum, "Add", |name| seen.made_by(name, "ReduceMean"), |name| seen.number(name))?;
    let square = variance.input.first()?;
    let squared = match (seen.made_by(square, "Mul"), seen.made_by(square, "Pow")) {
        (Some(product), _) if product.input.first() == product.input.get(1) => product.input.first()?,
        (_, Some(power)) if seen.number(power.input.get(1)?)? == 2.0 => power.input.first()?,
        _ => return None,
    };
    if centered(seen, squared)? != (x, axes.clone()) || mean(seen, variance)? != axes {
        return None;
    }
    let f = AttributeProto { name: "epsilon".into(), f: epsilon, kind: kind::FLOAT, ..AttributeProto::default() };
    let (output, first) = (division.output.first()?, -(axes.len() as i64));
    let made = node("LayerNormalization", &[x], &[output], vec![int("axis", first), f]);
    Some(NodeProto { name: division.name.clone(), ..made })
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
    axes.sort_unstable();
    let last = axes.iter().rev().zip(1..).all(|(&axis, from_end)| axis == -from_end);
    (last && !axes.is_empty() && Attributes::of(reduction).int("keepdims", 1).ok()? == 1).then_some(axes)
}
