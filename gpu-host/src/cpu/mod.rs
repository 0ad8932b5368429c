//! Recurrent layers on the CPU, forward and backward: what cuDNN computes on a device, over the same weight space in
//! the [described](Layout::described) layout.
//!
//! A batch is `[steps, sequences, features]`. Shorter sequences are padded at the end. After the end of a sequence
//! outputs are zero; the backward direction starts at its last step.

mod cell;
pub mod count;

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

use crate::layout::{Kind, Layout, Side};
use crate::rnn::{Cell, Rnn};
use cell::{Gradients, Limits, Row, Seen};
use count::{Units, count, stop};

/// A batch of sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// `[steps, sequences, features]`
    pub data: Vec<f32>,
    /// Length of each sequence; the longest has all steps.
    pub lengths: Vec<usize>,
    /// Features per step.
    pub features: usize,
}

impl Batch {
    /// Length of the longest sequence.
    pub fn steps(&self) -> usize {
        longest(&self.lengths)
    }
}

/// Length of the longest sequence.
pub fn longest(lengths: &[usize]) -> usize {
    lengths.iter().copied().max().unwrap_or(0)
}

/// Fills the values after the end of each sequence of `[steps, sequences, features]`.
pub fn fill_padding(values: &mut [f32], lengths: &[usize], features: usize, fill: f32) {
    let features = features.max(1);
    for (step, rows) in values.chunks_exact_mut((lengths.len() * features).max(1)).enumerate() {
        let ended = rows.chunks_exact_mut(features).zip(lengths).filter(|(_, length)| step >= **length);
        ended.for_each(|(row, _)| row.fill(fill));
    }
}

/// Positions of the parameters of a pseudo-layer.
struct Places {
    input: Option<Range<usize>>,
    recurrent: Range<usize>,
    projection: Option<Range<usize>>,
    input_bias: Option<Range<usize>>,
    recurrent_bias: Option<Range<usize>>,
}

impl Places {
    fn new(layout: &Layout, pseudo_layer: usize) -> Self {
        // In the described layout, the blocks of a side follow each other without gaps.
        let side = |side, kind| {
            let regions = layout.side(pseudo_layer, side, kind);
            let len = regions.iter().map(|region| region.rows * region.cols).sum::<usize>();
            regions.first().map(|first| first.offset..first.offset + len)
        };
        Self {
            input: side(Side::Input, Kind::Matrix),
            recurrent: side(Side::Recurrent, Kind::Matrix).unwrap_or_default(),
            projection: side(Side::Projection, Kind::Matrix),
            input_bias: side(Side::Input, Kind::Bias),
            recurrent_bias: side(Side::Recurrent, Kind::Bias),
        }
    }
}

/// A stack of recurrent layers.
pub struct Stack {
    rnn: Rnn,
    size: usize,
    places: Vec<Places>,
}

/// Values of a forward pass that the backward pass needs.
pub struct Tape {
    lengths: Vec<usize>,
    passes: Vec<Pass>,
    /// Dropout masks of the outputs of each layer but the last; empty without dropout.
    masks: Vec<Vec<f32>>,
}

/// Values of the forward pass of one pseudo-layer.
struct Pass {
    /// Input, `[steps, sequences, input]`.
    input: Vec<f32>,
    /// Activated gates, `[steps, sequences, gates * hidden]`.
    gates: Vec<f32>,
    /// [`Row::kept`], `[steps, sequences, hidden]`.
    kept: Vec<f32>,
    /// State before each step: the hidden state `[steps, sequences, output]`, and the cell state of an LSTM.
    hidden_before: Vec<f32>,
    state_before: Vec<f32>,
    /// Input of the projection, `[steps, sequences, hidden]`; empty without one.
    made: Vec<f32>,
    /// Values that a clip or the 16-bit range has limited; empty without limits.
    cut: Cut,
}

/// Marks of limited values.
#[derive(Default)]
struct Cut {
    /// Cell state of an LSTM, `[steps, sequences, hidden]`.
    cell: Vec<bool>,
    /// Output of the cell, `[steps, sequences, hidden]`.
    made: Vec<bool>,
    /// Output of the projection, `[steps, sequences, output]`.
    projected: Vec<bool>,
}

/// States of every pseudo-layer after a batch: the hidden state `[sequences, output]` and the cell state of an LSTM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States(pub Vec<[Vec<f32>; 2]>);

/// Draws a dropout mask of the given length for the outputs between two layers.
pub type Dropout<'a> = &'a mut dyn FnMut(usize) -> Vec<f32>;

impl Stack {
    /// A stack with these settings.
    pub fn new(rnn: &Rnn) -> Self {
        let layout = Layout::described(rnn);
        let places = (0..rnn.pseudo_layers()).map(|k| Places::new(&layout, k)).collect();
        Self { rnn: *rnn, size: layout.params_size(), places }
    }

    /// Settings of the stack.
    pub const fn rnn(&self) -> &Rnn {
        &self.rnn
    }

    /// Number of elements of the weight space.
    pub const fn params_size(&self) -> usize {
        self.size
    }

    /// Runs the stack from zero states, or from the final states of another batch. That batch must have the same
    /// sequences, or these and more after them. Returns the outputs (those of both directions side by side), the values
    /// that [`backward`](Self::backward) needs, and the states after the last step of each sequence. `dropout` applies
    /// between layers and is given only in training. With `units`, one per pseudo-layer, states and outputs are rounded
    /// to 16 bits.
    ///
    /// # Panics
    /// If `params`, the batch or the states do not fit the stack.
    pub fn forward(
        &self,
        params: &[f32],
        batch: &Batch,
        from: Option<&States>,
        mut dropout: Option<Dropout<'_>>,
        units: Option<&[Units]>,
    ) -> (Batch, Tape, States) {
        assert_eq!((params.len(), batch.features), (self.size, self.rnn.settings().input_size));
        assert_eq!(batch.data.len(), batch.steps() * batch.lengths.len() * batch.features);
        let directions = self.rnn.settings().direction.count();
        let mut tape = Tape { lengths: batch.lengths.clone(), passes: Vec::new(), masks: Vec::new() };
        let mut states = States::default();
        let mut input = batch.data.clone();
        for layer in 0..self.rnn.settings().layers {
            let mut outputs = Vec::new();
            for direction in 0..directions {
                let k = layer * directions + direction;
                let mut state = self.state(k, batch.lengths.len(), from);
                let (output, pass) =
                    self.pass(k, params, input.clone(), (&batch.lengths, units.map(|units| units[k])), &mut state);
                states.0.push(state);
                outputs.push(output);
                tape.passes.push(pass);
            }
            input = beside(&outputs, self.rnn.output_size());
            let last = layer + 1 == self.rnn.settings().layers;
            if let (false, Some(dropout)) = (last, &mut dropout) {
                let mask = dropout(input.len());
                input.iter_mut().zip(&mask).for_each(|(value, mask)| *value *= mask);
                tape.masks.push(mask);
            }
        }
        let features = directions * self.rnn.output_size();
        (Batch { data: input, lengths: batch.lengths.clone(), features }, tape, states)
    }

    /// Position of the recurrent weights of a pseudo-layer.
    pub fn recurrent(&self, pseudo_layer: usize) -> Range<usize> {
        self.places[pseudo_layer].recurrent.clone()
    }

    fn state(&self, k: usize, rows: usize, from: Option<&States>) -> [Vec<f32>; 2] {
        let sizes = [self.rnn.output_size(), self.rnn.settings().hidden_size];
        match from {
            None => sizes.map(|size| vec![0.0; rows * size]),
            Some(from) => std::array::from_fn(|part| from.0[k][part][..rows * sizes[part]].to_vec()),
        }
    }

    fn pass(
        &self,
        k: usize,
        params: &[f32],
        input: Vec<f32>,
        (lengths, units): (&[usize], Option<Units>),
        [h, c]: &mut [Vec<f32>; 2],
    ) -> (Vec<f32>, Pass) {
        let reverse = k % self.rnn.settings().direction.count() == 1;
        let (rows, steps, [hidden, output, gates]) = (lengths.len(), longest(lengths), self.sizes());
        let (cell, places) = (self.rnn.settings().cell, &self.places[k]);
        let of = |range: &Option<Range<usize>>| range.as_ref().map(|range| &params[range.clone()]);
        let input_size = self.rnn.input_size(k);
        let mut pass = Pass {
            gates: vec![0.0; steps * rows * gates],
            kept: vec![0.0; steps * rows * hidden],
            hidden_before: vec![0.0; steps * rows * output],
            state_before: vec![0.0; if cell == Cell::Lstm { steps * rows * hidden } else { 0 }],
            made: vec![0.0; if places.projection.is_some() { steps * rows * hidden } else { 0 }],
            input,
            cut: Cut::default(),
        };
        let limits = Limits { clip: self.rnn.settings().cell_clip, unit: units.map(|units| units.cell) };
        let none = |wanted: bool, size: usize| vec![false; if wanted { steps * rows * size } else { 0 }];
        pass.cut.cell = none(cell == Cell::Lstm && !limits.is_none(), hidden);
        pass.cut.made = none(units.is_some(), hidden);
        pass.cut.projected = none(units.is_some() && places.projection.is_some(), output);
        match of(&places.input) {
            Some(weights) => {
                let shape = [steps * rows, input_size, gates];
                product(&mut pass.gates, shape, (&pass.input, false), (weights, true), 0.0);
            }
            // Without input weights every gate receives the input directly.
            None => pass.gates.chunks_exact_mut(gates).zip(pass.input.chunks_exact(input_size)).for_each(|(row, x)| {
                row.chunks_exact_mut(hidden).for_each(|block| block.copy_from_slice(x));
            }),
        }
        if let Some(bias) = of(&places.input_bias) {
            pass.gates.chunks_exact_mut(gates).for_each(|row| add(row, bias));
        }
        let recurrent_bias = of(&places.recurrent_bias);
        let mut recurrent = vec![0.0; rows * gates];
        let mut outputs = vec![0.0; steps * rows * output];
        for step in order(steps, reverse) {
            let at = |size: usize| step * rows * size..(step + 1) * rows * size;
            pass.hidden_before[at(output)].copy_from_slice(h);
            if cell == Cell::Lstm {
                pass.state_before[at(hidden)].copy_from_slice(c);
            }
            let weights = &params[places.recurrent.clone()];
            product(&mut recurrent, [rows, output, gates], (h, false), (weights, true), 0.0);
            if let Some(bias) = recurrent_bias {
                recurrent.chunks_exact_mut(gates).for_each(|row| add(row, bias));
            }
            let mut made = if places.projection.is_some() { vec![0.0; rows * hidden] } else { h.clone() };
            let kept = pass.kept[at(hidden)].chunks_exact_mut(hidden);
            let states = pass.gates[at(gates)].chunks_exact_mut(gates).zip(kept).zip(c.chunks_exact_mut(hidden));
            let each = states.zip(recurrent.chunks_exact(gates)).zip(made.chunks_exact_mut(hidden)).zip(lengths);
            let mut cuts = pass.cut.cell.get_mut(at(hidden)).unwrap_or_default().chunks_exact_mut(hidden);
            for (((((gates, kept), c), recurrent), made), &length) in each {
                let cut = cuts.next().unwrap_or_default();
                if step < length {
                    cell::forward(cell, Row { gates, kept, limits, cut }, recurrent, c, made);
                }
            }
            if let Some(units) = units {
                let unit = if places.projection.is_some() { units.memory } else { units.hidden };
                pass.cut.made[at(hidden)].copy_from_slice(&count(&mut made, unit));
            }
            if let Some(projection) = of(&places.projection) {
                let mut projected = vec![0.0; rows * output];
                product(&mut projected, [rows, hidden, output], (&made, false), (projection, true), 0.0);
                pass.made[at(hidden)].copy_from_slice(&made);
                if let Some(units) = units {
                    pass.cut.projected[at(output)].copy_from_slice(&count(&mut projected, units.hidden));
                }
                made = projected;
            }
            let now = h.chunks_exact_mut(output).zip(made.chunks_exact(output));
            for ((h, made), (out, &length)) in now.zip(outputs[at(output)].chunks_exact_mut(output).zip(lengths)) {
                if step < length {
                    h.copy_from_slice(made);
                    out.copy_from_slice(made);
                }
            }
        }
        (outputs, pass)
    }

    /// Returns the gradient of the input for the gradient of the outputs, and adds the gradient of the parameters to
    /// `into`.
    ///
    /// # Panics
    /// If `params`, `into` or `outputs` do not fit the forward pass.
    pub fn backward(&self, params: &[f32], tape: &Tape, outputs: &[f32], into: &mut [f32]) -> Vec<f32> {
        assert_eq!((params.len(), into.len()), (self.size, self.size));
        let directions = self.rnn.settings().direction.count();
        let mut gradient = outputs.to_vec();
        for layer in (0..self.rnn.settings().layers).rev() {
            if let Some(mask) = tape.masks.get(layer) {
                gradient.iter_mut().zip(mask).for_each(|(value, mask)| *value *= mask);
            }
            let mut inputs: Option<Vec<f32>> = None;
            for direction in 0..directions {
                let k = layer * directions + direction;
                let own = side(&gradient, self.rnn.output_size(), directions, direction);
                let found = self.pass_back(k, params, tape, &own, into);
                match &mut inputs {
                    Some(inputs) => add(inputs, &found),
                    None => inputs = Some(found),
                }
            }
            gradient = inputs.unwrap_or_default();
        }
        gradient
    }

    fn pass_back(&self, k: usize, params: &[f32], tape: &Tape, outputs: &[f32], into: &mut [f32]) -> Vec<f32> {
        let (pass, lengths) = (&tape.passes[k], &tape.lengths);
        let (rows, steps, [hidden, output, gates]) = (lengths.len(), longest(lengths), self.sizes());
        let (cell, places) = (self.rnn.settings().cell, &self.places[k]);
        let reverse = k % self.rnn.settings().direction.count() == 1;
        let input_size = self.rnn.input_size(k);
        let mut to_input = vec![0.0; steps * rows * gates];
        let mut to_recurrent = vec![0.0; steps * rows * gates];
        let mut to_outputs = vec![0.0; if places.projection.is_some() { steps * rows * output } else { 0 }];
        let (mut d_h, mut d_c) = (vec![0.0; rows * output], vec![0.0; rows * hidden]);
        for step in order(steps, !reverse) {
            let at = |size: usize| step * rows * size..(step + 1) * rows * size;
            let own = outputs[at(output)].chunks_exact(output).zip(lengths);
            let live = d_h.chunks_exact_mut(output).zip(own).filter(|(_, (_, length))| step < **length);
            live.for_each(|(d_h, (own, _))| add(d_h, own));
            stop(&mut d_h, step_of(&pass.cut.projected, at(output)));
            let mut d_made = match &places.projection {
                None => d_h.clone(),
                Some(projection) => {
                    let all = to_outputs[at(output)].chunks_exact_mut(output).zip(lengths);
                    let live = d_h.chunks_exact(output).zip(all).filter(|(_, (_, length))| step < **length);
                    live.for_each(|(d_h, (kept, _))| kept.copy_from_slice(d_h));
                    let mut d_made = vec![0.0; rows * hidden];
                    let weights = &params[projection.clone()];
                    product(&mut d_made, [rows, output, hidden], (&d_h, false), (weights, false), 0.0);
                    d_made
                }
            };
            stop(&mut d_made, step_of(&pass.cut.made, at(hidden)));
            let before = match cell {
                Cell::Lstm => &pass.state_before[at(hidden)],
                _ => &pass.hidden_before[at(output)],
            };
            for row in (0..rows).filter(|&row| step < lengths[row]) {
                let of = |size: usize| row * size..(row + 1) * size;
                let seen = Seen {
                    gates: &pass.gates[at(gates)][of(gates)],
                    kept: &pass.kept[at(hidden)][of(hidden)],
                    before: &before[of(hidden)],
                    cut: step_of(step_of(&pass.cut.cell, at(hidden)), of(hidden)),
                };
                let gradients = Gradients {
                    input: &mut to_input[at(gates)][of(gates)],
                    recurrent: &mut to_recurrent[at(gates)][of(gates)],
                    state: &mut d_c[of(hidden)],
                    hidden: &mut d_made[of(hidden)],
                };
                cell::backward(cell, &seen, gradients);
            }
            let mut through = vec![0.0; rows * output];
            let weights = &params[places.recurrent.clone()];
            product(&mut through, [rows, gates, output], (&to_recurrent[at(gates)], false), (weights, false), 0.0);
            for row in (0..rows).filter(|&row| step < lengths[row]) {
                let of = row * output..(row + 1) * output;
                d_h[of.clone()].copy_from_slice(&through[of.clone()]);
                // With a projection, the whole gradient of h passes through it.
                if places.projection.is_none() {
                    add(&mut d_h[of.clone()], &d_made[of]);
                }
            }
        }
        let all = steps * rows;
        let mut gradient = |place: &Range<usize>, shape: [usize; 3], a: &[f32], b: &[f32]| {
            product(&mut into[place.clone()], shape, (a, true), (b, false), 1.0);
        };
        gradient(&places.recurrent, [gates, all, output], &to_recurrent, &pass.hidden_before);
        if let Some(projection) = &places.projection {
            gradient(projection, [output, all, hidden], &to_outputs, &pass.made);
        }
        if let Some(input) = &places.input {
            gradient(input, [gates, all, input_size], &to_input, &pass.input);
        }
        for (place, rows) in [(&places.input_bias, &to_input), (&places.recurrent_bias, &to_recurrent)] {
            if let Some(place) = place {
                rows.chunks_exact(gates).for_each(|row| add(&mut into[place.clone()], row));
            }
        }
        let mut to_x = vec![0.0; all * input_size];
        match &places.input {
            Some(input) => {
                let weights = &params[input.clone()];
                product(&mut to_x, [all, gates, input_size], (&to_input, false), (weights, false), 0.0);
            }
            None => to_x.chunks_exact_mut(input_size).zip(to_input.chunks_exact(gates)).for_each(|(x, row)| {
                row.chunks_exact(hidden).for_each(|block| add(x, block));
            }),
        }
        to_x
    }

    /// Hidden size, output size, and number of gates times hidden size.
    fn sizes(&self) -> [usize; 3] {
        let settings = self.rnn.settings();
        [settings.hidden_size, self.rnn.output_size(), settings.cell.blocks() * settings.hidden_size]
    }
}

/// Marks of a step or of a row; empty if there are none.
fn step_of(cut: &[bool], range: Range<usize>) -> &[bool] {
    cut.get(range).unwrap_or_default()
}

/// Steps in the order of execution.
fn order(steps: usize, reverse: bool) -> impl Iterator<Item = usize> {
    (0..steps).map(move |step| if reverse { steps - 1 - step } else { step })
}

/// Concatenates the rows of several outputs.
fn beside(parts: &[Vec<f32>], size: usize) -> Vec<f32> {
    if let [part] = parts {
        return part.clone();
    }
    let rows = parts.first().map_or(0, |part| part.len() / size);
    let row = |row| parts.iter().flat_map(move |part| &part[row * size..(row + 1) * size]);
    (0..rows).flat_map(row).copied().collect()
}

/// The reverse of [`beside`]: one of the concatenated outputs.
fn side(all: &[f32], size: usize, parts: usize, part: usize) -> Vec<f32> {
    all.chunks_exact(size * parts).flat_map(|row| &row[part * size..(part + 1) * size]).copied().collect()
}

/// `to += from`
pub fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// `out = a b + keep * out` for row-major matrices `[m, k]` and `[k, n]`. A flag marks a matrix that is stored
/// transposed.
///
/// # Panics
/// If the length of a slice differs from its shape.
pub fn product(out: &mut [f32], [m, k, n]: [usize; 3], a: (&[f32], bool), b: (&[f32], bool), keep: f32) {
    let mut out = ArrayViewMut2::from_shape((m, n), out).expect("the length of a matrix fits its shape");
    general_mat_mul(1.0, &view(a, m, k), &view(b, k, n), keep, &mut out);
}

fn view((data, transposed): (&[f32], bool), rows: usize, cols: usize) -> ArrayView2<'_, f32> {
    let shape = if transposed { (cols, rows) } else { (rows, cols) };
    let view = ArrayView2::from_shape(shape, data).expect("the length of a matrix fits its shape");
    if transposed { view.reversed_axes() } else { view }
}
