//! Memory that C lends: what can be checked of a pointer is checked before it is followed, and nothing that is written
//! may overlap anything else. What cannot be checked is the caller's [`Word`], without which nothing here is made.

#![expect(unsafe_code)]

use core::{ptr, slice};

use crate::status::tidegate_status::{self, *};

/// A caller's word that what the header says of the pointers of its call is so: what they point to is there, is what their
/// types say, and is used by nothing else meanwhile that writes it, or, where the call writes it, by nothing else at all.
#[derive(Clone, Copy)]
pub(crate) struct Word(());

impl Word {
    /// # Safety
    /// The word is true for every pointer of one call, until the call returns; for what an object is lent, for as long as
    /// the object is used.
    pub unsafe fn given() -> Self {
        Self(())
    }
}

/// That [`disjoint`] has found no overlap.
#[derive(Clone, Copy)]
pub(crate) struct Apart(());

/// So many values of C's, of which the pointer and the length have been checked. Each pointer of a call is lent once.
pub(crate) struct Lent<T> {
    pointer: *mut T,
    len: usize,
}

/// Where something lies, in addresses.
#[derive(Clone, Copy, Default)]
pub(crate) struct Region {
    start: usize,
    end: usize,
}

impl<T> Lent<T> {
    /// Nothing.
    pub const EMPTY: Self = Self { pointer: ptr::dangling_mut(), len: 0 };

    pub fn new(_: Word, pointer: *const T, len: usize) -> Result<Self, tidegate_status> {
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
        Region { start, end: start + self.len * size_of::<T>() }
    }

    /// For as long as the caller's word holds.
    pub fn get<'x>(self) -> &'x [T] {
        // SAFETY: `new` has seen that the pointer is aligned, is not null and that the length fits; that so many values are
        // there, which nothing writes, is the caller's word, and that this call does not write them `Apart`.
        unsafe { slice::from_raw_parts(self.pointer, self.len) }
    }

    /// As [`get`](Self::get).
    pub fn get_mut<'x>(self, _: Apart) -> &'x mut [T] {
        // SAFETY: as in `get`; what is lent is gone with `self`, and nothing else of the call overlaps it.
        unsafe { slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

/// One value, where an answer goes.
pub(crate) struct Answer<T>(Lent<T>);

impl<T> Answer<T> {
    pub fn new(word: Word, pointer: *mut T) -> Result<Self, tidegate_status> {
        Lent::new(word, pointer, 1).map(Self)
    }

    pub fn region(&self) -> Region {
        self.0.region()
    }

    pub fn give(self, _: Apart, value: T) {
        // SAFETY: `new` has seen that the pointer is aligned and not null; the room is the caller's word.
        unsafe { self.0.pointer.write(value) }
    }
}

/// Fails where something that is written overlaps anything else, written or read.
pub(crate) fn disjoint(written: &[Region], read: &[Region]) -> Result<Apart, tidegate_status> {
    let mut left = written;
    while let [region, others @ ..] = left {
        if others.iter().chain(read).any(|other| region.start < other.end && other.start < region.end) {
            return Err(TIDEGATE_OVERLAP);
        }
        left = others;
    }
    Ok(Apart(()))
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

    pub fn new(word: Word, pointer: *const O) -> Result<Self, tidegate_status> {
        let () = Self::FITS;
        Lent::new(word, pointer, 1).map(Self)
    }

    pub fn region(&self) -> Region {
        self.0.region()
    }

    fn sealed(&self) -> *mut Sealed<O::Value> {
        self.0.pointer.cast()
    }

    /// Makes it ready, or on an error not ready.
    pub fn fill(self, _: Apart, value: Result<O::Value, tidegate_status>) -> Result<(), tidegate_status> {
        let sealed = self.sealed();
        match value {
            // SAFETY: the object is aligned, is not null, and has room for the sealed value (`FITS`); that it is there and
            // nothing else uses it is the caller's word.
            Ok(value) => unsafe { sealed.write(Sealed { seal: O::SEAL, value }) },
            Err(error) => {
                // SAFETY: as above.
                unsafe { ptr::write(&raw mut (*sealed).seal, 0) };
                return Err(error);
            }
        }
        Ok(())
    }

    /// What is in it, if it is ready.
    pub fn get(&self) -> Result<&O::Value, tidegate_status> {
        // SAFETY: the object is aligned, is not null, and as large as a sealed value; every value of a seal is one. That there
        // is an object, zero or whatever its own calls have made of it, is the caller's word.
        match unsafe { ptr::read(&raw const (*self.sealed()).seal) } {
            // SAFETY: the seal says that `fill` has written a value; nothing writes it while `self` is borrowed.
            seal if seal == O::SEAL => Ok(unsafe { &(*self.sealed()).value }),
            _ => Err(TIDEGATE_NOT_READY),
        }
    }

    /// As [`get`](Self::get).
    pub fn get_mut(&mut self, _: Apart) -> Result<&mut O::Value, tidegate_status> {
        self.get()?;
        // SAFETY: `get` has found a value, and nothing else uses it.
        Ok(unsafe { &mut (*self.sealed()).value })
    }
}

/// What is in an object together with the memory that it was lent.
pub(crate) struct Owning<T> {
    pub value: T,
    pub memory: Region,
}
