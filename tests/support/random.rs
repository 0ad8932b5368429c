//! Seeded random numbers and models. The same seed gives the same test on every machine.

mod fit;
mod variant;

use std::collections::BTreeMap;

use tidegate::internals::cell::CellKind;
use tidegate_model::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor};

pub use fit::Fit;
pub use variant::Variant;

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts from a seed, which may be any value.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end - 1`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// One of the values.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A uniform number in ±`limit`.
    pub fn number(&mut self, limit: f32) -> f32 {
        let unit = (self.bits() >> 40) as f32 / (1 << 24) as f32;
        (2.0 * unit - 1.0) * limit
    }

    /// `len` uniform numbers in ±`limit`.
    pub fn numbers(&mut self, len: usize, limit: f32) -> Vec<f32> {
        (0..len).map(|_| self.number(limit)).collect()
    }
}

/// How [`chain`] draws tensors.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// Weights are uniform in ±`weights` / √columns.
    pub weights: f32,
    /// Whether optional biases are present.
    pub biases: bool,
}

/// A chain of cells, each with its number of units, that reads `input_size` features. A projection has half as many
/// outputs as units, rounded up. The ports are `in` and `out` and the nodes `n0`, `n1`, ...; if `n0` needs another
/// number of features, the dense layer `d0` produces them.
pub fn chain(rng: &mut Rng, input_size: usize, cells: &[(Variant, usize)], draw: Draw) -> Canonical {
    let mut nodes: Vec<Node> = Vec::new();
    let mut tensors = BTreeMap::new();
    let mut size = input_size;
    let dense = Variant::new(CellKind::Dense, &[]);
    for (index, (variant, units)) in cells.iter().enumerate() {
        let width = (variant.width)(size, *units);
        let wider = (width != size).then(|| (format!("d{index}"), &dense, width));
        for (name, variant, units) in wider.into_iter().chain([(format!("n{index}"), variant, *units)]) {
            let fit = (variant.fit)(size, units);
            let node = Node {
                name,
                cell: variant.kind.spec().name.to_owned(),
                inputs: vec![nodes.last().map_or_else(|| "in".to_owned(), |node| node.name.clone())],
                input_size: size,
                hidden_size: fit.hidden,
                output_size: fit.output,
                options: variant.options.iter().map(|&option| option.to_owned()).collect(),
                params: variant.params.clone(),
                activations: variant.activations.clone(),
                extents: fit.extents.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                unroll: None,
            };
            draw_tensors(rng, &node, variant.kind, draw, &mut tensors);
            size = node.output_size;
            nodes.push(node);
        }
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
        integers: BTreeMap::new(),
    };
    let model = Canonical { architecture, tensors };
    model.validate().expect("a drawn model is valid");
    model
}

/// A port.
pub fn port(name: &str, size: usize, from: &str) -> Port {
    Port { name: name.to_owned(), size, from: from.to_owned(), ..Port::default() }
}

/// A random state of the model: uniform in ±1, except that normalizers, which never fall below 1 once they have left 0,
/// are in 1 to 2.
pub fn draw_state(rng: &mut Rng, model: &Canonical) -> Vec<f32> {
    let mut values = Vec::new();
    for node in &model.architecture.nodes {
        let spec = CellKind::from_name(&node.cell).expect("a valid model names cells that exist").spec();
        for state in spec.states {
            let len = node.dim(spec, &state.len).expect("a small node's dimensions can be counted");
            let drawn = rng.numbers(len, 1.0).into_iter();
            values.extend(drawn.map(|value| if state.name == "normalizer" { 1.0 + value.abs() } else { value }));
        }
    }
    values
}

/// Draws every required tensor of the node, and the optional ones if `draw.biases` is set. Periods and the open parts
/// of a period are in 1/8 to 7/8.
pub fn draw_tensors(rng: &mut Rng, node: &Node, kind: CellKind, draw: Draw, tensors: &mut BTreeMap<String, Tensor>) {
    let spec = kind.spec();
    let size = |dim| node.dim(spec, dim).expect("a small node's dimensions can be counted");
    let options = node.option_bits(spec);
    for tensor in spec.canonical {
        let there = if draw.biases { tensor.presence.allowed(options) } else { tensor.presence.required(options) };
        if !there {
            continue;
        }
        let rows = size(&tensor.rows) * if tensor.gated { spec.gates.len() } else { 1 };
        let shape: Vec<usize> = [Some(rows), tensor.cols.as_ref().map(size)].into_iter().flatten().collect();
        let limit = draw.weights / (tensor.cols.as_ref().map_or(1, size) as f32).sqrt();
        let mut data = rng.numbers(shape.iter().product(), limit);
        if matches!(tensor.name, "period" | "ratio_on") {
            data.iter_mut().for_each(|value| *value = 0.125 + 0.75 * (*value / limit).abs());
        }
        // Positions in the input and, less often, beyond it.
        if tensor.name == "index" {
            data.iter_mut().for_each(|value| *value = rng.below(node.input_size + node.input_size / 4 + 1) as f32);
        }
        // The divisor in a liquid cell is a sum of these, so they are positive.
        if kind == CellKind::Ltc && ["capacitance", "leak", "input_weights", "recurrent_weights"].contains(&tensor.name)
        {
            data.iter_mut().for_each(|value| *value = value.abs());
        }
        tensors.insert(format!("{}.{}", node.name, tensor.name), Tensor { shape, data });
    }
}
