//! Bodies of the importers' fuzz targets. Those of `core` are in `fuzz.rs`.

use prost::Message;
use tidegate_model::canonical::Canonical;
use tidegate_model::error::ImportError;
use tidegate_model::format::onnx::{Given, proto::ModelProto};
use tidegate_model::format::{Description, Imported, Options, graphdef, import_bytes_with, onnx, tf1};
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::pack;
use tidegate_model::tidegate::{Numeric, State};

/// Window length in steps for inputs that have the window flag.
const WINDOW: usize = 3;

/// A byte of flags, the length of a description (`--arch`) in two bytes, the description, then the file. Returns
/// whether the file became a model; the model must read back.
pub fn import_torch(data: &[u8]) -> bool {
    let Some((&[flags, low, high], rest)) = data.split_first_chunk::<3>() else { return false };
    let len = usize::from(u16::from_le_bytes([low, high]));
    let Some((arch, file)) = rest.split_at_checked(len) else { return false };
    let description: Option<Description> = serde_json::from_slice(arch).ok();
    if description.is_none() && len > 0 {
        return false;
    }
    let options = Options { description, window: (flags & 1 != 0).then_some(WINDOW), ..Options::default() };
    checked(import_bytes_with(file, "a file", &options), usize::MAX).is_some()
}

/// A byte of flags, then a frozen graph. A flag gives the first placeholder a shape. Returns whether the graph became a
/// model; the model must read back.
pub fn import_graph(data: &[u8]) -> bool {
    let Some((&flags, file)) = data.split_first() else { return false };
    let window = (flags & 1 != 0).then_some(WINDOW);
    let imported = graphdef::decode(file).and_then(|nodes| {
        let placeholder = nodes.iter().find(|node| node.op.starts_with("Placeholder")).filter(|_| flags & 2 != 0);
        let shapes = placeholder.map(|node| (node.name.clone(), vec![1, 5, 4])).into_iter().collect();
        let onnx = Given { shapes, ..Given::default() };
        tf1::import_graph(&nodes, "a file", &Options { window, onnx, ..Options::default() })
    });
    checked(imported, 2000).is_some()
}

/// A byte of flags, then an ONNX model. A flag makes the last output the next value of the last input. Returns whether it
/// became a model; the model must read back.
pub fn import_onnx(data: &[u8]) -> bool {
    let Some((&flags, file)) = data.split_first() else { return false };
    let graph = (flags & 2 != 0).then(|| ModelProto::decode(file).ok()?.graph).flatten();
    let pair = graph.and_then(|graph| Some((graph.input.last()?.name.clone(), graph.output.last()?.name.clone())));
    let onnx = Given { states: pair.into_iter().collect(), ..Given::default() };
    let options = Options { window: (flags & 1 != 0).then_some(WINDOW), onnx, ..Options::default() };
    checked(onnx::open(file, "a file", &options).map(|(imported, _)| imported), 4000).is_some()
}

/// A TFLite model. Returns whether it became a model; the model must read back, and its image must run if it can be
/// packed.
pub fn import_tflite(data: &[u8]) -> bool {
    let model = checked(import_bytes_with(data, "a file", &Options::default()), 4000);
    if let Some(model) = &model {
        let numeric = model.architecture.numeric_or(Numeric::F32);
        if let Ok(image) = pack(model, numeric) {
            step_once(&ImageBuffer::new(&image));
        }
    }
    model.is_some()
}

/// Returns an imported model after checking that it reads back, or checks that the error is a line of fewer than
/// `most` bytes.
fn checked(result: Result<Imported, ImportError>, most: usize) -> Option<Canonical> {
    match result {
        Ok(imported) => {
            let bytes = imported.model.to_bytes().expect("an imported model is valid");
            assert!(Canonical::from_bytes(&bytes).is_ok(), "a canonical model reads back");
            Some(imported.model)
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(char::is_control) && line.len() < most, "{line:?}");
            None
        }
    }
}

/// One step over ones, if the model is small enough.
fn step_once(image: &ImageBuffer) {
    const MOST_WORDS: usize = 1 << 20;
    const MOST_MACS: usize = 1 << 24;
    let Ok(model) = image.model() else { return };
    let macs = model.nodes().fold(0_usize, |sum, node| sum.saturating_add(node.macs()));
    if model.state_words().max(model.scratch_words()) > MOST_WORDS || macs > MOST_MACS {
        return;
    }
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
    let inputs: Vec<Vec<f32>> = model.inputs().map(|port| vec![1.0; port.size]).collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
    let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    model.step_ports(&mut state, &mut scratch, &inputs, &mut outputs).map(drop).expect("every length is right");
}

/// Encodes data for [`import_torch`].
pub fn seed(flags: u8, arch: &[u8], file: &[u8]) -> Vec<u8> {
    let len = u16::try_from(arch.len()).expect("the descriptions of seeds are short");
    [&[flags], &len.to_le_bytes()[..], arch, file].concat()
}
