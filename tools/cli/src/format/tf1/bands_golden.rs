//! The arguments of TensorFlow 1's cells that go through bands of features within a step. A `GridLSTMCell` is a node for
//! each of its frequency blocks, a `BidirectionalGridLSTMCell` two.

use super::bands::{Bands, Options, Peepholes, Side, grid_lstm, time_freq_lstm};
use super::golden::numbered;
use crate::error::ImportError;
use crate::format::golden::{Case, agree};
use crate::format::layer::{At, Layer};
use crate::format::network::{Direction, Network, Source};

/// Whether it is one of these cells.
pub(crate) fn has(cls: &str) -> bool {
    matches!(cls, "GridLSTMCell" | "BidirectionalGridLSTMCell" | "TimeFreqLSTMCell")
}

/// Adds a cell that reads `x`; returns its output.
pub(crate) fn add(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Source,
    direction: Direction,
) -> Result<Source, ImportError> {
    let layers = match case.cls.as_str() {
        "GridLSTMCell" => grid(case, x.size())?,
        "BidirectionalGridLSTMCell" => bidirectional_grid(case, x.size())?,
        "TimeFreqLSTMCell" => vec![time_freq(case, x.size())?],
        _ => return case.unknown_class(),
    };
    let outputs: Vec<Source> = layers.into_iter().map(|layer| network.directed(layer, &[x], direction)).collect();
    Ok(network.concat(&outputs))
}

fn time_freq(case: &mut Case<'_>, input: usize) -> Result<Layer, ImportError> {
    let (size, hop) = (case.needed_size("feature_size")?, case.size("frequency_skip")?.unwrap_or(1));
    let bands = Bands::between([0, input], input, size, hop)?;
    let shards = case.size("num_unit_shards")?.unwrap_or(1);
    let peepholes = match case.flag("use_peepholes", false)? {
        true => Some([case.tensor("W_I_diag")?, case.tensor("W_F_diag")?, case.tensor("W_O_diag")?]),
        false => None,
    };
    let options = options(case)?;
    let layer = time_freq_lstm(&numbered(case, "W", shards)?, case.tensor("B")?, peepholes, bands, options)?;
    case.units("num_units", layer.hidden_size)?;
    Ok(in_one(layer, bands.count))
}

fn grid(case: &mut Case<'_>, input: usize) -> Result<Vec<Layer>, ImportError> {
    let tuple = case.flag("state_is_tuple", true)?;
    let grid = Grid::read(case, input)?;
    if !tuple && grid.blocks.len() > 1 {
        // There the class reads the state of the first block for every other, and writes their own.
        return Err(ImportError::Unsupported("state_is_tuple = false with several frequency blocks".into()));
    }
    let layers = grid.layers(case, "", 0)?;
    Ok(grid.with_states(layers, if tuple { Some("state") } else { None }))
}

fn bidirectional_grid(case: &mut Case<'_>, input: usize) -> Result<Vec<Layer>, ImportError> {
    // As in the class, a fraction does not count.
    let offset = case.number("backward_slice_offset")?.unwrap_or(0.0) as isize;
    let grid = Grid::read(case, input)?;
    let forward = grid.layers(case, "fwd/", 0)?;
    let backward = grid.layers(case, "bwd/", offset)?.into_iter().map(|layer| layer.option("backwards")).collect();
    let mut layers = grid.with_states(forward, Some("fwd_state"));
    layers.extend(grid.with_states(backward, Some("bwd_state")));
    Ok(layers)
}

/// What all blocks and directions of a grid have in common.
struct Grid {
    blocks: Vec<Bands>,
    shards: usize,
    peepholes: bool,
    shared: bool,
    coupled: bool,
    units: usize,
    options: Options,
}

impl Grid {
    fn read(case: &mut Case<'_>, input: usize) -> Result<Self, ImportError> {
        let (size, hop) = (case.needed_size("feature_size")?, case.needed_size("frequency_skip")?);
        let counts = case.sizes("num_frequency_blocks")?.unwrap_or_default();
        let starts = case.sizes("start_freqindex_list")?.unwrap_or_default();
        let ends = case.sizes("end_freqindex_list")?.unwrap_or_default();
        // Without starts the class does not look at the ends.
        let (starts, ends) = if starts.is_empty() { (vec![0], vec![input]) } else { (starts, ends) };
        if counts.len() != starts.len() || starts.len() != ends.len() {
            let lists = format!("argument num_frequency_blocks = {counts:?} from {starts:?} to {ends:?}");
            return Err(ImportError::Unsupported(lists));
        }
        let mut blocks = Vec::new();
        for (&count, (from, to)) in counts.iter().zip(starts.into_iter().zip(ends)) {
            let bands = Bands::between([from, to], input, size, hop)?;
            if bands.count != count {
                let refused = format!("argument num_frequency_blocks = {count} with room for {}", bands.count);
                return Err(ImportError::Unsupported(refused));
            }
            blocks.push(bands);
        }
        Ok(Self {
            blocks,
            shards: case.size("num_unit_shards")?.unwrap_or(1),
            peepholes: case.flag("use_peepholes", false)?,
            shared: case.flag("share_time_frequency_weights", false)?,
            coupled: case.flag("couple_input_forget_gates", false)?,
            units: case.needed_size("num_units")?,
            options: options(case)?,
        })
    }

    /// A layer for each block, of the tensors in `scope`.
    fn layers(&self, case: &mut Case<'_>, scope: &str, offset: isize) -> Result<Vec<Layer>, ImportError> {
        let layer = |(block, &bands): (usize, &Bands)| {
            let frequency_kernel = numbered(case, &format!("{scope}W_f_{block}"), self.shards)?;
            let frequency = Side { kernel: &frequency_kernel, bias: case.tensor(&format!("{scope}B_f_{block}"))? };
            let time_kernel = match self.shared {
                true => None,
                false => Some(numbered(case, &format!("{scope}W_t_{block}"), self.shards)?),
            };
            let time = match &time_kernel {
                Some(kernel) => Some(Side { kernel, bias: case.tensor(&format!("{scope}B_t_{block}"))? }),
                None => None,
            };
            let peepholes = if self.peepholes { Some(self.peepholes(case, scope, block)?) } else { None };
            let layer = grid_lstm(frequency, time, peepholes, self.coupled, bands.shifted(offset), self.options)?;
            agree("num_units", self.units, layer.hidden_size)?;
            Ok(layer)
        };
        self.blocks.iter().enumerate().map(layer).collect()
    }

    /// Those of the frequency side and of the time side, which may be the same.
    fn peepholes<'a>(&self, case: &mut Case<'a>, scope: &str, block: usize) -> Result<[Peepholes<'a>; 2], ImportError> {
        let mut side = |side: &str| {
            let mut both = |gate: &str| {
                let mut vector = |memory: &str| case.tensor(&format!("{scope}W_{gate}_diag_{side}{memory}_{block}"));
                Ok::<_, ImportError>([vector("f")?, vector("t")?])
            };
            let forget = if self.coupled { None } else { Some(both("F")?) };
            Ok::<_, ImportError>(Peepholes { input: both("I")?, forget, output: both("O")? })
        };
        let frequency = side("freq")?;
        Ok([frequency, if self.shared { frequency } else { side("time")? }])
    }

    /// The layers with their states in a tuple of the tensors of all bands of all blocks; without a `prefix` in one
    /// tensor.
    fn with_states(&self, layers: Vec<Layer>, prefix: Option<&str>) -> Vec<Layer> {
        let at = |((block, bands), layer): ((usize, &Bands), Layer)| match prefix {
            None => in_one(layer, bands.count),
            Some(prefix) => with_states(layer, bands.count, |band| {
                ["c", "m"].map(|state| At::new(format!("{prefix}_f{band:02}_b{block:02}_{state}")))
            }),
        };
        self.blocks.iter().enumerate().zip(layers).map(at).collect()
    }
}

/// The layer with c and h of every band where `at` says.
fn with_states(mut layer: Layer, bands: usize, at: impl Fn(usize) -> [At; 2]) -> Layer {
    let units = layer.hidden_size;
    for band in 0..bands {
        let [c, h] = at(band).map(|at| at.part(band * units, units));
        layer = layer.state("cell_state", c).state("hidden", h);
    }
    layer
}

/// The layer with c and h of band after band in one tensor.
fn in_one(layer: Layer, bands: usize) -> Layer {
    let units = layer.hidden_size;
    with_states(layer, bands, |band| [2 * band, 2 * band + 1].map(|part| At::new("state").from(part * units)))
}

fn options(case: &mut Case<'_>) -> Result<Options, ImportError> {
    Ok(Options { forget_bias: case.number("forget_bias")?.unwrap_or(1.0), cell_clip: case.number("cell_clip")? })
}
