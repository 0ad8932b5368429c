//! The LSTM with σ for the gates, tanh for candidate and output, and no option: what
//! `core/src/cell/lstm/integer.rs` computes.

use tidegate::node::Node;

use super::curve::{from_q15, sigmoid, tanh, tanh_of_cell};
use super::panels::{Panels, Source, turn};
use super::{Integers, Names};
use crate::node::{Io, Kernel};
use crate::simd::Task;

/// i, f, g, o
const GATES: usize = 4;

/// Where its rows come from.
const SOURCE: Source =
    Source { parts: &["input_weights", "recurrent_weights"], rows: "rows", first: "recurrent_first", gates: GATES };

/// A packed node.
pub(super) struct Lstm<S> {
    simd: S,
    input: usize,
    hidden: usize,
    panels: Panels,
    /// The fraction bits that a candidate has more than a cell state.
    candidate: u32,
    /// The fraction bits that a cell state lacks to 15.
    lift: u32,
}

impl<S: Integers> Lstm<S> {
    /// None if the node has options.
    pub fn new(node: &Node<'_>, simd: S) -> Option<Self> {
        if node.options != 0 {
            return None;
        }
        let (input, hidden, names) = (node.input_size, node.hidden_size, Names::of(node)?);
        let panels = Panels::new(node, simd, SOURCE, hidden, &[input, hidden])?;
        let candidate = node.number(names.number("candidate_shift")?).unsigned_abs() & 15;
        let lift = 15 - (node.number(names.number("cell_bits")?).unsigned_abs() & 15);
        Some(Self { simd, input, hidden, panels, candidate, lift })
    }
}

impl<S: Integers> Kernel<i16> for Lstm<S> {
    fn work_len(&self, _: usize) -> usize {
        Panels::operand_len::<S>(self.input) + Panels::operand_len::<S>(self.hidden)
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
        let Lstm { simd, input, hidden, ref panels, candidate, lift } = *lstm;
        // Both begin where a slot may.
        let (h, c) = state.split_at_mut(state.len() / 2);
        let (h, c, y) = (&mut h[..hidden], &mut c[..hidden], &mut y[..hidden]);
        let (x_work, h_work) = work.split_at_mut(Panels::operand_len::<S>(input));
        let x = Panels::operand(simd, &x[..input], x_work);
        let carried = Panels::operand(simd, h, &mut h_work[..Panels::operand_len::<S>(hidden)]);
        let blocks = panels.blocks::<S, GATES>(simd, x, carried);
        for block in turn(hidden.div_ceil(S::LANES), odd) {
            let units = block * S::LANES..hidden.min((block + 1) * S::LANES);
            let (h, c, y) = (&mut h[units.clone()], &mut c[units.clone()], &mut y[units]);
            let [i, f, g, o] = blocks.sums::<1>(block);
            let entering = simd.shr(simd.mul(sigmoid(simd, i), tanh(simd, g)), candidate);
            let next = from_q15(simd, simd.add(simd.mul(sigmoid(simd, f), simd.widen(c)), entering));
            let next = simd.max(simd.min(next, simd.splat(i16::MAX.into())), simd.splat(i16::MIN.into()));
            simd.narrow(next, c);
            let shown = tanh_of_cell(simd, simd.shl(next, lift));
            let m = from_q15(simd, simd.mul(sigmoid(simd, o), shown));
            simd.narrow(m, h);
            simd.narrow(m, y);
        }
    }
}
