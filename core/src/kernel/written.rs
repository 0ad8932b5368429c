//! The memory for sums. It is not cleared first, which would take as long as a few sums and need `memset`. Therefore
//! this file has `unsafe` on every target.

use core::mem::MaybeUninit;
use core::slice;

/// Places for the sums of blocks of four rows, of which the first `len` have been written.
pub(crate) struct Written<'s> {
    places: &'s mut [MaybeUninit<[i32; 4]>],
    len: usize,
}

impl<'s> Written<'s> {
    /// Starts with no sums written.
    pub fn new(places: &'s mut [MaybeUninit<[i32; 4]>]) -> Self {
        Self { places, len: 0 }
    }

    /// Starts with no sums written, in the memory of other sums.
    pub fn over(others: &'s mut [[i32; 4]]) -> Self {
        let (places, room) = (others.as_mut_ptr().cast(), others.len());
        // SAFETY: the places are borrowed for as long as `others`, and only sums are written to them.
        Self::new(unsafe { slice::from_raw_parts_mut(places, room) })
    }

    /// Writes the next sum, if there is room.
    #[inline(always)]
    pub fn push(&mut self, sum: [i32; 4]) {
        if let Some(place) = self.places.get_mut(self.len) {
            place.write(sum);
            self.len += 1;
        }
    }

    /// Writes the next sums, as many as there is room for.
    #[cfg(all(target_arch = "arm", feature = "dsp"))]
    #[inline(always)]
    pub fn extend(&mut self, sums: impl Iterator<Item = [i32; 4]>) {
        let mut written = 0;
        for (place, sum) in self.places.get_mut(self.len..).unwrap_or_default().iter_mut().zip(sums) {
            place.write(sum);
            written += 1;
        }
        self.len += written;
    }

    /// The sums that have been written.
    #[inline(always)]
    pub fn finish(self) -> &'s mut [[i32; 4]] {
        let written = self.places.get_mut(..self.len).unwrap_or_default();
        // SAFETY: `push` and `extend` count a place once it has been written, and so do callers of `set_len`.
        unsafe { written.assume_init_mut() }
    }

    /// The sums that have been written, as a borrow.
    #[cfg(all(target_arch = "arm", feature = "dsp"))]
    pub fn as_mut_slice(&mut self) -> &mut [[i32; 4]] {
        Written { places: self.places, len: self.len }.finish()
    }
}

/// For kernels in assembly.
#[cfg(any(target_arch = "riscv32", all(target_arch = "arm", any(feature = "thumb2", not(target_has_atomic = "32")))))]
impl Written<'_> {
    /// Number of places.
    pub fn room(&self) -> usize {
        self.places.len()
    }

    /// The first place.
    pub fn as_mut_ptr(&mut self) -> *mut [i32; 4] {
        self.places.as_mut_ptr().cast()
    }

    /// Declares that a kernel has written the first `len` sums.
    ///
    /// # Safety
    /// There must be at least `len` places, and the first `len` must have been written.
    pub unsafe fn set_len(&mut self, len: usize) {
        self.len = len;
    }
}
