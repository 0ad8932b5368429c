//! The wake word that the firmware hears, and the voice activity detection that gates it. `tests/firmware_twin.rs`
//! includes this file too.

use std::error::Error;
use std::path::Path;

use tidegate_model::canonical::{Architecture, Canonical};
use tidegate_model::data::read_audio_at;
use tidegate_model::load::{self, Settings};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_model::tidegate::{Layout, Numeric};

/// The folder of the models and the sound, relative to the repository.
pub const FOLDER: &str = "assets/wake_word";

/// The wake word with its front end and its detector, in its own integers.
pub fn word(repository: &Path, layout: Layout) -> Result<Vec<u8>, Box<dyn Error>> {
    packed(&model(repository, "okay_nabu")?, layout)
}

/// The gate: voice activity in the features of the wake word's front end. It has an event whenever there is speech.
///
/// ESPHome gives every model the same integers, although the scales of their inputs differ by a part of a percent. So
/// does the firmware.
pub fn gate(repository: &Path, layout: Layout) -> Result<Vec<u8>, Box<dyn Error>> {
    let (word, mut gate) = (model(repository, "okay_nabu")?, model(repository, "vad")?);
    let [of_word, of_gate] = [&word, &gate].map(|model| {
        let Architecture { inputs, integers, .. } = &model.architecture;
        integers.get(&inputs[0].name).map_or((0.0, 0), |of| (of.scale, of.zero_point))
    });
    let alike = (of_word.0 / of_gate.0 - 1.0).abs() < 0.01 && of_word.1 == of_gate.1;
    if word.architecture.front_end != gate.architecture.front_end || !alike {
        return Err("the two models read different features".into());
    }
    gate.architecture.front_end = None;
    let detector = gate.architecture.detector.as_mut().ok_or("the gate has no detector")?;
    detector.labels.iter_mut().for_each(|label| label.refractory_ms = 0);
    packed(&gate, layout)
}

/// The recording, 16,000 samples a second.
pub fn sound(repository: &Path) -> Result<Vec<i16>, Box<dyn Error>> {
    Ok(read_audio_at(&repository.join(FOLDER).join("okay_nabu.flac"), 16_000)?.samples)
}

/// A model and its description.
fn model(repository: &Path, name: &str) -> Result<Canonical, Box<dyn Error>> {
    let path = repository.join(FOLDER).join(name).with_extension("json");
    Ok(load::canonical(&path, &Settings::default())?.model)
}

fn packed(model: &Canonical, layout: Layout) -> Result<Vec<u8>, Box<dyn Error>> {
    Ok(pack_with(model, Numeric::I8, &Ranges::default(), layout)?)
}
