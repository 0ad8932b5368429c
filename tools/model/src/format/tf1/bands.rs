//! TensorFlow 1's cells that process bands of features within a step. A `GridLSTMCell` becomes one node for each of its
//! frequency blocks, a `BidirectionalGridLSTMCell` two.
//!
//! A kernel is [band + 2 * units, gates * units]. Its rows are the features of the band, the output of the same band
//! one step earlier, and the output of the previous band. Its column blocks are i, j, f, o, or i, j, o if f is coupled.

use tidegate::internals::{cell::CellKind, gate::LSTM, gate::LSTM_TF1};

use super::cells::{Converted, clipped, numbered, unsupported, unsupported_if};
use super::lstm_classes::forget_bias;
use crate::format::network::{Direction, Network, Source};
use crate::format::weights::{Named, add_forget_bias, reordered, stacked};
use crate::format::{case::Case, case::agree, layer::At, layer::Layer};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// Whether `cls` is one of these cells.
pub(super) fn has(cls: &str) -> bool {
    matches!(cls, "GridLSTMCell" | "BidirectionalGridLSTMCell" | "TimeFreqLSTMCell")
}

/// Adds a cell that reads `x`; returns its output.
pub(super) fn add(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Result<Source> {
    let layers = match case.cls.as_str() {
        "GridLSTMCell" => grid(case, x.size())?,
        "BidirectionalGridLSTMCell" => bidirectional_grid(case, x.size())?,
        _ => vec![time_freq(case, x.size())?],
    };
    let outputs: Vec<Source> = layers.into_iter().map(|layer| network.directed(layer, &[x], direction)).collect();
    Ok(network.concat(&outputs))
}

/// Layout of the bands over the input features.
#[derive(Clone, Copy)]
struct Bands {
    /// Number of input features.
    input: usize,
    /// Number of bands.
    count: usize,
    /// Features per band.
    size: usize,
    /// Features from the start of one band to the start of the next.
    hop: usize,
    /// Start of the first band in the padded features.
    first: usize,
    /// Zeros before the first feature and after the last one.
    padding: [usize; 2],
}

impl Bands {
    /// As many bands as fit between the features `from` and `to`.
    fn between([from, to]: [usize; 2], input: usize, size: usize, hop: usize) -> Result<Self> {
        let room = to.checked_sub(from).and_then(|len| len.checked_sub(size)).filter(|_| to <= input && size > 0);
        match room.and_then(|room| room.checked_div(hop)) {
            Some(steps) => Ok(Self { input, count: steps + 1, size, hop, first: from, padding: [0, 0] }),
            None => {
                unsupported(format!("a row of bands of {size} features, {hop} apart, from {from} to {to} of {input}"))
            }
        }
    }

    /// The same bands `offset` features further up; a negative offset inserts zeros before the first feature.
    fn shifted(self, offset: isize) -> Self {
        let distance = offset.unsigned_abs();
        if offset < 0 {
            return Self { padding: [distance, 0], ..self };
        }
        Self { first: self.first.saturating_add(distance), padding: [0, distance], ..self }
    }

    fn layer(self, kind: CellKind, units: usize, sides: usize) -> Layer {
        let layer = Layer::new(kind, self.input, units)
            .extent("bands", self.count)
            .extent("band_size", self.size)
            .extent("band_hop", self.hop)
            .extent("first", self.first)
            .extent("pad_before", self.padding[0])
            .extent("pad_after", self.padding[1]);
        Layer { output_size: sides * self.count * units, ..layer }
    }
}

/// `TimeFreqLSTMCell` with the peepholes `W_I_diag`, `W_F_diag` and `W_O_diag`, each `[units]`.
fn time_freq(case: &mut Case<'_>, input: usize) -> Converted {
    let (size, hop) = (case.needed_size("feature_size")?, case.size("frequency_skip")?.unwrap_or(1));
    let bands = Bands::between([0, input], input, size, hop)?;
    let shards = case.size("num_unit_shards")?.unwrap_or(1);
    let peepholes = case.flag("use_peepholes", false)?;
    let (forget_bias, cell_clip) = (forget_bias(case)?, case.number("cell_clip")?);
    let kernel = numbered(case, "W", shards)?;
    let kernel = Named { name: "W", tensor: &kernel };
    let units = kernel.units(4)?;
    let [input, recurrent, mut bias] = blocks(kernel, case.named("B")?, [4, units], size)?;
    add_forget_bias(&mut bias, forget_bias);
    let names = ["input_weights", "recurrent_weights", "input_bias"];
    let mut layer = with_tensors(bands.layer(CellKind::TimeFreqLstm, units, 1), names, [input, recurrent, bias]);
    if peepholes {
        let mut vector = |name| case.vector(name, units);
        let peepholes = [vector("W_I_diag")?, vector("W_F_diag")?, vector("W_O_diag")?];
        let names = ["input_peephole", "forget_peephole", "output_peephole"];
        layer = with_tensors(layer.option("peephole"), names, peepholes);
    }
    case.units("num_units", units)?;
    Ok(in_one(clipped(layer, "cell_clip", "cell_clip", cell_clip)?, bands.count))
}

/// Input weights, recurrent weights and bias, with the blocks in canonical order.
fn blocks(kernel: Named<'_>, bias: Named<'_>, [gates, units]: [usize; 2], band: usize) -> Result<[Tensor; 3]> {
    kernel.shaped(&[band.saturating_add(2 * units), gates * units], units)?;
    let (input, recurrent) = kernel.split_kernel(2 * units)?;
    let bias = bias.shaped(&[gates * units], units)?;
    Ok([input, recurrent, bias]
        .map(|tensor| if gates == 3 { uncoupled(&tensor) } else { reordered(&tensor, LSTM_TF1, LSTM) }))
}

/// Expands the blocks i, j, o to i, f, g, o; f is 1 - i, computed as σ(-a) for i = σ(a).
fn uncoupled(tensor: &Tensor) -> Tensor {
    let (input, rest) = tensor.data.split_at(tensor.data.len() / 3);
    let mut shape = tensor.shape.clone();
    shape[0] = shape[0] / 3 * 4;
    Tensor { shape, data: [input, &negated(input), rest].concat() }
}

fn negated(values: &[f32]) -> Vec<f32> {
    values.iter().map(|value| -value).collect()
}

fn grid(case: &mut Case<'_>, input: usize) -> Result<Vec<Layer>> {
    let tuple = case.flag("state_is_tuple", true)?;
    let grid = Grid::read(case, input)?;
    if !tuple && grid.blocks.len() > 1 {
        // The class would read the state of the first block for all blocks, but write that of each block.
        return unsupported("state_is_tuple = false with several frequency blocks");
    }
    grid.layers(case, "", 0, tuple.then_some("state"))
}

fn bidirectional_grid(case: &mut Case<'_>, input: usize) -> Result<Vec<Layer>> {
    // Like the class, this truncates a fractional offset.
    let offset = case.number("backward_slice_offset")?.unwrap_or(0.0) as isize;
    let grid = Grid::read(case, input)?;
    let mut layers = grid.layers(case, "fwd/", 0, Some("fwd_state"))?;
    let backward = grid.layers(case, "bwd/", offset, Some("bwd_state"))?;
    layers.extend(backward.into_iter().map(|layer| layer.option("backwards")));
    Ok(layers)
}

/// The arguments that all blocks and directions of a grid share.
struct Grid {
    blocks: Vec<Bands>,
    shards: usize,
    peepholes: bool,
    /// Whether the time side has the weights of the frequency side.
    shared: bool,
    coupled: bool,
    units: usize,
    forget_bias: f32,
    cell_clip: Option<f32>,
}

/// Canonical tensors of the two sides: weights, then peepholes.
const FREQUENCY: [[&str; 3]; 2] = [
    ["frequency_input_weights", "frequency_recurrent_weights", "frequency_bias"],
    ["frequency_input_peephole", "frequency_forget_peephole", "frequency_output_peephole"],
];
const TIME: [[&str; 3]; 2] = [
    ["time_input_weights", "time_recurrent_weights", "time_bias"],
    ["time_input_peephole", "time_forget_peephole", "time_output_peephole"],
];

impl Grid {
    fn read(case: &mut Case<'_>, input: usize) -> Result<Self> {
        let (size, hop) = (case.needed_size("feature_size")?, case.needed_size("frequency_skip")?);
        let counts = case.sizes("num_frequency_blocks")?.unwrap_or_default();
        let starts = case.sizes("start_freqindex_list")?.unwrap_or_default();
        let ends = case.sizes("end_freqindex_list")?.unwrap_or_default();
        // Without starts, the class ignores the ends.
        let (starts, ends) = if starts.is_empty() { (vec![0], vec![input]) } else { (starts, ends) };
        if counts.len() != starts.len() || starts.len() != ends.len() {
            return unsupported(format!("argument num_frequency_blocks = {counts:?} from {starts:?} to {ends:?}"));
        }
        let mut blocks = Vec::new();
        for (&given, (from, to)) in counts.iter().zip(starts.into_iter().zip(ends)) {
            let bands = Bands::between([from, to], input, size, hop)?;
            let what = format_args!("argument num_frequency_blocks = {given} with room for {}", bands.count);
            unsupported_if(bands.count != given, what)?;
            blocks.push(bands);
        }
        Ok(Self {
            blocks,
            shards: case.size("num_unit_shards")?.unwrap_or(1),
            peepholes: case.flag("use_peepholes", false)?,
            shared: case.flag("share_time_frequency_weights", false)?,
            coupled: case.flag("couple_input_forget_gates", false)?,
            units: case.needed_size("num_units")?,
            forget_bias: forget_bias(case)?,
            cell_clip: case.number("cell_clip")?,
        })
    }

    /// One layer for each block, from the tensors in `scope`. With `state`, the states are a tuple with one tensor per
    /// state, band and block; otherwise they are packed into one tensor.
    fn layers(&self, case: &mut Case<'_>, scope: &str, offset: isize, state: Option<&str>) -> Result<Vec<Layer>> {
        let mut layers = Vec::new();
        for (block, bands) in self.blocks.iter().enumerate() {
            let layer = self.layer(case, |name| format!("{scope}{name}_{block}"), bands.shifted(offset))?;
            agree("num_units", self.units, layer.hidden_size)?;
            layers.push(match state {
                None => in_one(layer, bands.count),
                Some(prefix) => with_states(layer, bands.count, |band| {
                    ["c", "m"].map(|state| At::new(format!("{prefix}_f{band:02}_b{block:02}_{state}")))
                }),
            });
        }
        Ok(layers)
    }

    /// The layer of a block, whose tensors have the names `path(name)`.
    fn layer(&self, case: &mut Case<'_>, path: impl Fn(&str) -> String, bands: Bands) -> Converted {
        let weights = self.weights(case, &path, "f", bands.size, None)?;
        let units = weights[0].shape[0] / 4;
        let mut layer = with_tensors(bands.layer(CellKind::GridLstm, units, 2), FREQUENCY[0], weights);
        layer = match self.shared {
            true => layer.option("shared"),
            false => with_tensors(layer, TIME[0], self.weights(case, &path, "t", bands.size, Some(units))?),
        };
        if self.peepholes {
            let of_frequency = self.peepholes(case, &path, "freq", units)?;
            let of_time = if self.shared { of_frequency.clone() } else { self.peepholes(case, &path, "time", units)? };
            layer = with_tensors(layer.option("peephole"), FREQUENCY[1], of_frequency);
            layer = with_tensors(layer, TIME[1], of_time);
        }
        clipped(layer, "cell_clip", "cell_clip", self.cell_clip)
    }

    /// Input weights, recurrent weights and bias of a side.
    fn weights(
        &self,
        case: &mut Case<'_>,
        path: impl Fn(&str) -> String,
        side: &str,
        band: usize,
        units: Option<usize>,
    ) -> Result<[Tensor; 3]> {
        let gates = if self.coupled { 3 } else { 4 };
        let [kernel_name, bias_name] = ["W", "B"].map(|letter| format!("{letter}_{side}"));
        let kernel = numbered(case, &path(&kernel_name), self.shards)?;
        let kernel = Named { name: &kernel_name, tensor: &kernel };
        let bias = Named { name: &bias_name, tensor: case.tensor(&path(&bias_name))? };
        let units = units.map_or_else(|| kernel.units(gates), Ok)?;
        let mut tensors = blocks(kernel, bias, [gates, units], band)?;
        if !self.coupled {
            add_forget_bias(&mut tensors[2], self.forget_bias);
        }
        Ok(tensors)
    }

    /// The peepholes of the gates i, f, o of a side. Each has `units` weights for the cell state passed from band to
    /// band, then `units` for the one passed from step to step.
    fn peepholes(
        &self,
        case: &mut Case<'_>,
        path: impl Fn(&str) -> String,
        side: &str,
        units: usize,
    ) -> Result<[Tensor; 3]> {
        let mut both = |name: &str| {
            let mut vector = |memory: &str| {
                let tensor = case.tensor(&path(&format!("{name}_{side}{memory}")))?;
                Named { name, tensor }.shaped(&[units], units)
            };
            Ok::<_, ImportError>(stacked([&vector("f")?, &vector("t")?]))
        };
        let input = both("W_I_diag")?;
        let forget = match self.coupled {
            true => Tensor { shape: input.shape.clone(), data: negated(&input.data) },
            false => both("W_F_diag")?,
        };
        Ok([input, forget, both("W_O_diag")?])
    }
}

fn with_tensors(layer: Layer, names: [&'static str; 3], tensors: [Tensor; 3]) -> Layer {
    names.into_iter().zip(tensors).fold(layer, |layer, (name, tensor)| layer.tensor(name, tensor))
}

/// Sets the location of c and h of every band to `at(band)`.
fn with_states(mut layer: Layer, bands: usize, at: impl Fn(usize) -> [At; 2]) -> Layer {
    let units = layer.hidden_size;
    for band in 0..bands {
        let [c, h] = at(band).map(|at| at.part(band * units, units));
        layer = layer.state("cell_state", c).state("hidden", h);
    }
    layer
}

/// Packs c and h of all bands, band after band, into one tensor.
fn in_one(layer: Layer, bands: usize) -> Layer {
    let units = layer.hidden_size;
    with_states(layer, bands, |band| [2 * band, 2 * band + 1].map(|part| At::new("state").from(part * units)))
}
