//! In which order the weights of a block of four rows lie: for the instructions that will read them. A layout permutes
//! weights, and never changes a bit of the result.

/// In which order the weights lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Layout {
    /// Column by column: read by every build. Float numerics have no other.
    Portable,
    /// The same, with 128 added to every weight: Thumb-1 has no signed byte load with an offset.
    CortexM0,
    /// Four columns of a row in a word, the second and the third exchanged: what SXTB16 takes apart.
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

    /// The columns of a matrix are filled up to a multiple of this; what fills them up stands for zero.
    pub const fn columns(self) -> usize {
        match self {
            Self::Portable | Self::CortexM0 => 1,
            Self::CortexM4 => 4,
            Self::CortexM55 => 16,
        }
    }

    /// Where the weight of a row, 0 to 3, and column lies in its block.
    pub const fn place(self, row: usize, col: usize) -> usize {
        match self {
            Self::Portable | Self::CortexM0 => 4 * col + row,
            Self::CortexM4 => 16 * (col / 4) + 4 * row + [0, 2, 1, 3][col % 4],
            Self::CortexM55 => 64 * (col / 16) + 16 * row + col % 16,
        }
    }

    /// A weight as its byte.
    pub const fn byte(self, weight: i8) -> u8 {
        match self {
            Self::CortexM0 => weight.cast_unsigned() ^ 0x80,
            Self::Portable | Self::CortexM4 | Self::CortexM55 => weight.cast_unsigned(),
        }
    }
}
