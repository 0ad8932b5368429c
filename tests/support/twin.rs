//! A second implementation of the integer numerics, written from FORMAT.md: 64-bit integers, one row at a time. It
//! shares nothing with `core` except the numbers that the packer writes. Every sum is checked to fit in 32 bits, as the
//! packer promises.

mod layers;

use std::collections::{BTreeMap, VecDeque};

use tidegate::internals::{
    activation::Activation,
    cell::{CellKind, Storage, is_wide},
};
use tidegate::{Layout, Numeric};
use tidegate_model::canonical::{Canonical, Node};
use tidegate_model::quantize::{QuantizedNode, Ranges, Scales};

const ONE: i64 = 1 << 15;
const MAX: i64 = 32767;

/// An integer model.
pub struct Twin {
    nodes: Vec<TwinNode>,
    input: String,
    output: String,
    /// Scales of the input and of the output.
    pub scales: (f64, f64),
}

struct TwinNode {
    kind: CellKind,
    /// The option bits of the image.
    options: u32,
    node: Node,
    numbers: BTreeMap<&'static str, i64>,
    weights: BTreeMap<&'static str, Vec<Vec<i64>>>,
    rows: BTreeMap<&'static str, Vec<Row>>,
    /// Peepholes, tables, multipliers.
    vectors: BTreeMap<&'static str, Vec<i64>>,
    hidden: Vec<i64>,
    cell: Vec<i64>,
    /// Hidden states and cell states of rows that have states of their own.
    apart: Vec<(Vec<i64>, Vec<i64>)>,
    /// State of a window: its rows, and the number of steps until its next output.
    window: (VecDeque<Vec<i64>>, usize),
}

#[derive(Clone, Copy)]
struct Row {
    start: i64,
    multiplier: i64,
    shift: i64,
}

impl Twin {
    /// A network with one input and one output, quantized by the packer.
    pub fn new(model: &Canonical, ranges: &Ranges, numeric: Numeric) -> Self {
        let (model, scales) = &Scales::assign(model.clone(), ranges).expect("the model has no front end");
        let architecture = &model.architecture;
        let nodes = architecture.nodes.iter().map(|node| {
            let quantized = QuantizedNode::new(node, model, scales, ranges, numeric, Layout::Portable);
            let quantized = quantized.unwrap_or_else(|error| panic!("{error}: {node:?}"));
            TwinNode::new(node, &quantized, numeric)
        });
        let ends = (scales.of(&architecture.inputs[0].name), scales.of(&architecture.outputs[0].from));
        let (input, output) = (architecture.inputs[0].name.clone(), architecture.outputs[0].from.clone());
        Self { nodes: nodes.collect(), input, output, scales: ends }
    }

    /// One time step. Returns `None` if it has no output yet.
    pub fn step(&mut self, x: &[i16]) -> Option<Vec<i16>> {
        let mut values = BTreeMap::from([(self.input.clone(), x.iter().map(|&x| x.into()).collect())]);
        let mut valid = usize::MAX;
        for node in &mut self.nodes {
            let y = node.run(&values, &mut valid)?;
            assert!(y.iter().all(|value| value.abs() <= MAX), "{} leaves 16 bits", node.node.name);
            values.insert(node.node.name.clone(), y);
        }
        values.remove(&self.output).map(|values| values.into_iter().map(|value| value as i16).collect())
    }
}

impl TwinNode {
    fn new(node: &Node, quantized: &QuantizedNode, numeric: Numeric) -> Self {
        let kind = CellKind::from_name(&node.cell).expect("the cell exists");
        let spec = kind.integer_spec().expect("the cell has an integer form");
        let numbers = spec.numbers.iter().zip(&quantized.numbers).map(|(of, &number)| (of.name, number.into()));
        let (mut weights, mut rows, mut vectors) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (tensor, bytes) in spec.tensors.iter().zip(&quantized.tensors) {
            let Some(bytes) = bytes else { continue };
            let halves = || bytes.chunks(2).map(|half| i64::from(i16::from_le_bytes([half[0], half[1]]))).collect();
            match tensor.storage {
                Storage::Weights(_) => {
                    let cols = node
                        .dim(kind.spec(), tensor.cols.as_ref().expect("the tensor is a matrix"))
                        .expect("its columns");
                    let all: Vec<Vec<i64>> = match numeric {
                        Numeric::I4x16 => halved(bytes, cols),
                        _ => bytes
                            .chunks(4 * cols)
                            .flat_map(|block| {
                                [0, 1, 2, 3].map(|row| (0..cols).map(move |col| block[4 * col + row] as i8))
                            })
                            .map(|row| row.map(i64::from).collect())
                            .collect(),
                    };
                    weights.insert(tensor.name, all);
                }
                Storage::Rows { .. } => {
                    let all = bytes.chunks(36).flat_map(|block| {
                        let word = |at: usize| {
                            let bytes = &block[4 * at..4 * at + 4];
                            i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                        };
                        let row = |at: usize| Row {
                            start: word(at),
                            multiplier: word(4 + at),
                            shift: i64::from(block[32 + at]),
                        };
                        [row(0), row(1), row(2), row(3)]
                    });
                    rows.insert(tensor.name, all.collect());
                }
                Storage::Factors { .. } | Storage::Curve | Storage::Shifts => {
                    vectors.insert(tensor.name, halves());
                }
                Storage::Index => {
                    let at = |pair: &[u8]| i64::from(u16::from_le_bytes([pair[0], pair[1]]));
                    vectors.insert(tensor.name, bytes.chunks(2).map(at).collect());
                }
                Storage::Multipliers | Storage::Addends | Storage::Terms(_) | Storage::Gains(_) => {
                    let word = |bytes: &[u8]| i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                    vectors.insert(tensor.name, bytes.chunks(4).map(word).collect());
                }
                Storage::F32
                | Storage::Requantized { .. }
                | Storage::Starts { .. }
                | Storage::Taps
                | Storage::Values => {
                    panic!("not a storage of this numeric")
                }
            }
        }
        let cells = if kind == CellKind::Lstm { node.hidden_size } else { 0 };
        let waiting = if kind == CellKind::Delay { node.extent("steps") } else { 1 };
        let hidden = vec![0; waiting * node.output_size];
        Self {
            kind,
            node: node.clone(),
            options: quantized.options,
            numbers: numbers.collect(),
            weights,
            rows,
            vectors,
            cell: vec![0; cells],
            apart: vec![(hidden.clone(), vec![0; cells]); node.steps()],
            hidden,
            window: (VecDeque::new(), 0),
        }
    }

    /// The outputs over all rows that the node reads. Only the first `valid` rows of a window are present.
    fn run(&mut self, values: &BTreeMap<String, Vec<i64>>, valid: &mut usize) -> Option<Vec<i64>> {
        let steps = self.node.steps();
        let inputs: Vec<&[i64]> = self.node.inputs.iter().map(|name| values[name].as_slice()).collect();
        let row = |row: usize| -> Vec<i64> {
            inputs.iter().flat_map(|input| input.chunks(input.len() / steps).nth(row)).flatten().copied().collect()
        };
        match (self.kind, self.node.unroll) {
            (CellKind::Window, _) => {
                let rows = self.window(row(0))?;
                *valid = if rows.len() == self.extent("length") { usize::MAX } else { rows.len() };
                Some(rows.concat())
            }
            (CellKind::Repeat, _) => {
                *valid = usize::MAX;
                Some(row(0).repeat(self.extent("times")))
            }
            (_, None) => Some(self.step(&row(0), *valid)),
            (_, Some(unroll)) => {
                if !unroll.stateful {
                    self.hidden.fill(0);
                    self.cell.fill(0);
                }
                let there = steps.min(*valid);
                let mut rows = vec![vec![0; self.node.output_size]; steps];
                for k in 0..there {
                    let at = |backwards: bool| if backwards { there - 1 - k } else { k };
                    if unroll.apart {
                        (self.hidden, self.cell) = self.apart[k].clone();
                    }
                    rows[at(unroll.write_backwards)] = self.step(&row(at(unroll.read_backwards)), *valid);
                    if unroll.apart {
                        self.apart[k] = (self.hidden.clone(), self.cell.clone());
                    }
                }
                Some(rows.concat())
            }
        }
    }

    fn step(&mut self, x: &[i64], valid: usize) -> Vec<i64> {
        if self.has("masked") && x.last() == Some(&0) {
            return self.hidden.clone();
        }
        match self.kind {
            CellKind::Lstm => self.lstm(x),
            CellKind::Gru => self.gru(x),
            CellKind::Elman => {
                let units = self.node.hidden_size;
                let h = self.hidden.clone();
                let sum =
                    |row| self.pair("rows", ("input_weights", x), ("recurrent_weights", &h), "recurrent_first", row);
                let y: Vec<i64> =
                    (0..units).map(|row| self.activate("activation", sum(row)).clamp(-MAX, MAX)).collect();
                self.hidden.clone_from(&y);
                y
            }
            CellKind::Dense => {
                let sum = |row| self.single("rows", ("weights", x), row);
                (0..self.node.output_size).map(|row| self.activate("activation", sum(row)).clamp(-MAX, MAX)).collect()
            }
            CellKind::Slice => {
                let (rows, first) = (self.extent("rows"), self.extent("first"));
                let part = first..first + self.node.output_size / rows;
                x.chunks(x.len() / rows).flat_map(|row| row[part.clone()].to_vec()).collect()
            }
            CellKind::Gather => {
                let rows = self.extent("rows");
                let index = &self.vectors["index"][..self.node.output_size / rows];
                let of = |row: &[i64]| index.iter().map(|&at| row.get(at as usize).copied().unwrap_or(0)).collect();
                x.chunks(x.len() / rows).flat_map(|row| -> Vec<i64> { of(row) }).collect()
            }
            CellKind::Delay => {
                self.hidden.extend(x);
                self.hidden.drain(..x.len()).collect()
            }
            CellKind::Softmax => self.softmax(x),
            CellKind::Conv => self.conv(x, self.extent("groups")),
            CellKind::DepthwiseConv => self.conv(x, self.extent("in_channels")),
            CellKind::Pool => self.pool(x),
            CellKind::Activation => self.activation_layer(x),
            CellKind::Scale => self.scale(x),
            CellKind::LayerNorm => self.layer_norm(x),
            CellKind::Embedding => self.embedding(x),
            CellKind::Merge => self.merge(x),
            CellKind::Identity => self.identity(x),
            CellKind::Last => self.last(x, valid),
            CellKind::MinGru => self.min_gru(x),
            CellKind::MinLstm => self.min_lstm(x),
            CellKind::FastRnn => self.fast_rnn(x),
            CellKind::FastGrnn => self.fast_grnn(x),
            other => panic!("{other:?} has no twin"),
        }
    }

    fn number(&self, name: &str) -> i64 {
        self.numbers[name]
    }

    fn has(&self, option: &str) -> bool {
        self.node.options.iter().any(|has| has == option)
    }

    /// `⌊(((start + Σ fine) >> shift) + Σ coarse) · multiplier / 2^32⌋`
    fn pair(&self, rows: &str, input: (&str, &[i64]), recurrent: (&str, &[i64]), first: &str, row: usize) -> i64 {
        if is_wide(self.options) {
            let of_state = self.rows[rows].len() / 2;
            return self.one(self.rows[rows][row], input, row)
                + self.one(self.rows[rows][of_state + row], recurrent, row);
        }
        let (fine, coarse) = if self.number(first) == 1 { (recurrent, input) } else { (input, recurrent) };
        let Row { start, multiplier, shift } = self.rows[rows][row];
        let fine = within(start + dot(&self.weights[fine.0][row], fine.1));
        let sum = within((fine >> shift) + dot(&self.weights[coarse.0][row], coarse.1));
        (sum * multiplier) >> 32
    }

    fn single(&self, rows: &str, operand: (&str, &[i64]), row: usize) -> i64 {
        self.one(self.rows[rows][row], operand, row)
    }

    /// A sum over one matrix. The fine plane of weights of 16 bits follows the coarse one.
    fn one(&self, Row { start, multiplier, shift }: Row, (weights, x): (&str, &[i64]), row: usize) -> i64 {
        let weights = &self.weights[weights];
        let sum = if is_wide(self.options) {
            let fine = within(start + dot(&weights[weights.len() / 2 + row], x));
            within((fine >> shift) + dot(&weights[row], x))
        } else {
            within(start + dot(&weights[row], x))
        };
        (sum * multiplier) >> 32
    }

    fn lstm(&mut self, x: &[i64]) -> Vec<i64> {
        let finer = |unit: usize| self.vectors.get("cell_shifts").map_or(0, |shifts| shifts[unit]);
        let factor = |name: &str, unit: usize, c: i64| match self.vectors.get(name) {
            Some(factors) => (factors[unit] * c) >> (self.number("peephole_shift") + finer(unit)),
            None => 0,
        };
        let gate = |sum: i64| self.activate("gate_activation", within(sum)).clamp(0, ONE);
        let clip = |(unit, c): (usize, i64)| {
            let clip = self.number("cell_clip") << finer(unit);
            c.clamp(-clip, clip).clamp(-ONE, ONE - 1)
        };
        let preacts = self.preacts(x);
        let remembered = preacts.chunks(4).zip(&self.cell).enumerate().map(|(unit, (sums, &c))| {
            let forget = gate(sums[1] + factor("forget_peephole", unit, c));
            let enter =
                if self.has("coupled") { ONE - forget } else { gate(sums[0] + factor("input_peephole", unit, c)) };
            let candidate = self.activate("cell_activation", sums[2]).clamp(-ONE, ONE);
            within(forget * c + (within(enter * candidate) >> (self.number("candidate_shift") - finer(unit))))
        });
        let remembered: Vec<i64> = remembered.collect();
        let cell_bits = self.number("cell_bits");
        let cells: Vec<i64> = if self.has("cell_norm") {
            let y = self.normalized(&remembered, cell_bits + 15, false);
            (0..y.len())
                .map(|unit| clip((unit, self.gained("cell_gain", unit, y[unit]) + self.vectors["cell_bias"][unit])))
                .collect()
        } else {
            remembered.iter().map(|&remembered| from_q15(remembered)).enumerate().map(clip).collect()
        };
        let shown: Vec<i64> = if self.has("output_norm") {
            let y = self.normalized(&cells, cell_bits, false);
            let sum = |unit| self.gained("output_gain", unit, y[unit]) + self.vectors["output_bias"][unit];
            (0..y.len()).map(|unit| self.activate("output_activation", sum(unit))).collect()
        } else {
            let shown = |(unit, &c): (usize, &i64)| match self.activation("output_activation") {
                Activation::Identity => c << (self.number("memory_bits") - cell_bits),
                Activation::Relu => c.max(0) << (self.number("memory_bits") - cell_bits),
                of => self.curve("output_activation", of, c << (15 - cell_bits - finer(unit)), 15),
            };
            cells.iter().enumerate().map(shown).collect()
        };
        let memory = |unit: usize| {
            let output = gate(preacts[4 * unit + 3] + factor("output_peephole", unit, cells[unit]));
            from_q15(within(output * shown[unit].clamp(-ONE, ONE))).clamp(-MAX, MAX)
        };
        let memory: Vec<i64> = (0..cells.len()).map(memory).collect();
        self.cell = cells;
        if self.has("projection") {
            let clip = self.number("projection_clip");
            let sum = |row| self.single("projection_rows", ("projection_weights", &memory), row);
            self.hidden = (0..self.node.output_size).map(|row| sum(row).clamp(-clip, clip)).collect();
        } else {
            self.hidden = memory;
        }
        self.hidden.clone()
    }

    /// Gate sums of an LSTM without the contribution of c, unit by unit.
    fn preacts(&self, x: &[i64]) -> Vec<i64> {
        let (rows, h) = (4 * self.node.hidden_size, self.hidden.as_slice());
        let pair =
            |of: &str, row| self.pair(of, ("input_weights", x), ("recurrent_weights", h), "recurrent_first", row);
        if self.has("joint_norm") {
            let sums = |of: &str, by: (&str, &[i64])| (0..rows).map(|row| self.single(of, by, row)).collect::<Vec<_>>();
            let from_input = sums("input_sum_rows", ("input_weights", x));
            let from_hidden = sums("recurrent_sum_rows", ("recurrent_weights", h));
            let from_input = self.normalized(&from_input, self.number("sum_bits"), false);
            let from_hidden = self.normalized(&from_hidden, self.number("recurrent_sum_bits"), false);
            let sum = |row| {
                let from_hidden = self.gained("recurrent_gain", row, from_hidden[row]);
                within(self.gained("input_gain", row, from_input[row]) + from_hidden + self.vectors["joint_bias"][row])
            };
            (0..rows).map(sum).collect()
        } else if self.has("gate_norm") {
            let mut preacts = vec![0; rows];
            for gate in 0..4 {
                let of_gate = || (gate..rows).step_by(4);
                let sums: Vec<i64> = of_gate().map(|row| pair("gate_sum_rows", row)).collect();
                for (row, y) in of_gate().zip(self.normalized(&sums, self.number("sum_bits"), false)) {
                    preacts[row] = within(self.gained("gate_gain", row, y) + self.vectors["gate_bias"][row]);
                }
            }
            preacts
        } else {
            (0..rows).map(|row| pair("rows", row)).collect()
        }
    }

    fn gained(&self, gains: &str, row: usize, y: i64) -> i64 {
        (within(y) * self.vectors[gains][row]) >> 32
    }

    /// Normalized values with 23 fraction bits; the inputs have `bits`. With `rms`, the mean is 0.
    fn normalized(&self, values: &[i64], bits: i64, rms: bool) -> Vec<i64> {
        let n = values.len() as i64;
        let first = if rms { 0 } else { values[0] };
        let differences: Vec<i64> = values.iter().map(|value| value - first).collect();
        let width = |b: &i64| if *b < 0 { 64 - (-b - 1).leading_zeros() } else { 64 - b.leading_zeros() };
        let shift = i64::from(differences.iter().map(width).max().expect("there is a unit")) - 15;
        let shifted = |value: i64, by: i64| if by < 0 { value << -by } else { value >> by };
        let q: Vec<i64> = differences.iter().map(|&b| shifted(b, shift)).collect();
        let sum: i64 = if rms { 0 } else { q.iter().sum() };
        let variance = n * q.iter().map(|q| q * q).sum::<i64>() - sum * sum;
        if variance == 0 {
            return vec![0; values.len()];
        }
        let exponent = 2 * bits - self.number("epsilon_bits") - 2 * shift;
        let epsilon = (n * n * self.number("epsilon")) as f64 * (exponent as f64).exp2();
        // A 43-bit product and a power of two, so exact.
        let coarser = (0_i32..).find(|k| epsilon / f64::from(2 * k).exp2() < 62.0_f64.exp2()).expect("a few bits");
        let epsilon = (epsilon / f64::from(2 * coarser).exp2()).floor() as i64;
        let variance = variance.checked_shr(2 * coarser.unsigned_abs()).unwrap_or(0) + epsilon;
        let power = (i64::from(64 - variance.leading_zeros()) - 23) / 2;
        let root = inverse_root(variance >> (2 * power));
        let len_bits = (0..).find(|bits| 1 << bits >= n).expect("a few bits");
        let place = (power + i64::from(coarser) - len_bits).min(63);
        let y = |q: &i64| shifted((within((n * q - sum) << (14 - len_bits)) * root) >> 32, place);
        q.iter().map(y).collect()
    }

    fn gru(&mut self, x: &[i64]) -> Vec<i64> {
        let (units, h) = (self.node.hidden_size, self.hidden.clone());
        let gate = |row| {
            let (input, recurrent) = (("gate_input_weights", x), ("gate_recurrent_weights", h.as_slice()));
            let sum = self.pair("gate_rows", input, recurrent, "gate_recurrent_first", row);
            self.activate("gate_activation", sum).clamp(0, ONE)
        };
        let (r, z): (Vec<i64>, Vec<i64>) = (0..units).map(|unit| (gate(2 * unit), gate(2 * unit + 1))).unzip();
        let reset: Vec<i64> = r.iter().zip(&h).map(|(r, h)| from_q15(r * h)).collect();
        let candidate = |unit: usize| {
            let sum = if self.has("reset_after") {
                let carried = self.single("new_recurrent_rows", ("new_recurrent_weights", &h), unit);
                let kept = from_q15(within(r[unit] * carried.clamp(-65536, 65535)));
                self.single("new_input_rows", ("new_input_weights", x), unit) + kept
            } else {
                let (input, recurrent) = (("new_input_weights", x), ("new_recurrent_weights", reset.as_slice()));
                self.pair("new_rows", input, recurrent, "new_recurrent_first", unit)
            };
            self.activate("new_activation", sum).clamp(-MAX, MAX)
        };
        let next = |unit: usize| from_q15(within(z[unit] * h[unit] + (ONE - z[unit]) * candidate(unit)));
        self.hidden = (0..units).map(next).collect();
        self.hidden.clone()
    }

    fn min_gru(&mut self, x: &[i64]) -> Vec<i64> {
        let (gate_bits, bits) = (self.number("preact_bits"), self.number("hidden_bits"));
        let next = |(unit, &h): (usize, &i64)| {
            let z = sigmoid(self.single("rows", ("input_weights", x), 2 * unit), gate_bits);
            let n = positive(self.single("rows", ("input_weights", x), 2 * unit + 1), bits);
            from_q15(within((ONE - z) * h + z * n))
        };
        self.hidden = self.hidden.iter().enumerate().map(next).collect();
        self.hidden.clone()
    }

    fn min_lstm(&mut self, x: &[i64]) -> Vec<i64> {
        let (gate_bits, bits) = (self.number("preact_bits"), self.number("hidden_bits"));
        // -ln(1 - k / 128), k at most 64.
        let minus_ln = |k: i64| (-(-k as f64 / 128.0).ln_1p() * ONE as f64).round() as i64;
        let log = |a: i64| {
            let d = ONE - sigmoid(a.abs(), gate_bits);
            let (k, part) = (d / 256, d % 256);
            let rise = if part > 0 { minus_ln(k + 1) - minus_ln(k) } else { 0 };
            minus_ln(k) + rise * part / 256
        };
        let next = |(unit, &h): (usize, &i64)| {
            let [i, f, g] = [0, 1, 2].map(|gate| self.single("rows", ("input_weights", x), 3 * unit + gate));
            let far = ((f.min(0) - i.min(0)) << (15 - gate_bits)).clamp(-32 * ONE, 32 * ONE);
            let s = sigmoid(far + log(i) - log(f), 15);
            from_q15(within(s * h + (ONE - s) * positive(g, bits)))
        };
        self.hidden = self.hidden.iter().enumerate().map(next).collect();
        self.hidden.clone()
    }

    /// The value that the recurrent weights multiply.
    fn carried(&self) -> Vec<i64> {
        if !self.has("low_rank") {
            return self.hidden.clone();
        }
        let rank = self.weights["recurrent_basis"].len().min(self.node.extents["rank"]);
        let row = |row| self.single("basis_rows", ("recurrent_basis", &self.hidden), row).clamp(-MAX, MAX);
        (0..rank).map(row).collect()
    }

    fn fast_rnn(&mut self, x: &[i64]) -> Vec<i64> {
        let carried = self.carried();
        let next = |(unit, &h): (usize, &i64)| {
            let sum = self.pair("rows", ("input_weights", x), ("recurrent_weights", &carried), "recurrent_first", unit);
            let c = self.activate("activation", sum).clamp(-MAX, MAX);
            let entering = within(self.number("alpha") * c) >> self.number("alpha_shift");
            from_q15(within(self.number("beta") * h + entering)).clamp(-MAX, MAX)
        };
        self.hidden = self.hidden.iter().enumerate().map(next).collect();
        self.hidden.clone()
    }

    fn fast_grnn(&mut self, x: &[i64]) -> Vec<i64> {
        let carried = self.carried();
        let next = |(unit, &h): (usize, &i64)| {
            let sum = self.pair("rows", ("input_weights", x), ("recurrent_weights", &carried), "recurrent_first", unit);
            let biased = |bias: &str| within(sum + self.vectors[bias][unit]);
            let z = self.activate("gate_activation", biased("gate_bias")).clamp(0, ONE);
            let c = self.activate("candidate_activation", biased("candidate_bias")).clamp(-MAX, MAX);
            let share = (from_q15(self.number("zeta") * (ONE - z)) + self.number("nu")).min(MAX);
            let entering = within(share * c) >> self.number("mix_shift");
            from_q15(within(z * h + entering)).clamp(-MAX, MAX)
        };
        self.hidden = self.hidden.iter().enumerate().map(next).collect();
        self.hidden.clone()
    }

    fn softmax(&self, x: &[i64]) -> Vec<i64> {
        let max = *x.iter().max().expect("there is an input");
        let e: Vec<i64> = x
            .iter()
            .map(|x| {
                let t = ((((max - x) << 14) * self.number("multiplier")) >> 32) << self.number("lift");
                let (whole, fraction) = (t >> 15, t & (ONE - 1));
                if whole > 15 {
                    return 0;
                }
                let power = |k: i64| (ONE as f64 * (-k as f64 / 64.0).exp2()).round() as i64;
                let (index, part) = (fraction >> 9, fraction & 511);
                let value = power(index) - (((power(index) - power(index + 1)) * part) >> 9);
                (value + ((1 << whole) >> 1)) >> whole
            })
            .collect();
        let share = (1 << 31) / e.iter().sum::<i64>();
        e.iter().map(|e| ((e * share) >> 16).min(MAX)).collect()
    }

    fn activation(&self, name: &str) -> Activation {
        let spec =
            self.kind.spec().activations.iter().find(|spec| spec.name == name).expect("the cell has the activation");
        self.node.activations.get(name).map_or(spec.default, |text| text.parse().expect("the activation is known"))
    }

    /// Applies an activation to a sum.
    fn activate(&self, name: &str, sum: i64) -> i64 {
        self.curve(name, self.activation(name), sum, self.number("preact_bits"))
    }

    fn curve(&self, name: &str, of: Activation, x: i64, bits: i64) -> i64 {
        let table = name.replace("activation", "table");
        match (of, self.vectors.get(table.as_str())) {
            (Activation::Identity, None) => x,
            (Activation::Relu, None) => x.max(0),
            (Activation::Sigmoid, None) => sigmoid(x, bits),
            (Activation::Tanh, None) => tanh_half(x << (6 - bits).max(0), bits.max(6) - 1),
            (Activation::Softsign, Some(_)) if x < 0 => -self.curve(name, of, -x, bits),
            (Activation::Sqrt | Activation::Softsign | Activation::Log { .. }, Some(values)) if x <= 0 => values[512],
            (Activation::Sqrt | Activation::Softsign | Activation::Log { .. }, Some(values)) => {
                let octave = i64::from(x.ilog2());
                // In 2^-19 of an octave, rounded down.
                let place = ((x - (1 << octave)) << 19) >> octave;
                let (index, part) = ((16 * octave + (place >> 15)) as usize, place % (1 << 15));
                let (from, to) = (values[index], values[index + 1]);
                from + (((to - from) * part + (1 << 14)) >> 15)
            }
            (_, values) => {
                let (shift, values) =
                    (self.number(&format!("{table}_shift")), values.expect("the activation has a table"));
                let at = x.clamp(-256 << shift, (256 << shift) - 1) + (256 << shift);
                let (index, part) = ((at >> shift) as usize, at & ((1 << shift) - 1));
                let (from, to) = (values[index], values[index + 1]);
                from + (((to - from) * part + ((1 << shift) >> 1)) >> shift)
            }
        }
    }
}

/// g of minGRU and minLSTM: a sum plus 1/2, or its sigmoid if it is negative, with `bits` fraction bits.
fn positive(sum: i64, bits: i64) -> i64 {
    if sum >= 0 {
        (sum + (1 << bits) / 2).min(MAX)
    } else {
        (2 * sigmoid(sum, bits) + (1 << (15 - bits)) - i64::from(bits == 15)) >> (16 - bits)
    }
}

fn sigmoid(x: i64, bits: i64) -> i64 {
    (ONE + 1 + tanh_half(x << (6 - bits).max(0), bits.max(6))) >> 1
}

/// tanh(x / 2), interpolated between rounded-up values at every 1/32.
fn tanh_half(x: i64, bits: i64) -> i64 {
    let value = |k: i64| ((ONE as f64 * (k as f64 / 64.0).tanh()).ceil() as i64).clamp(-MAX, MAX);
    let shift = bits - 5;
    let index = (x >> shift).clamp(-512, 511);
    let (from, to) = (value(index), value(index + 1));
    from + (((to - from) * (x & ((1 << shift) - 1))) >> shift)
}

/// 2^41 / √m, approximately.
fn inverse_root(m: i64) -> i64 {
    let mulh = |a: i64, b: i64| (within(a) * within(b)) >> 32;
    (0..3).fold(1_144_608_784 - mulh(m << 7, 1_307_817_541), |r, _| {
        let left = 3 * (1 << 28) - mulh(2 * mulh(2 * r, 2 * r), m << 7);
        2 * mulh(2 * r, 2 * left)
    })
}

/// A product without its 15 extra fraction bits: rounded to nearest, halves up.
fn from_q15(product: i64) -> i64 {
    (product + ONE / 2) >> 15
}

fn within(sum: i64) -> i64 {
    assert!(i32::try_from(sum).is_ok(), "{sum} leaves 32 bits");
    sum
}

/// The weights of `i4x16`, each multiplied by the factor of its group. A group has up to 32 columns: four half bytes
/// for each column, padded to whole words, and four factors.
fn halved(bytes: &[u8], cols: usize) -> Vec<Vec<i64>> {
    let (mut rows, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let mut block = [const { Vec::new() }; 4];
        for first in (0..cols).step_by(32) {
            let here = (cols - first).min(32);
            let (weights, behind) = rest.split_at(4 * here.div_ceil(2));
            let (factors, behind) = behind.split_at(4);
            for (row, to) in block.iter_mut().enumerate() {
                let weight = |col: usize| {
                    let half = i64::from(weights[2 * col + row / 2] >> (4 * (row % 2)) & 15);
                    if half > 7 { half - 16 } else { half }
                };
                to.extend((0..here).map(|col| weight(col) * i64::from(factors[row])));
            }
            rest = behind;
        }
        rows.extend(block);
    }
    rows
}

fn dot(weights: &[i64], x: &[i64]) -> i64 {
    within(weights.iter().zip(x).map(|(w, x)| w * x).sum())
}
