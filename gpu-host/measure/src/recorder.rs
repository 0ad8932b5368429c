//! Runs every [task](tasks) on a GPU and compares the result with the CPU: the command `record`.

use tidegate_gpu::cpu::Batch;
use tidegate_gpu::device::{Algorithm, Device, GpuBatch, GpuStack, Math};
use tidegate_gpu::layout::Layout;
use tidegate_gpu::status::GpuError;
use tidegate_gpu::weights::{canonical_to_params, params_to_canonical};

use crate::record::{Difference, Made, Recording, Task, on_cpu, tasks};

/// The outcome of one task.
pub struct Checked {
    /// Name of the task.
    pub name: String,
    /// The comparison with the CPU, or why the stack did not run.
    pub made: Result<Found, GpuError>,
}

/// How a device's results for one task compare with the CPU's.
pub struct Found {
    /// Differences for sequences of different lengths, which are the ones recorded.
    pub difference: Difference,
    /// Differences for sequences of equal length, for which cuDNN may have a faster algorithm.
    pub even: Difference,
    /// The algorithm used for sequences of equal length.
    pub algorithm: Algorithm,
    /// Largest difference of the outputs in inference mode.
    pub inference: f32,
    /// Whether the weights read back from the device equal those written.
    pub round_trip: bool,
    /// Whether cuDNN's parameter layout is the described one.
    pub as_described: bool,
}

impl Found {
    /// The first check that failed.
    pub fn failed(&self) -> Option<String> {
        let even = || self.even.failed().map(|part| format!("{part} of sequences of equal length"));
        let rest = || match (self.round_trip, self.inference <= Difference::MAX_OUTPUTS) {
            (false, _) => Some("round trip of the weights".to_owned()),
            (_, false) => Some("outputs of inference".to_owned()),
            (true, true) => None,
        };
        self.difference.failed().map(str::to_owned).or_else(even).or_else(rest)
    }
}

/// Runs every task, reports each to `each`, and returns the results of those that ran.
pub fn record(device: &Device, mut each: impl FnMut(&Checked)) -> Recording {
    let mut made = Vec::new();
    for task in tasks() {
        let (kept, found) = match run(device, &task) {
            Ok((kept, found)) => (Some(kept), Ok(found)),
            Err(error) => (None, Err(error)),
        };
        each(&Checked { name: task.name.clone(), made: found });
        made.extend(kept.map(|kept| (task, kept)));
    }
    Recording { made_by: device.name().to_owned(), made }
}

fn run(device: &Device, task: &Task) -> Result<(Made, Found), GpuError> {
    let mut stack = GpuStack::new(device, &task.rnn, Math::F32)?;
    stack.set_weights(&task.weights)?;
    let round_trip = stack.weights()? == task.weights;
    let layout = stack.layout().clone();
    let kept = make(&mut stack, task)?;
    let needed = on_cpu(task);
    let difference = Difference::between(&ordered(&layout, &kept)?, &needed);
    let longest = task.batch.steps();
    let whole = Task {
        batch: Batch { lengths: vec![longest; task.batch.lengths.len()], ..task.batch.clone() },
        ..task.clone()
    };
    let even = Difference::between(&ordered(&layout, &make(&mut stack, &whole)?)?, &on_cpu(&whole));
    let running = forward(&mut stack, &kept.params, &task.batch, false)?;
    let outputs = stack.outputs(&running)?;
    let inference = Difference::between(&Made { outputs, ..Made::default() }, &needed).outputs;
    let algorithm = stack.batch(&whole.batch.lengths, true, None)?.algorithm();
    let as_described = layout == Layout::described(&task.rnn);
    Ok((kept, Found { difference, even, algorithm, inference, round_trip, as_described }))
}

/// Copies parameters and inputs to the device and runs the forward pass.
fn forward(stack: &mut GpuStack, params: &[f32], batch: &Batch, training: bool) -> Result<GpuBatch, GpuError> {
    stack.set_params(params)?;
    let mut on_device = stack.batch(&batch.lengths, training, None)?;
    stack.set_input(&mut on_device, &batch.data)?;
    stack.forward(&mut on_device)?;
    Ok(on_device)
}

fn make(stack: &mut GpuStack, task: &Task) -> Result<Made, GpuError> {
    let mut params = vec![0.0; stack.layout().params_size()];
    canonical_to_params(stack.layout(), &task.weights, &mut params)?;
    let mut batch = forward(stack, &params, &task.batch, true)?;
    let outputs = stack.outputs(&batch)?;
    stack.set_to_outputs(&mut batch, &task.to_outputs)?;
    stack.clear_gradient()?;
    stack.backward(&mut batch)?;
    Ok(Made { params, outputs, to_input: stack.to_input(&batch)?, to_params: stack.gradient()? })
}

/// The same results with the parameters and their gradients in the described layout.
fn ordered(layout: &Layout, made: &Made) -> Result<Made, GpuError> {
    let order = |values: &[f32]| {
        let described = Layout::described(layout.rnn());
        let mut ordered = vec![0.0; described.params_size()];
        canonical_to_params(&described, &params_to_canonical(layout, values)?, &mut ordered)?;
        Ok::<_, GpuError>(ordered)
    };
    Ok(Made { params: order(&made.params)?, to_params: order(&made.to_params)?, ..made.clone() })
}
