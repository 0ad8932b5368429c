//! The instruction sets that there are kernels for: the one place that asks the CPU.

/// What the kernels of a model are made of. A value other than [`Isa::Scalar`] exists only where the CPU has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isa {
    /// Plain Rust, on every machine.
    Scalar,
}

impl Isa {
    /// The fastest that this CPU has.
    pub fn best() -> Self {
        Self::Scalar
    }

    /// All that this CPU has, the fastest last.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Scalar].into_iter()
    }

    /// Its name, as reports have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
        }
    }
}
