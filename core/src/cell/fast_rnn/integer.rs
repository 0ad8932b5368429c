//! FastRNN in the integer numerics.
//!
//! ```text
//! c = tanh(⌊(W x + R h + b) · multiplier / 2^32⌋)                    preact_bits fraction bits before tanh
//! h' = clip((beta h + (alpha c >> alpha_shift)) / 2^15)             the scale of the output
//! ```
//!
//! A quotient by 2^15 is rounded to nearest. `alpha` is α times the ratio of the units of c and h; `beta` has 15
//! fraction bits. With `low_rank`, R multiplies B h = clip(⌊(B h) · multiplier / 2^32⌋), which has `latent_bits`
//! fraction bits. Activations other than σ and tanh are tabulated.

use super::LOW_RANK;
use crate::cell::elman::RECURRENT_COLS;
use crate::cell::integer::{CHUNK, NO_SUMS, Pair, PairTensors, low_rank};
use crate::cell::low_rank::RANK;
use crate::cell::prelude::*;
use crate::quant::{MAX, ONE, from_q15, saturate};

const NUMBERS: &[NumberSpec] = &[
    NumberSpec::PREACT_BITS,
    NumberSpec::recurrent_first("recurrent_first"),
    NumberSpec::up_to("latent_bits", 15),
    NumberSpec::up_to("alpha", MAX),
    NumberSpec::up_to("alpha_shift", 15),
    NumberSpec::up_to("beta", ONE),
    NumberSpec::table_shift("table_shift"),
];
const PREACT_BITS: usize = number(NUMBERS, "preact_bits");
const RECURRENT_FIRST: usize = number(NUMBERS, "recurrent_first");
const LATENT_BITS: usize = number(NUMBERS, "latent_bits");
const ALPHA: usize = number(NUMBERS, "alpha");
const ALPHA_SHIFT: usize = number(NUMBERS, "alpha_shift");
const BETA: usize = number(NUMBERS, "beta");
const TABLE_SHIFT: usize = number(NUMBERS, "table_shift");

const TENSORS: &[&str] = &["input_weights", "recurrent_weights", "rows", "recurrent_basis", "basis_rows", "table"];
const PAIR: PairTensors = PairTensors::named(TENSORS, ["input_weights", "recurrent_weights", "rows"]);
const RECURRENT_BASIS: usize = index(TENSORS, "recurrent_basis");
const TABLE: usize = index(TENSORS, "table");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << LOW_RANK | 1 << OTHER | 1 << WIDE | 1 << CURVE,
    numbers: NUMBERS,
    work: &[Dim::When(LOW_RANK, &RANK)],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS)
            .stored(Storage::Weights(Unit::When { option: LOW_RANK, with: &LATENT, without: &Unit::Output })),
        TensorSpec::vector("rows", &["input_bias", "recurrent_bias"], Dim::Hidden).stored(Storage::rows_of_two(
            PAIR.input,
            PAIR.recurrent,
            RECURRENT_FIRST,
            &[Unit::Bits(PREACT_BITS)],
        )),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden)
            .with(LOW_RANK)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("basis_rows", &[], RANK).with(LOW_RANK).stored(Storage::rows(RECURRENT_BASIS, &[LATENT])),
        TensorSpec::table("table", 0),
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

const QUANTIZATION: Quantization = Quantization {
    output: &[(0, OutputScale::Shares)],
    activations: &[Role::Weighed],
    candidate: Some(Candidate { activation: Some(0), alone: &[Alone::Param("alpha", 1.0), Alone::Param("beta", 0.0)] }),
    numbers: Numbers::Shares { candidate: 0, params: &["alpha"], shift: "alpha_shift" },
    limits: &[("beta", 1.0)],
    ..Quantization::MOVE
};

const LATENT: Unit = Unit::Bits(LATENT_BITS);

/// One step. `x` is `[input]`, `state` (h) and `y` are `[hidden]`, `work` is `[rank]` or empty.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let activation = node.curve(0, TABLE, TABLE_SHIFT);
    let bits = node.number(PREACT_BITS).unsigned_abs();
    let (alpha, shift) = (node.number(ALPHA), node.number(ALPHA_SHIFT).unsigned_abs() & 15);
    let beta = node.number(BETA);
    let carried = low_rank::<K>(node, LOW_RANK, RECURRENT_BASIS, hidden, work);
    let (input, first) = ((x, node.input_size), RECURRENT_FIRST);
    let mut sums = NO_SUMS;
    let Some(mut rows) = Pair::<K, true>::new(node, PAIR, first, node.hidden_size, input, carried) else { return };
    for (y, hidden) in y.chunks_mut(4 * CHUNK).zip(hidden.chunks(4 * CHUNK)) {
        let sums = rows.next(y.len().div_ceil(4), &mut sums).as_flattened();
        for ((&sum, y), &h) in sums.iter().zip(y).zip(hidden) {
            let candidate = activation.apply(sum, bits).clamp(-MAX, MAX);
            // Both parts stay within ±2^30.
            let entering = alpha.wrapping_mul(candidate) >> shift;
            *y = saturate(from_q15(beta.wrapping_mul(i32::from(h)).wrapping_add(entering)));
        }
    }
    copy(hidden, y);
}
