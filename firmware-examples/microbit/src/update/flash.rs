//! The flash behind the firmware, by the chip's controller (nRF51 reference manual, chapter NVMC).
#![allow(unsafe_code)]

use core::slice;

use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashErrorKind, ReadNorFlash};
use nrf51_hal::pac::NVMC;
use tidegate_update::Mapped;

unsafe extern "C" {
    // Their addresses are set by `banks.x`.
    static _first_bank: u8;
    static _second_bank: u8;
    static _journal: u8;
    static _end_of_flash: u8;
}

/// Pages that are in no other part, and not in the firmware.
pub struct Part<'c> {
    controller: &'c NVMC,
    start: usize,
    len: usize,
}

impl<'c> Part<'c> {
    /// The two banks and the journal.
    pub fn all(controller: &'c NVMC) -> [Self; 3] {
        let [a, b, c, end] =
            [&raw const _first_bank, &raw const _second_bank, &raw const _journal, &raw const _end_of_flash]
                .map(<*const u8>::addr);
        [(a, b), (b, c), (c, end)].map(|(start, end)| Self { controller, start, len: end - start })
    }

    /// Whether a range is in this part, at multiples of `unit`.
    fn check(&self, from: usize, to: usize, unit: usize) -> Result<(), NorFlashErrorKind> {
        if from > to || to > self.len {
            return Err(NorFlashErrorKind::OutOfBounds);
        }
        if from.is_multiple_of(unit) && to.is_multiple_of(unit) { Ok(()) } else { Err(NorFlashErrorKind::NotAligned) }
    }

    fn wait(&self) {
        while self.controller.ready.read().ready().is_busy() {}
    }
}

impl Mapped for Part<'_> {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the part is flash, always readable, and written only by `erase` and `write`, which borrow it mutably.
        unsafe { slice::from_raw_parts(self.start as *const u8, self.len) }
    }
}

impl ErrorType for Part<'_> {
    type Error = NorFlashErrorKind;
}

impl ReadNorFlash for Part<'_> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorFlashErrorKind> {
        let from = offset as usize;
        self.check(from, from.saturating_add(bytes.len()), 1)?;
        let stored = self.bytes().get(from..).unwrap_or_default();
        bytes.iter_mut().zip(stored).for_each(|(byte, stored)| *byte = *stored);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.len
    }
}

impl NorFlash for Part<'_> {
    const WRITE_SIZE: usize = 4;
    const ERASE_SIZE: usize = 1024;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), NorFlashErrorKind> {
        let (from, to) = (from as usize, to as usize);
        self.check(from, to, Self::ERASE_SIZE)?;
        self.controller.config.write(|register| register.wen().een());
        for page in (from..to).step_by(Self::ERASE_SIZE) {
            // SAFETY: the register takes the address of a page, which is one of this part.
            self.controller.erasepage().write(|register| unsafe { register.bits((self.start + page) as u32) });
            self.wait();
        }
        self.controller.config.write(|register| register.wen().ren());
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorFlashErrorKind> {
        let from = offset as usize;
        self.check(from, from.saturating_add(bytes.len()), Self::WRITE_SIZE)?;
        self.controller.config.write(|register| register.wen().wen());
        for (word, at) in bytes.as_chunks::<4>().0.iter().zip((self.start + from..).step_by(4)) {
            // SAFETY: the word is in this part, aligned, and nothing refers to it while the part is borrowed mutably.
            unsafe { (at as *mut u32).write_volatile(u32::from_le_bytes(*word)) };
            self.wait();
        }
        self.controller.config.write(|register| register.wen().ren());
        Ok(())
    }
}
