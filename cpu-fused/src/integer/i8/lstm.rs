//! TFLite's LSTM.

use tidegate::internals::{fixed::Multiplier, node::Node};

use super::super::curve::clamp;
use super::super::panels::{Gate, Panels, operand, turn, units};
use super::super::sums::Blocks;
use super::super::{Integers, Names};
use super::curves::{divided, sigmoid, tanh, tanh_of_gate};
use super::round::{Factors, saturated};
use crate::layer::{Io, Layer};
use crate::simd::Task;

/// i, f, g, o
const GATES: usize = 4;
const NAMES: [&str; GATES] = ["input_gate", "forget_gate", "cell_gate", "output_gate"];
/// A sum over h is clamped to this before the sum over x is added, which has 16 bits.
const FAR: i32 = 1 << 30;

/// A packed LSTM.
pub struct Lstm<S> {
    simd: S,
    input: Panels,
    recurrent: Panels,
    /// The requantizations of both sums of each gate.
    gates: [[Factors<i32>; 2]; GATES],
    /// Fraction bits of a cell state.
    cell_bits: u32,
    clip: i32,
    output: Factors<i32>,
    limits: [i32; 2],
}

impl<S: Integers> Lstm<S> {
    /// Packs a node.
    pub fn new(node: &Node<'_>, simd: S) -> Option<Self> {
        let (names, units) = (Names::of(node)?, node.output_size);
        let number = |name: &str| Some(node.number(names.number(name)?));
        let factors = |what: &str| {
            let [factor, shift] = [number(&format!("{what}factor"))?, number(&format!("{what}shift"))?];
            Some(Factors::of(Multiplier { factor, shift }))
        };
        let mut gates = [[factors("")?; 2]; GATES];
        for (gate, name) in gates.iter_mut().zip(NAMES) {
            *gate = [factors(&format!("{name}_input_"))?, factors(&format!("{name}_recurrent_"))?];
        }
        let starts = node.tensor_bytes_at(names.tensor("bias")?).as_chunks::<4>().0;
        let start = |row: usize| Some(i32::from_le_bytes(*starts.get(row)?));
        let rows = Gate::all::<GATES>(&["input_weights"], &[]);
        let columns = [node.input_size, 0];
        let input = Panels::packed(node, simd, &rows, units, (columns, false), |gate, row, [excess, _]| {
            debug_assert_eq!(row % GATES, gate, "the gates of a unit are adjacent");
            Some([start(row)?.wrapping_sub(excess), 0, 0, 0])
        })?;
        let rows = Gate::all::<GATES>(&["recurrent_weights"], &[]);
        let recurrent = Panels::packed(node, simd, &rows, units, ([units, 0], false), |_, _, [excess, _]| {
            Some([excess.wrapping_neg(), 0, 0, 0])
        })?;
        Some(Self {
            simd,
            input,
            recurrent,
            gates,
            cell_bits: number("cell_bits")?.unsigned_abs() & 15,
            clip: number("cell_clip")?,
            output: factors("")?,
            limits: [number("least")?, number("most")?],
        })
    }

    /// c' and h' of a block of units, from the sums over x and h of the gates, and c.
    #[inline(always)]
    fn update(&self, [x, h]: [[S::Vector; GATES]; 2], c: S::Vector) -> [S::Vector; 2] {
        let simd = self.simd;
        let mut gates = x;
        for ((gate, h), [of_x, of_h]) in gates.iter_mut().zip(h).zip(self.gates) {
            let of_x = saturated(simd, of_x.splat(simd).twice(simd, *gate));
            let of_h = clamp(simd, of_h.splat(simd).twice(simd, h), -FAR, FAR);
            *gate = saturated(simd, simd.add(of_x, of_h));
        }
        let [i, f, g, o] = gates;
        let (i, f, g, o) = (sigmoid(simd, i), sigmoid(simd, f), tanh_of_gate(simd, g), sigmoid(simd, o));
        let kept = divided(simd, simd.mul(f, c), 15);
        let added = divided(simd, simd.mul(i, g), 30 - self.cell_bits);
        let c = clamp(simd, saturated(simd, simd.add(kept, added)), -self.clip, self.clip);
        let c = saturated(simd, c);
        let shown = simd.mul(o, tanh(simd, c, 15 - self.cell_bits));
        let shown = self.output.splat(simd).twice(simd, shown);
        let [least, most] = self.limits.map(|limit| simd.splat(limit));
        [c, simd.min(simd.max(shown, least), most)]
    }
}

impl<S: Integers> Layer<i16> for Lstm<S> {
    fn work_len(&self, _: usize) -> usize {
        self.input.operands_len::<S>() + self.recurrent.operands_len::<S>()
    }

    fn step(&self, io: Io<'_, i16>) {
        self.simd.vectorize(Step { lstm: self, io });
    }
}

/// One step.
struct Step<'s, S> {
    lstm: &'s Lstm<S>,
    io: Io<'s, i16>,
}

impl<S: Integers> Task for Step<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { lstm, io: Io { x, state, work, y, odd } } = self;
        let Lstm { simd, ref input, ref recurrent, .. } = *lstm;
        // h and c, each padded as a slot.
        let (hidden, cell) = state.split_at_mut(state.len() / 2);
        let (hidden, cell) = (&mut hidden[..input.units], &mut cell[..input.units]);
        let (of_x, of_h) = work.split_at_mut(input.operands_len::<S>());
        let (of_x, of_h) = (operand(simd, &x[..input.columns[0]], of_x), operand(simd, hidden, of_h));
        let over_x = Blocks::<S, GATES, 1, false>::new(simd, input);
        let over_h = Blocks::<S, GATES, 1, false>::new(simd, recurrent);
        for block in turn(input.blocks::<S>(), odd) {
            let now = units::<S>(block, input.units);
            let sums = [over_x.raw(block, of_x), over_h.raw(block, of_h)];
            let [c, h] = lstm.update(sums, simd.widen(&cell[now.clone()]));
            simd.narrow(c, &mut cell[now.clone()]);
            simd.narrow(h, &mut y[now]);
        }
        hidden.copy_from_slice(&y[..hidden.len()]);
    }
}
