//! The table of cell kinds. A kind is one file: its equations, gates, options and a [`CellSpec`]; here it has its
//! code, and one line of the one `match`.
//!
//! Layers without a state (dense, softmax) are kinds like the others, with no states in their spec.

pub mod activation;
pub mod attention_lstm;
pub mod bands;
pub mod byte;
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
mod form;
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

pub(crate) use form::{Cell, Cells, Element, Io, Need, Run, copy, fill_up, greater, is_masked, sum};

use crate::image::Numeric;
use crate::kernel::{self, Kernel, Weight};

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

    /// What this kind does with weights of type `W`, and all that is known about it.
    const fn cell<W: Weight>(self, need: Need) -> (&'static CellSpec, &'static Cell) {
        match self {
            Self::Elman if matches!(need, Need::Any) => {
                const { (&elman::SPEC, &Cell::new(&elman::SPEC, elman::step_any::<W>)) }
            }
            Self::Elman => const { (&elman::SPEC, &Cell::new(&elman::SPEC, elman::step::<W>)) },
            Self::Lstm if matches!(need, Need::Any) => {
                const { (&lstm::SPEC, &Cell::new(&lstm::SPEC, lstm::step_in_passes::<W>)) }
            }
            Self::Lstm => const { (&lstm::SPEC, &Cell::new(&lstm::SPEC, lstm::step::<W>)) },
            Self::Gru if matches!(need, Need::Any) => {
                const { (&gru::SPEC, &Cell::new(&gru::SPEC, gru::step_any::<W>)) }
            }
            Self::Gru => const { (&gru::SPEC, &Cell::new(&gru::SPEC, gru::step::<W>)) },
            Self::Ugrnn => const { (&ugrnn::SPEC, &Cell::new(&ugrnn::SPEC, ugrnn::step::<W>)) },
            Self::Nas => const { (&nas::SPEC, &Cell::new(&nas::SPEC, nas::step::<W>)) },
            Self::PhasedLstm => const { (&phased_lstm::SPEC, &Cell::new(&phased_lstm::SPEC, phased_lstm::step::<W>)) },
            Self::Glstm => const { (&glstm::SPEC, &Cell::new(&glstm::SPEC, glstm::step::<W>)) },
            Self::ConvLstm => const { (&conv_lstm::SPEC, &Cell::new(&conv_lstm::SPEC, conv_lstm::step::<W>)) },
            Self::Indrnn => const { (&indrnn::SPEC, &Cell::new(&indrnn::SPEC, indrnn::step::<W>)) },
            Self::MinimalRnn => const { (&minimal_rnn::SPEC, &Cell::new(&minimal_rnn::SPEC, minimal_rnn::step::<W>)) },
            Self::FastRnn => const { (&fast_rnn::SPEC, &Cell::new(&fast_rnn::SPEC, fast_rnn::step::<W>)) },
            Self::FastGrnn => const { (&fast_grnn::SPEC, &Cell::new(&fast_grnn::SPEC, fast_grnn::step::<W>)) },
            Self::MinGru => const { (&min_gru::SPEC, &Cell::new(&min_gru::SPEC, min_gru::step::<W>)) },
            Self::MinLstm => const { (&min_lstm::SPEC, &Cell::new(&min_lstm::SPEC, min_lstm::step::<W>)) },
            Self::Slstm => const { (&slstm::SPEC, &Cell::new(&slstm::SPEC, slstm::step::<W>)) },
            Self::Sru => const { (&sru::SPEC, &Cell::new(&sru::SPEC, sru::step::<W>)) },
            Self::Cfc => const { (&cfc::SPEC, &Cell::new(&cfc::SPEC, cfc::step::<W>)) },
            Self::Ltc => const { (&ltc::SPEC, &Cell::new(&ltc::SPEC, ltc::step::<W>)) },
            Self::Cfn => const { (&cfn::SPEC, &Cell::new(&cfn::SPEC, cfn::step::<W>)) },
            Self::Intersection => {
                const { (&intersection::SPEC, &Cell::new(&intersection::SPEC, intersection::step::<W>)) }
            }
            Self::IndyLstm => const { (&indy_lstm::SPEC, &Cell::new(&indy_lstm::SPEC, indy_lstm::step::<W>)) },
            Self::IndyGru => const { (&indy_gru::SPEC, &Cell::new(&indy_gru::SPEC, indy_gru::step::<W>)) },
            Self::GridLstm => const { (&grid_lstm::SPEC, &Cell::new(&grid_lstm::SPEC, grid_lstm::step::<W>)) },
            Self::Mgu => const { (&mgu::SPEC, &Cell::new(&mgu::SPEC, mgu::step::<W>)) },
            Self::TimeFreqLstm => {
                const { (&time_freq_lstm::SPEC, &Cell::new(&time_freq_lstm::SPEC, time_freq_lstm::step::<W>)) }
            }
            Self::AttentionLstm => {
                const { (&attention_lstm::SPEC, &Cell::new(&attention_lstm::SPEC, attention_lstm::step::<W>)) }
            }
            Self::Dense => const { (&dense::SPEC, &Cell::new(&dense::SPEC, dense::step::<W>)) },
            Self::Softmax => const { (&softmax::SPEC, &Cell::new(&softmax::SPEC, softmax::step)) },
            Self::Conv => const { (&conv::SPEC, &Cell::new(&conv::SPEC, conv::step::<W>)) },
            Self::DepthwiseConv => {
                const { (&depthwise_conv::SPEC, &Cell::new(&depthwise_conv::SPEC, depthwise_conv::step::<W>)) }
            }
            Self::Pool => const { (&pool::SPEC, &Cell::new(&pool::SPEC, pool::step)) },
            Self::Window => const { (&window::SPEC, &Cell::buffered(&window::SPEC, window::step::<f32>)) },
            Self::Embedding => const { (&embedding::SPEC, &Cell::new(&embedding::SPEC, embedding::step::<W>)) },
            Self::LayerNorm => const { (&layer_norm::SPEC, &Cell::new(&layer_norm::SPEC, layer_norm::step)) },
            Self::Activation => const { (&activation::SPEC, &Cell::new(&activation::SPEC, activation::step)) },
            Self::Merge => const { (&merge::SPEC, &Cell::new(&merge::SPEC, merge::step)) },
            Self::Identity => const { (&identity::SPEC, &Cell::new(&identity::SPEC, identity::step::<f32>)) },
            Self::Last => const { (&last::SPEC, &Cell::new(&last::SPEC, last::step::<f32>)) },
            Self::Repeat => const { (&repeat::SPEC, &Cell::buffered(&repeat::SPEC, repeat::step::<f32>)) },
            Self::Scale => const { (&scale::SPEC, &Cell::new(&scale::SPEC, scale::step)) },
        }
    }

    /// What is other of this kind in the integer numerics, and what it does with weights that a kernel reads; none if it has
    /// no integer form.
    const fn integer<K: Kernel>(self, need: Need) -> Option<(&'static IntegerSpec, &'static Cell)> {
        match self {
            Self::Lstm if matches!(need, Need::Any) => {
                const {
                    let cell = Cell::integer(&lstm::SPEC, &lstm::integer::RARE_SPEC, lstm::integer::step_any::<K>);
                    Some((&lstm::integer::RARE_SPEC, &Cell { need: Need::Any, ..cell }))
                }
            }
            Self::Lstm if matches!(need, Need::More) => {
                const { Some((&lstm::integer::SPEC, &Cell::usual(&lstm::SPEC, lstm::integer::step_projected::<K>))) }
            }
            Self::Lstm => const { Some((&lstm::integer::SPEC, &Cell::usual(&lstm::SPEC, lstm::integer::step::<K>))) },
            Self::Elman => {
                const { Some((&elman::integer::SPEC, &Cell::usual(&elman::SPEC, elman::integer::step::<K>))) }
            }
            Self::Gru if matches!(need, Need::Any) => {
                const { Some((&gru::integer::SPEC, &Cell::usual(&gru::SPEC, gru::integer::step_any::<K>))) }
            }
            Self::Gru => const { Some((&gru::integer::SPEC, &Cell::usual(&gru::SPEC, gru::integer::step::<K>))) },
            Self::Dense => {
                const { Some((&dense::integer::SPEC, &Cell::usual(&dense::SPEC, dense::integer::step::<K>))) }
            }
            Self::Softmax => {
                const { Some((&softmax::integer::SPEC, &Cell::usual(&softmax::SPEC, softmax::integer::step))) }
            }
            Self::Conv => {
                const {
                    Some((
                        &conv::integer::SPEC,
                        &Cell::integer(&conv::SPEC, &conv::integer::SPEC, conv::integer::step::<K>),
                    ))
                }
            }
            Self::DepthwiseConv => {
                const {
                    Some((
                        &depthwise_conv::integer::SPEC,
                        &Cell::integer(
                            &depthwise_conv::SPEC,
                            &depthwise_conv::integer::SPEC,
                            depthwise_conv::integer::step::<K>,
                        ),
                    ))
                }
            }
            Self::Embedding => {
                const {
                    Some((
                        &embedding::integer::SPEC,
                        &Cell::integer(&embedding::SPEC, &embedding::integer::SPEC, embedding::integer::step),
                    ))
                }
            }
            Self::Activation => {
                const {
                    Some((
                        &activation::integer::SPEC,
                        &Cell::integer(&activation::SPEC, &activation::integer::SPEC, activation::integer::step),
                    ))
                }
            }
            Self::Scale => {
                const {
                    Some((
                        &scale::integer::SPEC,
                        &Cell::integer(&scale::SPEC, &scale::integer::SPEC, scale::integer::step),
                    ))
                }
            }
            Self::Pool => {
                const { Some((&pool::integer::SPEC, &Cell::integer(&pool::SPEC, &pool::integer::SPEC, pool::integer::step))) }
            }
            Self::Window => {
                const {
                    Some((
                        &window::INTEGER,
                        &Cell::integer_buffered(&window::SPEC, &window::INTEGER, window::step::<i16>),
                    ))
                }
            }
            Self::Merge => {
                const {
                    Some((
                        &merge::integer::SPEC,
                        &Cell::integer(&merge::SPEC, &merge::integer::SPEC, merge::integer::step),
                    ))
                }
            }
            Self::Identity if matches!(need, Need::Any) => {
                const {
                    Some((
                        &identity::integer::SPEC,
                        &Cell::integer(&identity::SPEC, &identity::integer::SPEC, identity::integer::step),
                    ))
                }
            }
            Self::Identity => {
                const {
                    Some((
                        &identity::integer::SPEC,
                        &Cell::integer(&identity::SPEC, &identity::integer::SPEC, identity::step::<i16>),
                    ))
                }
            }
            Self::Last => {
                const { Some((&last::INTEGER, &Cell::integer(&last::SPEC, &last::INTEGER, last::step::<i16>))) }
            }
            Self::Repeat => {
                const {
                    Some((
                        &repeat::INTEGER,
                        &Cell::integer_buffered(&repeat::SPEC, &repeat::INTEGER, repeat::step::<i16>),
                    ))
                }
            }
            Self::FastRnn => {
                const {
                    Some((
                        &fast_rnn::integer::SPEC,
                        &Cell::integer(&fast_rnn::SPEC, &fast_rnn::integer::SPEC, fast_rnn::integer::step::<K>),
                    ))
                }
            }
            Self::FastGrnn => {
                const {
                    Some((
                        &fast_grnn::integer::SPEC,
                        &Cell::integer(&fast_grnn::SPEC, &fast_grnn::integer::SPEC, fast_grnn::integer::step::<K>),
                    ))
                }
            }
            Self::MinGru => {
                const {
                    Some((
                        &min_gru::integer::SPEC,
                        &Cell::integer(&min_gru::SPEC, &min_gru::integer::SPEC, min_gru::integer::step::<K>),
                    ))
                }
            }
            _ => None,
        }
    }

    /// What is other of this kind in the numeric `i8`, and what it does there with weights that a kernel reads; none if it has
    /// no such form.
    const fn byte<K: Kernel>(self) -> Option<(&'static IntegerSpec, &'static Cell)> {
        match self {
            Self::Lstm => {
                const { Some((&byte::lstm::SPEC, &Cell::integer(&lstm::SPEC, &byte::lstm::SPEC, byte::lstm::step::<K>))) }
            }
            Self::Dense => {
                const { Some((&byte::dense::SPEC, &Cell::integer(&dense::SPEC, &byte::dense::SPEC, byte::dense::step::<K>))) }
            }
            Self::Softmax => {
                const {
                    Some((
                        &byte::softmax::SPEC,
                        &Cell::integer(&softmax::SPEC, &byte::softmax::SPEC, byte::softmax::step),
                    ))
                }
            }
            Self::Conv => {
                const { Some((&byte::conv::SPEC, &Cell::integer(&conv::SPEC, &byte::conv::SPEC, byte::conv::step::<K>))) }
            }
            Self::Activation => {
                const {
                    Some((
                        &byte::identity::SPEC,
                        &Cell::integer(&activation::SPEC, &byte::identity::SPEC, byte::identity::step),
                    ))
                }
            }
            Self::Identity => {
                const {
                    Some((
                        &byte::identity::SPEC,
                        &Cell::integer(&identity::SPEC, &byte::identity::SPEC, byte::identity::step),
                    ))
                }
            }
            // What only moves values.
            Self::Window | Self::Last | Self::Repeat => self.integer::<K>(Need::Usual),
            _ => None,
        }
    }

    /// What it does in the numeric `i8`; none if it has no such form.
    pub(crate) const fn byte_cell<K: Kernel>(self) -> Option<&'static Cell> {
        match self.byte::<K>() {
            Some((_, cell)) => Some(cell),
            None => None,
        }
    }

    /// What is other in the numeric `i8`; none if it has no such form.
    pub const fn byte_spec(self) -> Option<&'static IntegerSpec> {
        self.integer_spec_of(0, Numeric::I8)
    }

    /// What it does in the integer numerics; none if it has no integer form.
    pub(crate) const fn integer_cell<K: Kernel>(self, need: Need) -> Option<&'static Cell> {
        match self.integer::<K>(need) {
            Some((_, cell)) => Some(cell),
            None => None,
        }
    }

    /// What is other in the integer numerics but `i8`; none if it has no integer form.
    pub const fn integer_spec(self) -> Option<&'static IntegerSpec> {
        self.integer_spec_of(0, Numeric::I8x16)
    }

    /// The same of a node with these options; none in a float numeric.
    pub(crate) const fn integer_spec_of(self, options: u32, numeric: Numeric) -> Option<&'static IntegerSpec> {
        if !numeric.is_integer() {
            return None;
        }
        let found = match numeric {
            Numeric::I8 => self.byte::<kernel::Portable>(),
            _ => self.integer::<kernel::Portable>(self.need(options, numeric)),
        };
        match found {
            Some((spec, _)) => Some(spec),
            None => None,
        }
    }

    /// Which of its kind's steps a node with these options needs.
    const fn need(self, options: u32, numeric: Numeric) -> Need {
        if matches!(numeric, Numeric::I8) {
            return Need::Usual;
        }
        let (more, any) = match (self, numeric.is_integer()) {
            (Self::Lstm, true) => (1 << lstm::PROJECTION, lstm::integer::RARE),
            (Self::Lstm, false) => (0, lstm::IN_PASSES),
            (Self::Gru, true) => (0, gru::integer::RARE),
            (Self::Gru, false) => (0, 1 << gru::CLIPPED),
            (Self::Elman, false) => (0, 1 << elman::CLIPPED),
            (Self::Identity, true) => (0, identity::integer::RARE),
            _ => (0, 0),
        };
        match (options & more != 0, options & any != 0) {
            (_, true) => Need::Any,
            (true, false) => Need::More,
            (false, false) => Need::Usual,
        }
    }

    /// What is known about this kind.
    pub const fn spec(self) -> &'static CellSpec {
        self.cell::<f32>(Need::Usual).0
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
        self.cell::<f32>(Need::Usual).1.is_buffered()
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
