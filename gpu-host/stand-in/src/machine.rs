//! State of the stand-in: device memory and live objects. Addresses and handles are not host addresses and are never
//! reused. Thus a use before creation, after destruction or for another type is refused, and a read on the host
//! crashes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::cast_slice_mut;
use half::bf16;
use tidegate_gpu::rnn::Rnn;

use crate::{Code, Opaque, cuda, need, number};

/// First device address; no process has memory this high.
const FIRST_ADDRESS: u64 = 1 << 60;
/// Alignment of allocations and distance between them.
const ALIGNMENT: u64 = 256;
const FIRST_HANDLE: usize = 0x1000;
/// A device's context is this plus the number of the device.
const FIRST_CONTEXT: usize = 0x100;
/// Value of uninitialized memory: NaN in f32.
const UNWRITTEN: u32 = u32::MAX;

/// Objects behind handles. The values of a descriptor are `None` until they are set.
pub enum Object {
    Stream,
    Event,
    /// A cuDNN handle on a device.
    Handle(c_int),
    Tensor(Option<Tensor>),
    /// Whether it has been set; only descriptors without dropout can be.
    Dropout(bool),
    Rnn(Option<Described>),
    Data(Option<Data>),
}

/// Element type of a tensor, as a `cudnnDataType_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F32 = 0,
    Bf16 = 9,
}

impl Element {
    /// The type of a `cudnnDataType_t`, if it is supported.
    pub fn of(data_type: c_uint) -> Option<Self> {
        [Self::F32, Self::Bf16].into_iter().find(|&element| element as c_uint == data_type)
    }

    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// A value after conversion to the type and back.
    pub fn rounded(self, value: f32) -> f32 {
        match self {
            Self::F32 => value,
            Self::Bf16 => bf16::from_f32(value).to_f32(),
        }
    }
}

/// `cudnnTensorDescriptor_t`
#[derive(Clone)]
pub struct Tensor {
    pub element: Element,
    pub dims: Vec<c_int>,
    pub strides: Vec<c_int>,
}

/// `cudnnRNNDescriptor_t`
#[derive(Clone, Copy)]
pub struct Described {
    pub element: Element,
    pub rnn: Rnn,
    pub algorithm: c_uint,
    pub padded: bool,
    /// Handle of the dropout descriptor, which must outlive this one.
    pub dropout: usize,
}

/// `cudnnRNNDataDescriptor_t`, `[longest, sequences, features]`.
#[derive(Clone, PartialEq)]
pub struct Data {
    pub element: Element,
    pub longest: usize,
    pub features: usize,
    pub lengths: Vec<usize>,
    /// Value of outputs after the end of a sequence; undefined if `None`.
    pub fill: Option<f32>,
}

struct Memory {
    device: c_int,
    bytes: usize,
    words: Vec<u32>,
}

pub struct Machine {
    memory: BTreeMap<u64, Memory>,
    objects: BTreeMap<usize, Object>,
    /// Reference count of each device's context.
    retained: BTreeMap<c_int, usize>,
    next_address: u64,
    next_handle: usize,
}

static MACHINE: Mutex<Machine> = Mutex::new(Machine {
    memory: BTreeMap::new(),
    objects: BTreeMap::new(),
    retained: BTreeMap::new(),
    next_address: FIRST_ADDRESS,
    next_handle: FIRST_HANDLE,
});

thread_local! {
    /// Current context of the thread; zero is none.
    pub static CURRENT: Cell<usize> = const { Cell::new(0) };
}

pub fn machine() -> MutexGuard<'static, Machine> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn devices() -> c_int {
    number("TIDEGATE_STAND_IN_DEVICES").unwrap_or(1)
}

impl Machine {
    pub fn retain(&mut self, device: c_int) -> usize {
        *self.retained.entry(device).or_default() += 1;
        FIRST_CONTEXT + device as usize
    }

    /// Releases a device's context. The last release frees all memory of the device.
    pub fn release(&mut self, device: c_int) -> Result<(), Code> {
        let count = self.retained.get_mut(&device).filter(|count| **count > 0).ok_or(cuda::INVALID_CONTEXT)?;
        *count -= 1;
        if *count == 0 {
            self.memory.retain(|_, memory| memory.device != device);
        }
        Ok(())
    }

    pub fn set_current(&self, context: usize) -> Result<(), Code> {
        if context != 0 {
            self.device(context).ok_or(cuda::INVALID_CONTEXT)?;
        }
        CURRENT.set(context);
        Ok(())
    }

    pub fn current_device(&self) -> Result<c_int, Code> {
        self.device(CURRENT.get()).ok_or(cuda::INVALID_CONTEXT)
    }

    fn device(&self, context: usize) -> Option<c_int> {
        let device = c_int::try_from(context.checked_sub(FIRST_CONTEXT)?).ok()?;
        self.retained.get(&device).filter(|count| **count > 0).map(|_| device)
    }

    pub fn create(&mut self, object: Object) -> Opaque {
        let handle = self.next_handle;
        self.next_handle += 0x10;
        self.objects.insert(handle, object);
        std::ptr::without_provenance_mut(handle)
    }

    /// Destroys an object of the expected kind.
    pub fn destroy(&mut self, handle: Opaque, is: impl FnOnce(&Object) -> bool) -> Option<()> {
        self.object(handle).filter(|object| is(object))?;
        self.objects.remove(&handle.addr()).map(drop)
    }

    pub fn object(&self, handle: Opaque) -> Option<&Object> {
        self.objects.get(&handle.addr())
    }

    pub fn object_mut(&mut self, handle: Opaque) -> Option<&mut Object> {
        self.objects.get_mut(&handle.addr())
    }

    /// Whether this is a default stream (also the per-thread one) or a created one.
    pub fn is_stream(&self, stream: Opaque) -> bool {
        stream.addr() <= 2 || matches!(self.object(stream), Some(Object::Stream))
    }

    /// Allocates memory on the current device. As on a device, an empty allocation is an error.
    pub fn alloc(&mut self, bytes: usize) -> Result<u64, Code> {
        let device = self.current_device()?;
        need(bytes != 0, cuda::INVALID_VALUE)?;
        let address = self.next_address;
        self.next_address += (bytes as u64).next_multiple_of(ALIGNMENT) + ALIGNMENT;
        self.memory.insert(address, Memory { device, bytes, words: vec![UNWRITTEN; bytes.div_ceil(4)] });
        Ok(address)
    }

    /// Frees memory; its addresses are never reused.
    pub fn free(&mut self, address: u64) -> Result<(), Code> {
        self.memory.remove(&address).map(drop).ok_or(cuda::INVALID_VALUE)
    }

    /// Bytes of a range that is within one allocation and, if given, on this device.
    pub fn bytes(&mut self, address: u64, len: usize, device: Option<c_int>) -> Option<&mut [u8]> {
        let (start, memory) = self.memory.range_mut(..=address).next_back()?;
        let offset = usize::try_from(address - start).ok()?;
        let range = offset..offset.checked_add(len).filter(|end| *end <= memory.bytes)?;
        let reachable = device.is_none_or(|device| device == memory.device);
        reachable.then(|| &mut cast_slice_mut(&mut memory.words)[range])
    }

    pub fn words(&mut self, address: u64, len: usize, device: c_int) -> Option<&mut [u32]> {
        self.numbers(Element::F32, address, len, device).map(cast_slice_mut)
    }

    /// Bytes of `len` values; the address must be a multiple of their size.
    fn numbers(&mut self, element: Element, address: u64, len: usize, device: c_int) -> Option<&mut [u8]> {
        let size = Some(element.bytes()).filter(|&size| address.is_multiple_of(size as u64))?;
        self.bytes(address, len.checked_mul(size)?, Some(device))
    }

    pub fn floats(&mut self, element: Element, address: u64, len: usize, device: c_int) -> Option<Vec<f32>> {
        let bytes = self.numbers(element, address, len, device)?;
        Some(match element {
            Element::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect(),
            Element::Bf16 => bytes.as_chunks().0.iter().map(|bytes| bf16::from_ne_bytes(*bytes).to_f32()).collect(),
        })
    }

    pub fn put_floats(&mut self, element: Element, address: u64, values: &[f32], device: c_int) -> Option<()> {
        let bytes = self.numbers(element, address, values.len(), device)?;
        for (to, &value) in bytes.chunks_exact_mut(element.bytes()).zip(values) {
            match element {
                Element::F32 => to.copy_from_slice(&value.to_ne_bytes()),
                Element::Bf16 => to.copy_from_slice(&bf16::from_f32(value).to_ne_bytes()),
            }
        }
        Some(())
    }
}
