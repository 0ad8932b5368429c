//! Outputs and inputs of layers while a graph becomes a network.

use super::value::{Element, Value};
use crate::format::{layer::Layer, network::Direction, network::Source};

/// The output of a layer, given by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Made(pub u32);

impl Made {
    /// The elements of the output, as a value of this shape.
    pub fn value(self, shape: Vec<usize>) -> Value {
        let count: usize = shape.iter().product();
        Value::open(shape, (0..count as u32).map(|at| Element::Of(self.0, at)).collect())
    }
}

/// A layer to be added, and how it processes rows.
#[derive(Clone, Debug)]
pub(super) struct Layered {
    pub layer: Layer,
    pub direction: Direction,
    /// Whether its state starts at zero for every sequence.
    pub fresh: bool,
    /// Whether each row has a state of its own.
    pub apart: bool,
}

impl Layered {
    pub fn plain(layer: Layer) -> Self {
        Self { layer, direction: Direction::Forward, fresh: true, apart: false }
    }
}

/// The output of a layer: rows of features, for every step if it is a sequence.
#[derive(Clone, Debug)]
pub(super) struct MadeOf {
    pub time: Option<usize>,
    pub rows: usize,
    pub width: usize,
    /// Whether the layer runs backward over a sequence.
    pub backward: bool,
    /// Source in the network, once something reads the output.
    pub source: Option<Source>,
    /// The layer and its inputs, as long as they may still change.
    pub pending: Option<(Layered, Vec<Source>)>,
}

impl MadeOf {
    pub fn len(&self) -> usize {
        self.time.unwrap_or(1) * self.rows * self.width
    }
}

/// The input of a layer: rows of features, for every step if it is a sequence.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub sources: Vec<Source>,
    pub time: Option<usize>,
    pub rows: usize,
    pub width: usize,
}

/// A value that was moved before: its elements, its steps, and its source.
pub(super) type Moved = (Vec<Element>, Option<usize>, Source);

/// A state of one direction of an operator.
#[derive(Clone, Debug)]
pub(super) struct StateOf {
    pub node: String,
    pub state: &'static str,
    /// Output of the layer, and whether its final row is the first one.
    pub made: Made,
    pub first: bool,
    /// Elements of the state, of one row if each row has a state of its own.
    pub units: usize,
    /// Whether each row has a state of its own.
    pub apart: bool,
    /// Source of the initial value: an input of the graph and the positions of the elements in it.
    pub initial: Option<(usize, Vec<usize>)>,
}
