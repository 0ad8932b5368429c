//! All tests of the measuring program, in one binary.

mod gpu;
#[cfg(all(feature = "cudnn", target_os = "linux"))]
#[path = "../../tests/machine.rs"]
mod machine;
mod record;
#[cfg(all(feature = "cudnn", target_os = "linux"))]
mod stand_in;
