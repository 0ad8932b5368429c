//! The console of QEMU.

use semihosting::{print, println};

/// Prints an output, and the label that it has or that is detected with it.
pub fn output(at_ms: u32, values: &[f32], label: Option<&str>) {
    print!("{at_ms:>6} ms");
    for value in values {
        print!(" {value:.3}");
    }
    println!("  {}", label.unwrap_or_default());
}
