//! Memory borrowed from C. Pointers are checked as far as possible before they are dereferenced, and a buffer that is
//! written may not overlap another. The caller's [`Word`] covers the properties that cannot be checked; nothing here is
//! created without it.

#![expect(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use core::{ptr, slice};

use crate::status::tidegate_status::{self, *};

/// A caller's promise that the pointers of its call meet the requirements of the header: they point to valid values of
/// their types, which nothing else writes during the call, and which nothing else uses at all if the call writes them.
#[derive(Clone, Copy)]
pub(crate) struct Word(());

impl Word {
    /// # Safety
    /// The promise must hold for every pointer of one call until the call returns, and for the memory lent to an object
    /// as long as the object is used.
    pub unsafe fn given() -> Self {
        Self(())
    }
}

/// Proof that [`disjoint`] has found no overlap.
#[derive(Clone, Copy)]
pub(crate) struct Apart(());

/// A borrowed array of `len` values whose pointer and length have been checked. Each pointer of a call is borrowed
/// once.
pub(crate) struct Lent<T> {
    pointer: *mut T,
    len: usize,
}

/// A range of addresses.
#[derive(Clone, Copy, Default)]
pub(crate) struct Region {
    start: usize,
    end: usize,
}

impl Region {
    pub fn of(bytes: &[u8]) -> Self {
        let start = bytes.as_ptr().addr();
        Self { start, end: start + bytes.len() }
    }

    #[cfg(feature = "update")]
    pub fn start(&self) -> usize {
        self.start
    }
}

impl<T> Lent<T> {
    /// An empty array.
    pub const EMPTY: Self = Self { pointer: ptr::dangling_mut(), len: 0 };

    pub fn new(_: Word, pointer: *const T, len: usize) -> Result<Self, tidegate_status> {
        if pointer.is_null() {
            return Err(TIDEGATE_NULL);
        }
        if !pointer.is_aligned() {
            return Err(TIDEGATE_MISALIGNED);
        }
        // At most the size of a slice, without wrapping around the end of the address space.
        match len.checked_mul(size_of::<T>()).and_then(|bytes| Some((bytes, pointer.addr().checked_add(bytes)?))) {
            Some((bytes, _)) if bytes <= isize::MAX as usize => Ok(Self { pointer: pointer.cast_mut(), len }),
            _ => Err(TIDEGATE_TOO_LONG),
        }
    }

    pub fn region(&self) -> Region {
        let start = self.pointer.addr();
        Region { start, end: start + self.len * size_of::<T>() }
    }

    /// Valid as long as the caller's promise holds.
    pub fn get<'x>(self) -> &'x [T] {
        // SAFETY: `new` has checked that the pointer is aligned and not null and that the length fits. The caller
        // promises that the values exist and that nothing else writes them; `Apart` proves that this call does not
        // write them.
        unsafe { slice::from_raw_parts(self.pointer, self.len) }
    }

    /// As [`get`](Self::get).
    pub fn get_mut<'x>(self, _: Apart) -> &'x mut [T] {
        // SAFETY: as in `get`. `self` is consumed, so the values are borrowed once, and no other argument of the call
        // overlaps them.
        unsafe { slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

/// A single value to which a result is written.
pub(crate) struct Answer<T>(Lent<T>);

impl<T> Answer<T> {
    pub fn new(word: Word, pointer: *mut T) -> Result<Self, tidegate_status> {
        Lent::new(word, pointer, 1).map(Self)
    }

    pub fn region(&self) -> Region {
        self.0.region()
    }

    pub fn give(self, _: Apart, value: T) {
        // SAFETY: `new` has checked that the pointer is aligned and not null. The caller promises that it points to a
        // value.
        unsafe { self.0.pointer.write(value) }
    }
}

/// Fails if a written region overlaps any other region.
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

/// A type of the header that holds a Rust value, marked by a seal.
pub(crate) trait Object: Sized {
    type Value;
    /// The seal of the type. It distinguishes an initialized object from an uninitialized one and from other types.
    const SEAL: u64;
}

/// The layout of the value in the object.
#[repr(C)]
pub(crate) struct Sealed<T> {
    pub seal: u64,
    pub value: T,
}

/// Whether the header's type is large and aligned enough.
pub(crate) const fn fits<O: Object>() -> bool {
    size_of::<Sealed<O::Value>>() <= size_of::<O>() && align_of::<Sealed<O::Value>>() <= align_of::<O>()
}

/// An object in C's memory.
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

    /// Initializes the object, or marks it as uninitialized on an error.
    pub fn fill(self, apart: Apart, value: Result<O::Value, tidegate_status>) -> Result<(), tidegate_status> {
        match value {
            // SAFETY: the object is aligned, not null, and large enough for the sealed value (`FITS`). The caller
            // promises that it exists and that nothing else uses it.
            Ok(value) => unsafe { self.sealed().write(Sealed { seal: O::SEAL, value }) },
            Err(error) => {
                self.clear(apart);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Marks the object as uninitialized.
    pub fn clear(self, _: Apart) {
        // SAFETY: as in `fill`.
        unsafe { ptr::write(&raw mut (*self.sealed()).seal, 0) };
    }

    /// The value in the object, if it is initialized.
    pub fn get(&self) -> Result<&O::Value, tidegate_status> {
        // SAFETY: the object is aligned, not null, and as large as a sealed value; every bit pattern is a valid seal.
        // The caller promises that there is an object, zeroed or written by its own calls.
        match unsafe { ptr::read(&raw const (*self.sealed()).seal) } {
            // SAFETY: the seal proves that `fill` has written a value. Nothing writes it while `self` is borrowed.
            seal if seal == O::SEAL => Ok(unsafe { &(*self.sealed()).value }),
            _ => Err(TIDEGATE_NOT_READY),
        }
    }
}

/// A value together with the memory lent to it. Only the call that [holds](Place::hold) it uses the value.
pub(crate) struct Owning<T> {
    /// Address of the object. A copy has another one.
    home: usize,
    /// Whether a call uses the value. An interrupt stores false again before it returns, so loads and stores are enough:
    /// a Cortex-M0 has no compare-and-swap.
    busy: AtomicBool,
    memory: Region,
    /// The image to which the value refers.
    image: Region,
    value: T,
}

impl<T, O: Object<Value = Owning<T>>> Place<O> {
    /// Initializes the object with a value in `memory`, or marks it as uninitialized on an error.
    pub fn fill_with(
        self,
        apart: Apart,
        value: Result<T, tidegate_status>,
        [memory, image]: [Region; 2],
    ) -> Result<(), tidegate_status> {
        let home = self.sealed().addr();
        let owning = |value| Owning { home, busy: AtomicBool::new(false), memory, image, value };
        self.fill(apart, value.map(owning))
    }

    /// Fails if a call uses the object.
    pub fn is_free(&self) -> Result<(), tidegate_status> {
        match self.busy() {
            Ok(busy) if busy.load(Ordering::Relaxed) => Err(TIDEGATE_BUSY),
            _ => Ok(()),
        }
    }

    /// Takes the value for the call, if the object is initialized, in its place and free.
    pub fn hold(&self) -> Result<Held<'_, O>, tidegate_status> {
        let busy = self.busy()?;
        if busy.load(Ordering::Relaxed) {
            return Err(TIDEGATE_BUSY);
        }
        busy.store(true, Ordering::Relaxed);
        // An interrupt must not see the value in use before the flag.
        compiler_fence(Ordering::SeqCst);
        Ok(Held { place: self, busy })
    }

    /// The flag of an object that is initialized and in its place.
    fn busy(&self) -> Result<&AtomicBool, tidegate_status> {
        let sealed = self.sealed();
        // SAFETY: as in `get`. Only the seal is read, which no call writes while another uses the object.
        if unsafe { ptr::read(&raw const (*sealed).seal) } != O::SEAL {
            return Err(TIDEGATE_NOT_READY);
        }
        // SAFETY: the seal proves that `fill` has written a value, whose home is never written again.
        if unsafe { ptr::read(&raw const (*sealed).value.home) } != sealed.addr() {
            return Err(TIDEGATE_COPIED);
        }
        // SAFETY: as above. A call that uses the value borrows that field alone.
        Ok(unsafe { &(*sealed).value.busy })
    }
}

/// The value of an object during a call.
pub(crate) struct Held<'p, O: Object> {
    place: &'p Place<O>,
    busy: &'p AtomicBool,
}

impl<T, O: Object<Value = Owning<T>>> Held<'_, O> {
    /// The object and the memory lent to it.
    pub fn regions(&self) -> [Region; 2] {
        // SAFETY: `hold` has found a value, and no call writes its memory's region.
        [self.place.region(), unsafe { ptr::read(&raw const (*self.place.sealed()).value.memory) }]
    }

    /// The image to which the value refers.
    pub fn image(&self) -> Region {
        // SAFETY: as in `regions`.
        unsafe { ptr::read(&raw const (*self.place.sealed()).value.image) }
    }

    /// The value, to look at before [`disjoint`].
    #[cfg(feature = "update")]
    pub fn get(&self) -> &T {
        // SAFETY: as in `value`.
        unsafe { &(*self.place.sealed()).value.value }
    }

    pub fn value(&mut self, _: Apart) -> &mut T {
        // SAFETY: `hold` has found a value, and the flag keeps other calls from using it.
        unsafe { &mut (*self.place.sealed()).value.value }
    }
}

impl<O: Object> Drop for Held<'_, O> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.busy.store(false, Ordering::Relaxed);
    }
}
