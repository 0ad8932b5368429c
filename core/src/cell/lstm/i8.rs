//! The LSTM in the numeric `i8`: TFLite's `UNIDIRECTIONAL_SEQUENCE_LSTM` of 8 bits with a cell state of 16.
//!
//! ```text
//! a = sat(sat((b + W x) · factor_x · 2^(shift_x - 31)) + (R h) · factor_h · 2^(shift_h - 31))     12 fraction bits
//! i, f, o = σ(a)    g = tanh(a)                                                                  15 fraction bits
//! c' = clip(sat(f c / 2^15 + i g / 2^(30 - cell_bits)))                                           cell_bits fraction bits
//! h' = clip(o tanh(c') · factor · 2^(shift - 31))                                                 the scale of the output
//! ```
//!
//! Each gate has its own factors and shifts. The sums over x and over h are requantized separately, each quotient is
//! rounded separately, and `sat` saturates to 16 bits.

use crate::cell::i8::{Limits, factor, limit, multiplier, saturated, shift};
use crate::cell::prelude::*;
use crate::fixed::{Multiplier, halved, sigmoid, tanh, tanh_of_gate};

const NUMBERS: &[NumberSpec] = &[
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
];

/// The first of the four numbers of the first gate; those of the other gates follow.
const GATES: usize = number(NUMBERS, "input_gate_input_factor");
const CELL_BITS: usize = number(NUMBERS, "cell_bits");
const CELL_CLIP: usize = number(NUMBERS, "cell_clip");
const FACTOR: usize = number(NUMBERS, "factor");
const LEAST: usize = number(NUMBERS, "least");

const TENSORS: &[&str] = &["input_weights", "recurrent_weights", "bias"];
const INPUT_WEIGHTS: usize = index(TENSORS, "input_weights");
const RECURRENT_WEIGHTS: usize = index(TENSORS, "recurrent_weights");
const BIAS: usize = index(TENSORS, "bias");

/// The value of `cell_clip` that disables clipping.
const NO_CLIP: i32 = 1 << 15;

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    rules: &[Rule::Equal(Dim::Hidden, Dim::Output)],
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Output)
            .gates(&gate::LSTM)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("bias", &["input_bias", "recurrent_bias"], Dim::Hidden)
            .gates(&gate::LSTM)
            .stored(Storage::Starts { of: INPUT_WEIGHTS }),
    ],
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// The requantizations of a gate.
#[derive(Clone, Copy)]
struct Gate {
    input: Multiplier,
    recurrent: Multiplier,
}

impl Gate {
    fn of(node: &Node<'_>, index: usize) -> Self {
        let first = GATES + 4 * index;
        Self { input: multiplier(node, first), recurrent: multiplier(node, first + 2) }
    }

    /// The argument of the activation, from the sums over x and h.
    fn preact(self, input: i32, recurrent: i32) -> i16 {
        let input = saturated(self.input.of(input));
        saturated(self.recurrent.of(recurrent).saturating_add(input.into()))
    }
}

/// The product without its last `bits` fraction bits, rounded.
fn product(a: i16, b: i16, bits: u32) -> i32 {
    i32::from(halved(i32::from(a) * i32::from(b), bits) as i16)
}

/// One step. `x` is `[input]`, `state` is `[output]` (h) and, aligned as a slot, `[output]` (c), `y` is `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(state.len() / 2) else { return };
    let [input, forget, candidate, output] = [0, 1, 2, 3].map(|index| Gate::of(node, index));
    let bits = node.number(CELL_BITS).unsigned_abs() & 15;
    let clip = node.number(CELL_CLIP);
    let (shown, limits) = (multiplier(node, FACTOR), Limits::of(node, LEAST));
    let (x, h) = (K::operand(x, node.input_size), K::operand(hidden, node.output_size));
    let Some(w) = node.weights::<K>(INPUT_WEIGHTS, node.input_size) else { return };
    let Some(r) = node.weights::<K>(RECURRENT_WEIGHTS, node.output_size) else { return };
    let (starts, _) = node.words(BIAS).as_chunks::<4>();
    for (((&start, w), r), (c, y)) in starts.iter().zip(w).zip(r).zip(cell.iter_mut().zip(&mut *y)) {
        let [x_i, x_f, x_g, x_o] = K::dot(start, w, x);
        let [h_i, h_f, h_g, h_o] = K::dot([0; 4], r, h);
        let i = sigmoid(input.preact(x_i, h_i));
        let f = sigmoid(forget.preact(x_f, h_f));
        let g = tanh_of_gate(candidate.preact(x_g, h_g));
        let o = sigmoid(output.preact(x_o, h_o));
        let sum = saturated(product(f, *c, 15) + product(i, g, 30 - bits));
        *c = saturated(i32::from(sum).max(-clip).min(clip));
        let shown = shown.of(i32::from(o) * i32::from(tanh(*c, 15 - bits)));
        *y = limits.hold(shown);
    }
    copy(hidden, y);
}
