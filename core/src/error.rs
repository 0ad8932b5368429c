//! Errors that several modules share.

use core::fmt;

/// A buffer of the caller is too short. Lengths are in elements of the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BufferTooSmall {
    /// The required length.
    pub needed: usize,
    /// The given length.
    pub given: usize,
}

impl fmt::Display for BufferTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needed, given } = self;
        write!(f, "the buffer has {given} elements, but {needed} are needed")
    }
}

impl core::error::Error for BufferTooSmall {}

/// A model has too many different cells for a [`Family`](crate::Family).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TooManyCells {
    /// The largest number of different cells, counted by kind and options.
    pub most: usize,
}

impl fmt::Display for TooManyCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model has more than {} different cells", self.most)
    }
}

impl core::error::Error for TooManyCells {}

/// An input or output has the wrong number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WrongLength {
    /// The required length.
    pub expected: usize,
    /// The given length.
    pub given: usize,
}

impl fmt::Display for WrongLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, given } = self;
        write!(f, "{given} elements given, but {expected} expected")
    }
}

impl core::error::Error for WrongLength {}

/// Why a step or a sequence did not run. State and outputs are unchanged, except after
/// [`ImageChanged`](Self::ImageChanged).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum StepError {
    /// The state belongs to another model, or to another schedule of this model.
    OtherState,
    /// The model computes in floats and has no integer ports.
    FloatModel,
    /// The model has no f32 conversion at its ports, because of [`Model::integers_only`](crate::Model::integers_only).
    IntegersOnly,
    /// The scratch is shorter than [`Model::scratch_words`](crate::Model::scratch_words).
    Scratch(BufferTooSmall),
    /// The number of inputs is wrong.
    Inputs(PortCount),
    /// The number of outputs is wrong.
    Outputs(PortCount),
    /// An input has the wrong length.
    Input(ShapeError),
    /// An output has the wrong length.
    Output(ShapeError),
    /// The number of lengths is not the number of sequences.
    Lens(WrongLength),
    /// The length given for the sequence with this index exceeds its number of steps.
    #[expect(missing_docs, reason = "the line above says what the fields hold")]
    Len { sequence: usize, steps: usize, given: usize },
    /// The number of reset flags is not the number of steps.
    Resets(WrongLength),
    /// The scratch belongs to another model. Only backends whose scratch depends on the model return this error.
    OtherScratch,
    /// The bytes of the image have changed since it was parsed, for example because its flash was erased: a node or a
    /// port is no longer valid, and the step ended there. State and outputs are unspecified. Changes that leave the
    /// step possible, such as other weights, are not detected.
    ImageChanged,
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OtherState => write!(f, "the state belongs to another model or schedule"),
            Self::IntegersOnly => write!(f, "the model has integer ports only: run it with step_i16"),
            Self::FloatModel => write!(f, "the model has a float numeric: run it with step_f32"),
            Self::Scratch(BufferTooSmall { needed, given }) => {
                write!(f, "the memory has {given} words, but the model needs {needed}")
            }
            Self::Inputs(PortCount { needed, given }) => write!(f, "{given} inputs given, but the model has {needed}"),
            Self::Outputs(PortCount { needed, given }) => {
                write!(f, "{given} outputs given, but the model has {needed}")
            }
            Self::Input(ShapeError { port, needed, given }) => {
                write!(f, "input {port} has {needed} elements, not {given}")
            }
            Self::Output(ShapeError { port, needed, given }) => {
                write!(f, "output {port} has {needed} elements, not {given}")
            }
            Self::Lens(WrongLength { expected, given }) => write!(f, "{given} lengths given for {expected} sequences"),
            Self::Len { sequence, steps, given } => {
                write!(f, "sequence {sequence} has {steps} steps, but the given length is {given}")
            }
            Self::Resets(WrongLength { expected, given }) => {
                write!(f, "{given} reset flags given for {expected} steps")
            }
            Self::OtherScratch => write!(f, "the scratch belongs to another model"),
            Self::ImageChanged => write!(f, "the image has changed since it was parsed: parse it again"),
        }
    }
}

impl core::error::Error for StepError {}

/// Too little memory for a state or a step: [`StepError::Scratch`].
impl From<BufferTooSmall> for StepError {
    fn from(error: BufferTooSmall) -> Self {
        Self::Scratch(error)
    }
}

/// The number of inputs or outputs is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PortCount {
    /// The number of ports that the model has.
    pub needed: usize,
    /// The number of slices given.
    pub given: usize,
}

/// An input or output has the wrong length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ShapeError {
    /// Index of the input or output.
    pub port: usize,
    /// The required number of elements.
    pub needed: usize,
    /// The given number of elements.
    pub given: usize,
}

impl fmt::Display for PortCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slices for {} ports", self.given, self.needed)
    }
}

impl core::error::Error for PortCount {}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, needed, given } = self;
        write!(f, "{given} elements given for port {port}, which needs {needed}")
    }
}

impl core::error::Error for ShapeError {}
