//! The update of an LSTM from its sums to c' and m, with every option. It makes one pass over the units for c' and one
//! for m, because a normalization needs the values of all units.

use tidegate::internals::{
    activation::Activation,
    cell::lstm::{CELL_NORM, CLIPPED, COUPLED, GATE_NORM, INPUT_FORGET, JOINT_NORM, OUTPUT_NORM, PEEPHOLE},
    node::Node,
};

use super::{GATES, OUTPUT};
use crate::curves::{apply, clip, gated_tanh, sigmoid};
use crate::lines::Lines;
use crate::node::norm::{Affine, Rows};
use crate::node::tensor;
use crate::panels::per_unit;
use crate::simd::{Simd, Task};

/// Options and parameters of the update.
pub struct Update<S> {
    s: S,
    /// Whether gates are sigmoids, candidate and output tanh, and no option is set except normalizations.
    pub usual: bool,
    /// Which of i and f is computed as 1 minus the other; `None` if neither is.
    coupled: Option<usize>,
    cell_clip: f32,
    /// 0 for none.
    preact_clip: f32,
    /// The activations of i, f, g, o; that of g is the candidate's.
    gates: [Activation; GATES],
    output: Activation,
    /// The peepholes of i, f, g, o; g has none.
    peepholes: [Option<Lines<f32>>; GATES],
    pub norms: Option<Norms>,
}

/// Layer normalizations.
pub struct Norms {
    rows: Rows,
    gates: Gates,
    cell: Option<Affine>,
    output: Option<Affine>,
}

/// Normalization of the gates. Sums that are normalized start from zero. Gains and biases are in the order of the sums.
enum Gates {
    Plain,
    /// Each gate by itself.
    Each {
        gain: Lines<f32>,
        bias: Lines<f32>,
    },
    /// All gates together, once for the sums over the input and once for those over h.
    Joint {
        input_gain: Lines<f32>,
        recurrent_gain: Lines<f32>,
        bias: Lines<f32>,
    },
}

impl Norms {
    /// `None` if the node has no normalizations. `by_row` packs a tensor in the order of the sums.
    fn pack<S: Simd>(node: &Node<'_>, _: S, by_row: &dyn Fn(&str) -> Lines<f32>) -> Option<Self> {
        let gates = if node.has(GATE_NORM) {
            Gates::Each { gain: by_row("gate_gain"), bias: by_row("bias") }
        } else if node.has(JOINT_NORM) {
            let [input_gain, recurrent_gain] = ["input_gain", "recurrent_gain"].map(by_row);
            Gates::Joint { input_gain, recurrent_gain, bias: by_row("bias") }
        } else {
            Gates::Plain
        };
        let affine = |option, [gain, bias]: [&str; 2]| {
            let elements = |name| node.elements(tensor(node, name));
            node.has(option).then(|| Affine::new(S::LANES, node.hidden_size, elements(gain), elements(bias)))
        };
        let cell = affine(CELL_NORM, ["cell_gain", "cell_bias"]);
        let output = affine(OUTPUT_NORM, ["output_gain", "output_bias"]);
        if matches!(gates, Gates::Plain) && cell.is_none() && output.is_none() {
            return None;
        }
        Some(Self { rows: Rows::new(node.hidden_size, node.param(2)), gates, cell, output })
    }

    /// Whether sums start from zero because the bias is added later.
    pub fn of_gates(&self) -> bool {
        !matches!(self.gates, Gates::Plain)
    }

    /// Whether the products with h have separate sums.
    pub fn is_joint(&self) -> bool {
        matches!(self.gates, Gates::Joint { .. })
    }
}

/// The four vectors of a block, one for each gate.
#[inline(always)]
pub fn gates<S: Simd>(s: S, block: &[S::Lanes; GATES]) -> [S::F32; GATES] {
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

impl<S: Simd> Update<S> {
    /// `by_row` packs a tensor in the order of the sums.
    pub fn pack(node: &Node<'_>, s: S, by_row: &dyn Fn(&str) -> Lines<f32>) -> Self {
        let [gate, candidate, output] = [0, 1, 2].map(|index| node.activation(index));
        let usual = [gate, candidate, output] == [Activation::Sigmoid, Activation::Tanh, Activation::Tanh]
            && node.param(0) == 0.0
            && ![COUPLED, INPUT_FORGET, CLIPPED, PEEPHOLE].into_iter().any(|option| node.has(option));
        let coupled = if node.has(COUPLED) { Some(0) } else { node.has(INPUT_FORGET).then_some(1) };
        let peephole = |name| {
            let elements = node.elements(tensor(node, name));
            (!elements.is_empty()).then(|| per_unit(S::LANES, node.hidden_size, elements))
        };
        Self {
            s,
            usual,
            coupled,
            cell_clip: node.param(0),
            preact_clip: node.param(3),
            gates: [gate, gate, candidate, gate],
            output,
            peepholes: ["input_peephole", "forget_peephole", "", "output_peephole"].map(peephole),
            norms: Norms::pack(node, s, by_row),
        }
    }

    /// Computes c' and m from the sums, which are overwritten. `of_state` holds the sums over h if they are normalized
    /// separately.
    pub fn run(&self, sums: &mut [f32], of_state: &[f32], c: &mut [f32], m: &mut [f32]) {
        if self.usual {
            self.s.call(Units::<S, true> { update: self, sums, of_state, c, m });
        } else {
            self.s.call(Units::<S, false> { update: self, sums, of_state, c, m });
        }
    }

    /// A gate of a block of units, from its sum and the c that its peephole sees.
    #[inline(always)]
    fn gate(&self, gate: usize, sum: S::F32, block: usize, c: S::F32) -> S::F32 {
        let (s, mut sum) = (self.s, sum);
        if let Some(peephole) = &self.peepholes[gate] {
            sum = s.fma(s.load_part(&peephole.get()[block * S::LANES..]), c, sum);
        }
        apply(s, self.gates[gate], self.preact_clip, sum)
    }

    /// f ⊙ c + i ⊙ g of a block of units from its sums.
    #[inline(always)]
    fn kept(&self, block: usize, [i, f, g, _]: [S::F32; GATES], c: S::F32) -> S::F32 {
        let s = self.s;
        // With `coupled`, i follows from f, so f comes first.
        let swapped = self.coupled == Some(0);
        let (gate, sum) = if swapped { (1, f) } else { (0, i) };
        let first = self.gate(gate, sum, block, c);
        let second = match self.coupled {
            Some(_) => s.sub(s.splat(1.0), first),
            None => self.gate(1, f, block, c),
        };
        let (i, f) = if swapped { (second, first) } else { (first, second) };
        s.fma(f, c, s.mul(i, self.gate(2, g, block, c)))
    }

    /// Updates c of a block of units of a layer without normalizations, and returns m.
    #[inline(always)]
    pub fn unit_block(&self, block: usize, sums: [S::F32; GATES], c: &mut [f32]) -> S::F32 {
        let s = self.s;
        let kept = clip(s, self.kept(block, sums, s.load_part(c)), self.cell_clip);
        s.store_part(kept, c);
        s.mul(self.gate(OUTPUT, sums[OUTPUT], block, kept), apply(s, self.output, 0.0, kept))
    }
}

/// Computes c' and m. Without options (`USUAL`), the activations are constants.
struct Units<'s, S, const USUAL: bool> {
    update: &'s Update<S>,
    sums: &'s mut [f32],
    of_state: &'s [f32],
    c: &'s mut [f32],
    m: &'s mut [f32],
}

impl<S: Simd, const USUAL: bool> Task for Units<'_, S, USUAL> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { update, sums, of_state, c, m } = self;
        let s = update.s;
        if let Some(norms) = &update.norms {
            norms.normalize_gates(s, sums, of_state);
        }
        for (block, (sums, c)) in blocks(s, sums).iter().zip(c.chunks_mut(S::LANES)).enumerate() {
            let before = s.load_part(c);
            let kept = if USUAL {
                let [i, f, g, _] = gates(s, sums);
                s.fma(sigmoid(s, f), before, gated_tanh(s, i, g))
            } else {
                update.kept(block, gates(s, sums), before)
            };
            s.store_part(kept, c);
        }
        if let Some(Norms { rows, cell: Some(affine), .. }) = &update.norms {
            let moments = rows.of(s, c);
            for (block, c) in c.chunks_mut(S::LANES).enumerate() {
                let normalized = affine.apply(s, block, moments.apply(s, s.load_part(c)));
                s.store_part(normalized, c);
            }
        }
        if const { !USUAL } && update.cell_clip > 0.0 {
            for c in c.chunks_mut(S::LANES) {
                s.store_part(clip(s, s.load_part(c), update.cell_clip), c);
            }
        }
        let shown = match &update.norms {
            Some(Norms { rows, output: Some(affine), .. }) => Some((affine, rows.of(s, c))),
            _ => None,
        };
        let units = blocks(s, sums).iter().zip(c.chunks(S::LANES)).zip(m.chunks_mut(S::LANES));
        for (block, ((sums, c), m)) in units.enumerate() {
            let (c, o) = (s.load_part(c), s.load(&sums[OUTPUT]));
            let shown = match &shown {
                Some((affine, moments)) => affine.apply(s, block, moments.apply(s, c)),
                None => c,
            };
            let shown = if USUAL {
                gated_tanh(s, o, shown)
            } else {
                s.mul(update.gate(OUTPUT, o, block, c), apply(s, update.output, 0.0, shown))
            };
            s.store_part(shown, m);
        }
    }
}

impl Norms {
    /// Normalizes the sums of the gates.
    #[inline(always)]
    fn normalize_gates<S: Simd>(&self, s: S, sums: &mut [f32], of_state: &[f32]) {
        match &self.gates {
            Gates::Plain => {}
            Gates::Each { gain, bias } => {
                let moments = self.rows.each::<S, GATES>(s, sums);
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
                let [input, recurrent] = self.rows.joint::<S, GATES>(s, [sums, of_state]);
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
}
