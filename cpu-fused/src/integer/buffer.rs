//! Memory that begins on a line of the cache.

use bytemuck::Pod;

/// Bytes of a line of the cache, and of the widest vector.
const LINE: usize = 64;

/// Elements of which the first begins on a line. Not `Clone`: a copy would begin elsewhere.
#[derive(Debug)]
pub(super) struct Buffer<T> {
    memory: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Pod> Buffer<T> {
    /// So many zeros.
    pub fn zeros(len: usize) -> Self {
        let memory = vec![T::zeroed(); len + LINE / size_of::<T>()];
        // The memory stays where it is: it never grows.
        let first = memory.as_ptr().align_offset(LINE).min(memory.len() - len);
        Self { memory, first, len }
    }

    /// The elements.
    pub fn get(&self) -> &[T] {
        &self.memory[self.first..self.first + self.len]
    }

    /// The same, to be written.
    pub fn get_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.first..self.first + self.len]
    }
}
