//! The benefit of fusing: an LSTM of 512 units over 70 steps, implemented in five ways. `cargo run --release -p
//! tidegate-fused --example lesson` prints the table of `docs/hosts.md`. All five must compute the same numbers.

use std::time::{Duration, Instant};

use tidegate::internals::{activation::Activation, cell::CellKind, node::Node};
use tidegate::{Model, State};
use tidegate_fused::FusedModel;
use tidegate_fused_bench::{Image, noises};

const TIME: usize = 70;
const SIZE: usize = 512;
const EPSILON: f32 = 1e-5;
/// Number of rounds. Only the fastest counts, because other processes disturb the others.
const ROUNDS: usize = 40;

/// The LSTM: whether gates and cell state are normalized, and whether the last feature is a mask.
#[derive(Clone, Copy)]
struct Kind {
    norm: bool,
    masked: bool,
}

/// The weights as in the image: the four gates of a unit side by side.
struct Weights<'m> {
    input: &'m [[[f32; 4]; SIZE]],
    recurrent: &'m [[[f32; 4]; SIZE]],
    bias: &'m [[f32; 4]],
    gate_gain: &'m [[f32; 4]],
    cell_gain: &'m [f32],
    cell_bias: &'m [f32],
}

impl<'m> Weights<'m> {
    fn of(node: &Node<'m>) -> Self {
        let floats = |name| -> &'m [f32] {
            let index = node.spec().tensors.iter().position(|tensor| tensor.name == name);
            let bytes = node.tensor(index.expect("a tensor of the LSTM"));
            // An absent tensor has no elements.
            if bytes.is_empty() { &[] } else { bytemuck::cast_slice(bytes) }
        };
        Self {
            input: floats("input_weights").as_chunks().0.as_chunks().0,
            recurrent: floats("recurrent_weights").as_chunks().0.as_chunks().0,
            bias: floats("bias").as_chunks().0,
            gate_gain: floats("gate_gain").as_chunks().0,
            cell_gain: floats("cell_gain"),
            cell_bias: floats("cell_bias"),
        }
    }
}

/// One operation at a time, each with its own output tensor, as in an interpreter.
mod ops {
    use super::{Activation, EPSILON};

    pub type Tensor = Vec<f32>;

    /// Rows of weights times a vector, with eight sums per row that the compiler can vectorize.
    pub fn matmul(rows: &[f32], x: &[f32]) -> Tensor {
        let dot = |row: &[f32]| {
            let mut sums = [0.0; 8];
            for (w, x) in row.as_chunks::<8>().0.iter().zip(x.as_chunks::<8>().0) {
                for ((sum, w), x) in sums.iter_mut().zip(w).zip(x) {
                    *sum += w * x;
                }
            }
            sums.iter().sum()
        };
        rows.chunks(x.len()).map(dot).collect()
    }

    pub fn concat(a: &[f32], b: &[f32]) -> Tensor {
        [a, b].concat()
    }

    pub fn add(a: &[f32], b: &[f32]) -> Tensor {
        a.iter().zip(b).map(|(a, b)| a + b).collect()
    }

    pub fn mul(a: &[f32], b: &[f32]) -> Tensor {
        a.iter().zip(b).map(|(a, b)| a * b).collect()
    }

    pub fn apply(activation: Activation, a: &[f32]) -> Tensor {
        a.iter().map(|&a| activation.apply(a)).collect()
    }

    pub fn normalize(a: &[f32]) -> Tensor {
        let mean = a.iter().sum::<f32>() / a.len() as f32;
        let variance = a.iter().map(|a| (a - mean).powi(2)).sum::<f32>() / a.len() as f32;
        a.iter().map(|a| (a - mean) / (variance + EPSILON).sqrt()).collect()
    }
}

/// The weights of an interpreter: one tensor per gate, row by row.
struct CellByCell {
    kind: Kind,
    weights: ops::Tensor,
    bias: Vec<ops::Tensor>,
    gate_gain: Vec<ops::Tensor>,
    cell_gain: ops::Tensor,
    cell_bias: ops::Tensor,
}

impl CellByCell {
    fn new(kind: Kind, weights: &Weights<'_>) -> Self {
        let gates = |of: &[[f32; 4]]| (0..4).map(|gate| of.iter().map(|unit| unit[gate]).collect()).collect();
        let mut rows = Vec::new();
        for gate in 0..4 {
            for (input, recurrent) in weights.input.iter().zip(weights.recurrent) {
                rows.extend(input.iter().chain(recurrent).map(|column| column[gate]));
            }
        }
        let (bias, gate_gain) = (gates(weights.bias), gates(weights.gate_gain));
        let (cell_gain, cell_bias) = (weights.cell_gain.to_vec(), weights.cell_bias.to_vec());
        Self { kind, weights: rows, bias, gate_gain, cell_gain, cell_bias }
    }

    fn step(&self, x: &[f32], h: &mut ops::Tensor, c: &mut ops::Tensor) {
        use ops::{add, apply, concat, matmul, mul, normalize};
        if self.kind.masked && x[SIZE - 1] == 0.0 {
            return;
        }
        let sums = matmul(&self.weights, &concat(x, h));
        let mut gates = sums.chunks(SIZE).map(<[f32]>::to_vec).collect::<Vec<_>>();
        for (index, gate) in gates.iter_mut().enumerate() {
            if self.kind.norm {
                *gate = mul(&normalize(gate), &self.gate_gain[index]);
            }
            *gate = add(gate, &self.bias[index]);
        }
        let [i, f, o] = [0, 1, 3].map(|gate| apply(Activation::Sigmoid, &gates[gate]));
        let g = apply(Activation::Tanh, &gates[2]);
        *c = add(&mul(&f, c), &mul(&i, &g));
        if self.kind.norm {
            *c = add(&mul(&normalize(c), &self.cell_gain), &self.cell_bias);
        }
        *h = mul(&o, &apply(Activation::Tanh, c));
    }
}

/// The step written by hand with constant sizes. The only temporaries are the sums, where normalization needs all of
/// them.
fn fixed_step<const NORM: bool, const MASKED: bool>(
    weights: &Weights<'_>,
    x: &[f32; SIZE],
    h: &mut [f32; SIZE],
    c: &mut [f32; SIZE],
) {
    if MASKED && x[SIZE - 1] == 0.0 {
        return;
    }
    let mut sums = [[0.0; 4]; SIZE];
    for (unit, sum) in sums.iter_mut().enumerate() {
        if !NORM {
            *sum = weights.bias[unit];
        }
        for (w, x) in weights.input[unit].iter().zip(x).chain(weights.recurrent[unit].iter().zip(&*h)) {
            for (sum, w) in sum.iter_mut().zip(w) {
                *sum += w * x;
            }
        }
    }
    if NORM {
        for gate in 0..4 {
            let mean = sums.iter().map(|sum| sum[gate]).sum::<f32>() / SIZE as f32;
            let variance = sums.iter().map(|sum| (sum[gate] - mean).powi(2)).sum::<f32>() / SIZE as f32;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            for ((sum, gain), bias) in sums.iter_mut().zip(weights.gate_gain).zip(weights.bias) {
                sum[gate] = (sum[gate] - mean) * scale * gain[gate] + bias[gate];
            }
        }
    }
    let (sigmoid, tanh) = (|x| Activation::Sigmoid.apply(x), |x| Activation::Tanh.apply(x));
    for (&[i, f, g, _], c) in sums.iter().zip(&mut *c) {
        *c = sigmoid(f) * *c + sigmoid(i) * tanh(g);
    }
    if NORM {
        let mean = c.iter().sum::<f32>() / SIZE as f32;
        let variance = c.iter().map(|c| (c - mean).powi(2)).sum::<f32>() / SIZE as f32;
        let scale = 1.0 / (variance + EPSILON).sqrt();
        for ((c, gain), bias) in c.iter_mut().zip(weights.cell_gain).zip(weights.cell_bias) {
            *c = (*c - mean) * scale * gain + bias;
        }
    }
    for ((&[.., o], c), h) in sums.iter().zip(c).zip(h) {
        *h = sigmoid(o) * tanh(*c);
    }
}

fn fixed<const NORM: bool, const MASKED: bool>(weights: &Weights<'_>, x: &[f32], y: &mut [f32]) {
    let (mut h, mut c) = ([0.0; SIZE], [0.0; SIZE]);
    for (x, y) in x.as_chunks().0.iter().zip(y.as_chunks_mut().0) {
        fixed_step::<NORM, MASKED>(weights, x, &mut h, &mut c);
        *y = h;
    }
}

/// Names of the five implementations, in order.
const WAYS: [&str; 5] =
    ["cell by cell, op by op", "one step, static sizes", "`tidegate`, dynamic sizes", "fused stream", "fused sequence"];

/// The shortest time of each implementation, and its outputs.
fn measure(kind: Kind, model: &Model<'_>, x: &[f32]) -> [(Duration, Vec<f32>); WAYS.len()] {
    let node = model.nodes().next().expect("one node");
    let weights = Weights::of(&node);
    let cell = CellByCell::new(kind, &weights);
    let (mut memory, mut core_scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let fused = FusedModel::new(model);
    let (mut stream, mut whole, mut scratch) = (fused.stream(), fused.stream(), fused.scratch());
    let mut least = WAYS.map(|_| (Duration::MAX, vec![f32::NAN; TIME * SIZE]));
    for _ in 0..ROUNDS {
        for (way, (least, y)) in least.iter_mut().enumerate() {
            let start = Instant::now();
            match way {
                0 => {
                    let (mut h, mut c) = (vec![0.0; SIZE], vec![0.0; SIZE]);
                    for (x, y) in x.chunks(SIZE).zip(y.chunks_mut(SIZE)) {
                        cell.step(x, &mut h, &mut c);
                        y.copy_from_slice(&h);
                    }
                }
                1 => match (kind.norm, kind.masked) {
                    (false, false) => fixed::<false, false>(&weights, x, y),
                    (false, true) => fixed::<false, true>(&weights, x, y),
                    (true, false) => fixed::<true, false>(&weights, x, y),
                    (true, true) => fixed::<true, true>(&weights, x, y),
                },
                2 => {
                    let mut state = State::new(model, &mut memory).expect("the model's own length");
                    for (x, y) in x.chunks(SIZE).zip(y.chunks_mut(SIZE)) {
                        assert!(model.step_f32(&mut state, &mut core_scratch, x, y).is_ok());
                    }
                }
                3 => {
                    stream.reset();
                    for (x, y) in x.chunks(SIZE).zip(y.chunks_mut(SIZE)) {
                        assert!(stream.step(x, y).is_ok());
                    }
                }
                _ => {
                    whole.reset();
                    fused.run(&mut whole.state(), &mut scratch, x, y).expect("every length is right");
                }
            }
            *least = start.elapsed().min(*least);
        }
    }
    least
}

fn main() {
    let kinds = [
        ("plain", Kind { norm: false, masked: false }, &[][..]),
        ("layer norm", Kind { norm: true, masked: false }, &["gate_norm", "cell_norm"]),
        ("masks", Kind { norm: false, masked: true }, &["masked"]),
        ("both", Kind { norm: true, masked: true }, &["gate_norm", "cell_norm", "masked"]),
    ];
    let mut columns = Vec::new();
    for (name, kind, options) in kinds {
        let image = Image::of(CellKind::Lstm, options, SIZE, SIZE);
        let mut x = noises(TIME * SIZE);
        for (step, x) in x.chunks_mut(SIZE).enumerate() {
            // A quarter of the steps is masked in models with a mask.
            x[SIZE - 1] = if step % 4 == 3 { 0.0 } else { 1.0 };
        }
        let ways = measure(kind, &image.model(), &x);
        let (_, expected) = &ways[2];
        for (way, (_, y)) in WAYS.iter().zip(&ways) {
            let worst = y.iter().zip(expected).map(|(y, expected)| (y - expected).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-4 && y.iter().all(|y| y.is_finite()), "{name}, {way}: {worst:e} from the reference");
        }
        columns.push((name, ways.map(|(least, _)| least.as_secs_f64() * 1e3)));
    }
    println!("| ms | {} |", columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" | "));
    println!("|---|{}", "---|".repeat(columns.len()));
    for (index, way) in WAYS.iter().enumerate() {
        let times: Vec<String> = columns.iter().map(|(_, ways)| format!("{:.2}", ways[index])).collect();
        println!("| {way} | {} |", times.join(" | "));
    }
}
