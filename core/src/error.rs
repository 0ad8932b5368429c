//! Errors that several modules share.

/// The memory that the caller lent is too short; lengths in the elements of the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BufferTooSmall {
    /// The least length that will do.
    pub needed: usize,
    /// The length of the slice.
    pub given: usize,
}

impl core::fmt::Display for BufferTooSmall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { needed, given } = self;
        write!(f, "the buffer has {given} elements, {needed} are needed")
    }
}

impl core::error::Error for BufferTooSmall {}

/// An input or output does not have the number of elements that it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WrongLength {
    /// The length that it must have.
    pub expected: usize,
    /// The length that it has.
    pub given: usize,
}

impl core::fmt::Display for WrongLength {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { expected, given } = self;
        write!(f, "{given} elements where {expected} are expected")
    }
}

impl core::error::Error for WrongLength {}
