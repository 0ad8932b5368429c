//! Reads images and their inputs from a file of the host, one after the other: any number of cases in the memory for
//! one.
//!
//! The file consists of little-endian words: one number for the program, then for each case the size of the image in
//! bytes, the number of elements of the inputs, the image, and the inputs (i16), both padded to whole words.
//! `tests/bundles` writes it.

use core::ffi::CStr;

use semihosting::fs::File;
use semihosting::io::Read;
use tidegate::{Aligned, ImageBytes, Model};

use crate::arch::singleton;

/// Enough for an LSTM of 128 units over 128 features in f32.
const IMAGE_BYTES: usize = 560 << 10;
const INPUTS: usize = 32 << 10;

/// An open file, and the memory for a case.
pub struct Bundle {
    file: File,
    /// The first number of the file.
    pub number: u32,
    /// Aligned as images are.
    image: &'static mut [u8],
    inputs: &'static mut [u8],
}

/// A network and its inputs.
pub struct Case<'b> {
    /// The network.
    pub model: Model<'b>,
    /// The inputs, step by step.
    pub inputs: &'b [[u8; 2]],
}

impl Bundle {
    /// Opens a file in the working directory of QEMU. Can be called only once.
    pub fn open(name: &CStr) -> Option<Self> {
        let image = singleton!(: Aligned<[u8; IMAGE_BYTES]> = Aligned([0; IMAGE_BYTES]))?;
        let inputs = singleton!(: [u8; 2 * INPUTS] = [0; 2 * INPUTS])?;
        Self::open_in(name, &mut image.0, inputs)
    }

    /// [`open`](Self::open) with other memory for an image, aligned to 16 bytes, and for its inputs.
    pub fn open_in(name: &CStr, image: &'static mut [u8], inputs: &'static mut [u8]) -> Option<Self> {
        let mut file = File::open(name).ok()?;
        let number = word(&mut file)?;
        Some(Self { file, number, image, inputs })
    }

    /// The next case. `None` at the end; `Some(None)` if it is too large, truncated, or not an image for this build.
    pub fn next_case(&mut self) -> Option<Option<Case<'_>>> {
        let image_bytes = word(&mut self.file)? as usize;
        Some(self.read(image_bytes))
    }

    fn read(&mut self, image_bytes: usize) -> Option<Case<'_>> {
        let input_bytes = 2 * word(&mut self.file)? as usize;
        let image = self.image.get_mut(..image_bytes.next_multiple_of(4))?;
        fill(&mut self.file, image)?;
        let inputs = self.inputs.get_mut(..input_bytes.next_multiple_of(4))?;
        fill(&mut self.file, inputs)?;
        // The checksum is skipped, because it would take longer than the steps.
        let model = Model::parse_structure(ImageBytes::new(image.get(..image_bytes)?).ok()?).ok()?;
        Some(Case { model, inputs: inputs.get(..input_bytes)?.as_chunks().0 })
    }
}

fn word(file: &mut File) -> Option<u32> {
    let mut bytes = [0; 4];
    fill(file, &mut bytes)?;
    Some(u32::from_le_bytes(bytes))
}

fn fill(file: &mut File, mut bytes: &mut [u8]) -> Option<()> {
    while !bytes.is_empty() {
        let read = file.read(bytes).ok().filter(|&read| read > 0)?;
        bytes = bytes.get_mut(read..)?;
    }
    Some(())
}
