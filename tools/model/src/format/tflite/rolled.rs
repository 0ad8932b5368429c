//! The cells of unrolled loops, and the sequences that they read.

use std::collections::{BTreeSet, HashMap};

use super::schema::Operator;
use crate::format::network::Source;
use crate::format::tf1::{Arena, Expr, Id};

/// The cells of a graph with an unrolled loop.
pub struct Unrolled {
    pub arena: Arena,
    /// By the tensors that cells compute.
    pub outputs: HashMap<usize, Rolled>,
    /// Tensors that the outputs of the graph need, without those inside of cells.
    pub needed: BTreeSet<usize>,
    /// The layers so far, by their expressions, and whether their rows are in reverse order.
    pub known: HashMap<Id, (Source, bool)>,
    /// Whether any weights of the cells are integers.
    pub hybrid: bool,
}

/// A tensor that cells compute.
pub struct Rolled {
    /// The sequence of all outputs.
    pub id: Id,
    /// The dimension of the tensor that counts the steps. `None` for the output of the last step.
    pub axis: Option<usize>,
    /// Sequences that other operators compute, sorted, and their tensors.
    pub read: Vec<(Id, usize)>,
}

impl Unrolled {
    /// Whether a sequence of this many steps is read.
    pub fn has_steps(&self, steps: usize) -> bool {
        let mut read = self.outputs.values().flat_map(|of| &of.read);
        read.any(|&(id, _)| self.arena.shape(id).get(1) == Some(&(steps as i64)))
    }

    /// Whether an operator computes something inside of cells, or nothing that the graph's outputs need.
    pub fn leaves_out(&self, operator: &Operator<'_>) -> bool {
        !operator.outputs.iter().flatten().any(|output| self.needed.contains(output))
    }

    /// Whether any cell runs from the last step to the first.
    pub fn has_backwards(&self) -> bool {
        let mut open: Vec<Id> = self.outputs.values().map(|of| of.id).collect();
        let mut seen: BTreeSet<Id> = self.outputs.values().flat_map(|of| &of.read).map(|(id, _)| *id).collect();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                if matches!(self.arena.expr(id), Expr::Reverse(_)) {
                    return true;
                }
                open.extend(self.arena.operands(id));
            }
        }
        false
    }
}
