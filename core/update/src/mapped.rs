//! Banks in the address space of the processor.

/// A bank that the processor reads in place, because a model runs from it without a copy.
pub trait Mapped {
    /// All bytes of the bank, from an address that is a multiple of 16. They must reflect all earlier writes and erases: an
    /// implementation invalidates the cache, if there is one.
    fn bytes(&self) -> &[u8];
}
