//! What must be refused is refused: a stand-in that takes everything would prove nothing.
#![expect(unsafe_code, reason = "it calls what C calls")]

use std::mem::MaybeUninit;
use std::ptr::{null_mut, without_provenance as at, without_provenance_mut as at_mut};

use crate::cudnn::{BAD_PARAM, NOT_SUPPORTED};
use crate::descriptors::*;
use crate::driver::*;
use crate::machine::{Element, machine};
use crate::space::*;
use crate::{Code, Opaque, compute, cuda};

/// What a call gives through its argument.
fn given<T>(call: impl FnOnce(Option<&mut MaybeUninit<T>>) -> Code) -> T {
    let mut out = MaybeUninit::uninit();
    assert_eq!(call(Some(&mut out)), 0);
    // SAFETY: the call has succeeded, so it has written the result.
    unsafe { out.assume_init() }
}

/// The first device is the thread's from here on.
fn bind() {
    assert_eq!(cuInit(0), 0);
    let context = given(|out| cuDevicePrimaryCtxRetain(out, 0));
    assert_eq!(cuCtxSetCurrent(at_mut(context)), 0);
}

fn alloc(bytes: usize) -> u64 {
    given(|out| cuMemAllocAsync(out, bytes, null_mut()))
}

fn upload<T>(values: &[T]) -> u64 {
    let bytes = size_of_val(values);
    let address = alloc(bytes);
    // SAFETY: the values have so many bytes.
    assert_eq!(unsafe { cuMemcpyHtoDAsync_v2(address, values.as_ptr().cast(), bytes, null_mut()) }, 0);
    address
}

fn floats(address: u64, len: usize) -> Vec<f32> {
    machine().floats(Element::F32, address, len, 0).unwrap()
}

#[test]
fn memory_is_only_what_was_asked_for_and_not_given_back() {
    assert_eq!(cuMemAllocAsync(Some(&mut MaybeUninit::uninit()), 4, null_mut()), cuda::INVALID_CONTEXT);
    bind();
    let address = alloc(10);
    let mut host = [0_u8; 11];
    // SAFETY: there is room for so many bytes.
    let mut download =
        |address, bytes| unsafe { cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), address, bytes, null_mut()) };
    assert_eq!(download(address, 10), 0);
    assert_eq!(download(address + 4, 6), 0);
    for (address, bytes) in [(address, 11), (address + 4, 7), (address + 10, 1), (address - 1, 1), (0, 1)] {
        assert_eq!(download(address, bytes), cuda::INVALID_VALUE, "{bytes} at {address}");
    }
    assert_eq!(host[..10], [0xff; 10], "nobody has written there");
    assert_eq!(cuMemsetD8Async(address, 0, 11, null_mut()), cuda::INVALID_VALUE);
    assert_eq!(cuMemsetD8Async(address, 0, 10, at_mut(0x999)), cuda::INVALID_HANDLE);
    assert_eq!(cuMemFreeAsync(address + 4, null_mut()), cuda::INVALID_VALUE);
    assert_eq!(cuMemFreeAsync(address, null_mut()), 0);
    assert_eq!(cuMemFreeAsync(address, null_mut()), cuda::INVALID_VALUE);
    assert_eq!(cuMemsetD8Async(address, 0, 1, null_mut()), cuda::INVALID_VALUE);
    assert_eq!(cuMemAllocAsync(Some(&mut MaybeUninit::uninit()), 0, null_mut()), cuda::INVALID_VALUE);
}

#[test]
fn a_descriptor_serves_only_as_what_it_is_and_while_it_lives() {
    bind();
    let (handle, rnn) = (given(|out| cudnnCreate(out)), given(|out| cudnnCreateRNNDescriptor(out)));
    let bytes = |rnn| cudnnGetRNNWeightSpaceSize(handle, rnn, Some(&mut MaybeUninit::uninit()));
    assert_eq!(bytes(rnn), BAD_PARAM, "it was not set");
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
    assert_eq!(bytes(rnn), BAD_PARAM, "its dropout is gone");
    assert_eq!(cudnnDestroy(handle), 0);
    assert_eq!(set(0.0), BAD_PARAM);
}

/// A GRU of two layers, three features and four units, over sequences of three steps and one.
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

/// Addresses of a batch.
#[derive(Clone, Copy)]
struct Batch {
    lengths: u64,
    weights: u64,
    x: u64,
    y: u64,
    /// What all but the outputs' is.
    to_end: u64,
    work: u64,
    reserve: u64,
    /// The gradient to the outputs, and what is made of it: to the input, to the state and to the weights.
    gradients: [u64; 4],
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
            // SAFETY: there are two lengths, and the filling is there.
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
        match cudnnGetRNNTempSpaceSizes(handle, rnn, 1, x, Some(&mut work), Some(&mut reserve)) {
            0 => {}
            code => return Err(code),
        }
        // SAFETY: both were written to before.
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

    /// From zero states, which null is.
    fn forward(&self, b: &Batch) -> Code {
        let [weights, work, reserve] = self.sizes;
        let [own_x, own_y] = [b.x, b.y].map(|address| at_mut(address as usize));
        compute::cudnnRNNForward(
            self.handle,
            self.rnn,
            1,
            at(b.lengths as usize),
            self.x,
            own_x,
            self.y,
            own_y,
            self.state,
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            weights,
            at(b.weights as usize),
            work,
            at_mut(b.work as usize),
            reserve,
            at_mut(b.reserve as usize),
        )
    }

    fn backward_data(&self, b: &Batch) -> Code {
        let [weights, work, reserve] = self.sizes;
        let [to_y, to_x, to_state, _] = b.gradients.map(|address| at_mut(address as usize));
        compute::cudnnRNNBackwardData_v8(
            self.handle,
            self.rnn,
            at(b.lengths as usize),
            self.y,
            at(b.y as usize),
            to_y,
            self.x,
            to_x,
            self.state,
            null_mut(),
            at(b.to_end as usize),
            to_state,
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            weights,
            at(b.weights as usize),
            work,
            at_mut(b.work as usize),
            reserve,
            at_mut(b.reserve as usize),
        )
    }

    fn backward_weights(&self, b: &Batch, mode: u32) -> Code {
        let [weights, work, reserve] = self.sizes;
        compute::cudnnRNNBackwardWeights_v8(
            self.handle,
            self.rnn,
            mode,
            at(b.lengths as usize),
            self.x,
            at(b.x as usize),
            self.state,
            null_mut(),
            self.y,
            at(b.y as usize),
            weights,
            at_mut(b.gradients[3] as usize),
            work,
            at_mut(b.work as usize),
            reserve,
            at_mut(b.reserve as usize),
        )
    }
}

#[test]
fn what_is_undefined_is_no_number_and_gradients_are_added() {
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
fn the_way_back_is_that_of_what_went_forward() {
    let gru = Gru::new(0).unwrap();
    let batch = gru.batch();
    assert_eq!(gru.backward_data(&batch), BAD_PARAM, "nothing went forward");
    assert_eq!(gru.forward(&batch), 0);
    assert_eq!(gru.backward_weights(&batch, 0), BAD_PARAM, "the data's comes first");
    let changed = |address: u64, back: &dyn Fn() -> Code| {
        let before = floats(address, 1);
        machine().put_floats(Element::F32, address, &[before[0] + 0.5], 0).unwrap();
        let code = back();
        machine().put_floats(Element::F32, address, &before, 0).unwrap();
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
fn a_buffer_that_is_too_small_or_of_other_lengths_is_refused() {
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
        Batch { x: batch.x + 4, ..batch },
        Batch { x: 0, ..batch },
    ];
    assert_eq!(wrong.map(|batch| gru.forward(&batch)), [BAD_PARAM; 9]);
    assert_eq!(gru.forward(&batch), 0);
    assert_eq!(gru.forward(&Batch { weights: alloc(gru.sizes[0]), ..batch }), 0);
    assert!(floats(batch.y, 4).into_iter().all(f32::is_nan), "weights that nobody has written show");
    assert_eq!(Gru::new(3).err(), Some(NOT_SUPPORTED), "of sequences of other lengths");
}
