//! The first step of an unrolled cell in which a converter has folded the initial state: a product with zeros is gone, and
//! one with a bias is a constant.

use std::collections::{HashMap, HashSet};

use super::pattern::Found;
use super::symbol::{Arena, Expr, Id, Linear};

/// Maximum depth of the expressions of a step.
const MAX_DEPTH: usize = 100;

/// The input of the first step, given the second one: its output `value` and its cell. `None` if the first step is not the
/// second one with states of zeros.
pub fn input(arena: &mut Arena, second: &Found, value: Id) -> Option<Id> {
    let parts = match arena.expr(second.x) {
        Expr::Concat(parts) => parts.clone(),
        _ => vec![second.x],
    };
    let mut known: HashMap<Id, Id> = parts.iter().map(|&part| (part, part)).collect();
    for state in [Some(second.hidden), second.state.map(|[old, _]| old)].into_iter().flatten() {
        let shape = arena.shape(state).to_vec();
        known.insert(state, arena.make(Expr::Fill(0), shape).ok()?);
    }
    let mut found = HashMap::new();
    let outputs = [Some((value, second.hidden)), second.state.map(|[old, new]| (new, old))];
    for (value, first) in outputs.into_iter().flatten() {
        let expected = begun(arena, value, &mut known, 0)?;
        let mut seen = HashSet::new();
        if !matches(arena, expected, first, &parts, &mut found, &mut seen, 0) {
            return None;
        }
    }
    let x: Option<Vec<Id>> = parts.iter().map(|part| found.get(part).copied()).collect();
    arena.concat(&x?).ok()
}

/// An expression in which the zeros of initial states are folded. `known` has those in place of the states of a later step.
fn begun(arena: &mut Arena, id: Id, known: &mut HashMap<Id, Id>, depth: usize) -> Option<Id> {
    if let Some(&begun) = known.get(&id) {
        return Some(begun);
    }
    if depth == MAX_DEPTH || arena.spend_steps(1).is_err() {
        return None;
    }
    let operands = arena.operands(id);
    let new: Option<Vec<Id>> = operands.iter().map(|&operand| begun(arena, operand, known, depth + 1)).collect();
    let new = new?;
    let folded = match (arena.expr(id).clone(), new.as_slice()) {
        (Expr::Linear(linear), new) => without_zeros(arena, linear, new)?,
        _ if new == operands => id,
        (Expr::Affine(_, _, shift), &[x]) if arena.is_zero(x) => {
            let shape = arena.shape(id).to_vec();
            arena.make(Expr::Fill(shift), shape).ok()?
        }
        (Expr::Add(..), &[zero, x] | &[x, zero]) if arena.is_zero(zero) => x,
        (Expr::Mul(..), &[zero, _] | &[_, zero]) if arena.is_zero(zero) => zero,
        _ if arena.is_stepwise(id) => arena.with_operands(id, &new).ok()?,
        _ => return None,
    };
    known.insert(id, folded);
    Some(folded)
}

/// A sum with new sources, without the products of zeros and without a bias of zeros.
fn without_zeros(arena: &mut Arena, mut linear: Linear, sources: &[Id]) -> Option<Id> {
    linear.sources_mut().zip(sources).for_each(|(source, &new)| *source = new);
    linear.terms.retain(|(source, _)| !arena.is_zero(*source));
    linear.diagonals.retain(|(source, _)| !arena.is_zero(*source));
    linear.bias = linear.bias.filter(|&bias| arena.vector(bias).iter().any(|&value| value != 0.0));
    let shape = arena.with_width(*sources.first()?, linear.units);
    match linear.bias {
        _ if linear.sources().next().is_some() => arena.make(Expr::Linear(linear), shape).ok(),
        Some(bias) => Some(bias),
        None => arena.make(Expr::Fill(0), shape).ok(),
    }
}

/// Whether an expression of the first step is the expected one. `found` has the expressions in place of `parts`, the input
/// of the second step.
fn matches(
    arena: &mut Arena,
    expected: Id,
    first: Id,
    parts: &[Id],
    found: &mut HashMap<Id, Id>,
    seen: &mut HashSet<(Id, Id)>,
    depth: usize,
) -> bool {
    if parts.contains(&expected) {
        return *found.entry(expected).or_insert(first) == first;
    }
    let first = match arena.expr(first).clone() {
        Expr::Linear(linear) => {
            let sources: Vec<Id> = linear.sources().collect();
            without_zeros(arena, linear, &sources).unwrap_or(first)
        }
        _ => first,
    };
    if (expected == first && arena.is_constant(first)) || !seen.insert((expected, first)) {
        return true;
    }
    let (of_expected, of_first) = (arena.operands(expected), arena.operands(first));
    depth < MAX_DEPTH
        && arena.spend_steps(1).is_ok()
        && arena.is_alike(expected, first)
        && of_expected.len() == of_first.len()
        && of_expected.into_iter().zip(of_first).all(|(a, b)| matches(arena, a, b, parts, found, seen, depth + 1))
}
