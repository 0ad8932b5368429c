//! Flash, RAM and stack of the firmware, compared with the record in `firmware-examples/expected/size.json`.

use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol};
use serde::{Deserialize, Serialize};

use crate::firmware::{self, ANY, Firmware, MPS2_AN386, Machine, Output, UPDATE};
use crate::record::{self, GROWTH_PERCENT, outgrown};
use crate::shell::{self, step};
use crate::{Failure, c, install};

/// `hello_integer` without its network: the same output, inputs and ports.
const BARE: &str = "bare";
/// Upper bound of the code of the f32 LSTM on a core with an FPU. The code includes activations, start-up, printing and
/// the unused cells.
const HELLO_TEXT_LIMIT: u64 = 12 << 10;
/// Upper bound of the code and tables of verifier and updater, beside those of the runtime.
const UPDATER: u64 = 12 << 10;
/// Upper bound of the instructions that `update` counts: the measured number, rounded up.
const VERIFICATION: u64 = 13_000_000;
/// Upper bound of the stack of an update, with everything that it keeps in RAM: the measured size, rounded up.
const UPDATE_STACK: u64 = 12 << 10;

/// The figures of one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    machine: String,
    target: String,
    pub firmware: String,
    /// Code.
    text_bytes: u64,
    /// Constants, except the images and the recording that replaces the microphone.
    pub rodata_bytes: u64,
    /// Images.
    pub weight_bytes: u64,
    /// Statics.
    ram_bytes: u64,
    /// Peak stack use of the whole run.
    stack_bytes: u64,
    /// Peak stack use of a step, if the program prints it.
    #[serde(skip)]
    pub stack_of_step: Option<u64>,
    /// Instructions of a verification, if the program prints them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verification_instructions: Option<u64>,
}

/// Measures every program, then prints, records or compares.
pub fn run(json: bool, overwrite_expected: bool) -> Result<(), Failure> {
    install::targets()?;
    install::qemu()?;
    firmware::build()?;
    c::build()?;
    let sizes = firmware::all().map(|firmware| measure(&firmware, &firmware.run()?));
    let sizes = sizes.chain(c::ALL.iter().map(|example| example.measure(&example.run()?)));
    let sizes = sizes.collect::<Result<Vec<_>, Failure>>()?;
    let text = serde_json::to_string_pretty(&sizes).expect("figures and names are JSON");
    if json {
        println!("{text}");
        return Ok(());
    }
    if overwrite_expected {
        return record::write(&record_path(), &(text + "\n"));
    }
    step("size of an LSTM in i8x16", || lstm_path(&sizes))?;
    step("size of verifier and updater", || updater(&sizes))?;
    for size in &sizes {
        step(&format!("size of {}", size.key().join(" ")), || compare(size))?;
    }
    Ok(())
}

/// Fails if code and tables of the integer LSTM on a Cortex-M4F, with engine, states and ports, exceed 5 KiB.
fn lstm_path(sizes: &[Size]) -> Result<(), Failure> {
    let path = bytes(sizes, "hello_integer")?.saturating_sub(bytes(sizes, BARE)?);
    holds("code and tables of an LSTM in i8x16", path, 5 << 10)
}

/// Fails if verifier and updater on a Cortex-M4F have outgrown their bound, beside the runtime that parses any image.
fn updater(sizes: &[Size]) -> Result<(), Failure> {
    holds("code and tables of verifier and updater", bytes(sizes, UPDATE)?.saturating_sub(bytes(sizes, ANY)?), UPDATER)
}

/// Code and tables of a program on a Cortex-M4F.
fn bytes(sizes: &[Size], firmware: &str) -> Result<u64, Failure> {
    let size = sizes.iter().find(|size| size.machine == MPS2_AN386.name && size.firmware == firmware);
    size.map(|size| size.text_bytes + size.rodata_bytes).ok_or_else(|| format!("{firmware} was not measured"))
}

/// Prints a figure and its upper bound.
///
/// # Errors
/// If the figure exceeds it.
fn holds(what: &str, bytes: u64, bound: u64) -> Result<(), Failure> {
    let text = format!("{what}: {bytes}, at most {bound}");
    eprintln!("    {text}");
    if bytes <= bound { Ok(()) } else { Err(text) }
}

fn record_path() -> PathBuf {
    firmware::expected_dir().join("size.json")
}

/// Measures a program in Rust.
pub fn measure(firmware: &Firmware, run: &Output) -> Result<Size, Failure> {
    of(firmware.machine, firmware.name, &firmware.elf(), run)
}

impl c::Example {
    /// Measures a program in C.
    pub fn measure(&self, run: &Output) -> Result<Size, Failure> {
        of(&MPS2_AN386, self.name, &self.elf()?, run)
    }
}

/// Reads the sections and symbols of a program, and the output of its run.
fn of(machine: &Machine, name: &str, path: &Path, run: &Output) -> Result<Size, Failure> {
    let bytes = fs::read(path).map_err(shell::about(path))?;
    let elf = object::File::parse(bytes.as_slice()).map_err(shell::about(path))?;
    let section = |name: &str| elf.section_by_name(name).map_or(0, |section| section.size());
    let statics = |names: &[&str]| -> u64 {
        let is_one = |found: &str| names.iter().any(|name| found.contains(name));
        elf.symbols().filter(|symbol| symbol.name().is_ok_and(is_one)).map(|symbol| symbol.size()).sum()
    };
    // `static IMAGE` and `static CLIP_7` as Rust mangles them, with the length of the name in front, and the names in C.
    let weight_bytes = statics(&["5IMAGE", "kws_image"]);
    let recording = statics(&["6CLIP_", "7CLIP_", "5CLIPS", "clip_"]);
    if weight_bytes == 0 && name != BARE {
        return Err(shell::about(path)("no symbol of `static IMAGE`"));
    }
    Ok(Size {
        machine: machine.name.into(),
        target: machine.target.into(),
        firmware: name.into(),
        text_bytes: section(".text"),
        rodata_bytes: section(".rodata").saturating_sub(weight_bytes + recording),
        weight_bytes,
        ram_bytes: section(".data") + section(".bss") + section(".uninit"),
        stack_bytes: run.stack_bytes.into(),
        stack_of_step: run.stack_of_step.map(u64::from),
        verification_instructions: run.instructions.map(u64::from),
    })
}

/// Fails if a figure has outgrown its record or exceeds its bound.
pub fn compare(found: &Size) -> Result<(), Failure> {
    let path = record_path();
    let record: Vec<Size> = serde_json::from_str(&shell::read(&path)?).map_err(shell::about(&path))?;
    let recorded = record
        .iter()
        .find(|size| size.key() == found.key())
        .ok_or_else(|| format!("{} has no {}", path.display(), found.key().join(" ")))?;
    let mut grown = Vec::new();
    if found.figures().len() != recorded.figures().len() {
        return Err(format!("{} has other figures of {}", path.display(), found.firmware));
    }
    for ((what, found), (_, recorded)) in found.figures().into_iter().zip(recorded.figures()) {
        eprintln!("    {what:12} {found:8}, recorded {recorded:8}");
        if outgrown(found, recorded) {
            grown.push(format!("{what} is {found}, the record has {recorded}"));
        }
    }
    for (what, bytes, bound) in found.bounds() {
        holds(what, bytes, bound)?;
    }
    if grown.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} has grown by more than {GROWTH_PERCENT} %: {}. If this is intended: cargo xtask size --overwrite-expected",
        found.firmware,
        grown.join("; ")
    ))
}

impl Size {
    /// Identifies the program.
    fn key(&self) -> [&str; 3] {
        [&self.machine, &self.target, &self.firmware]
    }

    /// Upper bounds. On a Cortex-M4F: the code of the smallest program, and code and tables of the integer keyword
    /// spotter with start-up and printing. On every machine: the stack of a step.
    fn bounds(&self) -> Vec<(&'static str, u64, u64)> {
        let mut bounds = Vec::new();
        match (self.machine == MPS2_AN386.name, self.firmware.as_str()) {
            (true, "kws_stream") => {
                bounds.push(("code and tables of the keyword spotter", self.text_bytes + self.rodata_bytes, 24 << 10));
            }
            (true, "hello_step") => bounds.push((".text of hello_step", self.text_bytes, HELLO_TEXT_LIMIT)),
            _ => {}
        }
        let (what, most) = match self.firmware.as_str() {
            // Slots, receiver and a block of 256 bytes are on the stack too.
            UPDATE => ("stack and RAM of an update", UPDATE_STACK),
            // The sums of several rows of a convolution in `i8` lie on the stack.
            name if name.starts_with("wake_word") => ("stack of a step", 1280),
            _ => ("stack of a step", 1 << 10),
        };
        bounds.extend(self.stack_of_step.map(|bytes| (what, bytes, most)));
        let verification = "instructions of verifying an image of 88 KB";
        bounds.extend(self.verification_instructions.map(|count| (verification, count, VERIFICATION)));
        bounds
    }

    /// Bytes, and instructions.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        let bytes = [
            ("text", self.text_bytes),
            ("rodata", self.rodata_bytes),
            ("weights", self.weight_bytes),
            ("ram", self.ram_bytes),
            ("stack", self.stack_bytes),
        ];
        bytes.into_iter().chain(self.verification_instructions.map(|count| ("verification", count))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn a_figure_over_its_bound_fails() {
        assert!(holds("stack", 1024, 1024).is_ok() && holds("stack", 1025, 1024).is_err());
    }
}
