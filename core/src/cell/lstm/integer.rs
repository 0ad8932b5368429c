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
use crate::activation::Activation;
use crate::cell::integer::{CHUNK, Pair, Single};
use crate::cell::{CURVE, Dim, IntegerSpec, Io, NumberSpec, OTHER, Presence, Storage, TensorSpec, Unit, copy};
use crate::curve::{BITS, Curve, sigmoid, tanh};
use crate::gate;
use crate::kernel::Kernel;
use crate::node::Node;
use crate::quant::{MAX, ONE, from_q15, saturate};

/// The options that need [`step_any`].
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
        NumberSpec { name: "cell_clip", least: 1, most: -(i16::MIN as i32) },
        NumberSpec { name: "projection_clip", least: 1, most: MAX },
        NumberSpec::up_to("peephole_shift", 31),
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

/// `x` is `[input]`, `state` is `[output]` (h) and, from a whole word on, `[hidden]` (c), `work` is `[hidden]` (m), `y` is
/// `[output]`.
fn step_by<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>, update: Update) {
    let Io { x, state, work: m, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.padded(&Dim::Output)) else { return };
    let Some(cell) = cell.get_mut(..node.hidden_size) else { return };
    if node.has(PROJECTION) {
        update(node, x, hidden, cell, m);
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
    let scales = Scales::of(node);
    let bits = scales.preact_bits;
    let mut sums = units::<K>(node, x, hidden);
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        for (&[i, f, g, o], (c, m)) in sums.next(cell.len()).iter().zip(cell.iter_mut().zip(m)) {
            let entering = sigmoid(i, bits).wrapping_mul(tanh(g, bits)) >> scales.candidate_shift;
            let next = from_q15(sigmoid(f, bits).wrapping_mul(i32::from(*c)).wrapping_add(entering));
            let next = next.clamp(i16::MIN.into(), i16::MAX.into());
            *c = next as i16;
            // Neither factor leaves ±1, and tanh does not reach it.
            *m = from_q15(sigmoid(o, bits).wrapping_mul(tanh(next << scales.lift, scales.cell_bits))) as i16;
        }
    }
}

fn update_any<K: Kernel>(node: &Node<'_>, x: &[i16], hidden: &[i16], cell: &mut [i16], m: &mut [i16]) {
    let scales = Scales::of(node);
    let [gate, candidate, output] =
        [0, 1, 2].map(|index| node.curve(index, tensor::TABLES + index, number::TABLE_SHIFTS + index));
    // The identity and ReLU keep the unit of c, which no lift has changed.
    let lift = if matches!(node.activation(2), Activation::Identity | Activation::Relu) { 0 } else { scales.lift };
    let mut peepholes = peepholes(node);
    let mut sums = units::<K>(node, x, hidden);
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        for (&[mut i, mut f, g, mut o], (c, m)) in sums.next(cell.len()).iter().zip(cell.iter_mut().zip(m)) {
            let peephole = peepholes.next();
            let seen = |p: i16, c: i32| (i32::from(p) * c) >> scales.peephole_shift;
            if let Some([p_i, p_f, _]) = peephole {
                i = i.wrapping_add(seen(p_i, i32::from(*c)));
                f = f.wrapping_add(seen(p_f, i32::from(*c)));
            }
            let opened = |sum| limited(gate, sum, scales.preact_bits, 0);
            let forget = opened(f);
            let enter = if node.has(COUPLED) { ONE - forget } else { opened(i) };
            let next = scales.remember(forget, i32::from(*c), enter, limited(candidate, g, scales.preact_bits, -ONE));
            *c = next as i16;
            if let Some([_, _, p_o]) = peephole {
                o = o.wrapping_add(seen(p_o, next));
            }
            let shown = limited(output, next << lift, scales.cell_bits, -ONE);
            *m = saturate(from_q15(opened(o).wrapping_mul(shown)));
        }
    }
}

/// An activation whose products fit: what leaves its range is at its end.
fn limited(curve: Curve<'_>, sum: i32, bits: u32, least: i32) -> i32 {
    curve.apply(sum, bits).clamp(least, ONE)
}

/// The numbers of a node.
struct Scales {
    preact_bits: u32,
    /// Those of c, shifted left by `lift`.
    cell_bits: u32,
    lift: u32,
    candidate_shift: u32,
    cell_clip: i32,
    peephole_shift: u32,
}

impl Scales {
    fn of(node: &Node<'_>) -> Self {
        let number = |index| node.number(index).unsigned_abs();
        let cell_bits = number(number::CELL_BITS) & 31;
        let least = BITS.start().unsigned_abs();
        Self {
            preact_bits: number(number::PREACT_BITS),
            cell_bits: cell_bits.max(least),
            lift: least.saturating_sub(cell_bits),
            candidate_shift: number(number::CANDIDATE_SHIFT) & 31,
            cell_clip: node.number(number::CELL_CLIP),
            peephole_shift: number(number::PEEPHOLE_SHIFT) & 31,
        }
    }

    /// c' of f, c, i, g.
    fn remember(&self, f: i32, c: i32, i: i32, g: i32) -> i32 {
        let entering = i.wrapping_mul(g) >> self.candidate_shift;
        let next = from_q15(f.wrapping_mul(c).wrapping_add(entering)).max(-self.cell_clip).min(self.cell_clip);
        next.clamp(i16::MIN.into(), i16::MAX.into())
    }
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
    let mut sums = Single::<K>::new(node, matrix, rows, node.output_size, (m, node.hidden_size));
    for y in y.chunks_mut(4 * CHUNK) {
        for (&sum, y) in sums.next(y.len().div_ceil(4)).as_flattened().iter().zip(y) {
            *y = sum.max(-clip).min(clip) as i16;
        }
    }
}
