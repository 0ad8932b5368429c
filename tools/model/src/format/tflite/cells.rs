//! The recurrent cells of a graph of one step, whose states are inputs and outputs of the graph.

use std::collections::{BTreeSet, HashMap};

use super::schema::Operator;
use crate::error::ImportError;
use crate::format::layer::Layer;

/// A tensor, and the index of an element.
pub type Place = (u32, u32);

/// A cell of the graph: the layer, and the tensors that it reads side by side.
pub struct Found {
    pub layer: Layer,
    pub x: Vec<usize>,
    /// Whether its form leaves no doubt: a layer of two inputs may look like a simple cell.
    pub is_gated: bool,
    /// Elements of states.
    pub carries: Vec<Place>,
    /// Whether any weights of the graph's cells are integers.
    pub is_hybrid: bool,
}

/// The cells of a graph that carry its states.
#[derive(Default)]
pub struct Cells {
    /// The cells by the tensors of their outputs.
    pub found: HashMap<usize, Found>,
    /// States that are inputs and outputs, by their tensors.
    pub inputs: BTreeSet<usize>,
    pub outputs: BTreeSet<usize>,
    /// Tensors that the other outputs need; everything if there are no states.
    pub needed: Option<BTreeSet<usize>>,
    /// An output that may be the next value of an input: their names.
    pub likely: Option<[String; 2]>,
}

impl Cells {
    /// Whether an operator is left out because no output of the graph needs it.
    pub fn leave_out(&self, operator: &Operator<'_>) -> bool {
        let needed = |needed: &BTreeSet<usize>| operator.outputs.iter().flatten().any(|output| needed.contains(output));
        !self.needed.as_ref().is_none_or(needed)
    }

    /// An error of a graph that may have states as ports, with the option that declares them.
    pub fn explained(&self, error: ImportError) -> ImportError {
        let Some([input, output]) = &self.likely else { return error };
        match error {
            ImportError::UnreadOp { .. } | ImportError::Node { .. } => ImportError::Refused {
                found: format!("{error}; if {output:?} is the next value of {input:?}, give --state {input}={output}"),
                advice: "name every state that is an input and an output, or export the network without them",
            },
            other => other,
        }
    }
}
