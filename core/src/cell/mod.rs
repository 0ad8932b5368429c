//! The table of cell kinds. A kind is one file: its equations, gates, options and a [`CellSpec`]; here it has its
//! code, and one line of the one `match`.
//!
//! Layers without a state (dense, softmax) are kinds like the others, with no states in their spec.

pub mod activation;
pub mod attention_lstm;
pub mod bands;
pub mod cfc;
pub mod cfn;
pub mod conv;
pub mod conv_lstm;
pub mod dense;
pub mod depthwise_conv;
pub mod elman;
pub mod embedding;
pub mod fast_grnn;
pub mod fast_rnn;
pub mod glstm;
pub mod grid_lstm;
pub mod gru;
pub mod identity;
pub mod indrnn;
pub mod indy_gru;
pub mod indy_lstm;
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
pub mod repeat;
pub mod scale;
pub mod slstm;
pub mod softmax;
mod spec;
pub mod sru;
pub mod time_freq_lstm;
pub mod ugrnn;
pub mod window;

pub use spec::{
    ActivationSpec, CanonicalSpec, CellSpec, Dim, ExtentSpec, ParamSpec, Presence, RECURRENT, Rule, Sizes, StateSpec,
    TensorSpec,
};

use half::f16;

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
    /// [`ugrnn`]
    Ugrnn = 4,
    /// [`nas`]
    Nas = 5,
    /// [`phased_lstm`]
    PhasedLstm = 6,
    /// [`glstm`]
    Glstm = 7,
    /// [`conv_lstm`]
    ConvLstm = 8,
    /// [`indrnn`]
    Indrnn = 9,
    /// [`minimal_rnn`]
    MinimalRnn = 10,
    /// [`fast_rnn`]
    FastRnn = 11,
    /// [`fast_grnn`]
    FastGrnn = 12,
    /// [`min_gru`]
    MinGru = 13,
    /// [`min_lstm`]
    MinLstm = 14,
    /// [`slstm`]
    Slstm = 15,
    /// [`sru`]
    Sru = 16,
    /// [`cfc`]
    Cfc = 17,
    /// [`ltc`]
    Ltc = 18,
    /// [`cfn`]
    Cfn = 19,
    /// [`intersection`]
    Intersection = 20,
    /// [`indy_lstm`]
    IndyLstm = 21,
    /// [`indy_gru`]
    IndyGru = 22,
    /// [`grid_lstm`]
    GridLstm = 23,
    /// [`mgu`]
    Mgu = 24,
    /// [`time_freq_lstm`]
    TimeFreqLstm = 25,
    /// [`attention_lstm`]
    AttentionLstm = 26,
    /// [`dense`]
    Dense = 32,
    /// [`softmax`]
    Softmax = 33,
    /// [`conv`]
    Conv = 34,
    /// [`depthwise_conv`]
    DepthwiseConv = 35,
    /// [`pool`]
    Pool = 36,
    /// [`window`]
    Window = 37,
    /// [`embedding`]
    Embedding = 38,
    /// [`layer_norm`]
    LayerNorm = 39,
    /// [`activation`]
    Activation = 40,
    /// [`merge`]
    Merge = 41,
    /// [`identity`]
    Identity = 42,
    /// [`last`]
    Last = 43,
    /// [`repeat`]
    Repeat = 44,
    /// [`scale`]
    Scale = 45,
}

/// Codes are below this.
const CODES: usize = 64;

impl CellKind {
    /// Every kind, in the order of codes.
    pub const ALL: &[Self] = &[
        Self::Elman,
        Self::Lstm,
        Self::Gru,
        Self::Ugrnn,
        Self::Nas,
        Self::PhasedLstm,
        Self::Glstm,
        Self::ConvLstm,
        Self::Indrnn,
        Self::MinimalRnn,
        Self::FastRnn,
        Self::FastGrnn,
        Self::MinGru,
        Self::MinLstm,
        Self::Slstm,
        Self::Sru,
        Self::Cfc,
        Self::Ltc,
        Self::Cfn,
        Self::Intersection,
        Self::IndyLstm,
        Self::IndyGru,
        Self::GridLstm,
        Self::Mgu,
        Self::TimeFreqLstm,
        Self::AttentionLstm,
        Self::Dense,
        Self::Softmax,
        Self::Conv,
        Self::DepthwiseConv,
        Self::Pool,
        Self::Window,
        Self::Embedding,
        Self::LayerNorm,
        Self::Activation,
        Self::Merge,
        Self::Identity,
        Self::Last,
        Self::Repeat,
        Self::Scale,
    ];

    /// What this kind does with weights of type `W`, and all that is known about it. A kind may have a second step for
    /// nodes with `rare` options, which does all that the first does.
    const fn cell<W: Weight>(self, rare: bool) -> &'static Cell {
        match self {
            Self::Elman => const { &Cell::new(&elman::SPEC, elman::step::<W>) },
            Self::Lstm if rare => const { &Cell::new(&lstm::SPEC, lstm::step_in_passes::<W>) },
            Self::Lstm => const { &Cell::new(&lstm::SPEC, lstm::step::<W>) },
            Self::Gru => const { &Cell::new(&gru::SPEC, gru::step::<W>) },
            Self::Ugrnn => const { &Cell::new(&ugrnn::SPEC, ugrnn::step::<W>) },
            Self::Nas => const { &Cell::new(&nas::SPEC, nas::step::<W>) },
            Self::PhasedLstm => const { &Cell::new(&phased_lstm::SPEC, phased_lstm::step::<W>) },
            Self::Glstm => const { &Cell::new(&glstm::SPEC, glstm::step::<W>) },
            Self::ConvLstm => const { &Cell::new(&conv_lstm::SPEC, conv_lstm::step::<W>) },
            Self::Indrnn => const { &Cell::new(&indrnn::SPEC, indrnn::step::<W>) },
            Self::MinimalRnn => const { &Cell::new(&minimal_rnn::SPEC, minimal_rnn::step::<W>) },
            Self::FastRnn => const { &Cell::new(&fast_rnn::SPEC, fast_rnn::step::<W>) },
            Self::FastGrnn => const { &Cell::new(&fast_grnn::SPEC, fast_grnn::step::<W>) },
            Self::MinGru => const { &Cell::new(&min_gru::SPEC, min_gru::step::<W>) },
            Self::MinLstm => const { &Cell::new(&min_lstm::SPEC, min_lstm::step::<W>) },
            Self::Slstm => const { &Cell::new(&slstm::SPEC, slstm::step::<W>) },
            Self::Sru => const { &Cell::new(&sru::SPEC, sru::step::<W>) },
            Self::Cfc => const { &Cell::new(&cfc::SPEC, cfc::step::<W>) },
            Self::Ltc => const { &Cell::new(&ltc::SPEC, ltc::step::<W>) },
            Self::Cfn => const { &Cell::new(&cfn::SPEC, cfn::step::<W>) },
            Self::Intersection => const { &Cell::new(&intersection::SPEC, intersection::step::<W>) },
            Self::IndyLstm => const { &Cell::new(&indy_lstm::SPEC, indy_lstm::step::<W>) },
            Self::IndyGru => const { &Cell::new(&indy_gru::SPEC, indy_gru::step::<W>) },
            Self::GridLstm => const { &Cell::new(&grid_lstm::SPEC, grid_lstm::step::<W>) },
            Self::Mgu => const { &Cell::new(&mgu::SPEC, mgu::step::<W>) },
            Self::TimeFreqLstm => const { &Cell::new(&time_freq_lstm::SPEC, time_freq_lstm::step::<W>) },
            Self::AttentionLstm => const { &Cell::new(&attention_lstm::SPEC, attention_lstm::step::<W>) },
            Self::Dense => const { &Cell::new(&dense::SPEC, dense::step::<W>) },
            Self::Softmax => const { &Cell::new(&softmax::SPEC, softmax::step) },
            Self::Conv => const { &Cell::new(&conv::SPEC, conv::step::<W>) },
            Self::DepthwiseConv => const { &Cell::new(&depthwise_conv::SPEC, depthwise_conv::step::<W>) },
            Self::Pool => const { &Cell::new(&pool::SPEC, pool::step) },
            Self::Window => const { &Cell::buffered(&window::SPEC, window::step) },
            Self::Embedding => const { &Cell::new(&embedding::SPEC, embedding::step::<W>) },
            Self::LayerNorm => const { &Cell::new(&layer_norm::SPEC, layer_norm::step) },
            Self::Activation => const { &Cell::new(&activation::SPEC, activation::step) },
            Self::Merge => const { &Cell::new(&merge::SPEC, merge::step) },
            Self::Identity => const { &Cell::new(&identity::SPEC, identity::step) },
            Self::Last => const { &Cell::new(&last::SPEC, last::step) },
            Self::Repeat => const { &Cell::buffered(&repeat::SPEC, repeat::step) },
            Self::Scale => const { &Cell::new(&scale::SPEC, scale::step) },
        }
    }

    /// Whether a node with these options needs the second step of its kind.
    const fn is_rare(self, options: u32) -> bool {
        matches!(self, Self::Lstm) && options & lstm::IN_PASSES != 0
    }

    /// What is known about this kind.
    pub const fn spec(self) -> &'static CellSpec {
        self.cell::<f32>(false).spec
    }

    /// Its code in an image.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The kind with this code in an image.
    pub const fn from_code(code: u16) -> Option<Self> {
        match BY_CODE.split_at_checked(code as usize) {
            Some((_, [kind, ..])) => *kind,
            _ => None,
        }
    }

    /// The kind with this name in a canonical model.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.spec().name == name)
    }

    /// Whether a step of this kind may have nothing to give.
    pub const fn is_buffered(self) -> bool {
        matches!(self.cell::<f32>(false).run, Run::Buffered(_))
    }
}

const BY_CODE: [Option<CellKind>; CODES] = {
    let mut table = [None; CODES];
    let mut kinds = CellKind::ALL;
    while let [kind, rest @ ..] = kinds {
        table[*kind as usize] = Some(*kind);
        kinds = rest;
    }
    table
};

/// Whether the step of a node with this option does not count: the last feature is 0. State and output stay.
pub(crate) fn is_masked(node: &Node<'_>, option: u32, x: &[f32]) -> bool {
    node.has(option) && x.last() == Some(&0.0)
}

/// The slices of one time step of a node. Each has the length that the node's spec says; what `work` and `y` hold
/// before the step means nothing.
pub(crate) struct Io<'s> {
    /// What comes in.
    pub x: &'s [f32],
    /// What is carried from step to step.
    pub state: &'s mut [f32],
    /// Scratch.
    pub work: &'s mut [f32],
    /// What goes out.
    pub y: &'s mut [f32],
    /// Rows of `x` that are valid, where it holds those of a window.
    pub rows: usize,
}

/// One time step.
type EachStep = fn(&Node<'_>, Io<'_>);
/// One time step, of which there may be no output: node, input, state, output.
type BufferedStep = fn(&Node<'_>, Option<&[f32]>, &mut [f32], &mut [f32]) -> Option<usize>;

/// How a kind steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// Each step gives an output.
    Each(EachStep),
    /// A step may have nothing to give yet; else it says how many rows of its output are valid. Without an input the
    /// sequence has ended.
    Buffered(BufferedStep),
}

/// A kind for one type of weights.
#[derive(Debug)]
pub(crate) struct Cell {
    pub spec: &'static CellSpec,
    pub run: Run,
}

impl Cell {
    const fn new(spec: &'static CellSpec, step: EachStep) -> Self {
        Self { spec, run: Run::Each(step) }
    }

    const fn buffered(spec: &'static CellSpec, step: BufferedStep) -> Self {
        Self { spec, run: Run::Buffered(step) }
    }
}

/// The cells that one model uses. All code of a cell is reached through this table, so a firmware whose model is a
/// constant contains the cells of that model, with what its options need, and no others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells([Option<&'static Cell>; CODES]);

impl Cells {
    pub const NONE: Self = Self([None; CODES]);

    /// The same with this kind, for a node with these options too.
    pub const fn with(mut self, kind: CellKind, options: u32, numeric: Numeric) -> Self {
        let rare = kind.is_rare(options);
        if self.get(kind).is_some() && !rare {
            return self;
        }
        let cell = match numeric {
            Numeric::F32 => kind.cell::<f32>(rare),
            Numeric::F16 => kind.cell::<f16>(rare),
        };
        let mut code = 0;
        while code < CODES {
            if code == kind as usize {
                self.0[code] = Some(cell);
            }
            code += 1;
        }
        self
    }

    pub const fn get(&self, kind: CellKind) -> Option<&'static Cell> {
        match self.0.split_at_checked(kind as usize) {
            Some((_, [cell, ..])) => *cell,
            _ => None,
        }
    }
}

/// As many as both have.
pub(crate) fn copy(to: &mut [f32], from: &[f32]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from;
    }
}

/// The sums of two blocks of four rows.
pub(crate) fn sum([a, b, c, d]: [f32; 4], [e, f, g, h]: [f32; 4]) -> [f32; 4] {
    [a + e, b + f, c + g, d + h]
}

/// The greater of two; not a number if one is not, which `f32::max` would hide.
pub(crate) fn greater(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}
