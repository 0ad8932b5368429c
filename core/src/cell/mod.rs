//! The table of cells. A kind is one file: its equations, gates, options, its [`CellSpec`] and its steps. The table has one
//! row for each kind; its code is in [`CellKind`].
//!
//! Layers without a state (dense, softmax) are kinds like the others, with no states in their spec.

pub mod activation;
pub mod attention_lstm;
pub mod bands;
pub mod cfc;
pub mod cfn;
pub mod conv;
pub mod conv_lstm;
pub mod delay;
pub mod dense;
pub mod depthwise_conv;
pub mod elman;
pub mod embedding;
pub mod fast_grnn;
pub mod fast_rnn;
pub mod gather;
pub mod glstm;
pub mod grid_lstm;
pub mod gru;
mod i8;
pub mod identity;
pub mod indrnn;
pub mod indy_gru;
pub mod indy_lstm;
mod integer;
pub mod intersection;
pub mod last;
pub mod layer_norm;
pub mod low_rank;
pub mod lstm;
pub mod ltc;
pub mod merge;
pub mod mgu;
pub mod min_gru;
pub mod min_lstm;
pub mod minimal_rnn;
pub mod mixed_memory;
pub mod nas;
pub mod patch;
pub mod phased_lstm;
pub mod pool;
mod prelude;
pub mod repeat;
pub mod scale;
pub mod slice;
pub mod slstm;
pub mod softmax;
pub mod sru;
mod sums;
pub mod svdf;
pub mod time_freq_lstm;
pub mod ugrnn;
pub mod window;
pub mod window_dense;
pub mod window_depthwise;

pub use crate::spec::{
    ActivationSpec, Alone, CURVE, Candidate, CanonicalSpec, CellKind, CellSpec, Dim, ExtentSpec, IntegerSpec,
    LeastScale, NumberSpec, Numbers, OTHER, OutputScale, ParamSpec, Presence, Quantization, RECURRENT, Reads, Role,
    Rule, Sizes, StateSpec, Storage, TensorSpec, UNIT_SCALES, Unit, WIDE, is_wide,
};

use core::marker::PhantomData;

use half::f16;

use crate::image::{Layout, Numeric};
use crate::kernel::{CortexM0, CortexM4, CortexM4I4, CortexM55, Kernel, Portable, PortableI4, Weight};
use crate::node::{Cell, Cells, Entry, Node};
use crate::spec::Specs;

// The kernels of the layouts. For a layout that this build does not read, the type is that of the portable kernel, so that
// the compiler generates no code for the layout's own. It is never called: `CellKind::integer` refuses such a layout.
type OfM0 = <IfRead<{ Layout::CortexM0.is_read() }, CortexM0> as Choice>::Kernel;
type OfM4 = <IfRead<{ Layout::CortexM4.is_read() }, CortexM4> as Choice>::Kernel;
type OfM4I4 = <IfRead<{ Layout::CortexM4.is_read() }, CortexM4I4> as Choice>::Kernel;
type OfM55 = <IfRead<{ Layout::CortexM55.is_read() }, CortexM55> as Choice>::Kernel;

/// `K`, or [`Portable`] if not `READ`.
struct IfRead<const READ: bool, K>(PhantomData<K>);

trait Choice {
    type Kernel: Kernel;
}

impl<K: Kernel> Choice for IfRead<true, K> {
    type Kernel = K;
}

impl<K> Choice for IfRead<false, K> {
    type Kernel = Portable;
}

impl CellKind {
    /// The row of a kind, with weights of type `W` in the float numerics and read by kernel `K` in the integer numerics.
    const fn entry<W: Weight, K: Kernel>(self) -> Entry {
        match self {
            Self::Elman => elman::entry::<W, K>(),
            Self::Lstm => lstm::entry::<W, K>(),
            Self::Gru => gru::entry::<W, K>(),
            Self::Ugrnn => ugrnn::entry::<W, K>(),
            Self::Nas => nas::entry::<W, K>(),
            Self::PhasedLstm => phased_lstm::entry::<W, K>(),
            Self::Glstm => glstm::entry::<W, K>(),
            Self::ConvLstm => conv_lstm::entry::<W, K>(),
            Self::Indrnn => indrnn::entry::<W, K>(),
            Self::MinimalRnn => minimal_rnn::entry::<W, K>(),
            Self::FastRnn => fast_rnn::entry::<W, K>(),
            Self::FastGrnn => fast_grnn::entry::<W, K>(),
            Self::MinGru => min_gru::entry::<W, K>(),
            Self::MinLstm => min_lstm::entry::<W, K>(),
            Self::Slstm => slstm::entry::<W, K>(),
            Self::Sru => sru::entry::<W, K>(),
            Self::Cfc => cfc::entry::<W, K>(),
            Self::Ltc => ltc::entry::<W, K>(),
            Self::Cfn => cfn::entry::<W, K>(),
            Self::Intersection => intersection::entry::<W, K>(),
            Self::IndyLstm => indy_lstm::entry::<W, K>(),
            Self::IndyGru => indy_gru::entry::<W, K>(),
            Self::GridLstm => grid_lstm::entry::<W, K>(),
            Self::Mgu => mgu::entry::<W, K>(),
            Self::TimeFreqLstm => time_freq_lstm::entry::<W, K>(),
            Self::AttentionLstm => attention_lstm::entry::<W, K>(),
            Self::Svdf => svdf::entry::<W, K>(),
            Self::Dense => dense::entry::<W, K>(),
            Self::Softmax => softmax::entry::<W, K>(),
            Self::Conv => conv::entry::<W, K>(),
            Self::DepthwiseConv => depthwise_conv::entry::<W, K>(),
            Self::Pool => pool::entry::<W, K>(),
            Self::Window => window::entry::<W, K>(),
            Self::Embedding => embedding::entry::<W, K>(),
            Self::LayerNorm => layer_norm::entry::<W, K>(),
            Self::Activation => activation::entry::<W, K>(),
            Self::Merge => merge::entry::<W, K>(),
            Self::Identity => identity::entry::<W, K>(),
            Self::Last => last::entry::<W, K>(),
            Self::Repeat => repeat::entry::<W, K>(),
            Self::Scale => scale::entry::<W, K>(),
            Self::Slice => slice::entry::<W, K>(),
            Self::WindowDense => window_dense::entry::<W, K>(),
            Self::WindowDepthwise => window_depthwise::entry::<W, K>(),
            Self::Gather => gather::entry::<W, K>(),
            Self::Delay => delay::entry::<W, K>(),
        }
    }

    /// The description of this kind.
    pub const fn spec(self) -> &'static CellSpec {
        self.entry::<f32, Portable>().spec
    }

    /// The kind with this name in a canonical model.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.spec().name == name)
    }

    /// Whether a step of this kind may have no output.
    pub const fn is_buffered(self) -> bool {
        matches!(self.entry::<f32, Portable>().float, [cell, ..] if cell.is_buffered())
    }

    /// The integer form in the numerics other than `i8`, if there is one.
    pub const fn integer_spec(self) -> Option<&'static IntegerSpec> {
        self.integer_spec_of(0, Numeric::I8x16)
    }

    /// The integer form in the numeric `i8`, if there is one.
    pub const fn byte_spec(self) -> Option<&'static IntegerSpec> {
        self.integer_spec_of(0, Numeric::I8)
    }

    /// The integer form of a node with these options; `None` in a float numeric.
    const fn integer_spec_of(self, options: u32, numeric: Numeric) -> Option<&'static IntegerSpec> {
        match self.integer(options, numeric, Layout::Portable) {
            Some((spec, _)) => Some(spec),
            None => None,
        }
    }

    /// The integer form of a node with these options, and its step for the weights of this layout. `None` in a float
    /// numeric, for a layout that this build does not read, and for a kind without such a form.
    const fn integer(
        self,
        options: u32,
        numeric: Numeric,
        layout: Layout,
    ) -> Option<(&'static IntegerSpec, &'static Cell)> {
        let (i4, i8) = (matches!(numeric, Numeric::I4x16), matches!(numeric, Numeric::I8));
        let forms = match layout {
            _ if !numeric.is_integer() => return None,
            Layout::Portable if i4 => self.entry::<f32, PortableI4>().integer,
            Layout::Portable if i8 => self.entry::<f32, Portable>().i8,
            Layout::Portable => self.entry::<f32, Portable>().integer,
            _ if !layout.is_read() || !layout.is_of(numeric) => return None,
            Layout::CortexM0 if i8 => self.entry::<f32, OfM0>().i8,
            Layout::CortexM0 => self.entry::<f32, OfM0>().integer,
            Layout::CortexM4 if i4 => self.entry::<f32, OfM4I4>().integer,
            Layout::CortexM4 if i8 => self.entry::<f32, OfM4>().i8,
            Layout::CortexM4 => self.entry::<f32, OfM4>().integer,
            Layout::CortexM55 if i8 => self.entry::<f32, OfM55>().i8,
            Layout::CortexM55 => self.entry::<f32, OfM55>().integer,
        };
        let (mut rest, mut found) = (forms, None);
        while let [form, others @ ..] = rest {
            if form.1.is_for(options) {
                found = Some(*form);
            }
            rest = others;
        }
        found
    }

    /// The step of a node with these options in a float numeric, with weights of type `W`.
    const fn float<W: Weight>(self, options: u32) -> Option<&'static Cell> {
        let (mut rest, mut found) = (self.entry::<W, Portable>().float, None);
        while let [cell, others @ ..] = rest {
            if cell.is_for(options) {
                found = Some(*cell);
            }
            rest = others;
        }
        found
    }
}

impl Cells {
    /// Adds the cell of this kind for a node with these options. A kind without a form in this numeric stays missing.
    pub const fn with(self, kind: CellKind, options: u32, numeric: Numeric, layout: Layout) -> Self {
        // The step must also be able to run the nodes before this one.
        let options = match self.get(kind) {
            Some(cell) => options | cell.options,
            None => options,
        };
        let cell = match numeric {
            Numeric::F32 => kind.float::<f32>(options),
            Numeric::F16 => kind.float::<f16>(options),
            Numeric::I8x16 | Numeric::I4x16 | Numeric::I8 => match kind.integer(options, numeric, layout) {
                Some((_, cell)) => Some(cell),
                None => None,
            },
        };
        self.set(kind, cell)
    }
}

impl<'a> Node<'a> {
    /// The description of the node's kind.
    pub const fn spec(&self) -> &'static CellSpec {
        self.kind.spec()
    }

    /// The integer form of the node's kind; `None` in a float numeric.
    pub const fn integer_spec(&self) -> Option<&'static IntegerSpec> {
        self.kind.integer_spec_of(self.options, self.numeric())
    }

    /// The descriptions of the node.
    pub(crate) const fn specs(&self) -> Specs {
        Specs { cell: self.spec(), integer: self.integer_spec() }
    }

    /// Multiply-accumulates of one step.
    pub const fn macs(&self) -> usize {
        let macs = self.row_macs(self.specs()).saturating_mul(self.steps() as u64);
        if macs > usize::MAX as u64 { usize::MAX } else { macs as usize }
    }

    /// The bytes of tensor `index` of the image's spec; empty if the node does not have it. Unlike
    /// [`tensor`](Self::tensor), it also finds tensors that no step reads.
    pub const fn tensor_bytes_at(&self, index: usize) -> &'a [u8] {
        self.bytes_of(self.specs(), index)
    }

    /// The weights of a row of matrix `index` of an integer node, in any layout; for `i4x16` multiplied by their
    /// factors. For backends that pack weights in their own order.
    pub fn integer_row(&self, index: usize, row: usize) -> impl Iterator<Item = i8> + use<'a> {
        self.row_of(self.specs(), index, row)
    }
}
