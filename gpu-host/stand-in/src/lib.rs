//! One shared library that stands in for three of NVIDIA's, so that the host's side of `tidegate-gpu` runs where there is no
//! GPU: descriptors, buffers and their sizes, layouts, the order of states and calls. It goes by their names (`libcuda.so.1`,
//! `libcudnn.so.9`, `libnccl.so.2`), keeps the device's memory in the host's, and computes cuDNN's RNN calls with
//! [`tidegate_gpu::cpu::Stack`].
//!
//! **It proves nothing about cuDNN**: it does what cuDNN's documentation says, by our reading, and only what `tidegate-gpu` asks
//! for. Where the documentation leaves something undefined it gives not-a-number, where it forbids something it refuses, and it
//! refuses more than a device would: addresses beyond an allocation or of one that was freed, descriptors that were destroyed, and
//! gradients of other numbers than those that went forward.
//!
//! | environment variable | value | then |
//! |---|---|---|
//! | `TIDEGATE_STAND_IN_DEVICES` | a number | there are so many devices; without it one |
//! | `TIDEGATE_STAND_IN_LAYOUT` | `apart` | parameters lie elsewhere than [described](tidegate_gpu::layout) |
//! | `TIDEGATE_STAND_IN_ALGORITHMS` | `standard` | no other algorithm is there, as on an old device |
//! | `TIDEGATE_STAND_IN_VERSION` | a `CUDNN_VERSION` | that is what it says of itself |
//! | `TIDEGATE_STAND_IN_SUMS` | `apart` | NCCL's sums here are a little off those elsewhere |
//! | `TIDEGATE_STAND_IN_FAIL` | a function | it always fails |
#![cfg(target_os = "linux")]
#![deny(missing_docs)]
// What C calls has the name and as many arguments as its header says.
#![allow(non_snake_case, clippy::too_many_arguments)]

mod compute;
mod descriptors;
mod driver;
mod machine;
mod nccl;
mod run;
mod space;
#[cfg(test)]
mod tests;

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::str::FromStr;

/// What a function returns: zero, or a code of its library.
type Code = c_int;
/// What only this library looks into: a number, never an address of the host.
type Opaque = *mut c_void;
/// Where a result goes; `None` is C's null.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Codes of the driver, which end in the names that `cuda.h` has.
mod cuda {
    use super::Code;

    pub const INVALID_VALUE: Code = 1;
    pub const OUT_OF_MEMORY: Code = 2;
    pub const NO_DEVICE: Code = 100;
    pub const INVALID_DEVICE: Code = 101;
    pub const INVALID_CONTEXT: Code = 201;
    pub const INVALID_HANDLE: Code = 400;
    pub const LAUNCH_FAILED: Code = 719;
}

/// Codes of cuDNN 9 (`cudnn_graph.h`).
mod cudnn {
    use super::Code;

    pub const NOT_INITIALIZED: Code = 1001;
    pub const BAD_PARAM: Code = 2000;
    pub const NOT_SUPPORTED: Code = 3000;
    pub const EXECUTION_FAILED: Code = 5000;
}

/// Runs what a function does, unless it is to fail.
fn call(name: &str, body: impl FnOnce() -> Result<(), Code>) -> Code {
    if asked("TIDEGATE_STAND_IN_FAIL", name) {
        return match name {
            _ if name.starts_with("cudnn") => cudnn::EXECUTION_FAILED,
            _ if name.starts_with("nccl") => nccl::SYSTEM_ERROR,
            _ if name.starts_with("cuMemAlloc") => cuda::OUT_OF_MEMORY,
            _ => cuda::LAUNCH_FAILED,
        };
    }
    body().err().unwrap_or(0)
}

/// Whether an environment variable has a value.
fn asked(variable: &str, value: &str) -> bool {
    std::env::var_os(variable).is_some_and(|found| found == value)
}

/// The number that an environment variable has.
fn number<T: FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Writes a result, if there is a place for it.
fn put<T>(out: Out<'_, T>, value: T, null: Code) -> Result<(), Code> {
    out.ok_or(null)?.write(value);
    Ok(())
}
