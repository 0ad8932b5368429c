//! Cells in the normal form of [`symbol`](super::symbol): what follows from the last output back to the state before.
//!
//! ```text
//! LSTM     c' = clip(N(f c + i g)),  h' = clip((o act(c')) P)         f, i, o, g = act(N([x, h] K) + b (+ w c)); i = 1 - f
//! GRU      h' = u h + (1 - u) act([x, r h] K + b)                     or act(x K + b + r (h R + d))
//! UGRNN    h' = u h + (1 - u) act([x, h] K + b)
//! simple   h' = act([x, h] K + b)
//! ```
//!
//! N is a normalization over the units, or nothing; i, a gate of its own, or 1 - f. What a gate sees of h may be each
//! unit's own h times a weight.

use tidegate::activation::Activation;

use super::symbol::{Arena, Block, Expr, Id, Linear};

/// Factor, shift and epsilon (bits) of a normalization over the units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    pub gain: Id,
    pub shift: Id,
    pub epsilon: u32,
}

/// `act([x, h] K + b + w c)`
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub activation: Activation,
    pub units: usize,
    /// A block for each source of x.
    pub input: Vec<Block>,
    pub recurrent: Option<Block>,
    /// A factor for each unit's own h, in the place of a matrix.
    pub independent: Option<Id>,
    pub bias: Option<Id>,
    pub peephole: Option<Id>,
    /// Of the products, before the peephole.
    pub norm: Option<Norm>,
}

/// A cell's weights and how it uses them.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// i, j, f, o
    Lstm {
        gates: Box<[Gate; 4]>,
        /// The input gate is what the forget gate leaves; it stands there twice.
        coupled: bool,
        cell_norm: Option<Norm>,
        output_activation: Activation,
        projection: Option<(Block, usize)>,
        cell_clip: Option<f32>,
        projection_clip: Option<f32>,
    },
    /// r, u, candidate; after the product the candidate's recurrent side has a bias of its own, or none.
    Gru {
        gates: [Gate; 3],
        reset_after: Option<Option<Id>>,
    },
    /// u, candidate
    Ugrnn {
        gates: [Gate; 2],
    },
    Simple {
        gate: Gate,
    },
}

impl Cell {
    /// Whether the first step of an unrolled cell is of this one. There the states are the same zeros, so that its
    /// peepholes look like what its units see of themselves.
    pub fn begins_as(&self, first: &Self) -> bool {
        let blurred = |cell: &Self| {
            let mut cell = cell.clone();
            let gates: &mut [Gate] = match &mut cell {
                Self::Lstm { gates, .. } => &mut **gates,
                Self::Gru { gates, .. } => gates,
                Self::Ugrnn { gates } => gates,
                Self::Simple { gate } => std::slice::from_mut(gate),
            };
            for gate in gates {
                gate.peephole = gate.peephole.or(gate.independent.take());
            }
            cell
        };
        blurred(self) == blurred(first)
    }
}

/// A cell at one step.
#[derive(Clone, Debug)]
pub struct Found {
    pub cell: Cell,
    /// Its input.
    pub x: Id,
    /// Its output of the step before.
    pub hidden: Id,
    /// Its cell state of the step before and of this one.
    pub state: Option<[Id; 2]>,
}

/// A gate whose sources are not told apart yet.
#[derive(Clone)]
struct Sum {
    activation: Activation,
    linear: Linear,
    norm: Option<Norm>,
}

/// The cell whose output is `value`, if it is one. A state is what the loop carries, zeros, or the same cell's of the
/// step before.
pub fn find(arena: &mut Arena, value: Id) -> Option<Found> {
    lstm(arena, value).or_else(|| gru(arena, value)).or_else(|| simple(arena, value))
}

/// What an activation is of; the value itself under none.
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
    // A peephole stands beside the normalization of the rest.
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

/// What is normalized, and how; the value itself if it is not.
fn normalized(arena: &Arena, value: Id) -> (Id, Option<Norm>) {
    match *arena.expr(value) {
        Expr::Norm(inner, gain, shift, epsilon) => (inner, Some(Norm { gain, shift, epsilon })),
        _ => (value, None),
    }
}

/// The sum of products, which is normalized and then has only products, or is not.
fn products(arena: &Arena, value: Id) -> Option<Linear> {
    let (inner, norm) = normalized(arena, value);
    match arena.expr(inner) {
        Expr::Linear(linear) if norm.is_none() || (linear.bias.is_none() && linear.diagonals.is_empty()) => {
            Some(linear.clone())
        }
        _ => None,
    }
}

/// What is clipped to plus and minus a bound, and the bound.
fn unclipped(arena: &Arena, value: Id) -> (Id, Option<f32>) {
    match *arena.expr(value) {
        Expr::Clip(inner, a, b) if f32::from_bits(a) == -f32::from_bits(b) => (inner, Some(f32::from_bits(b))),
        _ => (value, None),
    }
}

/// Whether the state `old` can have become `new` in one step.
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

/// What is under the projection and its clip: the output gate times the shown state.
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
                let Some(f) = gate(arena, forget).filter(|_| precedes(arena, old, new, is_sum)) else { continue };
                let rest = Expr::Affine(forget, (-1.0_f32).to_bits(), 1.0_f32.to_bits());
                let left = added.iter().find(|[left, _]| *arena.expr(*left) == rest);
                let coupled = left.is_some();
                let (i, j) = if let Some([_, candidate]) = left {
                    let Some(j) = gate(arena, *candidate) else { continue };
                    (f.clone(), j)
                } else {
                    let (Some(a), Some(b)) = (gate(arena, added[0][0]), gate(arena, added[0][1])) else { continue };
                    // Of two alike either can be the gate; else the candidate is what is unlike the forget gate.
                    if a.activation == f.activation { (a, b) } else { (b, a) }
                };
                let hidden = {
                    let is_hidden = |expr: &Id| match arena.expr(*expr) {
                        Expr::Variable(variable) => arena.variables[*variable].next == Some(value),
                        Expr::Fill(0) => arena.is_zero(old),
                        _ => {
                            let (before, _, _) = under_projection(arena, *expr);
                            let states = pair(arena, before, true);
                            states.is_some_and(|states| states.iter().any(|[_, c]| activated(arena, *c).1 == old))
                        }
                    };
                    recurrent([&i, &j, &f, &o], is_hidden)
                };
                let found = hidden.and_then(|hidden| {
                    let (gates, x) =
                        split(arena, [(i, Some(old)), (j, Some(old)), (f, Some(old)), (o.clone(), Some(new))], hidden)?;
                    let cell = Cell::Lstm {
                        gates: Box::new(gates),
                        coupled,
                        cell_norm,
                        output_activation,
                        projection,
                        cell_clip,
                        projection_clip,
                    };
                    Some(Found { cell, x, hidden, state: Some([old, new]) })
                });
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    None
}

/// The one source of the gates that is the cell's own output.
fn recurrent<const N: usize>(gates: [&Sum; N], is_hidden: impl Fn(&Id) -> bool) -> Option<Id> {
    let of_terms: Vec<Id> = gates.iter().flat_map(|gate| gate.linear.terms.iter().map(|(id, _)| *id)).collect();
    let of_diagonals = gates.iter().flat_map(|gate| gate.linear.diagonals.iter().map(|(id, _)| *id)).collect();
    // Peepholes show another state, which before the first step is zeros as well.
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

/// The weights of a state, of which there is one.
fn take(diagonals: &mut Vec<(Id, Id)>, state: Id) -> Option<Id> {
    let at = diagonals.iter().position(|(source, _)| *source == state)?;
    Some(diagonals.remove(at).1)
}

/// Gates that read `hidden`, each with the state that its peephole must show, and what else they all read.
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
        // Before the first step all states are the same zeros: a cell has peepholes rather than units of their own.
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
    let is_sum = |expr: &Expr| matches!(expr, Expr::Add(..));
    for [kept, rest] in pair(arena, value, false)? {
        let (Some(kept), Some(rest)) = (pair(arena, kept, true), pair(arena, rest, true)) else { continue };
        for [update, hidden] in kept {
            if !precedes(arena, hidden, value, is_sum) {
                continue;
            }
            let Some(u) = gate(arena, update) else { continue };
            for [left, candidate] in rest {
                if *arena.expr(left) != Expr::Affine(update, (-1.0_f32).to_bits(), 1.0_f32.to_bits()) {
                    continue;
                }
                if let Some((cell, x)) = gru_gates(arena, u, candidate, hidden) {
                    return Some(Found { cell, x, hidden, state: None });
                }
                return None;
            }
        }
    }
    None
}

fn gru_gates(arena: &mut Arena, u: Sum, candidate: Id, hidden: Id) -> Option<(Cell, Id)> {
    let (activation, sum) = activated(arena, candidate);
    // The factor beside one that is `hidden`, or reads nothing else.
    let reset_of = |arena: &Arena, product: Id, wanted: &dyn Fn(Id) -> bool| {
        let factors = pair(arena, product, true)?;
        factors.iter().find(|[_, state]| wanted(*state)).map(|[reset, state]| (*reset, *state))
    };
    if let Expr::Linear(linear) = arena.expr(sum).clone() {
        let sources = linear.terms.iter().map(|(source, _)| *source);
        let reset = sources.chain(linear.diagonals.iter().map(|(source, _)| *source)).find_map(|source| {
            let (reset, _) = reset_of(arena, source, &|state| state == hidden)?;
            Some((reset, source))
        });
        let Some((reset, product)) = reset else {
            let (gates, x) = split(arena, [(u, None), (Sum { activation, linear, norm: None }, None)], hidden)?;
            return Some((Cell::Ugrnn { gates }, x));
        };
        let r = gate(arena, reset)?;
        // The candidate reads r h where the gates read h.
        let mut linear = linear;
        if linear.terms.iter().any(|(source, _)| *source == hidden) {
            return None;
        }
        let of_terms = linear.terms.iter_mut().map(|(source, _)| source);
        for source in of_terms.chain(linear.diagonals.iter_mut().map(|(source, _)| source)) {
            if *source == product {
                *source = hidden;
            }
        }
        let gates = [(r, None), (u, None), (Sum { activation, linear, norm: None }, None)];
        let (gates, x) = split(arena, gates, hidden)?;
        return Some((Cell::Gru { gates, reset_after: None }, x));
    }
    for [input, product] in pair(arena, sum, false)? {
        let Expr::Linear(input) = arena.expr(input).clone() else { continue };
        let of_hidden = |id: Id| match arena.expr(id) {
            Expr::Linear(linear) => matches!(*linear.terms, [(source, _)] if source == hidden),
            _ => false,
        };
        let Some((reset, product)) = reset_of(arena, product, &of_hidden) else { continue };
        let Expr::Linear(own) = arena.expr(product).clone() else { continue };
        if !own.diagonals.is_empty() || input.terms.iter().any(|(source, _)| *source == hidden) {
            return None;
        }
        let r = gate(arena, reset)?;
        let mut linear = input;
        linear.terms.extend(own.terms);
        let gates = [(r, None), (u, None), (Sum { activation, linear, norm: None }, None)];
        let (gates, x) = split(arena, gates, hidden)?;
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
                before.activation == sum.activation
                    && before.linear.terms.iter().map(|(_, block)| block).eq(sum.linear.terms.iter().map(|(_, b)| b))
                    && before.linear.diagonals.iter().map(|(_, id)| id).eq(sum.linear.diagonals.iter().map(|(_, d)| d))
            }),
        };
        recurrent([&sum], is_hidden)?
    };
    let (gates, x) = split(arena, [(sum, None)], hidden)?;
    let [gate] = gates;
    Some(Found { cell: Cell::Simple { gate }, x, hidden, state: None })
}
