//! The sound. FILL IN: `read` plays a recording; replace it with your microphone. If the project has a `build.rs`, your
//! computer compiles this file too, for `cargo test`, so `read` cannot use peripherals there.

use crate::network::{Block, SAMPLE_RATE};

/// Samples of 16 bits, little-endian, at the sample rate of the model.
static RECORDING: &[u8] = include_bytes!("../recording.i16");

/// The block with this number. `None` a second after the end of the recording.
pub fn read(number: usize) -> Option<Block> {
    let (samples, _) = RECORDING.as_chunks();
    let mut block = [0; size_of::<Block>() / 2];
    let begin = number * block.len();
    if begin >= samples.len() + SAMPLE_RATE as usize {
        return None;
    }
    for (sample, bytes) in block.iter_mut().zip(samples.get(begin..).unwrap_or_default()) {
        *sample = i16::from_le_bytes(*bytes);
    }
    Some(block)
}
