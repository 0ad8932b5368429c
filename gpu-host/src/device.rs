//! A GPU and stacks of layers on it: what [`cpu`](crate::cpu) computes, with cuDNN. Parameters, batches and gradients
//! stay on the device until they are read. Nothing is allocated or copied between [`GpuStack::forward`] and
//! [`GpuStack::backward`].

pub mod layers;

use std::rc::Rc;

use cudarc::driver::CudaContext;

use crate::cpu::{States, fill_padding, longest};
use crate::layout::Layout;
use crate::library::{Needed, open};
pub use crate::rnn::Math;
use crate::rnn::{Cell, Rnn};
use crate::status::GpuError;
pub use crate::sys::Algorithm;
use crate::sys::compute::{Buffers, Plan};
use crate::sys::{Cudnn, Element, Handle, RnnDescriptor, Values, failed};
use crate::weights::{LayerWeights, canonical_to_params, params_to_canonical};

/// A GPU of this machine. Clones share it.
#[derive(Clone)]
pub struct Device {
    pub(crate) handle: Rc<Handle>,
    name: Rc<str>,
}

impl Device {
    /// Opens the first GPU.
    ///
    /// # Errors
    /// The errors of [`number`](Self::number).
    pub fn new() -> Result<Self, GpuError> {
        Self::number(0)
    }

    /// Opens the GPU of this number, from 0, on its default stream.
    ///
    /// # Errors
    /// If the driver, the GPU or cuDNN is missing.
    pub fn number(number: usize) -> Result<Self, GpuError> {
        // `cudarc` panics without a driver.
        open(Needed::Driver)?;
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

    /// Version of cuDNN and name of the GPU.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until all pending work is done.
    ///
    /// # Errors
    /// If any of it has failed.
    pub fn wait(&self) -> Result<(), GpuError> {
        self.handle.wait()
    }
}

/// A stack of layers on a GPU, with its parameters and their gradient. Every method fails if the device does.
pub struct GpuStack {
    device: Device,
    math: Math,
    layout: Layout,
    params: Values,
    gradient: Values,
}

/// A batch on a GPU: input, outputs and gradients.
pub struct GpuBatch {
    plan: Plan,
    algorithm: Algorithm,
    lengths: Vec<usize>,
    buffers: Buffers,
}

impl GpuBatch {
    /// The algorithm that runs this batch.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    fn clear_padding(&self, values: &mut [f32]) {
        let steps = longest(&self.lengths);
        fill_padding(values, &self.lengths, values.len() / (steps * self.lengths.len()).max(1), 0.0);
    }
}

/// The fastest known algorithm for a stack and sequences of these lengths. The recurrent weights of small layers fit
/// into registers. Only the standard algorithm supports projections and sequences of different lengths; whether another
/// one supports a clip is not documented. (The sizes are those of PyTorch: `aten/src/ATen/native/cudnn/RNN.cpp`,
/// `use_rnn_persist_small_h`.)
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
    let small = even && plain && settings.hidden_size <= most;
    if small { Algorithm::PersistentSmall } else { Algorithm::Standard }
}

impl GpuStack {
    /// A stack whose parameters are zero.
    ///
    /// # Errors
    /// If cuDNN fails or reports an invalid layout, or the device has too little memory.
    pub fn new(device: &Device, rnn: &Rnn, math: Math) -> Result<Self, GpuError> {
        let handle = device.handle.raw();
        let layout = RnnDescriptor::new(handle, rnn, math, Algorithm::Standard)?.layout(handle.1)?;
        let zeros = || device.handle.values(Element::of(math), layout.params_size());
        let (params, gradient) = (zeros()?, zeros()?);
        Ok(Self { device: device.clone(), math, layout, params, gradient })
    }

    /// Layout of the parameters according to cuDNN.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Writes the parameters by name.
    ///
    /// # Errors
    /// If they do not fit the stack, or the device fails.
    pub fn set_weights(&mut self, weights: &[LayerWeights]) -> Result<(), GpuError> {
        let mut params = vec![0.0; self.layout.params_size()];
        canonical_to_params(&self.layout, weights, &mut params)?;
        self.set_params(&params)
    }

    /// Writes the parameters in cuDNN's layout.
    ///
    /// # Errors
    /// If their number is not the stack's, or the device fails.
    pub fn set_params(&mut self, params: &[f32]) -> Result<(), GpuError> {
        write(&self.device, "the parameters", params, &mut self.params)
    }

    /// Reads the parameters by name.
    pub fn weights(&self) -> Result<Vec<LayerWeights>, GpuError> {
        Ok(params_to_canonical(&self.layout, &self.params()?)?)
    }

    /// Reads the parameters in cuDNN's layout.
    pub fn params(&self) -> Result<Vec<f32>, GpuError> {
        self.device.handle.read(&self.params)
    }

    /// Reads the gradient of the parameters, in cuDNN's layout.
    pub fn gradient(&self) -> Result<Vec<f32>, GpuError> {
        self.device.handle.read(&self.gradient)
    }

    /// Clears the gradient of the parameters.
    pub fn clear_gradient(&mut self) -> Result<(), GpuError> {
        self.device.handle.clear(&mut self.gradient)
    }

    /// Allocates memory, all zeros, for batches with sequences of these lengths, for training or for inference. Without
    /// an `algorithm`, the [`fastest`] one that cuDNN supports is used.
    ///
    /// # Errors
    /// If cuDNN does not support the algorithm, or the device has too little memory.
    pub fn batch(&self, lengths: &[usize], training: bool, algorithm: Option<Algorithm>) -> Result<GpuBatch, GpuError> {
        let handle = &self.device.handle;
        let plan = |algorithm| {
            let descriptor = RnnDescriptor::new(handle.raw(), self.layout.rnn(), self.math, algorithm)?;
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

    /// Writes the input, `[steps, sequences, features]`.
    ///
    /// # Errors
    /// If the number of values is not the batch's, or the device fails.
    pub fn set_input(&self, batch: &mut GpuBatch, input: &[f32]) -> Result<(), GpuError> {
        write(&self.device, "the input", input, &mut batch.buffers.x)
    }

    /// Writes the gradient of the outputs, `[steps, sequences, outputs]`. Values after the end of a sequence are
    /// ignored.
    ///
    /// # Errors
    /// If the number of values is not the batch's, the batch is for inference, or the device fails.
    pub fn set_to_outputs(&self, batch: &mut GpuBatch, gradient: &[f32]) -> Result<(), GpuError> {
        let mut gradient = gradient.to_vec();
        batch.clear_padding(&mut gradient);
        write(&self.device, "the gradient to the outputs", &gradient, &mut batch.buffers.to_y)
    }

    /// Writes the initial states: the final states of another batch with the same sequences, or with these and more
    /// after them; zeros if `None`. They stay until they are written again.
    ///
    /// # Errors
    /// If the states belong to another stack, or the device fails.
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

    /// Reads the final states, after [`forward`](Self::forward) and before [`backward`](Self::backward).
    pub fn states(&self, batch: &GpuBatch) -> Result<States, GpuError> {
        let (rnn, rows) = (self.layout.rnn(), batch.lengths.len());
        let sizes = [rnn.output_size(), rnn.settings().hidden_size].map(|size| rows * size);
        let hidden = self.device.handle.read(&batch.buffers.ends[0])?;
        let hidden = hidden.chunks_exact(sizes[0]).take(rnn.pseudo_layers()).map(<[f32]>::to_vec);
        // Only an LSTM has cell states. For other cells they stay zero, as on the CPU.
        let cell = match rnn.settings().cell {
            Cell::Lstm => self.device.handle.read(&batch.buffers.ends[1])?,
            Cell::Gru | Cell::RnnTanh | Cell::RnnRelu => vec![0.0; rnn.pseudo_layers() * sizes[1]],
        };
        Ok(States(hidden.zip(cell.chunks_exact(sizes[1])).map(|(hidden, cell)| [hidden, cell.to_vec()]).collect()))
    }

    /// Computes the outputs from the input and the [initial states](Self::set_states). Returns before the work is done.
    ///
    /// # Errors
    /// If the batch belongs to another stack, or cuDNN fails.
    pub fn forward(&self, batch: &mut GpuBatch) -> Result<(), GpuError> {
        batch.plan.forward(&self.params, &mut batch.buffers)
    }

    /// Computes the gradient of the input from that of the outputs, after [`forward`](Self::forward), and adds the
    /// gradient of the parameters to the stack's. Returns before the work is done.
    ///
    /// # Errors
    /// If the batch belongs to another stack or is for inference, or cuDNN fails.
    pub fn backward(&mut self, batch: &mut GpuBatch) -> Result<(), GpuError> {
        batch.plan.backward(&self.params, &mut self.gradient, &mut batch.buffers)
    }

    /// Reads the outputs, which are zero after the end of a sequence.
    pub fn outputs(&self, batch: &GpuBatch) -> Result<Vec<f32>, GpuError> {
        self.device.handle.read(&batch.buffers.y)
    }

    /// Reads the gradient of the input, which is zero after the end of a sequence.
    pub fn to_input(&self, batch: &GpuBatch) -> Result<Vec<f32>, GpuError> {
        let mut values = self.device.handle.read(&batch.buffers.to_x)?;
        batch.clear_padding(&mut values);
        Ok(values)
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

    /// PyTorch makes the same choice. It does not depend on the device.
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
