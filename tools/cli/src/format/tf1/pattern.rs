//! Cells in the normal form of [`symbol`](super::symbol): what follows from the last output back to the state before.
//!
//! ```text
//! LSTM     c' = clip(f c + i g),  h' = clip((o act(c')) P)            f, i, o, g = act([x, h] K + b (+ w c))
//! GRU      h' = u h + (1 - u) act([x, r h] K + b)                     or act(x K + b + r (h R + d))
//! UGRNN    h' = u h + (1 - u) act([x, h] K + b)
//! simple   h' = act([x, h] K + b)
//! ```

use tidegate::activation::Activation;

use super::cells::{self, LstmOptions};
use super::symbol::{Arena, Block, Expr, Id, Linear};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::layer::Layer;

/// `act([x, h] K + b + w c)`
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    activation: Activation,
    units: usize,
    /// A block for each source of x.
    input: Vec<Block>,
    recurrent: Option<Block>,
    bias: Option<Id>,
    peephole: Option<Id>,
}

/// A cell's weights and how it uses them.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// i, j, f, o
    Lstm {
        gates: [Gate; 4],
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
    match arena.expr(inner) {
        Expr::Linear(linear) => Some(Sum { activation, linear: linear.clone() }),
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
        let (Some(o), Some(terms)) = (gate(arena, output), pair(arena, sum, false)) else { continue };
        for [kept, added] in terms {
            let (Some(kept), Some(added)) = (pair(arena, kept, true), pair(arena, added, true)) else { continue };
            for [forget, old] in kept {
                let is_sum = |expr: &Expr| matches!(expr, Expr::Add(..) | Expr::Clip(..));
                let Some(f) = gate(arena, forget).filter(|_| precedes(arena, old, new, is_sum)) else { continue };
                let (Some(a), Some(b)) = (gate(arena, added[0][0]), gate(arena, added[0][1])) else { continue };
                // Of two alike either can be the gate; else the candidate is what is unlike the forget gate.
                let (i, j) = if a.activation == f.activation { (a, b) } else { (b, a) };
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
                    let (gates, x) = split(arena, [(i, old), (j, old), (f, old), (o.clone(), new)], hidden)?;
                    let cell = Cell::Lstm { gates, output_activation, projection, cell_clip, projection_clip };
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
    let mut sources: Vec<Id> = gates.iter().flat_map(|gate| gate.linear.terms.iter().map(|(id, _)| *id)).collect();
    sources.sort_unstable();
    sources.dedup();
    sources.retain(is_hidden);
    match *sources {
        [hidden] => Some(hidden),
        _ => None,
    }
}

/// Gates that read `hidden`, each with the state that its peephole must show, and what else they all read.
fn split<const N: usize>(arena: &mut Arena, gates: [(Sum, Id); N], hidden: Id) -> Option<([Gate; N], Id)> {
    let mut input: Option<Vec<Id>> = None;
    let mut done = Vec::new();
    for (Sum { activation, linear }, shown) in gates {
        let mut terms = linear.terms;
        let own: Vec<Block> = terms.extract_if(.., |(source, _)| *source == hidden).map(|(_, block)| block).collect();
        let recurrent = match *own {
            [] => None,
            [block] => Some(block),
            _ => return None,
        };
        let peephole = match *linear.diagonals {
            [] => None,
            [(source, weights)] if source == shown => Some(weights),
            _ => return None,
        };
        let (sources, blocks): (Vec<Id>, Vec<Block>) = terms.into_iter().unzip();
        if *input.get_or_insert_with(|| sources.clone()) != sources {
            return None;
        }
        done.push(Gate { activation, units: linear.units, input: blocks, recurrent, bias: linear.bias, peephole });
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
        let reset = linear.terms.iter().find_map(|(source, _)| {
            let (reset, _) = reset_of(arena, *source, &|state| state == hidden)?;
            Some((reset, *source))
        });
        let Some((reset, product)) = reset else {
            let (gates, x) = split(arena, [(u, hidden), (Sum { activation, linear }, hidden)], hidden)?;
            return Some((Cell::Ugrnn { gates }, x)).filter(|_| true);
        };
        let r = gate(arena, reset)?;
        // The candidate reads r h where the gates read h.
        let mut linear = linear;
        if linear.terms.iter().any(|(source, _)| *source == hidden) {
            return None;
        }
        for (source, _) in &mut linear.terms {
            if *source == product {
                *source = hidden;
            }
        }
        let gates = [(r, hidden), (u, hidden), (Sum { activation, linear }, hidden)];
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
        let gates = [(r, hidden), (u, hidden), (Sum { activation, linear }, hidden)];
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
                let own = sum.linear.terms.iter().find(|(id, _)| id == source).map(|(_, block)| *block);
                before.activation == sum.activation
                    && before.linear.terms.len() == sum.linear.terms.len()
                    && before.linear.terms.iter().map(|(_, block)| block).eq(sum.linear.terms.iter().map(|(_, b)| b))
                    && own.is_some()
            }),
        };
        recurrent([&sum], is_hidden)?
    };
    let (gates, x) = split(arena, [(sum, hidden)], hidden)?;
    let [gate] = gates;
    Some(Found { cell: Cell::Simple { gate }, x, hidden, state: None })
}

impl Cell {
    /// Units of its output.
    pub fn output_size(&self) -> usize {
        match self {
            Self::Lstm { projection: Some((_, units)), .. } => *units,
            Self::Lstm { gates, .. } => gates[0].units,
            Self::Gru { gates, .. } => gates[0].units,
            Self::Ugrnn { gates } => gates[0].units,
            Self::Simple { gate } => gate.units,
        }
    }

    /// As a layer.
    pub fn layer(&self, arena: &Arena) -> Result<Layer, ImportError> {
        let output = self.output_size();
        match self {
            Self::Lstm { gates, output_activation, projection, cell_clip, projection_clip } => {
                let [i, j, f, o] = gates;
                if i.activation != f.activation || o.activation != f.activation {
                    return Err(ImportError::Unsupported("an LSTM whose gates differ in activation".into()));
                }
                let peepholes = [i.peephole, f.peephole, o.peephole];
                let peepholes: Vec<Tensor> = peepholes.into_iter().flatten().map(|id| vector(arena, id)).collect();
                let peepholes = match &*peepholes {
                    [] => None,
                    [i, f, o] if j.peephole.is_none() => Some([i, f, o]),
                    _ => return Err(ImportError::Unsupported("an LSTM with peepholes to some gates only".into())),
                };
                let projection = projection.map(|(block, units)| arena.block(block, units));
                let options = LstmOptions {
                    forget_bias: 0.0,
                    peepholes,
                    projection: projection.as_ref(),
                    cell_clip: *cell_clip,
                    projection_clip: *projection_clip,
                    activation: j.activation,
                    ..LstmOptions::default()
                };
                let layer = cells::lstm(&kernel(arena, gates, output), &bias(arena, gates), options)?;
                Ok(layer
                    .activation("gate_activation", f.activation)
                    .activation("output_activation", *output_activation))
            }
            Self::Gru { gates, reset_after } => {
                plain(gates)?;
                let [r, u, c] = gates;
                if r.activation != u.activation {
                    return Err(ImportError::Unsupported("a GRU whose gates differ in activation".into()));
                }
                let both = [r.clone(), u.clone()];
                let (gates_kernel, gates_bias) = (kernel(arena, &both, output), bias(arena, &both));
                let one = std::slice::from_ref(c);
                let (candidate, candidate_bias) = (kernel(arena, one, output), bias(arena, one));
                let layer = match reset_after {
                    None => cells::gru(&gates_kernel, &gates_bias, &candidate, &candidate_bias, c.activation)?,
                    Some(own) => {
                        let rows = candidate.shape[0] - output;
                        let part = |from: usize, to: usize| Tensor {
                            shape: vec![to - from, output],
                            data: candidate.data[from * output..to * output].to_vec(),
                        };
                        let (input, recurrent) = (part(0, rows), part(rows, rows + output));
                        let own = own.map_or_else(|| zeros(output), |own| vector(arena, own));
                        cells::cudnn_compatible_gru(
                            &gates_kernel,
                            &gates_bias,
                            [&input, &candidate_bias],
                            [&recurrent, &own],
                            c.activation,
                        )?
                    }
                };
                Ok(layer.activation("gate_activation", u.activation))
            }
            Self::Ugrnn { gates } => {
                plain(gates)?;
                let layer = cells::ugrnn(&kernel(arena, gates, output), &bias(arena, gates), 0.0, gates[1].activation)?;
                Ok(layer.activation("gate_activation", gates[0].activation))
            }
            Self::Simple { gate } => {
                let one = std::slice::from_ref(gate);
                plain(one)?;
                cells::basic_rnn(&kernel(arena, one, output), &bias(arena, one), gate.activation)
            }
        }
    }
}

fn plain(gates: &[Gate]) -> Result<(), ImportError> {
    match gates.iter().any(|gate| gate.peephole.is_some()) {
        true => Err(ImportError::Unsupported("a peephole in a cell that is no LSTM".into())),
        false => Ok(()),
    }
}

fn zeros(len: usize) -> Tensor {
    Tensor { shape: vec![len], data: vec![0.0; len] }
}

fn vector(arena: &Arena, id: Id) -> Tensor {
    let data = arena.vector(id).to_vec();
    Tensor { shape: vec![data.len()], data }
}

/// [input + recurrent, gates * units]: rows of x, then of h; a gate that does not see h has zeros.
fn kernel(arena: &Arena, gates: &[Gate], recurrent: usize) -> Tensor {
    let columns: Vec<Tensor> = gates
        .iter()
        .map(|gate| {
            let mut data = Vec::new();
            for block in &gate.input {
                data.extend(arena.block(*block, gate.units).data);
            }
            match gate.recurrent {
                Some(block) => data.extend(arena.block(block, gate.units).data),
                None => data.resize(data.len() + recurrent * gate.units, 0.0),
            }
            Tensor { shape: vec![data.len() / gate.units, gate.units], data }
        })
        .collect();
    let rows = columns[0].shape[0];
    let mut data = Vec::new();
    for row in 0..rows {
        for column in &columns {
            let units = column.shape[1];
            data.extend_from_slice(&column.data[row * units..(row + 1) * units]);
        }
    }
    Tensor { shape: vec![rows, data.len() / rows], data }
}

fn bias(arena: &Arena, gates: &[Gate]) -> Tensor {
    let mut data = Vec::new();
    for gate in gates {
        match gate.bias {
            Some(bias) => data.extend_from_slice(arena.vector(bias)),
            None => data.resize(data.len() + gate.units, 0.0),
        }
    }
    Tensor { shape: vec![data.len()], data }
}
