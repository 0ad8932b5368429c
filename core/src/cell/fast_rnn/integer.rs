//! FastRNN in the integer numerics.
//!
//! ```text
//! c = tanh(⌊(W x + R h + b) · multiplier / 2^32⌋)                    preact_bits fraction bits before tanh
//! h' = clip((beta h + (alpha c >> alpha_shift)) / 2^15)             the scale of the output
//! ```
//!
//! A quotient by 2^15 is rounded to nearest. α is `alpha`, with what the units of c and h differ by; beta has 15 fraction
//! bits. With `low_rank`, R sees B h = clip(⌊(B h) · multiplier / 2^32⌋) of `latent_bits` fraction bits. Any activation
//! but σ and tanh is a table.

use super::{LOW_RANK, RECURRENT_COLS};
use crate::cell::integer::{CHUNK, NO_SUMS, Pair, low_rank};
use crate::cell::low_rank::RANK;
use crate::cell::{CURVE, Dim, IntegerSpec, Io, NumberSpec, OTHER, Presence, Storage, TensorSpec, Unit, copy};
use crate::kernel::Kernel;
use crate::node::Node;
use crate::quant::{MAX, ONE, from_q15, saturate};

/// Numbers of the spec by name.
mod number {
    pub const PREACT_BITS: usize = 0;
    pub const RECURRENT_FIRST: usize = 1;
    pub const LATENT_BITS: usize = 2;
    pub const ALPHA: usize = 3;
    pub const ALPHA_SHIFT: usize = 4;
    pub const BETA: usize = 5;
    pub const TABLE_SHIFT: usize = 6;
}

/// Tensors of the spec by name.
mod tensor {
    use crate::cell::integer::PairTensors;

    pub const PAIR: PairTensors = PairTensors { input: 0, recurrent: 1, rows: 2 };
    pub const RECURRENT_BASIS: usize = 3;
    pub const TABLE: usize = 5;
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << LOW_RANK | 1 << OTHER | 1 << CURVE,
    rules: &[],
    numbers: &[
        NumberSpec::PREACT_BITS,
        NumberSpec::recurrent_first("recurrent_first"),
        NumberSpec::up_to("latent_bits", 15),
        NumberSpec::up_to("alpha", MAX),
        NumberSpec::up_to("alpha_shift", 15),
        NumberSpec::up_to("beta", ONE),
        NumberSpec::table_shift("table_shift"),
    ],
    work: &[Dim::When(LOW_RANK, &RANK)],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS)
            .stored(Storage::Weights(Unit::When { option: LOW_RANK, with: &LATENT, without: &Unit::Output })),
        TensorSpec::vector("rows", &["input_bias", "recurrent_bias"], Dim::Hidden).stored(Storage::Rows {
            input: tensor::PAIR.input,
            recurrent: Some((tensor::PAIR.recurrent, number::RECURRENT_FIRST)),
            to: &[Unit::Bits(number::PREACT_BITS)],
        }),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden)
            .when(Presence::With(LOW_RANK))
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("basis_rows", &[], RANK).when(Presence::With(LOW_RANK)).stored(Storage::Rows {
            input: tensor::RECURRENT_BASIS,
            recurrent: None,
            to: &[LATENT],
        }),
        TensorSpec::table("table", 0),
    ],
};

const LATENT: Unit = Unit::Bits(number::LATENT_BITS);

/// One step. `x` is `[input]`, `state` (h) and `y` are `[hidden]`, `work` is `[rank]` or empty.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let activation = node.curve(0, tensor::TABLE, number::TABLE_SHIFT);
    let bits = node.number(number::PREACT_BITS).unsigned_abs();
    let (alpha, shift) = (node.number(number::ALPHA), node.number(number::ALPHA_SHIFT).unsigned_abs() & 15);
    let beta = node.number(number::BETA);
    let carried = low_rank::<K>(node, LOW_RANK, tensor::RECURRENT_BASIS, hidden, work);
    let (input, first) = ((x, node.input_size), number::RECURRENT_FIRST);
    let mut sums = NO_SUMS;
    let Some(mut rows) = Pair::<K>::new(node, tensor::PAIR, first, node.hidden_size, input, carried) else { return };
    for (y, hidden) in y.chunks_mut(4 * CHUNK).zip(hidden.chunks(4 * CHUNK)) {
        let sums = rows.next(y.len().div_ceil(4), &mut sums).as_flattened();
        for ((&sum, y), &h) in sums.iter().zip(y).zip(hidden) {
            let candidate = activation.apply(sum, bits).clamp(-MAX, MAX);
            // Neither part leaves ±2^30.
            let entering = alpha.wrapping_mul(candidate) >> shift;
            *y = saturate(from_q15(beta.wrapping_mul(i32::from(h)).wrapping_add(entering)));
        }
    }
    copy(hidden, y);
}
