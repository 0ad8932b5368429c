//! Instruction sets of each architecture: types that prove that the CPU has one, and their operations. All unsafe code
//! of the crate is here.

#[cfg(target_arch = "aarch64")]
pub mod aarch64;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;
