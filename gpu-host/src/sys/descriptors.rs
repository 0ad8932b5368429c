//! cuDNN's descriptors of stacks and batches, each owned by a type.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use cudarc::cudnn::sys::*;

use super::{Cudnn, Element, Handle, Owned, Result};
use crate::layout::{Kind, Layout, Part, Region};
use crate::rnn::{Bias, Cell, Direction, InputMode, Math, Rnn};
use crate::status::GpuError;

/// `CUDNN_RNN_PADDED_IO_ENABLED`: sequences of different lengths are padded, not packed.
const PADDED_IO: u32 = 1;
/// Number of dimensions of a matrix or bias in the weight space; the first dimension is 1.
const WEIGHT_DIMS: c_int = 3;

pub(super) const fn forward_mode(training: bool) -> cudnnForwardMode_t {
    if training { cudnnForwardMode_t::CUDNN_FWD_MODE_TRAINING } else { cudnnForwardMode_t::CUDNN_FWD_MODE_INFERENCE }
}

/// A dropout descriptor without dropout, which needs no memory for random numbers.
fn no_dropout(cudnn: &Cudnn, handle: cudnnHandle_t) -> Result<Owned<cudnnDropoutDescriptor_t>> {
    let owned = create!(cudnn, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor)?;
    // SAFETY: both are alive; without states, nothing is written.
    unsafe { call!(cudnn, cudnnSetDropoutDescriptor(owned.raw, handle, 0.0, null_mut(), 0, 0)) }.map(|()| owned)
}

/// cuDNN's algorithms for the steps of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `CUDNN_RNN_ALGO_STANDARD`: one product per step. Supports every stack.
    Standard,
    /// `CUDNN_RNN_ALGO_PERSIST_STATIC`: recurrent weights stay on the multiprocessors.
    Persistent,
    /// `CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H`: recurrent weights of small layers stay in registers.
    PersistentSmall,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 3] = [Self::Standard, Self::Persistent, Self::PersistentSmall];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Persistent => "persistent",
            Self::PersistentSmall => "persistent-small",
        }
    }
}

/// cuDNN's descriptor of a stack.
pub struct RnnDescriptor {
    pub(super) owned: Owned<cudnnRNNDescriptor_t>,
    pub(super) rnn: Rnn,
    pub(super) element: Element,
    /// cuDNN reads it in every pass.
    _dropout: Owned<cudnnDropoutDescriptor_t>,
}

impl RnnDescriptor {
    pub(crate) fn new(of: (&Cudnn, cudnnHandle_t), rnn: &Rnn, math: Math, algorithm: Algorithm) -> Result<Self> {
        let (cudnn, handle) = of;
        let dropout = no_dropout(cudnn, handle)?;
        let owned = create!(cudnn, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor)?;
        let settings = rnn.settings();
        let mode = match settings.cell {
            Cell::Lstm => cudnnRNNMode_t::CUDNN_LSTM,
            Cell::Gru => cudnnRNNMode_t::CUDNN_GRU,
            Cell::RnnTanh => cudnnRNNMode_t::CUDNN_RNN_TANH,
            Cell::RnnRelu => cudnnRNNMode_t::CUDNN_RNN_RELU,
        };
        let bias = match settings.bias {
            Bias::None => cudnnRNNBiasMode_t::CUDNN_RNN_NO_BIAS,
            Bias::Input => cudnnRNNBiasMode_t::CUDNN_RNN_SINGLE_INP_BIAS,
            Bias::Recurrent => cudnnRNNBiasMode_t::CUDNN_RNN_SINGLE_REC_BIAS,
            Bias::Both => cudnnRNNBiasMode_t::CUDNN_RNN_DOUBLE_BIAS,
        };
        let direction = match settings.direction {
            Direction::Unidirectional => cudnnDirectionMode_t::CUDNN_UNIDIRECTIONAL,
            Direction::Bidirectional => cudnnDirectionMode_t::CUDNN_BIDIRECTIONAL,
        };
        let input = match settings.input_mode {
            InputMode::Linear => cudnnRNNInputMode_t::CUDNN_LINEAR_INPUT,
            InputMode::Skip => cudnnRNNInputMode_t::CUDNN_SKIP_INPUT,
        };
        let element = Element::of(math);
        let math = match math {
            Math::F32 => cudnnMathType_t::CUDNN_FMA_MATH,
            Math::Tf32 => cudnnMathType_t::CUDNN_DEFAULT_MATH,
            Math::Bf16 => cudnnMathType_t::CUDNN_TENSOR_OP_MATH,
        };
        let algorithm = match algorithm {
            Algorithm::Standard => cudnnRNNAlgo_t::CUDNN_RNN_ALGO_STANDARD,
            Algorithm::Persistent => cudnnRNNAlgo_t::CUDNN_RNN_ALGO_PERSIST_STATIC,
            Algorithm::PersistentSmall => cudnnRNNAlgo_t::CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H,
        };
        let size = |what, size| i32::try_from(size).map_err(|_| GpuError::Count { what, found: size });
        // SAFETY: both descriptors are alive, and the dropout descriptor lives as long as this one.
        unsafe {
            call! { cudnn, cudnnSetRNNDescriptor_v8(
                owned.raw, algorithm, mode, bias, direction, input,
                element.data_type(), cudnnDataType_t::CUDNN_DATA_FLOAT, math,
                size("input_size", settings.input_size)?, size("hidden_size", settings.hidden_size)?,
                size("projected_size", rnn.output_size())?, size("number of layers", settings.layers)?,
                dropout.raw, PADDED_IO,
            ) }
        }?;
        if let Some(clip) = settings.cell_clip.map(f64::from) {
            let mode = cudnnRNNClipMode_t::CUDNN_RNN_CLIP_MINMAX;
            // SAFETY: the descriptor is alive.
            unsafe { call!(cudnn, cudnnRNNSetClip_v9(owned.raw, mode, -clip, clip)) }?;
        }
        Ok(Self { owned, rnn: *rnn, element, _dropout: dropout })
    }

    pub(super) fn weight_space_bytes(&self, handle: cudnnHandle_t) -> Result<usize> {
        let mut bytes = 0;
        // SAFETY: both are alive; `bytes` outlives the call.
        unsafe { call!(self.owned.cudnn, cudnnGetRNNWeightSpaceSize(handle, self.owned.raw, &mut bytes)) }?;
        Ok(bytes)
    }

    /// Sizes of the work space and the reserve space for a batch, in bytes.
    pub fn temp_space_bytes(&self, handle: &Handle, data: &RnnData, training: bool) -> Result<[usize; 2]> {
        let (handle, rnn, mode) = (handle.owned.raw, self.owned.raw, forward_mode(training));
        let (mut work, mut reserve) = (0, 0);
        // SAFETY: all are alive; the sizes outlive the call.
        unsafe {
            call! { self.owned.cudnn, cudnnGetRNNTempSpaceSizes(
                handle, rnn, mode, data.owned.raw, &mut work, &mut reserve
            ) }
        }?;
        Ok([work, reserve])
    }

    pub(crate) fn layout(&self, handle: cudnnHandle_t) -> Result<Layout> {
        let cudnn = &self.owned.cudnn;
        let bytes = self.weight_space_bytes(handle)?;
        let tensor = || create!(cudnn, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor);
        let (matrix, bias) = (tensor()?, tensor()?);
        // Addresses are only compared with this one and never read, so any aligned address suffices.
        let space = 1_usize << 20;
        let report = |part: Part| -> Result<Option<Region>> {
            let [mut matrix_address, mut bias_address] = [null_mut::<c_void>(); 2];
            let index = |what, index| i32::try_from(index).map_err(|_| GpuError::Count { what, found: index });
            // SAFETY: all are alive; the addresses outlive the call. The weight space is neither read nor written.
            unsafe {
                call! { cudnn, cudnnGetRNNWeightParams(
                    handle, self.owned.raw, index("pseudo-layer", part.pseudo_layer)?,
                    bytes, std::ptr::without_provenance(space), index("linLayerID", part.lin_layer_id)?,
                    matrix.raw, &mut matrix_address, bias.raw, &mut bias_address,
                ) }
            }?;
            let (descriptor, address) = match part.kind {
                Kind::Matrix => (&matrix, matrix_address),
                Kind::Bias => (&bias, bias_address),
            };
            if address.is_null() {
                return Ok(None);
            }
            region(descriptor, (address.addr().wrapping_sub(space), self.element), part.kind).map(Some)
        };
        Layout::reported(&self.rnn, bytes / self.element.bytes(), report)
    }
}

/// The region of a part that starts `bytes` into the weight space, from its tensor descriptor.
fn region(tensor: &Owned<cudnnTensorDescriptor_t>, (bytes, element): (usize, Element), kind: Kind) -> Result<Region> {
    let (mut dims, mut strides) = ([1; WEIGHT_DIMS as usize], [1; WEIGHT_DIMS as usize]);
    let (mut data_type, mut rank) = (cudnnDataType_t::CUDNN_DATA_FLOAT, 0);
    // SAFETY: the descriptor is alive and initialized; both arrays have the requested number of elements.
    unsafe {
        call! { tensor.cudnn, cudnnGetTensorNdDescriptor(
            tensor.raw, WEIGHT_DIMS, &mut data_type, &mut rank, dims.as_mut_ptr(), strides.as_mut_ptr(),
        ) }
    }?;
    place(rank, dims, strides, (bytes, element), kind)
}

/// Converts `[1, rows, cols]` to a region; a bias is `[1, hidden, 1]`.
pub(super) fn place(
    rank: c_int,
    dims: [c_int; 3],
    strides: [c_int; 3],
    (bytes, element): (usize, Element),
    kind: Kind,
) -> Result<Region> {
    let refuse = |what, found: i64| Err(GpuError::Report { what, found });
    if rank != WEIGHT_DIMS {
        return refuse("the number of dimensions", rank.into());
    }
    let [first, rows, cols] = dims;
    if first != 1 || (kind == Kind::Bias && cols != 1) {
        return refuse("a dimension that must be 1", if first == 1 { cols.into() } else { first.into() });
    }
    if !bytes.is_multiple_of(element.bytes()) {
        return refuse("the distance to the start of the weight space in bytes", bytes as i64);
    }
    let count = |what, value: c_int| usize::try_from(value).map_err(|_| GpuError::Report { what, found: value.into() });
    Ok(Region {
        offset: bytes / element.bytes(),
        rows: count("a dimension", rows)?,
        cols: count("a dimension", cols)?,
        row_stride: count("a stride", strides[1])?,
        col_stride: count("a stride", strides[2])?,
    })
}

/// cuDNN's descriptor of a batch: `[time, batch, feature]`, padded at the end.
pub struct RnnData {
    pub(super) owned: Owned<cudnnRNNDataDescriptor_t>,
    /// Number of elements, with padding.
    pub(super) len: usize,
}

impl RnnData {
    /// Describes a batch with sequences of these lengths.
    pub(crate) fn new(of: (&Cudnn, Element), longest: usize, features: usize, lengths: &[usize]) -> Result<Self> {
        let (cudnn, element) = of;
        let count = |what, found| c_int::try_from(found).map_err(|_| GpuError::Count { what, found });
        let length = |&found: &usize| match found {
            1.. if found <= longest => count("a length", found),
            _ => Err(GpuError::Length { found, longest }),
        };
        let all: Vec<c_int> = lengths.iter().map(length).collect::<Result<_, _>>()?;
        let owned = create!(cudnn, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor)?;
        // The fill value for padding, which is zero in every element type.
        let mut zero = 0.0_f32;
        // SAFETY: the descriptor is alive; the lengths and the fill value are copied during the call.
        unsafe {
            call! { cudnn, cudnnSetRNNDataDescriptor(
                owned.raw, element.data_type(), cudnnRNNDataLayout_t::CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                count("the longest sequence", longest)?, count("the batch", lengths.len())?,
                count("features", features)?, all.as_ptr(), (&raw mut zero).cast(),
            ) }
        }?;
        Ok(Self { owned, len: longest * lengths.len() * features })
    }
}
