//! The description of a cell kind apart from its equations, as data: sizes, rules, states, options, tensors. Image checks,
//! state sizes, the packer, the docs and the tests read it.
//!
//! | file | contents |
//! |---|---|
//! | `kind.rs` | [`CellKind`]: the kinds and their codes |
//! | `size.rs` | [`Dim`], [`Rule`] and [`Sizes`]: how sizes relate, and what they are for one node |
//! | `integer.rs` | [`IntegerSpec`]: the integer form of a kind |
//! | `quantization.rs` | [`Quantization`]: how a packer chooses the scales and numbers of that form |
//! | `names.rs` | the indices of options, extents, numbers and tensors by their names |

mod integer;
mod kind;
mod names;
mod quantization;
mod size;

pub use integer::{CURVE, IntegerSpec, NumberSpec, OTHER, Storage, UNIT_SCALES, Unit, WIDE, is_wide};
pub(crate) use kind::CODES;
pub use kind::CellKind;
pub(crate) use names::{extent, index, number, option};
pub use quantization::{Alone, Candidate, LeastScale, Numbers, OutputScale, Quantization, Reads, Role};
pub use size::{Dim, RECURRENT, Rule, Sizes};

use crate::activation::Activation;
use crate::curve::TABLE_LEN;
use crate::gate::Gate;

/// The description of a cell kind apart from its equations.
#[derive(Debug)]
pub struct CellSpec {
    /// The name of the kind in canonical models.
    pub name: &'static str,
    /// The row blocks of the canonical weights, in order; empty for a kind without gates.
    pub gates: &'static [Gate],
    /// Whole numbers in addition to the three sizes: ranks, groups, the shapes of kernels and images.
    pub extents: &'static [ExtentSpec],
    /// Relations of sizes and extents.
    pub rules: &'static [Rule],
    /// The state from one step to the next, in the order of the state's words.
    pub states: &'static [StateSpec],
    /// Scratch of the cell during one step: the sum of these.
    pub work: &'static [Dim],
    /// Option flags; an image stores flag `k` as bit `k`.
    pub options: &'static [&'static str],
    /// Parameters; 0.0 if the canonical model does not specify one.
    pub params: &'static [ParamSpec],
    /// The activations of the cell, with their defaults.
    pub activations: &'static [ActivationSpec],
    /// Tensors of the canonical model.
    pub canonical: &'static [CanonicalSpec],
    /// Tensors of the image, in the order of the node record.
    pub tensors: &'static [TensorSpec],
    /// Number of elements read for each element of the output, apart from products with weights.
    pub reads: &'static Dim,
    /// Number of activations, logarithms and exponentials that a step computes: the sum of these.
    pub curves: &'static [Dim],
}

impl CellSpec {
    /// An empty kind. A spec replaces the fields that its kind has.
    pub const EMPTY: Self = Self {
        name: "",
        gates: &[],
        extents: &[],
        rules: &[],
        states: &[],
        work: &[],
        options: &[],
        params: &[],
        activations: &[],
        canonical: &[],
        tensors: &[],
        reads: &Dim::Const(1),
        curves: &[],
    };
}

/// A whole number of a node in addition to its three sizes.
#[derive(Clone, Copy, Debug)]
pub struct ExtentSpec {
    /// The name in a canonical model.
    pub name: &'static str,
    /// The value if the canonical model does not specify one.
    pub default: u32,
    /// The least value.
    pub least: u32,
}

impl ExtentSpec {
    /// An extent of at least 1, and 1 by default.
    pub const fn one(name: &'static str) -> Self {
        Self { name, default: 1, least: 1 }
    }

    /// An extent of at least 0, and 0 by default.
    pub const fn zero(name: &'static str) -> Self {
        Self { name, default: 0, least: 0 }
    }
}

/// A vector that a cell carries from step to step.
#[derive(Debug)]
pub struct StateSpec {
    /// `hidden`, `cell_state`, ...
    pub name: &'static str,
    /// The number of elements.
    pub len: Dim,
}

/// A parameter of a cell: finite, and not negative.
#[derive(Debug)]
pub struct ParamSpec {
    /// The name in a canonical model.
    pub name: &'static str,
    /// When it may be nonzero: [`Presence::Optional`], or with an option.
    pub presence: Presence,
}

impl ParamSpec {
    /// A parameter that may be nonzero in any node.
    pub const fn optional(name: &'static str) -> Self {
        Self { name, presence: Presence::Optional }
    }

    /// A parameter that may be nonzero if the option of this index is set.
    pub const fn with(name: &'static str, option: u32) -> Self {
        Self { name, presence: Presence::With(option) }
    }
}

/// An activation of a cell.
#[derive(Debug)]
pub struct ActivationSpec {
    /// The name in a canonical model.
    pub name: &'static str,
    /// The activation if the canonical model does not specify one.
    pub default: Activation,
}

impl ActivationSpec {
    /// An activation that is σ by default.
    pub const fn sigmoid(name: &'static str) -> Self {
        Self { name, default: Activation::Sigmoid }
    }

    /// An activation that is tanh by default.
    pub const fn tanh(name: &'static str) -> Self {
        Self { name, default: Activation::Tanh }
    }
}

/// A tensor of a canonical model: `<node>.<name>`, row-major, one block of rows for each gate of [`CellSpec::gates`]
/// (one block if there are no gates).
#[derive(Clone, Copy, Debug)]
pub struct CanonicalSpec {
    /// The name.
    pub name: &'static str,
    /// Whether every gate has a block of rows.
    pub gated: bool,
    /// Rows of a block.
    pub rows: Dim,
    /// Columns; `None` for a vector.
    pub cols: Option<Dim>,
    /// When the canonical model must have the tensor. An absent optional vector is a vector of zeros.
    pub presence: Presence,
}

/// A tensor of an image. Its rows are unit-major: the gates of unit 0, the gates of unit 1, and so on.
#[derive(Clone, Copy, Debug)]
pub struct TensorSpec {
    /// The name, for reports.
    pub name: &'static str,
    /// The canonical tensors of which this tensor is the sum.
    pub from: &'static [&'static str],
    /// The blocks of those tensors that it contains, adjacent for each unit; empty if the tensor has no blocks.
    pub gates: &'static [Gate],
    /// Number of units.
    pub rows: Dim,
    /// Columns; `None` for a vector.
    pub cols: Option<Dim>,
    /// When the image has the tensor; never [`Presence::Optional`].
    pub presence: Presence,
    /// How often one step reads the tensor: the positions of a kernel, the iterations of a solver.
    pub passes: &'static Dim,
    /// The storage of the elements.
    pub storage: Storage,
}

impl CanonicalSpec {
    /// A required matrix without gates.
    pub const fn matrix(name: &'static str, rows: Dim, cols: Dim) -> Self {
        Self { name, gated: false, rows, cols: Some(cols), presence: Presence::Always }
    }

    /// A required vector without gates.
    pub const fn vector(name: &'static str, rows: Dim) -> Self {
        Self { name, gated: false, rows, cols: None, presence: Presence::Always }
    }

    /// This tensor, which a canonical model may lack.
    pub const fn optional(self) -> Self {
        self.when(Presence::Optional)
    }

    /// This tensor with a block of rows for each gate.
    pub const fn gated(self) -> Self {
        Self { gated: true, ..self }
    }

    /// This tensor with the given presence.
    pub const fn when(self, presence: Presence) -> Self {
        Self { presence, ..self }
    }

    /// This tensor, present exactly when the option of this index is set.
    pub const fn with(self, option: u32) -> Self {
        self.when(Presence::With(option))
    }

    /// This tensor, present exactly when the option of this index is not set.
    pub const fn without(self, option: u32) -> Self {
        self.when(Presence::Without(option))
    }
}

impl TensorSpec {
    /// A matrix without gates that is always present.
    pub const fn matrix(name: &'static str, from: &'static [&'static str], rows: Dim, cols: Dim) -> Self {
        let (presence, passes) = (Presence::Always, &Dim::Const(1));
        let storage = Storage::Weights(Unit::Input);
        Self { name, from, gates: &[], rows, cols: Some(cols), presence, passes, storage }
    }

    /// A vector without gates that is always present.
    pub const fn vector(name: &'static str, from: &'static [&'static str], rows: Dim) -> Self {
        let (presence, passes) = (Presence::Always, &Dim::Const(1));
        Self { name, from, gates: &[], rows, cols: None, presence, passes, storage: Storage::F32 }
    }

    /// One tensor for each canonical tensor, with its name. `gates` are the blocks of the gated tensors.
    pub const fn each<const N: usize>(canonical: &'static [CanonicalSpec; N], gates: &'static [Gate]) -> [Self; N] {
        let mut tensors = [Self::vector("", &[], Dim::Input); N];
        let mut index = 0;
        while index < N {
            let CanonicalSpec { name, gated, rows, cols, presence } = &canonical[index];
            let from = core::slice::from_ref(name);
            let tensor = match *cols {
                Some(cols) => Self::matrix(name, from, *rows, cols),
                None => Self::vector(name, from, *rows),
            };
            let tensor = if *gated { tensor.gates(gates) } else { tensor };
            tensors[index] = if let Presence::Optional = presence { tensor } else { tensor.when(*presence) };
            index += 1;
        }
        tensors
    }

    /// [`each`](Self::each) for a cell that reads every matrix `passes` times per step.
    pub const fn each_in_passes<const N: usize>(
        canonical: &'static [CanonicalSpec; N],
        gates: &'static [Gate],
        passes: &'static Dim,
    ) -> [Self; N] {
        let mut tensors = Self::each(canonical, gates);
        let mut index = 0;
        while index < N {
            if tensors[index].cols.is_some() {
                tensors[index] = tensors[index].passes(passes);
            }
            index += 1;
        }
        tensors
    }

    /// The table of the activation with this index.
    pub const fn table(name: &'static str, activation: u32) -> Self {
        let table = Self::vector(name, &[], Dim::Const(TABLE_LEN));
        table.when(Presence::With(CURVE + activation)).stored(Storage::Curve)
    }

    /// This tensor with the given storage.
    pub const fn stored(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// This tensor with the row blocks of `gates`.
    pub const fn gates(self, gates: &'static [Gate]) -> Self {
        Self { gates, ..self }
    }

    /// This tensor with the given presence.
    pub const fn when(self, presence: Presence) -> Self {
        Self { presence, ..self }
    }

    /// This tensor, present exactly when the option of this index is set.
    pub const fn with(self, option: u32) -> Self {
        self.when(Presence::With(option))
    }

    /// This tensor, present exactly when the option of this index is not set.
    pub const fn without(self, option: u32) -> Self {
        self.when(Presence::Without(option))
    }

    /// This tensor, read `passes` times per step.
    pub const fn passes(self, passes: &'static Dim) -> Self {
        Self { passes, ..self }
    }
}

/// When a tensor is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// In every node of its kind.
    Always,
    /// In any node of its kind, or not.
    Optional,
    /// Exactly when the option of this index is set.
    With(u32),
    /// Exactly when the option of this index is not set.
    Without(u32),
    /// Exactly when neither the option of the first index is set nor that of the second.
    Neither(u32, u32),
    /// Exactly when the option of the first index is set and that of the second is not.
    WithWithout(u32, u32),
    /// Exactly when the option of this index is set. The records of other nodes do not list the tensor, so that images
    /// from before the option stay readable. Such tensors come last.
    Late(u32),
}

impl Presence {
    /// Whether a node with these option bits must have the tensor.
    pub const fn required(self, options: u32) -> bool {
        match self {
            Self::Always => true,
            Self::Optional => false,
            Self::With(option) | Self::Late(option) => options >> option & 1 == 1,
            Self::Without(option) => options >> option & 1 == 0,
            Self::Neither(a, b) => options >> a & 1 == 0 && options >> b & 1 == 0,
            Self::WithWithout(with, without) => options >> with & 1 == 1 && options >> without & 1 == 0,
        }
    }

    /// Whether a node with these option bits may have the tensor.
    pub const fn allowed(self, options: u32) -> bool {
        matches!(self, Self::Optional) || self.required(options)
    }

    /// Whether the record of a node with these option bits has a field for the offset of the tensor.
    pub const fn listed(self, options: u32) -> bool {
        !matches!(self, Self::Late(_)) || self.required(options)
    }
}

/// The descriptions of one node: that of its kind and, in an integer numeric, that of its integer form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Specs {
    pub cell: &'static CellSpec,
    pub integer: Option<&'static IntegerSpec>,
}

impl Specs {
    /// The tensors of the image.
    pub const fn tensors(self) -> &'static [TensorSpec] {
        match self.integer {
            None => self.cell.tensors,
            Some(integer) => integer.tensors,
        }
    }

    /// Tensor `index` of the image.
    pub const fn tensor(self, index: usize) -> Option<&'static TensorSpec> {
        match self.tensors().split_at_checked(index) {
            Some((_, [spec, ..])) => Some(spec),
            _ => None,
        }
    }

    /// Scratch of the cell during one step: the sum of these.
    pub const fn work(self) -> &'static [Dim] {
        match self.integer {
            None => self.cell.work,
            Some(integer) => integer.work,
        }
    }
}
