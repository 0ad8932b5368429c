//! `inspect --for`: a model on a microcontroller, before flashing.

use serde_json::Value;

use super::{Workplace, gru_pb, shipped};

/// Networks of the zoo with their files in the repository.
const NETWORKS: [(&str, &str); 8] = [
    ("Hello Edge Basic_LSTM_S", "hello_edge/Basic_LSTM_S.pb"),
    ("Hello Edge LSTM_S", "hello_edge/LSTM_S.pb"),
    ("Hello Edge GRU_S", "hello_edge/GRU_S.pb"),
    ("Hello Edge CRNN_S", "hello_edge/CRNN_S.pb"),
    ("microWakeWord okay nabu, version 2", "wake_word/okay_nabu.json"),
    ("microWakeWord vad, version 2", "wake_word/vad.json"),
    ("Silero VAD, opset 15", "silero_vad/silero_vad_16k_op15.onnx"),
    ("RNNoise", "../tests/rnnoise/weights.rnn"),
];
/// Cores of the zoo's figures by their names here.
const CORES: [(&str, &str, &str); 3] =
    [("m0plus", "cortex-m0plus", "cortex-m0"), ("m4", "cortex-m4", "cortex-m4"), ("m55", "cortex-m55", "cortex-m55")];

/// Each network is packed as `cargo xtask zoo` packs it, and its estimates are within a tenth of what that counts.
#[test]
fn estimates_of_networks_are_near_the_counts_of_the_zoo() {
    let here = Workplace::new();
    let zoo: Value = serde_json::from_slice(&std::fs::read(shipped("../tools/cli/zoo.json")).unwrap()).unwrap();
    let mut off = Vec::new();
    for (name, file) in NETWORKS {
        let entry = zoo.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
        let given = entry["arguments"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
        let given: Vec<String> =
            given.map(|argument| argument.strip_prefix("assets/").map_or(argument.to_owned(), shipped)).collect();
        let is_float = ["f16", "f32"].iter().any(|float| given.iter().any(|argument| argument == float));
        for (figures, core, layout) in CORES {
            let file = shipped(file);
            let mut pack = vec!["pack", &file, "-o", "z.tgi"];
            pack.extend(given.iter().map(String::as_str));
            let for_core = ["--for", layout];
            pack.extend(&for_core[..if is_float { 0 } else { 2 }]);
            assert!(here.run(&pack).status.success(), "{pack:?}");
            let device = here.json(&["inspect", "z.tgi", "--for", core, "--json"])["device"].take();
            assert_eq!(device["without_figures"], Value::Array(Vec::new()), "{name}");
            let counts = &entry["figures"]["instructions"][figures];
            for (what, estimate) in [("step", "instructions_per_step"), ("front_end", "front_end_instructions")] {
                let (estimate, count) = (device[estimate].as_f64().unwrap(), counts[what].as_f64().unwrap());
                // Without an FPU the instructions of floats depend on their values.
                let most = if is_float && figures == "m0plus" { 0.2 } else { 0.1 };
                if !((estimate - count).abs() <= most * count) {
                    off.push(format!("{name}, {core}, {what}: {estimate} estimated, {count} counted"));
                }
            }
        }
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
}

fn packed(core: &str) -> Workplace {
    let here = Workplace::new();
    let done = here.run(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "i8x16", "--for", core]);
    assert!(done.status.success());
    here
}

#[test]
fn time_stack_and_all_ram_are_estimated_as_text_and_json() {
    let here = packed("cortex-m4");
    let on_m4 = ["inspect", "g.tgi", "--for", "cortex-m4", "--mhz", "120"];
    let text = here.succeed(&on_m4);
    for part in [
        "device   cortex-m4 at 120 MHz, feature dsp",
        " of the front end",
        " cycles for both together, modelled by the core's table",
        "% of every 40 ms",
        "all RAM  ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let told: Value = here.json(&[&on_m4[..], &["--json"]].concat());
    let device = &told["device"];
    let number = |name: &str| device[name].as_f64().unwrap_or_else(|| panic!("{name}: {device}"));
    let instructions = number("instructions_per_step") + number("front_end_instructions");
    assert!(number("modelled_cycles") > instructions, "{device}");
    assert!((number("milliseconds") - number("modelled_cycles") / 120e3).abs() < 1e-3, "{device}");
    assert!((number("share") - number("milliseconds") / number("every_ms")).abs() < 1e-6, "{device}");
    let parts = ["state_bytes", "scratch_bytes", "front_end_bytes", "detector_bytes"];
    let ram: f64 = parts.iter().map(|part| told[*part].as_f64().unwrap()).sum();
    assert_eq!(number("ram_bytes"), ram + number("stack_bytes"));
    assert_eq!(device["without_figures"], Value::Array(Vec::new()));
    // A core that issues two instructions in a cycle has no table of cycles.
    let m7 = here.json(&["inspect", "g.tgi", "--for", "cortex-m7", "--mhz", "480", "--json"]);
    assert!(
        m7["device"]["modelled_cycles"].is_null()
            && m7["device"]["milliseconds"].as_f64() < Some(number("milliseconds"))
    );
    // Without a clock there is no time.
    assert!(here.json(&["inspect", "g.tgi", "--for", "cortex-m4", "--json"])["device"]["milliseconds"].is_null());
}

#[test]
fn a_core_that_is_too_slow_is_a_warning() {
    let here = packed("portable");
    let done = here.run(&["inspect", "g.tgi", "--for", "cortex-m0plus", "--mhz", "8"]);
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && told.contains("warning: g.tgi: too slow: a step takes"), "{told}");
    here.succeed(&["inspect", "g.tgi", "--for", "cortex-m4", "--mhz", "120"]);
}

/// A window of 14 rows: thirteen steps only keep their row.
#[test]
fn the_longest_step_is_told_and_warned_of() {
    let here = Workplace::new();
    let file = shipped("../tests/frameworks/keras3/keywords_conv1d.keras");
    let inspect = ["inspect", &file, "--numeric", "f32", "--for", "cortex-m0plus", "--mhz", "48", "--every", "10"];
    let done = here.run(&inspect);
    let (text, told) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    let of_steps = [" instructions a step on average", " instructions in the longest step", " ms in the longest step"];
    for part in of_steps.into_iter().chain(["schedule endless, with an output every 14 steps"]) {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(told.contains("warning: ") && told.contains("more than the 10.0 ms between steps"), "{told}");
    let json: Value = serde_json::from_slice(&here.run(&[&inspect[..], &["--json"]].concat()).stdout).unwrap();
    let device = &json["device"];
    assert!(device["longest_step_instructions"].as_f64() > device["instructions_per_step"].as_f64(), "{device}");
    // Without --numeric the integers are shown that `pack --calibrate` gives.
    let told = here.notes(&["inspect", &file]);
    assert!(told.contains("shown in i8x16, which pack and new give with --calibrate"), "{told}");
}

#[test]
fn the_name_of_a_core_is_taken_for_its_layout() {
    let here = Workplace::new();
    for (core, layout) in [("cortex-m0plus", "cortex-m0"), ("cortex-m7", "cortex-m4"), ("cortex-m3", "portable")] {
        assert!(here.run(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "i8x16", "--for", core]).status.success());
        assert_eq!(here.json(&["inspect", "g.tgi", "--json"])["layout"], layout, "{core}");
    }
}

/// The kernels for Helium include those of the DSP extension, and `i4x16` has no layout of its own for a Cortex-M55.
#[test]
fn a_cortex_m55_runs_images_for_a_cortex_m4() {
    let here = Workplace::new();
    let pack = ["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "i4x16", "--for", "cortex-m4"];
    assert!(here.run(&pack).status.success());
    // A warning says that no costs of these layers are recorded.
    assert!(here.run(&["inspect", "g.tgi", "--for", "cortex-m55"]).status.success());
}

#[test]
fn an_image_for_another_core_is_refused() {
    let here = packed("cortex-m55");
    let reason = ["the layout of cortex-m55", "firmware for cortex-m4 does not run", "--for cortex-m4"];
    here.refuse(&["inspect", "g.tgi", "--for", "cortex-m4"], "g.tgi", &reason);
    for wrong in [&["--mhz", "120"][..], &["--for", "cortex-m4", "--mhz", "0"], &["--for", "z80"], &["--plot", "m.svg"]]
    {
        let done = here.run(&[&["inspect", "g.tgi"], wrong].concat());
        assert_eq!(done.status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(here.names(), ["g.tgi"]);
}

#[test]
fn the_memory_is_drawn() {
    let here = packed("cortex-m4");
    here.succeed(&["inspect", "g.tgi", "--for", "cortex-m4", "--plot", "m.svg"]);
    let svg = String::from_utf8(here.read("m.svg")).unwrap();
    for part in ["image: ", "state: ", "scratch: ", "front end: ", "stack of a step: ", "flash", "RAM"] {
        assert!(svg.contains(part), "{part}");
    }
}
