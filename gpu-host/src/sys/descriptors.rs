//! cuDNN's descriptors of stacks and of batches, each owned by a type.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use cudarc::cudnn::sys::{
    cudnnDataType_t, cudnnDirectionMode_t, cudnnDropoutDescriptor_t, cudnnForwardMode_t, cudnnHandle_t,
    cudnnMathType_t, cudnnRNNAlgo_t, cudnnRNNBiasMode_t, cudnnRNNClipMode_t, cudnnRNNDataDescriptor_t,
    cudnnRNNDataLayout_t, cudnnRNNDescriptor_t, cudnnRNNInputMode_t, cudnnRNNMode_t, cudnnTensorDescriptor_t,
};

use super::{Cudnn, Element, Handle, Owned};
use crate::layout::{Kind, Layout, Part, Region};
use crate::rnn::{Bias, Cell, Direction, InputMode, Math, Rnn};
use crate::status::GpuError;

/// `CUDNN_RNN_PADDED_IO_ENABLED`: sequences of different lengths need not be packed.
const PADDED_IO: u32 = 1;
/// Dimensions of a matrix or bias in the weight space, the first of them 1.
const WEIGHT_DIMS: c_int = 3;

/// Dropout between layers.
pub struct Dropout(pub(super) Owned<cudnnDropoutDescriptor_t>);

impl Dropout {
    /// None, which needs no memory for random numbers.
    ///
    /// # Errors
    /// If cuDNN refuses.
    pub fn none(handle: &Handle) -> Result<Self, GpuError> {
        Self::none_on(&handle.owned.cudnn, handle.owned.raw)
    }

    pub(super) fn none_on(cudnn: &Cudnn, handle: cudnnHandle_t) -> Result<Self, GpuError> {
        let (create, destroy) = (cudnn.0.create_dropout, cudnn.0.destroy_dropout);
        // SAFETY: the two belong together.
        let owned = unsafe { Owned::new(cudnn, "cudnnCreateDropoutDescriptor", null_mut(), create, destroy) }?;
        // SAFETY: both are alive; without states nothing is written to.
        unsafe { (cudnn.0.set_dropout)(owned.raw, handle, 0.0, null_mut(), 0, 0) }.of("cudnnSetDropoutDescriptor")?;
        Ok(Self(owned))
    }
}

/// How steps follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `CUDNN_RNN_ALGO_STANDARD`: a product each step. For everything.
    Standard,
    /// `CUDNN_RNN_ALGO_PERSIST_STATIC`: recurrent weights stay in the multiprocessors.
    Persistent,
    /// `CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H`: they stay in registers, where a layer has few units.
    PersistentSmall,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Standard, Self::Persistent, Self::PersistentSmall];

    /// In reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Persistent => "persistent",
            Self::PersistentSmall => "persistent-small",
        }
    }
}

/// A stack of layers, described to cuDNN.
pub struct RnnDescriptor {
    pub(super) owned: Owned<cudnnRNNDescriptor_t>,
    pub(super) rnn: Rnn,
    pub(super) element: Element,
    /// cuDNN reads it whenever it computes.
    _dropout: Dropout,
}

impl RnnDescriptor {
    /// Describes the stack.
    ///
    /// # Errors
    /// If cuDNN refuses.
    pub fn new(rnn: &Rnn, dropout: Dropout, math: Math, algorithm: Algorithm) -> Result<Self, GpuError> {
        let cudnn = dropout.0.cudnn.clone();
        let (create, destroy) = (cudnn.0.create_rnn, cudnn.0.destroy_rnn);
        // SAFETY: the two belong together.
        let owned = unsafe { Owned::new(&cudnn, "cudnnCreateRNNDescriptor", null_mut(), create, destroy) }?;
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
        // SAFETY: both descriptors are alive, and the dropout stays so as long as this one.
        unsafe {
            (cudnn.0.set_rnn)(
                owned.raw,
                algorithm,
                mode,
                bias,
                direction,
                input,
                element.data_type(),
                cudnnDataType_t::CUDNN_DATA_FLOAT,
                math,
                size("input_size", settings.input_size)?,
                size("hidden_size", settings.hidden_size)?,
                size("projected_size", rnn.output_size())?,
                size("number of layers", settings.layers)?,
                dropout.0.raw,
                PADDED_IO,
            )
        }
        .of("cudnnSetRNNDescriptor_v8")?;
        if let Some(clip) = settings.cell_clip.map(f64::from) {
            // SAFETY: the descriptor is alive.
            unsafe { (cudnn.0.set_clip)(owned.raw, cudnnRNNClipMode_t::CUDNN_RNN_CLIP_MINMAX, -clip, clip) }
                .of("cudnnRNNSetClip_v9")?;
        }
        Ok(Self { owned, rnn: *rnn, element, _dropout: dropout })
    }

    /// Bytes of the weight space.
    ///
    /// # Errors
    /// If cuDNN refuses.
    pub fn weight_space_bytes(&self, handle: &Handle) -> Result<usize, GpuError> {
        self.weight_space_bytes_on(handle.owned.raw)
    }

    fn weight_space_bytes_on(&self, handle: cudnnHandle_t) -> Result<usize, GpuError> {
        let mut bytes = 0;
        // SAFETY: both are alive; `bytes` outlives the call.
        unsafe { (self.owned.cudnn.0.get_weight_space_size)(handle, self.owned.raw, &mut bytes) }
            .of("cudnnGetRNNWeightSpaceSize")?;
        Ok(bytes)
    }

    /// Bytes of work space and of reserve space for such a batch.
    ///
    /// # Errors
    /// If cuDNN refuses.
    pub fn temp_space_bytes(
        &self,
        handle: &Handle,
        data: &RnnData,
        training: bool,
    ) -> Result<(usize, usize), GpuError> {
        let mode = match training {
            true => cudnnForwardMode_t::CUDNN_FWD_MODE_TRAINING,
            false => cudnnForwardMode_t::CUDNN_FWD_MODE_INFERENCE,
        };
        let (mut work, mut reserve) = (0, 0);
        let get = self.owned.cudnn.0.get_temp_space_sizes;
        // SAFETY: all are alive; the sizes outlive the call.
        unsafe { get(handle.owned.raw, self.owned.raw, mode, data.owned.raw, &mut work, &mut reserve) }
            .of("cudnnGetRNNTempSpaceSizes")?;
        Ok((work, reserve))
    }

    /// Where cuDNN has its parameters, by its own word.
    ///
    /// # Errors
    /// If cuDNN refuses, or says what cannot be.
    pub fn layout(&self, handle: &Handle) -> Result<Layout, GpuError> {
        self.layout_on(handle.owned.raw)
    }

    pub(super) fn layout_on(&self, handle: cudnnHandle_t) -> Result<Layout, GpuError> {
        let cudnn = &self.owned.cudnn;
        let bytes = self.weight_space_bytes_on(handle)?;
        let (create, destroy) = (cudnn.0.create_tensor, cudnn.0.destroy_tensor);
        // SAFETY: the two belong together.
        let tensor = || unsafe { Owned::new(cudnn, "cudnnCreateTensorDescriptor", null_mut(), create, destroy) };
        let (matrix, bias) = (tensor()?, tensor()?);
        // Addresses are only counted from, never read: any that is aligned serves.
        let space = 1_usize << 20;
        let report = |part: Part| -> Result<Option<Region>, GpuError> {
            let [mut matrix_address, mut bias_address] = [null_mut::<c_void>(); 2];
            let index = |what, index| i32::try_from(index).map_err(|_| GpuError::Count { what, found: index });
            // SAFETY: all are alive, the addresses outlive the call. The weight space is not read or written.
            unsafe {
                (cudnn.0.get_weight_params)(
                    handle,
                    self.owned.raw,
                    index("pseudo-layer", part.pseudo_layer)?,
                    bytes,
                    std::ptr::without_provenance(space),
                    index("linLayerID", part.lin_layer_id)?,
                    matrix.raw,
                    &mut matrix_address,
                    bias.raw,
                    &mut bias_address,
                )
            }
            .of("cudnnGetRNNWeightParams")?;
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

/// What a tensor descriptor says of a part that begins so many bytes into the weight space.
fn region(
    descriptor: &Owned<cudnnTensorDescriptor_t>,
    (bytes, element): (usize, Element),
    kind: Kind,
) -> Result<Region, GpuError> {
    let (mut dims, mut strides) = ([1; WEIGHT_DIMS as usize], [1; WEIGHT_DIMS as usize]);
    let (mut data_type, mut rank) = (cudnnDataType_t::CUDNN_DATA_FLOAT, 0);
    // SAFETY: the descriptor is alive and was set; both arrays have as many elements as are asked for.
    unsafe {
        (descriptor.cudnn.0.get_tensor)(
            descriptor.raw,
            WEIGHT_DIMS,
            &mut data_type,
            &mut rank,
            dims.as_mut_ptr(),
            strides.as_mut_ptr(),
        )
    }
    .of("cudnnGetTensorNdDescriptor")?;
    place(rank, dims, strides, (bytes, element), kind)
}

/// `[1, rows, cols]` as a region; a bias is `[1, hidden, 1]`.
pub(super) fn place(
    rank: c_int,
    dims: [c_int; 3],
    strides: [c_int; 3],
    (bytes, element): (usize, Element),
    kind: Kind,
) -> Result<Region, GpuError> {
    let refuse = |what, found: i64| Err(GpuError::Report { what, found });
    if rank != WEIGHT_DIMS {
        return refuse("the number of dimensions", rank.into());
    }
    let [first, rows, cols] = dims;
    if first != 1 || (kind == Kind::Bias && cols != 1) {
        return refuse("a dimension that must be 1", if first == 1 { cols.into() } else { first.into() });
    }
    if !bytes.is_multiple_of(element.bytes()) {
        return refuse("an address behind the weight space's", bytes as i64);
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

/// A batch of sequences: `[time, batch, feature]`, padded behind the shorter ones.
pub struct RnnData {
    pub(super) owned: Owned<cudnnRNNDataDescriptor_t>,
    sequences: usize,
    /// Padding too.
    len: usize,
}

impl RnnData {
    /// A batch with a sequence of each of these lengths.
    ///
    /// # Errors
    /// If a length is zero or beyond `longest`, or cuDNN refuses.
    pub(crate) fn new(
        (cudnn, element): (&Cudnn, Element),
        longest: usize,
        features: usize,
        lengths: &[usize],
    ) -> Result<Self, GpuError> {
        let (create, destroy) = (cudnn.0.create_rnn_data, cudnn.0.destroy_rnn_data);
        let count = |what, found| c_int::try_from(found).map_err(|_| GpuError::Count { what, found });
        let length = |&found: &usize| match found {
            1.. if found <= longest => count("a length", found),
            _ => Err(GpuError::Length { found, longest }),
        };
        let all: Vec<c_int> = lengths.iter().map(length).collect::<Result<_, _>>()?;
        // SAFETY: the two belong together.
        let owned = unsafe { Owned::new(cudnn, "cudnnCreateRNNDataDescriptor", null_mut(), create, destroy) }?;
        // Of any type.
        let mut zero = 0.0_f32;
        // SAFETY: the descriptor is alive; the lengths and what padding is filled with are copied in the call.
        unsafe {
            (cudnn.0.set_rnn_data)(
                owned.raw,
                element.data_type(),
                cudnnRNNDataLayout_t::CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                count("the longest sequence", longest)?,
                count("the batch", lengths.len())?,
                count("features", features)?,
                all.as_ptr(),
                (&raw mut zero).cast(),
            )
        }
        .of("cudnnSetRNNDataDescriptor")?;
        Ok(Self { owned, sequences: lengths.len(), len: longest * lengths.len() * features })
    }

    /// Sequences of the batch.
    pub const fn sequences(&self) -> usize {
        self.sequences
    }

    /// Numbers of the batch, padding among them.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none: no sequence is without steps.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}
