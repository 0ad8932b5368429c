//! The bodies of the importers' fuzz targets, as `fuzz.rs` has those of `core`.

use tidegate_tools::canonical::Canonical;
use tidegate_tools::format::{Description, Options, graphdef, import_bytes_with, onnx, tf1};
use tidegate_tools::load::ImageBuffer;
use tidegate_tools::pack::pack;
use tidegate_tools::tidegate::{Numeric, State};

/// Steps of the window that every other input has.
const WINDOW: usize = 3;

/// A byte of flags, the length of a description (`--arch`) in two bytes, the description, then the file. Gives whether a
/// model came of it, which packs and reads back.
pub fn import_torch(data: &[u8]) -> bool {
    let Some((&[flags, low, high], rest)) = data.split_first_chunk::<3>() else { return false };
    let len = usize::from(u16::from_le_bytes([low, high]));
    let Some((arch, file)) = rest.split_at_checked(len) else { return false };
    let description: Option<Description> = serde_json::from_slice(arch).ok();
    if description.is_none() && len > 0 {
        return false;
    }
    let options = Options { description, window: (flags & 1 != 0).then_some(WINDOW), ..Options::default() };
    match import_bytes_with(file, "a file", &options) {
        Ok(imported) => {
            let bytes = imported.model.to_bytes().expect("what was imported is valid");
            assert!(Canonical::from_bytes(&bytes).is_ok(), "a canonical model reads back");
            true
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(char::is_control), "{line:?}");
            false
        }
    }
}

/// A byte of flags, then a frozen graph. Gives whether a model came of it, which packs and reads back.
pub fn import_graph(data: &[u8]) -> bool {
    let Some((&flags, file)) = data.split_first() else { return false };
    let window = (flags & 1 != 0).then_some(WINDOW);
    let nodes = graphdef::decode(file);
    match nodes.and_then(|nodes| tf1::import_graph(&nodes, "a file", window)) {
        Ok(imported) => {
            let bytes = imported.model.to_bytes().expect("what was imported is valid");
            assert!(Canonical::from_bytes(&bytes).is_ok(), "a canonical model reads back");
            true
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(char::is_control) && line.len() < 2000, "{line:?}");
            false
        }
    }
}

/// A byte of flags, then an ONNX model. Gives whether a model came of it, which packs and reads back.
pub fn import_onnx(data: &[u8]) -> bool {
    let Some((&flags, file)) = data.split_first() else { return false };
    let options = Options { window: (flags & 1 != 0).then_some(WINDOW), ..Options::default() };
    match onnx::open(file, "a file", &options) {
        Ok((imported, _)) => {
            let bytes = imported.model.to_bytes().expect("what was imported is valid");
            assert!(Canonical::from_bytes(&bytes).is_ok(), "a canonical model reads back");
            true
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(char::is_control) && line.len() < 4000, "{line:?}");
            false
        }
    }
}

/// A TFLite model. Gives whether a model came of it, which reads back, and whose image runs if it can be packed.
pub fn import_tflite(data: &[u8]) -> bool {
    match import_bytes_with(data, "a file", &Options::default()) {
        Ok(imported) => {
            let bytes = imported.model.to_bytes().expect("what was imported is valid");
            assert!(Canonical::from_bytes(&bytes).is_ok(), "a canonical model reads back");
            let numeric = imported.model.architecture.numeric_or(Numeric::F32);
            if let Ok(image) = pack(&imported.model, numeric) {
                step_once(&ImageBuffer::new(&image));
            }
            true
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(char::is_control) && line.len() < 4000, "{line:?}");
            false
        }
    }
}

/// One step over zeros, if it is a model that needs little.
fn step_once(image: &ImageBuffer) {
    const MOST_WORDS: usize = 1 << 20;
    const MOST_MACS: usize = 1 << 24;
    let Ok(model) = image.model() else { return };
    let macs = model.nodes().fold(0_usize, |sum, node| sum.saturating_add(node.macs()));
    if model.state_words().max(model.scratch_words()) > MOST_WORDS || macs > MOST_MACS {
        return;
    }
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).expect("as much as the model says");
    let inputs: Vec<Vec<f32>> = model.inputs().map(|port| vec![1.0; port.size]).collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
    let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    model.step_ports(&mut state, &mut scratch, &inputs, &mut outputs).map(drop).expect("its buffers fit");
}

/// Data for [`import_torch`].
pub fn seed(flags: u8, arch: &[u8], file: &[u8]) -> Vec<u8> {
    let len = u16::try_from(arch.len()).expect("the descriptions of seeds are short");
    [&[flags], &len.to_le_bytes()[..], arch, file].concat()
}
