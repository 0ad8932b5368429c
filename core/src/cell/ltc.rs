//! Liquid time-constant cell (Hasani et al. 2021, arXiv:2006.04439): neurons whose synapses pull their potential toward
//! a reversal potential, faster with higher conductance. A step solves their differential equation over the time since
//! the last step with a few semi-implicit Euler steps.
//!
//! # Equation
//!
//! ```text
//! w_ij(u) = w_ij σ(a_ij u + s_ij)      the synapse from source j to unit i
//! N_i = n_i + Σ_j e_ij σ(a_ij x_j + s_ij)      D_i = g_i + Σ_j w_ij σ(a_ij x_j + s_ij)      over the features
//! unfolds times, with τ = t / unfolds:
//!     v_i' = (C_i v_i + τ (N_i + Σ_j e_ij σ(a_ij v_j + s_ij))) / (C_i + τ (D_i + Σ_j w_ij σ(a_ij v_j + s_ij)))
//! y = v', its first output units
//! ```
//!
//! Features and units have separate a, s, w and e. If the input has more than `features` elements, the last one is t,
//! the time since the last step; a negative t is treated as 0. Otherwise t is 1; for steps of another constant length
//! T, divide C by T. A synapse whose w and e are 0 is skipped.
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_slope` | `[hidden, features]`: a | always |
//! | `input_shift` | `[hidden, features]`: s | always |
//! | `input_weights` | `[hidden, features]`: w, how well a synapse conducts | always |
//! | `input_drive` | `[hidden, features]`: e, w times the reversal potential | always |
//! | `recurrent_slope` | `[hidden, hidden]` | always |
//! | `recurrent_shift` | `[hidden, hidden]` | always |
//! | `recurrent_weights` | `[hidden, hidden]` | always |
//! | `recurrent_drive` | `[hidden, hidden]` | always |
//! | `capacitance` | `[hidden]`: C | always |
//! | `leak` | `[hidden]`: g | always |
//! | `leak_drive` | `[hidden]`: n, g times the potential at rest | optional |
//! | `memory_input_weights` | `[4 · hidden, features]` | with `mixed_memory` |
//! | `memory_recurrent_weights` | `[4 · hidden, hidden]` | with `mixed_memory` |
//! | `memory_bias` | `[4 · hidden]` | with `mixed_memory` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `mixed_memory` | an [LSTM](super::mixed_memory) updates v before each step |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `features` | number of features of x, without the time |
//! | `unfolds` | Euler steps per step; at most 256 |
//!
//! # Known as
//!
//! ncps's `ncps.torch.LTC`; `Cfc` of raminmh/CfC with `use_ltc`. Their σ(m - μ) is a = σ, s = -σ μ. The mask of a
//! wiring is folded into w and e, the input mapping into a and s; the output mapping becomes a [scale](super::scale)
//! after the cell.
//!
//! # Deviations
//!
//! Both implementations use a negative time unchanged. This cell treats it as 0.
//!
//! # Golden cases
//!
//! `ncps__LTC__*`.

use super::mixed_memory;
use super::prelude::*;
use crate::activation::{relu, sigmoid};
use crate::element::sum;

const OPTIONS: &[&str] = &["mixed_memory"];
const MIXED_MEMORY: u32 = option(OPTIONS, "mixed_memory");

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("features"), ExtentSpec { name: "unfolds", default: 6, least: 1 }];

/// Features of x.
const FEATURES: Dim = Dim::Extent(extent(EXTENTS, "features"));
const UNFOLDS: usize = extent(EXTENTS, "unfolds");

const MEMORY: [CanonicalSpec; 3] = mixed_memory::canonical(FEATURES, MIXED_MEMORY);
const MEMORY_TENSORS: [TensorSpec; 3] = mixed_memory::tensors(FEATURES, MIXED_MEMORY);

/// A matrix of every synapse between units, read in each unfold.
const fn recurrent(name: &'static str, from: &'static [&'static str]) -> TensorSpec {
    TensorSpec::matrix(name, from, Dim::Hidden, Dim::Hidden).passes(&Dim::Extent(UNFOLDS))
}

pub(super) const SPEC: CellSpec = CellSpec {
    name: "ltc",
    gates: &gate::LSTM,
    extents: EXTENTS,
    rules: &[
        Rule::AtMost(Dim::Output, Dim::Hidden),
        Rule::AtMost(FEATURES, Dim::Input),
        Rule::AtMost(Dim::Input, Dim::Sum(&[FEATURES, Dim::Const(1)])),
        Rule::AtMost(Dim::Extent(UNFOLDS), Dim::Const(256)),
    ],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }, mixed_memory::state(&Dim::Hidden, MIXED_MEMORY)],
    work: &[Dim::Hidden, Dim::Hidden, Dim::Hidden],
    options: OPTIONS,
    canonical: &[
        CanonicalSpec::matrix("input_slope", Dim::Hidden, FEATURES),
        CanonicalSpec::matrix("input_shift", Dim::Hidden, FEATURES),
        CanonicalSpec::matrix("input_weights", Dim::Hidden, FEATURES),
        CanonicalSpec::matrix("input_drive", Dim::Hidden, FEATURES),
        CanonicalSpec::matrix("recurrent_slope", Dim::Hidden, Dim::Hidden),
        CanonicalSpec::matrix("recurrent_shift", Dim::Hidden, Dim::Hidden),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden),
        CanonicalSpec::matrix("recurrent_drive", Dim::Hidden, Dim::Hidden),
        CanonicalSpec::vector("capacitance", Dim::Hidden),
        CanonicalSpec::vector("leak", Dim::Hidden),
        CanonicalSpec::vector("leak_drive", Dim::Hidden).optional(),
        MEMORY[0],
        MEMORY[1],
        MEMORY[2],
    ],
    tensors: &[
        TensorSpec::matrix("input_slope", &["input_slope"], Dim::Hidden, FEATURES),
        TensorSpec::matrix("input_shift", &["input_shift"], Dim::Hidden, FEATURES),
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, FEATURES),
        TensorSpec::matrix("input_drive", &["input_drive"], Dim::Hidden, FEATURES),
        recurrent("recurrent_slope", &["recurrent_slope"]),
        recurrent("recurrent_shift", &["recurrent_shift"]),
        recurrent("recurrent_weights", &["recurrent_weights"]),
        recurrent("recurrent_drive", &["recurrent_drive"]),
        TensorSpec::vector("capacitance", &["capacitance"], Dim::Hidden),
        TensorSpec::vector("leak", &["leak"], Dim::Hidden),
        TensorSpec::vector("leak_drive", &["leak_drive"], Dim::Hidden),
        MEMORY_TENSORS[0],
        MEMORY_TENSORS[1],
        MEMORY_TENSORS[2],
    ],
    curves: &[
        Dim::Product(&[Dim::Hidden, FEATURES]),
        Dim::Product(&[Dim::Extent(UNFOLDS), Dim::Hidden, Dim::Hidden]),
        Dim::When(MIXED_MEMORY, &mixed_memory::CURVES),
    ],
    ..CellSpec::EMPTY
};

// Shift, weights and drive follow each slope.
const INPUT_SLOPE: usize = SPEC.tensor("input_slope");
const RECURRENT_SLOPE: usize = SPEC.tensor("recurrent_slope");
const CAPACITANCE: usize = SPEC.tensor("capacitance");
const LEAK: usize = SPEC.tensor("leak");
const LEAK_DRIVE: usize = SPEC.tensor("leak_drive");
const MEMORY_WEIGHTS: usize = SPEC.tensor("memory_input_weights");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. The input is `[input]`, `state` is `[hidden]` (v) and with mixed memory `[hidden]` (c), `work` is three
/// times `[hidden]` (N, D, v'), `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x: incoming, state, work, y, .. } = io;
    let units = node.hidden_size;
    let Some((x, time)) = incoming.split_at_checked(node.dim(&FEATURES)) else { return };
    let Some((v, cell)) = state.split_at_mut_checked(units) else { return };
    let Some((drives, work)) = work.split_at_mut_checked(units) else { return };
    let Some((conductances, next)) = work.split_at_mut_checked(units) else { return };
    if node.has(MIXED_MEMORY) {
        mixed_memory::step::<W>(node, MEMORY_WEIGHTS, x, v, cell, next);
    }
    let leaks = node.vector(LEAK_DRIVE).iter().zip(node.vector(LEAK));
    let sums = drives.chunks_mut(4).zip(conductances.chunks_mut(4));
    for ((synapses, (&drive, &leak)), (drives, conductances)) in
        synapses::<W>(node, INPUT_SLOPE, x).zip(leaks).zip(sums)
    {
        let Synapses { drives: d, conductances: c } = synapses.plus(drive, leak);
        copy(drives, &d);
        copy(conductances, &c);
    }
    let unfolds = node.extent(UNFOLDS);
    let tau = relu(time.first().copied().unwrap_or(1.0)) / unfolds as f32;
    for _ in 0..unfolds {
        unfold::<W>(node, tau, v, [drives, conductances], next);
        copy(v, next);
    }
    copy(y, v);
}

/// v' of every unit after the time `tau`.
fn unfold<W: Weight>(node: &Node<'_>, tau: f32, v: &[f32], [drives, conductances]: [&[f32]; 2], next: &mut [f32]) {
    let capacitances = node.elements(CAPACITANCE).iter();
    let synapses = synapses::<W>(node, RECURRENT_SLOPE, v);
    let synapses = synapses.flat_map(|Synapses { drives, conductances }| drives.into_iter().zip(conductances));
    let sums = drives.iter().zip(conductances).zip(synapses);
    for (((v, next), c), ((n, d), (drive, conductance))) in v.iter().zip(next).zip(capacitances).zip(sums) {
        *next = (c * v + tau * (n + drive)) / (c + tau * (d + conductance));
    }
}

/// The sums over all synapses of four units.
struct Synapses {
    drives: [f32; 4],
    conductances: [f32; 4],
}

impl Synapses {
    fn plus(self, drives: [f32; 4], conductances: [f32; 4]) -> Self {
        Self { drives: sum(self.drives, drives), conductances: sum(self.conductances, conductances) }
    }
}

/// The sums over the synapses from all sources, block by block; `first` is the index of their slope.
fn synapses<W: Weight>(node: &Node<'_>, first: usize, sources: &[f32]) -> impl Iterator<Item = Synapses> {
    let matrix = |index: usize| node.matrix::<W>(first + index).blocks();
    let blocks = matrix(0).zip(matrix(1)).zip(matrix(2).zip(matrix(3)));
    blocks.map(move |((slopes, shifts), (weights, drives))| {
        let mut sum = Synapses { drives: [0.0; 4], conductances: [0.0; 4] };
        let columns = slopes.iter().zip(shifts).zip(weights.iter().zip(drives));
        for (((slopes, shifts), (weights, drives)), source) in columns.zip(sources) {
            let synapses = slopes.iter().zip(shifts).zip(weights.iter().zip(drives));
            let sums = sum.drives.iter_mut().zip(&mut sum.conductances);
            for (((slope, shift), (weight, drive)), (drives, conductances)) in synapses.zip(sums) {
                let (weight, drive) = (weight.widen(), drive.widen());
                if weight != 0.0 || drive != 0.0 {
                    let open = sigmoid(slope.widen() * source + shift.widen());
                    *drives += drive * open;
                    *conductances += weight * open;
                }
            }
        }
        sum
    })
}
