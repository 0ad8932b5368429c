//! Recurrent layers forward and backward on the CPU: what cuDNN does on a device, over the same weight space, as it is
//! [described](Layout::described).
//!
//! A batch is `[steps, sequences, features]` with each sequence at the front and padding behind it. Where a sequence
//! has ended outputs are zero, and the backward direction begins with its last step.

mod cell;
pub mod count;

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

use crate::layout::{Kind, Layout, Side};
use crate::rnn::{Cell, Rnn};
use cell::{Gradients, Limits, Row, Seen};
use count::{Units, count, stop};

/// Numbers of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// `[steps, sequences, features]`
    pub data: Vec<f32>,
    /// Steps of each sequence; the longest has all of them.
    pub lengths: Vec<usize>,
    /// Of a step.
    pub features: usize,
}

impl Batch {
    /// Steps of the longest sequence.
    pub fn steps(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }
}

/// Where a pseudo-layer has its parameters.
struct Places {
    input: Option<Range<usize>>,
    recurrent: Range<usize>,
    projection: Option<Range<usize>>,
    input_bias: Option<Range<usize>>,
    recurrent_bias: Option<Range<usize>>,
}

impl Places {
    fn new(layout: &Layout, pseudo_layer: usize) -> Self {
        // As described, the blocks of a side follow each other without a gap.
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

/// A stack of layers.
pub struct Stack {
    rnn: Rnn,
    size: usize,
    places: Vec<Places>,
}

/// What a stack keeps on its way forward.
pub struct Tape {
    lengths: Vec<usize>,
    passes: Vec<Pass>,
    /// What the outputs of each layer but the last were multiplied by; empty without dropout.
    masks: Vec<Vec<f32>>,
}

/// What a pseudo-layer keeps.
struct Pass {
    /// What it read, `[steps, sequences, input]`.
    input: Vec<f32>,
    /// `[steps, sequences, gates * hidden]`
    gates: Vec<f32>,
    /// [`Row::kept`], `[steps, sequences, hidden]`.
    kept: Vec<f32>,
    /// What each step found: the hidden state `[steps, sequences, output]`, an LSTM's cell state.
    hidden_before: Vec<f32>,
    state_before: Vec<f32>,
    /// What is projected, `[steps, sequences, hidden]`; empty where nothing is.
    made: Vec<f32>,
    /// What a clip or 16 bits have cut off; empty without them.
    cut: Cut,
}

/// What was cut off.
#[derive(Default)]
struct Cut {
    /// Of an LSTM's cell state, `[steps, sequences, hidden]`.
    cell: Vec<bool>,
    /// Of what the cell gives, `[steps, sequences, hidden]`.
    made: Vec<bool>,
    /// Of what a projection gives, `[steps, sequences, output]`.
    projected: Vec<bool>,
}

/// Where a stack is behind a batch, of every pseudo-layer: the hidden state `[sequences, output]` and an LSTM's cell state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States(pub Vec<[Vec<f32>; 2]>);

/// Numbers that outputs between layers are multiplied by while a network is trained: so many of them.
pub type Dropout<'a> = &'a mut dyn FnMut(usize) -> Vec<f32>;

impl Stack {
    /// A stack over the weight space of this size.
    pub fn new(rnn: &Rnn) -> Self {
        let layout = Layout::described(rnn);
        let places = (0..rnn.pseudo_layers()).map(|k| Places::new(&layout, k)).collect();
        Self { rnn: *rnn, size: layout.params_size(), places }
    }

    /// What it is a stack of.
    pub const fn rnn(&self) -> &Rnn {
        &self.rnn
    }

    /// Elements of its weight space.
    pub const fn params_size(&self) -> usize {
        self.size
    }

    /// From zero states, or where another batch has ended: that of the same sequences, or of these and more behind them.
    /// Gives the outputs, those of both directions side by side, what [`backward`](Self::backward) needs, and the states
    /// behind each sequence's last step. Only while a network is trained is there a `dropout`, between layers. With `units`,
    /// one for each pseudo-layer, states and outputs are as 16 bits count them.
    ///
    /// # Panics
    /// If `params`, the batch or the states have other sizes than the stack.
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

    /// Where a pseudo-layer has its recurrent weights.
    pub fn recurrent(&self, pseudo_layer: usize) -> Range<usize> {
        self.places[pseudo_layer].recurrent.clone()
    }

    /// What a pseudo-layer begins with.
    fn state(&self, k: usize, rows: usize, from: Option<&States>) -> [Vec<f32>; 2] {
        let sizes = [self.rnn.output_size(), self.rnn.settings().hidden_size];
        match from {
            None => sizes.map(|size| vec![0.0; rows * size]),
            Some(from) => std::array::from_fn(|part| from.0[k][part][..rows * sizes[part]].to_vec()),
        }
    }

    /// One pseudo-layer forward; its state is carried on.
    fn pass(
        &self,
        k: usize,
        params: &[f32],
        input: Vec<f32>,
        (lengths, units): (&[usize], Option<Units>),
        [h, c]: &mut [Vec<f32>; 2],
    ) -> (Vec<f32>, Pass) {
        let reverse = k % self.rnn.settings().direction.count() == 1;
        let Sizes { rows, steps, hidden, output, gates } = self.sizes(lengths);
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
            // Every gate sees the input as it is.
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

    /// From the gradient to the outputs to that to the inputs; that to the parameters is added to `into`.
    ///
    /// # Panics
    /// If `params`, `into` or `outputs` have other sizes than on the way forward.
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
                let found = self.pass_back(k, params, &tape.passes[k], &own, &tape.lengths, into);
                match &mut inputs {
                    Some(inputs) => add(inputs, &found),
                    None => inputs = Some(found),
                }
            }
            gradient = inputs.unwrap_or_default();
        }
        gradient
    }

    /// One pseudo-layer backward.
    fn pass_back(
        &self,
        k: usize,
        params: &[f32],
        pass: &Pass,
        outputs: &[f32],
        lengths: &[usize],
        into: &mut [f32],
    ) -> Vec<f32> {
        let Sizes { rows, steps, hidden, output, gates } = self.sizes(lengths);
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
            for (d_h, (own, &length)) in d_h.chunks_exact_mut(output).zip(own) {
                if step < length {
                    add(d_h, own);
                }
            }
            stop(&mut d_h, step_of(&pass.cut.projected, at(output)));
            let mut d_made = match &places.projection {
                None => d_h.clone(),
                Some(projection) => {
                    let all = to_outputs[at(output)].chunks_exact_mut(output).zip(lengths);
                    for (d_h, (kept, &length)) in d_h.chunks_exact(output).zip(all) {
                        if step < length {
                            kept.copy_from_slice(d_h);
                        }
                    }
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
                // A projection lies between: nothing goes past it.
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

    fn sizes(&self, lengths: &[usize]) -> Sizes {
        let settings = self.rnn.settings();
        Sizes {
            rows: lengths.len(),
            steps: lengths.iter().copied().max().unwrap_or(0),
            hidden: settings.hidden_size,
            output: self.rnn.output_size(),
            gates: settings.cell.blocks() * settings.hidden_size,
        }
    }
}

struct Sizes {
    rows: usize,
    steps: usize,
    hidden: usize,
    output: usize,
    gates: usize,
}

/// Those of a step, or of a row; none where there are none.
fn step_of(cut: &[bool], range: Range<usize>) -> &[bool] {
    cut.get(range).unwrap_or_default()
}

/// Steps in the order in which they are made.
fn order(steps: usize, reverse: bool) -> impl Iterator<Item = usize> {
    (0..steps).map(move |step| if reverse { steps - 1 - step } else { step })
}

/// Rows of several, side by side.
fn beside(parts: &[Vec<f32>], size: usize) -> Vec<f32> {
    let [part] = parts else {
        let rows = parts.first().map_or(0, |part| part.len() / size);
        return (0..rows)
            .flat_map(|row| parts.iter().flat_map(move |p| &p[row * size..(row + 1) * size]))
            .copied()
            .collect();
    };
    part.clone()
}

/// One of what was put side by side.
fn side(all: &[f32], size: usize, parts: usize, part: usize) -> Vec<f32> {
    all.chunks_exact(size * parts).flat_map(|row| &row[part * size..(part + 1) * size]).copied().collect()
}

/// `to += from`
pub fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// `out = a b + keep * out` of row-major matrices, `[m, k]` and `[k, n]`; what is marked is stored transposed.
///
/// # Panics
/// If a slice has another length than its shape.
pub fn product(out: &mut [f32], [m, k, n]: [usize; 3], a: (&[f32], bool), b: (&[f32], bool), keep: f32) {
    let mut out = ArrayViewMut2::from_shape((m, n), out).expect("a matrix has as many numbers as its shape");
    general_mat_mul(1.0, &view(a, m, k), &view(b, k, n), keep, &mut out);
}

fn view((data, transposed): (&[f32], bool), rows: usize, cols: usize) -> ArrayView2<'_, f32> {
    let shape = if transposed { (cols, rows) } else { (rows, cols) };
    let view = ArrayView2::from_shape(shape, data).expect("a matrix has as many numbers as its shape");
    if transposed { view.reversed_axes() } else { view }
}
