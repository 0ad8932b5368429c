//! The voice activity detector that the firmware runs. `tests/firmware_twin.rs` includes this file too.

use std::error::Error;
use std::path::Path;

use tidegate_model::load::{self, Settings};
use tidegate_model::pack::pack;
use tidegate_model::tidegate::Numeric;

/// Path of the model, relative to the repository.
pub const MODEL: &str = "assets/silero_vad/silero_vad_16k_op15.onnx";

/// The image of the model. A step reads one chunk of sound.
pub fn image(repository: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let shapes = [("input".to_owned(), vec![1, 576])].into();
    let model = load::canonical(&repository.join(MODEL), &Settings { shapes, ..Settings::default() })?.model;
    Ok(pack(&model, Numeric::F32)?)
}
