//! One node with its tensors: the interface that the file of a cell works with.

use std::ops::Bound;

use tidegate::internals::cell::CellKind;
use tidegate_model::canonical::{Canonical, Node};

use super::activation::activate;
use super::bounded::Bounded;
use super::sums::dot;

/// One node of a model, for the duration of a step.
#[derive(Clone, Debug)]
pub struct Cell<'m> {
    node: &'m Node,
    /// The tensors of the node, by their names within it. A step asks for a tensor once for each row.
    tensors: Vec<(&'m str, &'m [f32])>,
    /// Number of valid rows of the input, or `None` if all are valid.
    valid: Option<usize>,
}

impl<'m> Cell<'m> {
    pub(super) fn new(model: &'m Canonical, node: &'m Node, valid: Option<usize>) -> Self {
        // The names start with that of the node, and are next to each other in the map.
        let of_node = model.tensors.range::<str, _>((Bound::Included(node.name.as_str()), Bound::Unbounded));
        let of_node = of_node.map_while(|(full, tensor)| Some((full.strip_prefix(&node.name)?, tensor)));
        let of_node = of_node.filter_map(|(rest, tensor)| Some((rest.strip_prefix('.')?, tensor.data.as_slice())));
        Self { node, tensors: of_node.collect(), valid }
    }

    /// Number of input features.
    pub fn input_size(&self) -> usize {
        self.node.input_size
    }

    /// Number of units.
    pub fn hidden_size(&self) -> usize {
        self.node.hidden_size
    }

    /// Number of output features.
    pub fn output_size(&self) -> usize {
        self.node.output_size
    }

    pub(super) fn valid(&self) -> Option<usize> {
        self.valid
    }

    /// Number of valid rows out of `rows`, fewer if a window was not full.
    pub fn valid_of(&self, rows: usize) -> usize {
        self.valid.map_or(rows, |valid| valid.min(rows))
    }

    /// A tensor, or `None` if the model does not have it.
    pub fn tensor(&self, name: &str) -> Option<&'m [f32]> {
        self.tensors.iter().find(|(of, _)| *of == name).map(|(_, data)| *data)
    }

    /// A row of a matrix that the model must have.
    pub fn row(&self, name: &str, row: usize, cols: usize) -> &'m [f32] {
        let data = self.tensor(name).unwrap_or_else(|| panic!("no tensor {name:?} in {:?}", self.node.name));
        &data[row * cols..(row + 1) * cols]
    }

    /// An element of a vector, or 0 if the model omits the vector.
    pub fn element(&self, name: &str, k: usize) -> Bounded {
        Bounded::exact(self.tensor(name).map_or(0.0, |data| data[k]))
    }

    /// Whether this step is skipped: with the option `masked`, if the last feature is 0.
    pub fn skips(&self, x: &[Bounded]) -> bool {
        self.has("masked") && x.last().is_some_and(|mask| mask.value == 0.0)
    }

    /// Whether an option is set.
    pub fn has(&self, option: &str) -> bool {
        self.node.options.iter().any(|known| known == option)
    }

    /// A numeric parameter, or 0 if the model does not give it.
    pub fn param(&self, name: &str) -> f32 {
        self.node.params.get(name).copied().unwrap_or(0.0)
    }

    /// An extent, or the default of the spec if the model does not give it.
    pub fn extent(&self, name: &str) -> usize {
        let spec = CellKind::from_name(&self.node.cell).expect("a validated model names cells that exist").spec();
        let default = || spec.extents.iter().find(|of| of.name == name).map_or(1, |of| of.default as usize);
        self.node.extents.get(name).copied().unwrap_or_else(default)
    }

    /// Applies the activation of a place, or `default` if the model names none, to `a`.
    pub fn activation(&self, place: &str, default: &str, a: Bounded) -> Bounded {
        activate(self.node.activations.get(place).map_or(default, String::as_str), a)
    }

    /// The argument of an activation: with the option `clipped`, the sum after clipping.
    pub fn seen(&self, a: Bounded) -> Bounded {
        a.clipped(self.param("preact_clip").into())
    }

    /// The sum of the two biases of a row, which the packer rounds to f32.
    pub fn bias(&self, row: usize) -> Bounded {
        self.element("input_bias", row).plus(self.element("recurrent_bias", row))
    }

    /// W x + b of one row, with one of the two biases.
    pub fn from_input(&self, row: usize, x: &[Bounded], bias: Bounded) -> Bounded {
        dot(bias, self.row("input_weights", row, x.len()), x)
    }

    /// W x + R h + b of one row. `h` is the hidden state after [`Cell::recurrent_operand`].
    pub fn preactivation(&self, row: usize, x: &[Bounded], h: &[Bounded]) -> Bounded {
        dot(self.from_input(row, x, self.bias(row)), self.row("recurrent_weights", row, h.len()), h)
    }

    /// The operand of the recurrent weights: h, or B h with the option `low_rank`, where B is the recurrent basis.
    pub fn recurrent_operand(&self, h: &[Bounded]) -> Vec<Bounded> {
        if !self.has("low_rank") {
            return h.to_vec();
        }
        let row = |k| dot(Bounded::default(), self.row("recurrent_basis", k, h.len()), h);
        (0..self.extent("rank")).map(row).collect()
    }
}
