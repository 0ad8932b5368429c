//! The GRU with σ and tanh, the reset before or after the product: what `core/src/cell/gru/integer.rs` computes.

use tidegate::node::Node;
use tidegate::quant::ONE;

use super::curve::{from_q15, sigmoid, tanh};
use super::panels::{Panels, Source, turn};
use super::{Integers, has};
use crate::node::{Io, Kernel};
use crate::simd::Task;

/// r and z
const GATES: Source = Source {
    parts: &["gate_input_weights", "gate_recurrent_weights"],
    rows: "gate_rows",
    first: "gate_recurrent_first",
    gates: 2,
};
/// n with the reset before
const NEW: Source = Source {
    parts: &["new_input_weights", "new_recurrent_weights"],
    rows: "new_rows",
    first: "new_recurrent_first",
    gates: 1,
};
/// n with the reset after, of what comes in
const NEW_INPUT: Source = Source { parts: &["new_input_weights"], rows: "new_input_rows", first: "", gates: 1 };
/// n with the reset after, of what is carried
const NEW_RECURRENT: Source =
    Source { parts: &["new_recurrent_weights"], rows: "new_recurrent_rows", first: "", gates: 1 };

/// Chains of sums of a gate, and of a candidate: as many as hide how long a product takes.
const GATE_CHAINS: usize = 2;
const NEW_CHAINS: usize = 4;

/// A packed node.
pub(super) struct Gru<S> {
    simd: S,
    input: usize,
    hidden: usize,
    gates: Panels,
    new: New,
}

/// The rows of n.
enum New {
    /// n = tanh(W x + R (r ⊙ h))
    Before(Panels),
    /// n = tanh(W x + r ⊙ R h)
    After { input: Panels, recurrent: Panels },
}

impl<S: Integers> Gru<S> {
    /// None if the node has options beside the place of the reset.
    pub fn new(node: &Node<'_>, simd: S) -> Option<Self> {
        let after = has(node, "reset_after");
        if node.options.count_ones() != u32::from(after) {
            return None;
        }
        let (input, hidden) = (node.input_size, node.hidden_size);
        let panels = |source, columns: &[usize]| Panels::new(node, simd, source, hidden, columns);
        let new = if after {
            New::After { input: panels(NEW_INPUT, &[input])?, recurrent: panels(NEW_RECURRENT, &[hidden])? }
        } else {
            New::Before(panels(NEW, &[input, hidden])?)
        };
        Some(Self { simd, input, hidden, gates: panels(GATES, &[input, hidden])?, new })
    }
}

impl<S: Integers> Kernel<i16> for Gru<S> {
    fn work_len(&self, _: usize) -> usize {
        let hidden = Panels::operand_len::<S>(self.hidden);
        let before = if matches!(self.new, New::Before(_)) { hidden + 2 * self.hidden } else { 0 };
        Panels::operand_len::<S>(self.input) + hidden + before
    }

    fn step(&self, io: Io<'_, i16>) {
        self.simd.vectorize(Step { gru: self, io });
    }
}

/// One step.
struct Step<'s, S> {
    gru: &'s Gru<S>,
    io: Io<'s, i16>,
}

impl<S: Integers> Task for Step<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { gru, io: Io { x, state, work, y, odd } } = self;
        let Gru { simd, input, hidden, ref gates, ref new } = *gru;
        let (h, y) = (&mut state[..hidden], &mut y[..hidden]);
        let (x_work, work) = work.split_at_mut(Panels::operand_len::<S>(input));
        let (h_work, work) = work.split_at_mut(Panels::operand_len::<S>(hidden));
        let x = Panels::operand(simd, &x[..input], x_work);
        let carried = Panels::operand(simd, h, h_work);
        let gates = gates.blocks::<S, 2>(simd, x, carried);
        let turn = turn(hidden.div_ceil(S::LANES), odd);
        let units = |block: usize| block * S::LANES..hidden.min((block + 1) * S::LANES);
        match new {
            New::After { input, recurrent } => {
                let of_input = input.blocks::<S, 1>(simd, x, &[]);
                let of_hidden = recurrent.blocks::<S, 1>(simd, carried, &[]);
                for block in turn {
                    let [r, z] = gates.sums::<GATE_CHAINS>(block);
                    let (r, z) = (sigmoid(simd, r), sigmoid(simd, z));
                    let ([a], [b]) = (of_input.sums::<NEW_CHAINS>(block), of_hidden.sums::<NEW_CHAINS>(block));
                    // 17 bits, so that the product fits.
                    const MOST: i32 = (1 << 16) - 1;
                    let b = simd.max(simd.min(b, simd.splat(MOST)), simd.splat(!MOST));
                    let n = tanh(simd, simd.add(a, from_q15(simd, simd.mul(r, b))));
                    interpolate(simd, z, n, &mut h[units(block)], &mut y[units(block)]);
                }
            }
            New::Before(new) => {
                let (reset_work, work) = work.split_at_mut(Panels::operand_len::<S>(hidden));
                let (reset, update) = work[..2 * hidden].split_at_mut(hidden);
                for block in turn.clone() {
                    let [r, z] = gates.sums::<GATE_CHAINS>(block);
                    let (r, z) = (sigmoid(simd, r), sigmoid(simd, z));
                    let reset_hidden = from_q15(simd, simd.mul(r, simd.widen(&h[units(block)])));
                    simd.narrow(reset_hidden, &mut reset[units(block)]);
                    simd.narrow(z, &mut update[units(block)]);
                }
                let reset = Panels::operand(simd, reset, reset_work);
                let new = new.blocks::<S, 1>(simd, x, reset);
                for block in turn {
                    let [n] = new.sums::<NEW_CHAINS>(block);
                    let n = tanh(simd, n);
                    // z is unsigned, for 1 has its 16 bits.
                    let z = simd.and(simd.widen(&update[units(block)]), simd.splat(0xffff));
                    interpolate(simd, z, n, &mut h[units(block)], &mut y[units(block)]);
                }
            }
        }
    }
}

/// h' = z h + (1 - z) n
#[inline(always)]
fn interpolate<S: Integers>(simd: S, z: S::Vector, n: S::Vector, h: &mut [i16], y: &mut [i16]) {
    let kept = simd.mul(z, simd.widen(h));
    let next = from_q15(simd, simd.add(kept, simd.mul(simd.sub(simd.splat(ONE), z), n)));
    simd.narrow(next, h);
    simd.narrow(next, y);
}
