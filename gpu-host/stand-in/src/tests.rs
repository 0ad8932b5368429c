//! Tests that invalid calls are refused: a stand-in that accepts everything would prove nothing.
#![expect(unsafe_code, reason = "the tests call exported functions")]

use std::mem::MaybeUninit;
use std::ptr::{null_mut, without_provenance_mut as at};

use crate::cudnn::{BAD_PARAM, NOT_SUPPORTED};
use crate::descriptors::*;
use crate::driver::*;
use crate::machine::{Element, machine};
use crate::space::*;
use crate::{Code, Opaque, compute, cuda, need};

/// Calls one of cuDNN's RNN functions. The lines of the arguments are those of the declaration.
macro_rules! call {
    ($name:ident($($arg:expr),* $(,)?)) => { compute::$name($($arg),*) };
}

/// Result that a call writes through its argument.
fn given<T>(call: impl FnOnce(Option<&mut MaybeUninit<T>>) -> Code) -> T {
    let mut out = MaybeUninit::uninit();
    assert_eq!(call(Some(&mut out)), 0);
    // SAFETY: the call succeeded, so it has written the result.
    unsafe { out.assume_init() }
}

/// Makes the first device current for the thread.
fn bind() {
    assert_eq!(cuInit(0), 0);
    let context = given(|out| cuDevicePrimaryCtxRetain(out, 0));
    assert_eq!(cuCtxSetCurrent(at(context)), 0);
}

fn alloc(bytes: usize) -> Opaque {
    at(given(|out| cuMemAllocAsync(out, bytes, null_mut())) as usize)
}

fn upload<T>(values: &[T]) -> Opaque {
    let bytes = size_of_val(values);
    let address = alloc(bytes);
    // SAFETY: `values` has this many bytes.
    assert_eq!(unsafe { cuMemcpyHtoDAsync_v2(address.addr() as u64, values.as_ptr().cast(), bytes, null_mut()) }, 0);
    address
}

fn floats(address: Opaque, len: usize) -> Vec<f32> {
    machine().floats(Element::F32, address.addr() as u64, len, 0).unwrap()
}

#[test]
fn memory_is_accessible_only_within_live_allocations() {
    assert_eq!(cuMemAllocAsync(Some(&mut MaybeUninit::uninit()), 4, null_mut()), cuda::INVALID_CONTEXT);
    bind();
    let address = alloc(10).addr() as u64;
    let mut host = [0_u8; 11];
    // SAFETY: `host` has room for 11 bytes.
    let mut download =
        |address, bytes| unsafe { cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), address, bytes, null_mut()) };
    assert_eq!(download(address, 10), 0);
    assert_eq!(download(address + 4, 6), 0);
    for (address, bytes) in [(address, 11), (address + 4, 7), (address + 10, 1), (address - 1, 1), (0, 1)] {
        assert_eq!(download(address, bytes), cuda::INVALID_VALUE, "{bytes} at {address}");
    }
    assert_eq!(host[..10], [0xff; 10], "uninitialized");
    assert_eq!(cuMemsetD8Async(address, 0, 11, null_mut()), cuda::INVALID_VALUE);
    assert_eq!(cuMemsetD8Async(address, 0, 10, at(0x999)), cuda::INVALID_HANDLE);
    assert_eq!(cuMemFreeAsync(address + 4, null_mut()), cuda::INVALID_VALUE);
    assert_eq!(cuMemFreeAsync(address, null_mut()), 0);
    assert_eq!(cuMemFreeAsync(address, null_mut()), cuda::INVALID_VALUE);
    assert_eq!(cuMemsetD8Async(address, 0, 1, null_mut()), cuda::INVALID_VALUE);
    assert_eq!(cuMemAllocAsync(Some(&mut MaybeUninit::uninit()), 0, null_mut()), cuda::INVALID_VALUE);
}

#[test]
fn a_descriptor_is_accepted_only_for_its_type_and_while_it_is_alive() {
    bind();
    let (handle, rnn) = (given(|out| cudnnCreate(out)), given(|out| cudnnCreateRNNDescriptor(out)));
    let bytes = |rnn| cudnnGetRNNWeightSpaceSize(handle, rnn, Some(&mut MaybeUninit::uninit()));
    assert_eq!(bytes(rnn), BAD_PARAM, "not set");
    assert_eq!(bytes(handle), BAD_PARAM);
    assert_eq!(cudnnDestroyTensorDescriptor(rnn), BAD_PARAM);
    assert_eq!(cudnnDestroyRNNDescriptor(rnn), 0);
    assert_eq!(cudnnDestroyRNNDescriptor(rnn), BAD_PARAM);
    let dropout = given(|out| cudnnCreateDropoutDescriptor(out));
    let set = |share| cudnnSetDropoutDescriptor(dropout, handle, share, null_mut(), 0, 0);
    assert_eq!((set(0.5), set(0.0)), (NOT_SUPPORTED, 0));
    let rnn = given(|out| cudnnCreateRNNDescriptor(out));
    assert_eq!(cudnnSetRNNDescriptor_v8(rnn, 0, 2, 2, 0, 0, 0, 0, 3, 3, 4, 4, 1, dropout, 1), 0);
    assert_eq!(bytes(rnn), 0);
    assert_eq!(cudnnDestroyDropoutDescriptor(dropout), 0);
    assert_eq!(bytes(rnn), BAD_PARAM, "dropout descriptor destroyed");
    assert_eq!(cudnnDestroy(handle), 0);
    assert_eq!(set(0.0), BAD_PARAM);
}

/// A GRU with two layers, input size 3 and hidden size 4, for sequences of three steps and one step.
#[derive(Clone, Copy)]
struct Gru {
    handle: Opaque,
    rnn: Opaque,
    x: Opaque,
    y: Opaque,
    state: Opaque,
    sizes: [usize; 3],
}

static FILL: f32 = 9.0;
const LENGTHS: [i32; 2] = [3, 1];
const X_LEN: usize = 3 * 2 * 3;
const Y_LEN: usize = 3 * 2 * 4;
const STATE_LEN: usize = 2 * 2 * 4;

/// Device addresses of a batch.
#[derive(Clone, Copy)]
struct Batch {
    lengths: Opaque,
    weights: Opaque,
    x: Opaque,
    y: Opaque,
    /// Gradient of the final states.
    to_end: Opaque,
    work: Opaque,
    reserve: Opaque,
    /// Gradients: of the outputs (read), of the input, of the initial states and of the weights (written).
    gradients: [Opaque; 4],
}

impl Gru {
    fn new(algorithm: u32) -> Result<Self, Code> {
        bind();
        let (handle, rnn) = (given(|out| cudnnCreate(out)), given(|out| cudnnCreateRNNDescriptor(out)));
        let dropout = given(|out| cudnnCreateDropoutDescriptor(out));
        assert_eq!(cudnnSetDropoutDescriptor(dropout, handle, 0.0, null_mut(), 0, 0), 0);
        assert_eq!(cudnnSetRNNDescriptor_v8(rnn, algorithm, 3, 2, 0, 0, 0, 0, 3, 3, 4, 4, 2, dropout, 1), 0);
        let data = |features| {
            let data = given(|out| cudnnCreateRNNDataDescriptor(out));
            let fill = (&raw const FILL).cast();
            // SAFETY: there are two lengths, and `fill` points to a value.
            let set = unsafe { cudnnSetRNNDataDescriptor(data, 0, 0, 3, 2, features, LENGTHS.as_ptr(), fill) };
            assert_eq!(set, 0);
            data
        };
        let (x, y, state) = (data(3), data(4), given(|out| cudnnCreateTensorDescriptor(out)));
        // SAFETY: both arrays have three elements.
        unsafe {
            assert_eq!(cudnnSetTensorNdDescriptor(state, 0, 3, [2, 2, 4].as_ptr(), [8, 4, 1].as_ptr()), 0);
        }
        let (mut work, mut reserve) = (MaybeUninit::new(0), MaybeUninit::new(0));
        let code = cudnnGetRNNTempSpaceSizes(handle, rnn, 1, x, Some(&mut work), Some(&mut reserve));
        need(code == 0, code)?;
        // SAFETY: both were initialized above.
        let (work, reserve) = unsafe { (work.assume_init(), reserve.assume_init()) };
        let sizes = [given(|out| cudnnGetRNNWeightSpaceSize(handle, rnn, out)), work, reserve];
        Ok(Self { handle, rnn, x, y, state, sizes })
    }

    fn batch(&self) -> Batch {
        let numbers = |len: usize| upload(&(0..len).map(|k| (k % 7) as f32 / 7.0 - 0.4).collect::<Vec<f32>>());
        let [weights, work, reserve] = self.sizes;
        let to_weights = upload(&vec![1.0_f32; weights / 4]);
        Batch {
            lengths: upload(&LENGTHS),
            weights: numbers(weights / 4),
            x: numbers(X_LEN),
            y: alloc(4 * Y_LEN),
            to_end: upload(&[0.0_f32; STATE_LEN]),
            work: alloc(work),
            reserve: alloc(reserve),
            gradients: [numbers(Y_LEN), alloc(4 * X_LEN), alloc(4 * STATE_LEN), to_weights],
        }
    }

    /// From zero states, which are null.
    fn forward(&self, b: &Batch) -> Code {
        let (Self { handle, rnn, x, y, state, sizes: [weights, work, reserve] }, null) = (*self, null_mut());
        call! { cudnnRNNForward(
            handle, rnn, 1, b.lengths.cast(), x, b.x, y, b.y, state, null, null, null, null, null,
            weights, b.weights, work, b.work, reserve, b.reserve,
        ) }
    }

    fn backward_data(&self, b: &Batch) -> Code {
        let (Self { handle, rnn, x, y, state, sizes: [weights, work, reserve] }, null) = (*self, null_mut());
        let [to_y, to_x, to_state, _] = b.gradients;
        call! { cudnnRNNBackwardData_v8(
            handle, rnn, b.lengths.cast(), y, b.y, to_y, x, to_x, state, null, b.to_end, to_state, null, null, null, null,
            weights, b.weights, work, b.work, reserve, b.reserve,
        ) }
    }

    fn backward_weights(&self, b: &Batch, mode: u32) -> Code {
        let Self { handle, rnn, x, y, state, sizes: [weights, work, reserve] } = *self;
        call! { cudnnRNNBackwardWeights_v8(
            handle, rnn, mode, b.lengths.cast(), x, b.x, state, null_mut(), y, b.y,
            weights, b.gradients[3], work, b.work, reserve, b.reserve,
        ) }
    }
}

#[test]
fn undefined_values_are_nan_and_gradients_are_added() {
    let gru = Gru::new(0).unwrap();
    let batch = gru.batch();
    assert_eq!((gru.forward(&batch), gru.backward_data(&batch), gru.backward_weights(&batch, 0)), (0, 0, 0));
    // The second sequence has one step.
    let padded = |values: &[f32], features: usize, is: fn(f32) -> bool| {
        let rows = values.chunks_exact(features).enumerate();
        rows.for_each(|(at, row)| assert!(row.iter().all(|&value| is(value) == (at % 2 == 1 && at > 1)), "{row:?}"));
    };
    padded(&floats(batch.y, Y_LEN), 4, |value| value == 9.0);
    padded(&floats(batch.gradients[1], X_LEN), 3, f32::is_nan);
    assert!(floats(batch.gradients[2], STATE_LEN).into_iter().all(f32::is_nan));
    let once = floats(batch.gradients[3], gru.sizes[0] / 4);
    assert_eq!(gru.backward_weights(&batch, 0), 0);
    let twice = floats(batch.gradients[3], gru.sizes[0] / 4);
    assert!(once.iter().any(|&value| value != 1.0));
    assert!(once.iter().zip(&twice).all(|(once, twice)| (2.0 * (once - 1.0) - (twice - 1.0)).abs() < 1e-5));
}

#[test]
fn a_backward_pass_must_match_its_forward_pass() {
    let gru = Gru::new(0).unwrap();
    let batch = gru.batch();
    assert_eq!(gru.backward_data(&batch), BAD_PARAM, "no forward pass yet");
    assert_eq!(gru.forward(&batch), 0);
    assert_eq!(gru.backward_weights(&batch, 0), BAD_PARAM, "no backward pass for the data yet");
    let changed = |address: Opaque, back: &dyn Fn() -> Code| {
        let (place, before) = (address.addr() as u64, floats(address, 1));
        machine().put_floats(Element::F32, place, &[before[0] + 0.5], 0).unwrap();
        let code = back();
        machine().put_floats(Element::F32, place, &before, 0).unwrap();
        code
    };
    let data = || gru.backward_data(&batch);
    assert_eq!([batch.weights, batch.y].map(|address| changed(address, &data)), [BAD_PARAM; 2]);
    assert_eq!(changed(batch.to_end, &data), NOT_SUPPORTED);
    assert_eq!(data(), 0);
    let weights = || gru.backward_weights(&batch, 0);
    assert_eq!([batch.x, batch.y].map(|address| changed(address, &weights)), [BAD_PARAM; 2]);
    assert_eq!((weights(), gru.backward_weights(&batch, 1)), (0, NOT_SUPPORTED));
    assert_eq!(gru.backward_data(&Batch { reserve: gru.batch().reserve, ..batch }), BAD_PARAM);
}

#[test]
fn invalid_buffers_are_refused() {
    let gru = Gru::new(0).unwrap();
    let batch = gru.batch();
    let short = alloc(4);
    let wrong = [
        Batch { lengths: upload(&[3, 2]), ..batch },
        Batch { lengths: short, ..batch },
        Batch { weights: short, ..batch },
        Batch { x: short, ..batch },
        Batch { y: short, ..batch },
        Batch { work: short, ..batch },
        Batch { reserve: short, ..batch },
        Batch { x: batch.x.wrapping_byte_add(4), ..batch },
        Batch { x: null_mut(), ..batch },
    ];
    assert_eq!(wrong.map(|batch| gru.forward(&batch)), [BAD_PARAM; 9]);
    assert_eq!(gru.forward(&batch), 0);
    assert_eq!(gru.forward(&Batch { weights: alloc(gru.sizes[0]), ..batch }), 0);
    assert!(floats(batch.y, 4).into_iter().all(f32::is_nan), "uninitialized weights must show");
    assert_eq!(Gru::new(3).err(), Some(NOT_SUPPORTED), "sequences of different lengths");
}
