//! Seeded numbers and models: the same seed gives the same test on every machine.

use std::collections::BTreeMap;

use tidegate::activation::Activation;
use tidegate::cell::{CellKind, Dim, Presence};
use tidegate_tools::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor};

/// Those that the oracle knows.
const ACTIVATIONS: [Activation; 5] =
    [Activation::Identity, Activation::Sigmoid, Activation::Tanh, Activation::Relu, Activation::Softsign];

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// From a seed; any will do.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `end - 1`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Uniform in ±`limit`.
    pub fn number(&mut self, limit: f32) -> f32 {
        let unit = (self.bits() >> 40) as f32 / (1 << 24) as f32;
        (2.0 * unit - 1.0) * limit
    }

    /// So many uniform numbers in ±`limit`.
    pub fn numbers(&mut self, len: usize, limit: f32) -> Vec<f32> {
        (0..len).map(|_| self.number(limit)).collect()
    }
}

/// A cell with its options set, its weights not yet drawn.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Which cell.
    pub kind: CellKind,
    /// The options that are on.
    pub options: Vec<&'static str>,
    /// Clips.
    pub params: BTreeMap<String, f32>,
    /// Where they differ from the spec's defaults.
    pub activations: BTreeMap<String, String>,
}

impl Variant {
    fn new(kind: CellKind, options: &[&'static str]) -> Self {
        Self { kind, options: options.to_vec(), params: BTreeMap::new(), activations: BTreeMap::new() }
    }

    fn param(mut self, name: &str, value: f32) -> Self {
        self.params.insert(name.to_owned(), value);
        self
    }

    fn activation(mut self, name: &str, activation: Activation) -> Self {
        self.activations.insert(name.to_owned(), activation.to_string());
        self
    }

    /// For messages.
    pub fn name(&self) -> String {
        format!("{} {:?} {:?} {:?}", self.kind.spec().name, self.options, self.params, self.activations)
    }

    /// Every cell kind, with every combination of its options, its clips, and each of [`ACTIVATIONS`] in every place.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::new(CellKind::Softmax, &[])];
        let subsets: [&[&'static str]; 4] = [&[], &["peephole"], &["projection"], &["peephole", "projection"]];
        for options in subsets {
            let plain = Self::new(CellKind::Lstm, options);
            all.push(plain.clone().param("cell_clip", 0.25));
            let clipped = plain.clone().param("cell_clip", 0.5);
            let projected = options.contains(&"projection");
            all.push(if projected { clipped.param("projection_clip", 0.1) } else { clipped });
            all.push(plain);
        }
        all.push(Self::new(CellKind::Gru, &[]));
        all.push(Self::new(CellKind::Gru, &["reset_after"]));
        all.push(Self::new(CellKind::Elman, &[]));
        all.push(Self::new(CellKind::Dense, &[]));
        for kind in CellKind::ALL {
            for place in kind.spec().activations {
                for activation in ACTIVATIONS.into_iter().filter(|&activation| activation != place.default) {
                    let options: &[&'static str] = if kind == CellKind::Gru { &["reset_after"] } else { &[] };
                    all.push(Self::new(kind, options).activation(place.name, activation));
                }
            }
        }
        all
    }
}

/// Options of [`chain`].
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// Weights are uniform in plus and minus this over the square root of the columns.
    pub weights: f32,
    /// Whether optional biases are left out.
    pub biases: bool,
}

/// A model of these cells one after the other: each with its units, from `input_size` features on. A projection
/// halves (rounding up) what comes out. Ports are `in` and `out`, nodes `n0`, `n1`, ...
pub fn chain(rng: &mut Rng, input_size: usize, cells: &[(Variant, usize)], draw: Draw) -> Canonical {
    let mut nodes: Vec<Node> = Vec::new();
    let mut tensors = BTreeMap::new();
    let mut size = input_size;
    for (index, (variant, units)) in cells.iter().enumerate() {
        let spec = variant.kind.spec();
        let hidden_size = if variant.kind == CellKind::Softmax { size } else { *units };
        let projected = variant.options.contains(&"projection");
        let node = Node {
            name: format!("n{index}"),
            cell: spec.name.to_owned(),
            inputs: vec![if index == 0 { "in".to_owned() } else { format!("n{}", index - 1) }],
            input_size: size,
            hidden_size,
            output_size: if projected { hidden_size.div_ceil(2) } else { hidden_size },
            options: variant.options.iter().map(|&option| option.to_owned()).collect(),
            params: variant.params.clone(),
            activations: variant.activations.clone(),
        };
        draw_tensors(rng, &node, variant, draw, &mut tensors);
        size = node.output_size;
        nodes.push(node);
    }
    let from = nodes.last().map(|node| node.name.clone()).unwrap_or_default();
    let architecture = Architecture {
        version: 1,
        source: "tests".to_owned(),
        inputs: vec![port("in", input_size, "")],
        nodes,
        outputs: vec![port("out", size, &from)],
        labels: Vec::new(),
        front_end: None,
        schedule: Schedule::Endless,
        detector: None,
    };
    let model = Canonical { architecture, tensors };
    model.validate().expect("a drawn model is valid");
    model
}

/// A port.
pub fn port(name: &str, size: usize, from: &str) -> Port {
    Port { name: name.to_owned(), size, from: from.to_owned() }
}

fn draw_tensors(rng: &mut Rng, node: &Node, variant: &Variant, draw: Draw, tensors: &mut BTreeMap<String, Tensor>) {
    let spec = variant.kind.spec();
    let size = |dim| match dim {
        Dim::Input => node.input_size,
        Dim::Hidden => node.hidden_size,
        Dim::Output => node.output_size,
    };
    let on = |option: u32| variant.options.contains(&spec.options[option as usize]);
    for tensor in spec.canonical {
        let present = match tensor.presence {
            Presence::Always => true,
            Presence::Optional => draw.biases,
            Presence::With(option) => on(option),
            Presence::Without(option) => !on(option),
        };
        if !present {
            continue;
        }
        let rows = size(tensor.rows) * if tensor.gated { spec.gates.len() } else { 1 };
        let shape: Vec<usize> = [Some(rows), tensor.cols.map(size)].into_iter().flatten().collect();
        let limit = draw.weights / (tensor.cols.map_or(1, size) as f32).sqrt();
        let data = rng.numbers(shape.iter().product(), limit);
        tensors.insert(format!("{}.{}", node.name, tensor.name), Tensor { shape, data });
    }
}
