//! Integer images of the networks of a recipe, calibrated on a sound.

use std::path::Path;

use tidegate::{Layout, Numeric};

use super::{HopError, Recipe, denoise};
use crate::backend::Engine;
use crate::buffer::ImageBuffer;
use crate::canonical::Canonical;
use crate::load::{LoadError, packed_with};
use crate::quantize::{Ranges, RangesError};

/// The inputs of each network, `[steps, size]`, while the recipe suppresses the noise of a sound in blocks.
///
/// # Errors
/// If a network cannot be stepped.
pub fn inputs<'s>(
    recipe: Recipe,
    engines: &[Engine<'_>],
    blocks: impl IntoIterator<Item = &'s [i16]>,
) -> Result<Vec<Vec<f32>>, HopError> {
    let mut inputs = vec![Vec::new(); engines.len()];
    denoise(recipe, engines, blocks, |network, input, _| inputs[network].extend_from_slice(input))?;
    Ok(inputs)
}

/// The image of a model that was read from `path`, with ranges from `input`. Unlike `pack --calibrate`, it tries no other
/// ranges, which would take minutes.
///
/// # Errors
/// If the model cannot be packed, or `input` is empty.
pub fn integers(path: &Path, model: &Canonical, numeric: Numeric, input: &[f32]) -> Result<ImageBuffer, LoadError> {
    let failed = |source: RangesError| LoadError::Ranges { path: path.to_owned(), source: Box::new(source) };
    let ranges = Ranges::measure(model, [[input].as_slice()]).map_err(failed)?;
    packed_with(path, model, numeric, &ranges, Layout::Portable)
}
