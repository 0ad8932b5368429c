//! What there is: memory of the devices, and everything that was created and not destroyed. Neither addresses nor handles are
//! addresses of the host, and none is given out twice, so that whoever uses one of them too early, too late or for another is
//! refused, and whoever reads one on the host is stopped.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::cast_slice_mut;
use half::bf16;
use tidegate_gpu::rnn::Rnn;

use crate::{Code, Opaque, cuda, number};

/// Where the devices' memory begins: no process has its own so high.
const FIRST_ADDRESS: u64 = 1 << 60;
/// Between allocations, and what each is aligned to.
const ALIGNMENT: u64 = 256;
const FIRST_HANDLE: usize = 0x1000;
/// A device's context: this and its number.
const FIRST_CONTEXT: usize = 0x100;
/// Memory that nobody has written: not a number in f32.
const UNWRITTEN: u32 = u32::MAX;

/// What a handle stands for; none of a descriptor's values before they are set.
pub enum Object {
    Stream,
    Event,
    /// cuDNN on a device.
    Handle(c_int),
    Tensor(Option<Tensor>),
    /// Without dropout, once it is set.
    Dropout(bool),
    Rnn(Option<Described>),
    Data(Option<Data>),
}

/// What numbers are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F32,
    Bf16,
}

impl Element {
    /// Of a `cudnnDataType_t`, if it is one of these.
    pub const fn of(data_type: c_uint) -> Option<Self> {
        match data_type {
            0 => Some(Self::F32),
            9 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// Its `cudnnDataType_t`.
    pub const fn data_type(self) -> c_uint {
        match self {
            Self::F32 => 0,
            Self::Bf16 => 9,
        }
    }

    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// A number as it is when it has been written and read.
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
    /// Whether sequences may be padded.
    pub padded: bool,
    /// Its dropout descriptor, which must live as long.
    pub dropout: usize,
}

/// `cudnnRNNDataDescriptor_t`, `[longest, sequences, features]`.
#[derive(Clone, PartialEq)]
pub struct Data {
    pub element: Element,
    pub longest: usize,
    pub features: usize,
    pub lengths: Vec<usize>,
    /// What an output has behind the end of a sequence: undefined without.
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
    /// How often each device's context was asked for and not given back.
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
    /// The thread's context; zero is none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// All of it, for this thread alone.
pub fn machine() -> MutexGuard<'static, Machine> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Devices of this machine.
pub fn devices() -> c_int {
    number("TIDEGATE_STAND_IN_DEVICES").unwrap_or(1)
}

/// The thread's context.
pub fn current() -> usize {
    CURRENT.get()
}

impl Machine {
    /// A device's context, which stays until it is given back as often.
    pub fn retain(&mut self, device: c_int) -> usize {
        *self.retained.entry(device).or_default() += 1;
        FIRST_CONTEXT + device as usize
    }

    /// Gives it back; with the last time goes all of the device's memory.
    pub fn release(&mut self, device: c_int) -> Result<(), Code> {
        let count = self.retained.get_mut(&device).filter(|count| **count > 0).ok_or(cuda::INVALID_CONTEXT)?;
        *count -= 1;
        if *count == 0 {
            self.memory.retain(|_, memory| memory.device != device);
        }
        Ok(())
    }

    /// Makes a context the thread's.
    pub fn set_current(&self, context: usize) -> Result<(), Code> {
        if context != 0 {
            self.device(context).ok_or(cuda::INVALID_CONTEXT)?;
        }
        CURRENT.set(context);
        Ok(())
    }

    /// The thread's device.
    pub fn current_device(&self) -> Result<c_int, Code> {
        self.device(CURRENT.get()).ok_or(cuda::INVALID_CONTEXT)
    }

    fn device(&self, context: usize) -> Option<c_int> {
        let device = c_int::try_from(context.checked_sub(FIRST_CONTEXT)?).ok()?;
        self.retained.get(&device).filter(|count| **count > 0).map(|_| device)
    }

    /// A new object's handle.
    pub fn create(&mut self, object: Object) -> Opaque {
        let handle = self.next_handle;
        self.next_handle += 0x10;
        self.objects.insert(handle, object);
        std::ptr::without_provenance_mut(handle)
    }

    /// Forgets an object of a kind.
    pub fn destroy(&mut self, handle: Opaque, is: impl FnOnce(&Object) -> bool) -> Option<()> {
        self.object(handle).filter(|object| is(object))?;
        self.objects.remove(&handle.addr()).map(drop)
    }

    /// What a handle stands for, as long as it lives.
    pub fn object(&self, handle: Opaque) -> Option<&Object> {
        self.objects.get(&handle.addr())
    }

    /// Likewise, to be set.
    pub fn object_mut(&mut self, handle: Opaque) -> Option<&mut Object> {
        self.objects.get_mut(&handle.addr())
    }

    /// Whether this is the default stream (the thread's own too), or one that was created.
    pub fn is_stream(&self, stream: Opaque) -> bool {
        stream.addr() <= 2 || matches!(self.object(stream), Some(Object::Stream))
    }

    /// New memory on the thread's device. As on a device there is no allocation of nothing.
    pub fn alloc(&mut self, bytes: usize) -> Result<u64, Code> {
        let device = self.current_device()?;
        if bytes == 0 {
            return Err(cuda::INVALID_VALUE);
        }
        let address = self.next_address;
        self.next_address += (bytes as u64).next_multiple_of(ALIGNMENT) + ALIGNMENT;
        self.memory.insert(address, Memory { device, bytes, words: vec![UNWRITTEN; bytes.div_ceil(4)] });
        Ok(address)
    }

    /// Gives memory back: never to be found again.
    pub fn free(&mut self, address: u64) -> Result<(), Code> {
        self.memory.remove(&address).map(drop).ok_or(cuda::INVALID_VALUE)
    }

    /// The bytes of a range, if all of it is in one allocation: on this device, where one is given.
    pub fn bytes(&mut self, address: u64, len: usize, device: Option<c_int>) -> Option<&mut [u8]> {
        let (start, memory) = self.memory.range_mut(..=address).next_back()?;
        let offset = usize::try_from(address - start).ok()?;
        let range = offset..offset.checked_add(len).filter(|end| *end <= memory.bytes)?;
        if device.is_some_and(|device| device != memory.device) {
            return None;
        }
        Some(&mut cast_slice_mut(&mut memory.words)[range])
    }

    /// So many numbers of 32 bits.
    pub fn words(&mut self, address: u64, len: usize, device: c_int) -> Option<&mut [u32]> {
        if !address.is_multiple_of(4) {
            return None;
        }
        self.bytes(address, len.checked_mul(4)?, Some(device)).map(cast_slice_mut)
    }

    /// The bytes of so many numbers, which must stand on a multiple of their size.
    fn numbers(&mut self, element: Element, address: u64, len: usize, device: c_int) -> Option<&mut [u8]> {
        let bytes = element.bytes();
        let aligned = address.is_multiple_of(bytes as u64);
        if aligned { self.bytes(address, len.checked_mul(bytes)?, Some(device)) } else { None }
    }

    /// A copy of so many numbers.
    pub fn floats(&mut self, element: Element, address: u64, len: usize, device: c_int) -> Option<Vec<f32>> {
        let bytes = self.numbers(element, address, len, device)?;
        Some(match element {
            Element::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect(),
            Element::Bf16 => bytes.as_chunks().0.iter().map(|bytes| bf16::from_ne_bytes(*bytes).to_f32()).collect(),
        })
    }

    /// Writes numbers.
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
