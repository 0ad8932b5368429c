//! Memory that begins with a cache line.

use bytemuck::Pod;

/// Bytes of a cache line.
const BYTES: usize = 64;

/// Numbers from the start of a cache line on.
#[derive(Debug)]
pub struct Lines<T> {
    memory: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Pod> Lines<T> {
    /// Zeros.
    pub fn zeroed(len: usize) -> Self {
        let spare = BYTES / size_of::<T>() - 1;
        let memory = vec![T::zeroed(); len + spare];
        let start = memory.as_ptr().align_offset(BYTES).min(spare);
        Self { memory, start, len }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// All of them.
    #[inline(always)]
    pub fn get(&self) -> &[T] {
        &self.memory[self.start..self.start + self.len]
    }

    /// All of them.
    #[inline(always)]
    pub fn get_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// At least so many; what they hold means nothing.
    pub fn at_least(&mut self, len: usize) {
        if self.len < len {
            *self = Self::zeroed(len);
        }
    }
}
