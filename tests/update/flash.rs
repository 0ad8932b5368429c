//! A flash memory that loses its power: torn writes, half-erased pages, flipped bits in the word that was written last. It
//! panics if a word is written twice before it is erased, which memories with ECC do not permit.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use embedded_storage::nor_flash::{ErrorType, NorFlash, ReadNorFlash};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::random::Rng;
use tidegate_update::Mapped;

/// An operation on the part of a memory with this number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Bytes written from an offset on.
    Write(usize, u32, Vec<u8>),
    /// The page at an offset erased.
    Erase(usize, u32),
}

impl Operation {
    /// Number of the part.
    pub fn part(&self) -> usize {
        match *self {
            Self::Write(part, ..) | Self::Erase(part, _) => part,
        }
    }

    /// Number of places where the power can be cut: after each byte, or at `ERASES` points of an erase.
    pub fn cuts(&self) -> usize {
        /// Points of an erase; the page is different at each.
        const ERASES: usize = 8;
        match self {
            Self::Write(_, _, bytes) => bytes.len() + 1,
            Self::Erase(..) => ERASES,
        }
    }
}

/// A log of the operations on a memory.
#[derive(Clone, Debug, Default)]
pub struct Log(Rc<RefCell<Vec<Operation>>>);

impl Log {
    /// The operations so far.
    pub fn operations(&self) -> Vec<Operation> {
        self.0.borrow().clone()
    }

    /// Number of operations so far.
    pub fn count(&self) -> usize {
        self.0.borrow().len()
    }
}

/// A part of a memory: words of `WRITE` bytes, pages of `ERASE` bytes.
#[derive(Debug)]
pub struct Flash<const WRITE: usize, const ERASE: usize> {
    number: usize,
    bytes: AlignedBytes,
    /// Whether each word was written since its page was erased.
    written: Vec<bool>,
    log: Log,
    rng: Rng,
}

impl<const WRITE: usize, const ERASE: usize> Flash<WRITE, ERASE> {
    /// An erased part of `pages` pages.
    pub fn new(number: usize, pages: usize, log: &Log) -> Self {
        let len = pages * ERASE;
        let bytes = AlignedBytes::new(&vec![0xFF; len]);
        Self { number, bytes, written: vec![false; len / WRITE], log: log.clone(), rng: Rng::new(number as u64) }
    }

    /// A copy with a log of its own, and other random numbers.
    pub fn copy(&self, log: &Log, seed: u64) -> Self {
        let bytes = AlignedBytes::new(self.bytes.get());
        let (number, written) = (self.number, self.written.clone());
        Self { number, bytes, written, log: log.clone(), rng: Rng::new(seed) }
    }

    /// Performs an operation, whole or until the power is cut.
    pub fn perform(&mut self, operation: &Operation, cut: Option<usize>) {
        match operation {
            Operation::Write(_, at, bytes) => self.write_until(*at as usize, bytes, cut),
            Operation::Erase(_, at) => self.erase_until(*at as usize, cut),
        }
    }

    fn write_until(&mut self, at: usize, bytes: &[u8], cut: Option<usize>) {
        let len = cut.unwrap_or(bytes.len());
        let (first, last) = (at / WRITE, (at + len).div_ceil(WRITE));
        for word in &mut self.written[first..last] {
            assert!(!*word, "a word at byte {at} of part {} is written twice", self.number);
            *word = true;
        }
        self.bytes.get_mut()[at..at + len].copy_from_slice(&bytes[..len]);
        // In half of the cuts, the word that was written last is damaged.
        if cut.is_some() && len > 0 && self.rng.below(2) == 0 {
            for byte in &mut self.bytes.get_mut()[(last - 1) * WRITE..last * WRITE] {
                *byte ^= self.rng.bits() as u8 & self.rng.bits() as u8;
            }
        }
    }

    fn erase_until(&mut self, at: usize, cut: Option<usize>) {
        let page = &mut self.bytes.get_mut()[at..at + ERASE];
        match cut {
            None => {
                page.fill(0xFF);
                self.written[at / WRITE..][..ERASE / WRITE].fill(false);
            }
            // The erase has not begun, or it is as good as done.
            Some(0) => {}
            Some(1) => page.fill(0xFF),
            // The page is erased from one end, from the other, or in random bits.
            Some(2) => page[..self.rng.below(ERASE)].fill(0xFF),
            Some(3) => page[self.rng.below(ERASE)..].fill(0xFF),
            Some(_) => page.iter_mut().for_each(|byte| *byte |= self.rng.bits() as u8 | self.rng.bits() as u8),
        }
    }

    fn operate(&mut self, operation: Operation) {
        self.perform(&operation, None);
        self.log.0.borrow_mut().push(operation);
    }
}

impl<const WRITE: usize, const ERASE: usize> ErrorType for Flash<WRITE, ERASE> {
    type Error = Infallible;
}

impl<const WRITE: usize, const ERASE: usize> ReadNorFlash for Flash<WRITE, ERASE> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(&self.bytes.get()[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.bytes.get().len()
    }
}

impl<const WRITE: usize, const ERASE: usize> NorFlash for Flash<WRITE, ERASE> {
    const WRITE_SIZE: usize = WRITE;
    const ERASE_SIZE: usize = ERASE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Infallible> {
        assert!(from <= to && [from, to].iter().all(|at| at.is_multiple_of(ERASE as u32)), "{from} to {to}");
        (from..to).step_by(ERASE).for_each(|at| self.operate(Operation::Erase(self.number, at)));
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Infallible> {
        assert!([offset as usize, bytes.len()].iter().all(|at| at.is_multiple_of(WRITE)), "{offset}: {}", bytes.len());
        self.operate(Operation::Write(self.number, offset, bytes.to_vec()));
        Ok(())
    }
}

impl<const WRITE: usize, const ERASE: usize> Mapped for Flash<WRITE, ERASE> {
    fn bytes(&self) -> &[u8] {
        self.bytes.get()
    }
}
