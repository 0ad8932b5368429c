//! Shared by the tests: tolerances, the oracle, random models, golden cases, and the bodies of the fuzz targets.
//!
//! A valid image in a `const` compiles:
//!
//! ```
//! use tidegate::{Aligned, ImageBytes, Model};
//! const GOOD: [u8; LEN] = *include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/examples/kws.tgi"));
//! const LEN: usize = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/examples/kws.tgi")).len();
//! static IMAGE: &Aligned<[u8]> = &Aligned(GOOD);
//! const MODEL: Model = match Model::parse(ImageBytes::from_aligned(IMAGE)) { Ok(m) => m, Err(_) => panic!() };
//! assert_eq!(MODEL.input_size(), 2);
//! ```
//!
//! The same program with one bit of the image flipped does not:
//!
//! ```compile_fail
//! use tidegate::{Aligned, ImageBytes, Model};
//! const GOOD: [u8; LEN] = *include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/examples/kws.tgi"));
//! const LEN: usize = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/examples/kws.tgi")).len();
//! const DAMAGED: [u8; LEN] = { let mut bytes = GOOD; bytes[LEN / 2] ^= 1; bytes };
//! static IMAGE: &Aligned<[u8]> = &Aligned(DAMAGED);
//! const MODEL: Model = match Model::parse(ImageBytes::from_aligned(IMAGE)) { Ok(m) => m, Err(_) => panic!() };
//! assert_eq!(MODEL.input_size(), 2);
//! ```
//!
//! The cause is the flipped bit, not the block around it:
//!
//! ```
//! use tidegate::{Aligned, ImageBytes, Model};
//! const GOOD: [u8; LEN] = *include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/examples/kws.tgi"));
//! const LEN: usize = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/examples/kws.tgi")).len();
//! const WHOLE: [u8; LEN] = { let mut bytes = GOOD; bytes[LEN / 2] ^= 0; bytes };
//! static IMAGE: &Aligned<[u8]> = &Aligned(WHOLE);
//! const MODEL: Model = match Model::parse(ImageBytes::from_aligned(IMAGE)) { Ok(m) => m, Err(_) => panic!() };
//! assert_eq!(MODEL.input_size(), 2);
//! ```

pub mod backend;
pub mod bytes;
pub mod checkpoint;
pub mod corpus;
pub mod crafted;
pub mod data;
pub mod exact;
pub mod fields;
pub mod front_end;
pub mod fuzz;
pub mod fuzz_data;
pub mod fuzz_import;
pub mod fuzz_keras;
pub mod golden;
pub mod graphs;
pub mod hdf5;
pub mod hostile;
pub mod images;
pub mod import;
pub mod measured;
pub mod memory;
pub mod network;
pub mod onnx;
pub mod oracle;
pub mod random;
pub mod tflite;
pub mod tolerance;
pub mod twin;
pub mod twin_front_end;
pub mod twin_micro;
pub mod zoo;

/// The examples of `docs/hosts.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/hosts.md")]
struct Hosts;
