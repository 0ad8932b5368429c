//! A shared library that replaces CUDA's driver, cuDNN and NCCL, so that the host side of `tidegate-gpu` can be tested
//! without a GPU: descriptors, buffers and their sizes, layouts, and the order of states and calls. Programs load it
//! under the names of the three libraries (`libcuda.so.1`, `libcudnn.so.9`, `libnccl.so.2`). Device memory is host
//! memory, and cuDNN's RNN calls are computed by [`tidegate_gpu::cpu::Stack`].
//!
//! **It proves nothing about cuDNN.** It implements cuDNN's documentation as we read it, and only the calls of
//! `tidegate-gpu`. Values that the documentation leaves undefined are NaN, and what it forbids is refused. Some checks
//! are stricter than a device's: addresses outside of an allocation or in a freed one, destroyed descriptors, and
//! backward passes with other values than the forward pass had are refused.
//!
//! | environment variable | value | effect |
//! |---|---|---|
//! | `TIDEGATE_STAND_IN_DEVICES` | a number | number of devices; the default is one |
//! | `TIDEGATE_STAND_IN_LAYOUT` | `apart` | parameters have another layout than [described](tidegate_gpu::layout) |
//! | `TIDEGATE_STAND_IN_ALGORITHMS` | `standard` | only the standard algorithm is supported, as on an old device |
//! | `TIDEGATE_STAND_IN_VERSION` | a `CUDNN_VERSION` | version of cuDNN that is reported |
//! | `TIDEGATE_STAND_IN_SUMS` | `apart` | NCCL's sums in this process are slightly wrong |
//! | `TIDEGATE_STAND_IN_FAIL` | a function | this function always fails |
#![cfg(target_os = "linux")]
#![deny(missing_docs)]
// Exported functions have the names and arguments of the C headers.
#![allow(non_snake_case, clippy::too_many_arguments)]

/// Exports functions under their names in the C headers. They return zero or the error code of their body.
macro_rules! export {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $($(#[$doc])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $type),*) -> $crate::Code {
            $crate::call(stringify!($name), || $body)
        })*
    };
    ($($(#[$doc:meta])* unsafe fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $($(#[$doc])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: $type),*) -> $crate::Code {
            $crate::call(stringify!($name), || $body)
        })*
    };
}

mod compute;
mod descriptors;
mod driver;
mod layout;
mod machine;
mod nccl;
mod run;
mod space;
#[cfg(test)]
mod tests;

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::str::FromStr;

/// Return value of a function: zero, or an error code of its library.
type Code = c_int;
/// A handle that only this library interprets: a number, never a host address.
type Opaque = *mut c_void;
/// Pointer to a result; `None` is a null pointer.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Error codes of the driver, named as in `cuda.h`.
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

/// Error codes of cuDNN 9 (`cudnn_graph.h`).
mod cudnn {
    use super::Code;

    pub const NOT_INITIALIZED: Code = 1001;
    pub const BAD_PARAM: Code = 2000;
    pub const NOT_SUPPORTED: Code = 3000;
    pub const EXECUTION_FAILED: Code = 5000;
}

/// Runs the body of a function, unless it is set to fail.
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

fn asked(variable: &str, value: &str) -> bool {
    std::env::var_os(variable).is_some_and(|found| found == value)
}

fn number<T: FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Refuses a call with this code unless the condition holds.
fn need(holds: bool, code: Code) -> Result<(), Code> {
    if holds { Ok(()) } else { Err(code) }
}

/// Writes a result. A null pointer is the error `null`.
fn put<T>(out: Out<'_, T>, value: T, null: Code) -> Result<(), Code> {
    out.ok_or(null)?.write(value);
    Ok(())
}
