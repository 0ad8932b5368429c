//! Body of the fuzz target `import_keras`. The files that Keras writes have no checksums, except archives. Archives,
//! and tensors that fit their layers, are generated here from the fuzzer's bytes.

use std::io::{Cursor, Write};

use serde_json::Value as Json;
use tidegate_model::canonical::Canonical;
use tidegate_model::format::{Description, Options, import_bytes_with};
use zip::write::SimpleFileOptions;

use crate::hdf5::{Tensor, Weights, file, keras2};

/// Bits of the first byte.
pub mod flag {
    /// A window of three steps is given.
    pub const WINDOW: u8 = 1;
    /// The text is an architecture (`config.json`) and the rest the weights of a `.keras` archive. Otherwise the text
    /// is a description (`--arch`) and the rest a whole file.
    pub const ARCHIVE: u8 = 2;
    /// The text is an architecture, and the rest describes the tensors to generate beside it in an `.h5` file.
    pub const MADE: u8 = 4;
    /// The generated file claims to be by Keras 2, otherwise by Keras 3.
    pub const SECOND: u8 = 8;
}

const WINDOW: usize = 3;

/// Names of weights.
pub const NAMES: [&str; 12] = [
    "kernel:0",
    "recurrent_kernel:0",
    "bias:0",
    "gamma:0",
    "beta:0",
    "moving_mean:0",
    "moving_variance:0",
    "embeddings:0",
    "depthwise_kernel:0",
    "pointwise_kernel:0",
    "alpha:0",
    "forward_lstm/lstm_cell/kernel:0",
];

/// A byte of flags, the length of a text in two bytes, the text, and the rest. Returns whether it became a model; the
/// model must read back.
pub fn import_keras(data: &[u8]) -> bool {
    let Some((&[flags, low, high], rest)) = data.split_first_chunk::<3>() else { return false };
    let Some((text, rest)) = rest.split_at_checked(usize::from(u16::from_le_bytes([low, high]))) else { return false };
    let mut options = Options { window: (flags & flag::WINDOW != 0).then_some(WINDOW), ..Options::default() };
    let bytes = if flags & flag::ARCHIVE != 0 {
        let version = if flags & flag::SECOND != 0 { "2.15.0" } else { "3.12.0" };
        archive(&format!("{{\"keras_version\": \"{version}\"}}"), text, rest)
    } else if flags & flag::MADE != 0 {
        let Ok(config) = serde_json::from_slice::<Json>(text) else { return false };
        file(&keras2(&config, tensors(&config, rest)))
    } else {
        options.description = serde_json::from_slice::<Description>(text).ok();
        if options.description.is_none() && !text.is_empty() {
            return false;
        }
        rest.to_vec()
    };
    match import_bytes_with(&bytes, "a file", &options) {
        Ok(imported) => {
            let bytes = imported.model.to_bytes().expect("an imported model is valid");
            assert!(Canonical::from_bytes(&bytes).is_ok(), "a canonical model reads back");
            assert!(imported.notes.iter().all(|note| !note.contains(char::is_control)), "{:?}", imported.notes);
            true
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(char::is_control), "{line:?}");
            false
        }
    }
}

/// Encodes data for [`import_keras`].
pub fn seed(flags: u8, text: &[u8], rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(text.len()).expect("the architectures of seeds are short");
    [&[flags], &len.to_le_bytes()[..], text, rest].concat()
}

/// A `.keras` archive of these parts.
fn archive(metadata: &str, config: &[u8], weights: &[u8]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in
        [("metadata.json", metadata.as_bytes()), ("config.json", config), ("model.weights.h5", weights)]
    {
        zip.start_file(name, options).expect("the archive is in memory");
        zip.write_all(content).expect("the archive is in memory");
    }
    zip.finish().expect("the archive is in memory").into_inner()
}

/// Decodes tensors. Each is the index of its layer, of its name, its rank and its dimensions.
fn tensors<'c>(config: &'c Json, mut bytes: &[u8]) -> Vec<(&'c str, Weights)> {
    /// Maximum number of elements of a tensor.
    const MAX_LEN: usize = 1 << 12;
    let layers = config.pointer("/config/layers").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let name = |layer: &'c Json| layer.pointer("/config/name").and_then(Json::as_str).filter(|name| name.len() < 200);
    let mut all: Vec<(&str, Weights)> =
        layers.iter().take(16).filter_map(name).map(|name| (name, Vec::new())).collect();
    while let Some((&[layer, name, rank], rest)) = bytes.split_first_chunk::<3>() {
        let Some((dims, rest)) = rest.split_at_checked(usize::from(rank % 5)) else { break };
        bytes = rest;
        let shape: Vec<usize> = dims.iter().map(|&dim| usize::from(dim)).collect();
        let (Some((_, weights)), Some(name)) = (all.get_mut(usize::from(layer)), NAMES.get(usize::from(name))) else {
            continue;
        };
        if weights.len() < 16 && shape.iter().product::<usize>() <= MAX_LEN {
            weights.push(((*name).to_owned(), Tensor::of(&shape)));
        }
    }
    all
}
