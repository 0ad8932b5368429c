//! Importers: convert the files of other frameworks to canonical models. A file is recognized by its content;
//! unsupported content is rejected by name.

mod activation;
mod arch;
mod archive;
mod array;
mod axis;
mod baselines;
mod build;
mod call;
pub mod case;
pub mod checkpoint;
mod conv_lstm;
mod cudnn;
pub mod description;
mod edgeml;
pub mod families;
mod fields;
pub mod graphdef;
mod guitarml;
mod json;
mod keras;
mod layer;
mod mingru;
mod nam;
mod ncps;
mod network;
pub mod onnx;
mod picture;
mod protobuf;
mod refuse;
mod rnnoise;
mod rtneural;
mod signal;
mod sru;
mod state_pairs;
mod stateless;
pub mod tf1;
mod tf2ops;
mod tflite;
mod torch;
pub mod wake_word;
mod weights;
mod xlstm;

use std::path::Path;

use safetensors::SafeTensors;

pub use description::{Assumption, Description, Imported};
pub use layer::{At, Layer};
pub use network::{Control, Conversion, Direction, Idle, Network, Source, StatePart};

use archive::Archive;
use refuse::err_if;

use crate::canonical::{Canonical, MAX_FILE_BYTES, read_bounded};
use crate::data::{DataError, one_line};
use crate::error::{ImportError, ModelError, Result};

/// User settings that complete a file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Architecture of a weights-only file.
    pub description: Option<Description>,
    /// Sequence length for networks that need the whole sequence.
    pub window: Option<usize>,
    /// Settings for the inputs of an ONNX graph. The shapes are also for the placeholders of a GraphDef.
    pub onnx: onnx::Given,
}

impl Options {
    /// Creates options from command arguments: `arch` is the description file.
    ///
    /// # Errors
    /// If the file does not hold a description.
    pub fn new(arch: Option<&Path>, window: Option<usize>) -> Result<Self, DataError> {
        Ok(Self { description: arch.map(Description::read).transpose()?, window, ..Self::default() })
    }
}

/// Imports a model in any supported format. Labels in files beside the model are left to the caller.
///
/// # Errors
/// If the file cannot be read, or its format or content is not supported.
pub fn import(path: &Path) -> Result<Canonical> {
    Ok(import_with(path, &Options::default())?.model)
}

/// Like [`import`], with user settings for the file.
///
/// # Errors
/// The errors of [`import`], and settings that do not apply to the file.
pub fn import_with(path: &Path, options: &Options) -> Result<Imported> {
    let index = checkpoint::index_of(path);
    let path = index.as_deref().unwrap_or(path);
    let bytes = read_bounded(path)?.ok_or(ImportError::TooLarge { limit: MAX_FILE_BYTES })?;
    if index.is_some() {
        check_inputs(&options.onnx, &Kind::Checkpoint)?;
        return checkpoint::import(&bytes, path, options);
    }
    let name = path.file_name().map_or_else(|| "a file".into(), |name| name.to_string_lossy());
    let onnx = onnx::Given { folder: path.parent().map(Path::to_owned), ..options.onnx.clone() };
    import_bytes_with(&bytes, &name, &Options { onnx, ..options.clone() })
}

/// Like [`import`], from bytes; `name` becomes the model's `source`.
///
/// # Errors
/// The errors of [`import`].
pub fn import_bytes(bytes: &[u8], name: &str) -> Result<Canonical> {
    Ok(import_bytes_with(bytes, name, &Options::default())?.model)
}

/// Like [`import_bytes`], with user settings for the file.
///
/// # Errors
/// The errors of [`import_with`].
pub fn import_bytes_with(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    // A file that contains its architecture accepts none.
    let architecture = || ImportError::Unsupported("--arch with a file that holds its architecture".into());
    let whole = |model: Canonical| match options {
        Options { description: Some(_), .. } => Err(architecture()),
        Options { window: Some(_), .. } => {
            Err(ImportError::Unsupported("--window with a file whose sequences have a length".into()))
        }
        _ => Ok(Imported { model, notes: Vec::new(), assumptions: Vec::new() }),
    };
    let kind = recognize(bytes);
    kind.iter().try_for_each(|kind| check_inputs(&options.onnx, kind))?;
    match kind {
        Some(Kind::Checkpoint) => Err(ImportError::Refused {
            found: "it is the index of a TensorFlow checkpoint, whose values are in other files".into(),
            advice: "name it as TensorFlow did: model.ckpt.index beside model.ckpt.data-00000-of-00001",
        }),
        Some(Kind::Safetensors) => match Canonical::from_bytes(bytes) {
            Err(ModelError::NotCanonical) => torch::import_safetensors(bytes, name, options),
            model => whole(model?),
        },
        Some(Kind::GraphDef) => {
            err_if(options.description.is_some(), architecture)?;
            tf1::import_graph(&graphdef::decode(bytes)?, name, options)
        }
        Some(Kind::Hdf5) => keras::import_hdf5(bytes, name, options),
        Some(Kind::Json) => json::import(bytes, name, options),
        Some(Kind::Onnx) => onnx::import(bytes, name, options),
        Some(Kind::Rnnoise) => rnnoise::import(bytes, name, options),
        Some(Kind::Tflite) => tflite::import(bytes, name, options),
        Some(Kind::Pickle) => torch::import_pickles(bytes, name, options),
        Some(Kind::Zip) => {
            let mut archive = Archive::open(bytes)?;
            if torch::is_torch(&archive) {
                return torch::import_archive(&mut archive, name, options);
            }
            if keras::is_keras(&archive) {
                return keras::import_archive(&mut archive, name, options);
            }
            let has = |end: &str| archive.names().iter().any(|name| name.ends_with(end));
            let found = match () {
                () if has(".npy") => "an .npz archive of NumPy",
                () => "a zip archive, but not one of PyTorch or Keras",
            };
            Err(ImportError::NotReadYet { found })
        }
        Some(Kind::Other(found)) => Err(ImportError::NotReadYet { found }),
        None if bytes.is_empty() => {
            Err(ImportError::Refused { found: "it is empty".into(), advice: "copy or export the file again" })
        }
        None => Err(ImportError::Unrecognized),
    }
}

/// Refuses settings for the inputs of graphs with a file of another format.
fn check_inputs(given: &onnx::Given, kind: &Kind) -> Result<()> {
    let (is_onnx, is_other) = (matches!(kind, Kind::Onnx), matches!(kind, Kind::Other(_)));
    let has_shapes = is_onnx || matches!(kind, Kind::GraphDef);
    let has_states = is_onnx || matches!(kind, Kind::Tflite);
    for (option, name, applies, formats) in [
        ("--shape", given.shapes.keys().next(), has_shapes, "ONNX graphs and frozen graphs of TensorFlow"),
        ("--bind", given.bound.keys().next(), is_onnx, "ONNX graphs"),
        ("--state", given.states.keys().next(), has_states, "ONNX and TFLite graphs"),
    ] {
        if let Some(name) = name.filter(|_| !applies && !is_other) {
            let found = format!("{option} {}: this option is only for inputs of {formats}", one_line(name));
            return Err(ImportError::Refused { found, advice: "leave it out" });
        }
    }
    Ok(())
}

enum Kind {
    Checkpoint,
    Safetensors,
    GraphDef,
    Hdf5,
    Json,
    Onnx,
    Tflite,
    Zip,
    Pickle,
    Rnnoise,
    Other(&'static str),
}

/// Recognizes a format by its magic number. Protobuf has none: its first tag and field are used instead.
fn recognize(bytes: &[u8]) -> Option<Kind> {
    const MAGIC: [(&[u8], &str); 8] = [
        (b"\x93NUMPY", "a NumPy array"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"GGUF", "a GGUF file"),
        (b"RIFF", "a wav file"),
        (b"fLaC", "a FLAC file"),
        (b"\x7fELF", "an ELF program"),
        (b"DNNw", "a weights blob of RNNoise 0.2 or of Opus"),
        // Field 1 is a varint: SavedModel's schema version 1, then its meta graph; else ONNX's IR version.
        (b"\x08\x01\x12", "a TensorFlow SavedModel"),
    ];
    Some(match bytes {
        _ if bytes.get(4..8) == Some(tflite::MAGIC) => Kind::Tflite,
        _ if checkpoint::is_table(bytes) => Kind::Checkpoint,
        _ if is_safetensors(bytes) => Kind::Safetensors,
        // A pickle of protocol 2 to 5.
        [0x80, 2..=5, ..] => Kind::Pickle,
        // An empty archive has only the end of its directory.
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Kind::Zip,
        _ if bytes.starts_with(keras::MAGIC) => Kind::Hdf5,
        _ if rnnoise::is_rnnoise(bytes) => Kind::Rnnoise,
        _ if bytes.trim_ascii_start().starts_with(b"{") => Kind::Json,
        _ => match MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
            Some((_, found)) => Kind::Other(found),
            // Field 1 of a model is a varint, its IR version.
            None if bytes.first() == Some(&0x08) => Kind::Onnx,
            // Field 1 of a GraphDef is a NodeDef, whose field 1 is its name: two length-delimited tags.
            None if bytes.first() == Some(&0x0a) => Kind::GraphDef,
            None => return None,
        },
    })
}

/// Whether bytes are those of an ONNX model.
pub fn is_onnx(bytes: &[u8]) -> bool {
    matches!(recognize(bytes), Some(Kind::Onnx))
}

fn is_safetensors(bytes: &[u8]) -> bool {
    // A damaged file is still recognized by its structure, so that the error names safetensors.
    let len = bytes.first_chunk::<8>().map(|len| u64::from_le_bytes(*len));
    len.is_some_and(|len| len <= MAX_FILE_BYTES && bytes.get(8) == Some(&b'{'))
        || SafeTensors::read_metadata(bytes).is_ok()
}
