//! What is known about a cell kind apart from its equations, as data: sizes, rules, states, options, tensors. Image
//! checks, state sizes, the packer, the docs and the tests read it.

use crate::activation::Activation;
use crate::curve::{BITS, LEAST_BITS, MAX_TABLE_SHIFT, PREACT_BITS, TABLE_LEN};
use crate::gate::Gate;

/// All that is known about a cell kind apart from its equations.
#[derive(Debug)]
pub struct CellSpec {
    /// Its name in canonical models.
    pub name: &'static str,
    /// The row blocks of its canonical weights, in order; empty for a kind without gates.
    pub gates: &'static [Gate],
    /// Whole numbers beyond its three sizes: ranks, groups, the shapes of kernels and images.
    pub extents: &'static [ExtentSpec],
    /// How sizes and extents relate.
    pub rules: &'static [Rule],
    /// What it remembers from one step to the next, in the order of the state's words.
    pub states: &'static [StateSpec],
    /// Scratch of its own during one step: the sum of these.
    pub work: &'static [Dim],
    /// Flags; an image stores flag `k` as bit `k`.
    pub options: &'static [&'static str],
    /// Numbers; 0.0 where the canonical model does not give one.
    pub params: &'static [ParamSpec],
    /// The activations that it applies, with their defaults.
    pub activations: &'static [ActivationSpec],
    /// Tensors of the canonical model.
    pub canonical: &'static [CanonicalSpec],
    /// Tensors of the image, in the order of the node record.
    pub tensors: &'static [TensorSpec],
}

/// A size of a node, or what follows from its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Features that come in.
    Input,
    /// Units.
    Hidden,
    /// Features that go out.
    Output,
    /// The extent of this index.
    Extent(usize),
    /// This number.
    Const(usize),
    /// Their product.
    Product(&'static [Dim]),
    /// Their sum.
    Sum(&'static [Dim]),
    /// The first by the second, rounded down; a [`Rule::Multiple`] says where it must be exact.
    Quotient(&'static [Dim; 2]),
    /// It where the option of this index is set, else 0.
    When(u32, &'static Dim),
    /// It where the option of this index is not set, else 0.
    Unless(u32, &'static Dim),
}

/// How two dimensions relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// They are equal.
    Equal(Dim, Dim),
    /// They are equal where the option of this index is not set.
    EqualUnless(u32, Dim, Dim),
    /// The first is not greater than the second.
    AtMost(Dim, Dim),
    /// The first is a multiple of the second.
    Multiple(Dim, Dim),
    /// Exactly one of these options is set, or none: `least` of them at least.
    OneOf {
        /// Indices of the options.
        options: &'static [u32],
        /// 0 or 1.
        least: u32,
    },
    /// A kernel that moves over an axis: `output = (before + input + after - dilation · (kernel - 1) - 1) / stride + 1`,
    /// rounded down.
    Convolved {
        /// Length of the axis.
        input: Dim,
        /// Taps of the kernel.
        kernel: Dim,
        /// From one position of the kernel to the next.
        stride: Dim,
        /// From one tap to the next.
        dilation: Dim,
        /// Zeros before the axis.
        before: Dim,
        /// Zeros behind it.
        after: Dim,
        /// Positions of the kernel.
        output: Dim,
    },
}

/// Output is the hidden state.
pub const RECURRENT: Rule = Rule::Equal(Dim::Hidden, Dim::Output);

/// A whole number of a node beyond its three sizes.
#[derive(Clone, Copy, Debug)]
pub struct ExtentSpec {
    /// Its name in a canonical model.
    pub name: &'static str,
    /// What it is when the canonical model does not say.
    pub default: u32,
    /// The least that it can be.
    pub least: u32,
}

impl ExtentSpec {
    /// At least 1, and 1 by default.
    pub const fn one(name: &'static str) -> Self {
        Self { name, default: 1, least: 1 }
    }

    /// At least 0, and 0 by default.
    pub const fn zero(name: &'static str) -> Self {
        Self { name, default: 0, least: 0 }
    }
}

/// A vector that a cell carries from step to step.
#[derive(Debug)]
pub struct StateSpec {
    /// `hidden`, `cell_state`, ...
    pub name: &'static str,
    /// Its length.
    pub len: Dim,
}

/// A number of a cell: finite, and not negative.
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
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
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
    /// How often one step goes through it: the positions of a kernel, the turns of a solver.
    pub passes: Dim,
    /// How its elements are stored.
    pub storage: Storage,
}

/// How the elements of a tensor of an image are stored, and in the integer numerics what their units are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A matrix of the numeric's weights, whose columns are multiplied with something in this unit.
    Weights(Unit),
    /// f32.
    F32,
    /// The [`RowBlock`](crate::quant::RowBlock)s of matrices of this spec, by their indices, whose sums they bring to a
    /// unit. The canonical tensors are the biases.
    Rows {
        /// Multiplied with the input.
        input: usize,
        /// Multiplied with what is carried, and the index of the number that says whether its sum is the finer one; none
        /// where there is no such matrix.
        recurrent: Option<(usize, usize)>,
        /// What comes out, of each gate of the tensor in turn, or of all.
        to: &'static [Unit],
    },
    /// i16: a value, by which something is multiplied and shifted right by a number of the node.
    Factors {
        /// The index of that number.
        shift: usize,
        /// What is multiplied.
        from: Unit,
        /// What comes out.
        to: Unit,
    },
    /// i32: what is added to a sum, of each gate of the tensor in turn, or of all.
    Terms(&'static [Unit]),
    /// i32: what a [normalized](crate::integer_norm) value is multiplied with over 2^32, of each gate of the tensor in
    /// turn, or of all: to these units.
    Gains(&'static [Unit]),
    /// i16: an activation, tabulated over 2 · 256 steps.
    Curve,
    /// i32: a multiplier over 2^24, which brings what it is of, the canonical tensor or else 1, to the unit of the output.
    Multipliers,
    /// i32: added to what has been multiplied so, in the unit of the output with 8 fraction bits.
    Addends,
    /// The [`RowBlock`](crate::quant::RowBlock)s of the matrix of this index in the numeric `i8`: what sums start from, and
    /// the factors and powers of two, each a signed byte, of their requantization. The canonical tensors are the biases.
    Requantized {
        /// The matrix.
        of: usize,
    },
    /// i32: what the sums over the matrix of this index start from in the numeric `i8`.
    Starts {
        /// The matrix.
        of: usize,
    },
}

/// What an integer of a node counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The scale of what comes in.
    Input,
    /// The scale of what goes out.
    Output,
    /// 2^-15.
    Q15,
    /// 2 to the minus a number of the node, by its index.
    Bits(usize),
    /// What an activation is applied to: what comes out of it if that is the identity or ReLU, else as many fraction
    /// bits as a number of the node says.
    Before {
        /// The index of the activation.
        activation: usize,
        /// The index of that number.
        bits: usize,
        /// What comes out.
        after: &'static Unit,
    },
    /// One or the other.
    When {
        /// The index of the option that says which.
        option: u32,
        /// Where it is set.
        with: &'static Unit,
        /// Where it is not.
        without: &'static Unit,
    },
}

/// What a kind is in the integer numerics, where that is not as in the float ones.
#[derive(Debug)]
pub struct IntegerSpec {
    /// The options that it has, with [`OTHER`] and the bits from [`CURVE`] on.
    pub options: u32,
    /// How sizes and extents relate, beyond the rules of the kind.
    pub rules: &'static [Rule],
    /// Whole numbers in place of the kind's numbers.
    pub numbers: &'static [NumberSpec],
    /// Scratch of its own during one step, in i16: the sum of these.
    pub work: &'static [Dim],
    /// Tensors of the image, in the order of the node record.
    pub tensors: &'static [TensorSpec],
}

impl IntegerSpec {
    /// Of a kind that only moves values, with these options.
    pub const fn moving(options: u32, rules: &'static [Rule]) -> Self {
        Self { options, rules, numbers: &[], work: &[], tensors: &[] }
    }
}

/// The option of an integer node that says that an activation of it is not its default, or a number not its usual one.
pub const OTHER: u32 = 23;
/// The option of an integer node that says that its first activation is tabulated; those of the others follow.
pub const CURVE: u32 = 24;

/// A whole number of a node in the integer numerics.
#[derive(Debug)]
pub struct NumberSpec {
    /// Its name, for reports.
    pub name: &'static str,
    /// The least that it can be.
    pub least: i32,
    /// The greatest.
    pub most: i32,
    /// What it is without [`OTHER`]; none: anything.
    pub usual: Option<i32>,
}

impl NumberSpec {
    /// How many fraction bits what activations take has.
    pub const PREACT_BITS: Self =
        Self { name: "preact_bits", least: LEAST_BITS, most: *BITS.end(), usual: Some(PREACT_BITS as i32) };

    /// From 0 on.
    pub const fn up_to(name: &'static str, most: i32) -> Self {
        Self { name, least: 0, most, usual: None }
    }

    /// Whether the sums over what is carried are the finer ones of a tensor of rows.
    pub const fn recurrent_first(name: &'static str) -> Self {
        Self::up_to(name, 1)
    }

    /// The width of the steps of a tabulated activation.
    pub const fn table_shift(name: &'static str) -> Self {
        Self::up_to(name, MAX_TABLE_SHIFT)
    }
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
        let (presence, passes) = (Presence::Always, Dim::Const(1));
        let storage = Storage::Weights(Unit::Input);
        Self { name, from, gates: &[], rows, cols: Some(cols), presence, passes, storage }
    }

    /// A vector without gates that is always there.
    pub const fn vector(name: &'static str, from: &'static [&'static str], rows: Dim) -> Self {
        let (presence, passes) = (Presence::Always, Dim::Const(1));
        Self { name, from, gates: &[], rows, cols: None, presence, passes, storage: Storage::F32 }
    }

    /// The table of the activation of this index.
    pub const fn table(name: &'static str, activation: u32) -> Self {
        let table = Self::vector(name, &[], Dim::Const(TABLE_LEN));
        table.when(Presence::With(CURVE + activation)).stored(Storage::Curve)
    }

    /// The same, stored so.
    pub const fn stored(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// The same, taking the row blocks of `gates`.
    pub const fn gates(self, gates: &'static [Gate]) -> Self {
        Self { gates, ..self }
    }

    /// The same, there when `presence` says.
    pub const fn when(self, presence: Presence) -> Self {
        Self { presence, ..self }
    }

    /// The same, gone through so often in a step.
    pub const fn passes(self, passes: Dim) -> Self {
        Self { passes, ..self }
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
    /// Exactly when neither the option of the first index is set nor that of the second.
    Neither(u32, u32),
    /// Exactly when the option of the first index is set and that of the second is not.
    WithWithout(u32, u32),
}

impl Presence {
    /// Whether a node with these option bits must have the tensor.
    pub const fn required(self, options: u32) -> bool {
        match self {
            Self::Always => true,
            Self::Optional => false,
            Self::With(option) => options >> option & 1 == 1,
            Self::Without(option) => options >> option & 1 == 0,
            Self::Neither(a, b) => options >> a & 1 == 0 && options >> b & 1 == 0,
            Self::WithWithout(with, without) => options >> with & 1 == 1 && options >> without & 1 == 0,
        }
    }

    /// Whether a node with these option bits may have it.
    pub const fn allowed(self, options: u32) -> bool {
        matches!(self, Self::Optional) || self.required(options)
    }
}

/// The sizes of one node: what its dimensions are worth.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'a> {
    /// Features in.
    pub input: usize,
    /// Units.
    pub hidden: usize,
    /// Features out.
    pub output: usize,
    /// Bit `k`: option `k` of the spec.
    pub options: u32,
    /// As the spec lists them, little-endian.
    pub extents: &'a [[u8; 4]],
}

impl Sizes<'_> {
    /// Extent `index`; 0 where there is none.
    pub const fn extent(&self, index: usize) -> usize {
        match self.extents.split_at_checked(index) {
            Some((_, [bytes, ..])) => u32::from_le_bytes(*bytes) as usize,
            _ => 0,
        }
    }

    /// What a dimension is worth; `None` if it leaves the range of `usize`, or divides by zero.
    #[inline(always)]
    pub const fn dim(&self, dim: &Dim) -> Option<usize> {
        // Most are one of these, and a step asks for some.
        match dim {
            Dim::Input => Some(self.input),
            Dim::Hidden => Some(self.hidden),
            Dim::Output => Some(self.output),
            _ => self.other(dim),
        }
    }

    const fn other(&self, dim: &Dim) -> Option<usize> {
        match dim {
            Dim::Input | Dim::Hidden | Dim::Output => None,
            Dim::Extent(index) => Some(self.extent(*index)),
            Dim::Const(value) => Some(*value),
            Dim::Product(dims) => self.fold(dims, 1, true),
            Dim::Sum(dims) => self.fold(dims, 0, false),
            Dim::Quotient([dividend, divisor]) => match (self.dim(dividend), self.dim(divisor)) {
                (Some(dividend), Some(divisor)) => dividend.checked_div(divisor),
                _ => None,
            },
            Dim::When(option, dim) => {
                if self.options >> *option & 1 == 1 {
                    self.dim(dim)
                } else {
                    Some(0)
                }
            }
            Dim::Unless(option, dim) => {
                if self.options >> *option & 1 == 0 {
                    self.dim(dim)
                } else {
                    Some(0)
                }
            }
        }
    }

    /// The sum of dimensions.
    pub const fn sum(&self, dims: &[Dim]) -> Option<usize> {
        self.fold(dims, 0, false)
    }

    const fn fold(&self, dims: &[Dim], start: usize, multiply: bool) -> Option<usize> {
        let (mut rest, mut total) = (dims, start);
        while let [dim, others @ ..] = rest {
            let Some(value) = self.dim(dim) else { return None };
            let next = if multiply { total.checked_mul(value) } else { total.checked_add(value) };
            let Some(next) = next else { return None };
            total = next;
            rest = others;
        }
        Some(total)
    }

    /// Whether a rule holds.
    pub const fn holds(&self, rule: &Rule) -> bool {
        match rule {
            Rule::Equal(a, b) => match (self.dim(a), self.dim(b)) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            },
            Rule::EqualUnless(option, a, b) => self.options >> *option & 1 == 1 || self.holds(&Rule::Equal(*a, *b)),
            Rule::AtMost(a, b) => match (self.dim(a), self.dim(b)) {
                (Some(a), Some(b)) => a <= b,
                _ => false,
            },
            Rule::Multiple(a, b) => match (self.dim(a), self.dim(b)) {
                (Some(a), Some(b)) => a.is_multiple_of(b),
                _ => false,
            },
            Rule::OneOf { options, least } => {
                let (mut rest, mut set) = (*options, 0);
                while let [option, others @ ..] = rest {
                    set += self.options >> *option & 1;
                    rest = others;
                }
                set >= *least && set <= 1
            }
            Rule::Convolved { input, kernel, stride, dilation, before, after, output } => {
                let (Some(input), Some(kernel), Some(stride), Some(dilation)) =
                    (self.dim(input), self.dim(kernel), self.dim(stride), self.dim(dilation))
                else {
                    return false;
                };
                let (Some(before), Some(after), Some(output)) = (self.dim(before), self.dim(after), self.dim(output))
                else {
                    return false;
                };
                // Sizes and extents stay below 2^32, so that 64 bits hold every product.
                let reach = dilation as u64 * (kernel as u64).saturating_sub(1) + 1;
                let length = input as u64 + before as u64 + after as u64;
                match length.checked_sub(reach) {
                    Some(room) => stride > 0 && kernel > 0 && room / stride as u64 + 1 == output as u64,
                    None => false,
                }
            }
        }
    }

    /// The first rule of a spec that does not hold.
    pub const fn broken<'r>(&self, rules: &'r [Rule]) -> Option<&'r Rule> {
        let mut rest = rules;
        while let [rule, others @ ..] = rest {
            if !self.holds(rule) {
                return Some(rule);
            }
            rest = others;
        }
        None
    }
}
