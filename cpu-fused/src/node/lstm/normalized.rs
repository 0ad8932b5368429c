//! The update of an LSTM with layer normalizations, in passes over the units as `tidegate` has it: statistics need every
//! unit's numbers before the first unit can go on.

use tidegate::cell::lstm::{CELL_NORM, GATE_NORM, JOINT_NORM, OUTPUT_NORM};
use tidegate::node::Node;

use super::{GATES, Lstm, clip};
use crate::curves;
use crate::lines::Lines;
use crate::node::norm::{Affine, Rows};
use crate::node::tensor;
use crate::simd::Simd;
use crate::weight::Weight;

/// What is normalized.
pub struct Norms {
    rows: Rows,
    gates: Gates,
    cell: Option<Affine>,
    output: Option<Affine>,
}

/// Sums of gates that are normalized begin at zero; gains and biases lie as they do.
enum Gates {
    Plain,
    /// Each by itself.
    Each {
        gain: Lines<f32>,
        bias: Lines<f32>,
    },
    /// Those of the input, and those of what is carried, over all gates.
    Joint {
        input_gain: Lines<f32>,
        recurrent_gain: Lines<f32>,
        bias: Lines<f32>,
    },
}

impl Norms {
    /// None without any. `by_row` gives a tensor in the order of the sums.
    pub fn pack<S: Simd>(node: &Node<'_>, s: S, by_row: impl Fn(&str) -> Lines<f32>) -> Option<Self> {
        let gates = if node.has(GATE_NORM) {
            Gates::Each { gain: by_row("gate_gain"), bias: by_row("bias") }
        } else if node.has(JOINT_NORM) {
            let [input_gain, recurrent_gain] = ["input_gain", "recurrent_gain"].map(&by_row);
            Gates::Joint { input_gain, recurrent_gain, bias: by_row("bias") }
        } else {
            Gates::Plain
        };
        let affine = |option, [gain, bias]: [&str; 2]| {
            let elements = |name| node.elements(tensor(node, name));
            node.has(option).then(|| Affine::new(s, node.hidden_size, elements(gain), elements(bias)))
        };
        let cell = affine(CELL_NORM, ["cell_gain", "cell_bias"]);
        let output = affine(OUTPUT_NORM, ["output_gain", "output_bias"]);
        if matches!(gates, Gates::Plain) && cell.is_none() && output.is_none() {
            return None;
        }
        Some(Self { rows: Rows::new(node.hidden_size, node.param(2)), gates, cell, output })
    }

    /// Whether sums begin at zero: the bias comes later.
    pub fn of_gates(&self) -> bool {
        !matches!(self.gates, Gates::Plain)
    }

    /// Whether what is carried has sums of its own.
    pub fn is_joint(&self) -> bool {
        matches!(self.gates, Gates::Joint { .. })
    }
}

/// Four vectors of a block: one of each gate.
#[inline(always)]
fn gates<S: Simd>(s: S, block: &[S::Lanes; GATES]) -> [S::F32; GATES] {
    [s.load(&block[0]), s.load(&block[1]), s.load(&block[2]), s.load(&block[3])]
}

#[inline(always)]
fn blocks<S: Simd>(_: S, row: &[f32]) -> &[[S::Lanes; GATES]] {
    bytemuck::cast_slice::<f32, S::Lanes>(row).as_chunks().0
}

#[inline(always)]
fn blocks_mut<S: Simd>(_: S, row: &mut [f32]) -> &mut [[S::Lanes; GATES]] {
    bytemuck::cast_slice_mut::<f32, S::Lanes>(row).as_chunks_mut().0
}

impl<S: Simd, W: Weight> Lstm<S, W> {
    /// From the sums, which it writes over, to c' and m.
    #[inline(always)]
    pub fn update_normalized<const USUAL: bool>(
        &self,
        norms: &Norms,
        sums: &mut [f32],
        of_state: &[f32],
        c: &mut [f32],
        m: &mut [f32],
    ) {
        self.normalize_gates(norms, sums, of_state);
        self.remember::<USUAL>(sums, c);
        self.normalize_cell(norms, c);
        self.show::<USUAL>(norms, sums, c, m);
    }

    #[inline(always)]
    fn normalize_gates(&self, norms: &Norms, sums: &mut [f32], of_state: &[f32]) {
        let s = self.s;
        match &norms.gates {
            Gates::Plain => {}
            Gates::Each { gain, bias } => {
                let moments = norms.rows.each::<S, GATES>(s, sums);
                let scales = blocks(s, gain.get()).iter().zip(blocks(s, bias.get()));
                for (sums, (gain, bias)) in blocks_mut(s, sums).iter_mut().zip(scales) {
                    let (gain, bias) = (gates(s, gain), gates(s, bias));
                    for g in 0..GATES {
                        let normalized = moments[g].apply(s, s.load(&sums[g]));
                        s.store(s.fma(normalized, gain[g], bias[g]), &mut sums[g]);
                    }
                }
            }
            Gates::Joint { input_gain, recurrent_gain, bias } => {
                let [input, recurrent] = norms.rows.joint::<S, GATES>(s, [sums, of_state]);
                let scales = blocks(s, input_gain.get()).iter().zip(blocks(s, recurrent_gain.get()));
                let of_blocks =
                    blocks_mut(s, sums).iter_mut().zip(blocks(s, of_state)).zip(scales).zip(blocks(s, bias.get()));
                for (((sums, of_state), (input_gain, recurrent_gain)), bias) in of_blocks {
                    for g in 0..GATES {
                        let from_state = recurrent.apply(s, s.load(&of_state[g]));
                        let from_state = s.fma(from_state, s.load(&recurrent_gain[g]), s.load(&bias[g]));
                        let from_input = input.apply(s, s.load(&sums[g]));
                        s.store(s.fma(from_input, s.load(&input_gain[g]), from_state), &mut sums[g]);
                    }
                }
            }
        }
    }

    /// c becomes f ⊙ c + i ⊙ g.
    #[inline(always)]
    fn remember<const USUAL: bool>(&self, sums: &[f32], c: &mut [f32]) {
        let s = self.s;
        for (index, (block, c)) in blocks(s, sums).iter().zip(c.chunks_mut(S::LANES)).enumerate() {
            let [i, f, g, _] = gates(s, block);
            let before = s.load_part(c);
            let kept = if USUAL {
                s.fma(curves::sigmoid(s, f), before, s.mul(curves::sigmoid(s, i), curves::tanh(s, g)))
            } else {
                self.kept(index, [i, f, g], before)
            };
            s.store_part(kept, c);
        }
    }

    /// c becomes what is carried: normalized with `cell_norm`, then clipped.
    #[inline(always)]
    fn normalize_cell(&self, norms: &Norms, c: &mut [f32]) {
        let s = self.s;
        if let Some(affine) = &norms.cell {
            let moments = norms.rows.of(s, c);
            for (block, c) in c.chunks_mut(S::LANES).enumerate() {
                let normalized = affine.apply(s, block, moments.apply(s, s.load_part(c)));
                s.store_part(normalized, c);
            }
        }
        if self.cell_clip > 0.0 {
            for c in c.chunks_mut(S::LANES) {
                s.store_part(clip(s, s.load_part(c), self.cell_clip), c);
            }
        }
    }

    /// m is o ⊙ act(c), c normalized here alone with `output_norm`.
    #[inline(always)]
    fn show<const USUAL: bool>(&self, norms: &Norms, sums: &[f32], c: &[f32], m: &mut [f32]) {
        let s = self.s;
        let shown = norms.output.as_ref().map(|affine| (affine, norms.rows.of(s, c)));
        let units = blocks(s, sums).iter().zip(c.chunks(S::LANES)).zip(m.chunks_mut(S::LANES));
        for (index, (([_, _, _, o], c), m)) in units.enumerate() {
            let c = s.load_part(c);
            let shown = match &shown {
                Some((affine, moments)) => affine.apply(s, index, moments.apply(s, c)),
                None => c,
            };
            let shown = if USUAL {
                s.mul(curves::sigmoid(s, s.load(o)), curves::tanh(s, shown))
            } else {
                s.mul(self.opened(index, s.load(o), c), curves::apply(s, self.activations[2], shown))
            };
            s.store_part(shown, m);
        }
    }
}
