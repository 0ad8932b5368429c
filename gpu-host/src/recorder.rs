//! Records what a GPU makes of the [`tasks`], and checks it against the CPU path on the way: the command
//! `tidegate-gpu record`.

use crate::cpu::Batch;
use crate::device::{Algorithm, Device, GpuStack, Math};
use crate::layout::Layout;
use crate::record::{Apart, Made, Recording, Task, on_cpu, tasks};
use crate::status::GpuError;
use crate::weights::{canonical_to_params, params_to_canonical};

/// What came of one task.
pub struct Checked {
    /// Its name.
    pub name: String,
    /// What was made, or why nothing.
    pub made: Result<Found, GpuError>,
}

/// What a device made, and how far from the CPU path that is.
pub struct Found {
    /// Sequences of different lengths, as it is recorded.
    pub apart: Apart,
    /// The same in sequences of the same length, for which there may be a faster algorithm.
    pub even: Apart,
    /// That algorithm.
    pub algorithm: Algorithm,
    /// The largest difference of outputs where nothing is learned.
    pub inference: f32,
    /// Whether weights came out of the device's buffer as they went in.
    pub round_trip: bool,
    /// Whether cuDNN has its parameters where they are described.
    pub as_described: bool,
}

impl Found {
    /// What breaks a bar, if anything does.
    pub fn broken(&self) -> Option<String> {
        let even = || self.even.broken().map(|part| format!("{part} of even sequences"));
        let rest = || match (self.round_trip, self.inference <= Apart::OUTPUTS) {
            (false, _) => Some("round trip".to_owned()),
            (_, false) => Some("outputs of inference".to_owned()),
            (true, true) => None,
        };
        self.apart.broken().map(str::to_owned).or_else(even).or_else(rest)
    }
}

/// Runs every task, tells `each` of it, and gives what was made of those that ran.
pub fn record(device: &Device, mut each: impl FnMut(&Checked)) -> Recording {
    let mut made = Vec::new();
    for task in tasks() {
        let found = run(device, &task);
        let (kept, found) = match found {
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
    let apart = Apart::of(&ordered(&layout, &kept)?, &needed);
    let longest = task.batch.steps();
    let whole = Task {
        batch: Batch { lengths: vec![longest; task.batch.lengths.len()], ..task.batch.clone() },
        ..task.clone()
    };
    let even = Apart::of(&ordered(&layout, &make(&mut stack, &whole)?)?, &on_cpu(&whole));
    let (running, _) = stack.pass(&kept.params, &task.batch, false)?;
    let inference = Apart::of(&Made { outputs: running.data, ..Made::default() }, &needed).outputs;
    let algorithm = stack.batch(&whole.batch.lengths, true, None)?.algorithm();
    let as_described = layout == Layout::described(&task.rnn);
    Ok((kept, Found { apart, even, algorithm, inference, round_trip, as_described }))
}

/// Forward and backward, as the CPU path does it.
fn make(stack: &mut GpuStack, task: &Task) -> Result<Made, GpuError> {
    let mut params = vec![0.0; stack.layout().params_size()];
    canonical_to_params(stack.layout(), &task.weights, &mut params)?;
    let (outputs, mut batch) = stack.pass(&params, &task.batch, true)?;
    let mut to_params = vec![0.0; params.len()];
    let to_input = stack.pass_back(&mut batch, &task.to_outputs, &mut to_params)?;
    Ok(Made { params, outputs: outputs.data, to_input, to_params })
}

/// The same with parameters in the order that is described.
fn ordered(layout: &Layout, made: &Made) -> Result<Made, GpuError> {
    let order = |values: &[f32]| {
        let described = Layout::described(layout.rnn());
        let mut ordered = vec![0.0; described.params_size()];
        canonical_to_params(&described, &params_to_canonical(layout, values)?, &mut ordered)?;
        Ok::<_, GpuError>(ordered)
    };
    Ok(Made { params: order(&made.params)?, to_params: order(&made.to_params)?, ..made.clone() })
}
