//! The step with layer normalization, in passes over the units: the statistics need the sums of every unit before the
//! first unit can be updated. Intermediate values have 32 bits.

use super::super::{CELL_NORM, GATE_NORM, JOINT_NORM, OUTPUT_NORM};
use super::{Mix, number, peepholes, tensor, units};
use crate::cell::integer::{CHUNK, Pair, PairTensors, Single};
use crate::cell::prelude::*;
use crate::integer_norm::{Epsilon, Moments};
use crate::kernel::Written;
use crate::quant::{from_q15, mulh};

/// Updates every unit, c to c', and writes m. `work` is `[hidden]` of four sums, twice with `joint_norm`.
pub fn update<K: Kernel>(
    node: &Node<'_>,
    x: &[i16],
    hidden: &[i16],
    cell: &mut [i16],
    work: &mut [i16],
    m: &mut [i16],
) {
    let words = work.len() - work.len() % 8;
    let sums: &mut [[i32; 4]] =
        work.get_mut(..words).and_then(|words| bytemuck::try_cast_slice_mut(words).ok()).unwrap_or_default();
    let Some((sums, more)) = sums.split_at_mut_checked(node.hidden_size) else { return };
    if node.has(GATE_NORM) {
        gate_norm::<K>(node, x, hidden, sums);
    } else if node.has(JOINT_NORM) {
        let Some(more) = more.get_mut(..node.hidden_size) else { return };
        joint_norm::<K>(node, x, hidden, sums, more);
    } else {
        gather(units::<K, true>(node, x, hidden), sums);
    }
    let mix = Mix::new(node);
    let mut factors = peepholes(node);
    for ([i, f, g, _], c) in sums.iter_mut().zip(cell.iter_mut()) {
        let kept = mix.new_cell([*i, *f, *g], factors.next(), *c, 0);
        if node.has(CELL_NORM) {
            *i = kept;
        } else {
            *c = mix.clipped(from_q15(kept), 0);
        }
    }
    let cell_bits = node.number(number::CELL_BITS);
    if node.has(CELL_NORM) {
        let moments = Moments::of(sums.iter().map(|&[kept, ..]| kept), epsilon(node, cell_bits + 15));
        for ((c, &[kept, ..]), affine) in
            cell.iter_mut().zip(sums.iter()).zip(affine(node, tensor::CELL_GAIN, tensor::CELL_BIAS))
        {
            *c = mix.clipped(scaled(&moments, kept, affine), 0);
        }
    }
    let mut factors = peepholes(node);
    if node.has(OUTPUT_NORM) {
        let moments = Moments::of(cell.iter().map(|&c| c.into()), epsilon(node, cell_bits));
        let units = cell.iter().zip(sums.iter()).zip(affine(node, tensor::OUTPUT_GAIN, tensor::OUTPUT_BIAS));
        for (m, ((&c, &[.., o]), affine)) in m.iter_mut().zip(units) {
            let shown = mix.output.apply(scaled(&moments, c.into(), affine), mix.bits);
            *m = mix.memory(o, factors.next(), (c, 0), shown);
        }
    } else {
        for (m, (&c, &[.., o])) in m.iter_mut().zip(cell.iter().zip(sums.iter())) {
            *m = mix.memory(o, factors.next(), (c, 0), mix.activated(c, 0));
        }
    }
}

/// Normalizes the sums of each gate over the units.
fn gate_norm<K: Kernel>(node: &Node<'_>, x: &[i16], hidden: &[i16], sums: &mut [[i32; 4]]) {
    let (x, hidden, rows) = ((x, node.input_size), (hidden, node.output_size), 4 * node.hidden_size);
    let pair = PairTensors { rows: tensor::GATE_SUM_ROWS, ..tensor::PAIR };
    gather(Pair::<K, true>::new(node, pair, number::RECURRENT_FIRST, rows, x, hidden), sums);
    let epsilon = epsilon(node, node.number(number::SUM_BITS));
    let moments = [
        Moments::of(sums.iter().map(|&[i, ..]| i), epsilon),
        Moments::of(sums.iter().map(|&[_, f, ..]| f), epsilon),
        Moments::of(sums.iter().map(|&[.., g, _]| g), epsilon),
        Moments::of(sums.iter().map(|&[.., o]| o), epsilon),
    ];
    let (gains, _) = node.words(tensor::GATE_GAIN).as_chunks::<4>();
    let (biases, _) = node.words(tensor::GATE_BIAS).as_chunks::<4>();
    for (sums, (gains, biases)) in sums.iter_mut().zip(gains.iter().zip(biases)) {
        for (((sum, moments), &gain), &bias) in sums.iter_mut().zip(&moments).zip(gains).zip(biases) {
            *sum = scaled(moments, *sum, (gain, bias));
        }
    }
}

/// Normalizes the products of x, and those of h, over all gates and units; `sums` becomes their sum.
fn joint_norm<K: Kernel>(
    node: &Node<'_>,
    x: &[i16],
    hidden: &[i16],
    sums: &mut [[i32; 4]],
    from_hidden: &mut [[i32; 4]],
) {
    let (x, hidden, rows) = ((x, node.input_size), (hidden, node.output_size), 4 * node.hidden_size);
    let single = |matrix, of, by| Single::<K, true>::new(node, matrix, of, rows, by);
    gather(single(tensor::PAIR.input, tensor::INPUT_SUM_ROWS, x), sums);
    gather(single(tensor::PAIR.recurrent, tensor::RECURRENT_SUM_ROWS, hidden), from_hidden);
    let moments = |sums: &[[i32; 4]], bits: usize| {
        Moments::of(sums.as_flattened().iter().copied(), epsilon(node, node.number(bits)))
    };
    let [of_input, of_hidden] = [moments(sums, number::SUM_BITS), moments(from_hidden, number::RECURRENT_SUM_BITS)];
    let gains = node.words(tensor::INPUT_GAIN).iter().zip(node.words(tensor::RECURRENT_GAIN));
    let affine = gains.zip(node.words(tensor::JOINT_BIAS));
    let both = sums.as_flattened_mut().iter_mut().zip(from_hidden.as_flattened());
    for ((sum, &from_hidden), ((&input_gain, &recurrent_gain), &bias)) in both.zip(affine) {
        *sum = scaled(&of_input, *sum, (input_gain, scaled(&of_hidden, from_hidden, (recurrent_gain, bias))));
    }
}

/// Rows of one or two parts.
trait Rows {
    fn next(&mut self, blocks: usize, to: &mut [[i32; 4]]);
}

impl<K: Kernel, const ANY: bool> Rows for Pair<'_, '_, K, ANY> {
    fn next(&mut self, blocks: usize, to: &mut [[i32; 4]]) {
        self.sum(blocks, Written::over(to));
    }
}

impl<K: Kernel, const ANY: bool> Rows for Single<'_, '_, K, ANY> {
    fn next(&mut self, blocks: usize, to: &mut [[i32; 4]]) {
        self.sum(blocks, Written::over(to));
    }
}

fn gather(from: Option<impl Rows>, to: &mut [[i32; 4]]) {
    let Some(mut from) = from else { return };
    for to in to.chunks_mut(CHUNK) {
        from.next(to.len(), to);
    }
}

/// ε for values of `bits` fraction bits.
fn epsilon(node: &Node<'_>, bits: i32) -> Epsilon {
    let mantissa = node.number(number::EPSILON).unsigned_abs();
    Epsilon { mantissa, exponent: 2 * bits - node.number(number::EPSILON_BITS) }
}

/// Gains, each with its bias.
fn affine<'a>(node: &Node<'a>, gains: usize, biases: usize) -> impl Iterator<Item = (i32, i32)> + use<'a> {
    node.words(gains).iter().copied().zip(node.words(biases).iter().copied())
}

/// A value, normalized, times its gain, plus its bias.
fn scaled(moments: &Moments, value: i32, (gain, bias): (i32, i32)) -> i32 {
    mulh(moments.apply(value), gain).wrapping_add(bias)
}
