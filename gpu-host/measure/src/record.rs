//! A matrix of small stacks, and the files with the results of a backend for it: parameter buffers, outputs and
//! gradients. A GPU writes them once; tests on machines without one compare them with the described layout and with the
//! CPU.
//!
//! Weights, inputs and the gradient of the outputs are drawn from the number of a stack in the matrix, so the files
//! hold only results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chacha20::ChaCha8Rng;
use chacha20::rand_core::SeedableRng;
use tidegate_gpu::cpu::{Batch, Stack, fill_padding};
use tidegate_gpu::layout::Layout;
use tidegate_gpu::network::uniform;
use tidegate_gpu::rnn::{Cell, Direction, InputMode, Rnn, Settings};
use tidegate_gpu::weights::{LayerWeights, canonical_to_params, tensors};
use tidegate_model::canonical::Tensor;
use tidegate_model::data::{DataError, read_bytes, read_tensors, write_tensors};
use tidegate_model::output::write_atomically;

const HIDDEN: usize = 5;
/// Output size of the stacks with a projection.
const PROJECTED: usize = 3;
/// Limit of the cell states; it clips about a third of them.
const CLIP: f32 = 0.3;
/// Length of each sequence. They differ, so that padding is tested.
const LENGTHS: [usize; 3] = [6, 4, 1];
/// File with the name of the backend.
const MADE_BY: &str = "made_by.txt";
const PARTS: [&str; 4] = ["params", "outputs", "to_input", "to_params"];

/// A stack with its weights and inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Name in the files: cell, number of layers, direction and kind of input.
    pub name: String,
    /// Settings of the stack.
    pub rnn: Rnn,
    /// Weights of each pseudo-layer.
    pub weights: Vec<LayerWeights>,
    /// Input, `[steps, sequences, input]`.
    pub batch: Batch,
    /// Gradient of the outputs, `[steps, sequences, outputs]`; zero after the end of a sequence.
    pub to_outputs: Vec<f32>,
}

/// A backend's results for a [`Task`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    /// Parameter buffer.
    pub params: Vec<f32>,
    /// Outputs, `[steps, sequences, outputs]`.
    pub outputs: Vec<f32>,
    /// Gradient of the input, `[steps, sequences, input]`.
    pub to_input: Vec<f32>,
    /// Gradient of the parameters, in the order of their buffer.
    pub to_params: Vec<f32>,
}

impl Made {
    /// The four parts in the order of [`PARTS`].
    fn parts(&self) -> [&Vec<f32>; 4] {
        [&self.params, &self.outputs, &self.to_input, &self.to_params]
    }
}

/// Differences between two results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Whether the parameter buffers are equal.
    pub params: bool,
    /// Largest difference of the outputs.
    pub outputs: f32,
    /// Largest difference of the input gradients, relative to the largest of them.
    pub to_input: f32,
    /// Largest difference of the parameter gradients, relative to the largest of them.
    pub to_params: f32,
}

impl Difference {
    /// Largest difference of outputs that passes, in f32.
    pub const MAX_OUTPUTS: f32 = 2e-5;
    /// Largest relative difference of gradients that passes.
    pub const MAX_GRADIENTS: f32 = 1e-3;

    /// Compares `found` with `needed`.
    pub fn between(found: &Made, needed: &Made) -> Self {
        // The lower bound avoids a division by zero where all gradients are zero.
        let gradient = |a: &[f32], b: &[f32]| {
            let largest = farthest(b, &vec![0.0; b.len()]);
            farthest(a, b) / largest.max(1e-3)
        };
        Self {
            params: found.params == needed.params,
            outputs: farthest(&found.outputs, &needed.outputs),
            to_input: gradient(&found.to_input, &needed.to_input),
            to_params: gradient(&found.to_params, &needed.to_params),
        }
    }

    /// The first part that differs too much.
    pub fn failed(&self) -> Option<&'static str> {
        let holds = [
            self.params,
            self.outputs <= Self::MAX_OUTPUTS,
            self.to_input <= Self::MAX_GRADIENTS,
            self.to_params <= Self::MAX_GRADIENTS,
        ];
        // In the order of `PARTS`.
        PARTS.into_iter().zip(holds).find(|(_, holds)| !holds).map(|(part, _)| part)
    }
}

/// The largest difference: infinity if the lengths differ, NaN if a difference is NaN.
fn farthest(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return f32::INFINITY;
    }
    let far = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    far.fold(0.0, |most: f32, far| if far > most || far.is_nan() { far } else { most })
}

/// A backend's results for every task.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Backend, version and device.
    pub made_by: String,
    /// Tasks and results in the order of [`tasks`].
    pub made: Vec<(Task, Made)>,
}

/// All stacks of the matrix: every cell, one to three layers, one and both directions, inputs that are narrower than a
/// layer, as wide or wider, or without input weights, and LSTMs with a projection or a clipped cell state.
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
                    // Only LSTMs have a projection.
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
        fill_padding(&mut rows, &LENGTHS, features, 0.0);
        rows
    };
    let features = rnn.settings().input_size;
    let batch = Batch { data: padded(features), lengths: LENGTHS.to_vec(), features };
    let to_outputs = padded(rnn.output_size() * rnn.settings().direction.count());
    Task { name, rnn, weights, batch, to_outputs }
}

/// The CPU's results for a task, in the described parameter layout.
pub fn on_cpu(task: &Task) -> Made {
    let (layout, stack) = (Layout::described(&task.rnn), Stack::new(&task.rnn));
    let mut params = vec![0.0; layout.params_size()];
    canonical_to_params(&layout, &task.weights, &mut params).expect("the weights of a task fit its stack");
    let (outputs, tape, _) = stack.forward(&params, &task.batch, None, None, None);
    let mut to_params = vec![0.0; params.len()];
    let to_input = stack.backward(&params, &tape, &task.to_outputs, &mut to_params);
    Made { params, outputs: outputs.data, to_input, to_params }
}

/// Writes a recording: one file per cell, and the name of the backend.
pub fn write(folder: &Path, Recording { made_by, made }: &Recording) -> Result<(), DataError> {
    let mut files: BTreeMap<&str, BTreeMap<String, Tensor>> = BTreeMap::new();
    for (task, made) in made {
        let named = PARTS.into_iter().zip(made.parts());
        let tensors = named.map(|(part, data)| {
            (format!("{}.{part}", task.name), Tensor { shape: vec![data.len()], data: data.clone() })
        });
        files.entry(cell(task)).or_default().extend(tensors);
    }
    for (cell, tensors) in &files {
        write_tensors(&file(folder, cell), tensors)?;
    }
    write_atomically(&folder.join(MADE_BY), |out| out.write_all(made_by.as_bytes()))
}

/// Reads a recording. Returns `None` if the folder has none of its files.
pub fn read(folder: &Path) -> Result<Option<Recording>, DataError> {
    let tasks = tasks();
    if !tasks.iter().any(|task| file(folder, cell(task)).exists()) {
        return Ok(None);
    }
    let made_by = String::from_utf8_lossy(&read_bytes(&folder.join(MADE_BY))?).into_owned();
    let mut files: BTreeMap<PathBuf, BTreeMap<String, Tensor>> = BTreeMap::new();
    let mut made = Vec::new();
    for task in tasks {
        let path = file(folder, cell(&task));
        if !files.contains_key(&path) {
            files.insert(path.clone(), read_tensors(&path)?);
        }
        let part = |part: &str| {
            let name = format!("{}.{part}", task.name);
            let tensor = files.get(&path).and_then(|tensors| tensors.get(&name));
            tensor.map(|tensor| tensor.data.clone()).ok_or_else(|| DataError::new(&path, format!("has no {name}")))
        };
        let [params, outputs, to_input, to_params] = PARTS.map(part);
        made.push((task, Made { params: params?, outputs: outputs?, to_input: to_input?, to_params: to_params? }));
    }
    Ok(Some(Recording { made_by, made }))
}

fn cell(task: &Task) -> &str {
    task.name.split('_').next().unwrap_or_default()
}

fn file(folder: &Path, cell: &str) -> PathBuf {
    folder.join(format!("{cell}.safetensors"))
}
