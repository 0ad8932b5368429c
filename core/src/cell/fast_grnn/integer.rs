//! FastGRNN in the integer numerics.
//!
//! ```text
//! a = ⌊(W x + R h) · multiplier / 2^32⌋                              preact_bits fraction bits
//! z = σ(a + b_z)    c = tanh(a + b_c)                                z of 15 fraction bits
//! k = min((zeta (1 - z)) / 2^15 + nu, 32767)                         ζ (1 - z) + ν
//! h' = clip((z h + (k c >> mix_shift)) / 2^15)                       the scale of the output
//! ```
//!
//! A quotient by 2^15 is rounded to nearest. ζ and ν are `zeta` and `nu`, with what the units of c and h differ by. With
//! `low_rank`, R sees B h = clip(⌊(B h) · multiplier / 2^32⌋) of `latent_bits` fraction bits. Any activation but σ and tanh
//! is a table.

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
    pub const ZETA: usize = 3;
    pub const NU: usize = 4;
    pub const MIX_SHIFT: usize = 5;
    pub const GATE_TABLE_SHIFT: usize = 6;
    pub const CANDIDATE_TABLE_SHIFT: usize = 7;
}

/// Tensors of the spec by name.
mod tensor {
    use crate::cell::integer::PairTensors;

    pub const PAIR: PairTensors = PairTensors { input: 0, recurrent: 1, rows: 2 };
    pub const RECURRENT_BASIS: usize = 3;
    pub const GATE_BIAS: usize = 5;
    pub const CANDIDATE_BIAS: usize = 6;
    pub const GATE_TABLE: usize = 7;
    pub const CANDIDATE_TABLE: usize = 8;
}

const LATENT: Unit = Unit::Bits(number::LATENT_BITS);
const PREACT: Unit = Unit::Bits(number::PREACT_BITS);

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << LOW_RANK | 1 << OTHER | 0b11 << CURVE,
    rules: &[],
    numbers: &[
        NumberSpec::PREACT_BITS,
        NumberSpec::recurrent_first("recurrent_first"),
        NumberSpec::up_to("latent_bits", 15),
        NumberSpec::up_to("zeta", MAX),
        NumberSpec::up_to("nu", MAX),
        NumberSpec::up_to("mix_shift", 15),
        NumberSpec::table_shift("gate_table_shift"),
        NumberSpec::table_shift("candidate_table_shift"),
    ],
    work: &[Dim::When(LOW_RANK, &RANK)],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS)
            .stored(Storage::Weights(Unit::When { option: LOW_RANK, with: &LATENT, without: &Unit::Output })),
        TensorSpec::vector("rows", &[], Dim::Hidden).stored(Storage::Rows {
            input: tensor::PAIR.input,
            recurrent: Some((tensor::PAIR.recurrent, number::RECURRENT_FIRST)),
            to: &[PREACT],
        }),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden)
            .when(Presence::With(LOW_RANK))
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("basis_rows", &[], RANK).when(Presence::With(LOW_RANK)).stored(Storage::Rows {
            input: tensor::RECURRENT_BASIS,
            recurrent: None,
            to: &[LATENT],
        }),
        TensorSpec::vector("gate_bias", &["gate_bias"], Dim::Hidden).stored(Storage::Terms(&[PREACT])),
        TensorSpec::vector("candidate_bias", &["candidate_bias"], Dim::Hidden).stored(Storage::Terms(&[PREACT])),
        TensorSpec::table("gate_table", 0),
        TensorSpec::table("candidate_table", 1),
    ],
};

/// One step. `x` is `[input]`, `state` (h) and `y` are `[hidden]`, `work` is `[rank]` or empty.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let gate = node.curve(0, tensor::GATE_TABLE, number::GATE_TABLE_SHIFT);
    let activation = node.curve(1, tensor::CANDIDATE_TABLE, number::CANDIDATE_TABLE_SHIFT);
    let bits = node.number(number::PREACT_BITS).unsigned_abs();
    let (zeta, nu) = (node.number(number::ZETA), node.number(number::NU));
    let shift = node.number(number::MIX_SHIFT).unsigned_abs() & 15;
    let carried = low_rank::<K>(node, LOW_RANK, tensor::RECURRENT_BASIS, hidden, work);
    let (input, first) = ((x, node.input_size), number::RECURRENT_FIRST);
    let mut sums = NO_SUMS;
    let Some(mut rows) = Pair::<K>::new(node, tensor::PAIR, first, node.hidden_size, input, carried) else { return };
    let mut biases = node.words(tensor::GATE_BIAS).iter().zip(node.words(tensor::CANDIDATE_BIAS));
    for (y, hidden) in y.chunks_mut(4 * CHUNK).zip(hidden.chunks(4 * CHUNK)) {
        let sums = rows.next(y.len().div_ceil(4), &mut sums).as_flattened();
        for (((&sum, y), &h), (&b_z, &b_c)) in sums.iter().zip(y).zip(hidden).zip(&mut biases) {
            let z = gate.apply(sum.wrapping_add(b_z), bits).clamp(0, ONE);
            let candidate = activation.apply(sum.wrapping_add(b_c), bits).clamp(-MAX, MAX);
            let share = from_q15(zeta.wrapping_mul(ONE - z)).wrapping_add(nu).min(MAX);
            // Neither part leaves ±2^30.
            let entering = share.wrapping_mul(candidate) >> shift;
            *y = saturate(from_q15(z.wrapping_mul(i32::from(h)).wrapping_add(entering)));
        }
    }
    copy(hidden, y);
}
