//! No panic and no heap in the smallest firmware, and every image only once: symbols and bytes are read.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSymbol};

use crate::Failure;
use crate::firmware::Firmware;

/// In Rust's mangling, old and new, the length of a name stands before it. Every panic of `core` goes through the
/// module `panicking`; an allocation through one of these functions or the crate `alloc`.
const UNWANTED: [(&str, &str); 5] = [
    ("4core9panicking", "panics"),
    ("rust_begin_unwind", "panics"),
    ("__rust_alloc", "allocates"),
    ("__rg_alloc", "allocates"),
    ("5alloc5alloc", "allocates"),
];

/// What computes in floats on a core without an FPU: the run-time ABI of Arm (IHI 0043, 5.1.2), and the names that
/// compilers have everywhere, `__addsf3`.
const FLOAT_ABI: [&str; 9] = [
    "__aeabi_f",
    "__aeabi_d",
    "__aeabi_cf",
    "__aeabi_cd",
    "__aeabi_i2",
    "__aeabi_ui2",
    "__aeabi_l2",
    "__aeabi_ul2",
    "__aeabi_h",
];
const FLOAT_NAMES: [&str; 4] = ["sf", "df", "hf", "tf"];

/// Fails with the symbols that should not be there.
pub fn neither_panics_nor_allocates(name: &str, path: &Path) -> Result<(), Failure> {
    lacks(name, path, "panics or allocates", reproach)
}

/// Fails with the symbols that compute in floats. For targets without an FPU: there every operation is a call.
pub fn has_no_floats(name: &str, path: &Path) -> Result<(), Failure> {
    lacks(name, path, "computes in floats", |symbol| is_float(symbol).then_some("floats"))
}

fn lacks(name: &str, path: &Path, what: &str, reproach: fn(&str) -> Option<&'static str>) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| failed(&error))?;
    let elf = object::File::parse(bytes.as_slice()).map_err(|error| failed(&error))?;
    let names: Vec<&str> = elf.symbols().filter_map(|symbol| symbol.name().ok()).collect();
    // A stripped program would pass.
    if !names.iter().any(|name| ["main", "Reset_Handler"].contains(name)) {
        return Err(failed(&"has no symbol of its start: is it stripped?"));
    }
    let found: Vec<String> =
        names.iter().filter_map(|name| reproach(name).map(|does| format!("{name} ({does})"))).collect();
    if found.is_empty() {
        eprintln!("    none of {} symbols {what}", names.len());
        return Ok(());
    }
    Err(format!("{name} has {}", found.join(", ")))
}

/// Fails unless the debug build holds the image once: with a `const` in place of its `static`, `kws_stream` has it twice.
pub fn image_is_there_once(firmware: &Firmware) -> Result<(), Failure> {
    let path = firmware.elf("debug");
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    // Magic and format version.
    match bytes.windows(6).filter(|window| *window == b"TGIM\x01\x00").count() {
        1 => Ok(()),
        0 if firmware.name == "bare" => Ok(()),
        count => Err(format!("{} holds {count} images, but should hold one", path.display())),
    }
}

fn reproach(symbol: &str) -> Option<&'static str> {
    UNWANTED.iter().find(|(part, _)| symbol.contains(part)).map(|&(_, does)| does)
}

/// `__aeabi_fadd`, `__mulsf3`, `__floatsisf`, `__fixsfsi`; by these names a builtin is called, mangled or not.
fn is_float(symbol: &str) -> bool {
    let named = |name: &str| {
        let Some(rest) = name.strip_prefix("__") else { return false };
        let digit = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        FLOAT_NAMES.iter().any(|float| digit.ends_with(float)) || rest.starts_with("float") || rest.starts_with("fix")
    };
    FLOAT_ABI.iter().any(|start| symbol.starts_with(start))
        || named(symbol)
        || symbol.contains("17compiler_builtins5float")
}

#[cfg(test)]
mod tests {
    use super::{is_float, reproach};

    #[test]
    fn floats_are_known_by_their_symbols() {
        for symbol in [
            "__aeabi_fadd",
            "__aeabi_dmul",
            "__aeabi_i2f",
            "__aeabi_ui2d",
            "__aeabi_cfcmple",
            "__addsf3",
            "__mulsf3",
            "__gtsf2",
            "__floatsisf",
            "__fixunssfsi",
            "__extendsfdf2",
            "_ZN17compiler_builtins5float3add17h0123456789abcdefE",
        ] {
            assert!(is_float(symbol), "{symbol}");
        }
        for symbol in [
            "__aeabi_memclr4",
            "__aeabi_uidiv",
            "__aeabi_idivmod",
            "__aeabi_lmul",
            "__aeabi_llsl",
            "__divsi3",
            "__muldi3",
            "_ZN17firmware_examples7Console3hex17h8f23f03c060b2478E",
            "__stack_chk",
            "memcpy",
            "main",
        ] {
            assert!(!is_float(symbol), "{symbol}");
        }
    }

    #[test]
    fn panics_and_allocations_are_known_by_their_symbols() {
        let does = |symbol| reproach(symbol).unwrap_or("nothing");
        assert_eq!(does("_ZN4core9panicking18panic_bounds_check17hd3f0d7fa9fcd5cc6E"), "panics");
        assert_eq!(does("_RNvNtCs7jPIqz0K7rQ_4core9panicking9panic_fmt"), "panics");
        assert_eq!(does("_RNvCs9t7zz_7___rustc17rust_begin_unwind"), "panics");
        assert_eq!(does("_RNvCs9t7zz_7___rustc12___rust_alloc"), "allocates");
        assert_eq!(does("_ZN5alloc5alloc18handle_alloc_error17h0123456789abcdefE"), "allocates");
        assert_eq!(does("_ZN8tidegate4cell4lstm6update17h576066dea69a4be9E"), "nothing");
    }
}
