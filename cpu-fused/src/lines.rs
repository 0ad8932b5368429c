//! Memory that starts at a cache line.

use core::cell::Cell;

use bytemuck::Pod;

thread_local! {
    /// Bytes that this thread has allocated as [`Lines`], modulo 2^64: the difference is what a layer takes when it is packed.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// Bytes of the [`Lines`] that `work` allocates.
pub fn allocated_by<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let result = work();
    (result, ALLOCATED.get().wrapping_sub(before))
}

/// Bytes of a cache line.
const BYTES: usize = 64;

/// Numbers that start at a cache line.
#[derive(Debug)]
pub struct Lines<T> {
    memory: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Pod> Lines<T> {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let spare = BYTES / size_of::<T>() - 1;
        let memory = vec![T::zeroed(); len + spare];
        ALLOCATED.set(ALLOCATED.get().wrapping_add(size_of_val(memory.as_slice())));
        let start = memory.as_ptr().align_offset(BYTES).min(spare);
        Self { memory, start, len }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The elements.
    #[inline(always)]
    pub fn get(&self) -> &[T] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The elements.
    #[inline(always)]
    pub fn get_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// Grows to at least `len` elements, of unspecified values.
    pub fn at_least(&mut self, len: usize) {
        if self.len < len {
            *self = Self::zeroed(len);
        }
    }
}
