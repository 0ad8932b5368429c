//! The table of cell kinds. A kind is one file: its equations, gates, options and a [`CellSpec`] that the
//! image checks, the state sizes, the packer and the tests read.
//!
//! Layers without a state (dense, softmax) are kinds like the others, with no states in their spec.

pub mod dense;
pub mod elman;
pub mod gru;
pub mod lstm;
pub mod softmax;

use half::f16;

use crate::activation::Activation;
use crate::gate::Gate;
use crate::image::Numeric;
use crate::kernel::Weight;
use crate::node::Node;

/// What a node of a model can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u16)]
pub enum CellKind {
    /// [`elman`]
    Elman = 1,
    /// [`lstm`]
    Lstm = 2,
    /// [`gru`]
    Gru = 3,
    /// [`dense`]
    Dense = 32,
    /// [`softmax`]
    Softmax = 33,
}

impl CellKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Elman, Self::Lstm, Self::Gru, Self::Dense, Self::Softmax];

    /// What is known about this kind.
    pub const fn spec(self) -> &'static CellSpec {
        match self {
            Self::Elman => &elman::SPEC,
            Self::Lstm => &lstm::SPEC,
            Self::Gru => &gru::SPEC,
            Self::Dense => &dense::SPEC,
            Self::Softmax => &softmax::SPEC,
        }
    }

    /// Its code in an image.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The kind with this code in an image.
    pub const fn from_code(code: u16) -> Option<Self> {
        let mut kinds: &[Self] = &Self::ALL;
        while let [kind, rest @ ..] = kinds {
            if kind.code() == code {
                return Some(*kind);
            }
            kinds = rest;
        }
        None
    }

    /// The kind with this name in a canonical model.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.spec().name == name)
    }
}

/// One time step of one node: reads `x`, updates `state`, writes `y`. `work` is the node's for the duration.
pub(crate) fn step(node: &Node<'_>, x: &[f32], state: &mut [f32], work: &mut [f32], y: &mut [f32]) {
    match node.numeric() {
        Numeric::F32 => step_with::<f32>(node, x, state, work, y),
        Numeric::F16 => step_with::<f16>(node, x, state, work, y),
    }
}

fn step_with<W: Weight>(node: &Node<'_>, x: &[f32], state: &mut [f32], work: &mut [f32], y: &mut [f32]) {
    match node.kind {
        CellKind::Elman => elman::step::<W>(node, x, state, y),
        CellKind::Lstm => lstm::step::<W>(node, x, state, work, y),
        CellKind::Gru => gru::step::<W>(node, x, state, work, y),
        CellKind::Dense => dense::step::<W>(node, x, y),
        CellKind::Softmax => softmax::step(x, y),
    }
}

/// As many as both have.
pub(crate) fn copy(to: &mut [f32], from: &[f32]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from;
    }
}

/// All that is known about a cell kind apart from its equations.
#[derive(Debug)]
pub struct CellSpec {
    /// Its name in canonical models.
    pub name: &'static str,
    /// The row blocks of its canonical weights, in order; empty for a kind without gates.
    pub gates: &'static [Gate],
    /// How its three sizes relate.
    pub sizes: Sizes,
    /// What it remembers from one step to the next, in the order of the state's words.
    pub states: &'static [StateSpec],
    /// Scratch of its own during one step: the sum of these.
    pub work: &'static [Dim],
    /// Flags; an image stores flag `k` as bit `k`.
    pub options: &'static [&'static str],
    /// Numbers, at most [`MAX_PARAMS`]; 0.0 where the canonical model does not give one.
    pub params: &'static [ParamSpec],
    /// The activations that it applies, at most [`MAX_ACTIVATIONS`], with their defaults.
    pub activations: &'static [ActivationSpec],
    /// Tensors of the canonical model.
    pub canonical: &'static [CanonicalSpec],
    /// Tensors of the image, in the order of the node record.
    pub tensors: &'static [TensorSpec],
}

/// Most numbers that a node record holds.
pub const MAX_PARAMS: usize = 4;
/// Most activations that a node record holds.
pub const MAX_ACTIVATIONS: usize = 4;

/// How the sizes of a node relate. Every size is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Output is the hidden state: `output == hidden`.
    Recurrent,
    /// As [`Sizes::Recurrent`], unless the option of this index is set: then output is projected.
    Projected {
        /// Index into [`CellSpec::options`].
        option: u32,
    },
    /// No hidden state: `hidden == output`, which is the number of units.
    Feedforward,
    /// `input == hidden == output`.
    Elementwise,
}

/// A size of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Features that come in.
    Input,
    /// Units.
    Hidden,
    /// Features that go out: the projected size where there is a projection.
    Output,
}

/// A vector that a cell carries from step to step.
#[derive(Debug)]
pub struct StateSpec {
    /// `hidden` or `cell_state`.
    pub name: &'static str,
    /// Its length.
    pub len: Dim,
}

/// A number of a cell.
#[derive(Debug)]
pub struct ParamSpec {
    /// Its name in a canonical model.
    pub name: &'static str,
    /// When it may be other than 0: [`Presence::Optional`], or with an option.
    pub presence: Presence,
}

/// An activation of a cell.
#[derive(Debug)]
pub struct ActivationSpec {
    /// What it is applied to.
    pub name: &'static str,
    /// What it is when the canonical model does not say.
    pub default: Activation,
}

/// A tensor of a canonical model: `<node>.<name>`, row-major, one block of rows for each gate of
/// [`CellSpec::gates`] (one block where there are none).
#[derive(Debug)]
pub struct CanonicalSpec {
    /// Its name.
    pub name: &'static str,
    /// Whether every gate has its block of rows.
    pub gated: bool,
    /// Rows of a block.
    pub rows: Dim,
    /// Columns; a vector has none.
    pub cols: Option<Dim>,
    /// When the canonical model must have it; an absent optional vector counts as zeros.
    pub presence: Presence,
}

/// A tensor of an image. Its rows are unit-major: the gates of unit 0, the gates of unit 1, and so on.
#[derive(Debug)]
pub struct TensorSpec {
    /// Its name, for reports.
    pub name: &'static str,
    /// The canonical tensors whose sum it is.
    pub from: &'static [&'static str],
    /// Which blocks of them it takes, adjacent for each unit; empty: the tensor has no blocks.
    pub gates: &'static [Gate],
    /// Units.
    pub rows: Dim,
    /// Columns; a vector has none.
    pub cols: Option<Dim>,
    /// When the image has it; never [`Presence::Optional`].
    pub presence: Presence,
}

impl CanonicalSpec {
    /// A matrix without gates that must be there.
    pub const fn matrix(name: &'static str, rows: Dim, cols: Dim) -> Self {
        Self { name, gated: false, rows, cols: Some(cols), presence: Presence::Always }
    }

    /// A vector without gates that must be there.
    pub const fn vector(name: &'static str, rows: Dim) -> Self {
        Self { name, gated: false, rows, cols: None, presence: Presence::Always }
    }

    /// The same with a block of rows for each gate.
    pub const fn gated(self) -> Self {
        Self { gated: true, ..self }
    }

    /// The same, there when `presence` says.
    pub const fn when(self, presence: Presence) -> Self {
        Self { presence, ..self }
    }
}

impl TensorSpec {
    /// A matrix without gates that is always there.
    pub const fn matrix(name: &'static str, from: &'static [&'static str], rows: Dim, cols: Dim) -> Self {
        Self { name, from, gates: &[], rows, cols: Some(cols), presence: Presence::Always }
    }

    /// A vector without gates that is always there.
    pub const fn vector(name: &'static str, from: &'static [&'static str], rows: Dim) -> Self {
        Self { name, from, gates: &[], rows, cols: None, presence: Presence::Always }
    }

    /// The same, taking the row blocks of `gates`.
    pub const fn gates(self, gates: &'static [Gate]) -> Self {
        Self { gates, ..self }
    }

    /// The same, there when `presence` says.
    pub const fn when(self, presence: Presence) -> Self {
        Self { presence, ..self }
    }
}

/// When a tensor is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// In every node of its kind.
    Always,
    /// May be left out.
    Optional,
    /// Exactly when the option of this index is set.
    With(u32),
    /// Exactly when the option of this index is not set.
    Without(u32),
}

impl Presence {
    /// Whether a node with these option bits must have the tensor.
    pub const fn required(self, options: u32) -> bool {
        match self {
            Self::Always => true,
            Self::Optional => false,
            Self::With(option) => options >> option & 1 == 1,
            Self::Without(option) => options >> option & 1 == 0,
        }
    }

    /// Whether a node with these option bits may have it.
    pub const fn allowed(self, options: u32) -> bool {
        matches!(self, Self::Optional) || self.required(options)
    }
}
