//! Checks of linked programs: no panics and no heap in the smallest firmware and in updates, no floats without an FPU, and
//! only one copy of the image.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSymbol};

use crate::Failure;
use crate::firmware::{Firmware, UPDATE};
use crate::shell::about;

/// Parts of unwanted symbols. In Rust's mangling, old and new, each name is preceded by its length. Every panic of
/// `core` goes through the module `panicking`, and every allocation through one of these functions or the crate
/// `alloc`.
const UNWANTED: [(&str, &str); 5] = [
    ("4core9panicking", "panics"),
    ("rust_begin_unwind", "panics"),
    ("__rust_alloc", "allocates"),
    ("__rg_alloc", "allocates"),
    ("5alloc5alloc", "allocates"),
];

/// Starts of the float functions in Arm's run-time ABI (IHI 0043, 5.1.2).
const FLOAT_ABI: &str =
    "__aeabi_f __aeabi_d __aeabi_cf __aeabi_cd __aeabi_i2 __aeabi_ui2 __aeabi_l2 __aeabi_ul2 __aeabi_h";
/// Ends of the float functions that compilers have for every target, such as `__addsf3`, without the digit.
const FLOAT_NAMES: [&str; 4] = ["sf", "df", "hf", "tf"];

/// Fails if the program has symbols of panics or allocations.
pub fn neither_panics_nor_allocates(name: &str, path: &Path) -> Result<(), Failure> {
    lacks(name, path, "panics or allocates", reproach)
}

/// Fails if the program has float functions. Only for targets without an FPU, where every float operation is a call.
pub fn has_no_floats(name: &str, path: &Path) -> Result<(), Failure> {
    lacks(name, path, "computes in floats", |symbol| is_float(symbol).then_some("floats"))
}

fn lacks(name: &str, path: &Path, what: &str, reproach: fn(&str) -> Option<&'static str>) -> Result<(), Failure> {
    let bytes = fs::read(path).map_err(about(path))?;
    let elf = object::File::parse(bytes.as_slice()).map_err(about(path))?;
    let names: Vec<&str> = elf.symbols().filter_map(|symbol| symbol.name().ok()).collect();
    // A stripped program would pass.
    if !names.iter().any(|name| ["main", "Reset_Handler"].contains(name)) {
        return Err(about(path)("has no symbol of its start: is it stripped?"));
    }
    let found: Vec<String> =
        names.iter().filter_map(|name| reproach(name).map(|does| format!("{name} ({does})"))).collect();
    if found.is_empty() {
        eprintln!("    none of {} symbols {what}", names.len());
        return Ok(());
    }
    Err(format!("{name} has {}", found.join(", ")))
}

/// Fails unless the debug build contains each of its images exactly once. With a `const` instead of the `static`,
/// `kws_stream` would contain it twice.
pub fn image_is_there_once(firmware: &Firmware) -> Result<(), Failure> {
    let path = firmware.elf();
    let bytes = fs::read(&path).map_err(about(&path))?;
    let expected = match firmware.name {
        "bare" => 0,
        "wake_word_gated" | UPDATE => 2,
        _ => 1,
    };
    // Magic and format version.
    let count = bytes.windows(6).filter(|window| *window == b"TGIM\x01\x00").count();
    if count == expected {
        return Ok(());
    }
    Err(format!("{} holds {count} images, but should hold {expected}", path.display()))
}

fn reproach(symbol: &str) -> Option<&'static str> {
    UNWANTED.iter().find(|(part, _)| symbol.contains(part)).map(|&(_, does)| does)
}

/// Whether a symbol is a float function, such as `__aeabi_fadd`, `__mulsf3`, `__floatsisf` or `__fixsfsi`.
fn is_float(symbol: &str) -> bool {
    let named = |name: &str| {
        let Some(rest) = name.strip_prefix("__") else { return false };
        let digit = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        FLOAT_NAMES.iter().any(|float| digit.ends_with(float)) || rest.starts_with("float") || rest.starts_with("fix")
    };
    FLOAT_ABI.split(' ').any(|start| symbol.starts_with(start))
        || named(symbol)
        || symbol.contains("17compiler_builtins5float")
}

#[cfg(test)]
mod tests {
    use super::{is_float, reproach};

    #[test]
    fn floats_are_known_by_their_symbols() {
        let floats = "__aeabi_fadd __aeabi_dmul __aeabi_i2f __aeabi_ui2d __aeabi_cfcmple __addsf3 __mulsf3 \
            __gtsf2 __floatsisf __fixunssfsi __extendsfdf2 \
            _ZN17compiler_builtins5float3add17h0123456789abcdefE";
        for symbol in floats.split(' ') {
            assert!(is_float(symbol), "{symbol}");
        }
        let others = "__aeabi_memclr4 __aeabi_uidiv __aeabi_idivmod __aeabi_lmul __aeabi_llsl __divsi3 \
            __muldi3 _ZN17firmware_examples7Console3hex17h8f23f03c060b2478E __stack_chk memcpy main";
        for symbol in others.split(' ') {
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
