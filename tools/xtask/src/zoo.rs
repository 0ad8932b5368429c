//! The networks of `tools/cli/zoo.json`: packs each for three cores, counts the instructions of its steps under QEMU, and
//! writes the figures into the same file.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::firmware::{self, FAST, Firmware, MACHINES, Machine};
use crate::record::{self, outgrown};
use crate::shell::{self, about, output_within, root, step};
use crate::{Failure, install};

const PROGRAM: &str = "zoo";
/// The cores of the figures: the smallest one, the usual one, and one with vectors.
const CORES: [&str; 3] = ["m0plus", "m4", "m55"];
/// Steps over which instructions are counted: as many as fit into this many multiply-accumulates, between two bounds. All
/// windows are full after the least.
const MACS: u64 = 20_000_000;
const STEPS: (u64, u64) = (24, 480);
const PACK_LIMIT: Duration = Duration::from_secs(300);

/// A network that people use.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    task: String,
    /// The repository on GitHub that publishes it.
    origin: String,
    licence: String,
    /// The file in the test data.
    path: String,
    /// The file in the repository of origin.
    source: String,
    /// Arguments of `tidegate pack`.
    arguments: Vec<String>,
    /// Microseconds from step to step; 0 if the network has no clock.
    step_us: f64,
    /// The test that compares it with its own framework.
    check: String,
    /// The outcome of that test.
    result: String,
    /// The accuracy by a public measure, if there is one. Tests compare it with what they measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<Figures>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    numeric: String,
    file_bytes: u64,
    /// The image.
    flash_bytes: u64,
    /// Code and tables for the network and its front end on a Cortex-M4, as `tidegate inspect --for` estimates them.
    code_bytes: u64,
    /// State, scratch, front end and detector.
    ram_bytes: u64,
    macs: u64,
    /// The part of real time that a Cortex-M4 at 120 MHz is busy, by modelled cycles; none without a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_m4: Option<f64>,
    /// The arena of TensorFlow Lite Micro, if its authors state it.
    #[serde(skip_serializing_if = "Option::is_none")]
    arena_bytes: Option<u64>,
    /// By core.
    instructions: BTreeMap<String, Counts>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Counts {
    /// A step of the network, on average.
    step: u64,
    /// The front end between two steps; 0 without a front end.
    front_end: u64,
}

/// Measures the networks with `part` in their names, then records or compares.
pub fn run(part: &str, overwrite_expected: bool) -> Result<(), Failure> {
    let data = env::var_os("TIDEGATE_DATA_DIR").map(PathBuf::from);
    let data = data.ok_or("the networks are in the test data: set TIDEGATE_DATA_DIR")?;
    install::targets()?;
    install::qemu()?;
    let targets = machines().map(|machine| (machine.target, PROGRAM));
    firmware::build_for(FAST, targets)?;
    firmware::build_command_line()?;
    let path = root().join("tools/cli/zoo.json");
    let mut entries: Vec<Entry> = serde_json::from_str(&shell::read(&path)?).map_err(about(&path))?;
    let mut grown = Vec::new();
    for entry in entries.iter_mut().filter(|entry| entry.name.contains(part)) {
        let found = step(&entry.name.clone(), || measured(entry, &data))?;
        match &entry.figures {
            Some(known) if !overwrite_expected => grown.extend(compared(&entry.name, &found, known)),
            _ => entry.figures = Some(found),
        }
    }
    if overwrite_expected {
        let text = serde_json::to_string_pretty(&entries).expect("figures and names are JSON");
        return record::write(&path, &(text + "\n"));
    }
    if grown.is_empty() { Ok(()) } else { Err(format!("figures have grown:\n{}", grown.join("\n"))) }
}

fn machines() -> impl Iterator<Item = &'static Machine> {
    MACHINES.iter().filter(|machine| CORES.contains(&machine.core))
}

fn measured(entry: &Entry, data: &Path) -> Result<Figures, Failure> {
    let file = data.join(&entry.path);
    let folder = firmware::target_dir().join("zoo");
    fs::create_dir_all(&folder).map_err(about(&folder))?;
    // A description names its model.
    let model = if file.with_extension("tflite").is_file() { file.with_extension("tflite") } else { file.clone() };
    let file_bytes = fs::metadata(&model).map_err(about(&model))?.len();
    // ESPHome's description.
    let described = shell::read(&file.with_extension("json")).ok();
    let described: Value = described.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let arena_bytes = described["micro"]["tensor_arena_size"].as_u64();
    let mut figures = None;
    for machine in machines() {
        let image = folder.join(format!("{}.tgi", machine.layout));
        let mut pack = tidegate();
        pack.arg("pack").arg(&file).arg("-o").arg(&image).args(&entry.arguments);
        // Only integers have layouts.
        if !entry.arguments.iter().any(|argument| ["f16", "f32"].contains(&argument.as_str())) {
            pack.args(["--for", machine.layout]);
        }
        output_within(pack, PACK_LIMIT)?;
        let mut inspect = tidegate();
        inspect.arg("inspect").arg("--json").arg(&image);
        if machine.core == "m4" {
            inspect.args(["--for", "cortex-m4", "--mhz", "120"]);
            if entry.step_us > 0.0 {
                inspect.args(["--every", &(entry.step_us / 1e3).to_string()]);
            }
        }
        let text = output_within(inspect, PACK_LIMIT)?;
        let known: Value = serde_json::from_str(&text).map_err(about(&image))?;
        let number = |name: &str| known[name].as_u64().ok_or_else(|| about(&image)(format!("has no {name}")));
        let macs = number("macs_per_step")?;
        let counts = counted(machine, &image, (MACS / macs.max(1)).clamp(STEPS.0, STEPS.1))?;
        let all = figures.get_or_insert(Figures {
            numeric: known["numeric"].as_str().unwrap_or_default().to_owned(),
            file_bytes,
            flash_bytes: 0,
            code_bytes: 0,
            ram_bytes: 0,
            macs,
            share_of_m4: None,
            arena_bytes,
            instructions: BTreeMap::new(),
        });
        all.instructions.insert(machine.core.to_owned(), counts);
        if machine.core == "m4" {
            all.flash_bytes = number("flash_bytes")?;
            let parts = ["state_bytes", "scratch_bytes", "front_end_bytes", "detector_bytes"].map(number);
            all.ram_bytes = parts.into_iter().sum::<Result<u64, _>>()?;
            let device = &known["device"];
            all.code_bytes = device["code_bytes"].as_u64().ok_or_else(|| about(&image)("has no code_bytes"))?;
            all.share_of_m4 = device["share"].as_f64().map(|share| (1e4 * share).round() / 1e4);
        }
    }
    figures.ok_or_else(|| "no core is measured".to_owned())
}

fn tidegate() -> Command {
    let mut command = Command::new(firmware::workspace_target_dir().join("release/tidegate"));
    command.current_dir(root());
    command
}

/// Runs an image on a machine under `-icount shift=0`.
fn counted(machine: &'static Machine, image: &Path, steps: u64) -> Result<Counts, Failure> {
    let bytes = fs::read(image).map_err(about(image))?;
    let folder = firmware::target_dir().join("zoo");
    let mut bundle: Vec<u8> = [steps, bytes.len() as u64, 0].iter().flat_map(|&n| (n as u32).to_le_bytes()).collect();
    bundle.extend(&bytes);
    bundle.resize(bundle.len().next_multiple_of(4), 0);
    shell::write(&folder.join("zoo.bin"), bundle)?;
    let firmware = Firmware { name: PROGRAM, machine };
    let mut qemu = machine.qemu(&firmware.elf());
    qemu.current_dir(&folder).args(["-icount", "shift=0"]);
    let printed = firmware.printed(qemu)?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let read = || {
        let mut numbers = printed.split_whitespace().map(number);
        Some(Counts { step: numbers.next()?? / steps, front_end: numbers.next()?? })
    };
    read().ok_or_else(|| format!("{} printed `{}`", firmware.what(), printed.trim()))
}

/// The figures that have grown.
fn compared(name: &str, found: &Figures, known: &Figures) -> Vec<String> {
    let sizes = [("flash", found.flash_bytes, known.flash_bytes), ("RAM", found.ram_bytes, known.ram_bytes)];
    let sizes = sizes.into_iter().map(|(what, found, known)| (what.to_owned(), found, known));
    let counts = found.instructions.iter().flat_map(|(core, counts)| {
        let of = known.instructions.get(core);
        let known = of.map_or([0; 2], |of| [of.step, of.front_end]);
        [("step", counts.step, known[0]), ("front end", counts.front_end, known[1])]
            .map(|(what, found, known)| (format!("instructions of the {what} on {core}"), found, known))
    });
    let grown = sizes.chain(counts).filter(|&(_, found, known)| outgrown(found, known));
    grown.map(|(what, found, known)| format!("{name}: {what} {found}, the record has {known}")).collect()
}
