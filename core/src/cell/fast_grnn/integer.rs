//! FastGRNN in the integer numerics.
//!
//! ```text
//! a = ⌊(W x + R h) · multiplier / 2^32⌋                              preact_bits fraction bits
//! z = σ(a + b_z)    c = tanh(a + b_c)                                z has 15 fraction bits
//! k = min((zeta (1 - z)) / 2^15 + nu, 32767)                         ζ (1 - z) + ν
//! h' = clip((z h + (k c >> mix_shift)) / 2^15)                       the scale of the output
//! ```
//!
//! A quotient by 2^15 is rounded to nearest. `zeta` and `nu` are ζ and ν times the ratio of the units of c and h. With
//! `low_rank`, R multiplies B h = clip(⌊(B h) · multiplier / 2^32⌋), which has `latent_bits` fraction bits. Activations
//! other than σ and tanh are tabulated.

use super::{LOW_RANK, RECURRENT_COLS};
use crate::cell::integer::{CHUNK, NO_SUMS, Pair, PairTensors, low_rank};
use crate::cell::low_rank::RANK;
use crate::cell::prelude::*;
use crate::quant::{MAX, ONE, from_q15, saturate};

const NUMBERS: &[NumberSpec] = &[
    NumberSpec::PREACT_BITS,
    NumberSpec::recurrent_first("recurrent_first"),
    NumberSpec::up_to("latent_bits", 15),
    NumberSpec::up_to("zeta", MAX),
    NumberSpec::up_to("nu", MAX),
    NumberSpec::up_to("mix_shift", 15),
    NumberSpec::table_shift("gate_table_shift"),
    NumberSpec::table_shift("candidate_table_shift"),
];
const PREACT_BITS: usize = number(NUMBERS, "preact_bits");
const RECURRENT_FIRST: usize = number(NUMBERS, "recurrent_first");
const LATENT_BITS: usize = number(NUMBERS, "latent_bits");
const ZETA: usize = number(NUMBERS, "zeta");
const NU: usize = number(NUMBERS, "nu");
const MIX_SHIFT: usize = number(NUMBERS, "mix_shift");
const GATE_TABLE_SHIFT: usize = number(NUMBERS, "gate_table_shift");
const CANDIDATE_TABLE_SHIFT: usize = number(NUMBERS, "candidate_table_shift");

const TENSORS: &[&str] = &[
    "input_weights",
    "recurrent_weights",
    "rows",
    "recurrent_basis",
    "basis_rows",
    "gate_bias",
    "candidate_bias",
    "gate_table",
    "candidate_table",
];
const PAIR: PairTensors = PairTensors::named(TENSORS, ["input_weights", "recurrent_weights", "rows"]);
const RECURRENT_BASIS: usize = index(TENSORS, "recurrent_basis");
const GATE_BIAS: usize = index(TENSORS, "gate_bias");
const CANDIDATE_BIAS: usize = index(TENSORS, "candidate_bias");
const GATE_TABLE: usize = index(TENSORS, "gate_table");
const CANDIDATE_TABLE: usize = index(TENSORS, "candidate_table");

const LATENT: Unit = Unit::Bits(LATENT_BITS);
const PREACT: Unit = Unit::Bits(PREACT_BITS);

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << LOW_RANK | 1 << OTHER | 1 << WIDE | 0b11 << CURVE,
    numbers: NUMBERS,
    work: &[Dim::When(LOW_RANK, &RANK)],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS)
            .stored(Storage::Weights(Unit::When { option: LOW_RANK, with: &LATENT, without: &Unit::Output })),
        TensorSpec::vector("rows", &[], Dim::Hidden).stored(Storage::rows_of_two(
            PAIR.input,
            PAIR.recurrent,
            RECURRENT_FIRST,
            &[PREACT],
        )),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden)
            .with(LOW_RANK)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("basis_rows", &[], RANK).with(LOW_RANK).stored(Storage::rows(RECURRENT_BASIS, &[LATENT])),
        TensorSpec::vector("gate_bias", &["gate_bias"], Dim::Hidden).stored(Storage::Terms(&[PREACT])),
        TensorSpec::vector("candidate_bias", &["candidate_bias"], Dim::Hidden).stored(Storage::Terms(&[PREACT])),
        TensorSpec::table("gate_table", 0),
        TensorSpec::table("candidate_table", 1),
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

const QUANTIZATION: Quantization = Quantization {
    output: &[(0, OutputScale::Shares)],
    activations: &[Role::Gate, Role::Weighed],
    candidate: Some(Candidate {
        activation: Some(1),
        alone: &[Alone::Gates(0.0, 0, 0.0), Alone::Param("zeta", 0.0), Alone::Param("nu", 1.0)],
    }),
    numbers: Numbers::Shares { candidate: 1, params: &["zeta", "nu"], shift: "mix_shift" },
    ..Quantization::MOVE
};

/// One step. `x` is `[input]`, `state` (h) and `y` are `[hidden]`, `work` is `[rank]` or empty.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let gate = node.curve(0, GATE_TABLE, GATE_TABLE_SHIFT);
    let activation = node.curve(1, CANDIDATE_TABLE, CANDIDATE_TABLE_SHIFT);
    let bits = node.number(PREACT_BITS).unsigned_abs();
    let (zeta, nu) = (node.number(ZETA), node.number(NU));
    let shift = node.number(MIX_SHIFT).unsigned_abs() & 15;
    let carried = low_rank::<K>(node, LOW_RANK, RECURRENT_BASIS, hidden, work);
    let (input, first) = ((x, node.input_size), RECURRENT_FIRST);
    let mut sums = NO_SUMS;
    let Some(mut rows) = Pair::<K, true>::new(node, PAIR, first, node.hidden_size, input, carried) else { return };
    let mut biases = node.words(GATE_BIAS).iter().zip(node.words(CANDIDATE_BIAS));
    for (y, hidden) in y.chunks_mut(4 * CHUNK).zip(hidden.chunks(4 * CHUNK)) {
        let sums = rows.next(y.len().div_ceil(4), &mut sums).as_flattened();
        for (((&sum, y), &h), (&b_z, &b_c)) in sums.iter().zip(y).zip(hidden).zip(&mut biases) {
            let z = gate.apply(sum.wrapping_add(b_z), bits).clamp(0, ONE);
            let candidate = activation.apply(sum.wrapping_add(b_c), bits).clamp(-MAX, MAX);
            let share = from_q15(zeta.wrapping_mul(ONE - z)).wrapping_add(nu).min(MAX);
            // Both parts stay within ±2^30.
            let entering = share.wrapping_mul(candidate) >> shift;
            *y = saturate(from_q15(z.wrapping_mul(i32::from(h)).wrapping_add(entering)));
        }
    }
    copy(hidden, y);
}
