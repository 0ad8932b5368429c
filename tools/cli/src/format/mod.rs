//! Foreign files to canonical models. A file is recognized by its content; what is not read is refused by name.

mod activation;
mod archive;
mod baselines;
mod call;
pub mod checkpoint;
mod conv_lstm;
mod cudnn;
pub mod description;
mod edgeml;
pub mod golden;
pub mod graphdef;
mod image;
mod keras;
mod layer;
mod mingru;
mod ncps;
mod network;
pub mod onnx;
mod plain;
mod rnnoise;
mod rtneural;
mod sru;
pub mod tf1;
mod tf2ops;
mod tflite;
mod torch;
mod weights;
mod xlstm;

use std::path::Path;

use safetensors::SafeTensors;

pub use description::{Description, Imported};
pub use layer::{At, Layer, chain};
pub use network::{Conversion, Direction, Idle, Network, Source, StatePart};

use archive::Archive;

use crate::canonical::{Canonical, MAX_FILE_BYTES, read_bounded};
use crate::data::DataError;
use crate::error::{ImportError, ModelError};

/// What a person says about a file that the file does not.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The architecture of a file that holds only weights.
    pub description: Option<Description>,
    /// Steps of the sequences that the network looks at as a whole.
    pub window: Option<usize>,
    /// Of the inputs of an ONNX graph.
    pub onnx: onnx::Given,
}

impl Options {
    /// The same from the arguments of a command: `arch` is the file with the description.
    ///
    /// # Errors
    /// If that file holds no description.
    pub fn new(arch: Option<&Path>, window: Option<usize>) -> Result<Self, DataError> {
        Ok(Self { description: arch.map(Description::read).transpose()?, window, ..Self::default() })
    }
}

/// Reads a model in any format that is known. Labels that lie beside the file are the caller's business.
///
/// # Errors
/// If the file cannot be read, is in a format that is not read, or holds what Tidegate does not have.
pub fn import(path: &Path) -> Result<Canonical, ImportError> {
    Ok(import_with(path, &Options::default())?.model)
}

/// As [`import`], with what a person says about the file.
///
/// # Errors
/// As [`import`]; and if the file has no use for what is said.
pub fn import_with(path: &Path, options: &Options) -> Result<Imported, ImportError> {
    let index = checkpoint::index_of(path);
    let path = index.as_deref().unwrap_or(path);
    let bytes = read_bounded(path)?.ok_or(ImportError::TooLarge { limit: MAX_FILE_BYTES })?;
    if index.is_some() {
        return checkpoint::import(&bytes, path, options);
    }
    let name = path.file_name().map_or_else(|| "a file".into(), |name| name.to_string_lossy());
    import_bytes_with(&bytes, &name, options)
}

/// As [`import`], from bytes; `name` is for the model's `source`.
///
/// # Errors
/// As [`import`].
pub fn import_bytes(bytes: &[u8], name: &str) -> Result<Canonical, ImportError> {
    Ok(import_bytes_with(bytes, name, &Options::default())?.model)
}

/// As [`import_bytes`], with what a person says about the file.
///
/// # Errors
/// As [`import_with`].
pub fn import_bytes_with(bytes: &[u8], name: &str, options: &Options) -> Result<Imported, ImportError> {
    // What says its architecture itself takes none.
    let architecture = || ImportError::Unsupported("--arch with a file that holds its architecture".into());
    let whole = |model: Canonical| match options {
        Options { description: Some(_), .. } => Err(architecture()),
        Options { window: Some(_), .. } => {
            Err(ImportError::Unsupported("--window with a file whose sequences have a length".into()))
        }
        _ => Ok(Imported { model, notes: Vec::new() }),
    };
    match recognize(bytes) {
        Some(Kind::Checkpoint) => Err(ImportError::Refused {
            found: "it is the index of a TensorFlow checkpoint, whose values are in other files".into(),
            advice: "name it as TensorFlow did: model.ckpt.index beside model.ckpt.data-00000-of-00001",
        }),
        Some(Kind::Safetensors) => match Canonical::from_bytes(bytes) {
            Err(ModelError::NotCanonical) => torch::import_safetensors(bytes, name, options),
            model => whole(model?),
        },
        Some(Kind::GraphDef) => {
            if options.description.is_some() {
                return Err(architecture());
            }
            tf1::import_graph(&graphdef::decode(bytes)?, name, options.window)
        }
        Some(Kind::Hdf5) => keras::import_hdf5(bytes, name, options),
        Some(Kind::Json) => rtneural::import(bytes, name, options),
        Some(Kind::Onnx) => onnx::import(bytes, name, options),
        Some(Kind::Rnnoise) => rnnoise::import(bytes, name, options),
        Some(Kind::Tflite) => tflite::import(bytes, name, options),
        Some(Kind::Pickle) => torch::import_pickles(bytes, name, options),
        Some(Kind::Zip) => {
            let mut archive = Archive::open(bytes)?;
            if torch::is_torch(&archive) {
                return torch::import_archive(&mut archive, bytes.len(), name, options);
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

/// Magic numbers of what people may take for a model. Protobuf has none: its first tag and field tell.
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
    if bytes.get(4..8) == Some(tflite::MAGIC) {
        return Some(Kind::Tflite);
    }
    if checkpoint::is_table(bytes) {
        return Some(Kind::Checkpoint);
    }
    if is_safetensors(bytes) {
        return Some(Kind::Safetensors);
    }
    // A pickle of protocol 2 to 5. An empty archive has only the end of its directory.
    if let [0x80, 2..=5, ..] = bytes {
        return Some(Kind::Pickle);
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return Some(Kind::Zip);
    }
    if bytes.starts_with(keras::MAGIC) {
        return Some(Kind::Hdf5);
    }
    if rnnoise::is_rnnoise(bytes) {
        return Some(Kind::Rnnoise);
    }
    if bytes.trim_ascii_start().starts_with(b"{") {
        return Some(Kind::Json);
    }
    if let Some((_, found)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Some(Kind::Other(found));
    }
    if is_onnx(bytes) {
        return Some(Kind::Onnx);
    }
    // Field 1 of a GraphDef is a NodeDef, whose field 1 is its name: two length-delimited tags.
    (bytes.first() == Some(&0x0a)).then_some(Kind::GraphDef)
}

/// Whether bytes begin as an ONNX model does: field 1 is a varint, its IR version.
pub fn is_onnx(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x08")
}

fn is_safetensors(bytes: &[u8]) -> bool {
    // A damaged file still counts by its shape, so that the error speaks of safetensors.
    let len = bytes.first_chunk::<8>().map(|len| u64::from_le_bytes(*len));
    len.is_some_and(|len| len <= MAX_FILE_BYTES && bytes.get(8) == Some(&b'{'))
        || SafeTensors::read_metadata(bytes).is_ok()
}
