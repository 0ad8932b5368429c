//! Hostile files under limits of the system: `inspect` ends with 0 or 1, and one line if it refuses.

use std::process::Command;

use tidegate_model::canonical::Schedule;
use tidegate_tests::hostile::{self, Hostile};
use tidegate_tests::random::{Draw, Rng, Variant, chain};

use super::Workplace;

/// Address space beside 8 times the file.
const SPARE: usize = 256 << 20;

#[cfg(target_os = "linux")]
#[test]
fn inspect_reads_or_refuses_every_hostile_file_within_its_limits() {
    let here = Workplace::new();
    let mut failures = Vec::new();
    for Hostile { file, bytes } in hostile::models().into_iter().chain(hostile::data()) {
        here.write(file, &bytes);
        let limits = format!("ulimit -v {} && exec timeout 5 \"$0\" inspect \"$1\"", (8 * bytes.len() + SPARE) >> 10);
        let program = env!("CARGO_BIN_EXE_tidegate");
        let output =
            Command::new("sh").args(["-c", &limits, program, file]).current_dir(here.path("")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let is_refusal = output.status.code() == Some(1) && error.lines().count() == 1 && error.contains(file);
        if !output.status.success() && !is_refusal {
            failures.push(format!("{file}: {}: {error}", output.status));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// An array that needs more memory than its file is taken to deserve is refused, and read if the user allows it.
#[test]
fn the_option_that_a_refusal_names_lifts_the_limit() {
    let here = Workplace::new();
    let array = hostile::data().into_iter().find(|hostile| hostile.file == "zeros.npz").unwrap();
    here.write("zeros.npz", array.bytes);
    let args = ["run", &super::gru_pb(), "--input", "zeros.npz", "--output", "x.npy"];
    here.refuse(&args, "zeros.npz", &["MiB of memory; if you trust the file, allow more with --memory MIB"]);
    // The array itself is of another shape than the model's input.
    let allowed = [&args[..], &["--memory", "2000"]].concat();
    here.refuse(&allowed, "zeros.npz", &["131072000"]);
}

/// The length to which an archive unpacks is a matter of memory; other limits are fixed, and their errors say so.
#[test]
fn the_option_lifts_the_limit_on_unpacked_files_and_errors_of_fixed_limits_say_so() {
    let here = Workplace::new();
    let models: Vec<Hostile> = hostile::models();
    let write = |name: &str| {
        let model = models.iter().find(|hostile| hostile.file == name).expect("the corpus has this file");
        here.write(name, &model.bytes);
    };
    let fixed = "this limit is fixed, and --memory does not lift it";
    write("spaces.keras");
    let advice = "unpacks to 16777218 or more; more than a model's weights do; save the model again, or allow more \
                  with --memory MIB";
    here.refuse(&["inspect", "spaces.keras"], "spaces.keras", &[advice]);
    let described = "it has more than 8388608 bytes in its description of the layers";
    here.refuse(&["inspect", "spaces.keras", "--memory", "2000"], "spaces.keras", &[described, fixed]);
    for (name, what) in [
        ("many_entries.pt", "it has more than 65536 entries"),
        ("many_roles.onnx", "it has more than 67108864 elements to examine"),
    ] {
        write(name);
        here.refuse(&["inspect", name, "--memory", "2000"], name, &[what, fixed]);
    }
}

/// A thousand windows at once have a thousand states.
#[test]
fn a_small_model_with_a_large_state_is_shown_but_not_run() {
    let here = Workplace::new();
    let draw = Draw { weights: 1.0, biases: true };
    let mut model = chain(&mut Rng::new(1), 1, &[(Variant::plain("indrnn"), 65_000)], draw);
    model.architecture.schedule = Schedule::Windows { frames: 1024, every: 1 };
    model.save(&here.path("m.safetensors")).unwrap();
    assert!(here.succeed(&["inspect", "m.safetensors"]).contains("bytes of state"));
    here.write("x.csv", "1\n");
    let args = ["run", "m.safetensors", "--input", "x.csv", "--output", "y.npy"];
    here.refuse(&args, "m.safetensors", &["MiB of memory; if you trust the file, allow more with --memory MIB"]);
}
