//! The LSTM in the integer numerics.
//!
//! ```text
//! a = ⌊(W x + R h + b) · multiplier / 2^32⌋                    preact_bits fraction bits
//! i, f, o = σ(a)    g = tanh(a)                                15 fraction bits
//! c' = clip((f c + (i g >> candidate_shift)) / 2^15)           cell_bits fraction bits
//! m = (o tanh(c')) / 2^15                                      memory_bits fraction bits
//! h' = m, or clip(⌊P m · multiplier / 2^32⌋)                   the scale of the output
//! ```
//!
//! A quotient by 2^15 is rounded to nearest. `candidate_shift` is what the fraction bits of g have more than those of c.
//! A candidate that is the identity or ReLU has the unit of c already, and so has m where the output's activation is one
//! of these.

use super::{COUPLED, PEEPHOLE, PROJECTION, SPEC as FLOAT};
use crate::cell::integer::{CHUNK, NO_SUMS, Pair, Single};
use crate::cell::{CURVE, Dim, IntegerSpec, Io, NumberSpec, OTHER, Presence, Storage, TensorSpec, Unit, copy};
use crate::gate;
use crate::kernel::Kernel;
use crate::kernel::gates::LstmShifts;
use crate::node::Node;
use crate::quant::{MAX, ONE, from_q15, saturate};

/// The options that need the step that has them all.
pub const RARE: u32 = 1 << PEEPHOLE | 1 << COUPLED | 1 << OTHER;

/// Numbers of the spec by name.
mod number {
    pub const PREACT_BITS: usize = 0;
    pub const CELL_BITS: usize = 1;
    pub const CANDIDATE_SHIFT: usize = 2;
    pub const MEMORY_BITS: usize = 3;
    pub const CELL_CLIP: usize = 4;
    pub const PROJECTION_CLIP: usize = 5;
    pub const PEEPHOLE_SHIFT: usize = 6;
    pub const RECURRENT_FIRST: usize = 7;
    /// The first of three.
    pub const TABLE_SHIFTS: usize = 8;
}

/// Tensors of the spec by name.
mod tensor {
    use crate::cell::integer::PairTensors;

    pub const PAIR: PairTensors = PairTensors { input: 0, recurrent: 1, rows: 2 };
    /// The first of three: those of i, f, o.
    pub const PEEPHOLES: usize = 3;
    pub const PROJECTION_WEIGHTS: usize = 6;
    pub const PROJECTION_ROWS: usize = 7;
    /// The first of three.
    pub const TABLES: usize = 8;
}

/// c is not clipped.
const NO_CLIP: i32 = 1 << 15;

/// What a gate's activation takes, and what the candidate's.
const GATE: Unit = Unit::Before { activation: 0, bits: number::PREACT_BITS, after: &Unit::Q15 };
const CANDIDATE: Unit =
    Unit::Before { activation: 1, bits: number::PREACT_BITS, after: &Unit::Bits(number::CELL_BITS) };

const fn peephole(name: &'static str, from: &'static [&'static str]) -> TensorSpec {
    let factors = Storage::Factors {
        shift: number::PEEPHOLE_SHIFT,
        from: Unit::Bits(number::CELL_BITS),
        to: Unit::Bits(number::PREACT_BITS),
    };
    TensorSpec::vector(name, from, Dim::Hidden).when(Presence::With(PEEPHOLE)).stored(factors)
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: RARE | 1 << PROJECTION | 0b111 << CURVE,
    rules: &[],
    numbers: &[
        NumberSpec::PREACT_BITS,
        NumberSpec::up_to("cell_bits", 15),
        NumberSpec::up_to("candidate_shift", 15),
        NumberSpec::up_to("memory_bits", 15),
        NumberSpec { name: "cell_clip", least: 1, most: NO_CLIP, usual: Some(NO_CLIP) },
        NumberSpec { name: "projection_clip", least: 1, most: MAX, usual: None },
        NumberSpec::up_to("peephole_shift", 15),
        NumberSpec::recurrent_first("recurrent_first"),
        NumberSpec::table_shift("gate_table_shift"),
        NumberSpec::table_shift("cell_table_shift"),
        NumberSpec::table_shift("output_table_shift"),
    ],
    work: &[Dim::Hidden],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Output)
            .gates(&gate::LSTM)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("rows", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(&gate::LSTM).stored(
            Storage::Rows {
                input: tensor::PAIR.input,
                recurrent: Some((tensor::PAIR.recurrent, number::RECURRENT_FIRST)),
                to: &[GATE, GATE, CANDIDATE, GATE],
            },
        ),
        peephole("input_peephole", &["input_peephole"]),
        peephole("forget_peephole", &["forget_peephole"]),
        peephole("output_peephole", &["output_peephole"]),
        TensorSpec::matrix("projection_weights", &["projection_weights"], Dim::Output, Dim::Hidden)
            .when(Presence::With(PROJECTION))
            .stored(Storage::Weights(Unit::Bits(number::MEMORY_BITS))),
        TensorSpec::vector("projection_rows", &[], Dim::Output)
            .when(Presence::With(PROJECTION))
            .stored(Storage::Rows { input: tensor::PROJECTION_WEIGHTS, recurrent: None, to: &[Unit::Output] }),
        TensorSpec::table("gate_table", 0),
        TensorSpec::table("cell_table", 1),
        TensorSpec::table("output_table", 2),
    ],
};

const _: () = assert!(FLOAT.activations.len() == 3);

/// What updates every unit, c to c', and makes m: of the node, x, h, c.
type Update = fn(&Node<'_>, &[i16], &[i16], &mut [i16], &mut [i16]);

/// One step without [`RARE`] options: σ for the gates, tanh for candidate and output.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    step_by::<K>(node, io, update::<K>);
}

/// One step with any options.
pub(crate) fn step_any<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    step_by::<K>(node, io, update_any::<K>);
}

/// `x` is `[input]`, `state` is `[output]` (h) and, from where a slot may begin, `[hidden]` (c), `work` is `[hidden]` (m),
/// `y` is `[output]`.
fn step_by<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>, update: Update) {
    let Io { x, state, work: m, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.padded(&Dim::Output)) else { return };
    let Some(cell) = cell.get_mut(..node.hidden_size) else { return };
    if node.has(PROJECTION) {
        let Some((units, filling)) = m.split_at_mut_checked(node.hidden_size) else { return };
        filling.fill(0);
        update(node, x, hidden, cell, units);
        project::<K>(node, m, y);
    } else {
        update(node, x, hidden, cell, y);
    }
    copy(hidden, y);
}

/// What both share: the sums of a unit's gates i, f, g, o. `hidden` is filled up to whole units.
fn units<'a, 'x, K: Kernel>(node: &Node<'a>, x: &'x [i16], hidden: &'x [i16]) -> Pair<'a, 'x, K> {
    let (x, hidden, rows) = ((x, node.input_size), (hidden, node.output_size), 4 * node.hidden_size);
    Pair::new(node, tensor::PAIR, number::RECURRENT_FIRST, rows, x, hidden)
}

fn update<K: Kernel>(node: &Node<'_>, x: &[i16], hidden: &[i16], cell: &mut [i16], m: &mut [i16]) {
    let shifts =
        LstmShifts { candidate: shift(node, number::CANDIDATE_SHIFT), lift: 15 - shift(node, number::CELL_BITS) };
    let (mut units, mut sums) = (units::<K>(node, x, hidden), NO_SUMS);
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        K::lstm(units.next(cell.len(), &mut sums), cell, m, shifts);
    }
}

fn update_any<K: Kernel>(node: &Node<'_>, x: &[i16], hidden: &[i16], cell: &mut [i16], m: &mut [i16]) {
    let [gate, candidate, output] =
        [0, 1, 2].map(|index| node.curve(index, tensor::TABLES + index, number::TABLE_SHIFTS + index));
    let bits = shift(node, number::PREACT_BITS);
    let (candidate_shift, peephole_shift) = (shift(node, number::CANDIDATE_SHIFT), shift(node, number::PEEPHOLE_SHIFT));
    // The identity and ReLU keep the unit of c.
    let lift = if output.keeps_unit() { 0 } else { 15 - shift(node, number::CELL_BITS) };
    let clip = node.number(number::CELL_CLIP);
    let mut peepholes = peepholes(node);
    let (mut units, mut sums) = (units::<K>(node, x, hidden), NO_SUMS);
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        for (&[mut i, mut f, g, mut o], (c, m)) in units.next(cell.len(), &mut sums).iter().zip(cell.iter_mut().zip(m))
        {
            let before = i32::from(*c);
            let peephole = peepholes.next();
            let seen = |p: i16, c: i32| (i32::from(p) * c) >> peephole_shift;
            if let Some([p_i, p_f, _]) = peephole {
                i = i.wrapping_add(seen(p_i, before));
                f = f.wrapping_add(seen(p_f, before));
            }
            let opened = |sum| gate.apply(sum, bits).clamp(0, ONE);
            let forget = opened(f);
            let enter = if node.has(COUPLED) { ONE - forget } else { opened(i) };
            let entering = enter.wrapping_mul(candidate.apply(g, bits).clamp(-ONE, ONE)) >> candidate_shift;
            let next = from_q15(forget.wrapping_mul(before).wrapping_add(entering)).max(-clip).min(clip);
            let next = next.clamp(i16::MIN.into(), i16::MAX.into());
            *c = next as i16;
            if let Some([_, _, p_o]) = peephole {
                o = o.wrapping_add(seen(p_o, next));
            }
            let shown = output.apply(next << lift, 15).clamp(-ONE, ONE);
            *m = saturate(from_q15(opened(o).wrapping_mul(shown)));
        }
    }
}

/// A number that shifts by at most 15.
fn shift(node: &Node<'_>, number: usize) -> u32 {
    node.number(number).unsigned_abs() & 15
}

/// p_i, p_f, p_o of every unit; none without peepholes.
fn peepholes<'n>(node: &Node<'n>) -> impl Iterator<Item = [i16; 3]> + use<'n> {
    let [p_i, p_f, p_o] = [0, 1, 2].map(|gate| node.integers(tensor::PEEPHOLES + gate).iter());
    p_i.zip(p_f).zip(p_o).map(|((&i, &f), &o)| [i, f, o])
}

/// y = clip(P m), of m that is filled up to whole units
fn project<K: Kernel>(node: &Node<'_>, m: &[i16], y: &mut [i16]) {
    let clip = node.number(number::PROJECTION_CLIP);
    let (matrix, rows) = (tensor::PROJECTION_WEIGHTS, tensor::PROJECTION_ROWS);
    let mut sums = NO_SUMS;
    let mut projected = Single::<K>::new(node, matrix, rows, node.output_size, (m, node.hidden_size));
    for y in y.chunks_mut(4 * CHUNK) {
        for (&sum, y) in projected.next(y.len().div_ceil(4), &mut sums).as_flattened().iter().zip(y) {
            *y = sum.max(-clip).min(clip) as i16;
        }
    }
}
