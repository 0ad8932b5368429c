//! The voice activity detector that the firmware runs, and what it hears. `tests/firmware_twin.rs` includes this file too.

use std::error::Error;
use std::path::Path;

use tidegate_tools::load::{self, Settings};
use tidegate_tools::pack::pack;
use tidegate_tools::tidegate::Numeric;

/// From the repository on.
pub const MODEL: &str = "assets/silero_vad/silero_vad_16k_op15.onnx";

/// Its image: a chunk of sound is a step.
pub fn image(repository: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let shapes = [("input".to_owned(), vec![1, 576])].into();
    let model = load::canonical(&repository.join(MODEL), &Settings { shapes, ..Settings::default() })?.model;
    Ok(pack(&model, Numeric::F32)?)
}
