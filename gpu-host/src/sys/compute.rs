//! cuDNN forward and backward over memory of the device. Every buffer is checked here against what cuDNN will touch.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

use cudarc::cudnn::sys::{
    cudnnForwardMode_t, cudnnHandle_t, cudnnRNNDataDescriptor_t, cudnnRNNDescriptor_t, cudnnTensorDescriptor_t,
    cudnnWgradMode_t,
};
use cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut};

use super::{Cudnn, Element, Handle, Owned, RnnData, RnnDescriptor, Values};
use crate::rnn::Cell;
use crate::status::{GpuError, Status};

pub(super) type RnnForward = unsafe extern "C" fn(
    cudnnHandle_t,
    cudnnRNNDescriptor_t,
    cudnnForwardMode_t,
    *const i32,
    cudnnRNNDataDescriptor_t,
    *const c_void,
    cudnnRNNDataDescriptor_t,
    *mut c_void,
    cudnnTensorDescriptor_t,
    *const c_void,
    *mut c_void,
    cudnnTensorDescriptor_t,
    *const c_void,
    *mut c_void,
    usize,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *mut c_void,
) -> Status;
pub(super) type RnnBackwardData = unsafe extern "C" fn(
    cudnnHandle_t,
    cudnnRNNDescriptor_t,
    *const i32,
    cudnnRNNDataDescriptor_t,
    *const c_void,
    *const c_void,
    cudnnRNNDataDescriptor_t,
    *mut c_void,
    cudnnTensorDescriptor_t,
    *const c_void,
    *const c_void,
    *mut c_void,
    cudnnTensorDescriptor_t,
    *const c_void,
    *const c_void,
    *mut c_void,
    usize,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *mut c_void,
) -> Status;
pub(super) type RnnBackwardWeights = unsafe extern "C" fn(
    cudnnHandle_t,
    cudnnRNNDescriptor_t,
    cudnnWgradMode_t,
    *const i32,
    cudnnRNNDataDescriptor_t,
    *const c_void,
    cudnnTensorDescriptor_t,
    *const c_void,
    cudnnRNNDataDescriptor_t,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *mut c_void,
    usize,
    *mut c_void,
) -> Status;

/// A stack for batches of one shape: what cuDNN is told, and the memory that it needs.
pub struct Plan {
    x: RnnData,
    y: RnnData,
    /// States of all pseudo-layers, `[pseudo-layers, batch, output]`.
    hidden: Owned<cudnnTensorDescriptor_t>,
    /// Of an LSTM, `[pseudo-layers, batch, hidden]`.
    cell: Option<Owned<cudnnTensorDescriptor_t>>,
    lengths: Vec<i32>,
    /// Numbers of the larger of the two states.
    state_len: usize,
    training: bool,
    weight_bytes: usize,
    work_bytes: usize,
    reserve_bytes: usize,
    rnn: RnnDescriptor,
    handle: Rc<Handle>,
}

/// What a batch has on the device, beside its parameters.
pub struct Buffers {
    lengths: CudaSlice<i32>,
    /// `[time, batch, features]`
    pub(crate) x: Values,
    /// `[time, batch, outputs]`
    pub(crate) y: Values,
    /// The gradient to `x`; of one number where nothing is learned.
    pub(crate) to_x: Values,
    /// The gradient to `y`, likewise.
    pub(crate) to_y: Values,
    /// What they begin with: hidden and cell state.
    begins: [Values; 2],
    /// The gradient to what sequences end with. (That null means the same cuDNN's headers do not say.)
    zeros: Values,
    /// What they end with and the gradient to what they begin with, which nobody reads: hidden and cell state.
    ends: [Values; 2],
    work: CudaSlice<u8>,
    reserve: CudaSlice<u8>,
}

impl Buffers {
    /// The hidden state (0) or the cell state (1) that the sequences have ended with, `[pseudo-layers, batch, size]`; what is
    /// behind that has no meaning.
    pub(crate) const fn end(&self, which: usize) -> &Values {
        &self.ends[which]
    }
}

impl Plan {
    /// For a sequence of each of these lengths, padded to the longest, to be run only or to be learned from.
    ///
    /// # Errors
    /// If a length is zero, or cuDNN refuses: not every algorithm runs everything.
    pub fn new(handle: &Rc<Handle>, rnn: RnnDescriptor, lengths: &[usize], training: bool) -> Result<Self, GpuError> {
        let (settings, cudnn) = (rnn.rnn.settings(), &rnn.owned.cudnn);
        let (longest, output) = (lengths.iter().copied().max().unwrap_or(0), rnn.rnn.output_size());
        let x = RnnData::new((cudnn, rnn.element), longest, settings.input_size, lengths)?;
        let y = RnnData::new((cudnn, rnn.element), longest, output * settings.direction.count(), lengths)?;
        let state = |features| packed((cudnn, rnn.element), [rnn.rnn.pseudo_layers(), lengths.len(), features]);
        let hidden = state(output)?;
        let cell = (settings.cell == Cell::Lstm).then(|| state(settings.hidden_size)).transpose()?;
        let (work_bytes, reserve_bytes) = rnn.temp_space_bytes(handle, &x, training)?;
        let weight_bytes = rnn.weight_space_bytes(handle)?;
        let count = |&found: &usize| i32::try_from(found).map_err(|_| GpuError::Count { what: "a length", found });
        let lengths = lengths.iter().map(count).collect::<Result<_, _>>()?;
        let (handle, state_len) = (handle.clone(), rnn.rnn.pseudo_layers() * x.sequences() * settings.hidden_size);
        Ok(Self {
            x,
            y,
            hidden,
            cell,
            lengths,
            state_len,
            training,
            weight_bytes,
            work_bytes,
            reserve_bytes,
            rnn,
            handle,
        })
    }

    /// Numbers of the input, `[time, batch, features]`.
    pub const fn input_len(&self) -> usize {
        self.x.len()
    }

    /// Numbers of the outputs, `[time, batch, outputs]`.
    pub const fn output_len(&self) -> usize {
        self.y.len()
    }

    /// Memory for a batch, all zeros.
    ///
    /// # Errors
    /// If the device has too little.
    pub fn buffers(&self) -> Result<Buffers, GpuError> {
        let handle = &self.handle;
        let values = |len| handle.values(self.rnn.element, len);
        // An allocation has at least one element: the driver refuses none.
        let gradient = |len| values(if self.training { len } else { 1 });
        Ok(Buffers {
            lengths: handle.copied(&self.lengths)?,
            x: values(self.input_len())?,
            y: values(self.output_len())?,
            to_x: gradient(self.input_len())?,
            to_y: gradient(self.output_len())?,
            begins: [values(self.state_len)?, values(self.state_len)?],
            zeros: values(self.state_len)?,
            ends: [values(self.state_len)?, values(self.state_len)?],
            work: handle.zeros(self.work_bytes.max(1))?,
            reserve: handle.zeros(self.reserve_bytes.max(1))?,
        })
    }

    /// Sets what the sequences begin with, the hidden state (0) or the cell state (1): `[pseudo-layers, batch, size]`.
    ///
    /// # Errors
    /// If there are more numbers than states, or the device fails.
    pub fn set_state(&self, buffers: &mut Buffers, which: usize, values: &[f32]) -> Result<(), GpuError> {
        self.handle.write("the states", values, &mut buffers.begins[which])
    }

    /// The sequences begin with zeros.
    ///
    /// # Errors
    /// If the device fails.
    pub fn clear_states(&self, buffers: &mut Buffers) -> Result<(), GpuError> {
        buffers.begins.iter_mut().try_for_each(|begin| self.handle.clear(begin))
    }

    /// `y` of `x`, and what the sequences end with. While learning, `reserve` keeps what [`backward`](Self::backward) needs.
    ///
    /// # Errors
    /// If the parameters or buffers are others than the plan's, or cuDNN refuses.
    pub fn forward(&self, params: &Values, buffers: &mut Buffers) -> Result<(), GpuError> {
        self.check(params, buffers)?;
        let mode = match self.training {
            true => cudnnForwardMode_t::CUDNN_FWD_MODE_TRAINING,
            false => cudnnForwardMode_t::CUDNN_FWD_MODE_INFERENCE,
        };
        let [hidden_end, cell_end] = &mut buffers.ends;
        let reserve = if self.training { to_write(&mut buffers.reserve) } else { null_mut() };
        // SAFETY: descriptors are alive, and buffers have been checked to be as long as these say. cuDNN computes on the
        // stream of the handle, on which buffers are freed too: only behind it. States are no longer than `state_len`.
        unsafe {
            (self.rnn.owned.cudnn.0.forward)(
                self.handle.owned.raw,
                self.rnn.owned.raw,
                mode,
                to_read(&buffers.lengths).cast(),
                self.x.owned.raw,
                to_read(&buffers.x.bytes),
                self.y.owned.raw,
                to_write(&mut buffers.y.bytes),
                self.hidden.raw,
                to_read(&buffers.begins[0].bytes),
                to_write(&mut hidden_end.bytes),
                self.cell(),
                self.of_cell(to_read(&buffers.begins[1].bytes).cast_mut()),
                self.of_cell(to_write(&mut cell_end.bytes)),
                self.weight_bytes,
                to_read(&params.bytes),
                self.work_bytes,
                to_write(&mut buffers.work),
                if self.training { self.reserve_bytes } else { 0 },
                reserve,
            )
        }
        .of("cudnnRNNForward")
    }

    /// Behind [`forward`](Self::forward): `to_x` of `to_y`; the gradient to the parameters is added to `gradient`.
    ///
    /// # Errors
    /// If the plan is not one to learn with, parameters, gradient or buffers are others than the plan's, or cuDNN refuses.
    pub fn backward(&self, params: &Values, gradient: &mut Values, buffers: &mut Buffers) -> Result<(), GpuError> {
        if !self.training {
            return Err(GpuError::NotTraining);
        }
        self.check(params, buffers)?;
        let (found, needed) = (gradient.bytes.len(), params.bytes.len());
        self.same("the gradient", &gradient.bytes, needed, found == needed)?;
        let functions = &self.rnn.owned.cudnn.0;
        let [hidden_end, cell_end] = &mut buffers.ends;
        // SAFETY: as above.
        unsafe {
            (functions.backward_data)(
                self.handle.owned.raw,
                self.rnn.owned.raw,
                to_read(&buffers.lengths).cast(),
                self.y.owned.raw,
                to_read(&buffers.y.bytes),
                to_read(&buffers.to_y.bytes),
                self.x.owned.raw,
                to_write(&mut buffers.to_x.bytes),
                self.hidden.raw,
                to_read(&buffers.begins[0].bytes),
                to_read(&buffers.zeros.bytes),
                to_write(&mut hidden_end.bytes),
                self.cell(),
                self.of_cell(to_read(&buffers.begins[1].bytes).cast_mut()),
                self.of_cell(to_read(&buffers.zeros.bytes).cast_mut()),
                self.of_cell(to_write(&mut cell_end.bytes)),
                self.weight_bytes,
                to_read(&params.bytes),
                self.work_bytes,
                to_write(&mut buffers.work),
                self.reserve_bytes,
                to_write(&mut buffers.reserve),
            )
        }
        .of("cudnnRNNBackwardData_v8")?;
        // SAFETY: as above. It has to come behind the data's, which leaves what it needs in `reserve`.
        unsafe {
            (functions.backward_weights)(
                self.handle.owned.raw,
                self.rnn.owned.raw,
                cudnnWgradMode_t::CUDNN_WGRAD_MODE_ADD,
                to_read(&buffers.lengths).cast(),
                self.x.owned.raw,
                to_read(&buffers.x.bytes),
                self.hidden.raw,
                to_read(&buffers.begins[0].bytes),
                self.y.owned.raw,
                to_read(&buffers.y.bytes),
                self.weight_bytes,
                to_write(&mut gradient.bytes),
                self.work_bytes,
                to_write(&mut buffers.work),
                self.reserve_bytes,
                to_write(&mut buffers.reserve),
            )
        }
        .of("cudnnRNNBackwardWeights_v8")
    }

    /// Only an LSTM has a cell state.
    fn of_cell(&self, pointer: *mut c_void) -> *mut c_void {
        if self.cell.is_some() { pointer } else { null_mut() }
    }

    fn cell(&self) -> cudnnTensorDescriptor_t {
        self.cell.as_ref().map_or(null_mut(), |cell| cell.raw)
    }

    /// All buffers are as long as cuDNN was told, and on the stream that it computes on.
    fn check(&self, params: &Values, buffers: &Buffers) -> Result<(), GpuError> {
        let bytes = self.rnn.element.bytes();
        let gradient = |len| if self.training { len } else { 1 };
        let floats = [
            ("the parameters", params, self.weight_bytes / bytes),
            ("the input", &buffers.x, self.input_len()),
            ("the outputs", &buffers.y, self.output_len()),
            ("the first hidden state", &buffers.begins[0], self.state_len),
            ("the first cell state", &buffers.begins[1], self.state_len),
            ("the gradient to the states", &buffers.zeros, self.state_len),
            ("the hidden state", &buffers.ends[0], self.state_len),
            ("the cell state", &buffers.ends[1], self.state_len),
            ("the gradient to the input", &buffers.to_x, gradient(self.input_len())),
            ("the gradient to the outputs", &buffers.to_y, gradient(self.output_len())),
        ];
        for (what, values, needed) in floats {
            self.same(what, &values.bytes, bytes * needed, values.bytes.len() == bytes * needed)?;
        }
        let spaces =
            [("the work space", &buffers.work, self.work_bytes), ("the reserve", &buffers.reserve, self.reserve_bytes)];
        for (what, slice, needed) in spaces {
            self.same(what, slice, needed, slice.len() >= needed)?;
        }
        let (slice, needed) = (&buffers.lengths, self.lengths.len());
        self.same("the lengths", slice, needed, slice.len() == needed)
    }

    fn same<T>(&self, what: &'static str, slice: &CudaSlice<T>, needed: usize, fits: bool) -> Result<(), GpuError> {
        match fits && slice.stream() == self.handle.stream() {
            true => Ok(()),
            false => Err(GpuError::Buffer { what, found: slice.len(), needed }),
        }
    }
}

/// `[1st, 2nd, 3rd]` without gaps.
fn packed((cudnn, element): (&Cudnn, Element), dims: [usize; 3]) -> Result<Owned<cudnnTensorDescriptor_t>, GpuError> {
    let (create, destroy) = (cudnn.0.create_tensor, cudnn.0.destroy_tensor);
    // SAFETY: the two belong together.
    let owned = unsafe { Owned::new(cudnn, "cudnnCreateTensorDescriptor", null_mut(), create, destroy) }?;
    let count = |found: usize| c_int::try_from(found).map_err(|_| GpuError::Count { what: "a state's size", found });
    let [all, rows, cols] = dims;
    let strides = [count(rows * cols)?, count(cols)?, 1];
    let dims = [count(all)?, count(rows)?, count(cols)?];
    // SAFETY: the descriptor is alive; both arrays have three elements, which are copied in the call.
    unsafe { (cudnn.0.set_tensor)(owned.raw, element.data_type(), 3, dims.as_ptr(), strides.as_ptr()) }
        .of("cudnnSetTensorNdDescriptor")?;
    Ok(owned)
}

/// Where memory of the device is that is read. One stream has all of it, so there is nothing to wait for.
fn to_read<T>(slice: &CudaSlice<T>) -> *const c_void {
    std::ptr::without_provenance(slice.device_ptr(slice.stream()).0 as usize)
}

/// Likewise of what is written.
pub(super) fn to_write<T>(slice: &mut CudaSlice<T>) -> *mut c_void {
    let stream = slice.stream().clone();
    std::ptr::without_provenance_mut(slice.device_ptr_mut(&stream).0 as usize)
}
