//! The order of the weights in a block of four rows, chosen for the instructions that read them. A layout permutes
//! weights and never changes a bit of the result.

use super::Numeric;

/// Number of columns of a row that share a factor in the numeric `i4x16`.
pub const GROUP: usize = 32;
/// Length in bytes of a group in a block of four rows: the weights, followed by one factor per row.
pub(crate) const GROUP_BYTES: usize = 4 * GROUP / 2 + 4;
/// [`GROUP_BYTES`] in words.
pub(crate) const GROUP_WORDS: usize = GROUP_BYTES / 4;
/// Maximum number of bytes of the columns that a kernel reads at once.
const MAX_TAIL: usize = 64;
/// Largest factor of a group. Factors are powers of two.
pub const MAX_FACTOR: u8 = 16;

/// The order of the weights in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Layout {
    /// Column by column. Every build reads it. Float numerics have only this layout; `i4x16` has this one and that of
    /// the Cortex-M4.
    Portable = 0,
    /// Column by column, with 128 added to every weight, because Thumb-1 has no signed byte load with an offset.
    CortexM0 = 1,
    /// Four columns of a row in one word with the second and third exchanged, as SXTB16 unpacks them. In `i4x16`, eight
    /// columns with 8 added to every weight, as a mask unpacks them.
    CortexM4 = 2,
    /// Sixteen columns of a row side by side: one vector of Helium.
    CortexM55 = 3,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 4] = [Self::Portable, Self::CortexM0, Self::CortexM4, Self::CortexM55];

    /// The layout's code in an image.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The layout with this code, or `None` if the code is unknown.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Portable),
            1 => Some(Self::CortexM0),
            2 => Some(Self::CortexM4),
            3 => Some(Self::CortexM55),
            _ => None,
        }
    }

    /// Whether this build contains the kernel for this layout. A host reads all layouts, firmware the portable one and
    /// its core's, and WebAssembly, which is downloaded, only the portable one.
    pub const fn is_read(self) -> bool {
        const HOST: bool = cfg!(not(any(target_os = "none", target_family = "wasm")));
        match self {
            Self::Portable => true,
            Self::CortexM0 => HOST || cfg!(all(target_arch = "arm", not(target_has_atomic = "32"))),
            Self::CortexM4 => HOST || cfg!(feature = "dsp"),
            Self::CortexM55 => HOST || cfg!(feature = "mve"),
        }
    }

    /// The layout's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::CortexM0 => "cortex-m0",
            Self::CortexM4 => "cortex-m4",
            Self::CortexM55 => "cortex-m55",
        }
    }

    /// Whether this layout is available for `numeric`.
    pub const fn is_of(self, numeric: Numeric) -> bool {
        match (numeric, self) {
            (Numeric::F32 | Numeric::F16, Self::Portable) => true,
            (Numeric::F32 | Numeric::F16, Self::CortexM0 | Self::CortexM4 | Self::CortexM55) => false,
            (Numeric::I8x16 | Numeric::I8, _) | (Numeric::I4x16, Self::Portable | Self::CortexM4) => true,
            (Numeric::I4x16, Self::CortexM0 | Self::CortexM55) => false,
        }
    }

    /// Matrices are padded to a multiple of this many columns; the padding stands for zero.
    pub const fn columns(self, numeric: Numeric) -> usize {
        match (numeric, self) {
            (Numeric::F32 | Numeric::F16, _) | (Numeric::I8x16 | Numeric::I8, Self::Portable | Self::CortexM0) => 1,
            (Numeric::I8x16 | Numeric::I8, Self::CortexM4) => 4,
            (Numeric::I8x16 | Numeric::I8, Self::CortexM55) => 16,
            (Numeric::I4x16, Self::CortexM4) => 8,
            (Numeric::I4x16, _) => 2,
        }
    }

    /// Length in bytes of a block of four rows with `cols` columns; `None` on overflow.
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

    /// Position of the weight at `row` (0 to 3) and `col` in its block: in bytes, or in `i4x16` in half bytes, the
    /// lower half first.
    pub const fn place(self, numeric: Numeric, row: usize, col: usize) -> usize {
        match (numeric, self) {
            (Numeric::I4x16, Self::CortexM4) => {
                // Four factors follow each preceding group.
                32 * (col / 8) + 8 * row + [0, 4, 1, 5, 2, 6, 3, 7][col % 8] + 8 * (col / GROUP)
            }
            (Numeric::I4x16, _) => 4 * col + row + 8 * (col / GROUP),
            (_, Self::Portable | Self::CortexM0) => 4 * col + row,
            (_, Self::CortexM4) => 16 * (col / 4) + 4 * row + [0, 2, 1, 3][col % 4],
            (_, Self::CortexM55) => 64 * (col / 16) + 16 * row + col % 16,
        }
    }

    /// Whether the weights that pad the columns of these blocks, of `cols` columns each, are zero.
    pub(crate) const fn filler_is_zero(self, numeric: Numeric, blocks: &[u8], cols: usize) -> bool {
        let columns = self.columns(numeric);
        let (Some(block_bytes), filled) = (self.block_bytes(numeric, cols), cols % columns) else { return true };
        if filled == 0 {
            return true;
        }
        // The padding is in the last columns that a kernel reads at once. Factors follow them in `i4x16`.
        let halves = matches!(numeric, Numeric::I4x16);
        let (len, behind) = if halves { (2 * columns, 4) } else { (4 * columns, 0) };
        let (mut mask, mut col) = ([0_u8; MAX_TAIL], filled);
        while col < columns {
            let mut row = 0;
            while row < 4 {
                let place = self.place(numeric, row, col);
                let (place, bits) = if halves { (place / 2, 15 << (4 * (place % 2))) } else { (place, 0xFF) };
                // Without indexing, which could panic.
                if let Some((_, [byte, ..])) = mask.split_at_mut_checked(place) {
                    *byte |= bits;
                }
                row += 1;
            }
            col += 1;
        }
        let zero = self.code_of(numeric, 0);
        let zero = if halves { zero << 4 | zero } else { zero };
        let mut rest = blocks;
        while let Some((block, others)) = rest.split_at_checked(block_bytes)
            && let Some(start) = block_bytes.checked_sub(len + behind)
        {
            let (_, mut tail) = block.split_at(start);
            let (mut bits, mut at, mut other) = (mask.as_slice(), 0, 0);
            while let ([byte, following @ ..], [bit, others @ ..]) = (tail, bits)
                && at < len
            {
                other |= (*byte ^ zero) & *bit;
                at += 1;
                (tail, bits) = (following, others);
            }
            if other != 0 {
                return false;
            }
            rest = others;
        }
        true
    }

    /// Encodes a weight as a byte, or in `i4x16` as a half byte.
    pub const fn code_of(self, numeric: Numeric, weight: i8) -> u8 {
        match (numeric, self) {
            (Numeric::I4x16, Self::CortexM4) => (weight.cast_unsigned() & 15) ^ 8,
            (Numeric::I4x16, _) => weight.cast_unsigned() & 15,
            (_, Self::CortexM0) => weight.cast_unsigned() ^ 0x80,
            (_, Self::Portable | Self::CortexM4 | Self::CortexM55) => weight.cast_unsigned(),
        }
    }

    /// Decodes the weight at `row` (0 to 3) and `col` of a block; `None` if the block is too short.
    pub(crate) fn weight(self, numeric: Numeric, block: &[u8], row: usize, col: usize) -> Option<i32> {
        let place = self.place(numeric, row, col);
        // Encoding is its own inverse.
        let weight = |code: u8| self.code_of(numeric, code.cast_signed());
        if numeric != Numeric::I4x16 {
            return block.get(place).map(|&byte| weight(byte).cast_signed().into());
        }
        let code = block.get(place / 2)? >> (4 * (place % 2));
        let factor = block.get(factors_at(block.len(), col / GROUP) + row)?;
        Some(i32::from((weight(code) << 4).cast_signed() >> 4) * i32::from(*factor))
    }
}

/// Offset of the four factors of a group in a block of `block_bytes`.
pub const fn factors_at(block_bytes: usize, group: usize) -> usize {
    let end = (group + 1) * GROUP_BYTES;
    (if end < block_bytes { end } else { block_bytes }) - 4
}

/// Whether all group factors of these blocks, `block_bytes` each, are powers of two up to [`MAX_FACTOR`].
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
