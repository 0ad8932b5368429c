//! The step with coupled or clipped gates or layer normalization, in passes over the units: the statistics need the
//! sums of every unit before the first unit can be updated. Without these options it computes the same bits as the
//! single pass, so that a model with both kinds of nodes needs only this step.

use super::{
    CELL_NORM, CLIPPED, COUPLED, GATE_NORM, INPUT_FORGET, JOINT_NORM, OUTPUT_NORM, clip, param, peepholes, tensor,
};
use crate::cell::prelude::*;
use crate::norm::Moments;

/// The options that need this step.
pub const OPTIONS: u32 = 1 << COUPLED
    | 1 << INPUT_FORGET
    | 1 << CLIPPED
    | 1 << GATE_NORM
    | 1 << JOINT_NORM
    | 1 << CELL_NORM
    | 1 << OUTPUT_NORM;

/// Updates every unit, c to c', and writes m. `work` is `[4 · hidden]` with `gate_norm`, `[8 · hidden]` with
/// `joint_norm`.
pub fn update<W: Weight>(
    node: &Node<'_>,
    x: &[f32],
    operand: &[f32],
    cell: &mut [f32],
    work: &mut [f32],
    m: &mut [f32],
) {
    let epsilon = node.param(param::EPSILON);
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let bias = node.vector(tensor::BIAS).iter();
    let (work, _) = work.as_chunks_mut::<4>();
    if node.has(GATE_NORM) {
        for (a, (w, r)) in work.iter_mut().zip(input.zip(recurrent)) {
            *a = accumulate(accumulate([0.0; 4], w, x), r, operand);
        }
        let gates = [0, 1, 2, 3].map(|gate| {
            let units = work.iter().filter_map(|unit| unit.get(gate).copied());
            Moments::of(units, epsilon)
        });
        let units = work.iter().zip(node.vector(tensor::GATE_GAIN)).zip(bias);
        remember(node, units.map(|((&a, &gain), &bias)| scaled(gates, a, gain, bias)), cell, m);
    } else if node.has(JOINT_NORM) {
        let Some((from_input, from_hidden)) = work.split_at_mut_checked(node.hidden_size) else { return };
        for (a, w) in from_input.iter_mut().zip(input) {
            *a = accumulate([0.0; 4], w, x);
        }
        for (a, r) in from_hidden.iter_mut().zip(recurrent) {
            *a = accumulate([0.0; 4], r, operand);
        }
        let [of_input, of_hidden] =
            [&*from_input, &*from_hidden].map(|a| Moments::of(a.as_flattened().iter().copied(), epsilon));
        let gains = node.vector(tensor::INPUT_GAIN).iter().zip(node.vector(tensor::RECURRENT_GAIN));
        let units = from_input.iter().zip(from_hidden.iter()).zip(gains).zip(bias);
        let normalized = units.map(|(((&a, &b), (&input_gain, &recurrent_gain)), &bias)| {
            let from_hidden = scaled([of_hidden; 4], b, recurrent_gain, bias);
            scaled([of_input; 4], a, input_gain, from_hidden)
        });
        remember(node, normalized, cell, m);
    } else {
        let blocks = input.zip(recurrent).zip(bias);
        remember(node, blocks.map(|((w, r), &b)| accumulate(accumulate(b, w, x), r, operand)), cell, m);
    }
    normalize_cell(node, cell);
    show(node, cell, m);
}

/// The gates of a unit, each normalized, times its gain, plus `add`.
fn scaled(moments: [Moments; 4], a: [f32; 4], gain: [f32; 4], add: [f32; 4]) -> [f32; 4] {
    let ([m_i, m_f, m_g, m_o], [i, f, g, o], [g_i, g_f, g_g, g_o], [a_i, a_f, a_g, a_o]) = (moments, a, gain, add);
    [m_i.apply(i) * g_i + a_i, m_f.apply(f) * g_f + a_f, m_g.apply(g) * g_g + a_g, m_o.apply(o) * g_o + a_o]
}

/// Replaces c by f ⊙ c + i ⊙ g, and `output` by the argument of o before its peephole.
fn remember(node: &Node<'_>, units: impl Iterator<Item = [f32; 4]>, cell: &mut [f32], output: &mut [f32]) {
    let (gate, candidate) = (node.activation(0), node.activation(1));
    let (coupled, input_forget, limit) = (node.has(COUPLED), node.has(INPUT_FORGET), node.param(param::PREACT_CLIP));
    let mut peepholes = peepholes(node, tensor::PEEPHOLES);
    for ([mut i, mut f, g, o], (c, output)) in units.zip(cell.iter_mut().zip(output)) {
        if let Some([p_i, p_f, _]) = peepholes.next() {
            i += p_i * *c;
            f += p_f * *c;
        }
        let gate_of = |a| gate.apply(clip(a, limit));
        let (i, f) = if coupled {
            let f = gate_of(f);
            (1.0 - f, f)
        } else {
            let i = gate_of(i);
            (i, if input_forget { 1.0 - i } else { gate_of(f) })
        };
        *c = f * *c + i * candidate.apply(clip(g, limit));
        *output = o;
    }
}

/// Replaces c by the carried state: normalized with `cell_norm`, then clipped.
fn normalize_cell(node: &Node<'_>, cell: &mut [f32]) {
    if node.has(CELL_NORM) {
        let moments = Moments::of(cell.iter().copied(), node.param(param::EPSILON));
        for (c, (gain, bias)) in cell.iter_mut().zip(elements(node, tensor::CELL_GAIN, tensor::CELL_BIAS)) {
            *c = moments.apply(*c) * gain + bias;
        }
    }
    let limit = node.param(param::CELL_CLIP);
    for c in cell {
        *c = clip(*c, limit);
    }
}

/// Replaces m, the argument of o before its peephole, by o ⊙ act(c). With `output_norm` c is normalized here only.
fn show(node: &Node<'_>, cell: &[f32], m: &mut [f32]) {
    let (gate, output, limit) = (node.activation(0), node.activation(2), node.param(param::PREACT_CLIP));
    let moments = node.has(OUTPUT_NORM).then(|| Moments::of(cell.iter().copied(), node.param(param::EPSILON)));
    let mut scales = elements(node, tensor::OUTPUT_GAIN, tensor::OUTPUT_BIAS);
    let mut peepholes = peepholes(node, tensor::PEEPHOLES);
    for (m, &c) in m.iter_mut().zip(cell) {
        let o = match peepholes.next() {
            Some([_, _, p_o]) => *m + p_o * c,
            None => *m,
        };
        let shown = match (moments, scales.next()) {
            (Some(moments), Some((gain, bias))) => moments.apply(c) * gain + bias,
            _ => c,
        };
        *m = gate.apply(clip(o, limit)) * output.apply(shown);
    }
}

/// The elements of a gain and of its bias.
fn elements(node: &Node<'_>, gain: usize, bias: usize) -> impl Iterator<Item = (f32, f32)> {
    node.elements(gain).iter().copied().zip(node.elements(bias).iter().copied())
}
