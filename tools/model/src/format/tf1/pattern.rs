//! Recognizes cells in the normal form of [`symbol`](super::symbol), following the expressions from the last output
//! back to the previous state.
//!
//! ```text
//! LSTM     c' = clip(N(f c + i g)),  h' = clip((o act(c')) P)         f, i, o, g = act(N([x, h] K) + b (+ w c)); i = 1 - f
//! GRU      h' = u h + (1 - u) act([x, r h] K + b)                     or act(x K + b + r (h R + d))
//! UGRNN    h' = u h + (1 - u) act([x, h] K + b)
//! simple   h' = act([x, h] K + b)
//! ```
//!
//! N is an optional normalization over the units. i is either a gate of its own or 1 - f. A gate may use each unit's
//! own h times a weight instead of a matrix product.

use tidegate::internals::activation::Activation;

use super::symbol::{Arena, Block, Cell, Expr, Gate, Id, Linear, Lstm, Norm};

/// A cell at one step.
#[derive(Clone, Debug)]
pub struct Found {
    pub cell: Cell,
    pub x: Id,
    /// Output of the cell at the previous step.
    pub hidden: Id,
    /// Cell state at the previous step and at this one.
    pub state: Option<[Id; 2]>,
}

/// A gate whose sources have not been split into x and h yet.
#[derive(Clone)]
struct Sum {
    activation: Activation,
    linear: Linear,
    norm: Option<Norm>,
}

/// The cell whose output is `value`, if any. A state may be a variable of the loop, zeros, or the state of the same
/// cell at the previous step.
pub fn find(arena: &mut Arena, value: Id) -> Option<Found> {
    lstm(arena, value).or_else(|| gru(arena, value)).or_else(|| simple(arena, value))
}

/// The activation of `value` and its operand; `Identity` and `value` itself if there is no activation.
fn activated(arena: &Arena, value: Id) -> (Activation, Id) {
    match *arena.expr(value) {
        Expr::Unary(activation, inner) => (arena.activation(activation), inner),
        Expr::Clip(inner, a, b) if f32::from_bits(a) == -1.0 && f32::from_bits(b) == 1.0 => {
            (Activation::HardTanh, inner)
        }
        _ => (Activation::Identity, value),
    }
}

fn gate(arena: &Arena, value: Id) -> Option<Sum> {
    let (activation, inner) = activated(arena, value);
    // A peephole is added outside the normalization.
    if let Expr::Add(a, b) = *arena.expr(inner) {
        for (a, b) in [(a, b), (b, a)] {
            let (norm, Some(sum), Expr::Linear(Linear { terms, diagonals, bias: None, .. })) =
                (normalized(arena, a).1, products(arena, a), arena.expr(b))
            else {
                continue;
            };
            if norm.is_some() && terms.is_empty() {
                let linear = Linear { diagonals: diagonals.clone(), ..sum };
                return Some(Sum { activation, linear, norm });
            }
        }
        return None;
    }
    let (_, norm) = normalized(arena, inner);
    Some(Sum { activation, linear: products(arena, inner)?, norm })
}

/// The operand and the parameters of a normalization; `value` itself if it is not normalized.
fn normalized(arena: &Arena, value: Id) -> (Id, Option<Norm>) {
    match *arena.expr(value) {
        Expr::Norm(inner, gain, shift, epsilon) => (inner, Some(Norm { gain, shift, epsilon })),
        _ => (value, None),
    }
}

/// The sum of products in `value`. If the sum is normalized, it must have neither a bias nor diagonals.
fn products(arena: &Arena, value: Id) -> Option<Linear> {
    let (inner, norm) = normalized(arena, value);
    match arena.expr(inner) {
        Expr::Linear(linear) if norm.is_none() || (linear.bias.is_none() && linear.diagonals.is_empty()) => {
            Some(linear.clone())
        }
        _ => None,
    }
}

/// The operand and the bound of a symmetric clip; `value` itself if it is not clipped.
fn unclipped(arena: &Arena, value: Id) -> (Id, Option<f32>) {
    match *arena.expr(value) {
        Expr::Clip(inner, a, b) if f32::from_bits(a) == -f32::from_bits(b) => (inner, Some(f32::from_bits(b))),
        _ => (value, None),
    }
}

/// Whether the state `old` can be the predecessor of `new`.
fn precedes(arena: &Arena, old: Id, new: Id, same_form: impl Fn(&Expr) -> bool) -> bool {
    match arena.expr(old) {
        Expr::Variable(variable) => arena.variables[*variable].next == Some(new),
        Expr::Fill(0) => true,
        expr => same_form(expr),
    }
}

fn pair(arena: &Arena, value: Id, product: bool) -> Option<[[Id; 2]; 2]> {
    match *arena.expr(value) {
        Expr::Add(a, b) if !product => Some([[a, b], [b, a]]),
        Expr::Mul(a, b) if product => Some([[a, b], [b, a]]),
        _ => None,
    }
}

fn one_minus(gate: Id) -> Expr {
    Expr::Affine(gate, (-1.0_f32).to_bits(), 1.0_f32.to_bits())
}

/// The operand of the projection and its clip: the output gate times the activated cell state.
fn under_projection(arena: &Arena, value: Id) -> (Id, Option<(Block, usize)>, Option<f32>) {
    let (inner, clip) = unclipped(arena, value);
    match arena.expr(inner) {
        Expr::Linear(Linear { terms, diagonals, bias: None, units }) if diagonals.is_empty() => match **terms {
            [(shown, block)] if matches!(arena.expr(shown), Expr::Mul(..)) => (shown, Some((block, *units)), clip),
            _ => (value, None, None),
        },
        _ => (value, None, None),
    }
}

fn lstm(arena: &mut Arena, value: Id) -> Option<Found> {
    let (shown, projection, projection_clip) = under_projection(arena, value);
    for [output, state] in pair(arena, shown, true)? {
        let (output_activation, new) = activated(arena, state);
        let (sum, cell_clip) = unclipped(arena, new);
        let (sum, cell_norm) = normalized(arena, sum);
        let (Some(o), Some(terms)) = (gate(arena, output), pair(arena, sum, false)) else { continue };
        for [kept, added] in terms {
            let (Some(kept), Some(added)) = (pair(arena, kept, true), pair(arena, added, true)) else { continue };
            for [forget, old] in kept {
                let is_sum = |expr: &Expr| matches!(expr, Expr::Add(..) | Expr::Clip(..) | Expr::Norm(..));
                // After a folded first step the state is i g.
                let is_state = |expr: &Expr| is_sum(expr) || matches!(expr, Expr::Mul(..));
                let Some(f) = gate(arena, forget).filter(|_| precedes(arena, old, new, is_state)) else { continue };
                let left = added.iter().find(|[left, _]| *arena.expr(*left) == one_minus(forget));
                let coupled = left.is_some();
                let (i, j) = if let Some([_, candidate]) = left {
                    let Some(j) = gate(arena, *candidate) else { continue };
                    (f.clone(), j)
                } else {
                    let (Some(a), Some(b)) = (gate(arena, added[0][0]), gate(arena, added[0][1])) else { continue };
                    // If the activations of both are the same, either can be the gate. Otherwise the candidate is the
                    // one whose activation differs from that of the forget gate.
                    if a.activation == f.activation { (a, b) } else { (b, a) }
                };
                let is_hidden = |expr: &Id| match arena.expr(*expr) {
                    Expr::Variable(variable) => arena.variables[*variable].next == Some(value),
                    Expr::Fill(0) => arena.is_zero(old),
                    _ => {
                        let (before, _, _) = under_projection(arena, *expr);
                        let states = pair(arena, before, true);
                        states.is_some_and(|states| states.iter().any(|[_, c]| activated(arena, *c).1 == old))
                    }
                };
                let Some(hidden) = recurrent([&i, &j, &f, &o], is_hidden) else { continue };
                let sums = [(i, Some(old)), (j, Some(old)), (f, Some(old)), (o.clone(), Some(new))];
                let Some((gates, x)) = split(arena, sums, hidden) else { continue };
                let lstm =
                    Lstm { gates, coupled, cell_norm, output_activation, projection, cell_clip, projection_clip };
                return Some(Found { cell: Cell::Lstm(Box::new(lstm)), x, hidden, state: Some([old, new]) });
            }
        }
    }
    None
}

/// The only source of the gates that is the cell's own output.
fn recurrent<const N: usize>(gates: [&Sum; N], is_hidden: impl Fn(&Id) -> bool) -> Option<Id> {
    let of_terms: Vec<Id> = gates.iter().flat_map(|gate| gate.linear.terms.iter().map(|(id, _)| *id)).collect();
    let of_diagonals = gates.iter().flat_map(|gate| gate.linear.diagonals.iter().map(|(id, _)| *id)).collect();
    // Matrix products come first: peepholes read the cell state, which is also zero before the first step.
    for mut sources in [of_terms, of_diagonals] {
        sources.sort_unstable();
        sources.dedup();
        sources.retain(&is_hidden);
        match *sources {
            [] => {}
            [hidden] => return Some(hidden),
            _ => return None,
        }
    }
    None
}

fn take(diagonals: &mut Vec<(Id, Id)>, state: Id) -> Option<Id> {
    let at = diagonals.iter().position(|(source, _)| *source == state)?;
    Some(diagonals.remove(at).1)
}

/// Splits the sources of each gate into `hidden`, the state that its peephole must read, and the rest. The rest must be
/// the same for all gates; it is returned as x.
fn split<const N: usize>(arena: &mut Arena, gates: [(Sum, Option<Id>); N], hidden: Id) -> Option<([Gate; N], Id)> {
    let mut input: Option<Vec<Id>> = None;
    let mut done = Vec::new();
    for (Sum { activation, linear, norm }, shown) in gates {
        let (mut terms, mut diagonals) = (linear.terms, linear.diagonals);
        let own: Vec<Block> = terms.extract_if(.., |(source, _)| *source == hidden).map(|(_, block)| block).collect();
        let recurrent = match *own {
            [] => None,
            [block] => Some(block),
            _ => return None,
        };
        // Before the first step all states are the same zeros; weights are then assigned to peepholes first.
        let peephole = shown.and_then(|shown| take(&mut diagonals, shown));
        let independent = take(&mut diagonals, hidden);
        if !diagonals.is_empty() || (recurrent.is_some() && independent.is_some()) {
            return None;
        }
        let (sources, blocks): (Vec<Id>, Vec<Block>) = terms.into_iter().unzip();
        if *input.get_or_insert_with(|| sources.clone()) != sources {
            return None;
        }
        let (units, input, bias) = (linear.units, blocks, linear.bias);
        done.push(Gate { activation, units, input, recurrent, independent, bias, peephole, norm });
    }
    let x = arena.concat(&input?).ok()?;
    Some((done.try_into().ok()?, x))
}

fn gru(arena: &mut Arena, value: Id) -> Option<Found> {
    // After a folded first step the state is (1 - u) times the candidate.
    let is_sum = |expr: &Expr| matches!(expr, Expr::Add(..) | Expr::Mul(..));
    for [kept, rest] in pair(arena, value, false)? {
        // n + z (h - n), as PyTorch computes it.
        for [update, difference] in pair(arena, kept, true).into_iter().flatten() {
            let minus = Expr::Affine(rest, (-1.0_f32).to_bits(), 0.0_f32.to_bits());
            let of = pair(arena, difference, false).into_iter().flatten().find(|[_, of]| *arena.expr(*of) == minus);
            let Some([hidden, _]) = of.filter(|[hidden, _]| precedes(arena, *hidden, value, is_sum)) else { continue };
            if let Some(u) = gate(arena, update) {
                let (cell, x) = gru_gates(arena, u, rest, hidden)?;
                return Some(Found { cell, x, hidden, state: None });
            }
        }
        let (Some(kept), Some(rest)) = (pair(arena, kept, true), pair(arena, rest, true)) else { continue };
        for [update, hidden] in kept {
            if !precedes(arena, hidden, value, is_sum) {
                continue;
            }
            let Some(u) = gate(arena, update) else { continue };
            for [left, candidate] in rest {
                if *arena.expr(left) == one_minus(update) {
                    let (cell, x) = gru_gates(arena, u, candidate, hidden)?;
                    return Some(Found { cell, x, hidden, state: None });
                }
            }
        }
    }
    None
}

fn gru_gates(arena: &mut Arena, u: Sum, candidate: Id, hidden: Id) -> Option<(Cell, Id)> {
    let (activation, sum) = activated(arena, candidate);
    // The reset gate: the other factor of a product in which `wanted` accepts one factor.
    let reset_of = |arena: &Arena, product: Id, wanted: &dyn Fn(Id) -> bool| {
        let factors = pair(arena, product, true)?;
        factors.iter().find(|[_, state]| wanted(*state)).map(|[reset, state]| (*reset, *state))
    };
    let candidate = |linear| (Sum { activation, linear, norm: None }, None);
    if let Expr::Linear(mut linear) = arena.expr(sum).clone() {
        let of_hidden = |state| state == hidden;
        let reset = linear.sources().find_map(|source| Some((reset_of(arena, source, &of_hidden)?.0, source)));
        let Some((reset, product)) = reset else {
            let (gates, x) = split(arena, [(u, None), candidate(linear)], hidden)?;
            return Some((Cell::Ugrnn { gates }, x));
        };
        let r = gate(arena, reset)?;
        if linear.terms.iter().any(|(source, _)| *source == hidden) {
            return None;
        }
        // The candidate reads r h where the gates read h.
        linear.sources_mut().filter(|source| **source == product).for_each(|source| *source = hidden);
        let (gates, x) = split(arena, [(r, None), (u, None), candidate(linear)], hidden)?;
        return Some((Cell::Gru { gates, reset_after: None }, x));
    }
    for [input, product] in pair(arena, sum, false)? {
        let Expr::Linear(mut linear) = arena.expr(input).clone() else { continue };
        let of_hidden = |id: Id| match arena.expr(id) {
            Expr::Linear(linear) => matches!(*linear.terms, [(source, _)] if source == hidden),
            _ => false,
        };
        let Some((reset, product)) = reset_of(arena, product, &of_hidden) else { continue };
        let Expr::Linear(own) = arena.expr(product).clone() else { continue };
        if !own.diagonals.is_empty() || linear.terms.iter().any(|(source, _)| *source == hidden) {
            return None;
        }
        let r = gate(arena, reset)?;
        linear.terms.extend(own.terms);
        let (gates, x) = split(arena, [(r, None), (u, None), candidate(linear)], hidden)?;
        return Some((Cell::Gru { gates, reset_after: Some(own.bias) }, x));
    }
    None
}

fn simple(arena: &mut Arena, value: Id) -> Option<Found> {
    let sum = gate(arena, value)?;
    let hidden = {
        let is_hidden = |source: &Id| match arena.expr(*source) {
            Expr::Variable(variable) => arena.variables[*variable].next == Some(value),
            Expr::Fill(0) => true,
            _ => gate(arena, *source).is_some_and(|before| {
                // A folded first step has no product with the state.
                let mut folded = sum.linear.clone();
                folded.terms.retain(|(of, _)| of != source);
                folded.diagonals.retain(|(of, _)| of != source);
                let weights = [&sum.linear, &folded].map(|linear| before.linear.has_weights_of(linear));
                before.activation == sum.activation && weights.contains(&true)
            }),
        };
        recurrent([&sum], is_hidden)?
    };
    let ([gate], x) = split(arena, [(sum, None)], hidden)?;
    Some(Found { cell: Cell::Simple { gate }, x, hidden, state: None })
}
