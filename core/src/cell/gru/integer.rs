//! The GRU in the integer numerics.
//!
//! ```text
//! a = ⌊(W x + R h + b) · multiplier / 2^32⌋           preact_bits fraction bits
//! r, z = σ(a)                                         15 fraction bits
//! n = tanh(⌊(W x + R (r h / 2^15) + b) · multiplier / 2^32⌋)                                         reset before
//! n = tanh(⌊(W x + b) · multiplier / 2^32⌋ + r ⌊(R h + b_r) · multiplier / 2^32⌋ / 2^15)             reset after
//! h' = (z h + (1 - z) n) / 2^15
//! ```
//!
//! A quotient by 2^15 is rounded to nearest. n has the scale of the output: 15 fraction bits if n is bounded.

use core::mem::MaybeUninit;

use super::{MASKED, NEW, RESET_AFTER, RESET_UPDATE};
use crate::cell::integer::{Operand, Pair, PairTensors, Ready, Single};
use crate::cell::prelude::*;
use crate::curve::{Curves, Given, Usual};
use crate::element::fill_up;
use crate::kernel::gates::{self, GruSums, usual};

const NUMBERS: &[NumberSpec] = &[
    NumberSpec::PREACT_BITS,
    NumberSpec::recurrent_first("gate_recurrent_first"),
    NumberSpec::recurrent_first("new_recurrent_first"),
    NumberSpec::table_shift("gate_table_shift"),
    NumberSpec::table_shift("new_table_shift"),
];
const PREACT_BITS: usize = number(NUMBERS, "preact_bits");
const GATE_RECURRENT_FIRST: usize = number(NUMBERS, "gate_recurrent_first");
const NEW_RECURRENT_FIRST: usize = number(NUMBERS, "new_recurrent_first");
const GATE_TABLE_SHIFT: usize = number(NUMBERS, "gate_table_shift");
const NEW_TABLE_SHIFT: usize = number(NUMBERS, "new_table_shift");

const TENSORS: &[&str] = &[
    "gate_input_weights",
    "gate_recurrent_weights",
    "gate_rows",
    "new_input_weights",
    "new_recurrent_weights",
    "new_rows",
    "new_input_rows",
    "new_recurrent_rows",
    "gate_table",
    "new_table",
];
const GATE_PAIR: PairTensors =
    PairTensors::named(TENSORS, ["gate_input_weights", "gate_recurrent_weights", "gate_rows"]);
const NEW_PAIR: PairTensors = PairTensors::named(TENSORS, ["new_input_weights", "new_recurrent_weights", "new_rows"]);
const NEW_INPUT_ROWS: usize = index(TENSORS, "new_input_rows");
const NEW_RECURRENT_ROWS: usize = index(TENSORS, "new_recurrent_rows");
const GATE_TABLE: usize = index(TENSORS, "gate_table");
const NEW_TABLE: usize = index(TENSORS, "new_table");

const GATE: Unit = Unit::Before { activation: 0, bits: PREACT_BITS, after: &Unit::Q15 };
const CANDIDATE: Unit = Unit::Before { activation: 1, bits: PREACT_BITS, after: &Unit::Output };

/// The options that need `step_any`.
pub const RARE: u32 = 1 << MASKED | 1 << OTHER | 1 << WIDE;

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: RARE | 1 << RESET_AFTER | 0b11 << CURVE,
    numbers: NUMBERS,
    work: &[Dim::Hidden, Dim::Hidden],
    tensors: &[
        TensorSpec::matrix("gate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(RESET_UPDATE),
        TensorSpec::matrix("gate_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden)
            .gates(RESET_UPDATE)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("gate_rows", &["input_bias", "recurrent_bias"], Dim::Hidden)
            .gates(RESET_UPDATE)
            .stored(Storage::rows_of_two(GATE_PAIR.input, GATE_PAIR.recurrent, GATE_RECURRENT_FIRST, &[GATE])),
        TensorSpec::matrix("new_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(NEW),
        TensorSpec::matrix("new_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden)
            .gates(NEW)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("new_rows", &["input_bias", "recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .without(RESET_AFTER)
            .stored(Storage::rows_of_two(NEW_PAIR.input, NEW_PAIR.recurrent, NEW_RECURRENT_FIRST, &[CANDIDATE])),
        TensorSpec::vector("new_input_rows", &["input_bias"], Dim::Hidden)
            .gates(NEW)
            .with(RESET_AFTER)
            .stored(Storage::rows(NEW_PAIR.input, &[CANDIDATE])),
        TensorSpec::vector("new_recurrent_rows", &["recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .with(RESET_AFTER)
            .stored(Storage::rows(NEW_PAIR.recurrent, &[CANDIDATE])),
        TensorSpec::table("gate_table", 0),
        TensorSpec::table("new_table", 1),
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

const QUANTIZATION: Quantization = Quantization {
    output: &[(0, OutputScale::Activation(1))],
    least_output: LeastScale::Candidate(Gate::New),
    activations: &[Role::Gate, Role::Candidate],
    // A bias of -1e9 closes the update gate; the reset gate is unchanged.
    candidate: Some(Candidate { activation: Some(1), alone: &[Alone::Bias(Gate::Update, -1e9)] }),
    summed: Some(1 << RESET_AFTER | 1 << MASKED),
    wide_sums: Some(1 << RESET_AFTER | 1 << MASKED),
    multiplied: Some((1 << RESET_AFTER, Gate::New)),
    ..Quantization::MOVE
};

/// One step with σ and tanh.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    step_with::<K, _, false>(node, io, &Usual);
}

/// One step with any activations and with masks.
pub(crate) fn step_any<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    if is_masked(node, MASKED, io.x) {
        return copy(io.y, io.state);
    }
    let gate = node.curve(0, GATE_TABLE, GATE_TABLE_SHIFT);
    let candidate = node.curve(1, NEW_TABLE, NEW_TABLE_SHIFT);
    let bits = node.number(PREACT_BITS).unsigned_abs();
    step_with::<K, _, true>(node, io, &Given { gate, candidate, bits });
}

#[inline(always)]
fn step_with<K: Kernel, C: Curves, const ANY: bool>(node: &Node<'_>, io: Io<'_, i16>, curves: &C) {
    match node.has(RESET_AFTER) {
        true if K::FAST && node.hidden_size <= UNITS => reset_after_at_once::<K, C, ANY>(node, io, curves),
        true => reset_after::<K, C, ANY>(node, io, curves),
        false => reset_before::<K, C, ANY>(node, io, curves),
    }
}

/// With vector instructions the overhead between chunks of sums weighs more, so the chunks are larger.
const VECTORS: bool = cfg!(all(target_arch = "arm", feature = "mve"));

/// Number of units whose sums are computed together if the reset is applied after.
const UNITS: usize = if VECTORS { 32 } else { 16 };

/// Memory for the sums: per unit half a block for the gates, a quarter for n over the input and a quarter for n over h.
type Sums = [MaybeUninit<[i32; 4]>; UNITS];

/// One step with the reset after the product. `x` is `[input]`, `state` (h) and `y` are `[hidden]`; no scratch is
/// needed. Never inlined, like [`reset_after_at_once`], so that the stack holds the sums of only one of them.
#[inline(never)]
fn reset_after<K: Kernel, C: Curves, const ANY: bool>(node: &Node<'_>, io: Io<'_, i16>, curves: &C) {
    let Io { x, state: hidden, y, .. } = io;
    if !node.is_whole(&SPEC) {
        return;
    }
    let (x, h) = (Ready::<K>::new((x, node.input_size)), Ready::<K>::new((hidden, node.hidden_size)));
    let mut sums: Sums = [const { MaybeUninit::uninit() }; UNITS];
    let Some(mut rows) = Rows::<K, ANY>::new(node, &x, &h) else { return };
    for (y, hidden) in y.chunks_mut(UNITS).zip(hidden.chunks(UNITS)) {
        gates_of(curves, rows.next(y.len(), &mut sums), hidden, y);
    }
    copy(hidden, y);
}

/// [`reset_after`] for at most [`UNITS`] units. Never inlined, to limit the stack.
#[inline(never)]
fn reset_after_at_once<K: Kernel, C: Curves, const ANY: bool>(node: &Node<'_>, io: Io<'_, i16>, curves: &C) {
    let Io { x, state: hidden, y, .. } = io;
    if !node.is_whole(&SPEC) {
        return;
    }
    let (x, h) = (Ready::<K>::new((x, node.input_size)), Ready::<K>::new((hidden, node.hidden_size)));
    let mut sums: Sums = [const { MaybeUninit::uninit() }; UNITS];
    let Some(sums) = Rows::<K, ANY>::all(node, &x, &h, &mut sums) else { return };
    gates_of(curves, sums, hidden, y);
    copy(hidden, y);
}

/// [`gates::gru`], in the version of the kernel for the usual curves.
#[inline(always)]
fn gates_of<C: Curves>(curves: &C, sums: GruSums<'_>, hidden: &[i16], new: &mut [i16]) {
    if C::USUAL { usual::gru(sums, hidden, new) } else { gates::gru(curves, sums, hidden, new) }
}

/// The three sets of rows for the reset after: r and z over the input and h, n over the input, and n over h. `ANY` is
/// whether the node may have weights of 16 bits.
struct Rows<'a, 'x, K: Kernel, const ANY: bool> {
    gates: Pair<'a, 'x, K, ANY>,
    of_input: Single<'a, 'x, K, ANY>,
    of_hidden: Single<'a, 'x, K, ANY>,
}

impl<'a, 'x, K: Kernel, const ANY: bool> Rows<'a, 'x, K, ANY> {
    #[inline(always)]
    fn new(node: &Node<'a>, x: &Ready<'x, K>, h: &Ready<'x, K>) -> Option<Self> {
        let (gates, of_input) = (Self::gates(node, x, h)?, Self::of_input(node, x)?);
        Some(Self { gates, of_input, of_hidden: Self::of_hidden(node, h)? })
    }

    #[inline(always)]
    fn gates(node: &Node<'a>, x: &Ready<'x, K>, h: &Ready<'x, K>) -> Option<Pair<'a, 'x, K, ANY>> {
        Pair::of_ready(node, GATE_PAIR, GATE_RECURRENT_FIRST, 2 * node.hidden_size, x, h)
    }

    #[inline(always)]
    fn of_input(node: &Node<'a>, x: &Ready<'x, K>) -> Option<Single<'a, 'x, K, ANY>> {
        Single::of_ready(node, NEW_PAIR.input, NEW_INPUT_ROWS, node.hidden_size, x)
    }

    #[inline(always)]
    fn of_hidden(node: &Node<'a>, h: &Ready<'x, K>) -> Option<Single<'a, 'x, K, ANY>> {
        Single::of_ready(node, NEW_PAIR.recurrent, NEW_RECURRENT_ROWS, node.hidden_size, h)
    }

    /// The sums of the next units.
    #[inline(always)]
    fn next<'s>(&mut self, units: usize, sums: &'s mut Sums) -> GruSums<'s> {
        let (pairs, fours, [gates, of_input, of_hidden]) = (units.div_ceil(2), units.div_ceil(4), places(sums));
        GruSums {
            gates: self.gates.next(pairs, gates).as_flattened().as_chunks().0,
            of_input: self.of_input.next(fours, of_input).as_flattened(),
            of_hidden: self.of_hidden.next(fours, of_hidden).as_flattened(),
        }
    }

    /// The sums of all units, at most [`UNITS`].
    #[inline(always)]
    fn all<'s>(node: &Node<'a>, x: &Ready<'x, K>, h: &Ready<'x, K>, sums: &'s mut Sums) -> Option<GruSums<'s>> {
        let [gates, of_input, of_hidden] = places(sums);
        Some(GruSums {
            gates: Self::gates(node, x, h)?.all(gates).as_flattened().as_chunks().0,
            of_input: Self::of_input(node, x)?.all(of_input).as_flattened(),
            of_hidden: Self::of_hidden(node, h)?.all(of_hidden).as_flattened(),
        })
    }
}

/// The memory for the sums of the gates, of n over the input and of n over h.
#[inline(always)]
fn places(sums: &mut Sums) -> [&mut [MaybeUninit<[i32; 4]>]; 3] {
    let (gates, new) = sums.split_at_mut(UNITS / 2);
    let (of_input, of_hidden) = new.split_at_mut(UNITS / 4);
    [gates, of_input, of_hidden]
}

/// Number of blocks whose sums are computed together if the reset is applied before.
const BLOCKS: usize = if VECTORS { 16 } else { 8 };

/// One step with the reset before the product. `x` is `[input]`, `state` (h) and `y` are `[hidden]`, `work` is
/// `[hidden]` (r ⊙ h) and, aligned as a slot, `[hidden]` (z). z is unsigned: 1.0 needs 16 bits.
#[inline(never)]
fn reset_before<K: Kernel, C: Curves, const ANY: bool>(node: &Node<'_>, io: Io<'_, i16>, curves: &C) {
    let Io { x, state: hidden, work, y, .. } = io;
    if !node.is_whole(&SPEC) {
        return;
    }
    let Some((reset, update)) = work.split_at_mut_checked(node.padded(&Dim::Hidden)) else { return };
    let Some(update) = update.get_mut(..node.hidden_size) else { return };
    let input = (x, node.input_size);
    let mut sums = [const { MaybeUninit::uninit() }; BLOCKS];
    open::<K, C, ANY>(node, input, hidden, curves, reset, update, &mut sums);
    fill_up(reset.get_mut(node.hidden_size..).unwrap_or_default());
    close::<K, C, ANY>(node, input, curves, reset, (update, hidden, y), &mut sums);
}

/// Computes r ⊙ h and z of every unit. A block of four rows holds r and z of two units.
fn open<K: Kernel, C: Curves, const ANY: bool>(
    node: &Node<'_>,
    x: Operand<'_>,
    hidden: &[i16],
    curves: &C,
    reset: &mut [i16],
    update: &mut [i16],
    sums: &mut [MaybeUninit<[i32; 4]>; BLOCKS],
) {
    let (carried, first, rows) = ((hidden, node.hidden_size), GATE_RECURRENT_FIRST, 2 * node.hidden_size);
    let Some(mut pair) = Pair::<K, ANY>::new(node, GATE_PAIR, first, rows, x, carried) else { return };
    if K::FAST && update.len() <= 2 * BLOCKS {
        return open_all(curves, pair.all(sums), hidden, reset, update);
    }
    let units = reset.chunks_mut(2 * BLOCKS).zip(update.chunks_mut(2 * BLOCKS)).zip(hidden.chunks(2 * BLOCKS));
    for ((reset, update), hidden) in units {
        open_all(curves, pair.next(update.len().div_ceil(2), sums), hidden, reset, update);
    }
}

/// [`gates::reset_update`], in the version of the kernel for the usual curves.
#[inline(always)]
fn open_all<C: Curves>(curves: &C, sums: &[[i32; 4]], hidden: &[i16], reset: &mut [i16], update: &mut [i16]) {
    let (sums, _) = sums.as_flattened().as_chunks();
    if C::USUAL {
        usual::reset_update(sums, hidden, reset, update);
    } else {
        gates::reset_update(curves, sums, hidden, reset, update);
    }
}

/// Computes h' of every unit, four to a block, from r ⊙ h, z and h.
fn close<K: Kernel, C: Curves, const ANY: bool>(
    node: &Node<'_>,
    x: Operand<'_>,
    curves: &C,
    reset: &[i16],
    (update, hidden, new): (&[i16], &mut [i16], &mut [i16]),
    sums: &mut [MaybeUninit<[i32; 4]>; BLOCKS],
) {
    let (carried, first) = ((reset, node.hidden_size), NEW_RECURRENT_FIRST);
    let Some(mut pair) = Pair::<K, ANY>::new(node, NEW_PAIR, first, node.hidden_size, x, carried) else { return };
    if K::FAST && new.len() <= 4 * BLOCKS {
        return close_all(curves, pair.all(sums), update, hidden, new);
    }
    let units = update.chunks(4 * BLOCKS).zip(hidden.chunks_mut(4 * BLOCKS)).zip(new.chunks_mut(4 * BLOCKS));
    for ((update, hidden), new) in units {
        close_all(curves, pair.next(new.len().div_ceil(4), sums), update, hidden, new);
    }
}

/// [`gates::interpolate`], in the version of the kernel for the usual curves.
#[inline(always)]
fn close_all<C: Curves>(curves: &C, sums: &[[i32; 4]], update: &[i16], hidden: &mut [i16], new: &mut [i16]) {
    let sums = sums.as_flattened();
    if C::USUAL {
        usual::interpolate(sums, update, hidden, new);
    } else {
        gates::interpolate(curves, sums, update, hidden, new);
    }
}
