//! How a packer quantizes the nodes of a kind, as data beside the kind's integer form. Firmware does not contain it.

use crate::gate::Gate;

/// The rules by which a packer chooses the scales and the numbers of an integer form.
#[derive(Debug)]
pub struct Quantization {
    /// The values that a node reads.
    pub reads: Reads,
    /// The scale of the output: the first entry whose options (a bit mask, 0 for any options) the node has.
    pub output: &'static [(u32, OutputScale)],
    /// The lower bound of a measured output scale.
    pub least_output: LeastScale,
    /// The role of each activation, in the order of [`CellSpec::activations`](super::CellSpec::activations).
    pub activations: &'static [Role],
    /// The candidate, if the range of the output does not bound it.
    pub candidate: Option<Candidate>,
    /// The options (a bit mask) with which the argument of an activation is a sum of rows and nothing else, so that the
    /// weights bound it. `None` if other terms are always added.
    pub summed: Option<u32>,
    /// The options (a bit mask) that a node may have if its sums keep 32 bits up to the activation, so that more fraction
    /// bits do not limit their range. `None` if sums are always limited to 16 bits.
    pub wide_sums: Option<u32>,
    /// The sum over the previous output that a step limits to [`CARRIED_BITS`](crate::quant::CARRIED_BITS) and then
    /// multiplies by a gate: the option (a bit mask) of the nodes that do this, and the gate to which the rows of the sum
    /// belong. `None` if no sum is multiplied.
    pub multiplied: Option<(u32, Gate)>,
    /// The numbers that only this kind has.
    pub numbers: Numbers,
    /// Params that may not exceed a limit in integers.
    pub limits: &'static [(&'static str, f32)],
}

impl Quantization {
    /// A kind whose output has the scale of its input.
    pub const MOVE: Self = Self {
        reads: Reads::Values,
        output: &[(0, OutputScale::Input)],
        least_output: LeastScale::Weights,
        activations: &[],
        candidate: None,
        summed: None,
        wide_sums: None,
        multiplied: None,
        numbers: Numbers::Common,
        limits: &[],
    };

    /// A layer of sums of rows, each with one activation.
    pub const LAYER: Self = Self {
        output: &[(0, OutputScale::Activation(0))],
        activations: &[Role::Output],
        summed: Some(0),
        wide_sums: Some(0),
        ..Self::MOVE
    };

    /// A layer of the numeric `i8` whose activation is given by limits. Its scales come with the model.
    pub const LIMITS: Self = Self { activations: &[Role::Limits], ..Self::MOVE };

    /// These rules where models are packed: on a host, and in WebAssembly with the feature `packer`. Otherwise `None`.
    pub const fn on_host(&'static self) -> Option<&'static Self> {
        const PACKS: bool = cfg!(any(feature = "packer", not(any(target_os = "none", target_family = "wasm"))));
        if PACKS { Some(self) } else { None }
    }
}

/// The values that a node reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Values that share one scale: the packer converts those that have another one.
    Values,
    /// A value for each part, each with its own scale.
    Parts,
    /// An index.
    Index,
}

/// The scale of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputScale {
    /// 2^-15, for an output between -1 and 1.
    Q15,
    /// From the calibrated range.
    Measured,
    /// A power of two from the calibrated ranges of the output and of the candidate.
    PowerOfTwo,
    /// 2^-15 if the activation of this index is bounded, otherwise measured.
    Activation(usize),
    /// The scale of the input if the activation keeps its unit, 2^-15 if it is a built-in curve, otherwise measured.
    Applied,
    /// The scale of the input.
    Input,
    /// The coarsest scale among the parts of the input.
    Coarsest,
    /// 2^-`memory_bits`; the ranges of an LSTM determine `memory_bits`.
    Memory,
    /// From the calibrated range, coarse enough for the shares of [`Numbers::Shares`].
    Shares,
}

/// The lower bound of a measured output scale. Sums are requantized to less than half the unit of their finest part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeastScale {
    /// The greatest weight times the scale of the input.
    Weights,
    /// As [`Weights`](Self::Weights). In addition the candidate, computed from the rows of this gate, must fit: its scale is
    /// that of the output.
    Candidate(Gate),
    /// The greatest weight of the projection times the scale of the memory.
    Projection,
    /// The multipliers of the parts, and their sum, fit 32 bits.
    Parts,
    /// The multipliers and addends of the channels fit 32 bits.
    Channels,
    /// The multipliers and addends of normalized values fit 32 bits.
    Normalized,
}

/// The role of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A gate: between 0 and 1, with 15 fraction bits.
    Gate,
    /// The activation of an output: its value is the output.
    Output,
    /// A candidate in the scale of the output.
    Candidate,
    /// A candidate whose fraction bits are the sum of these numbers.
    CandidateBits(&'static [&'static str]),
    /// A candidate that is multiplied by a share before it is added.
    Weighed,
    /// The activation of an LSTM's cell state; this number has its fraction bits.
    Shown(&'static str),
    /// Applied to the input itself.
    Applied,
    /// In the numeric `i8`: given by the limits among the numbers.
    Limits,
}

/// A candidate whose range is not visible in any value of the model, because a gate may suppress it.
#[derive(Debug)]
pub struct Candidate {
    /// The index of its activation; `None` if the cell has a fixed one that grows.
    pub activation: Option<usize>,
    /// The changes to a node after which its output, or its cell state, is the candidate.
    pub alone: &'static [Alone],
}

/// A change to a node that isolates its candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Alone {
    /// The gates have the first constant value, or the second one if the node has an option of the mask.
    Gates(f32, u32, f32),
    /// This gate has no weights and this bias.
    Bias(Gate, f32),
    /// The param has this value.
    Param(&'static str, f32),
    /// The param is absent.
    WithoutParam(&'static str),
    /// The option is off.
    WithoutOption(&'static str),
    /// The tensor is absent.
    WithoutTensor(&'static str),
}

/// The numbers that only some kinds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// None.
    Common,
    /// `hidden_bits`, the fraction bits of the output.
    OutputBits,
    /// `multiplier`, from the scale of the input to that of the output.
    Rescaled,
    /// `multiplier`, from the scale of the input to an index.
    Indexed,
    /// `multiplier` and `lift`, from the scale of the input to powers of two.
    Exponents,
    /// `preact_bits`, `table_shift` and `multiplier` for an activation of the input.
    Applied,
    /// Fraction bits, clips and norms of an LSTM.
    Memory,
    /// `epsilon` and `epsilon_bits`, in the squared scale of the input. Multipliers convert normalized values.
    Normalized,
    /// The shares of a candidate.
    Shares {
        /// The index of the candidate's activation.
        candidate: usize,
        /// The params that multiply it, which are numbers too.
        params: &'static [&'static str],
        /// The number that holds the fraction bits of the products beyond 15.
        shift: &'static str,
    },
}
