//! Cells over sequences, in a loop or unrolled, as layers of the network.

use std::collections::HashMap;

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::lower::{Along, Reader, Trouble, Value};
use crate::canonical::Tensor;
use crate::format::layer::Layer;
use crate::format::network::{Direction, Source};
use crate::format::refuse::fail_if;
use crate::format::tf1::{Arena, Expr, Id, Linear};

/// Maximum depth of cells that read each other's outputs.
const MOST_DEPTH: usize = 100;

/// The layers over some sequences.
pub struct Layers<'l> {
    pub arena: &'l Arena,
    /// The sequences that the network computes, by their expressions.
    pub sequences: &'l HashMap<Id, Value>,
    /// The layers so far, and whether their rows are in reverse order.
    pub known: &'l mut HashMap<Id, (Source, bool)>,
}

impl Reader<'_> {
    /// The outputs of all steps, given their expression.
    pub fn over_steps(&mut self, layers: &mut Layers<'_>, id: Id) -> Result<Value, Trouble> {
        let (source, reversed) = self.layer_over_steps(layers, id, 0)?;
        let (_, x) = layers.sequences.iter().min_by_key(|(id, _)| **id).ok_or("it reads no sequence")?;
        Ok(Value { source, reversed, ..x.clone() })
    }

    fn layer_over_steps(&mut self, layers: &mut Layers<'_>, id: Id, depth: usize) -> Result<(Source, bool), Trouble> {
        if let Some(known) = layers.known.get(&id) {
            return Ok(known.clone());
        }
        fail_if(depth == MOST_DEPTH, "its cells are nested too deeply")?;
        let layer = match layers.arena.expr(id).clone() {
            _ if let Some(x) = layers.sequences.get(&id) => {
                let differ = layers.sequences.values().any(|of| (of.along, of.reversed) != (x.along, x.reversed));
                let flat = x.along == Along::Nothing && layers.arena.shape(id).get(1).is_some_and(|&steps| steps > 1);
                fail_if(differ || flat || x.counts.is_some(), "it reads something else than one sequence of floats")?;
                (x.source.clone(), x.reversed)
            }
            Expr::Rnn(cell, x) => {
                let layer = layers.arena.cells[cell].layer(layers.arena)?;
                let (x, reversed) = self.layer_over_steps(layers, x, depth + 1)?;
                let direction = if reversed { Direction::Backward } else { Direction::Forward };
                (self.network.directed(layer, &[&x], direction), reversed)
            }
            Expr::Reverse(x) => {
                let (x, reversed) = self.layer_over_steps(layers, x, depth + 1)?;
                (x, !reversed)
            }
            // The same layer at each step, as in a TimeDistributed.
            Expr::Linear(linear) if linear.diagonals.is_empty() => {
                let (x, reversed) = self.side_by_side(layers, linear.sources(), depth)?;
                let layer = dense(layers.arena, &linear);
                (self.network.add(layer, &[&x]), reversed)
            }
            Expr::Unary(activation, x) => {
                let (x, reversed) = self.layer_over_steps(layers, x, depth + 1)?;
                let of = layers.arena.activation(activation);
                let layer = Layer::new(CellKind::Activation, x.size(), x.size()).activation("activation", of);
                (self.network.add(layer, &[&x]), reversed)
            }
            Expr::Softmax(x) => {
                let (x, reversed) = self.layer_over_steps(layers, x, depth + 1)?;
                let layer = Layer::new(CellKind::Softmax, x.size(), x.size());
                (self.network.add(layer, &[&x]), reversed)
            }
            Expr::Concat(parts) => self.side_by_side(layers, parts.into_iter(), depth)?,
            _ => return Err("its steps compute something else than a recurrent cell of their states".into()),
        };
        layers.known.insert(id, layer.clone());
        Ok(layer)
    }

    /// Several sequences, whose features become one row at each step.
    fn side_by_side(
        &mut self,
        layers: &mut Layers<'_>,
        parts: impl Iterator<Item = Id>,
        depth: usize,
    ) -> Result<(Source, bool), Trouble> {
        let parts = parts.map(|part| self.layer_over_steps(layers, part, depth + 1)).collect::<Result<Vec<_>, _>>()?;
        let reversed = parts.first().is_some_and(|(_, reversed)| *reversed);
        let differ = parts.iter().any(|(_, of)| *of != reversed);
        fail_if(differ, "it joins sequences of different orders")?;
        let parts: Vec<Source> = parts.into_iter().map(|(part, _)| part).collect();
        Ok((self.network.concat(&parts), reversed))
    }

    /// The outputs of all steps, if `all` is the dimension that counts them; otherwise the output of the last step.
    pub fn shown(&mut self, value: Value, all: Option<usize>, shape: Vec<usize>) -> Value {
        let value = Value { shape, ..value };
        match (value.along, all) {
            (Along::Nothing, _) => value,
            (along, Some(axis)) => Value { along: along.moved(|_| axis), ..value },
            (Along::Stream(_), None) => self.last(value),
            (Along::Rows(_), None) => {
                let source = self.network.last(&value.source, value.reversed);
                Value { source, along: Along::Nothing, reversed: false, ..value }
            }
        }
    }
}

/// A dense layer. Its weights are the blocks of the sum, one below the other.
fn dense(arena: &Arena, linear: &Linear) -> Layer {
    let rows: Vec<f32> = linear.terms.iter().flat_map(|(_, block)| arena.block(*block, linear.units).data).collect();
    let (units, features) = (linear.units, rows.len() / linear.units.max(1));
    let data = (0..units).flat_map(|unit| rows.iter().skip(unit).step_by(units).copied()).collect();
    let bias = linear.bias.map(|bias| arena.constant_vector(bias));
    Layer::dense(Tensor { shape: vec![units, features], data }, bias, Activation::Identity)
}

/// The rows of a value that an operator over a whole window has computed, such as a convolution.
pub fn in_steps(value: Value, steps: usize) -> Value {
    match value.along {
        Along::Nothing if steps > 1 => {
            Value { source: value.source.flat().in_rows(steps), along: Along::Rows(0), ..value }
        }
        _ => value,
    }
}
