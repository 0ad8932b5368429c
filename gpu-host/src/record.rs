//! What a backend makes of a matrix of small stacks: its parameter buffer, outputs and gradients. A device writes them down
//! once, and machines without one compare them with the layout as it is described and with the CPU path.
//!
//! Weights, inputs and the gradient to the outputs follow from a stack's number in the matrix, so that files hold only what
//! was made.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tidegate_tools::canonical::Tensor;
use tidegate_tools::data::{DataError, read_bytes, read_tensors};
use tidegate_tools::output::write_atomically;

use crate::cpu::{Batch, Stack};
use crate::layout::Layout;
use crate::network::uniform;
use crate::rnn::{Cell, Direction, InputMode, Rnn, Settings};
use crate::weights::{LayerWeights, canonical_to_params, tensors};

/// Units of every stack.
const HIDDEN: usize = 5;
/// Features that its projections have.
const PROJECTED: usize = 3;
/// Of cell states, about a third of which it cuts off.
const CLIP: f32 = 0.3;
/// Steps of each sequence: padding must not count.
const LENGTHS: [usize; 3] = [6, 4, 1];
/// Under which a file says what made it.
const MADE_BY: &str = "made_by";
const PARTS: [&str; 4] = ["params", "outputs", "to_input", "to_params"];

/// A stack and all that it is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// In files: cell, layers, direction and how the input is read.
    pub name: String,
    /// The stack.
    pub rnn: Rnn,
    /// Of each pseudo-layer.
    pub weights: Vec<LayerWeights>,
    /// `[steps, sequences, input]`
    pub batch: Batch,
    /// The gradient to the outputs, `[steps, sequences, outputs]`; zeros behind the end of a sequence.
    pub to_outputs: Vec<f32>,
}

/// What was made of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    /// The parameter buffer.
    pub params: Vec<f32>,
    /// `[steps, sequences, outputs]`
    pub outputs: Vec<f32>,
    /// The gradient to the input, `[steps, sequences, input]`.
    pub to_input: Vec<f32>,
    /// The gradient to the parameters, in their buffer's order.
    pub to_params: Vec<f32>,
}

impl Made {
    /// In the order of [`PARTS`].
    fn parts(&self) -> [&Vec<f32>; 4] {
        [&self.params, &self.outputs, &self.to_input, &self.to_params]
    }
}

/// How far two of [`Made`] are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// Whether the parameter buffers are the same.
    pub params: bool,
    /// The largest difference of outputs.
    pub outputs: f32,
    /// The largest difference of gradients to the input, by the largest of these.
    pub to_input: f32,
    /// Of gradients to the parameters, likewise.
    pub to_params: f32,
}

impl Apart {
    /// The bars of the layers: outputs in f32 within 2e-5, gradients within 1e-3 of the largest.
    pub const OUTPUTS: f32 = 2e-5;
    /// See [`OUTPUTS`](Self::OUTPUTS).
    pub const GRADIENTS: f32 = 1e-3;

    /// Of what was found and what should be.
    pub fn of(found: &Made, needed: &Made) -> Self {
        // A gradient of zeros has nothing to be compared with.
        let gradient = |a: &[f32], b: &[f32]| {
            let largest = b.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            farthest(a, b) / largest.max(1e-3)
        };
        Self {
            params: found.params == needed.params,
            outputs: farthest(&found.outputs, &needed.outputs),
            to_input: gradient(&found.to_input, &needed.to_input),
            to_params: gradient(&found.to_params, &needed.to_params),
        }
    }

    /// What is too far apart, if anything is.
    pub fn broken(&self) -> Option<&'static str> {
        let holds = [
            self.params,
            self.outputs <= Self::OUTPUTS,
            self.to_input <= Self::GRADIENTS,
            self.to_params <= Self::GRADIENTS,
        ];
        // In the order of the files' parts.
        PARTS.into_iter().zip(holds).find(|(_, holds)| !holds).map(|(part, _)| part)
    }
}

/// The largest difference; infinite where there are not as many numbers, not a number where one is none.
fn farthest(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return f32::INFINITY;
    }
    let far = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    far.fold(0.0, |most: f32, far| if far > most || far.is_nan() { far } else { most })
}

/// What a backend made of every task.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The backend, its version and the device.
    pub made_by: String,
    /// In the order of [`tasks`].
    pub made: Vec<(Task, Made)>,
}

/// All cells, one to three layers, one way and both, inputs that are narrower, as wide and wider than a layer or skip their
/// weights, and LSTMs that project or clip.
pub fn tasks() -> Vec<Task> {
    let mut found = Vec::new();
    let cells = [(Cell::Lstm, "lstm"), (Cell::Gru, "gru"), (Cell::RnnTanh, "tanh"), (Cell::RnnRelu, "relu")];
    let linear = InputMode::Linear;
    let inputs = [
        (HIDDEN - 2, linear, None, None, "narrow"),
        (HIDDEN, linear, None, None, "equal"),
        (HIDDEN + 3, linear, None, None, "wide"),
        (HIDDEN, InputMode::Skip, None, None, "skip"),
        (HIDDEN, linear, Some(PROJECTED), None, "projected"),
    ];
    let clipped = [(HIDDEN, linear, None, Some(CLIP), "clipped")];
    for (cell, cell_name, inputs) in
        cells.map(|(cell, name)| (cell, name, &inputs[..])).into_iter().chain([(Cell::Lstm, "lstm", &clipped[..])])
    {
        for layers in 1..=3 {
            for (direction, way) in [(Direction::Unidirectional, "uni"), (Direction::Bidirectional, "bi")] {
                for &(input_size, input_mode, projected_size, cell_clip, input) in inputs {
                    let settings = Settings {
                        layers,
                        projected_size,
                        direction,
                        input_mode,
                        cell_clip,
                        ..Settings::new(cell, input_size, HIDDEN)
                    };
                    // Only LSTMs project.
                    if let Ok(rnn) = Rnn::new(settings) {
                        found.push(task(found.len(), format!("{cell_name}_{layers}_{way}_{input}"), rnn));
                    }
                }
            }
        }
    }
    found
}

fn task(number: usize, name: String, rnn: Rnn) -> Task {
    let mut random = ChaCha8Rng::seed_from_u64(number as u64);
    let mut numbers =
        |len: usize, reach: f32| (0..len).map(|_| (2.0 * uniform(&mut random) - 1.0) * reach).collect::<Vec<f32>>();
    let layer = |k: usize, numbers: &mut dyn FnMut(usize, f32) -> Vec<f32>| {
        let made = tensors(&rnn, k).map(|(name, _, _, shape)| {
            let data = numbers(shape.iter().product(), 0.6);
            (name, Tensor { shape, data })
        });
        made.collect()
    };
    let weights = (0..rnn.pseudo_layers()).map(|k| layer(k, &mut numbers)).collect();
    let steps = LENGTHS.into_iter().max().unwrap_or(0);
    let mut padded = |features: usize| {
        let mut rows: Vec<f32> = numbers(steps * LENGTHS.len() * features, 1.0);
        for (at, row) in rows.chunks_exact_mut(features).enumerate() {
            if at / LENGTHS.len() >= LENGTHS[at % LENGTHS.len()] {
                row.fill(0.0);
            }
        }
        rows
    };
    let features = rnn.settings().input_size;
    let batch = Batch { data: padded(features), lengths: LENGTHS.to_vec(), features };
    let to_outputs = padded(rnn.output_size() * rnn.settings().direction.count());
    Task { name, rnn, weights, batch, to_outputs }
}

/// What the CPU path makes of a task, over the weight space as it is described.
pub fn on_cpu(task: &Task) -> Made {
    let (layout, stack) = (Layout::described(&task.rnn), Stack::new(&task.rnn));
    let mut params = vec![0.0; layout.params_size()];
    canonical_to_params(&layout, &task.weights, &mut params).expect("a task has the weights of its stack");
    let (outputs, tape, _) = stack.forward(&params, &task.batch, None, None, None);
    let mut to_params = vec![0.0; params.len()];
    let to_input = stack.backward(&params, &tape, &task.to_outputs, &mut to_params);
    Made { params, outputs: outputs.data, to_input, to_params }
}

/// Writes a recording, to one file for each cell.
///
/// # Errors
/// If a file cannot be written.
pub fn write(folder: &Path, Recording { made_by, made }: &Recording) -> Result<(), DataError> {
    let mut files: BTreeMap<&str, Vec<&(Task, Made)>> = BTreeMap::new();
    for one in made {
        files.entry(cell(&one.0)).or_default().push(one);
    }
    for (cell, made) in files {
        let path = file(folder, cell);
        let invalid = |error: safetensors::SafeTensorError| DataError::new(&path, format!("cannot be made: {error}"));
        let bytes = made.iter().flat_map(|(task, made)| {
            let named = PARTS.into_iter().zip(made.parts());
            named.map(|(part, data)| {
                (
                    format!("{}.{part}", task.name),
                    data.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(),
                )
            })
        });
        let bytes: Vec<(String, Vec<u8>)> = bytes.collect();
        let views = bytes
            .iter()
            .map(|(name, bytes)| Ok((name.as_str(), TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes)?)));
        let views = views.collect::<Result<Vec<_>, _>>().map_err(invalid)?;
        let metadata = HashMap::from([(MADE_BY.to_owned(), made_by.clone())]);
        let data = safetensors::serialize(views, Some(metadata)).map_err(invalid)?;
        write_atomically(&path, |out| out.write_all(&data))?;
    }
    Ok(())
}

/// Reads a recording; `None` where the folder has none of its files.
///
/// # Errors
/// If a file cannot be read, or has not all of its tasks.
pub fn read(folder: &Path) -> Result<Option<Recording>, DataError> {
    let tasks = tasks();
    if !tasks.iter().any(|task| file(folder, cell(task)).exists()) {
        return Ok(None);
    }
    let mut files: BTreeMap<PathBuf, BTreeMap<String, Tensor>> = BTreeMap::new();
    let mut all = Vec::new();
    let mut made_by = String::new();
    for task in tasks {
        let path = file(folder, cell(&task));
        if !files.contains_key(&path) {
            let bytes = read_bytes(&path)?;
            let (_, metadata) = SafeTensors::read_metadata(&bytes)
                .map_err(|error| DataError::new(&path, format!("is no safetensors file: {error}")))?;
            made_by = metadata.metadata().as_ref().and_then(|data| data.get(MADE_BY)).cloned().unwrap_or_default();
            files.insert(path.clone(), read_tensors(&path)?);
        }
        let part = |part: &str| {
            let name = format!("{}.{part}", task.name);
            let tensor = files.get(&path).and_then(|tensors| tensors.get(&name));
            tensor.map(|tensor| tensor.data.clone()).ok_or_else(|| DataError::new(&path, format!("has no {name}")))
        };
        let [params, outputs, to_input, to_params] = PARTS.map(part);
        let made = Made { params: params?, outputs: outputs?, to_input: to_input?, to_params: to_params? };
        all.push((task, made));
    }
    Ok(Some(Recording { made_by, made: all }))
}

fn cell(task: &Task) -> &str {
    task.name.split('_').next().unwrap_or_default()
}

fn file(folder: &Path, cell: &str) -> PathBuf {
    folder.join(format!("{cell}.safetensors"))
}
