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
//! A quotient by 2^15 is rounded to nearest. n has the scale of the output: 15 fraction bits where it is bounded.

use core::mem::MaybeUninit;

use super::{MASKED, NEW, RESET_AFTER, RESET_UPDATE};
use crate::cell::integer::{Operand, Pair, Ready, Single};
use crate::cell::{
    CURVE, Dim, IntegerSpec, Io, NumberSpec, OTHER, Presence, Storage, TensorSpec, Unit, copy, fill_up, is_masked,
};
use crate::curve::{Curves, Given, Usual};
use crate::kernel::Kernel;
use crate::kernel::gates::{self, GruSums, usual};
use crate::node::Node;

/// Numbers of the spec by name.
mod number {
    pub const PREACT_BITS: usize = 0;
    pub const GATE_RECURRENT_FIRST: usize = 1;
    pub const NEW_RECURRENT_FIRST: usize = 2;
    pub const GATE_TABLE_SHIFT: usize = 3;
    pub const NEW_TABLE_SHIFT: usize = 4;
}

/// Tensors of the spec by name.
mod tensor {
    use crate::cell::integer::PairTensors;

    pub const GATES: PairTensors = PairTensors { input: 0, recurrent: 1, rows: 2 };
    pub const NEW: PairTensors = PairTensors { input: 3, recurrent: 4, rows: 5 };
    pub const NEW_INPUT_ROWS: usize = 6;
    pub const NEW_RECURRENT_ROWS: usize = 7;
    pub const GATE_TABLE: usize = 8;
    pub const NEW_TABLE: usize = 9;
}

const GATE: Unit = Unit::Before { activation: 0, bits: number::PREACT_BITS, after: &Unit::Q15 };
const CANDIDATE: Unit = Unit::Before { activation: 1, bits: number::PREACT_BITS, after: &Unit::Output };

/// The options that need the step that has them all.
pub const RARE: u32 = 1 << MASKED | 1 << OTHER;

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: RARE | 1 << RESET_AFTER | 0b11 << CURVE,
    rules: &[],
    numbers: &[
        NumberSpec::PREACT_BITS,
        NumberSpec::recurrent_first("gate_recurrent_first"),
        NumberSpec::recurrent_first("new_recurrent_first"),
        NumberSpec::table_shift("gate_table_shift"),
        NumberSpec::table_shift("new_table_shift"),
    ],
    work: &[Dim::Hidden, Dim::Hidden],
    tensors: &[
        TensorSpec::matrix("gate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(RESET_UPDATE),
        TensorSpec::matrix("gate_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden)
            .gates(RESET_UPDATE)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("gate_rows", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(RESET_UPDATE).stored(
            Storage::Rows {
                input: tensor::GATES.input,
                recurrent: Some((tensor::GATES.recurrent, number::GATE_RECURRENT_FIRST)),
                to: &[GATE],
            },
        ),
        TensorSpec::matrix("new_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(NEW),
        TensorSpec::matrix("new_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden)
            .gates(NEW)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("new_rows", &["input_bias", "recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .when(Presence::Without(RESET_AFTER))
            .stored(Storage::Rows {
                input: tensor::NEW.input,
                recurrent: Some((tensor::NEW.recurrent, number::NEW_RECURRENT_FIRST)),
                to: &[CANDIDATE],
            }),
        TensorSpec::vector("new_input_rows", &["input_bias"], Dim::Hidden)
            .gates(NEW)
            .when(Presence::With(RESET_AFTER))
            .stored(Storage::Rows { input: tensor::NEW.input, recurrent: None, to: &[CANDIDATE] }),
        TensorSpec::vector("new_recurrent_rows", &["recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .when(Presence::With(RESET_AFTER))
            .stored(Storage::Rows { input: tensor::NEW.recurrent, recurrent: None, to: &[CANDIDATE] }),
        TensorSpec::table("gate_table", 0),
        TensorSpec::table("new_table", 1),
    ],
};

/// One step with σ and tanh.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    step_with::<K, _>(node, io, &Usual);
}

/// One step with any activations, which may not count.
pub(crate) fn step_any<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    if is_masked(node, MASKED, io.x) {
        return copy(io.y, io.state);
    }
    let gate = node.curve(0, tensor::GATE_TABLE, number::GATE_TABLE_SHIFT);
    let candidate = node.curve(1, tensor::NEW_TABLE, number::NEW_TABLE_SHIFT);
    let bits = node.number(number::PREACT_BITS).unsigned_abs();
    step_with::<K, _>(node, io, &Given { gate, candidate, bits });
}

#[inline(always)]
fn step_with<K: Kernel, C: Curves>(node: &Node<'_>, io: Io<'_, i16>, curves: &C) {
    match node.has(RESET_AFTER) {
        true if K::FAST && node.hidden_size <= UNITS => reset_after_at_once::<K, C>(node, io, curves),
        true => reset_after::<K, C>(node, io, curves),
        false => reset_before::<K, C>(node, io, curves),
    }
}

/// Vectors make what lies between the sums dearer than they are.
const VECTORS: bool = cfg!(all(target_arch = "arm", feature = "mve"));

/// Units whose sums are taken at a time with the reset after.
const UNITS: usize = if VECTORS { 32 } else { 16 };

/// Where they are put: half a block of gates for each, and a quarter of one over the input and of one over h.
type Sums = [MaybeUninit<[i32; 4]>; UNITS];

/// `x` is `[input]`, `state` (h) and `y` are `[hidden]`; no scratch is needed. By itself, as the other is, so that the stack
/// holds one of them.
#[inline(never)]
fn reset_after<K: Kernel, C: Curves>(node: &Node<'_>, io: Io<'_, i16>, curves: &C) {
    let Io { x, state: hidden, y, .. } = io;
    if !node.is_whole(&SPEC) {
        return;
    }
    let (x, h) = (Ready::<K>::new((x, node.input_size)), Ready::<K>::new((hidden, node.hidden_size)));
    let mut sums: Sums = [const { MaybeUninit::uninit() }; UNITS];
    let Some(mut rows) = Rows::new(node, &x, &h) else { return };
    for (y, hidden) in y.chunks_mut(UNITS).zip(hidden.chunks(UNITS)) {
        gates_of(curves, rows.next(y.len(), &mut sums), hidden, y);
    }
    copy(hidden, y);
}

/// The same of at most [`UNITS`]. By itself, so that the stack holds no more than it needs.
#[inline(never)]
fn reset_after_at_once<K: Kernel, C: Curves>(node: &Node<'_>, io: Io<'_, i16>, curves: &C) {
    let Io { x, state: hidden, y, .. } = io;
    if !node.is_whole(&SPEC) {
        return;
    }
    let (x, h) = (Ready::<K>::new((x, node.input_size)), Ready::<K>::new((hidden, node.hidden_size)));
    let mut sums: Sums = [const { MaybeUninit::uninit() }; UNITS];
    let Some(sums) = Rows::all(node, &x, &h, &mut sums) else { return };
    gates_of(curves, sums, hidden, y);
    copy(hidden, y);
}

/// [`gates::gru`], by a kernel's own for the usual curves.
#[inline(always)]
fn gates_of<C: Curves>(curves: &C, sums: GruSums<'_>, hidden: &[i16], new: &mut [i16]) {
    if C::USUAL { usual::gru(sums, hidden, new) } else { gates::gru(curves, sums, hidden, new) }
}

/// Three sets of rows with the reset after: of r and z over the input and h, of n over the input, of n over h.
struct Rows<'a, 'x, K: Kernel> {
    gates: Pair<'a, 'x, K>,
    of_input: Single<'a, 'x, K>,
    of_hidden: Single<'a, 'x, K>,
}

impl<'a, 'x, K: Kernel> Rows<'a, 'x, K> {
    #[inline(always)]
    fn new(node: &Node<'a>, x: &Ready<'x, K>, h: &Ready<'x, K>) -> Option<Self> {
        let (gates, of_input) = (Self::gates(node, x, h)?, Self::of_input(node, x)?);
        Some(Self { gates, of_input, of_hidden: Self::of_hidden(node, h)? })
    }

    #[inline(always)]
    fn gates(node: &Node<'a>, x: &Ready<'x, K>, h: &Ready<'x, K>) -> Option<Pair<'a, 'x, K>> {
        Pair::of_ready(node, tensor::GATES, number::GATE_RECURRENT_FIRST, 2 * node.hidden_size, x, h)
    }

    #[inline(always)]
    fn of_input(node: &Node<'a>, x: &Ready<'x, K>) -> Option<Single<'a, 'x, K>> {
        Single::of_ready(node, tensor::NEW.input, tensor::NEW_INPUT_ROWS, node.hidden_size, x)
    }

    #[inline(always)]
    fn of_hidden(node: &Node<'a>, h: &Ready<'x, K>) -> Option<Single<'a, 'x, K>> {
        Single::of_ready(node, tensor::NEW.recurrent, tensor::NEW_RECURRENT_ROWS, node.hidden_size, h)
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

    /// The sums of all units, which are at most [`UNITS`].
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

/// Of the gates, over the input and over h.
#[inline(always)]
fn places(sums: &mut Sums) -> [&mut [MaybeUninit<[i32; 4]>]; 3] {
    let (gates, new) = sums.split_at_mut(UNITS / 2);
    let (of_input, of_hidden) = new.split_at_mut(UNITS / 4);
    [gates, of_input, of_hidden]
}

/// Blocks whose sums are taken at a time with the reset before.
const BLOCKS: usize = if VECTORS { 16 } else { 8 };

/// `x` is `[input]`, `state` (h) and `y` are `[hidden]`, `work` is `[hidden]` (r ⊙ h) and, from where a slot may begin,
/// `[hidden]` (z). z is unsigned, for 1 has its 16 bits.
#[inline(never)]
fn reset_before<K: Kernel, C: Curves>(node: &Node<'_>, io: Io<'_, i16>, curves: &C) {
    let Io { x, state: hidden, work, y, .. } = io;
    if !node.is_whole(&SPEC) {
        return;
    }
    let Some((reset, update)) = work.split_at_mut_checked(node.padded(&Dim::Hidden)) else { return };
    let Some(update) = update.get_mut(..node.hidden_size) else { return };
    let input = (x, node.input_size);
    let mut sums = [const { MaybeUninit::uninit() }; BLOCKS];
    open::<K, C>(node, input, hidden, curves, reset, update, &mut sums);
    fill_up(reset.get_mut(node.hidden_size..).unwrap_or_default());
    close::<K, C>(node, input, curves, reset, (update, hidden, y), &mut sums);
}

/// r ⊙ h and z of every unit. A block of four rows holds r, z of two units.
fn open<K: Kernel, C: Curves>(
    node: &Node<'_>,
    x: Operand<'_>,
    hidden: &[i16],
    curves: &C,
    reset: &mut [i16],
    update: &mut [i16],
    sums: &mut [MaybeUninit<[i32; 4]>; BLOCKS],
) {
    let (carried, first, rows) = ((hidden, node.hidden_size), number::GATE_RECURRENT_FIRST, 2 * node.hidden_size);
    let Some(mut pair) = Pair::<K>::new(node, tensor::GATES, first, rows, x, carried) else { return };
    if K::FAST && update.len() <= 2 * BLOCKS {
        return open_all(curves, pair.all(sums), hidden, reset, update);
    }
    let units = reset.chunks_mut(2 * BLOCKS).zip(update.chunks_mut(2 * BLOCKS)).zip(hidden.chunks(2 * BLOCKS));
    for ((reset, update), hidden) in units {
        open_all(curves, pair.next(update.len().div_ceil(2), sums), hidden, reset, update);
    }
}

/// [`gates::reset_update`], by a kernel's own for the usual curves.
#[inline(always)]
fn open_all<C: Curves>(curves: &C, sums: &[[i32; 4]], hidden: &[i16], reset: &mut [i16], update: &mut [i16]) {
    let (sums, _) = sums.as_flattened().as_chunks();
    if C::USUAL {
        usual::reset_update(sums, hidden, reset, update);
    } else {
        gates::reset_update(curves, sums, hidden, reset, update);
    }
}

/// h' of every unit, four to a block, of r ⊙ h, z, h.
fn close<K: Kernel, C: Curves>(
    node: &Node<'_>,
    x: Operand<'_>,
    curves: &C,
    reset: &[i16],
    (update, hidden, new): (&[i16], &mut [i16], &mut [i16]),
    sums: &mut [MaybeUninit<[i32; 4]>; BLOCKS],
) {
    let (carried, first) = ((reset, node.hidden_size), number::NEW_RECURRENT_FIRST);
    let Some(mut pair) = Pair::<K>::new(node, tensor::NEW, first, node.hidden_size, x, carried) else { return };
    if K::FAST && new.len() <= 4 * BLOCKS {
        return close_all(curves, pair.all(sums), update, hidden, new);
    }
    let units = update.chunks(4 * BLOCKS).zip(hidden.chunks_mut(4 * BLOCKS)).zip(new.chunks_mut(4 * BLOCKS));
    for ((update, hidden), new) in units {
        close_all(curves, pair.next(new.len().div_ceil(4), sums), update, hidden, new);
    }
}

/// [`gates::interpolate`], by a kernel's own for the usual curves.
#[inline(always)]
fn close_all<C: Curves>(curves: &C, sums: &[[i32; 4]], update: &[i16], hidden: &mut [i16], new: &mut [i16]) {
    let sums = sums.as_flattened();
    if C::USUAL {
        usual::interpolate(sums, update, hidden, new);
    } else {
        gates::interpolate(curves, sums, update, hidden, new);
    }
}
