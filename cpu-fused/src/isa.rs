//! The instruction sets that have kernels. Only this module checks the CPU.

use core::fmt;

#[cfg(target_arch = "aarch64")]
use crate::arch::aarch64::Neon;
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{Avx2, Avx512};
use crate::simd::{Instructions, Scalar, Task};

/// Instruction set of the kernels of a model. A value other than [`Isa::Scalar`] is a proof that the CPU has the
/// instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isa {
    /// Portable Rust, on every CPU.
    Scalar,
    /// AVX2 with FMA and F16C, in vectors of 8.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 (F, BW, VL, DQ and VNNI), in vectors of 16.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// NEON, in vectors of 4.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl Isa {
    /// The fastest instruction set of this CPU.
    pub fn best() -> Self {
        Self::available().last().unwrap_or(Self::Scalar)
    }

    /// All instruction sets of this CPU, the fastest last.
    pub fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let fast = [Avx2::detect().map(Self::Avx2), Avx512::detect().map(Self::Avx512)];
        #[cfg(target_arch = "aarch64")]
        let fast = [Neon::detect().map(Self::Neon)];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let fast: [Option<Self>; 0] = [];
        core::iter::once(Self::Scalar).chain(fast.into_iter().flatten())
    }

    /// Runs a task compiled for the instruction set.
    #[inline(always)]
    pub(crate) fn vectorize<T: Task>(self, task: T) -> T::Output {
        match self {
            Self::Scalar => Instructions::vectorize(Scalar, task),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => Instructions::vectorize(simd, task),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => Instructions::vectorize(simd, task),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(simd) => Instructions::vectorize(simd, task),
        }
    }

    /// Name of the instruction set, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
