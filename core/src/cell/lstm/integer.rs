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
//! A candidate that is the identity or ReLU has the unit of c already; where the output's activation is one of these, c'
//! is brought to `memory_bits` before it.
//!
//! ```text
//! gate_norm:   a = ⌊N(⌊(W x + R h) · multiplier / 2^32⌋) γ / 2^32⌋ + b                         each gate by itself
//! joint_norm:  a = ⌊N(⌊W x · multiplier / 2^32⌋) γ_x / 2^32⌋ + ⌊N(⌊R h · multiplier / 2^32⌋) γ_h / 2^32⌋ + b
//! cell_norm:   c' = clip(⌊N(f c + (i g >> candidate_shift)) γ_c / 2^32⌋ + β_c)
//! output_norm: m = (o tanh(⌊N(c') γ_o / 2^32⌋ + β_o)) / 2^15
//! ```
//!
//! N is that of [`integer_norm`](crate::integer_norm), with ε = epsilon / 2^epsilon_bits. Sums before it have `sum_bits`
//! fraction bits, those over h with `joint_norm` `recurrent_sum_bits`. With `output_norm` what is normalized has
//! `preact_bits`, or `memory_bits` where the output's activation is the identity or ReLU.

mod normalized;

use super::{CELL_NORM, COUPLED, GATE_NORM, JOINT_NORM, MASKED, OUTPUT_NORM, PEEPHOLE, PROJECTION, SPEC as FLOAT};
use crate::cell::integer::{CHUNK, NO_SUMS, Pair, Single};
use crate::cell::{
    CURVE, Dim, IntegerSpec, Io, NumberSpec, OTHER, Presence, Rule, Storage, TensorSpec, Unit, copy, is_masked,
};
use crate::curve::Curve;
use crate::gate;
use crate::integer_norm::MAX_LEN;
use crate::kernel::Kernel;
use crate::kernel::gates::{LstmShifts, usual};
use crate::node::Node;
use crate::quant::{MAX, ONE, from_q15, saturate};

/// The options that need the step that has them all.
pub const RARE: u32 = 1 << PEEPHOLE | 1 << COUPLED | 1 << MASKED | 1 << OTHER | NORMS;
/// Those that normalize.
const NORMS: u32 = 1 << GATE_NORM | 1 << JOINT_NORM | 1 << CELL_NORM | 1 << OUTPUT_NORM;

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
    pub const SUM_BITS: usize = 11;
    pub const RECURRENT_SUM_BITS: usize = 12;
    pub const EPSILON: usize = 13;
    pub const EPSILON_BITS: usize = 14;
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
    pub const GATE_SUM_ROWS: usize = 11;
    pub const INPUT_SUM_ROWS: usize = 12;
    pub const RECURRENT_SUM_ROWS: usize = 13;
    pub const GATE_GAIN: usize = 14;
    pub const GATE_BIAS: usize = 15;
    pub const INPUT_GAIN: usize = 16;
    pub const RECURRENT_GAIN: usize = 17;
    pub const JOINT_BIAS: usize = 18;
    pub const CELL_GAIN: usize = 19;
    pub const CELL_BIAS: usize = 20;
    pub const OUTPUT_GAIN: usize = 21;
    pub const OUTPUT_BIAS: usize = 22;
}

/// c is not clipped.
const NO_CLIP: i32 = 1 << 15;

/// What a gate's activation takes, and what the candidate's.
const GATE: Unit = Unit::Before { activation: 0, bits: number::PREACT_BITS, after: &Unit::Q15 };
const CANDIDATE: Unit =
    Unit::Before { activation: 1, bits: number::PREACT_BITS, after: &Unit::Bits(number::CELL_BITS) };

/// What i, f, g, o take.
const PREACTS: &[Unit] = &[GATE, GATE, CANDIDATE, GATE];
/// What the output's activation takes with `output_norm`.
const SHOWN: Unit = Unit::Before { activation: 2, bits: number::PREACT_BITS, after: &Unit::Bits(number::MEMORY_BITS) };

/// The sums of all gates, 32 bits each, and twice as many.
const SUMS: Dim = Dim::Product(&[Dim::Const(8), Dim::Hidden]);
const TWO_SUMS: Dim = Dim::Product(&[Dim::Const(16), Dim::Hidden]);

/// That so many values can be normalized together.
const fn few(option: u32, len: &'static Dim) -> Rule {
    Rule::AtMost(Dim::When(option, len), Dim::Const(MAX_LEN))
}

/// A vector of each gate's rows.
const fn of_gates(name: &'static str, from: &'static [&'static str], with: u32, storage: Storage) -> TensorSpec {
    TensorSpec::vector(name, from, Dim::Hidden).gates(&gate::LSTM).when(Presence::With(with)).stored(storage)
}

/// A vector of the units.
const fn of_units(name: &'static str, from: &'static [&'static str], with: u32, storage: Storage) -> TensorSpec {
    TensorSpec::vector(name, from, Dim::Hidden).when(Presence::With(with)).stored(storage)
}

/// A number of fraction bits that only the packer needs and, for epsilon, the step.
const fn sum_bits(name: &'static str) -> NumberSpec {
    NumberSpec { name, least: -31, most: 31, usual: None }
}

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
    rules: &[
        few(GATE_NORM, &Dim::Hidden),
        few(JOINT_NORM, &Dim::Product(&[Dim::Const(4), Dim::Hidden])),
        few(CELL_NORM, &Dim::Hidden),
        few(OUTPUT_NORM, &Dim::Hidden),
    ],
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
        sum_bits("sum_bits"),
        sum_bits("recurrent_sum_bits"),
        NumberSpec::up_to("epsilon", MAX),
        NumberSpec::up_to("epsilon_bits", 63),
    ],
    work: &[Dim::Hidden],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Output)
            .gates(&gate::LSTM)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("rows", BIASES, Dim::Hidden)
            .gates(&gate::LSTM)
            .when(Presence::Neither(GATE_NORM, JOINT_NORM))
            .stored(Storage::Rows {
                input: tensor::PAIR.input,
                recurrent: Some((tensor::PAIR.recurrent, number::RECURRENT_FIRST)),
                to: PREACTS,
            }),
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
        of_gates(
            "gate_sum_rows",
            &[],
            GATE_NORM,
            Storage::Rows {
                input: tensor::PAIR.input,
                recurrent: Some((tensor::PAIR.recurrent, number::RECURRENT_FIRST)),
                to: &[Unit::Bits(number::SUM_BITS)],
            },
        ),
        of_gates(
            "input_sum_rows",
            &[],
            JOINT_NORM,
            Storage::Rows { input: tensor::PAIR.input, recurrent: None, to: &[Unit::Bits(number::SUM_BITS)] },
        ),
        of_gates(
            "recurrent_sum_rows",
            &[],
            JOINT_NORM,
            Storage::Rows {
                input: tensor::PAIR.recurrent,
                recurrent: None,
                to: &[Unit::Bits(number::RECURRENT_SUM_BITS)],
            },
        ),
        of_gates("gate_gain", &["gate_gain"], GATE_NORM, Storage::Gains(PREACTS)),
        of_gates("gate_bias", BIASES, GATE_NORM, Storage::Terms(PREACTS)),
        of_gates("input_gain", &["input_gain"], JOINT_NORM, Storage::Gains(PREACTS)),
        of_gates("recurrent_gain", &["recurrent_gain"], JOINT_NORM, Storage::Gains(PREACTS)),
        of_gates("joint_bias", BIASES, JOINT_NORM, Storage::Terms(PREACTS)),
        of_units("cell_gain", &["cell_gain"], CELL_NORM, Storage::Gains(&[Unit::Bits(number::CELL_BITS)])),
        of_units("cell_bias", &["cell_bias"], CELL_NORM, Storage::Terms(&[Unit::Bits(number::CELL_BITS)])),
        of_units("output_gain", &["output_gain"], OUTPUT_NORM, Storage::Gains(&[SHOWN])),
        of_units("output_bias", &["output_bias"], OUTPUT_NORM, Storage::Terms(&[SHOWN])),
    ],
};

/// The same for `step_any`, which needs more scratch: a step looks at all parts of it, so that the other has no more than
/// it needs.
pub const RARE_SPEC: IntegerSpec = IntegerSpec {
    work: &[
        Dim::Hidden,
        Dim::When(JOINT_NORM, &TWO_SUMS),
        Dim::When(GATE_NORM, &SUMS),
        Dim::Unless(JOINT_NORM, &Dim::Unless(GATE_NORM, &Dim::When(CELL_NORM, &SUMS))),
        Dim::Unless(JOINT_NORM, &Dim::Unless(GATE_NORM, &Dim::Unless(CELL_NORM, &Dim::When(OUTPUT_NORM, &SUMS)))),
    ],
    ..SPEC
};

const BIASES: &[&str] = &["input_bias", "recurrent_bias"];

const _: () = assert!(FLOAT.activations.len() == 3);

/// What updates every unit, c to c', and makes m: of the node, x, h, c, scratch.
type Update = fn(&Node<'_>, &[i16], &[i16], &mut [i16], &mut [i16], &mut [i16]);

/// One step without a projection and [`RARE`] options: σ for the gates, tanh for candidate and output. `x` is `[input]`,
/// `state` is `[output]` (h) and, from where a slot may begin, as many again (c), `y` is `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(state.len() / 2) else { return };
    let Some(cell) = cell.get_mut(..node.hidden_size) else { return };
    update::<K>(node, x, hidden, cell, &mut [], y);
    copy(hidden, y);
}

/// The same, with a projection or without.
pub(crate) fn step_projected<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    step_by::<K>(node, io, update::<K>);
}

/// One step with any options.
pub(crate) fn step_any<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    if is_masked(node, MASKED, io.x) {
        return copy(io.y, io.state);
    }
    let update = if node.options & NORMS == 0 { update_any::<K> } else { normalized::update::<K> };
    step_by::<K>(node, io, update);
}

/// `x` is `[input]`, `state` is `[output]` (h) and, from where a slot may begin, `[hidden]` (c), `work` is with
/// a projection `[hidden]` (m) and then, again from there, what `update` needs, `y` is `[output]`.
fn step_by<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>, update: Update) {
    let Io { x, state, work, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.padded(&Dim::Output)) else { return };
    let Some(cell) = cell.get_mut(..node.hidden_size) else { return };
    if node.has(PROJECTION) {
        let Some((m, work)) = work.split_at_mut_checked(node.padded(&Dim::Hidden)) else { return };
        let Some((units, filling)) = m.split_at_mut_checked(node.hidden_size) else { return };
        filling.fill(0);
        update(node, x, hidden, cell, work, units);
        project::<K>(node, m, y);
    } else {
        update(node, x, hidden, cell, work, y);
    }
    copy(hidden, y);
}

/// What both share: the sums of a unit's gates i, f, g, o. `hidden` is filled up to whole units.
fn units<'a, 'x, K: Kernel>(node: &Node<'a>, x: &'x [i16], hidden: &'x [i16]) -> Option<Pair<'a, 'x, K>> {
    let (x, hidden, rows) = ((x, node.input_size), (hidden, node.output_size), 4 * node.hidden_size);
    Pair::new(node, tensor::PAIR, number::RECURRENT_FIRST, rows, x, hidden)
}

fn update<K: Kernel>(node: &Node<'_>, x: &[i16], hidden: &[i16], cell: &mut [i16], _: &mut [i16], m: &mut [i16]) {
    if !node.is_whole(&SPEC) {
        return;
    }
    let shifts =
        LstmShifts { candidate: shift(node, number::CANDIDATE_SHIFT), lift: 15 - shift(node, number::CELL_BITS) };
    let (Some(mut units), mut sums) = (units::<K>(node, x, hidden), NO_SUMS) else { return };
    if K::FAST && cell.len() <= CHUNK {
        return usual::lstm(units.all(&mut sums), cell, m, shifts);
    }
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        usual::lstm(units.next(cell.len(), &mut sums), cell, m, shifts);
    }
}

fn update_any<K: Kernel>(node: &Node<'_>, x: &[i16], hidden: &[i16], cell: &mut [i16], _: &mut [i16], m: &mut [i16]) {
    let mix = Mix::new(node);
    let mut peepholes = peepholes(node);
    let (Some(mut units), mut sums) = (units::<K>(node, x, hidden), NO_SUMS) else { return };
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        for (&[i, f, g, o], (c, m)) in units.next(cell.len(), &mut sums).iter().zip(cell.iter_mut().zip(m)) {
            let peephole = peepholes.next();
            *c = mix.clipped(from_q15(mix.remembered([i, f, g], peephole, *c)));
            *m = mix.memory(o, peephole, *c, mix.shown(*c));
        }
    }
}

/// How the units of a node with any options are brought together.
struct Mix<'a> {
    gate: Curve<'a>,
    candidate: Curve<'a>,
    output: Curve<'a>,
    bits: u32,
    candidate_shift: u32,
    peephole_shift: u32,
    /// From c to what the output's activation takes.
    lift: u32,
    clip: i32,
    coupled: bool,
}

impl<'a> Mix<'a> {
    fn new(node: &Node<'a>) -> Self {
        let [gate, candidate, output] =
            [0, 1, 2].map(|index| node.curve(index, tensor::TABLES + index, number::TABLE_SHIFTS + index));
        // The identity and ReLU keep the unit.
        let most = if output.keeps_unit() { shift(node, number::MEMORY_BITS) } else { 15 };
        Self {
            gate,
            candidate,
            output,
            bits: shift(node, number::PREACT_BITS),
            candidate_shift: shift(node, number::CANDIDATE_SHIFT),
            peephole_shift: shift(node, number::PEEPHOLE_SHIFT),
            lift: most.saturating_sub(shift(node, number::CELL_BITS)),
            clip: node.number(number::CELL_CLIP),
            coupled: node.has(COUPLED),
        }
    }

    /// The gate of a sum, from 0 to 1.
    fn opened(&self, sum: i32) -> i32 {
        self.gate.apply(sum, self.bits).clamp(0, ONE)
    }

    /// A sum with what it sees of c.
    fn seeing(&self, sum: i32, factor: i16, c: i16) -> i32 {
        sum.wrapping_add((i32::from(factor) * i32::from(c)) >> self.peephole_shift)
    }

    /// f c + i g of the sums of i, f, g: 15 fraction bits more than c has.
    fn remembered(&self, [mut i, mut f, g]: [i32; 3], peephole: Option<[i16; 3]>, c: i16) -> i32 {
        if let Some([p_i, p_f, _]) = peephole {
            i = self.seeing(i, p_i, c);
            f = self.seeing(f, p_f, c);
        }
        let forget = self.opened(f);
        let enter = if self.coupled { ONE - forget } else { self.opened(i) };
        let candidate = self.candidate.apply(g, self.bits).clamp(-ONE, ONE);
        let entering = enter.wrapping_mul(candidate) >> self.candidate_shift;
        forget.wrapping_mul(c.into()).wrapping_add(entering)
    }

    fn clipped(&self, c: i32) -> i16 {
        c.max(-self.clip).min(self.clip).clamp(i16::MIN.into(), i16::MAX.into()) as i16
    }

    /// What is shown of c.
    fn shown(&self, c: i16) -> i32 {
        self.output.apply(i32::from(c) << self.lift, 15)
    }

    /// m of the sum of o and what is shown of c.
    fn memory(&self, mut o: i32, peephole: Option<[i16; 3]>, c: i16, shown: i32) -> i16 {
        if let Some([_, _, p_o]) = peephole {
            o = self.seeing(o, p_o, c);
        }
        saturate(from_q15(self.opened(o).wrapping_mul(shown.clamp(-ONE, ONE))))
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
    let m = (m, node.hidden_size);
    let Some(mut projected) = Single::<K>::new(node, matrix, rows, node.output_size, m) else { return };
    for y in y.chunks_mut(4 * CHUNK) {
        for (&sum, y) in projected.next(y.len().div_ceil(4), &mut sums).as_flattened().iter().zip(y) {
            *y = sum.max(-clip).min(clip) as i16;
        }
    }
}
