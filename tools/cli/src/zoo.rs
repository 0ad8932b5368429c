//! The networks of the zoo, which `cargo xtask zoo` measures.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// The record.
pub const JSON: &str = include_str!("../zoo.json");

/// A network that people use.
#[derive(Debug, Deserialize)]
pub struct Entry {
    /// Unique name.
    pub name: String,
    /// The task.
    pub task: String,
    /// The repository on GitHub that publishes it.
    pub origin: String,
    /// The licence.
    pub licence: String,
    /// The file in that repository.
    pub source: String,
    /// The file in the project's test data.
    pub path: String,
    /// Arguments of `tidegate pack`.
    pub arguments: Vec<String>,
    /// Microseconds from step to step; 0 if the network has no clock.
    pub step_us: f64,
    /// The test that compares the network with its own framework.
    pub check: String,
    /// The outcome of that test.
    pub result: String,
    /// The accuracy by a public measure, if there is one.
    pub accuracy: Option<String>,
    /// The costs.
    pub figures: Figures,
}

/// The costs of a network.
#[derive(Debug, Deserialize)]
pub struct Figures {
    /// The numeric of the image.
    pub numeric: String,
    /// Bytes of the file of origin.
    pub file_bytes: u64,
    /// Bytes of the image.
    pub flash_bytes: u64,
    /// Bytes of code and tables on a Cortex-M4, estimated.
    pub code_bytes: u64,
    /// Bytes of state, scratch, front end and detector.
    pub ram_bytes: u64,
    /// Multiply-accumulates of a step.
    pub macs: u64,
    /// The part of real time that a Cortex-M4 at 120 MHz is busy, by modelled cycles; `None` without a clock.
    pub share_of_m4: Option<f64>,
    /// Instructions, by core.
    pub instructions: BTreeMap<String, Counts>,
}

/// Instructions on a core.
#[derive(Debug, Deserialize)]
pub struct Counts {
    /// A step of the network, on average.
    pub step: u64,
    /// The front end between two steps; 0 without a front end.
    pub front_end: u64,
}

impl Entry {
    /// The name of the file.
    pub fn file(&self) -> String {
        Path::new(&self.path).file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Arguments of `tidegate pack` that make an image for a Cortex-M4 from `file`.
    pub fn packing<'a>(&'a self, file: &'a str, image: &'a str) -> Vec<&'a str> {
        // Only integers have layouts.
        let is_float = self.arguments.iter().any(|argument| ["f16", "f32"].contains(&argument.as_str()));
        let layout: &[&str] = if is_float { &[] } else { &["--for", "cortex-m4"] };
        let own = self.arguments.iter().map(String::as_str);
        ["pack", file, "-o", image].into_iter().chain(own).chain(layout.iter().copied()).collect()
    }

    /// Millions of instructions per second of sound on a core; `None` for a network without a clock.
    pub fn per_second(&self, core: &str) -> Option<f64> {
        let counts = self.figures.instructions.get(core)?;
        (self.step_us > 0.0).then(|| (counts.step + counts.front_end) as f64 / self.step_us)
    }
}

/// Every network, in the order of the record.
///
/// # Errors
/// If the record is malformed.
pub fn entries() -> serde_json::Result<Vec<Entry>> {
    serde_json::from_str(JSON)
}
