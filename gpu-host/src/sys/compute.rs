//! cuDNN's forward and backward pass over device memory. All buffers are checked here against the sizes that cuDNN
//! uses.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

use cudarc::cudnn::sys::*;
use cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut};

use super::descriptors::forward_mode;
use super::{Cudnn, Element, Handle, Owned, Result, RnnData, RnnDescriptor, Values};
use crate::cpu::longest;
use crate::rnn::Cell;
use crate::status::GpuError;

/// A stack prepared for batches of one shape: cuDNN's descriptors and buffer sizes.
pub struct Plan {
    x: RnnData,
    y: RnnData,
    /// Hidden states of all pseudo-layers, `[pseudo-layers, batch, output]`.
    hidden: Owned<cudnnTensorDescriptor_t>,
    /// Cell states of an LSTM, `[pseudo-layers, batch, hidden]`.
    cell: Option<Owned<cudnnTensorDescriptor_t>>,
    lengths: Vec<i32>,
    /// Number of elements of the larger of the two states.
    state_len: usize,
    training: bool,
    /// Sizes of the weight space, the work space and the reserve.
    bytes: [usize; 3],
    rnn: RnnDescriptor,
    handle: Rc<Handle>,
}

/// Device memory of a batch, without parameters.
pub struct Buffers {
    lengths: CudaSlice<i32>,
    /// Input, `[time, batch, features]`.
    pub(crate) x: Values,
    /// Outputs, `[time, batch, outputs]`.
    pub(crate) y: Values,
    /// Gradient of `x`; a single element for inference.
    pub(crate) to_x: Values,
    /// Gradient of `y`; a single element for inference.
    pub(crate) to_y: Values,
    /// Initial hidden and cell state.
    begins: [Values; 2],
    /// Gradient of the final states. (cuDNN's headers do not say whether null means zero.)
    zeros: Values,
    /// Final hidden and cell state, `[pseudo-layers, batch, size]`; elements after that are undefined. The backward pass
    /// overwrites them with the gradients of the initial states.
    pub(crate) ends: [Values; 2],
    work: CudaSlice<u8>,
    reserve: CudaSlice<u8>,
}

impl Plan {
    /// Prepares for sequences of these lengths, padded to the longest, for training or for inference.
    pub fn new(handle: &Rc<Handle>, rnn: RnnDescriptor, lengths: &[usize], training: bool) -> Result<Self> {
        let (settings, cudnn) = (rnn.rnn.settings(), &rnn.owned.cudnn);
        let (longest, output) = (longest(lengths), rnn.rnn.output_size());
        let x = RnnData::new((cudnn, rnn.element), longest, settings.input_size, lengths)?;
        let y = RnnData::new((cudnn, rnn.element), longest, output * settings.direction.count(), lengths)?;
        let state = |features| packed((cudnn, rnn.element), [rnn.rnn.pseudo_layers(), lengths.len(), features]);
        let hidden = state(output)?;
        let cell = (settings.cell == Cell::Lstm).then(|| state(settings.hidden_size)).transpose()?;
        let [work_bytes, reserve_bytes] = rnn.temp_space_bytes(handle, &x, training)?;
        let weight_bytes = rnn.weight_space_bytes(handle.owned.raw)?;
        let count = |&found: &usize| i32::try_from(found).map_err(|_| GpuError::Count { what: "a length", found });
        let lengths = lengths.iter().map(count).collect::<Result<Vec<_>, _>>()?;
        let state_len = rnn.rnn.pseudo_layers() * lengths.len() * settings.hidden_size;
        let bytes = [weight_bytes, work_bytes, reserve_bytes];
        Ok(Self { x, y, hidden, cell, lengths, state_len, training, bytes, rnn, handle: handle.clone() })
    }

    /// Allocates memory for a batch, all zeros.
    pub fn buffers(&self) -> Result<Buffers> {
        let (handle, [_, work_bytes, reserve_bytes]) = (&self.handle, self.bytes);
        let values = |len| handle.values(self.rnn.element, len);
        // The driver refuses empty allocations.
        let gradient = |len| values(if self.training { len } else { 1 });
        Ok(Buffers {
            lengths: handle.copied(&self.lengths)?,
            x: values(self.x.len)?,
            y: values(self.y.len)?,
            to_x: gradient(self.x.len)?,
            to_y: gradient(self.y.len)?,
            begins: [values(self.state_len)?, values(self.state_len)?],
            zeros: values(self.state_len)?,
            ends: [values(self.state_len)?, values(self.state_len)?],
            work: handle.zeros(work_bytes.max(1))?,
            reserve: handle.zeros(reserve_bytes.max(1))?,
        })
    }

    /// Writes the initial hidden state (0) or cell state (1), `[pseudo-layers, batch, size]`.
    pub fn set_state(&self, buffers: &mut Buffers, which: usize, values: &[f32]) -> Result<()> {
        self.handle.write("the states", values, &mut buffers.begins[which])
    }

    pub fn clear_states(&self, buffers: &mut Buffers) -> Result<()> {
        buffers.begins.iter_mut().try_for_each(|begin| self.handle.clear(begin))
    }

    /// Computes `y` from `x`, and the final states. For training, it stores in `reserve` what
    /// [`backward`](Self::backward) needs.
    pub fn forward(&self, params: &Values, buffers: &mut Buffers) -> Result<()> {
        self.check(params, buffers)?;
        let (mode, [weight_bytes, work_bytes, reserve_bytes]) = (forward_mode(self.training), self.bytes);
        let (rnn, [hidden_end, cell_end]) = (&self.rnn.owned, &mut buffers.ends);
        let (reserve_bytes, reserve) = match self.training {
            true => (reserve_bytes, to_write(&mut buffers.reserve)),
            false => (0, null_mut()),
        };
        // SAFETY: descriptors are alive, and `check` has compared all buffers with their sizes. cuDNN works on the
        // stream of the handle. Buffers are freed on the same stream, thus after that. States are no longer than
        // `state_len`.
        unsafe {
            call! { rnn.cudnn, cudnnRNNForward(
                self.handle.owned.raw, rnn.raw, mode, to_read(&buffers.lengths).cast(),
                self.x.owned.raw, to_read(&buffers.x.bytes), self.y.owned.raw, to_write(&mut buffers.y.bytes),
                self.hidden.raw, to_read(&buffers.begins[0].bytes), to_write(&mut hidden_end.bytes),
                self.cell(), self.of_cell(to_read(&buffers.begins[1].bytes).cast_mut()),
                self.of_cell(to_write(&mut cell_end.bytes)),
                weight_bytes, to_read(&params.bytes),
                work_bytes, to_write(&mut buffers.work), reserve_bytes, reserve,
            ) }
        }
    }

    /// Computes `to_x` from `to_y`, after [`forward`](Self::forward), and adds the gradient of the parameters to
    /// `gradient`.
    pub fn backward(&self, params: &Values, gradient: &mut Values, buffers: &mut Buffers) -> Result<()> {
        if !self.training {
            return Err(GpuError::NotTraining);
        }
        self.check(params, buffers)?;
        let (found, needed) = (gradient.bytes.len(), params.bytes.len());
        self.same("the gradient", &gradient.bytes, needed, found == needed)?;
        let [weight_bytes, work_bytes, reserve_bytes] = self.bytes;
        let (rnn, [hidden_end, cell_end]) = (&self.rnn.owned, &mut buffers.ends);
        // SAFETY: as in `forward`.
        unsafe {
            call! { rnn.cudnn, cudnnRNNBackwardData_v8(
                self.handle.owned.raw, rnn.raw, to_read(&buffers.lengths).cast(),
                self.y.owned.raw, to_read(&buffers.y.bytes), to_read(&buffers.to_y.bytes),
                self.x.owned.raw, to_write(&mut buffers.to_x.bytes),
                self.hidden.raw, to_read(&buffers.begins[0].bytes), to_read(&buffers.zeros.bytes),
                to_write(&mut hidden_end.bytes),
                self.cell(), self.of_cell(to_read(&buffers.begins[1].bytes).cast_mut()),
                self.of_cell(to_read(&buffers.zeros.bytes).cast_mut()), self.of_cell(to_write(&mut cell_end.bytes)),
                weight_bytes, to_read(&params.bytes),
                work_bytes, to_write(&mut buffers.work), reserve_bytes, to_write(&mut buffers.reserve),
            ) }
        }?;
        // SAFETY: as in `forward`. This call must follow `backward_data`, which stores its results in `reserve`.
        unsafe {
            call! { rnn.cudnn, cudnnRNNBackwardWeights_v8(
                self.handle.owned.raw, rnn.raw, cudnnWgradMode_t::CUDNN_WGRAD_MODE_ADD,
                to_read(&buffers.lengths).cast(), self.x.owned.raw, to_read(&buffers.x.bytes),
                self.hidden.raw, to_read(&buffers.begins[0].bytes), self.y.owned.raw, to_read(&buffers.y.bytes),
                weight_bytes, to_write(&mut gradient.bytes),
                work_bytes, to_write(&mut buffers.work), reserve_bytes, to_write(&mut buffers.reserve),
            ) }
        }
    }

    /// The pointer for an LSTM, otherwise null: only an LSTM has a cell state.
    fn of_cell(&self, pointer: *mut c_void) -> *mut c_void {
        if self.cell.is_some() { pointer } else { null_mut() }
    }

    fn cell(&self) -> cudnnTensorDescriptor_t {
        self.cell.as_ref().map_or(null_mut(), |cell| cell.raw)
    }

    /// Checks that all buffers have the sizes that cuDNN was given, and are on its stream.
    fn check(&self, params: &Values, buffers: &Buffers) -> Result<()> {
        let (bytes, [weight_bytes, work_bytes, reserve_bytes]) = (self.rnn.element.bytes(), self.bytes);
        let gradient = |len| if self.training { len } else { 1 };
        let floats = [
            ("the parameters", params, weight_bytes / bytes),
            ("the input", &buffers.x, self.x.len),
            ("the outputs", &buffers.y, self.y.len),
            ("the first hidden state", &buffers.begins[0], self.state_len),
            ("the first cell state", &buffers.begins[1], self.state_len),
            ("the gradient to the states", &buffers.zeros, self.state_len),
            ("the hidden state", &buffers.ends[0], self.state_len),
            ("the cell state", &buffers.ends[1], self.state_len),
            ("the gradient to the input", &buffers.to_x, gradient(self.x.len)),
            ("the gradient to the outputs", &buffers.to_y, gradient(self.y.len)),
        ];
        for (what, values, needed) in floats {
            self.same(what, &values.bytes, bytes * needed, values.bytes.len() == bytes * needed)?;
        }
        for (what, slice, needed) in
            [("the work space", &buffers.work, work_bytes), ("the reserve", &buffers.reserve, reserve_bytes)]
        {
            self.same(what, slice, needed, slice.len() >= needed)?;
        }
        let (slice, needed) = (&buffers.lengths, self.lengths.len());
        self.same("the lengths", slice, needed, slice.len() == needed)
    }

    fn same<T>(&self, what: &'static str, slice: &CudaSlice<T>, needed: usize, fits: bool) -> Result<()> {
        let fits = fits && *slice.stream() == self.handle.stream;
        if fits { Ok(()) } else { Err(GpuError::Buffer { what, found: slice.len(), needed }) }
    }
}

/// Describes a tensor of three dimensions without gaps.
fn packed((cudnn, element): (&Cudnn, Element), dims: [usize; 3]) -> Result<Owned<cudnnTensorDescriptor_t>> {
    let owned = create!(cudnn, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor)?;
    let count = |found: usize| c_int::try_from(found).map_err(|_| GpuError::Count { what: "a state's size", found });
    let [all, rows, cols] = dims;
    let strides = [count(rows * cols)?, count(cols)?, 1];
    let dims = [count(all)?, count(rows)?, count(cols)?];
    // SAFETY: the descriptor is alive; both arrays have three elements, which are copied during the call.
    let set = unsafe {
        call! { cudnn, cudnnSetTensorNdDescriptor(owned.raw, element.data_type(), 3, dims.as_ptr(), strides.as_ptr()) }
    };
    set.map(|()| owned)
}

/// Device address for reading. All memory is on one stream, so no synchronization is needed.
fn to_read<T>(slice: &CudaSlice<T>) -> *const c_void {
    std::ptr::without_provenance(slice.device_ptr(slice.stream()).0 as usize)
}

pub(super) fn to_write<T>(slice: &mut CudaSlice<T>) -> *mut c_void {
    let stream = slice.stream().clone();
    std::ptr::without_provenance_mut(slice.device_ptr_mut(&stream).0 as usize)
}
