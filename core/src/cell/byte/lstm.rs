//! The LSTM in the numeric `i8`: TFLite's `UNIDIRECTIONAL_SEQUENCE_LSTM` of 8 bits with a cell state of 16.
//!
//! ```text
//! a = sat(sat((b + W x) · factor_x · 2^(shift_x - 31)) + (R h) · factor_h · 2^(shift_h - 31))     12 fraction bits
//! i, f, o = σ(a)    g = tanh(a)                                                                  15 fraction bits
//! c' = clip(sat(f c / 2^15 + i g / 2^(30 - cell_bits)))                                           cell_bits fraction bits
//! h' = clip(o tanh(c') · factor · 2^(shift - 31))                                                 the scale of the output
//! ```
//!
//! Each gate has factors and shifts of its own. A sum is requantized twice, over x and over h; each quotient is rounded by
//! itself; `sat` keeps 16 bits.

use super::{Limits, factor, limit, multiplier, shift};
use crate::cell::{Dim, IntegerSpec, Io, NumberSpec, Rule, Storage, TensorSpec, Unit, copy};
use crate::fixed::{Multiplier, halved, sigmoid, tanh};
use crate::gate;
use crate::kernel::Kernel;
use crate::node::Node;

/// Numbers of the spec by name.
mod number {
    /// The first of four of the first gate; those of the other gates follow.
    pub const GATES: usize = 0;
    pub const CELL_BITS: usize = 16;
    pub const CELL_CLIP: usize = 17;
    pub const FACTOR: usize = 18;
    pub const LEAST: usize = 20;
}

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
}

/// Integer bits of what a gate's activation takes.
const GATE_BITS: u32 = 3;

/// c is not clipped.
const NO_CLIP: i32 = 1 << 15;

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 0,
    rules: &[Rule::Equal(Dim::Hidden, Dim::Output)],
    numbers: &[
        factor("input_gate_input_factor"),
        shift("input_gate_input_shift"),
        factor("input_gate_recurrent_factor"),
        shift("input_gate_recurrent_shift"),
        factor("forget_gate_input_factor"),
        shift("forget_gate_input_shift"),
        factor("forget_gate_recurrent_factor"),
        shift("forget_gate_recurrent_shift"),
        factor("cell_gate_input_factor"),
        shift("cell_gate_input_shift"),
        factor("cell_gate_recurrent_factor"),
        shift("cell_gate_recurrent_shift"),
        factor("output_gate_input_factor"),
        shift("output_gate_input_shift"),
        factor("output_gate_recurrent_factor"),
        shift("output_gate_recurrent_shift"),
        NumberSpec { name: "cell_bits", least: 9, most: 15, usual: None },
        NumberSpec { name: "cell_clip", least: 1, most: NO_CLIP, usual: None },
        factor("factor"),
        shift("shift"),
        limit("least"),
        limit("most"),
    ],
    work: &[],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Output)
            .gates(&gate::LSTM)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("bias", &["input_bias", "recurrent_bias"], Dim::Hidden)
            .gates(&gate::LSTM)
            .stored(Storage::Starts { of: tensor::INPUT_WEIGHTS }),
    ],
};

/// The requantizations of a gate.
#[derive(Clone, Copy)]
struct Gate {
    input: Multiplier,
    recurrent: Multiplier,
}

impl Gate {
    fn of(node: &Node<'_>, index: usize) -> Self {
        let first = number::GATES + 4 * index;
        Self { input: multiplier(node, first), recurrent: multiplier(node, first + 2) }
    }

    /// What the activation takes, of the sums over x and h.
    fn preact(self, input: i32, recurrent: i32) -> i16 {
        let input = saturated(self.input.of(input));
        saturated(self.recurrent.of(recurrent).saturating_add(input.into()))
    }
}

/// To 16 bits.
fn saturated(value: i32) -> i16 {
    value.clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

/// A product without so many of its fraction bits.
fn product(a: i16, b: i16, bits: u32) -> i32 {
    i32::from(halved(i32::from(a) * i32::from(b), bits) as i16)
}

/// One step. `x` is `[input]`, `state` is `[output]` (h) and, from where a slot may begin, as many again (c), `y` is `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(state.len() / 2) else { return };
    let [input, forget, candidate, output] = [0, 1, 2, 3].map(|index| Gate::of(node, index));
    let bits = node.number(number::CELL_BITS).unsigned_abs() & 15;
    let clip = node.number(number::CELL_CLIP);
    let (shown, limits) = (multiplier(node, number::FACTOR), Limits::of(node, number::LEAST));
    let (x, h) = (K::operand(x, node.input_size), K::operand(hidden, node.output_size));
    let Some(w) = node.weights::<K>(tensor::INPUT_WEIGHTS, node.input_size) else { return };
    let Some(r) = node.weights::<K>(tensor::RECURRENT_WEIGHTS, node.output_size) else { return };
    let (starts, _) = node.words(tensor::BIAS).as_chunks::<4>();
    for (((&start, w), r), (c, y)) in starts.iter().zip(w).zip(r).zip(cell.iter_mut().zip(&mut *y)) {
        let [x_i, x_f, x_g, x_o] = K::dot(start, w, x);
        let [h_i, h_f, h_g, h_o] = K::dot([0; 4], r, h);
        let i = sigmoid(input.preact(x_i, h_i));
        let f = sigmoid(forget.preact(x_f, h_f));
        let g = tanh(candidate.preact(x_g, h_g), GATE_BITS);
        let o = sigmoid(output.preact(x_o, h_o));
        let sum = saturated(product(f, *c, 15) + product(i, g, 30 - bits));
        *c = saturated(i32::from(sum).max(-clip).min(clip));
        let shown = shown.of(i32::from(o) * i32::from(tanh(*c, 15 - bits)));
        *y = limits.hold(shown);
    }
    copy(hidden, y);
}
