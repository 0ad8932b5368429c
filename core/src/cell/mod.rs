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
    ActivationSpec, CURVE, CanonicalSpec, CellSpec, Dim, ExtentSpec, IntegerSpec, NumberSpec, OTHER, ParamSpec,
    Presence, RECURRENT, Rule, Sizes, StateSpec, Storage, TensorSpec, Unit,
};

use half::f16;

use crate::engine::Values;
use crate::image::{Layout, Numeric};
use crate::kernel::{self, Kernel, Weight};
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
            Self::Window => const { &Cell::buffered(&window::SPEC, window::step::<f32>) },
            Self::Embedding => const { &Cell::new(&embedding::SPEC, embedding::step::<W>) },
            Self::LayerNorm => const { &Cell::new(&layer_norm::SPEC, layer_norm::step) },
            Self::Activation => const { &Cell::new(&activation::SPEC, activation::step) },
            Self::Merge => const { &Cell::new(&merge::SPEC, merge::step) },
            Self::Identity => const { &Cell::new(&identity::SPEC, identity::step::<f32>) },
            Self::Last => const { &Cell::new(&last::SPEC, last::step::<f32>) },
            Self::Repeat => const { &Cell::buffered(&repeat::SPEC, repeat::step::<f32>) },
            Self::Scale => const { &Cell::new(&scale::SPEC, scale::step) },
        }
    }

    /// What this kind does in the integer numerics with weights that a kernel reads; none if it has no integer form.
    pub(crate) const fn integer_cell<K: Kernel>(self, rare: bool) -> Option<&'static Cell> {
        match self {
            Self::Lstm if rare => {
                const { Some(&Cell::integer(&lstm::SPEC, &lstm::integer::RARE_SPEC, lstm::integer::step_any::<K>)) }
            }
            Self::Lstm => const { Some(&Cell::integer(&lstm::SPEC, &lstm::integer::SPEC, lstm::integer::step::<K>)) },
            Self::Elman => {
                const { Some(&Cell::integer(&elman::SPEC, &elman::integer::SPEC, elman::integer::step::<K>)) }
            }
            Self::Gru if rare => {
                const { Some(&Cell::integer(&gru::SPEC, &gru::integer::SPEC, gru::integer::step_any::<K>)) }
            }
            Self::Gru => const { Some(&Cell::integer(&gru::SPEC, &gru::integer::SPEC, gru::integer::step::<K>)) },
            Self::Dense => {
                const { Some(&Cell::integer(&dense::SPEC, &dense::integer::SPEC, dense::integer::step::<K>)) }
            }
            Self::Softmax => {
                const { Some(&Cell::integer(&softmax::SPEC, &softmax::integer::SPEC, softmax::integer::step)) }
            }
            Self::Conv => const { Some(&Cell::integer(&conv::SPEC, &conv::integer::SPEC, conv::integer::step::<K>)) },
            Self::DepthwiseConv => {
                const {
                    Some(&Cell::integer(
                        &depthwise_conv::SPEC,
                        &depthwise_conv::integer::SPEC,
                        depthwise_conv::integer::step::<K>,
                    ))
                }
            }
            Self::Embedding => {
                const { Some(&Cell::integer(&embedding::SPEC, &embedding::integer::SPEC, embedding::integer::step)) }
            }
            Self::Activation => {
                const { Some(&Cell::integer(&activation::SPEC, &activation::integer::SPEC, activation::integer::step)) }
            }
            Self::Scale => const { Some(&Cell::integer(&scale::SPEC, &scale::integer::SPEC, scale::integer::step)) },
            Self::Pool => const { Some(&Cell::integer(&pool::SPEC, &pool::integer::SPEC, pool::integer::step)) },
            Self::Window => {
                const { Some(&Cell::integer_buffered(&window::SPEC, &window::INTEGER, window::step::<i16>)) }
            }
            Self::Merge => const { Some(&Cell::integer(&merge::SPEC, &merge::integer::SPEC, merge::integer::step)) },
            Self::Identity if rare => {
                const { Some(&Cell::integer(&identity::SPEC, &identity::integer::SPEC, identity::integer::step)) }
            }
            Self::Identity => {
                const { Some(&Cell::integer(&identity::SPEC, &identity::integer::SPEC, identity::step::<i16>)) }
            }
            Self::Last => const { Some(&Cell::integer(&last::SPEC, &last::INTEGER, last::step::<i16>)) },
            Self::Repeat => {
                const { Some(&Cell::integer_buffered(&repeat::SPEC, &repeat::INTEGER, repeat::step::<i16>)) }
            }
            Self::FastRnn => {
                const { Some(&Cell::integer(&fast_rnn::SPEC, &fast_rnn::integer::SPEC, fast_rnn::integer::step::<K>)) }
            }
            Self::FastGrnn => {
                const { Some(&Cell::integer(&fast_grnn::SPEC, &fast_grnn::integer::SPEC, fast_grnn::integer::step::<K>)) }
            }
            Self::MinGru => {
                const { Some(&Cell::integer(&min_gru::SPEC, &min_gru::integer::SPEC, min_gru::integer::step::<K>)) }
            }
            _ => None,
        }
    }

    /// What is other in the integer numerics; none if it has no integer form.
    pub const fn integer_spec(self) -> Option<&'static IntegerSpec> {
        match self.integer_cell::<kernel::Portable>(false) {
            Some(Cell { form: Form::Integer(spec, _), .. }) => Some(spec),
            _ => None,
        }
    }

    /// Whether a node with these options needs the second step of its kind.
    const fn is_rare(self, options: u32, numeric: Numeric) -> bool {
        let rare = match (self, numeric.is_integer()) {
            (Self::Lstm, true) => lstm::integer::RARE,
            (Self::Lstm, false) => lstm::IN_PASSES,
            (Self::Gru, true) => gru::integer::RARE,
            (Self::Identity, true) => identity::integer::RARE,
            _ => 0,
        };
        options & rare != 0
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
        self.cell::<f32>(false).is_buffered()
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
pub(crate) fn is_masked<E: Element>(node: &Node<'_>, option: u32, x: &[E]) -> bool {
    node.has(option) && x.get(node.input_size.wrapping_sub(1)) == Some(&E::zeroed())
}

/// The slices of one time step of a node, f32 or in the integer numerics i16. Each has the length that the node's spec
/// says, in the integer numerics `x`, each state and each part of `work` filled up to whole units of the layout by zeros;
/// what the rest of `work` and `y` hold before the step means nothing.
pub(crate) struct Io<'s, E = f32> {
    /// What comes in.
    pub x: &'s [E],
    /// What is carried from step to step.
    pub state: &'s mut [E],
    /// Scratch.
    pub work: &'s mut [E],
    /// What goes out.
    pub y: &'s mut [E],
    /// Rows of `x` that are valid, where it holds those of a window.
    pub rows: usize,
}

/// One time step.
type EachStep<E> = fn(&Node<'_>, Io<'_, E>);
/// One time step, of which there may be no output: node, input, state, output.
type BufferedStep<E> = fn(&Node<'_>, Option<&[E]>, &mut [E], &mut [E]) -> Option<usize>;

/// How a kind steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run<E> {
    /// Each step gives an output.
    Each(EachStep<E>),
    /// A step may have nothing to give yet; else it says how many rows of its output are valid. Without an input the
    /// sequence has ended.
    Buffered(BufferedStep<E>),
}

/// A kind for one type of weights.
#[derive(Debug)]
pub(crate) struct Cell {
    pub spec: &'static CellSpec,
    pub form: Form,
}

/// What a cell computes with.
#[derive(Debug)]
pub(crate) enum Form {
    Float(Run<f32>),
    Integer(&'static IntegerSpec, Run<i16>),
}

impl Cell {
    const fn new(spec: &'static CellSpec, step: EachStep<f32>) -> Self {
        Self { spec, form: Form::Float(Run::Each(step)) }
    }

    const fn buffered(spec: &'static CellSpec, step: BufferedStep<f32>) -> Self {
        Self { spec, form: Form::Float(Run::Buffered(step)) }
    }

    const fn integer(spec: &'static CellSpec, integer: &'static IntegerSpec, step: EachStep<i16>) -> Self {
        Self { spec, form: Form::Integer(integer, Run::Each(step)) }
    }

    const fn integer_buffered(spec: &'static CellSpec, integer: &'static IntegerSpec, step: BufferedStep<i16>) -> Self {
        Self { spec, form: Form::Integer(integer, Run::Buffered(step)) }
    }

    pub const fn is_buffered(&self) -> bool {
        matches!(self.form, Form::Float(Run::Buffered(_)) | Form::Integer(_, Run::Buffered(_)))
    }

    /// The tensors of the image.
    pub const fn tensors(&self) -> &'static [TensorSpec] {
        match self.form {
            Form::Float(_) => self.spec.tensors,
            Form::Integer(integer, _) => integer.tensors,
        }
    }

    /// Its own scratch, in elements.
    pub const fn work(&self) -> &'static [Dim] {
        match self.form {
            Form::Float(_) => self.spec.work,
            Form::Integer(integer, _) => integer.work,
        }
    }
}

/// What a slot or a state holds: f32 or, in the integer numerics, i16.
pub(crate) trait Element: bytemuck::Pod + PartialEq {
    /// How a cell steps with it; none if it is of the other kind.
    fn run(form: &Form) -> Option<Run<Self>>;

    /// For who observes.
    fn values(values: &[Self]) -> Values<'_>;

    /// A count that was stored as an element.
    fn to_count(self) -> usize;

    /// A count as an element: in f32 below 2^24, in i16 below 2^15.
    fn from_count(count: usize) -> Self;
}

impl Element for f32 {
    fn run(form: &Form) -> Option<Run<Self>> {
        match form {
            Form::Float(run) => Some(*run),
            Form::Integer(..) => None,
        }
    }

    fn values(values: &[Self]) -> Values<'_> {
        Values::F32(values)
    }

    fn to_count(self) -> usize {
        self as usize
    }

    fn from_count(count: usize) -> Self {
        count as f32
    }
}

impl Element for i16 {
    fn run(form: &Form) -> Option<Run<Self>> {
        match form {
            Form::Float(_) => None,
            Form::Integer(_, run) => Some(*run),
        }
    }

    fn values(values: &[Self]) -> Values<'_> {
        Values::I16(values)
    }

    fn to_count(self) -> usize {
        self.max(0).unsigned_abs().into()
    }

    fn from_count(count: usize) -> Self {
        count as i16
    }
}

/// The cells that one model uses. All code of a cell is reached through this table, so a firmware whose model is a
/// constant contains the cells of that model, with what its options need, and no others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells([Option<&'static Cell>; CODES]);

impl Cells {
    pub const NONE: Self = Self([None; CODES]);

    /// The same with this kind, for a node with these options too. Without a form in this numeric it stays missing.
    pub const fn with(mut self, kind: CellKind, options: u32, numeric: Numeric, layout: Layout) -> Self {
        let rare = kind.is_rare(options, numeric);
        if self.get(kind).is_some() && !rare {
            return self;
        }
        let cell = match numeric {
            Numeric::F32 => Some(kind.cell::<f32>(rare)),
            Numeric::F16 => Some(kind.cell::<f16>(rare)),
            Numeric::I8x16 | Numeric::I4x16 => kernel::integer_cell(kind, rare, numeric, layout),
        };
        let mut code = 0;
        while code < CODES {
            if code == kind as usize {
                self.0[code] = cell;
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
pub(crate) fn copy<E: Copy>(to: &mut [E], from: &[E]) {
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
