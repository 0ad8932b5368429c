//! `new`: what a project contains, and what is refused. `cargo xtask new` builds the projects and runs them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Workplace, gru_pb, shipped};

const BOARDS: [&str; 10] =
    ["qemu-m4", "qemu-m0", "qemu-m55", "qemu-riscv", "nrf52840", "rp2040", "rp2350", "stm32f4", "stm32h7", "esp32c3"];

/// A model without a front end.
fn keras() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frameworks/keras3/keywords_conv1d.keras");
    fs::canonicalize(path).unwrap().display().to_string()
}

/// The files in a folder, by their paths.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn add(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
            if entry.path().is_dir() {
                add(&entry.path(), &format!("{name}/"), files);
            } else {
                files.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    add(folder, "", &mut found);
    found
}

#[test]
fn every_board_gets_a_whole_project() {
    let here = Workplace::new();
    let (keras, gru) = (keras(), gru_pb());
    let image = here.path("gru.tgi");
    // Packing once is enough for the boards with a front end. Every core reads this layout.
    here.succeed(&["pack", &gru, "-o", "gru.tgi", "--numeric", "f32"]);
    for board in BOARDS {
        for model in [keras.as_str(), image.to_str().unwrap()] {
            let is_qemu = board.starts_with("qemu-");
            for options in [&[][..], &["--c"], &["--async"]] {
                // One board is enough for the languages of a model with a front end.
                let is_again = model != keras && board != "qemu-m4" && !options.is_empty();
                if is_again || (options == ["--c"] && !is_qemu) || (options == ["--async"] && board == "esp32c3") {
                    continue;
                }
                let printed = here.succeed(&[&["new", "kws", "--model", model, "--for", board], options].concat());
                let start = match is_qemu {
                    true if options == ["--c"] => "--preset run\n",
                    true => "    cargo run\n",
                    false => "    cargo run --release\n",
                };
                assert!(printed.ends_with(start), "{board}: {printed}");
                let project = files(&here.path("kws"));
                for (name, content) in &project {
                    if name.starts_with("vendor/") || name.ends_with(".tgi") || name.ends_with(".i16") {
                        continue;
                    }
                    let text = str::from_utf8(content).unwrap();
                    let variable = text.split("{{").nth(1).and_then(|rest| rest.split_once("}}"));
                    assert_eq!(variable, None, "{board} {options:?}: {name}");
                    assert!(text.ends_with('\n'), "{board}: {name}");
                }
                let readme = str::from_utf8(&project["README.md"]).unwrap();
                assert!(readme.lines().count() <= 13, "{board}: {readme}");
                assert_eq!(
                    is_qemu,
                    !readme.contains("has not been run on a board yet"),
                    "{board} only compiles: {readme}"
                );
                let has_sound = project.contains_key("recording.i16");
                // The other boards have a driver for a microphone.
                assert_eq!(has_sound, model != keras && (is_qemu || board == "stm32h7"), "{board} {options:?}");
                fs::remove_dir_all(here.path("kws")).unwrap();
            }
        }
    }
}

#[test]
fn a_project_has_the_source_of_the_runtime() {
    let here = Workplace::new();
    here.succeed(&["new", "kws", "--model", &keras(), "--for", "qemu-m4", "--c"]);
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core");
    assert!(files(&here.path("kws/vendor/tidegate/src")) == files(&core.join("src")));
    for source in ["capi/src", "capi/include", "update/src"] {
        assert!(files(&here.path(&format!("kws/vendor/tidegate/{source}"))) == files(&core.join(source)), "{source}");
    }
    let manifest = here.read("kws/vendor/tidegate/Cargo.toml");
    assert!(!String::from_utf8(manifest).unwrap().contains("workspace"));
}

#[test]
fn the_image_is_that_of_pack_for_the_core() {
    let here = Workplace::new();
    let keras = keras();
    here.succeed(&["new", "kws", "--model", &keras, "--for", "qemu-m0", "--calibrate", "noise"]);
    here.succeed(&["pack", &keras, "-o", "kws.tgi", "--for", "cortex-m0", "--calibrate", "noise"]);
    assert!(here.read("kws/model.tgi") == here.read("kws.tgi"));
    here.succeed(&["new", "again", "--model", "kws.tgi", "--for", "qemu-m0"]);
    assert!(here.read("again/model.tgi") == here.read("kws.tgi"));
    here.succeed(&["new", "half", "--model", &keras, "--for", "rp2040", "--numeric", "f16"]);
    assert_eq!(here.json(&["inspect", "half/model.tgi", "--json"])["numeric"], "f16");
    here.succeed(&["new", "integers", "--model", &keras, "--for", "rp2350", "--calibrate", "noise"]);
    assert_eq!(here.json(&["inspect", "integers/model.tgi", "--json"])["layout"], "cortex-m4");
}

#[test]
fn names_and_folders_are_refused() {
    let here = Workplace::new();
    let keras = keras();
    let refuse = |name: &str, file: &str, part: &str| {
        here.refuse(&["new", name, "--model", &keras, "--for", "qemu-m4"], file, &[part]);
    };
    fs::create_dir(here.path("full")).unwrap();
    here.write("full/precious.txt", "precious");
    here.write("file", "precious");
    refuse("full", "full", "exists already");
    refuse("file", "file", "exists already");
    assert_eq!(here.read("full/precious.txt"), b"precious");
    for name in ["", "2kws", "my kws", "../kws", "/tmp/kws", "kws.rs", "_kws", "k\u{e4}se", &"k".repeat(65)] {
        refuse(name, &format!("{name:?}"), "a name begins with a letter");
    }
    for name in ["tidegate", "test", "fn", "cortex-m", "embassy-sync", "semihosting", "async"] {
        refuse(name, &format!("{name:?}"), "give another");
    }
}

#[test]
fn arguments_are_refused() {
    let here = Workplace::new();
    let keras = keras();
    let new = |rest: &[&'static str]| [&["new", "kws", "--model", keras.as_str()], rest].concat();
    here.refuse_use(&new(&["--for", "arduino"]), "qemu-riscv");
    here.refuse_use(&new(&[]), "--for");
    here.refuse_use(&["new", "kws", "--for", "qemu-m4"], "--model");
    here.refuse_use(&["new", "--model", &keras, "--for", "qemu-m4"], "<NAME>");
    here.refuse_use(&new(&["--for", "qemu-m4", "--c", "--async"]), "cannot be used with");
    here.refuse_use(&new(&["--for", "qemu-m4", "--numeric", "i7"]), "i8x16");
    here.refuse(&new(&["--for", "rp2040", "--c"]), "rp2040", &["--c is for the boards qemu-*"]);
    here.refuse(&new(&["--for", "esp32c3", "--async"]), "esp32c3", &["leave --async out"]);
    let floats = ["--for", "qemu-m4", "--numeric", "f32", "--calibrate", "noise"];
    here.refuse(&new(&floats), "--calibrate", &["is only for integers"]);
    let without_data = new(&["--for", "qemu-m4", "--numeric", "i8x16"]);
    here.refuse(&without_data, &keras, &["give real input with --calibrate"]);
    here.refuse(&new(&["--for", "qemu-m4", "--calibrate", "none.csv"]), "none.csv", &["there is no such file"]);
}

#[test]
fn models_are_refused() {
    let here = Workplace::new();
    let keras = keras();
    for core in ["m4", "m55"] {
        let (file, core) = (format!("{core}.tgi"), format!("cortex-{core}"));
        here.succeed(&["pack", &keras, "-o", &file, "--for", &core, "--calibrate", "noise"]);
    }
    here.write("text.keras", "no model");
    let image = here.read("m4.tgi");
    here.write("short.tgi", &image[..image.len() / 2]);
    let mut damaged = image;
    damaged[1000] ^= 1;
    here.write("damaged.tgi", damaged);
    fs::create_dir(here.path("folder")).unwrap();
    let refuse = |model: &str, rest: &[&'static str], parts: &[&str]| {
        here.refuse(&[&["new", "kws", "--model", model], rest].concat(), model, parts);
    };
    let m0 = ["--for", "qemu-m0"];
    refuse("missing.keras", &m0, &["there is no such file"]);
    refuse("folder", &m0, &["is a folder"]);
    refuse("text.keras", &m0, &[]);
    refuse("short.tgi", &["--for", "qemu-m4"], &["pack the model again"]);
    refuse("damaged.tgi", &["--for", "qemu-m4"], &["checksum"]);
    refuse("m4.tgi", &m0, &["layout cortex-m4", "qemu-m0", "--for cortex-m0"]);
    refuse("m4.tgi", &["--for", "esp32c3"], &["--for portable"]);
    refuse("m55.tgi", &["--for", "nrf52840"], &["layout cortex-m55", "--for cortex-m4"]);
    refuse("m4.tgi", &["--for", "qemu-m4", "--calibrate", "noise"], &["leave --calibrate out"]);
    refuse("m4.tgi", &["--for", "qemu-m4", "--numeric", "f32"], &["is packed as i8x16 already"]);
    let ports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frameworks/keras3/two_inputs.keras");
    let ports = fs::canonicalize(ports).unwrap().display().to_string();
    refuse(&ports, &m0, &["has 2 inputs and 1 outputs", "step_ports"]);
}

#[test]
fn models_that_do_not_fit_are_refused_with_both_figures() {
    let here = Workplace::new();
    let (gru, silero) = (gru_pb(), shipped("silero_vad/silero_vad_16k_op15.onnx"));
    let flash = ["new", "kws", "--model", &silero, "--for", "stm32f4", "--shape", "input=1,576"];
    here.refuse(&flash, &silero, &["bytes of flash, and stm32f4 has 524,288"]);
    let many = ["new", "kws", "--model", &gru, "--for", "rp2040", "--numeric", "f32", "--schedule", "1000/1"];
    here.refuse(&many, &gru, &["bytes of RAM, and rp2040 has 262,144"]);
}

#[cfg(unix)]
#[test]
fn a_project_that_cannot_be_written_leaves_nothing() {
    let here = Workplace::new();
    // The shell limits files to 512 bytes, and writing more is an error rather than a signal.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$@\"";
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", script, "sh", env!("CARGO_BIN_EXE_tidegate")]).current_dir(here.path(""));
    let done = limited.args(["new", "kws", "--model", &keras(), "--for", "qemu-m4"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && stderr.contains("cannot be written"), "{stderr}");
    assert!(here.names().is_empty(), "{:?}", here.names());
}
