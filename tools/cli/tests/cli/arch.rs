//! Files that hold only weights: every command accepts their architecture.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_model::canonical::Tensor;
use tidegate_model::data::{UNNAMED, read_tensors, write_tensors};

use super::{Workplace, gru_pb, yes_flac};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frameworks").join(name)
}

/// Copies a checkpoint to `model.ckpt`, with its architecture and the input `x.npy`. Returns TensorFlow's output.
fn checkpoint(here: &Workplace, folder: &str, name: &str) -> Tensor {
    for end in [".index", ".data-00000-of-00001"] {
        fs::copy(sample(&format!("{folder}/{name}.ckpt{end}")), here.path(&format!("model.ckpt{end}"))).unwrap();
    }
    let arch = sample(&format!("{folder}/{name}.json"));
    if arch.is_file() {
        fs::copy(arch, here.path("arch.json")).unwrap();
    }
    let mut golden = read_tensors(&sample(&format!("{folder}/{name}.golden.safetensors"))).unwrap();
    let only = BTreeMap::from([(UNNAMED.to_owned(), golden.remove("input").unwrap())]);
    write_tensors(&here.path("x.npy"), &only).unwrap();
    golden.remove("output").unwrap()
}

/// The output of `run`.
fn run(here: &Workplace, args: &[&str]) -> Tensor {
    here.succeed(&[&["run", "model.ckpt", "--input", "x.npy", "--output", "y.npy"], args].concat());
    read_tensors(&here.path("y.npy")).unwrap().remove(UNNAMED).unwrap()
}

fn near(given: &[f32], expected: &[f32]) {
    assert_eq!(given.len(), expected.len());
    for (a, b) in given.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-5, "{a} is not {b}");
    }
}

#[test]
fn run_gives_the_output_of_the_framework() {
    let here = Workplace::new();
    let expected = checkpoint(&here, "tf1_checkpoint", "classifier");
    near(&run(&here, &["--arch", "arch.json"]).data, &expected.data);
    // One row for each step that has an output: a window at its end, a strided convolution at every other step.
    let expected = checkpoint(&here, "tf1_checkpoint", "bidirectional_gru");
    let steps = expected.shape[0];
    let given = run(&here, &["--arch", "arch.json", "--window", &steps.to_string()]);
    assert_eq!(given.shape, [1, expected.data.len()]);
    near(&given.data, &expected.data);
    let expected = checkpoint(&here, "tf1_checkpoint_contrib", "conv_spotter");
    let given = run(&here, &["--arch", "arch.json"]);
    let rows = given.data.chunks(expected.data.len());
    near(rows.last().unwrap(), &expected.data);
    let printed = here.succeed(&["run", "model.ckpt", "--arch", "arch.json", "--input", "x.npy"]);
    let steps: Vec<&str> = printed.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(steps, ["2", "4", "6", "8"], "{printed}");
}

#[test]
fn a_partial_window_is_processed_unless_the_sequence_continues() {
    let here = Workplace::new();
    let steps = checkpoint(&here, "tf1_checkpoint", "bidirectional_gru").shape[0];
    let window = (steps + 3).to_string();
    let args = ["--arch", "arch.json", "--window", &window];
    assert_eq!(run(&here, &args).shape[0], 1);
    let goes_on = run(&here, &[&args[..], &["--state-out", "later.state"]].concat());
    assert!(goes_on.data.is_empty());
    let run = [&["run", "model.ckpt", "--input", "x.npy", "--state-out", "s"], &args[..]].concat();
    assert!(here.succeed(&run).starts_with("no output: the input is shorter than the window of the model\n"));
}

#[test]
fn every_command_accepts_an_architecture() {
    let here = Workplace::new();
    checkpoint(&here, "tf1_checkpoint", "classifier");
    let arch = ["--arch", "arch.json"];
    here.succeed(&[&["import", "model.ckpt", "-o", "m.safetensors"], &arch[..]].concat());
    here.succeed(&[&["pack", "model.ckpt", "-o", "m.tgi", "--numeric", "f16"], &arch[..]].concat());
    let told = here.json(&[&["inspect", "model.ckpt", "--json"], &arch[..]].concat());
    assert_eq!(told, here.json(&["inspect", "m.safetensors", "--json"]));
    let verify = ["verify", "m.tgi", "--against", "model.ckpt", "--input", "x.npy", "--json"];
    let told = here.json(&[&verify, &arch[..]].concat());
    assert!(told["max_abs_error"].as_f64().unwrap() < 1e-2);
    here.json(&[&["bench", "model.ckpt", "--stream", "--json"], &arch[..]].concat());
    // No checkpoint has a front end.
    let sound = yes_flac();
    here.write("index.csv", format!("file,label\n{sound},yes\n"));
    let listen = [&["listen", "model.ckpt", "--wav", &sound], &arch[..]].concat();
    here.refuse(&listen, "model.ckpt", &["has no front end", "--front-end"]);
    let eval = [&["eval", "model.ckpt", "--index", "index.csv"], &arch[..]].concat();
    here.refuse(&eval, "model.ckpt", &["has no labels for its classes"]);
    for command in ["import", "pack", "inspect", "run", "eval", "listen", "verify", "bench"] {
        let help = here.succeed(&[command, "--help"]);
        assert!(help.contains("--arch <FILE>") && help.contains("--window <N>"), "{command}: {help}");
    }
}

#[test]
fn an_invalid_or_unused_architecture_is_refused() {
    let here = Workplace::new();
    checkpoint(&here, "tf1_checkpoint", "classifier");
    here.refuse(&["inspect", "model.ckpt"], "model.ckpt.index", &["its architecture is not in the file", "--arch"]);
    let given = ["inspect", "model.ckpt", "--arch", "other.json"];
    here.refuse(&given, "other.json", &["there is no such file"]);
    here.write("other.json", "{\n \"inputs\": [],\n \"layer\": []}");
    here.refuse(
        &given,
        "other.json",
        &["is not an architecture: unknown field `layer`", "line 3", "docs/architecture.md"],
    );
    let text = String::from_utf8(here.read("arch.json")).unwrap();
    here.write("other.json", text.replace("\"relu\"", "\"relus\""));
    here.refuse(
        &given,
        "model.ckpt.index",
        &["layer \"dense\" (Dense)", "\"relus\"", "correct it in the file given with --arch"],
    );
    here.succeed(&["pack", "model.ckpt", "--arch", "arch.json", "-o", "m.tgi", "--numeric", "f32"]);
    let of_image = ["inspect", "m.tgi", "--arch", "arch.json"];
    here.refuse(
        &of_image,
        "m.tgi",
        &["holds its architecture: leave --arch, --window, --shape, --bind, --state and --stream out"],
    );
    for file in ["model.ckpt", "model.ckpt.index", "model.ckpt.data-00000-of-00001"] {
        let over = ["import", "model.ckpt", "--arch", "arch.json", "-o", file];
        here.refuse(&over, file, &["is also an input: give the output another name"]);
    }
    // All files of a checkpoint are needed.
    fs::remove_file(here.path("model.ckpt.data-00000-of-00001")).unwrap();
    let alone = ["inspect", "model.ckpt", "--arch", "arch.json"];
    here.refuse(&alone, "model.ckpt.index", &["\"model.ckpt.data-00000-of-00001\"", "copy them together"]);
    fs::remove_file(here.path("model.ckpt.index")).unwrap();
    here.refuse(&alone, "model.ckpt", &["there is no such file"]);
    here.write("model.ckpt.data-00000-of-00001", "");
    here.refuse(&["inspect", "model.ckpt.data-00000-of-00001"], "model.ckpt.index", &["there is no such file"]);
}

#[test]
fn a_state_dict_without_a_schedule_says_that_it_is_endless_and_how_to_say_windows() {
    let here = Workplace::new();
    fs::copy(sample("torch/classifier.pth"), here.path("m.pt")).unwrap();
    let said = |args: &[&str]| {
        let notes = here.notes(args);
        notes.lines().filter(|line| line.contains("to change this")).map(|line| format!("{line}\n")).collect::<String>()
    };
    let endless = "note: m.pt: it runs as one endless state, since the number of steps is not given; \
                   to change this, give --schedule FRAMES/EVERY\n";
    let import = ["import", "m.pt", "-o", "m.safetensors"];
    assert_eq!(said(&import), endless);
    let pack = ["pack", "m.pt", "-o", "m.tgi", "--numeric", "f32"];
    assert_eq!(said(&pack), endless);
    assert_eq!(here.json(&["inspect", "m.tgi", "--json"])["schedule"], "endless");
    // Whoever has chosen a schedule, or a number of steps, is not told about the default.
    for chosen in [["--schedule", "10/5"], ["--schedule", "endless"]] {
        assert_eq!(said(&[&pack[..], &chosen].concat()), "");
    }
    assert_eq!(said(&["pack", "m.safetensors", "-o", "m.tgi", "--numeric", "f32"]), "");
    let arch = r#"{"inputs": [{"name": "x", "size": 7, "steps": 10}],
        "layers": [{"name": "rnn", "class": "LSTM", "take": "final"}, {"name": "fc", "class": "Linear"}]}"#;
    here.write("arch.json", arch);
    assert_eq!(said(&[&pack[..], &["--arch", "arch.json"]].concat()), "");
    let other = [&pack[..], &["--arch", "arch.json", "--window", "7"]].concat();
    here.refuse(&other, "m.pt", &["input \"x\" has 10 steps, but --window says 7; leave --window out"]);
}

#[test]
fn the_sample_rate_of_a_graph_that_takes_it_from_a_file_is_told_as_an_assumption() {
    let here = Workplace::new();
    let graph = gru_pb();
    let assumed = format!(
        "note: {graph}: its sounds have 16000 samples a second, since DecodeWav leaves the rate to the file; \
         to change this, give --front-end FILE\n"
    );
    let pack = ["pack", graph.as_str(), "-o", "m.tgi", "--numeric", "f32"];
    assert!(here.notes(&pack).starts_with(&assumed));
    assert!(here.notes(&["import", &graph, "-o", "m.safetensors"]).starts_with(&assumed));
    let mut front_end = here.json(&["inspect", "m.tgi", "--json"])["front_end"].take();
    front_end["sample_rate"] = 8000.into();
    here.write("front_end.json", front_end.to_string());
    let given = here.notes(&[&pack[..], &["--front-end", "front_end.json"]].concat());
    assert!(!given.contains("to change this"), "{given}");
    assert_eq!(here.json(&["inspect", "m.tgi", "--json"])["front_end"]["sample_rate"], 8000);
}
