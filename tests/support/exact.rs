//! A step of an integer LSTM or GRU without its roundings, in f64: the same weights, starts, multipliers, shifts and
//! curves. The part of a start that compensates for rounding down is left out, and a curve is interpolated linearly
//! between its integer points.
//! Every value carries the maximum distance of the integer value, given that each rounding is off by
//! at most half a unit. Independent roundings add up as the root of their squares.

use crate::tolerance::worst;
use tidegate::internals::{
    cell::{CellKind, lstm::PEEPHOLE},
    curve::{sigmoid, tanh},
    node::Node,
    quant::RowBlock,
};

/// 1.0 in Q15.
const ONE: f64 = 32_768.0;
/// Maximum error of an integer sum: half a unit for the multiplication and, since no multiplier exceeds 2^31, half of
/// that again for the shift.
const OF_SUM: f64 = 0.75;

/// An exact value, and the maximum distance of the integer value from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Near {
    /// The value without roundings.
    pub value: f64,
    /// The maximum error that roundings cause.
    pub far: f64,
}

/// A row of a gate: its start, its weights over x and over h, and the scales of the two sums.
struct Row {
    start: f64,
    input: Vec<i32>,
    recurrent: Vec<i32>,
    input_scale: f64,
    recurrent_scale: f64,
}

impl Row {
    /// `first` means that the sum over h is the finer one.
    fn new(node: &Node<'_>, [input, recurrent]: [usize; 2], blocks: &[RowBlock], first: bool, row: usize) -> Self {
        let (block, at) = (&blocks[row / 4], row % 4);
        let multiplier = f64::from(block[4 + at]) / 4_294_967_296.0;
        let shift = block[8].to_le_bytes()[at];
        let (half, finer) = (if shift > 0 { f64::from(shift - 1).exp2() } else { 0.0 }, f64::from(shift).exp2());
        // The rounding constant that the packer adds to the bias (FORMAT.md).
        let start = (f64::from(block[at]) - half - 0.5 / multiplier * finer) / finer * multiplier;
        let (fine, coarse) = (multiplier / finer, multiplier);
        let (input_scale, recurrent_scale) = if first { (coarse, fine) } else { (fine, coarse) };
        let weights = |matrix| node.integer_row(matrix, row).map(i32::from).collect();
        Self { start, input: weights(input), recurrent: weights(recurrent), input_scale, recurrent_scale }
    }

    fn sum(&self, x: &[i16], h: f64) -> f64 {
        self.start + f64::from(dot(&self.input, x)) * self.input_scale + h * self.recurrent_scale
    }
}

/// The packer guarantees that the sum fits.
fn dot(weights: &[i32], x: &[i16]) -> i32 {
    weights.iter().zip(x).map(|(&weight, &x)| weight * i32::from(x)).sum()
}

/// A curve at a sum that may be off by `off`.
fn at(curve: fn(i32, u32) -> i32, sum: f64, off: f64, bits: u32) -> Near {
    let whole = sum.floor();
    let integers: [f64; 4] = [-1, 0, 1, 2].map(|more| f64::from(curve(whole as i32 + more, bits)));
    let steepest = worst(integers.windows(2).map(|pair| (pair[1] - pair[0]).abs()));
    Near { value: integers[1] + (integers[2] - integers[1]) * (sum - whole), far: steepest * off }
}

fn root<const N: usize>(parts: [f64; N]) -> f64 {
    parts.iter().map(|part| part * part).sum::<f64>().sqrt()
}

/// A cell whose steps are computed without roundings.
pub struct Exact {
    rows: Vec<Row>,
    /// Rows of a GRU's candidate.
    new: Vec<Row>,
    /// Factors of c in the sums of i and f, for an LSTM with peepholes.
    peepholes: Option<[Vec<f64>; 2]>,
    bits: u32,
    candidate: f64,
    /// Largest magnitude of the cell state.
    pub clip: f64,
    hidden: usize,
}

impl Exact {
    /// For an LSTM, or a GRU with the reset before the product, with σ and tanh and without normalization or masks.
    pub fn new(node: &Node<'_>) -> Self {
        let bits = node.number(0).unsigned_abs();
        let of = |matrices: [usize; 2], rows: usize, first: usize, count: usize| -> Vec<Row> {
            let blocks = node.rows(rows, count);
            (0..count).map(|row| Row::new(node, matrices, blocks, node.number(first) == 1, row)).collect()
        };
        let hidden = node.hidden_size;
        match node.kind {
            CellKind::Lstm => Self {
                rows: of([0, 1], 2, 7, 4 * hidden),
                new: Vec::new(),
                peepholes: node.has(PEEPHOLE).then(|| {
                    let unit = f64::from(-node.number(6)).exp2();
                    [3, 4].map(|index| {
                        let (factors, _) = node.tensor_bytes_at(index).as_chunks();
                        factors.iter().map(|&factor| f64::from(i16::from_le_bytes(factor)) * unit).collect()
                    })
                }),
                bits,
                candidate: f64::from(-node.number(2)).exp2(),
                clip: f64::from(node.number(4)),
                hidden,
            },
            CellKind::Gru => Self {
                rows: of([0, 1], 2, 1, 2 * hidden),
                new: of([3, 4], 5, 2, hidden),
                peepholes: None,
                bits,
                candidate: 1.0,
                clip: f64::INFINITY,
                hidden,
            },
            kind => panic!("{kind:?} has no exact step here"),
        }
    }

    /// One step. Returns the state that is carried to the next step: c' of an LSTM or h' of a GRU, in its own scale.
    /// `carried` is c or h of the previous step.
    pub fn step(&self, x: &[i16], h: &[i16], carried: &[i16]) -> Vec<Near> {
        let gates: Vec<f64> = self.rows.iter().map(|row| row.sum(x, f64::from(dot(&row.recurrent, h)))).collect();
        let gate = |sum: f64| at(sigmoid, sum, OF_SUM, self.bits);
        if self.new.is_empty() {
            let update = |(unit, (gates, &c)): (usize, (&[f64], &i16))| {
                let c = f64::from(c);
                let [i, f] = [0, 1].map(|index| match &self.peepholes {
                    // Rounded down without compensation: half a unit of a sum, subtracted like a bias.
                    Some(factors) => {
                        at(sigmoid, gates[index] + factors[index][unit] * c - 0.5, OF_SUM + 0.5, self.bits)
                    }
                    None => gate(gates[index]),
                });
                let g = at(tanh, gates[2], OF_SUM, self.bits);
                let entering = self.candidate / ONE;
                Near {
                    value: (f.value * c + i.value * g.value * self.candidate) / ONE,
                    far: root([0.5, f.far * c / ONE, i.far * g.value * entering, i.value * g.far * entering]),
                }
            };
            return gates.chunks(4).zip(carried).enumerate().map(update).collect();
        }
        // r ⊙ h, which is rounded, and z.
        let (r, z): (Vec<Near>, Vec<Near>) = gates.chunks(2).map(|pair| (gate(pair[0]), gate(pair[1]))).unzip();
        let reset: Vec<Near> = r
            .iter()
            .zip(h)
            .map(|(r, &h)| {
                let h = f64::from(h) / ONE;
                Near { value: r.value * h, far: root([0.5, r.far * h]) }
            })
            .collect();
        let unit = |(row, (z, &h)): (&Row, (&Near, &i16))| {
            let (mut sum, mut far) = (0.0, 0.0);
            for (&weight, reset) in row.recurrent.iter().zip(&reset) {
                let weight = f64::from(weight);
                sum += weight * reset.value;
                far += (weight * reset.far) * (weight * reset.far);
            }
            let off = root([OF_SUM, far.sqrt() * row.recurrent_scale]);
            let (n, h) = (at(tanh, row.sum(x, sum), off, self.bits), f64::from(h));
            let (share, apart) = (z.value / ONE, (h - n.value) / ONE);
            Near { value: n.value + share * (h - n.value), far: root([0.5, z.far * apart, (1.0 - share) * n.far]) }
        };
        self.new.iter().zip(z.iter().zip(h)).map(unit).collect()
    }

    /// Number of values that are carried.
    pub fn units(&self) -> usize {
        self.hidden
    }
}
