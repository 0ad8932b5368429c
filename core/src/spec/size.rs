//! The sizes of a node as expressions: dimensions, the rules that relate them, and their values for one node.

/// A size of a node, or an expression of its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Number of input features.
    Input,
    /// Number of units.
    Hidden,
    /// Number of output features.
    Output,
    /// The extent with this index.
    Extent(usize),
    /// This number.
    Const(usize),
    /// A product.
    Product(&'static [Dim]),
    /// A sum.
    Sum(&'static [Dim]),
    /// The first divided by the second, rounded down. A [`Rule::Multiple`] specifies that the division must be exact.
    Quotient(&'static [Dim; 2]),
    /// The dimension if the option with this index is set, otherwise 0.
    When(u32, &'static Dim),
    /// The dimension if the option with this index is not set, otherwise 0.
    Unless(u32, &'static Dim),
}

/// A relation of dimensions or options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Both are equal.
    Equal(Dim, Dim),
    /// Both are equal unless the option with this index is set.
    EqualUnless(u32, Dim, Dim),
    /// The first is not greater than the second.
    AtMost(Dim, Dim),
    /// The first is a multiple of the second.
    Multiple(Dim, Dim),
    /// At most one of these options is set, and at least `least` of them.
    OneOf {
        /// Indices of the options.
        options: &'static [u32],
        /// 0 or 1.
        least: u32,
    },
    /// A kernel that moves along an axis: `output = (before + input + after - dilation · (kernel - 1) - 1) / stride +
    /// 1`, rounded down.
    Convolved {
        /// Length of the axis.
        input: Dim,
        /// Number of taps of the kernel.
        kernel: Dim,
        /// Distance from one position of the kernel to the next.
        stride: Dim,
        /// Distance from one tap to the next.
        dilation: Dim,
        /// Number of zeros before the axis.
        before: Dim,
        /// Number of zeros after the axis.
        after: Dim,
        /// Number of positions of the kernel.
        output: Dim,
    },
}

/// The output is the hidden state.
pub const RECURRENT: Rule = Rule::Equal(Dim::Hidden, Dim::Output);

/// The sizes of one node, for evaluating dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'a> {
    /// Number of input features.
    pub input: usize,
    /// Number of units.
    pub hidden: usize,
    /// Number of output features.
    pub output: usize,
    /// Bit `k`: option `k` of the spec.
    pub options: u32,
    /// The extents in the order of the spec, little-endian.
    pub extents: &'a [[u8; 4]],
}

impl Sizes<'_> {
    /// Extent `index`; 0 if there is none.
    pub const fn extent(&self, index: usize) -> usize {
        match self.extents.split_at_checked(index) {
            Some((_, [bytes, ..])) => u32::from_le_bytes(*bytes) as usize,
            _ => 0,
        }
    }

    /// The value of a dimension; `None` if it overflows `usize` or divides by zero.
    #[inline(always)]
    pub const fn dim(&self, dim: &Dim) -> Option<usize> {
        // Fast path for the dimensions that steps evaluate.
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
            Rule::Equal(a, b) => matches!((self.dim(a), self.dim(b)), (Some(a), Some(b)) if a == b),
            Rule::EqualUnless(option, a, b) => self.options >> *option & 1 == 1 || self.holds(&Rule::Equal(*a, *b)),
            Rule::AtMost(a, b) => matches!((self.dim(a), self.dim(b)), (Some(a), Some(b)) if a <= b),
            Rule::Multiple(a, b) => matches!((self.dim(a), self.dim(b)), (Some(a), Some(b)) if a.is_multiple_of(b)),
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
                // Sizes and extents are below 2^32, so 64 bits hold every product.
                let reach = dilation as u64 * (kernel as u64).saturating_sub(1) + 1;
                let length = input as u64 + before as u64 + after as u64;
                match length.checked_sub(reach) {
                    Some(room) => stride > 0 && kernel > 0 && room / stride as u64 + 1 == output as u64,
                    None => false,
                }
            }
        }
    }

    /// The first rule that does not hold.
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
