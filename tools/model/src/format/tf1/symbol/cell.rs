//! Cells that were found in the normal form: their gates, weights and options.

use tidegate::internals::activation::Activation;

use super::{Block, Id};

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
    /// One block for each source of x.
    pub input: Vec<Block>,
    pub recurrent: Option<Block>,
    /// A factor for each unit's own h, instead of a matrix.
    pub independent: Option<Id>,
    pub bias: Option<Id>,
    pub peephole: Option<Id>,
    /// Normalization of the products, applied before the peephole is added.
    pub norm: Option<Norm>,
}

/// The form of a cell and its weights.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Lstm(Box<Lstm>),
    /// Gates r, u, candidate. `reset_after` is set if the reset gate is applied after the product; it then holds the
    /// bias of the candidate's recurrent side, if any.
    Gru {
        gates: [Gate; 3],
        reset_after: Option<Option<Id>>,
    },
    /// Gates u, candidate.
    Ugrnn {
        gates: [Gate; 2],
    },
    Simple {
        gate: Gate,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lstm {
    /// Gates i, j, f, o.
    pub gates: [Gate; 4],
    /// The input gate is 1 - f; `gates` then holds f twice.
    pub coupled: bool,
    pub cell_norm: Option<Norm>,
    pub output_activation: Activation,
    pub projection: Option<(Block, usize)>,
    pub cell_clip: Option<f32>,
    pub projection_clip: Option<f32>,
}

impl Cell {
    /// Whether `first` can be the first step of this cell when it is unrolled. At the first step all states are the
    /// same zeros, so peepholes cannot be distinguished from per-unit recurrent weights.
    pub fn begins_as(&self, first: &Self) -> bool {
        let blurred = |cell: &Self| {
            let mut cell = cell.clone();
            let gates: &mut [Gate] = match &mut cell {
                Self::Lstm(lstm) => &mut lstm.gates,
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
