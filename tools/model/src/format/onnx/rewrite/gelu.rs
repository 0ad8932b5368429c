//! `x · 1/2 · (1 + erf(x / √2))` in any order: the exact GELU.

use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

use super::{Replaced, Seen, node};
use crate::format::onnx::proto::NodeProto;

pub(super) fn found(seen: &Seen<'_>) -> Vec<Replaced> {
    let nodes = seen.graph.node.iter().enumerate().filter(|(_, node)| node.op_type == "Mul");
    nodes.filter_map(|(at, product)| Some(Replaced { at, nodes: vec![gelu(seen, product)?] })).collect()
}

fn gelu(seen: &Seen<'_>, product: &NodeProto) -> Option<NodeProto> {
    let output = product.output.first()?;
    let (factor, factors) = factors(seen, output)?;
    let [a, b] = factors[..] else { return None };
    let of = |a: &str, b: &str| argument(seen, b).filter(|x| *x == a).is_some();
    let x = if of(a, b) { a } else { of(b, a).then_some(b)? };
    (factor == 0.5).then(|| NodeProto { name: product.name.clone(), ..node("Gelu", &[x], &[output], vec![]) })
}

/// The factors of a product of products: their numbers multiplied, and the others.
fn factors<'a>(seen: &Seen<'a>, name: &'a str) -> Option<(f32, Vec<&'a str>)> {
    const MOST: usize = 4;
    let (mut rest, mut number, mut others) = (vec![name], 1.0, Vec::new());
    while let Some(name) = rest.pop() {
        if rest.len() + others.len() > MOST {
            return None;
        }
        match (seen.number(name), seen.made_by(name, "Mul")) {
            (Some(factor), _) => number *= factor,
            (None, Some(product)) => rest.extend(product.input.iter().map(String::as_str)),
            (None, None) => others.push(name),
        }
    }
    Some((number, others))
}

/// x, if a value is `1 + erf(x / √2)`.
fn argument<'a>(seen: &Seen<'a>, name: &'a str) -> Option<&'a str> {
    let one = |name: &'a str| seen.number(name).filter(|number| *number == 1.0);
    let erf = |name: &'a str| seen.made_by(name, "Erf")?.input.first().map(String::as_str);
    let (scaled, _) = seen.pair(name, "Add", erf, one)?;
    let near = |name: &'a str, wanted: f32| seen.number(name).filter(|number| (number - wanted).abs() < 1e-6);
    if let Some(division) = seen.made_by(scaled, "Div") {
        let [x, by] = &division.input[..] else { return None };
        return near(by, SQRT_2).map(|_| x.as_str());
    }
    seen.pair(scaled, "Mul", Some, |name| near(name, FRAC_1_SQRT_2)).map(|(x, _)| x)
}
