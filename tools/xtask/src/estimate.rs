//! The code that `tidegate inspect --for` estimates, beside that of the firmware with the same image.

use std::fs;
use std::process::Command;
use std::time::Duration;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use serde_json::Value;

use crate::Failure;
use crate::firmware::{self, Firmware};
use crate::shell::{self, about};

/// Parts of the names of our functions, and of those that compilers add for us.
const OURS: [&str; 7] = ["8tidegate", "17compiler_builtins", "4libm", "4half", "__aeabi_", "mem", "__"];
const LIMIT: Duration = Duration::from_secs(60);
/// The names of the cores of [`firmware::MACHINES`] on the command line.
const CORES: [(&str, &str); 6] = [
    ("m0plus", "cortex-m0plus"),
    ("m3", "cortex-m3"),
    ("m4", "cortex-m4"),
    ("m7", "cortex-m7"),
    ("m55", "cortex-m55"),
    ("rv32", "riscv32"),
];

/// Bytes that an estimate may be off in small programs, where the compiler knows the model's sizes.
const FEW: u64 = 3 << 10;

/// Fails if the estimate is off by more than a quarter, and by more than [`FEW`] bytes. The estimate omits the detector.
pub fn code(firmware: &Firmware, rodata_bytes: u64) -> Result<(), Failure> {
    let path = firmware.elf();
    let bytes = fs::read(&path).map_err(about(&path))?;
    let elf = object::File::parse(bytes.as_slice()).map_err(about(&path))?;
    let is_text = |symbol: &object::Symbol<'_, '_>| {
        let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
        section.is_some_and(|section| section.kind() == SectionKind::Text)
    };
    let is_ours = |name: &str| OURS.iter().any(|part| name.contains(part));
    let ours = elf.symbols().filter(|symbol| symbol.name().is_ok_and(is_ours) && is_text(symbol));
    let found = ours.map(|symbol| symbol.size()).sum::<u64>() + rodata_bytes;
    // The image is the only part of the program with its magic.
    let at =
        bytes.windows(6).position(|window| window == b"TGIM\x01\x00").ok_or_else(|| about(&path)("has no image"))?;
    let image = firmware::target_dir().join(format!("{}_{}.tgi", firmware.name, firmware.machine.core));
    shell::write(&image, &bytes[at..])?;
    let (_, core) = CORES.iter().find(|(core, _)| *core == firmware.machine.core).ok_or("an unknown core")?;
    let mut inspect = Command::new(firmware::workspace_target_dir().join("release/tidegate"));
    inspect.arg("inspect").arg(&image).args(["--for", core, "--json"]);
    let told: Value = serde_json::from_str(&shell::output_within(inspect, LIMIT)?).map_err(about(&image))?;
    let estimate = told["device"]["code_bytes"].as_u64().ok_or("no estimate of the code")?;
    let text = format!("code and tables of {}: {found} bytes, estimated {estimate}", firmware.what());
    shell::say(&format!("    {text}"));
    if found.abs_diff(estimate) <= FEW.max(found / 4) { Ok(()) } else { Err(text) }
}
