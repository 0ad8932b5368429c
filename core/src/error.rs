//! Errors of more than one room.

use core::fmt;

/// The caller's buffer is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BufferTooSmall {
    /// Elements that are needed.
    pub needed: usize,
    /// Elements that were given.
    pub given: usize,
}

impl fmt::Display for BufferTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the buffer holds {} elements, {} are needed", self.given, self.needed)
    }
}

impl core::error::Error for BufferTooSmall {}
