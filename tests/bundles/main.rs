//! Writes the input files of the firmware programs `same_bits` and `icount` with the results that the host computes.
//! `bundles FOLDER` creates a subfolder for each layout, and one with the updates of the micro:bit. `cargo xtask qemu` and
//! `cargo xtask icount` call it. With `bundles FOLDER costs` the files are those of `cargo xtask costs`.

mod costs;
mod icount;
mod same_bits;
#[path = "../../firmware-examples/build/spotter.rs"]
#[expect(dead_code, reason = "the build scripts of the firmware use the rest")]
mod spotter;
mod updates;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use tidegate::Layout;

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("error: give the folder to write to");
        return ExitCode::from(2);
    };
    let costs = env::args_os().nth(2).is_some_and(|what| what == "costs");
    if !costs && let Err(error) = updates::write(&folder.join("microbit")) {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    let (networks, counted) = if costs { Default::default() } else { (same_bits::networks(), icount::networks()) };
    for layout in Layout::ALL {
        let folder = folder.join(layout.name());
        let written = fs::create_dir_all(&folder).and_then(|()| {
            if costs {
                return costs::write(&folder, layout);
            }
            same_bits::write(&folder, &networks, &layouts(layout))?;
            icount::write(&folder, &counted, &layouts(layout))
        });
        if let Err(error) = written {
            eprintln!("error: {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The layouts that firmware built for one layout can read.
fn layouts(own: Layout) -> Vec<Layout> {
    if own == Layout::Portable { vec![own] } else { vec![Layout::Portable, own] }
}

/// A file that `firmware-examples/src/bundle.rs` reads, and a line of text for each of its cases.
struct Bundle {
    bytes: Vec<u8>,
    lines: String,
}

impl Bundle {
    fn new(number: u32) -> Self {
        Self { bytes: number.to_le_bytes().to_vec(), lines: String::new() }
    }

    fn push(&mut self, image: &[u8], inputs: &[i16], line: &str) {
        let lengths = [image.len(), inputs.len()].map(|len| u32::try_from(len).expect("the length fits in 32 bits"));
        self.bytes.extend(lengths.iter().flat_map(|len| len.to_le_bytes()));
        let inputs: Vec<u8> = inputs.iter().flat_map(|x| x.to_le_bytes()).collect();
        for part in [image, &inputs] {
            self.bytes.extend_from_slice(part);
            self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        }
        self.lines.extend([line, "\n"]);
    }

    /// Writes `NAME.bin` and `NAME.txt`.
    fn write(&self, folder: &Path, name: &str) -> io::Result<()> {
        fs::write(folder.join(format!("{name}.bin")), &self.bytes)?;
        fs::write(folder.join(format!("{name}.txt")), &self.lines)
    }
}
