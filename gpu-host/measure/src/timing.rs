//! Times a forward pass and a training step on a GPU: the command `time`.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::SeedableRng;
use serde_json::{Value, json};
use tidegate_gpu::device::{Algorithm, Device, GpuBatch, GpuStack, Math};
use tidegate_gpu::layout::Layout;
use tidegate_gpu::network::uniform;
use tidegate_gpu::rnn::{Cell, Direction, Rnn, RnnError, Settings};
use tidegate_gpu::status::GpuError;
use tidegate_gpu::weights::{canonical_to_params, params_to_canonical};
use tidegate_model::canonical::Tensor;
use tidegate_model::data::{DataError, read_tensors, write_tensors};

/// Sizes that are timed: batch, steps, input size and hidden size.
const SIZES: [[usize; 4]; 4] = [[1, 70, 512, 512], [64, 1000, 256, 126], [64, 1000, 256, 128], [128, 28, 28, 32]];
const DIRECTIONS: [Direction; 2] = [Direction::Unidirectional, Direction::Bidirectional];
/// Calls before the first timed one: the first call of each mode loads kernels.
const WARM: usize = 3;
/// Shortest duration of a round, so that reading the clock and synchronizing take little of it.
const ROUND_MS: f64 = 20.0;
const ROUNDS: usize = 15;

/// A stack of LSTM layers and the size of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Batch, steps, input size and hidden size.
    pub sizes: [usize; 4],
    /// Number of layers.
    pub layers: usize,
    /// One or both directions.
    pub direction: Direction,
    /// Precision of products.
    pub math: Math,
}

impl Shape {
    /// All shapes that are timed.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for math in [Math::F32, Math::Tf32] {
            for sizes in SIZES {
                for layers in [1, 2] {
                    for direction in DIRECTIONS {
                        all.push(Self { sizes, layers, direction, math });
                    }
                }
            }
        }
        all
    }

    /// Parses seven words: batch, steps, input size, hidden size, layers, directions and `f32`, `tf32` or `bf16`.
    fn parse(words: &[&str]) -> Option<Self> {
        let [batch, steps, input, hidden, layers, directions, math] = words else { return None };
        let number = |word: &&str| word.parse::<usize>().ok().filter(|&number| number > 0);
        Some(Self {
            sizes: [number(batch)?, number(steps)?, number(input)?, number(hidden)?],
            layers: number(layers)?,
            direction: DIRECTIONS.into_iter().find(|direction| direction.count().to_string() == *directions)?,
            math: Math::ALL.into_iter().find(|known| known.name() == *math)?,
        })
    }

    fn rnn(&self) -> Result<Rnn, RnnError> {
        let [_, _, input_size, hidden_size] = self.sizes;
        let (layers, direction) = (self.layers, self.direction);
        Rnn::new(Settings { layers, direction, ..Settings::new(Cell::Lstm, input_size, hidden_size) })
    }
}

/// The operation that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forward pass for inference.
    Forward,
    /// Clearing the gradient, forward pass, and backward pass to the input and the parameters.
    Training,
}

impl Mode {
    /// Both modes.
    pub const ALL: [Self; 2] = [Self::Forward, Self::Training];

    /// Name in reports and requests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Training => "training",
        }
    }
}

/// Why timing failed.
#[derive(Debug, thiserror::Error)]
pub enum TimeError {
    /// The device failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// cuDNN has no such stack.
    #[error(transparent)]
    Rnn(#[from] RnnError),
    /// A request cannot be parsed.
    #[error(
        "cannot parse request {0:?}: expected run|check BATCH STEPS INPUT HIDDEN LAYERS DIRECTIONS f32|tf32|bf16, \
         then forward|training CALLS or IN OUT"
    )]
    Request(String),
    /// Standard input or output failed.
    #[error("standard input or output: {0}")]
    Io(#[from] std::io::Error),
}

/// A stack on the device and its batches, one for each mode.
struct Ready<'d> {
    device: &'d Device,
    shape: Shape,
    stack: GpuStack,
    batches: [GpuBatch; 2],
}

impl<'d> Ready<'d> {
    fn new(device: &'d Device, shape: Shape, algorithm: Option<Algorithm>) -> Result<Self, TimeError> {
        let rnn = shape.rnn()?;
        let mut stack = GpuStack::new(device, &rnn, shape.math)?;
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut numbers =
            |len: usize, reach: f32| (0..len).map(|_| (2.0 * uniform(&mut random) - 1.0) * reach).collect::<Vec<f32>>();
        let described = Layout::described(&rnn);
        let [batch, steps, input, hidden] = shape.sizes;
        let params = numbers(described.params_size(), 1.0 / (hidden as f32).sqrt());
        stack.set_weights(&params_to_canonical(&described, &params).map_err(GpuError::from)?)?;
        let lengths = vec![steps; batch];
        let mut batches = [stack.batch(&lengths, false, algorithm)?, stack.batch(&lengths, true, algorithm)?];
        let x = numbers(steps * batch * input, 1.0);
        for batch in &mut batches {
            stack.set_input(batch, &x)?;
        }
        stack.set_to_outputs(&mut batches[1], &numbers(steps * batch * hidden * shape.direction.count(), 1.0))?;
        let mut ready = Self { device, shape, stack, batches };
        for mode in Mode::ALL {
            ready.run(mode, WARM)?;
        }
        Ok(ready)
    }

    fn call(&mut self, mode: Mode) -> Result<(), GpuError> {
        let [running, learning] = &mut self.batches;
        if mode == Mode::Forward {
            return self.stack.forward(running);
        }
        self.stack.clear_gradient()?;
        self.stack.forward(learning)?;
        self.stack.backward(learning)
    }

    /// Runs `calls` calls and returns the milliseconds that one takes.
    fn run(&mut self, mode: Mode, calls: usize) -> Result<f64, GpuError> {
        self.device.wait()?;
        let started = Instant::now();
        for _ in 0..calls {
            self.call(mode)?;
        }
        self.device.wait()?;
        Ok(started.elapsed().as_secs_f64() * 1e3 / calls as f64)
    }

    /// Reads `params` (in the [described](Layout::described) layout), `x` and `to_outputs` from a file and writes
    /// `outputs`, `to_input` and `to_params` of a training step and `inference`, the outputs of a forward pass for
    /// inference.
    fn check(&mut self, from: &Path, to: &Path) -> Result<(), TimeError> {
        let tensors = read_tensors(from)?;
        let tensor = |name: &str| {
            let tensor = tensors.get(name).map(|tensor| tensor.data.as_slice());
            tensor.ok_or_else(|| DataError::new(from, format!("has no {name}")))
        };
        let described = Layout::described(self.stack.layout().rnn());
        self.stack.set_weights(&params_to_canonical(&described, tensor("params")?).map_err(GpuError::from)?)?;
        let [running, learning] = &mut self.batches;
        self.stack.set_input(running, tensor("x")?)?;
        self.stack.set_input(learning, tensor("x")?)?;
        self.stack.set_to_outputs(learning, tensor("to_outputs")?)?;
        Mode::ALL.into_iter().try_for_each(|mode| self.call(mode))?;
        let [running, learning] = &self.batches;
        let gradient = params_to_canonical(self.stack.layout(), &self.stack.gradient()?).map_err(GpuError::from)?;
        let mut to_params = vec![0.0; described.params_size()];
        canonical_to_params(&described, &gradient, &mut to_params).map_err(GpuError::from)?;
        let flat = |data: Vec<f32>| Tensor { shape: vec![data.len()], data };
        let made = [
            ("inference", self.stack.outputs(running)?),
            ("outputs", self.stack.outputs(learning)?),
            ("to_input", self.stack.to_input(learning)?),
            ("to_params", to_params),
        ];
        let made = made.into_iter().map(|(name, data)| (name.to_owned(), flat(data))).collect();
        Ok(write_tensors(to, &made)?)
    }
}

/// Times every shape and returns medians of synchronized rounds. Calls `done` after each shape. With `algorithms` it
/// times every algorithm that cuDNN has for the shape, otherwise the one that training uses.
pub fn time(device: &Device, algorithms: bool, mut done: impl FnMut()) -> Result<Value, TimeError> {
    let mut runs = Vec::new();
    let wanted = if algorithms { Algorithm::ALL.map(Some).to_vec() } else { vec![None] };
    for shape in Shape::all() {
        for algorithm in &wanted {
            match Ready::new(device, shape, *algorithm) {
                Ok(mut ready) => {
                    for mode in Mode::ALL {
                        runs.push(timed(&mut ready, mode)?);
                    }
                }
                // cuDNN lacks this algorithm for this shape.
                Err(TimeError::Gpu(GpuError::Cudnn { status, .. })) if algorithms && status.is_unsupported() => {}
                Err(error) => return Err(error),
            }
        }
        done();
    }
    Ok(json!({ "made_by": device.name(), "rounds": ROUNDS, "runs": runs }))
}

fn timed(ready: &mut Ready<'_>, mode: Mode) -> Result<Value, GpuError> {
    let calls = (ROUND_MS / ready.run(mode, 1)?).ceil().clamp(1.0, 1000.0) as usize;
    let mut rounds = (0..ROUNDS).map(|_| ready.run(mode, calls)).collect::<Result<Vec<f64>, _>>()?;
    rounds.sort_by(f64::total_cmp);
    let Shape { sizes: [batch, steps, input, hidden], layers, direction, math } = ready.shape;
    Ok(json!({
        "batch": batch,
        "steps": steps,
        "input": input,
        "hidden": hidden,
        "layers": layers,
        "directions": direction.count(),
        "math": math.name(),
        "mode": mode.name(),
        "algorithm": ready.batches[mode as usize].algorithm().name(),
        "calls": calls,
        "median_ms": rounds[ROUNDS / 2],
        "min_ms": rounds[0],
    }))
}

/// Answers requests from `input`, one line each, so that another program can take turns on the same device:
///
/// | request | answer |
/// |---|---|
/// | `run BATCH STEPS INPUT HIDDEN LAYERS DIRECTIONS f32\|tf32\|bf16 forward\|training CALLS` | milliseconds that one call takes |
/// | `check BATCH STEPS INPUT HIDDEN LAYERS DIRECTIONS f32\|tf32\|bf16 IN OUT` | the algorithms of both modes |
///
/// The last shape stays on the device. A request that fails is answered with `error: ` and the reason.
pub fn serve(device: &Device, input: impl BufRead, mut output: impl Write) -> Result<(), TimeError> {
    let mut ready: Option<Ready<'_>> = None;
    for line in input.lines() {
        match answer(device, &mut ready, &line?) {
            Ok(answer) => writeln!(output, "{answer}")?,
            Err(error) => writeln!(output, "error: {error}")?,
        }
        output.flush()?;
    }
    Ok(())
}

fn answer<'d>(device: &'d Device, kept: &mut Option<Ready<'d>>, line: &str) -> Result<String, TimeError> {
    let refuse = || TimeError::Request(line.to_owned());
    let words: Vec<&str> = line.split_whitespace().collect();
    let [verb, shape @ .., a, b] = words.as_slice() else { return Err(refuse()) };
    let shape = Shape::parse(shape).ok_or_else(refuse)?;
    let ready = match kept.take() {
        Some(ready) if ready.shape == shape => kept.insert(ready),
        before => {
            // Free the memory of the previous stack first.
            drop(before);
            kept.insert(Ready::new(device, shape, None)?)
        }
    };
    match *verb {
        "run" => {
            let mode = Mode::ALL.into_iter().find(|mode| mode.name() == *a).ok_or_else(refuse)?;
            let calls = b.parse().ok().filter(|calls| (1..=1_000_000).contains(calls)).ok_or_else(refuse)?;
            Ok(ready.run(mode, calls)?.to_string())
        }
        "check" => {
            ready.check(Path::new(a), Path::new(b))?;
            let [running, learning] = &ready.batches;
            Ok(format!("{} {}", running.algorithm().name(), learning.algorithm().name()))
        }
        _ => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_parsed_from_seven_words() {
        let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
        let shape = Shape::parse(&words("1 70 512 512 2 2 tf32")).unwrap();
        let (direction, math) = (Direction::Bidirectional, Math::Tf32);
        assert_eq!(shape, Shape { sizes: SIZES[0], layers: 2, direction, math });
        assert_eq!(shape.rnn().unwrap().pseudo_layers(), 4);
        assert!(Shape::all().contains(&shape) && Shape::all().len() == 4 * 2 * 2 * 2);
        for wrong in ["1 70 512 512 2 3 tf32", "0 70 512 512 2 2 f32", "1 70 512 512 2 2", "1 70 512 512 2 2 f64"] {
            assert_eq!(Shape::parse(&words(wrong)), None, "{wrong}");
        }
    }
}
