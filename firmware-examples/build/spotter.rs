//! The keyword spotter that the firmware runs, and its recordings. `tests/firmware_twin.rs` includes this file too.

use std::error::Error;
use std::path::{Path, PathBuf};

use tidegate_model::canonical::Canonical;
use tidegate_model::data::{read_audio_at, read_index};
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_model::pack::{pack, pack_with};
use tidegate_model::quantize::Ranges;
use tidegate_model::runner::{clip_features, fit};
use tidegate_model::tidegate::{Layout, Model, Numeric, Schedule};

/// Index of the shipped clips, relative to the repository.
pub const CLIPS: &str = "assets/speech_commands/index.csv";

/// A recorded word.
pub struct Clip {
    pub label: String,
    pub path: PathBuf,
    pub samples: Vec<i16>,
}

/// GRU_S of Hello Edge, and the first clip of every class, in the order of the index.
pub struct Spotter {
    pub file: PathBuf,
    pub model: Canonical,
    pub clips: Vec<Clip>,
}

impl Spotter {
    pub fn read(repository: &Path) -> Result<Self, Box<dyn Error>> {
        let file = repository.join("assets/hello_edge/GRU_S.pb");
        let model = load::canonical(&file, &Settings::default())?.model;
        let rate = model.architecture.front_end.as_ref().ok_or("the model has no front end")?.sample_rate;
        let mut clips: Vec<Clip> = Vec::new();
        for clip in read_index(&repository.join(CLIPS))? {
            if clips.iter().all(|known| known.label != clip.label) {
                let samples = read_audio_at(&clip.path, rate)?.samples;
                clips.push(Clip { label: clip.label, path: clip.path, samples });
            }
        }
        Ok(Self { file, model, clips })
    }

    /// Packs the model. The integer ranges are calibrated on these clips.
    pub fn pack(&self, numeric: Numeric, layout: Layout) -> Result<Vec<u8>, Box<dyn Error>> {
        if !numeric.is_integer() {
            return Ok(pack(&self.model, numeric)?);
        }
        Ok(pack_with(&self.model, numeric, &self.ranges()?, layout)?)
    }

    /// The integer ranges over these clips.
    pub fn ranges(&self) -> Result<Ranges, Box<dyn Error>> {
        let image = ImageBuffer::new(&pack(&self.model, Numeric::F32)?);
        let heard = self.clips.iter().map(|clip| features(&image.model()?, &clip.samples));
        let heard = heard.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        let inputs: Vec<[&[f32]; 1]> = heard.iter().map(|features| [features.as_slice()]).collect();
        Ok(Ranges::measure(&self.model, inputs.iter().map(<[_; 1]>::as_slice))?)
    }
}

/// The features of a single clip.
fn features(model: &Model<'_>, samples: &[i16]) -> Result<Vec<f32>, Box<dyn Error>> {
    let mfcc = model.front_end().ok_or("the model has no front end")?;
    let Schedule::Windows { frames, .. } = model.schedule() else {
        return Err("the model has no window".into());
    };
    Ok(clip_features(mfcc, &fit(mfcc, samples, frames)?)?)
}
