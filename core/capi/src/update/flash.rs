//! Flash whose driver is written in C.

use core::slice;

use ::tidegate_update::{Flash, Mapped};

use super::{TIDEGATE_FLASH_WRITE_BYTES, tidegate_flash};
use crate::memory::{Lent, Region, Word};
use crate::status::tidegate_status::{self, *};

/// A bank or the journal. A value of this type has been checked.
pub(crate) struct Driver {
    flash: tidegate_flash,
    read: Option<Read>,
    write: Write,
    erase: Erase,
}

type Context = *mut core::ffi::c_void;
type Read = unsafe extern "C" fn(Context, u32, *mut u8, usize) -> i32;
type Write = unsafe extern "C" fn(Context, u32, *const u8, usize) -> i32;
type Erase = unsafe extern "C" fn(Context, u32, u32) -> i32;

/// A callback has returned another value than 0.
#[derive(Debug)]
pub(crate) struct Failed;

impl Driver {
    /// A bank, which is mapped.
    pub fn bank(word: Word, flash: &tidegate_flash) -> Result<Self, tidegate_status> {
        let bank = Self::new(word, flash)?;
        if flash.bytes.is_null() {
            return Err(TIDEGATE_NULL);
        }
        if !flash.bytes.addr().is_multiple_of(16) {
            return Err(TIDEGATE_MISALIGNED);
        }
        Ok(bank)
    }

    /// A journal, which is mapped or has a function that reads.
    pub fn journal(word: Word, flash: &tidegate_flash) -> Result<Self, tidegate_status> {
        let journal = Self::new(word, flash)?;
        if flash.bytes.is_null() && journal.read.is_none() { Err(TIDEGATE_NULL) } else { Ok(journal) }
    }

    fn new(word: Word, flash: &tidegate_flash) -> Result<Self, tidegate_status> {
        let (write, erase) = (flash.write.ok_or(TIDEGATE_NULL)?, flash.erase.ok_or(TIDEGATE_NULL)?);
        if !flash.bytes.is_null() {
            Lent::new(word, flash.bytes, flash.bytes_len)?;
        }
        if u32::try_from(flash.bytes_len).is_err() {
            return Err(TIDEGATE_TOO_LONG);
        }
        if flash.erase_size == 0 || !flash.erase_size.is_multiple_of(TIDEGATE_FLASH_WRITE_BYTES) {
            return Err(TIDEGATE_UPDATE_GEOMETRY);
        }
        Ok(Self { flash: *flash, read: flash.read, write, erase })
    }

    /// The addresses at which the flash is mapped.
    pub fn region(&self) -> Region {
        if self.flash.bytes.is_null() { Region::default() } else { Region::of(self.bytes()) }
    }
}

fn done(code: i32) -> Result<(), Failed> {
    if code == 0 { Ok(()) } else { Err(Failed) }
}

impl Mapped for Driver {
    fn bytes(&self) -> &[u8] {
        if self.flash.bytes.is_null() {
            return &[];
        }
        // SAFETY: `new` has checked that the range does not wrap. The caller promises that the flash is mapped there as long
        // as the object is used. Only the callbacks write it, while `self` is borrowed mutably.
        unsafe { slice::from_raw_parts(self.flash.bytes, self.flash.bytes_len) }
    }
}

impl Flash for Driver {
    type Error = Failed;

    fn read_size(&self) -> usize {
        1
    }

    fn write_size(&self) -> usize {
        TIDEGATE_FLASH_WRITE_BYTES
    }

    fn erase_size(&self) -> usize {
        self.flash.erase_size
    }

    fn capacity(&self) -> usize {
        self.flash.bytes_len
    }

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Failed> {
        if let (true, Some(read)) = (self.flash.bytes.is_null(), self.read) {
            // SAFETY: the caller promises that the function reads the flash as the header says.
            return done(unsafe { read(self.flash.context, offset, bytes.as_mut_ptr(), bytes.len()) });
        }
        let stored = self.bytes().get(offset as usize..).and_then(|stored| stored.get(..bytes.len())).ok_or(Failed)?;
        bytes.iter_mut().zip(stored).for_each(|(byte, stored)| *byte = *stored);
        Ok(())
    }

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        // SAFETY: as in `read`.
        done(unsafe { (self.erase)(self.flash.context, from, to) })
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Failed> {
        // SAFETY: as in `read`.
        done(unsafe { (self.write)(self.flash.context, offset, bytes.as_ptr(), bytes.len()) })
    }
}
