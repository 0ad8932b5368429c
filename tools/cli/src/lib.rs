#![doc = include_str!("../README.md")]

pub mod plot;
pub mod progress;
pub mod report;
