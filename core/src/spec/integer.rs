//! The integer form of a cell kind, as data: its options, whole numbers and tensors, and the unit of every integer.

use super::{CellSpec, Dim, Quantization, Rule, StateSpec, TensorSpec};
use crate::curve::{BITS, LEAST_BITS, OVER_OCTAVES, PREACT_BITS};

/// The storage of the elements of a tensor of an image, and in the integer numerics their units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A matrix of the numeric's weights. The operand of its columns has this unit.
    Weights(Unit),
    /// f32.
    F32,
    /// The [`RowBlock`](crate::quant::RowBlock)s of matrices of this spec, by their indices. They convert the sums to a
    /// unit. The canonical tensors are the biases.
    Rows {
        /// The matrix that multiplies the input.
        input: usize,
        /// The matrix that multiplies the state, and the index of the number that is nonzero if its sum has the finer
        /// unit. `None` if there is no such matrix.
        recurrent: Option<(usize, usize)>,
        /// The units of the results: one for each gate of the tensor, or one for all.
        to: &'static [Unit],
    },
    /// i16: factors. The product is shifted right by a number of the node.
    Factors {
        /// The index of that number.
        shift: usize,
        /// The unit of the operand.
        from: Unit,
        /// The unit of the result.
        to: Unit,
    },
    /// i16: for each unit, the fraction bits of its cell state beyond those of the node, from 0 to 15.
    Shifts,
    /// i32: terms that are added to a sum. Their units: one for each gate of the tensor, or one for all.
    Terms(&'static [Unit]),
    /// i32: gains over 2^32 of a normalized (`integer_norm`) value. The units of the results: one for each gate
    /// of the tensor, or one for all.
    Gains(&'static [Unit]),
    /// i16: a tabulated activation with 2 · 256 steps.
    Curve,
    /// i32: multipliers over 2^24 that convert to the unit of the output. They include the canonical tensor, if there
    /// is one.
    Multipliers,
    /// i32: terms that are added after such a multiplication, in the unit of the output with 8 fraction bits. In the
    /// numeric `i8`, terms that are added before the last requantization.
    Addends,
    /// The [`RowBlock`](crate::quant::RowBlock)s of the matrix of this index in the numeric `i8`: the starts of the
    /// sums, and the factors and powers of two (each a signed byte) of their requantization. The canonical tensors are
    /// the biases.
    Requantized {
        /// The matrix.
        of: usize,
    },
    /// i32: the starts of the sums over the matrix of this index in the numeric `i8`.
    Starts {
        /// The matrix.
        of: usize,
    },
    /// i8: weights of the numeric `i8`, in blocks of four rows, column by column in every layout.
    Taps,
    /// i16: values in the numeric `i8`, such as the entries of a table.
    Values,
    /// u16: positions in the input, in every numeric. A position beyond the input stands for 0.
    Index,
}

impl Storage {
    /// The rows of one matrix.
    pub const fn rows(input: usize, to: &'static [Unit]) -> Self {
        Self::Rows { input, recurrent: None, to }
    }

    /// The rows of two matrices; `first` is the number of the finer one.
    pub const fn rows_of_two(input: usize, recurrent: usize, first: usize, to: &'static [Unit]) -> Self {
        Self::Rows { input, recurrent: Some((recurrent, first)), to }
    }
}

/// The unit of an integer of a node: the real value of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The scale of the input.
    Input,
    /// The scale of the output.
    Output,
    /// 2^-15.
    Q15,
    /// 2^-b, where b is the number of the node with this index.
    Bits(usize),
    /// The unit of the argument of an activation: that of its result if the activation is the identity or ReLU,
    /// otherwise 2^-b, where b is a number of the node.
    Before {
        /// The index of the activation.
        activation: usize,
        /// The index of that number.
        bits: usize,
        /// The unit of the result.
        after: &'static Unit,
    },
    /// One of two units, depending on an option.
    When {
        /// The index of the option.
        option: u32,
        /// The unit if it is set.
        with: &'static Unit,
        /// The unit if it is not set.
        without: &'static Unit,
    },
}

/// The parts of a kind's integer form that differ from its float form.
#[derive(Debug)]
pub struct IntegerSpec {
    /// The options that the form supports, with [`OTHER`] and the bits from [`CURVE`] on.
    pub options: u32,
    /// Relations of sizes and extents, in addition to the rules of the kind.
    pub rules: &'static [Rule],
    /// The state, if it differs from the kind's. Lengths are in i16.
    pub states: Option<&'static [StateSpec]>,
    /// Whole numbers that replace the kind's parameters.
    pub numbers: &'static [NumberSpec],
    /// Scratch of the form during one step, in i16: the sum of these.
    pub work: &'static [Dim],
    /// Tensors of the image, in the order of the node record.
    pub tensors: &'static [TensorSpec],
    /// The rules by which a packer quantizes nodes of this kind; `None` in firmware.
    pub quantization: Option<&'static Quantization>,
}

impl IntegerSpec {
    /// An empty form. A spec replaces the fields that its form has.
    pub const EMPTY: Self =
        Self { options: 0, rules: &[], states: None, numbers: &[], work: &[], tensors: &[], quantization: None };

    /// The state of nodes of this form of a kind.
    pub const fn states_of(&self, kind: &CellSpec) -> &'static [StateSpec] {
        match self.states {
            Some(states) => states,
            None => kind.states,
        }
    }
}

/// The option of an integer LSTM whose units each have a scale of the cell state.
pub const UNIT_SCALES: u32 = 20;
/// The option of an integer node whose weights have twice as many bits. Each matrix has two planes with the same operand:
/// first the coarse plane, then the fine plane, whose sums are shifted right before they are added. A row over two
/// matrices is the sum of two rows, each over one matrix with a multiplier of its own: the tensor holds the blocks of the
/// rows over the input, then those over the state.
pub const WIDE: u32 = 21;
/// The option of an integer node that has an activation other than the default, or a number other than the usual one.
pub const OTHER: u32 = 23;
/// The option of an integer node whose first activation is tabulated; those of the other activations follow.
pub const CURVE: u32 = 24;

/// Whether the weights of a node with these options have two planes.
pub const fn is_wide(options: u32) -> bool {
    options & 1 << WIDE != 0
}

/// A whole number of a node in the integer numerics.
#[derive(Debug)]
pub struct NumberSpec {
    /// The name, for reports.
    pub name: &'static str,
    /// The least value.
    pub least: i32,
    /// The greatest value.
    pub most: i32,
    /// The value without [`OTHER`]; `None` if it may be any.
    pub usual: Option<i32>,
}

impl NumberSpec {
    /// Fraction bits of the arguments of activations.
    pub const PREACT_BITS: Self =
        Self { name: "preact_bits", least: LEAST_BITS, most: *BITS.end(), usual: Some(PREACT_BITS as i32) };

    /// The multiplier that converts an input to another unit.
    pub const MULTIPLIER: Self = Self { name: "multiplier", least: 1, most: i32::MAX, usual: None };

    /// A number from 0 to `most`.
    pub const fn up_to(name: &'static str, most: i32) -> Self {
        Self { name, least: 0, most, usual: None }
    }

    /// 1 if the sums over the state have the finer unit of a tensor of rows, otherwise 0.
    pub const fn recurrent_first(name: &'static str) -> Self {
        Self::up_to(name, 1)
    }

    /// The width of the steps of a tabulated activation as a power of two, or [`OVER_OCTAVES`].
    pub const fn table_shift(name: &'static str) -> Self {
        Self::up_to(name, OVER_OCTAVES as i32)
    }
}
