#![doc = include_str!("../README.md")]

pub mod device;
pub mod plot;
pub mod progress;
pub mod report;
pub mod zoo;

pub use tidegate_model::packing::grouped;
