//! Memory that C lends: what can be checked of a pointer is checked before it is followed, and nothing that is written
//! may overlap anything else.

use core::ops::Range;
use core::{ptr, slice};

use crate::status::tidegate_status::{self, *};

/// So many values of C's, of which the pointer and the length have been checked.
pub(crate) struct Lent<T> {
    pointer: *mut T,
    len: usize,
}

// Not derived: that would ask it of `T`.
impl<T> Clone for Lent<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lent<T> {}

/// Where something lies, in addresses.
pub(crate) type Region = Range<usize>;

impl<T> Lent<T> {
    /// Nothing.
    pub const EMPTY: Self = Self { pointer: ptr::dangling_mut(), len: 0 };

    pub fn new(pointer: *const T, len: usize) -> Result<Self, tidegate_status> {
        if pointer.is_null() {
            return Err(TIDEGATE_NULL);
        }
        if !pointer.is_aligned() {
            return Err(TIDEGATE_MISALIGNED);
        }
        // What a slice may span, and not around the end of the address space.
        match len.checked_mul(size_of::<T>()).and_then(|bytes| Some((bytes, pointer.addr().checked_add(bytes)?))) {
            Some((bytes, _)) if bytes <= isize::MAX as usize => Ok(Self { pointer: pointer.cast_mut(), len }),
            _ => Err(TIDEGATE_TOO_LONG),
        }
    }

    pub fn region(&self) -> Region {
        let start = self.pointer.addr();
        start..start + self.len * size_of::<T>()
    }

    /// # Safety
    /// So many values are there, of which none is written while the slice is used.
    pub unsafe fn get<'x>(&self) -> &'x [T] {
        // SAFETY: `new` has seen that the pointer is aligned, is not null and that the length fits; the rest is the
        // caller's word.
        unsafe { slice::from_raw_parts(self.pointer, self.len) }
    }

    /// # Safety
    /// So many values are there, which nothing else reads or writes while the slice is used.
    pub unsafe fn get_mut<'x>(&self) -> &'x mut [T] {
        // SAFETY: as in `get`.
        unsafe { slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

/// One value, where an answer goes.
pub(crate) struct Answer<T>(Lent<T>);

impl<T> Answer<T> {
    pub fn new(pointer: *mut T) -> Result<Self, tidegate_status> {
        Lent::new(pointer, 1).map(Self)
    }

    pub fn region(&self) -> Region {
        self.0.region()
    }

    /// # Safety
    /// There is room for a value, which nothing else reads or writes.
    pub unsafe fn give(&self, value: T) {
        // SAFETY: `new` has seen that the pointer is aligned and not null; the room is the caller's word.
        unsafe { self.0.pointer.write(value) }
    }
}

/// Fails where something that is written overlaps anything else, written or read.
pub(crate) fn disjoint(
    written: impl Iterator<Item = Region> + Clone,
    read: impl Iterator<Item = Region> + Clone,
) -> Result<(), tidegate_status> {
    let mut left = written;
    while let Some(region) = left.next() {
        for other in left.clone().chain(read.clone()) {
            if region.start < other.end && other.start < region.end {
                return Err(TIDEGATE_OVERLAP);
            }
        }
    }
    Ok(())
}

/// A type of the header that holds a value of ours, behind a seal that says that it does.
pub(crate) trait Object: Sized {
    type Value;
    /// One for each type: what is not ready, or another object, is known by it.
    const SEAL: u64;
}

/// How the value lies in the object.
#[repr(C)]
pub(crate) struct Sealed<T> {
    pub seal: u64,
    pub value: T,
}

/// Whether the header's type has the room.
pub(crate) const fn fits<O: Object>() -> bool {
    size_of::<Sealed<O::Value>>() <= size_of::<O>() && align_of::<Sealed<O::Value>>() <= align_of::<O>()
}

/// An object of C's.
pub(crate) struct Place<O: Object>(Lent<O>);

impl<O: Object> Place<O> {
    const FITS: () = assert!(fits::<O>(), "the type in the header is too small for what it holds");

    pub fn new(pointer: *const O) -> Result<Self, tidegate_status> {
        let () = Self::FITS;
        Lent::new(pointer, 1).map(Self)
    }

    pub fn region(&self) -> Region {
        self.0.region()
    }

    fn sealed(&self) -> *mut Sealed<O::Value> {
        self.0.pointer.cast()
    }

    /// Makes it ready, or on an error not ready.
    ///
    /// # Safety
    /// There is room for an object, which nothing else reads or writes.
    pub unsafe fn fill(&self, value: Result<O::Value, tidegate_status>) -> Result<(), tidegate_status> {
        let sealed = self.sealed();
        match value {
            // SAFETY: the object is aligned, is not null, and has room for the sealed value (`FITS`); that nothing else
            // uses it is the caller's word.
            Ok(value) => unsafe { sealed.write(Sealed { seal: O::SEAL, value }) },
            Err(error) => {
                // SAFETY: as above.
                unsafe { ptr::write(&raw mut (*sealed).seal, 0) };
                return Err(error);
            }
        }
        Ok(())
    }

    /// # Safety
    /// There is an object, zero or whatever its own calls have made of it, which nothing writes meanwhile.
    pub unsafe fn get<'x>(&self) -> Result<&'x O::Value, tidegate_status> {
        // SAFETY: the object is aligned, is not null, and as large as a sealed value; every value of a seal is one.
        match unsafe { ptr::read(&raw const (*self.sealed()).seal) } {
            // SAFETY: the seal says that `fill` has written a value.
            seal if seal == O::SEAL => Ok(unsafe { &(*self.sealed()).value }),
            _ => Err(TIDEGATE_NOT_READY),
        }
    }

    /// # Safety
    /// As [`get`](Self::get); nothing else reads or writes the object meanwhile.
    pub unsafe fn get_mut<'x>(&self) -> Result<&'x mut O::Value, tidegate_status> {
        // SAFETY: the caller's word.
        unsafe { self.get()? };
        // SAFETY: `get` has found a value, and nothing else uses it.
        Ok(unsafe { &mut (*self.sealed()).value })
    }
}

/// What is in an object together with the memory that it was lent.
pub(crate) struct Owning<T> {
    pub value: T,
    pub memory: Region,
}
