//! A GPU, and stacks of layers on it: what [`cpu`](crate::cpu) does, over cuDNN. Parameters, batches and gradients stay on the
//! device until they are asked for: between [`GpuStack::forward`] and [`GpuStack::backward`] nothing is allocated or copied.

pub mod layers;

use std::rc::Rc;

use cudarc::driver::CudaContext;

use crate::cpu::{Batch, States};
use crate::layout::Layout;
use crate::library::{Needed, open};
pub use crate::rnn::Math;
use crate::rnn::{Cell, Rnn};
use crate::status::GpuError;
pub use crate::sys::Algorithm;
use crate::sys::compute::{Buffers, Plan};
use crate::sys::{Cudnn, Dropout, Handle, RnnDescriptor};
use crate::sys::{Element, Values, failed};
use crate::weights::{LayerWeights, canonical_to_params, params_to_canonical};

/// A GPU of this machine. Clones are the same one.
#[derive(Clone)]
pub struct Device {
    handle: Rc<Handle>,
    name: Rc<str>,
}

impl Device {
    /// Opens the first.
    ///
    /// # Errors
    /// As [`number`](Self::number).
    pub fn new() -> Result<Self, GpuError> {
        Self::number(0)
    }

    /// Opens the GPU of this number, from 0, on its default stream.
    ///
    /// # Errors
    /// If there is no driver, no such GPU or no cuDNN.
    pub fn number(number: usize) -> Result<Self, GpuError> {
        // `cudarc` panics where there is no driver.
        open(Needed::Driver, Needed::Driver.files())?;
        let cudnn = Cudnn::load()?;
        let count = usize::try_from(CudaContext::device_count().map_err(failed("cuDeviceGetCount"))?).unwrap_or(0);
        if number >= count {
            return Err(GpuError::Number { number, count });
        }
        let context = CudaContext::new(number).map_err(failed("cuDevicePrimaryCtxRetain"))?;
        let handle = Handle::new(&cudnn, &context.default_stream())?;
        let version = cudnn.version();
        let [major, minor, patch] = [version / 10_000, version / 100 % 100, version % 100];
        let device = context.name().map_err(failed("cuDeviceGetName"))?;
        let name = format!("cuDNN {major}.{minor}.{patch} on {device}");
        Ok(Self { handle: Rc::new(handle), name: name.into() })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// cuDNN's version and the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until all is computed that was asked for.
    ///
    /// # Errors
    /// If something of it has failed.
    pub fn wait(&self) -> Result<(), GpuError> {
        self.handle.wait()
    }
}

/// A stack of layers on a GPU, with its parameters and the gradient to them.
pub struct GpuStack {
    device: Device,
    math: Math,
    layout: Layout,
    params: Values,
    gradient: Values,
}

/// A batch on a GPU: its input, outputs and gradients.
pub struct GpuBatch {
    plan: Plan,
    algorithm: Algorithm,
    lengths: Vec<usize>,
    buffers: Buffers,
}

impl GpuBatch {
    /// How its steps follow each other.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Sets what lies behind the end of a sequence to zero.
    fn clear_padding(&self, values: &mut [f32]) {
        let steps = self.lengths.iter().copied().max().unwrap_or(0);
        let features = values.len() / (steps * self.lengths.len()).max(1);
        for (at, row) in values.chunks_exact_mut(features.max(1)).enumerate() {
            if at / self.lengths.len() >= self.lengths[at % self.lengths.len()] {
                row.fill(0.0);
            }
        }
    }
}

/// The fastest algorithm known for a stack and sequences of these lengths. Of small layers recurrent weights fit into
/// registers; where sequences end apart, or are projected, only the standard is there, and whether another clips is not said.
/// (The sizes are those by which PyTorch chooses: `aten/src/ATen/native/cudnn/RNN.cpp`, `use_rnn_persist_small_h`.)
pub fn fastest(rnn: &Rnn, lengths: &[usize], training: bool) -> Algorithm {
    let settings = rnn.settings();
    let most = match (settings.cell, training) {
        (Cell::Lstm | Cell::Gru, true) => 128,
        (Cell::Lstm | Cell::Gru, false) => 192,
        (Cell::RnnTanh | Cell::RnnRelu, true) => 256,
        (Cell::RnnTanh | Cell::RnnRelu, false) => 384,
    };
    let even = lengths.windows(2).all(|pair| pair[0] == pair[1]);
    let plain = settings.projected_size.is_none() && settings.cell_clip.is_none();
    match even && plain && settings.hidden_size <= most {
        true => Algorithm::PersistentSmall,
        false => Algorithm::Standard,
    }
}

impl GpuStack {
    /// A stack whose parameters are zero.
    ///
    /// # Errors
    /// If cuDNN refuses, reports a layout that cannot be, or the device has too little memory.
    pub fn new(device: &Device, rnn: &Rnn, math: Math) -> Result<Self, GpuError> {
        let dropout = Dropout::none(&device.handle)?;
        let layout = RnnDescriptor::new(rnn, dropout, math, Algorithm::Standard)?.layout(&device.handle)?;
        let zeros = || device.handle.values(Element::of(math), layout.params_size());
        let (params, gradient) = (zeros()?, zeros()?);
        Ok(Self { device: device.clone(), math, layout, params, gradient })
    }

    /// Where cuDNN has its parameters.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sets the parameters.
    ///
    /// # Errors
    /// If they are not the stack's, or the device fails.
    pub fn set_weights(&mut self, weights: &[LayerWeights]) -> Result<(), GpuError> {
        let mut params = vec![0.0; self.layout.params_size()];
        canonical_to_params(&self.layout, weights, &mut params)?;
        self.set_params(&params)
    }

    /// Sets the parameters, as cuDNN has them.
    ///
    /// # Errors
    /// If there are not as many as the stack has, or the device fails.
    pub fn set_params(&mut self, params: &[f32]) -> Result<(), GpuError> {
        write(&self.device, "the parameters", params, &mut self.params)
    }

    /// The parameters by name.
    ///
    /// # Errors
    /// If the device fails.
    pub fn weights(&self) -> Result<Vec<LayerWeights>, GpuError> {
        Ok(params_to_canonical(&self.layout, &self.params()?)?)
    }

    /// The parameters as cuDNN has them.
    ///
    /// # Errors
    /// If the device fails.
    pub fn params(&self) -> Result<Vec<f32>, GpuError> {
        self.device.handle.read(&self.params)
    }

    /// The gradient to the parameters, in their order.
    ///
    /// # Errors
    /// If the device fails.
    pub fn gradient(&self) -> Result<Vec<f32>, GpuError> {
        self.device.handle.read(&self.gradient)
    }

    /// Sets the gradient to the parameters to zero.
    ///
    /// # Errors
    /// If the device fails.
    pub fn clear_gradient(&mut self) -> Result<(), GpuError> {
        self.device.handle.clear(&mut self.gradient)
    }

    /// Memory for batches with a sequence of each of these lengths, to be run only or to be learned from, all zeros. Without
    /// an `algorithm` it is the [`fastest`] that cuDNN has for it.
    ///
    /// # Errors
    /// If cuDNN lacks the algorithm, or the device has too little memory.
    pub fn batch(&self, lengths: &[usize], training: bool, algorithm: Option<Algorithm>) -> Result<GpuBatch, GpuError> {
        let handle = &self.device.handle;
        let plan = |algorithm| {
            let descriptor = RnnDescriptor::new(self.layout.rnn(), Dropout::none(handle)?, self.math, algorithm)?;
            Plan::new(handle, descriptor, lengths, training)
        };
        let chosen = algorithm.unwrap_or_else(|| fastest(self.layout.rnn(), lengths, training));
        let (plan, algorithm) = match plan(chosen) {
            Err(GpuError::Cudnn { status, .. }) if algorithm.is_none() && status.is_unsupported() => {
                (plan(Algorithm::Standard)?, Algorithm::Standard)
            }
            found => (found?, chosen),
        };
        let buffers = plan.buffers()?;
        Ok(GpuBatch { plan, algorithm, lengths: lengths.to_vec(), buffers })
    }

    /// Sets the input, `[steps, sequences, features]`.
    ///
    /// # Errors
    /// If there are not as many numbers as the batch has, or the device fails.
    pub fn set_input(&self, batch: &mut GpuBatch, input: &[f32]) -> Result<(), GpuError> {
        write(&self.device, "the input", input, &mut batch.buffers.x)
    }

    /// Sets the gradient to the outputs, `[steps, sequences, outputs]`; what lies behind the end of a sequence does not count.
    ///
    /// # Errors
    /// If there are not as many numbers as the batch has, it is not to be learned from, or the device fails.
    pub fn set_to_outputs(&self, batch: &mut GpuBatch, gradient: &[f32]) -> Result<(), GpuError> {
        let mut gradient = gradient.to_vec();
        batch.clear_padding(&mut gradient);
        write(&self.device, "the gradient to the outputs", &gradient, &mut batch.buffers.to_y)
    }

    /// Sets what the sequences begin with: where others have ended, those of the same sequences, or of these and more behind
    /// them; zeros where there are none. It stays until it is set again.
    ///
    /// # Errors
    /// If they are another stack's, or the device fails.
    pub fn set_states(&self, batch: &mut GpuBatch, from: Option<&States>) -> Result<(), GpuError> {
        let (rnn, rows) = (self.layout.rnn(), batch.lengths.len());
        let Some(States(from)) = from else { return batch.plan.clear_states(&mut batch.buffers) };
        for (which, size) in [rnn.output_size(), rnn.settings().hidden_size].into_iter().enumerate() {
            let mut values = Vec::with_capacity(from.len() * rows * size);
            for state in from {
                let (found, needed) = (state[which].len(), rows * size);
                let own = state[which].get(..needed);
                values.extend_from_slice(own.ok_or(GpuError::Buffer { what: "a state", found, needed })?);
            }
            batch.plan.set_state(&mut batch.buffers, which, &values)?;
        }
        Ok(())
    }

    /// What the sequences have ended with, behind [`forward`](Self::forward) and before [`backward`](Self::backward).
    ///
    /// # Errors
    /// If the device fails.
    pub fn states(&self, batch: &GpuBatch) -> Result<States, GpuError> {
        let (rnn, rows) = (self.layout.rnn(), batch.lengths.len());
        let sizes = [rnn.output_size(), rnn.settings().hidden_size].map(|size| rows * size);
        let hidden = self.device.handle.read(batch.buffers.end(0))?;
        let hidden = hidden.chunks_exact(sizes[0]).take(rnn.pseudo_layers()).map(<[f32]>::to_vec);
        // Only an LSTM has cell states; of others they stay zero, as on the CPU.
        let cell = match rnn.settings().cell {
            Cell::Lstm => self.device.handle.read(batch.buffers.end(1))?,
            Cell::Gru | Cell::RnnTanh | Cell::RnnRelu => vec![0.0; rnn.pseudo_layers() * sizes[1]],
        };
        Ok(States(hidden.zip(cell.chunks_exact(sizes[1])).map(|(hidden, cell)| [hidden, cell.to_vec()]).collect()))
    }

    /// From the input to the outputs, from the batch's [states](Self::set_states). Returns before it is done.
    ///
    /// # Errors
    /// If the batch is another stack's, or cuDNN refuses.
    pub fn forward(&self, batch: &mut GpuBatch) -> Result<(), GpuError> {
        batch.plan.forward(&self.params, &mut batch.buffers)
    }

    /// Behind [`forward`](Self::forward), from the gradient to the outputs to that to the input; that to the parameters is
    /// added to the stack's. Returns before it is done.
    ///
    /// # Errors
    /// If the batch is another stack's or not to be learned from, or cuDNN refuses.
    pub fn backward(&mut self, batch: &mut GpuBatch) -> Result<(), GpuError> {
        batch.plan.backward(&self.params, &mut self.gradient, &mut batch.buffers)
    }

    /// The outputs, zeros behind the end of a sequence.
    ///
    /// # Errors
    /// If the device fails.
    pub fn outputs(&self, batch: &GpuBatch) -> Result<Vec<f32>, GpuError> {
        self.device.handle.read(&batch.buffers.y)
    }

    /// The gradient to the input, zeros behind the end of a sequence.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_input(&self, batch: &GpuBatch) -> Result<Vec<f32>, GpuError> {
        let mut values = self.device.handle.read(&batch.buffers.to_x)?;
        batch.clear_padding(&mut values);
        Ok(values)
    }

    /// As [`Stack::forward`](crate::cpu::Stack::forward) from zero states, of parameters in the order of
    /// [`layout`](Self::layout); the second is what [`pass_back`](Self::pass_back) needs.
    ///
    /// # Errors
    /// If sizes differ, or the device fails.
    pub fn pass(&mut self, params: &[f32], batch: &Batch, training: bool) -> Result<(Batch, GpuBatch), GpuError> {
        self.set_params(params)?;
        let mut on_device = self.batch(&batch.lengths, training, None)?;
        self.set_input(&mut on_device, &batch.data)?;
        self.forward(&mut on_device)?;
        let settings = self.layout.rnn().settings();
        let features = self.layout.rnn().output_size() * settings.direction.count();
        let data = self.outputs(&on_device)?;
        Ok((Batch { data, lengths: batch.lengths.clone(), features }, on_device))
    }

    /// As [`Stack::backward`](crate::cpu::Stack::backward), behind [`pass`](Self::pass) with the same parameters.
    ///
    /// # Errors
    /// If sizes differ, nothing was kept, or the device fails.
    pub fn pass_back(
        &mut self,
        batch: &mut GpuBatch,
        to_outputs: &[f32],
        into: &mut [f32],
    ) -> Result<Vec<f32>, GpuError> {
        let (what, found, needed) = ("the gradient", into.len(), self.gradient.len());
        if found != needed {
            return Err(GpuError::Buffer { what, found, needed });
        }
        self.set_to_outputs(batch, to_outputs)?;
        self.clear_gradient()?;
        self.backward(batch)?;
        crate::cpu::add(into, &self.gradient()?);
        self.to_input(batch)
    }
}

fn write(device: &Device, what: &'static str, values: &[f32], to: &mut Values) -> Result<(), GpuError> {
    let (found, needed) = (values.len(), to.len());
    if found != needed {
        return Err(GpuError::Buffer { what, found, needed });
    }
    device.handle.write(what, values, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rnn::Settings;

    /// As PyTorch chooses: a device has nothing to say here.
    #[test]
    fn small_layers_of_even_sequences_stay_in_registers() {
        let stack = |cell, hidden_size, projected_size| {
            Rnn::new(Settings { projected_size, ..Settings::new(cell, 3, hidden_size) }).unwrap()
        };
        let chosen = |cell, hidden, lengths: &[usize], training| fastest(&stack(cell, hidden, None), lengths, training);
        assert_eq!(chosen(Cell::Lstm, 128, &[9, 9], true), Algorithm::PersistentSmall);
        assert_eq!(chosen(Cell::Lstm, 129, &[9, 9], true), Algorithm::Standard);
        assert_eq!(chosen(Cell::Lstm, 129, &[9, 9], false), Algorithm::PersistentSmall);
        assert_eq!(chosen(Cell::RnnRelu, 256, &[9], true), Algorithm::PersistentSmall);
        assert_eq!(chosen(Cell::Gru, 32, &[9, 8], true), Algorithm::Standard);
        assert_eq!(fastest(&stack(Cell::Lstm, 32, Some(8)), &[9], true), Algorithm::Standard);
    }

    #[test]
    fn without_a_device_there_is_a_reason() {
        match Device::new() {
            Ok(device) => println!("{}", device.name()),
            Err(error) => {
                println!("SKIP no GPU: {error}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
}
