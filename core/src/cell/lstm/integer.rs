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
//! With `unit_scales`, unit k has `cell_shifts[k]` fraction bits more in c, as many less in `candidate_shift`, and as many
//! more in `peephole_shift`.
//!
//! A quotient by 2^15 is rounded to nearest. `candidate_shift` is the number of fraction bits of g minus that of c. If
//! the activation of the candidate is the identity or ReLU, g already has the unit of c. If the activation of the
//! output is one of these, c' is converted to `memory_bits` before it.
//!
//! ```text
//! gate_norm:   a = ⌊N(⌊(W x + R h) · multiplier / 2^32⌋) γ / 2^32⌋ + b                         each gate separately
//! joint_norm:  a = ⌊N(⌊W x · multiplier / 2^32⌋) γ_x / 2^32⌋ + ⌊N(⌊R h · multiplier / 2^32⌋) γ_h / 2^32⌋ + b
//! cell_norm:   c' = clip(⌊N(f c + (i g >> candidate_shift)) γ_c / 2^32⌋ + β_c)
//! output_norm: m = (o tanh(⌊N(c') γ_o / 2^32⌋ + β_o)) / 2^15
//! ```
//!
//! N is the normalization of `integer_norm`, with ε = epsilon / 2^epsilon_bits. The sums before
//! it have `sum_bits` fraction bits; with `joint_norm` the sums over h have `recurrent_sum_bits`. With `output_norm`
//! the normalized value has `preact_bits`, or `memory_bits` if the activation of the output is the identity or ReLU.

mod normalized;

use super::{CELL_NORM, COUPLED, GATE_NORM, JOINT_NORM, MASKED, OUTPUT_NORM, PEEPHOLE, PROJECTION, SPEC as FLOAT};
use crate::cell::integer::{CHUNK, NO_SUMS, Pair, PairTensors, Single};
use crate::cell::prelude::*;
use crate::curve::Curve;
use crate::integer_norm::MAX_LEN;
use crate::kernel::gates::{LstmShifts, usual};
use crate::quant::{MAX, ONE, from_q15, saturate};

/// The options that need `step_rare` or `step_any`.
pub const RARE: u32 = 1 << PEEPHOLE | 1 << COUPLED | 1 << MASKED | 1 << OTHER | 1 << UNIT_SCALES | 1 << WIDE | NORMS;
/// The options that normalize.
pub const NORMS: u32 = 1 << GATE_NORM | 1 << JOINT_NORM | 1 << CELL_NORM | 1 << OUTPUT_NORM;

const NUMBERS: &[NumberSpec] = &[
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
];

mod number {
    use super::{NUMBERS, number};

    pub const PREACT_BITS: usize = number(NUMBERS, "preact_bits");
    pub const CELL_BITS: usize = number(NUMBERS, "cell_bits");
    pub const CANDIDATE_SHIFT: usize = number(NUMBERS, "candidate_shift");
    pub const MEMORY_BITS: usize = number(NUMBERS, "memory_bits");
    pub const CELL_CLIP: usize = number(NUMBERS, "cell_clip");
    pub const PROJECTION_CLIP: usize = number(NUMBERS, "projection_clip");
    pub const PEEPHOLE_SHIFT: usize = number(NUMBERS, "peephole_shift");
    pub const RECURRENT_FIRST: usize = number(NUMBERS, "recurrent_first");
    /// The first of three table shifts.
    pub const TABLE_SHIFTS: usize = number(NUMBERS, "gate_table_shift");
    pub const SUM_BITS: usize = number(NUMBERS, "sum_bits");
    pub const RECURRENT_SUM_BITS: usize = number(NUMBERS, "recurrent_sum_bits");
    pub const EPSILON: usize = number(NUMBERS, "epsilon");
    pub const EPSILON_BITS: usize = number(NUMBERS, "epsilon_bits");
}

const TENSORS: &[&str] = &[
    "input_weights",
    "recurrent_weights",
    "rows",
    "input_peephole",
    "forget_peephole",
    "output_peephole",
    "projection_weights",
    "projection_rows",
    "gate_table",
    "cell_table",
    "output_table",
    "gate_sum_rows",
    "input_sum_rows",
    "recurrent_sum_rows",
    "gate_gain",
    "gate_bias",
    "input_gain",
    "recurrent_gain",
    "joint_bias",
    "cell_gain",
    "cell_bias",
    "output_gain",
    "output_bias",
    "cell_shifts",
];

mod tensor {
    use super::{PairTensors, TENSORS, index};

    pub const PAIR: PairTensors = PairTensors::named(TENSORS, ["input_weights", "recurrent_weights", "rows"]);
    /// The first of the three peepholes, in the order i, f, o.
    pub const PEEPHOLES: usize = index(TENSORS, "input_peephole");
    pub const PROJECTION_WEIGHTS: usize = index(TENSORS, "projection_weights");
    pub const PROJECTION_ROWS: usize = index(TENSORS, "projection_rows");
    /// The first of three tables.
    pub const TABLES: usize = index(TENSORS, "gate_table");
    pub const GATE_SUM_ROWS: usize = index(TENSORS, "gate_sum_rows");
    pub const INPUT_SUM_ROWS: usize = index(TENSORS, "input_sum_rows");
    pub const RECURRENT_SUM_ROWS: usize = index(TENSORS, "recurrent_sum_rows");
    pub const GATE_GAIN: usize = index(TENSORS, "gate_gain");
    pub const GATE_BIAS: usize = index(TENSORS, "gate_bias");
    pub const INPUT_GAIN: usize = index(TENSORS, "input_gain");
    pub const RECURRENT_GAIN: usize = index(TENSORS, "recurrent_gain");
    pub const JOINT_BIAS: usize = index(TENSORS, "joint_bias");
    pub const CELL_GAIN: usize = index(TENSORS, "cell_gain");
    pub const CELL_BIAS: usize = index(TENSORS, "cell_bias");
    pub const OUTPUT_GAIN: usize = index(TENSORS, "output_gain");
    pub const OUTPUT_BIAS: usize = index(TENSORS, "output_bias");
    pub const CELL_SHIFTS: usize = index(TENSORS, "cell_shifts");
}

/// The value of `cell_clip` that disables clipping.
const NO_CLIP: i32 = 1 << 15;

/// The units of the arguments of a gate's activation and of the candidate's.
const GATE: Unit = Unit::Before { activation: 0, bits: number::PREACT_BITS, after: &Unit::Q15 };
const CANDIDATE: Unit =
    Unit::Before { activation: 1, bits: number::PREACT_BITS, after: &Unit::Bits(number::CELL_BITS) };

/// The units of the arguments of i, f, g, o.
const PREACTS: &[Unit] = &[GATE, GATE, CANDIDATE, GATE];
/// The unit of the argument of the output's activation with `output_norm`.
const SHOWN: Unit = Unit::Before { activation: 2, bits: number::PREACT_BITS, after: &Unit::Bits(number::MEMORY_BITS) };

/// Scratch for the sums of all gates, 32 bits each, and for two sets of them.
const SUMS: Dim = Dim::Product(&[Dim::Const(8), Dim::Hidden]);
const TWO_SUMS: Dim = Dim::Product(&[Dim::Const(16), Dim::Hidden]);

/// At most [`MAX_LEN`] values are normalized together.
const fn few(option: u32, len: &'static Dim) -> Rule {
    Rule::AtMost(Dim::When(option, len), Dim::Const(MAX_LEN))
}

/// A node with this option does not have [`UNIT_SCALES`].
const fn without_unit_scales(option: u32) -> Rule {
    const UNITS: Dim = Dim::When(UNIT_SCALES, &Dim::Const(1));
    Rule::Equal(Dim::When(option, &UNITS), Dim::Const(0))
}

/// A vector with an element for each row of each gate.
const fn of_gates(name: &'static str, from: &'static [&'static str], with: u32, storage: Storage) -> TensorSpec {
    TensorSpec::vector(name, from, Dim::Hidden).gates(&gate::LSTM).with(with).stored(storage)
}

/// A vector with an element for each unit.
const fn of_units(name: &'static str, from: &'static [&'static str], with: u32, storage: Storage) -> TensorSpec {
    TensorSpec::vector(name, from, Dim::Hidden).with(with).stored(storage)
}

/// A number of fraction bits. The packer needs it; the step uses it only for epsilon.
const fn sum_bits(name: &'static str) -> NumberSpec {
    NumberSpec { name, least: -31, most: 31, usual: None }
}

const fn peephole(name: &'static str, from: &'static [&'static str]) -> TensorSpec {
    let factors = Storage::Factors {
        shift: number::PEEPHOLE_SHIFT,
        from: Unit::Bits(number::CELL_BITS),
        to: Unit::Bits(number::PREACT_BITS),
    };
    TensorSpec::vector(name, from, Dim::Hidden).with(PEEPHOLE).stored(factors)
}

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: RARE | 1 << PROJECTION | 0b111 << CURVE,
    rules: &[
        few(GATE_NORM, &Dim::Hidden),
        few(JOINT_NORM, &Dim::Product(&[Dim::Const(4), Dim::Hidden])),
        few(CELL_NORM, &Dim::Hidden),
        few(OUTPUT_NORM, &Dim::Hidden),
        // Normalization reads the cell states of all units.
        without_unit_scales(GATE_NORM),
        without_unit_scales(JOINT_NORM),
        without_unit_scales(CELL_NORM),
        without_unit_scales(OUTPUT_NORM),
    ],
    states: None,
    numbers: NUMBERS,
    work: &[Dim::Hidden],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Output)
            .gates(&gate::LSTM)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("rows", BIASES, Dim::Hidden)
            .gates(&gate::LSTM)
            .when(Presence::Neither(GATE_NORM, JOINT_NORM))
            .stored(Storage::rows_of_two(tensor::PAIR.input, tensor::PAIR.recurrent, number::RECURRENT_FIRST, PREACTS)),
        peephole("input_peephole", &["input_peephole"]),
        peephole("forget_peephole", &["forget_peephole"]),
        peephole("output_peephole", &["output_peephole"]),
        TensorSpec::matrix("projection_weights", &["projection_weights"], Dim::Output, Dim::Hidden)
            .with(PROJECTION)
            .stored(Storage::Weights(Unit::Bits(number::MEMORY_BITS))),
        TensorSpec::vector("projection_rows", &[], Dim::Output)
            .with(PROJECTION)
            .stored(Storage::rows(tensor::PROJECTION_WEIGHTS, &[Unit::Output])),
        TensorSpec::table("gate_table", 0),
        TensorSpec::table("cell_table", 1),
        TensorSpec::table("output_table", 2),
        of_gates(
            "gate_sum_rows",
            &[],
            GATE_NORM,
            Storage::rows_of_two(
                tensor::PAIR.input,
                tensor::PAIR.recurrent,
                number::RECURRENT_FIRST,
                &[Unit::Bits(number::SUM_BITS)],
            ),
        ),
        of_gates("input_sum_rows", &[], JOINT_NORM, Storage::rows(tensor::PAIR.input, &[Unit::Bits(number::SUM_BITS)])),
        of_gates(
            "recurrent_sum_rows",
            &[],
            JOINT_NORM,
            Storage::rows(tensor::PAIR.recurrent, &[Unit::Bits(number::RECURRENT_SUM_BITS)]),
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
        of_units("cell_shifts", &[], UNIT_SCALES, Storage::Shifts),
    ],
    quantization: QUANTIZATION.on_host(),
}
.with_tensors_named(TENSORS);

const QUANTIZATION: Quantization = Quantization {
    output: &[(1 << PROJECTION, OutputScale::Measured), (0, OutputScale::Memory)],
    least_output: LeastScale::Projection,
    activations: &[Role::Gate, Role::CandidateBits(&["candidate_shift", "cell_bits"]), Role::Shown("memory_bits")],
    // The cell state is the candidate if i is 1 and the previous state is 0. With `coupled`, i is 1 - f.
    candidate: Some(Candidate {
        activation: Some(1),
        alone: &[
            Alone::Gates(1.0, 1 << COUPLED, 0.0),
            Alone::WithoutParam("cell_clip"),
            Alone::WithoutOption("cell_norm"),
            Alone::WithoutTensor("cell_gain"),
            Alone::WithoutTensor("cell_bias"),
        ],
    }),
    summed: Some(1 << MASKED | 1 << PROJECTION | 1 << COUPLED),
    wide_sums: Some(1 << MASKED | 1 << PROJECTION | 1 << COUPLED | 1 << PEEPHOLE),
    numbers: Numbers::Memory,
    ..Quantization::MOVE
};

/// The spec for `step_rare` and `step_any`, which needs more scratch. It is a spec of its own because a step checks all of the
/// scratch that its spec lists, and `step` should not need more than it uses.
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

/// Updates every unit, c to c', and writes m. The arguments are the node, x, h, c, the scratch and m.
type Update = fn(&Node<'_>, &[i16], &[i16], &mut [i16], &mut [i16], &mut [i16]);

/// One step without a projection and [`RARE`] options: σ for the gates, tanh for candidate and output. `x` is
/// `[input]`, `state` is `[output]` (h) and, aligned as a slot, `[output]` (c), `y` is `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(state.len() / 2) else { return };
    let Some(cell) = cell.get_mut(..node.hidden_size) else { return };
    update::<K>(node, x, hidden, cell, &mut [], y);
    copy(hidden, y);
}

/// [`step`] with or without a projection.
pub(crate) fn step_projected<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    step_by::<K, false>(node, io, update::<K>);
}

/// One step with any options but normalizations.
pub(crate) fn step_rare<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    if is_masked(node, MASKED, io.x) {
        return copy(io.y, io.state);
    }
    step_by::<K, true>(node, io, update_any::<K>);
}

/// One step with any options.
pub(crate) fn step_any<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    if is_masked(node, MASKED, io.x) {
        return copy(io.y, io.state);
    }
    let update = if node.options & NORMS == 0 { update_any::<K> } else { normalized::update::<K> };
    step_by::<K, true>(node, io, update);
}

/// `x` is `[input]`, `state` is `[output]` (h) and, aligned as a slot, `[hidden]` (c), `y` is `[output]`. `work` is the
/// scratch of `update`; with a projection `[hidden]` (m) precedes it, padded as a slot.
fn step_by<K: Kernel, const ANY: bool>(node: &Node<'_>, io: Io<'_, i16>, update: Update) {
    let Io { x, state, work, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.padded(&Dim::Output)) else { return };
    let Some(cell) = cell.get_mut(..node.hidden_size) else { return };
    if node.has(PROJECTION) {
        let Some((m, work)) = work.split_at_mut_checked(node.padded(&Dim::Hidden)) else { return };
        let Some((units, filling)) = m.split_at_mut_checked(node.hidden_size) else { return };
        filling.fill(0);
        update(node, x, hidden, cell, work, units);
        project::<K, ANY>(node, m, y);
    } else {
        update(node, x, hidden, cell, work, y);
    }
    copy(hidden, y);
}

/// The sums of every unit's gates i, f, g, o. `hidden` is padded to whole kernel units. `ANY` is whether the node may have
/// weights of 16 bits.
#[inline(always)]
fn units<'a, 'x, K: Kernel, const ANY: bool>(
    node: &Node<'a>,
    x: &'x [i16],
    hidden: &'x [i16],
) -> Option<Pair<'a, 'x, K, ANY>> {
    let (x, hidden, rows) = ((x, node.input_size), (hidden, node.output_size), 4 * node.hidden_size);
    Pair::new(node, tensor::PAIR, number::RECURRENT_FIRST, rows, x, hidden)
}

fn update<K: Kernel>(node: &Node<'_>, x: &[i16], hidden: &[i16], cell: &mut [i16], _: &mut [i16], m: &mut [i16]) {
    if !node.is_whole(&SPEC) {
        return;
    }
    let shifts =
        LstmShifts { candidate: shift(node, number::CANDIDATE_SHIFT), lift: 15 - shift(node, number::CELL_BITS) };
    let (Some(mut units), mut sums) = (units::<K, false>(node, x, hidden), NO_SUMS) else { return };
    if K::FAST && cell.len() <= CHUNK {
        return usual::lstm(units.all(&mut sums), cell, m, shifts);
    }
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        usual::lstm(units.next(cell.len(), &mut sums), cell, m, shifts);
    }
}

fn update_any<K: Kernel>(node: &Node<'_>, x: &[i16], hidden: &[i16], cell: &mut [i16], _: &mut [i16], m: &mut [i16]) {
    let mix = Mix::new(node);
    let (mut peepholes, mut shifts) = (peepholes(node), node.integers(tensor::CELL_SHIFTS).iter());
    let (Some(mut units), mut sums) = (units::<K, true>(node, x, hidden), NO_SUMS) else { return };
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        for (&[i, f, g, o], (c, m)) in units.next(cell.len(), &mut sums).iter().zip(cell.iter_mut().zip(m)) {
            let finer = shifts.next().map_or(0, |shift| u32::from(shift.cast_unsigned()) & 15);
            let peephole = peepholes.next();
            *c = mix.clipped(from_q15(mix.new_cell([i, f, g], peephole, *c, finer)), finer);
            *m = mix.memory(o, peephole, (*c, finer), mix.activated(*c, finer));
        }
    }
}

/// Combines the gates of a unit of a node with any options.
struct Mix<'a> {
    gate: Curve<'a>,
    candidate: Curve<'a>,
    output: Curve<'a>,
    bits: u32,
    candidate_shift: u32,
    peephole_shift: u32,
    /// Shift from c to the argument of the output's activation.
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

    /// The value of a gate, from 0 to 1.
    fn gate_of(&self, sum: i32) -> i32 {
        self.gate.apply(sum, self.bits).clamp(0, ONE)
    }

    /// A sum plus its peephole term, from c with `finer` fraction bits more than the node's.
    fn with_peephole(&self, sum: i32, factor: i16, c: i16, finer: u32) -> i32 {
        sum.wrapping_add((i32::from(factor) * i32::from(c)) >> (self.peephole_shift + finer))
    }

    /// f c + i g from the sums of i, f, g, with 15 fraction bits more than c, which has `finer` more than the node's.
    fn new_cell(&self, [mut i, mut f, g]: [i32; 3], peephole: Option<[i16; 3]>, c: i16, finer: u32) -> i32 {
        if let Some([p_i, p_f, _]) = peephole {
            i = self.with_peephole(i, p_i, c, finer);
            f = self.with_peephole(f, p_f, c, finer);
        }
        let forget = self.gate_of(f);
        let input = if self.coupled { ONE - forget } else { self.gate_of(i) };
        let candidate = self.candidate.apply(g, self.bits).clamp(-ONE, ONE);
        let added = input.wrapping_mul(candidate) >> self.candidate_shift.saturating_sub(finer);
        forget.wrapping_mul(c.into()).wrapping_add(added)
    }

    fn clipped(&self, c: i32, finer: u32) -> i16 {
        let clip = self.clip << finer;
        c.max(-clip).min(clip).clamp(i16::MIN.into(), i16::MAX.into()) as i16
    }

    /// The output's activation of c.
    fn activated(&self, c: i16, finer: u32) -> i32 {
        self.output.apply(i32::from(c) << self.lift.saturating_sub(finer), 15)
    }

    /// m from the sum of o and the activation of c.
    fn memory(&self, mut o: i32, peephole: Option<[i16; 3]>, (c, finer): (i16, u32), activated: i32) -> i16 {
        if let Some([_, _, p_o]) = peephole {
            o = self.with_peephole(o, p_o, c, finer);
        }
        saturate(from_q15(self.gate_of(o).wrapping_mul(activated.clamp(-ONE, ONE))))
    }
}

/// A number that shifts by at most 15.
fn shift(node: &Node<'_>, number: usize) -> u32 {
    node.number(number).unsigned_abs() & 15
}

/// p_i, p_f, p_o of every unit; empty without peepholes.
fn peepholes<'n>(node: &Node<'n>) -> impl Iterator<Item = [i16; 3]> + use<'n> {
    let [p_i, p_f, p_o] = [0, 1, 2].map(|gate| node.integers(tensor::PEEPHOLES + gate).iter());
    p_i.zip(p_f).zip(p_o).map(|((&i, &f), &o)| [i, f, o])
}

/// y = clip(P m). m is padded to whole kernel units.
fn project<K: Kernel, const ANY: bool>(node: &Node<'_>, m: &[i16], y: &mut [i16]) {
    let clip = node.number(number::PROJECTION_CLIP);
    let (matrix, rows) = (tensor::PROJECTION_WEIGHTS, tensor::PROJECTION_ROWS);
    let mut sums = NO_SUMS;
    let m = (m, node.hidden_size);
    let Some(mut projected) = Single::<K, ANY>::new(node, matrix, rows, node.output_size, m) else { return };
    for y in y.chunks_mut(4 * CHUNK) {
        for (&sum, y) in projected.next(y.len().div_ceil(4), &mut sums).as_flattened().iter().zip(y) {
            *y = sum.max(-clip).min(clip) as i16;
        }
    }
}
