//! Images of canonical models, and small models that together cover every feature.

use std::collections::BTreeMap;

use tidegate::internals::cell::CellKind;
use tidegate::{
    ImageBytes, Model, Numeric,
    front_end::{First, MelCorners, Method, Spectrum, Window},
};
use tidegate_model::canonical::{Canonical, Detector, Mfcc, Node, Schedule, Tensor, Unroll};
use tidegate_model::pack::pack;

use crate::random::{Draw, Rng, Variant, chain, port};

/// Bytes on the heap at a 16-byte boundary.
#[derive(Debug)]
pub struct AlignedBytes {
    buffer: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// Copies `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        let mut buffer = vec![0; bytes.len() + 16];
        let start = buffer.as_ptr().align_offset(16);
        buffer[start..start + bytes.len()].copy_from_slice(bytes);
        Self { buffer, start, len: bytes.len() }
    }

    /// Packs a model into an image.
    pub fn pack(model: &Canonical, numeric: Numeric) -> Self {
        Self::new(&pack(model, numeric).expect("the model packs"))
    }

    /// The bytes.
    pub fn get(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.len]
    }

    /// The bytes, to be changed.
    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.start + self.len]
    }

    /// The bytes for `Model::parse`.
    pub fn image(&self) -> ImageBytes<'_> {
        ImageBytes::new(self.get()).expect("the bytes are aligned")
    }

    /// The model of an image.
    pub fn model(&self) -> Model<'_> {
        Model::parse(self.image()).expect("the image is valid")
    }
}

/// A small model of each variant, and models with several nodes and every section. Names are unique in a corpus.
pub fn small_models() -> Vec<(String, Canonical)> {
    let mut rng = Rng::new(7);
    let draw = Draw { weights: 1.0, biases: true };
    // Each activation occurs once, in the activation layer, because cells apply it by the same code.
    let seed = |variant: &Variant| variant.activations.is_empty() || variant.kind == CellKind::Activation;
    let mut models: Vec<(String, Canonical)> = Variant::all()
        .into_iter()
        .filter(seed)
        .enumerate()
        .map(|(index, variant)| {
            let name = format!("{index:02}_{}", variant.kind.spec().name);
            (name, chain(&mut rng, 3, &[(variant, 2)], draw))
        })
        .collect();
    let lstm = chain(&mut rng, 3, &[(Variant::plain("lstm"), 2)], draw);
    models.push(("windows".to_owned(), over_windows(lstm, 3, 3, true, true)));
    let conv = chain(&mut rng, 3, &[(Variant::plain("gru"), 2)], draw);
    models.push(("hops".to_owned(), over_windows(conv, 4, 2, false, false)));
    models.push(("embedding".to_owned(), embedding(&mut rng)));
    models.push(("whole".to_owned(), whole()));
    models.push(("wake_word".to_owned(), wake_word()));
    models.push(("ports".to_owned(), two_ports()));
    models
}

/// A model of one node that runs backwards over windows of `length` rows, one every `hop` steps.
pub fn over_windows(mut model: Canonical, length: usize, hop: usize, partial: bool, stateful: bool) -> Canonical {
    let input_size = model.architecture.inputs[0].size;
    let window = Node {
        name: "rows".to_owned(),
        cell: "window".to_owned(),
        inputs: vec![model.architecture.inputs[0].name.clone()],
        input_size,
        hidden_size: length * input_size,
        output_size: length * input_size,
        options: if partial { vec!["partial".to_owned()] } else { Vec::new() },
        params: BTreeMap::new(),
        activations: BTreeMap::new(),
        extents: [("length".to_owned(), length), ("hop".to_owned(), hop)].into(),
        unroll: None,
    };
    let node = &mut model.architecture.nodes[0];
    node.inputs = vec!["rows".to_owned()];
    node.unroll = Some(Unroll { steps: length, read_backwards: true, write_backwards: true, stateful, apart: false });
    model.architecture.outputs[0].size = length * node.output_size;
    model.architecture.nodes.insert(0, window);
    model.validate().expect("a node over windows is valid");
    model
}

/// An embedding with a table of four rows.
fn embedding(rng: &mut Rng) -> Canonical {
    let mut model = chain(rng, 1, &[(Variant::plain("identity"), 1)], Draw { weights: 1.0, biases: true });
    let node = &mut model.architecture.nodes[0];
    node.cell = "embedding".to_owned();
    (node.hidden_size, node.output_size) = (3, 3);
    node.extents = [("vocabulary".to_owned(), 4)].into();
    model.architecture.outputs[0].size = 3;
    model.tensors.insert("n0.weights".to_owned(), Tensor { shape: vec![4, 3], data: rng.numbers(12, 1.0) });
    model.validate().expect("an embedding is valid");
    model
}

/// A keyword spotter of several layers with every section and a schedule of windows.
pub fn whole() -> Canonical {
    let cells = ["elman", "lstm", "gru", "dense", "softmax"].map(|cell| (Variant::plain(cell), 3));
    let mut model = chain(&mut Rng::new(8), 2, &cells, Draw { weights: 1.0, biases: true });
    model.architecture.labels = ["_silence_", "ja", "nein"].map(str::to_owned).to_vec();
    model.architecture.schedule = Schedule::Windows { frames: 3, every: 2 };
    model.architecture.detector = Some(Detector::default_for(&model.architecture.labels, 1000));
    model.architecture.front_end = Some(Mfcc {
        method: Method::Mfcc,
        sample_rate: 8000,
        window_len: 4,
        stride_len: 3,
        window: Window::Hann,
        fft_len: 256,
        spectrum: Spectrum::Magnitude,
        mel_bands: 4,
        lower_hz: 0.0,
        upper_hz: 1000.0,
        bins_per_rate: None,
        corners: MelCorners::Exact,
        coefficients: 2,
        log_floor: 1e-12,
        first: First::Cepstrum,
        lead_frames: 0,
    });
    model
}

/// A network with one label whose front end uses the options that [`whole`] does not.
fn wake_word() -> Canonical {
    let cells = [(Variant::plain("gru"), 3), (Variant::plain("dense"), 1)];
    let mut model = chain(&mut Rng::new(10), 2, &cells, Draw { weights: 1.0, biases: true });
    model.architecture.labels = vec!["wach".to_owned()];
    model.architecture.schedule = Schedule::Windows { frames: 3, every: 1 };
    model.architecture.detector = Some(Detector::default_for(&model.architecture.labels, 1500));
    model.architecture.front_end = Some(Mfcc {
        method: Method::Mfcc,
        sample_rate: 8000,
        window_len: 260,
        stride_len: 4,
        window: Window::Rectangular,
        fft_len: 256,
        spectrum: Spectrum::Power,
        mel_bands: 4,
        lower_hz: 0.0,
        upper_hz: 8000.0,
        bins_per_rate: Some(129),
        corners: MelCorners::WholeBins,
        coefficients: 2,
        log_floor: 1e-12,
        first: First::LogEnergy,
        lead_frames: 2,
    });
    model
}

/// Two inputs and three outputs: two parallel chains, and one of the inputs itself.
pub fn two_ports() -> Canonical {
    let mut rng = Rng::new(9);
    let draw = Draw { weights: 1.0, biases: true };
    let mut model = chain(&mut rng, 3, &[(Variant::plain("gru"), 2), (Variant::plain("dense"), 4)], draw);
    let other = chain(&mut rng, 5, &[(Variant::plain("lstm"), 3)], draw);
    for mut node in other.architecture.nodes {
        for (name, tensor) in &other.tensors {
            model.tensors.insert(name.replace(&node.name, "side"), tensor.clone());
        }
        node.name = "side".to_owned();
        node.inputs = vec!["other".to_owned()];
        model.architecture.nodes.push(node);
    }
    model.architecture.inputs.push(port("other", 5, ""));
    model.architecture.outputs = vec![port("out", 4, "n1"), port("h", 3, "side"), port("echo", 3, "in")];
    model.validate().expect("two parallel chains are valid");
    model
}
