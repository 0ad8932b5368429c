//! The code, flash and RAM that `tidegate inspect --for` estimates, beside those of the firmware with the same image.

use std::fs;
use std::process::Command;
use std::time::Duration;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use serde_json::Value;

use crate::Failure;
use crate::firmware::{self, Firmware};
use crate::shell::{self, about};
use crate::size::Size;

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

/// The programs with networks that people use, and whether the estimate of their code is near as well. In the convolutions
/// and the LSTM of Silero's network in floats, the compiler inlines more than in a program of every kind of layer.
const SHIPPED: [(&str, bool); 4] =
    [("kws_stream", true), ("kws_stream_f32", true), ("wake_word", true), ("vad", false)];
/// Bytes that an estimate may be off in small programs, where the compiler knows the model's sizes.
const FEW: u64 = 3 << 10;

/// Fails if an estimate is off by more than a tenth for a shipped network. In the other programs, and in those of
/// [`SHIPPED`] that say so, the code may be off by a quarter, or by [`FEW`] bytes.
pub fn near(firmware: &Firmware, size: &Size) -> Result<(), Failure> {
    let path = firmware.elf();
    let bytes = fs::read(&path).map_err(about(&path))?;
    let elf = object::File::parse(bytes.as_slice()).map_err(about(&path))?;
    let is_text = |symbol: &object::Symbol<'_, '_>| {
        let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
        section.is_some_and(|section| section.kind() == SectionKind::Text)
    };
    let is_ours = |name: &str| OURS.iter().any(|part| name.contains(part));
    let ours = elf.symbols().filter(|symbol| symbol.name().is_ok_and(is_ours) && is_text(symbol));
    let found = ours.map(|symbol| symbol.size()).sum::<u64>() + size.rodata_bytes;
    // The image is the only part of the program with its magic.
    let at =
        bytes.windows(6).position(|window| window == b"TGIM\x01\x00").ok_or_else(|| about(&path)("has no image"))?;
    let image = firmware::target_dir().join(format!("{}_{}.tgi", firmware.name, firmware.machine.core));
    shell::write(&image, &bytes[at..])?;
    let (_, core) = CORES.iter().find(|(core, _)| *core == firmware.machine.core).ok_or("an unknown core")?;
    let mut inspect = Command::new(firmware::workspace_target_dir().join("release/tidegate"));
    inspect.arg("inspect").arg(&image).args(["--for", core, "--json"]);
    let told: Value = serde_json::from_str(&shell::output_within(inspect, LIMIT)?).map_err(about(&image))?;
    let number = |name: &str| told["device"][name].as_u64().ok_or_else(|| format!("no estimate of {name}"));
    let (code, ram, stack) = (number("code_bytes")?, number("ram_bytes")?, number("stack_bytes")?);
    let shipped = SHIPPED.iter().find(|(name, _)| *name == firmware.name);
    let tenth = |value: u64| value / 10;
    let most = if shipped.is_some_and(|(_, is_near)| *is_near) { tenth(found) } else { FEW.max(found / 4) };
    let mut compared = vec![("code and tables", found, code, most)];
    if shipped.is_some() {
        let flash = size.weight_bytes + found;
        compared.push(("flash", flash, size.weight_bytes + code, tenth(flash)));
        let used = size.stack_of_step.map(|bytes| ram - stack + bytes);
        compared.extend(used.map(|used| ("RAM", used, ram, tenth(used))));
    }
    for (what, found, estimate, most) in compared {
        let text = format!("{what} of {}: {found} bytes, estimated {estimate}", firmware.what());
        shell::say(&format!("    {text}"));
        if found.abs_diff(estimate) > most {
            return Err(text);
        }
    }
    Ok(())
}
