//! In which order the weights of a block of four rows lie: for the instructions that will read them. A layout permutes
//! weights, and never changes a bit of the result.

use super::Numeric;

/// Columns of a row that share a factor in the numeric `i4x16`.
pub const GROUP: usize = 32;
/// Bytes of a group of a block of four rows: its weights, and behind them a factor a row.
pub(crate) const GROUP_BYTES: usize = 4 * GROUP / 2 + 4;
/// What the weights of a group may be multiplied with: powers of two.
pub const MAX_FACTOR: u8 = 16;

/// In which order the weights lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Layout {
    /// Column by column: read by every build. Float numerics have no other, `i4x16` this and that of the Cortex-M4.
    Portable,
    /// The same, with 128 added to every weight: Thumb-1 has no signed byte load with an offset.
    CortexM0,
    /// Four columns of a row in a word, the second and the third exchanged: what SXTB16 takes apart. In `i4x16` eight, and
    /// 8 added to every weight: what a mask takes apart.
    CortexM4,
    /// Sixteen columns of a row side by side: a vector of Helium.
    CortexM55,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 4] = [Self::Portable, Self::CortexM0, Self::CortexM4, Self::CortexM55];

    /// Its code in an image.
    pub const fn code(self) -> u16 {
        match self {
            Self::Portable => 0,
            Self::CortexM0 => 1,
            Self::CortexM4 => 2,
            Self::CortexM55 => 3,
        }
    }

    /// The layout with this code.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Portable),
            1 => Some(Self::CortexM0),
            2 => Some(Self::CortexM4),
            3 => Some(Self::CortexM55),
            _ => None,
        }
    }

    /// Whether this build has the kernel that reads it: a host has all, firmware the portable one and its core's.
    pub const fn is_read(self) -> bool {
        const HOST: bool = cfg!(not(target_os = "none"));
        match self {
            Self::Portable => true,
            Self::CortexM0 => HOST || cfg!(all(target_arch = "arm", not(target_has_atomic = "32"))),
            Self::CortexM4 => HOST || cfg!(feature = "dsp"),
            Self::CortexM55 => HOST || cfg!(feature = "mve"),
        }
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::CortexM0 => "cortex-m0",
            Self::CortexM4 => "cortex-m4",
            Self::CortexM55 => "cortex-m55",
        }
    }

    /// Whether the weights of a numeric can lie so.
    pub const fn is_of(self, numeric: Numeric) -> bool {
        match (numeric, self) {
            (Numeric::F32 | Numeric::F16, Self::Portable) => true,
            (Numeric::F32 | Numeric::F16, Self::CortexM0 | Self::CortexM4 | Self::CortexM55) => false,
            (Numeric::I8x16 | Numeric::I8, _) | (Numeric::I4x16, Self::Portable | Self::CortexM4) => true,
            (Numeric::I4x16, Self::CortexM0 | Self::CortexM55) => false,
        }
    }

    /// The columns of a matrix are filled up to a multiple of this; what fills them up stands for zero.
    pub const fn columns(self, numeric: Numeric) -> usize {
        match (numeric, self) {
            (Numeric::F32 | Numeric::F16, _) | (Numeric::I8x16 | Numeric::I8, Self::Portable | Self::CortexM0) => 1,
            (Numeric::I8x16 | Numeric::I8, Self::CortexM4) => 4,
            (Numeric::I8x16 | Numeric::I8, Self::CortexM55) => 16,
            (Numeric::I4x16, Self::CortexM4) => 8,
            (Numeric::I4x16, _) => 2,
        }
    }

    /// Bytes of a block of four rows of so many columns; `None` if they are too many to count.
    pub const fn block_bytes(self, numeric: Numeric, cols: usize) -> Option<usize> {
        let Some(padded) = cols.checked_next_multiple_of(self.columns(numeric)) else { return None };
        match numeric {
            Numeric::F32 => padded.checked_mul(16),
            Numeric::F16 => padded.checked_mul(8),
            Numeric::I8x16 | Numeric::I8 => padded.checked_mul(4),
            Numeric::I4x16 => match padded.checked_mul(2) {
                Some(weights) => weights.checked_add(4 * cols.div_ceil(GROUP)),
                None => None,
            },
        }
    }

    /// Where the weight of a row, 0 to 3, and column lies in its block: in bytes, in `i4x16` in half bytes, the
    /// lower ones first.
    pub const fn place(self, numeric: Numeric, row: usize, col: usize) -> usize {
        match (numeric, self) {
            (Numeric::I4x16, Self::CortexM4) => {
                // Behind each group so far lie four factors.
                32 * (col / 8) + 8 * row + [0, 4, 1, 5, 2, 6, 3, 7][col % 8] + 8 * (col / GROUP)
            }
            (Numeric::I4x16, _) => 4 * col + row + 8 * (col / GROUP),
            (_, Self::Portable | Self::CortexM0) => 4 * col + row,
            (_, Self::CortexM4) => 16 * (col / 4) + 4 * row + [0, 2, 1, 3][col % 4],
            (_, Self::CortexM55) => 64 * (col / 16) + 16 * row + col % 16,
        }
    }

    /// A weight as its byte, or in `i4x16` as its half byte.
    pub const fn code_of(self, numeric: Numeric, weight: i8) -> u8 {
        match (numeric, self) {
            (Numeric::I4x16, Self::CortexM4) => (weight.cast_unsigned() & 15) ^ 8,
            (Numeric::I4x16, _) => weight.cast_unsigned() & 15,
            (_, Self::CortexM0) => weight.cast_unsigned() ^ 0x80,
            (_, Self::Portable | Self::CortexM4 | Self::CortexM55) => weight.cast_unsigned(),
        }
    }

    /// The weight of a row, 0 to 3, and column in a block; none where that is too short.
    pub(crate) fn weight(self, numeric: Numeric, block: &[u8], row: usize, col: usize) -> Option<i32> {
        let place = self.place(numeric, row, col);
        // What makes a weight a code makes it a weight again.
        let weight = |code: u8| self.code_of(numeric, code.cast_signed());
        if numeric != Numeric::I4x16 {
            return block.get(place).map(|&byte| weight(byte).cast_signed().into());
        }
        let code = block.get(place / 2)? >> (4 * (place % 2));
        let factor = block.get(factors_at(block.len(), col / GROUP) + row)?;
        Some(i32::from((weight(code) << 4).cast_signed() >> 4) * i32::from(*factor))
    }
}

/// Where the four factors of a group begin in a block of so many bytes.
pub const fn factors_at(block_bytes: usize, group: usize) -> usize {
    let end = (group + 1) * GROUP_BYTES;
    (if end < block_bytes { end } else { block_bytes }) - 4
}

/// Whether the factors of the groups of these blocks, of so many bytes each, are powers of two up to [`MAX_FACTOR`].
pub(crate) const fn factors_are_known(blocks: &[u8], block_bytes: usize) -> bool {
    let mut rest = blocks;
    while let Some((mut block, others)) = rest.split_at_checked(block_bytes)
        && block_bytes > 0
    {
        while !block.is_empty() {
            let len = if block.len() < GROUP_BYTES { block.len() } else { GROUP_BYTES };
            let (group, behind) = block.split_at(len);
            let Some((_, &[a, b, c, d])) = group.split_last_chunk() else { return false };
            if !(is_factor(a) && is_factor(b) && is_factor(c) && is_factor(d)) {
                return false;
            }
            block = behind;
        }
        rest = others;
    }
    true
}

const fn is_factor(byte: u8) -> bool {
    byte.is_power_of_two() && byte <= MAX_FACTOR
}
