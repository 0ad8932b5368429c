//! From the shipped graph to events, with every file in between.

use std::fs;
use std::process::{Output, Stdio};

use serde_json::Value;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::{UNNAMED, read_tensors, write_tensors};

use super::{Workplace, gru_pb, shipped, without_notes, yes_flac};

/// Checks for exactly these fields, in any order.
fn fields(value: &Value, names: &str) {
    let mut names: Vec<&str> = names.split_whitespace().collect();
    names.sort_unstable();
    let mut found: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, names);
}

#[test]
fn every_way_to_pack_a_model_gives_the_same_bytes() {
    let here = Workplace::new();
    let gru = gru_pb();
    here.succeed(&["import", &gru, "-o", "a.safetensors"]);
    here.succeed(&["import", "a.safetensors", "-o", "b.safetensors"]);
    for (model, image) in
        [(gru.as_str(), "a.tgi"), (&gru, "b.tgi"), ("a.safetensors", "c.tgi"), ("b.safetensors", "d.tgi")]
    {
        here.succeed(&["pack", model, "-o", image, "--numeric", "f16"]);
        assert_eq!(here.read(image), here.read("a.tgi"), "{image}");
    }
    assert_eq!(here.read("a.safetensors"), here.read("b.safetensors"));
    here.succeed(&["pack", &gru, "-o", "a.tgi", "--numeric", "f32"]);
    assert_ne!(here.read("a.tgi"), here.read("b.tgi"), "an older image is replaced");
    assert_eq!(here.names(), ["a.safetensors", "a.tgi", "b.safetensors", "b.tgi", "c.tgi", "d.tgi"]);
}

/// The length of its header may begin with the first byte of an ONNX model.
#[test]
fn run_takes_a_canonical_model_whatever_its_first_byte_is() {
    let here = Workplace::new();
    here.succeed(&["import", &gru_pb(), "-o", "a.safetensors"]);
    let mut model = Canonical::load(&here.path("a.safetensors")).unwrap();
    while model.to_bytes().unwrap()[0] != 0x08 {
        model.architecture.source.push('x');
    }
    model.save(&here.path("b.safetensors")).unwrap();
    write_tensors(
        &here.path("in.npy"),
        &[(UNNAMED.to_owned(), Tensor { shape: vec![25, 10], data: vec![0.5; 250] })].into(),
    )
    .unwrap();
    for model in ["a", "b"] {
        let (file, output) = (format!("{model}.safetensors"), format!("{model}.npy"));
        here.succeed(&["run", &file, "--input", "in.npy", "--output", &output]);
    }
    assert_eq!(here.read("a.npy"), here.read("b.npy"));
}

#[test]
fn inspect_lists_everything() {
    let here = Workplace::new();
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f32"]);
    let found = here.json(&["inspect", "g.tgi", "--json"]);
    fields(
        &found,
        "format model_id numeric layout signed signature self_test layers inputs outputs flash_bytes state_bytes scratch_bytes \
         front_end_bytes detector_bytes macs_per_step work labels front_end front_end_scale schedule detector steps_per_output",
    );
    assert_eq!(found["steps_per_output"], 6);
    assert_eq!(found["flash_bytes"], here.read("g.tgi").len());
    assert_eq!(found["layers"].as_array().unwrap().len(), 3);
    assert_eq!(found["labels"].as_array().unwrap().len(), 12);
    assert_eq!((&found["numeric"], &found["signed"]), (&"f32".into(), &false.into()));
    assert_eq!(found["schedule"]["windows"]["frames"], 25);
    assert_eq!(found["front_end"]["sample_rate"], 16_000);
    for number in ["state_bytes", "scratch_bytes", "macs_per_step"] {
        assert!(found[number].as_u64().unwrap() > 0, "{number}");
    }
    let inspect = ["inspect", &gru_pb(), "--numeric", "f32", "--json"];
    assert_eq!(here.json(&inspect), found, "a model is packed in memory");
    // --front-end reads the output of inspect.
    here.write("front_end.json", found["front_end"].to_string());
    here.succeed(&["pack", &gru_pb(), "-o", "h.tgi", "--front-end", "front_end.json", "--numeric", "f32"]);
    assert_eq!(here.read("h.tgi"), here.read("g.tgi"));
}

/// The ranges of the integers differ, and nothing else.
#[test]
fn inspect_shows_a_model_as_pack_packs_it() {
    let here = Workplace::new();
    here.write("tables.csv", "1,2,3,4,5,6,7\n");
    let case = |name: &str| shipped(&format!("../tests/frameworks/{name}"));
    for (model, numeric, data) in [
        (gru_pb(), "i8x16", &[][..]),
        (case("tflite/integer_whole.tflite"), "i8", &[]),
        (case("torch/classifier.pth"), "i8x16", &["--calibrate", "noise"]),
    ] {
        here.run(&[&["pack", &model, "-o", "m.tgi"], data].concat());
        let [packed, shown] = ["m.tgi", &model].map(|file| here.json(&["inspect", file, "--json"]));
        assert_eq!(packed["numeric"], numeric, "{model}");
        for same in ["numeric", "layout", "layers", "flash_bytes", "state_bytes", "scratch_bytes", "work", "schedule"] {
            assert_eq!(packed[same], shown[same], "{model}: {same}");
        }
    }
}

#[test]
fn inspect_lists_extents_and_unrolled_nodes() {
    // A window of two rows, which an IndRNN of two units reads backwards.
    let nodes = serde_json::json!([
        { "name": "rows", "cell": "window", "inputs": ["x"], "input_size": 2, "hidden_size": 4, "output_size": 4,
          "options": ["partial"], "extents": { "length": 2, "hop": 2 } },
        { "name": "back", "cell": "indrnn", "inputs": ["rows"], "input_size": 2, "hidden_size": 2, "output_size": 2,
          "unroll": { "steps": 2, "read_backwards": true, "write_backwards": true } },
    ]);
    let architecture = serde_json::json!({
        "version": 1, "source": "", "nodes": nodes,
        "inputs": [{ "name": "x", "size": 2 }], "outputs": [{ "name": "y", "size": 4, "from": "back" }],
    });
    let zeros = |shape: &[usize]| Tensor { shape: shape.to_vec(), data: vec![0.0; shape.iter().product()] };
    let tensors =
        [("back.input_weights", zeros(&[2, 2])), ("back.recurrent_weights", zeros(&[2])), ("back.bias", zeros(&[2]))];
    let model = Canonical {
        architecture: serde_json::from_value(architecture).unwrap(),
        tensors: tensors.map(|(name, tensor)| (name.to_owned(), tensor)).into(),
    };
    let here = Workplace::new();
    model.save(&here.path("back.safetensors")).unwrap();
    let found = here.json(&["inspect", "back.safetensors", "--json"]);
    let layers = found["layers"].as_array().unwrap();
    for layer in layers {
        fields(layer, "name cell input hidden output options extents unroll params activations macs");
    }
    assert_eq!(layers[0]["extents"], serde_json::json!({ "length": 2, "hop": 2, "prefill": 0 }));
    assert_eq!((&layers[0]["unroll"], &layers[1]["extents"]), (&Value::Null, &serde_json::json!({})));
    let unroll = serde_json::json!({ "steps": 2, "read_backwards": true, "write_backwards": true, "stateful": false, "apart": false });
    assert_eq!(layers[1]["unroll"], unroll);
    assert_eq!(layers[1]["macs"], 8, "once a row");
    let text = here.succeed(&["inspect", "back.safetensors"]);
    assert!(text.contains("rows: window 2 -> 4, 0 MACs; partial, length 2, hop 2\n"), "{text}");
    assert!(
        text.contains("back: indrnn 2 -> 2, 8 MACs; tanh, 2 rows a step, read backwards, written backwards\n"),
        "{text}"
    );
}

/// `run` prints outputs in the order of the model, which is not that of their names.
#[test]
fn outputs_are_printed_in_the_order_of_the_model() {
    let node = |name: &str| serde_json::json!({ "name": name, "cell": "activation", "inputs": ["x"], "input_size": 2, "hidden_size": 2, "output_size": 2 });
    let port = |name: &str, from: &str| serde_json::json!({ "name": name, "size": 2, "from": from });
    let architecture = serde_json::json!({
        "version": 1, "source": "", "nodes": [node("one"), node("two")], "inputs": [{ "name": "x", "size": 2 }],
        "outputs": [port("z", "one"), port("a", "two"), port("m", "one")],
    });
    let model = Canonical { architecture: serde_json::from_value(architecture).unwrap(), tensors: [].into() };
    let here = Workplace::new();
    model.save(&here.path("m.safetensors")).unwrap();
    here.write("x.csv", "1,2\n");
    let run = ["run", "m.safetensors", "--input", "x.csv"];
    let printed = here.succeed(&run);
    let names: Vec<&str> = printed.lines().filter_map(|line| line.split_once(" [")).map(|(name, _)| name).collect();
    assert_eq!(names, ["z", "a", "m"], "{printed}");
    let json = here.json(&[&run[..], &["--json"]].concat());
    let names: Vec<&str> =
        json["outputs"].as_array().unwrap().iter().map(|output| output["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["z", "a", "m"]);
}

#[test]
fn a_saved_state_continues_bit_for_bit() {
    let here = Workplace::new();
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f32"]);
    let rows = |range: std::ops::Range<usize>| -> Vec<f32> {
        range.flat_map(|step| (0..10).map(move |k| ((step * 10 + k) as f32 * 0.7).sin() * 5.0)).collect()
    };
    // Windows of 25 steps, every 6: they end at steps 24, 30 and 36.
    for (name, range) in [("all.npy", 0..40), ("first.npy", 0..27), ("rest.csv", 27..40)] {
        let tensor = Tensor { shape: vec![range.len(), 10], data: rows(range) };
        write_tensors(&here.path(name), &[(UNNAMED.to_owned(), tensor)].into()).unwrap();
    }
    let values = |name: &str| read_tensors(&here.path(name)).unwrap().into_values().next().unwrap();
    for (endless, rows) in [(&[][..], [3, 1, 2]), (&["--endless"], [40, 27, 13])] {
        let run = |args: &[&str]| assert!(here.run(&[&["run", "g.tgi"], args, endless].concat()).status.success());
        run(&["--input", "all.npy", "--output", "all_out.npy", "--state-out", "all.state"]);
        run(&["--input", "first.npy", "--output", "first_out.csv", "--state-out", "first.state"]);
        let rest = ["--input", "rest.csv", "--output", "rest_out.npz", "--state-in", "first.state"];
        run(&[&rest[..], &["--state-out", "rest.state"]].concat());
        let all @ [whole, first, rest] = &["all_out.npy", "first_out.csv", "rest_out.npz"].map(values);
        assert_eq!(all.each_ref().map(|part| part.shape[0]), rows);
        let bits = |data: &[f32]| data.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&whole.data), bits(&[&first.data[..], &rest.data].concat()));
        assert_eq!(here.read("all.state"), here.read("rest.state"));
    }
}

#[test]
fn the_format_of_a_sound_does_not_matter() {
    let here = Workplace::new();
    let yes = yes_flac();
    let sound = tidegate_model::data::read_audio(yes.as_ref()).unwrap();
    let (bits_per_sample, sample_format) = (16, hound::SampleFormat::Int);
    let spec = hound::WavSpec { channels: 1, sample_rate: sound.sample_rate, bits_per_sample, sample_format };
    let mut wav = hound::WavWriter::create(here.path("yes.wav"), spec).unwrap();
    sound.samples.iter().for_each(|&sample| wav.write_sample(sample).unwrap());
    wav.finalize().unwrap();
    let printed = here.succeed(&["run", &gru_pb(), "--input", "yes.wav"]);
    assert_eq!(printed, here.succeed(&["run", &gru_pb(), "--input", &yes]));
    assert!(printed.lines().last().unwrap().ends_with("  yes"), "{printed}");
}

/// A second of sound is one window of 25 frames. The layers behind the GRU run at its end only. The GRU also runs in the
/// windows that begin at frames 6, 12, 18 and 24: 25 + 19 + 13 + 7 + 1 rows.
#[test]
fn a_run_follows_the_schedule_and_endless_says_that_it_does_not() {
    let here = Workplace::new();
    let (gru, yes) = (gru_pb(), yes_flac());
    let run = ["run", &gru, "--input", &yes, "--output", "y.npy", "--layers", "layers.safetensors"];
    let rows = || {
        let mut rows: Vec<usize> =
            read_tensors(&here.path("layers.safetensors")).unwrap().values().map(|layer| layer.shape[0]).collect();
        rows.sort_unstable();
        rows
    };
    let done = here.run(&run);
    assert!(done.status.success() && done.stderr.is_empty());
    assert_eq!(rows(), [1, 1, 65]);
    let last = |name: &str| {
        let data = read_tensors(&here.path(name)).unwrap().into_values().next().unwrap().data;
        data[data.len() - 12..].to_vec()
    };
    let scheduled = last("y.npy");
    let done = here.run(&[&run[..], &["--endless"]].concat());
    let warning = String::from_utf8(done.stderr).unwrap();
    assert!(
        warning.contains("a device runs windows of 25 frames every 6") && warning.lines().count() == 1,
        "{warning}"
    );
    assert_eq!(rows(), [25, 25, 25]);
    assert_eq!(last("y.npy"), scheduled);

    let few = Tensor { shape: vec![7, 10], data: vec![0.5; 70] };
    write_tensors(&here.path("few.npy"), &[(UNNAMED.to_owned(), few)].into()).unwrap();
    let printed = here.succeed(&["run", &gru, "--input", "few.npy"]);
    assert!(printed.starts_with("no output: ") && printed.contains("--endless"), "{printed}");
}

/// In windows, `verify` compares the outputs that a device gives. One endless state of LSTM_S, which was trained on single
/// seconds, grows over a minute until integers cannot follow.
#[test]
fn verify_follows_the_schedule() {
    let here = Workplace::new();
    let (lstm, index) = (shipped("hello_edge/LSTM_S.pb"), shipped("speech_commands/index.csv"));
    let verify = |image: &str, more: &[&str]| -> Value {
        let verify = ["verify", image, "--against", &lstm, "--index", &index, "--json"];
        let Output { status, stdout, .. } = here.run(&[&verify[..], more].concat());
        assert!(status.success());
        serde_json::from_slice(&stdout).unwrap()
    };
    // Rows of windows that run at the same time are compared with each other, not across windows.
    here.succeed(&["pack", &lstm, "-o", "f.tgi", "--numeric", "f32"]);
    let itself = verify("f.tgi", &[]);
    for value in itself["layers"].as_array().unwrap().iter().chain(itself["states"].as_array().unwrap()) {
        assert_eq!(value["max_abs_error"], 0.0, "{value}");
    }
    assert_eq!(itself["states"].as_array().unwrap().len(), 1, "{itself}");

    here.succeed(&["pack", &lstm, "-o", "l.tgi", "--calibrate", &index]);
    let (windows, endless) = (verify("l.tgi", &[]), verify("l.tgi", &["--endless"]));
    let ratio = |found: &Value| found["snr_db"].as_f64().unwrap();
    assert!(ratio(&windows) > ratio(&endless) + 6.0, "{windows} in windows, {endless} endless");
    let saturated = |found: &Value| found["states"][0]["saturation"].as_f64().unwrap();
    assert!(saturated(&windows) == 0.0 && saturated(&endless) > 0.0, "{windows} in windows, {endless} endless");

    let few = Tensor { shape: vec![7, 10], data: vec![0.5; 70] };
    write_tensors(&here.path("few.npy"), &[(UNNAMED.to_owned(), few)].into()).unwrap();
    let short = ["verify", "l.tgi", "--against", &lstm, "--input", "few.npy"];
    here.refuse(&short, "few.npy", &["ends before the model gives an output", "at least 25 steps, or --endless"]);
}

#[test]
fn reports_have_stable_fields() {
    let here = Workplace::new();
    let index = shipped("speech_commands/index.csv");
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f32"]);
    here.succeed(&["pack", &gru_pb(), "-o", "half.tgi", "--numeric", "f16"]);

    let found = here.json(&["eval", "g.tgi", "--index", &index, "--json"]);
    fields(&found, "clips correct accuracy confusion labels");
    assert_eq!(found["clips"], 24);
    let total = |row: &Value| row.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>();
    assert_eq!(found["confusion"].as_array().unwrap().iter().map(total).sum::<u64>(), 24);
    let accuracy = found["correct"].as_f64().unwrap() / 24.0;
    assert_eq!(found["accuracy"], accuracy);
    assert!(accuracy > 0.8, "{accuracy}");

    let found = here.json(&["eval", "g.tgi", "--index", &index, "--stream", "--seed", "3", "--json"]);
    fields(&found, "clips seconds seed keywords right wrong missed false_alarms false_alarms_per_hour labels");
    let count = |name: &str| found[name].as_u64().unwrap();
    assert_eq!((count("clips"), count("seed"), count("keywords")), (24, 3, 20));
    assert_eq!(count("right") + count("wrong") + count("missed"), count("keywords"));

    let verify = ["verify", "half.tgi", "--against", &gru_pb(), "--input", &yes_flac(), "--json"];
    let found = here.json(&verify);
    fields(&found, "max_abs_error snr_db steps layers states");
    assert!(found["max_abs_error"].as_f64().unwrap() < 0.01 && found["snr_db"].as_f64().unwrap() > 40.0, "{found}");
    assert_eq!(found["layers"].as_array().unwrap().len(), 3);
    fields(&found["layers"][0], "name max_abs_error snr_db saturation");
    let itself = here.json(&["verify", "g.tgi", "--against", &gru_pb(), "--input", &yes_flac(), "--json"]);
    assert_eq!((&itself["max_abs_error"], &itself["snr_db"]), (&0.0.into(), &Value::Null));
}

#[test]
fn listen_draws_a_timeline() {
    let here = Workplace::new();
    // A name that XML must escape.
    fs::copy(yes_flac(), here.path("y & <n>.flac")).unwrap();
    let printed = here.succeed(&["listen", &gru_pb(), "--wav", "y & <n>.flac", "--plot", "yes.svg"]);
    assert!(printed.ends_with("drawn in yes.svg\n"), "{printed}");
    let picture = String::from_utf8(here.read("yes.svg")).unwrap();
    let picture = roxmltree::Document::parse(&picture).unwrap();
    assert_eq!(picture.root_element().tag_name().name(), "svg");
    assert!(picture.descendants().any(|node| node.text().is_some_and(|text| text.contains("y & <n>.flac"))));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let here = Workplace::new();
    let (gru, index) = (gru_pb(), shipped("speech_commands/index.csv"));
    let commands: [&[&str]; 3] =
        [&["inspect", &gru], &["run", &gru, "--input", &yes_flac()], &["eval", &gru, "--index", &index]];
    for args in commands {
        let mut child = here.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let done = child.wait_with_output().unwrap();
        let stderr = without_notes(&done.stderr);
        assert!(done.status.success() && stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
    }
    // A command whose pipes are closed still writes its files.
    let mut command = here.command(&["run", &gru, "--input", &yes_flac(), "--output", "run.npz"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert!(child.wait().unwrap().success());
    assert!(!here.read("run.npz").is_empty());
    if cfg!(target_os = "linux") {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let done = here.command(&["inspect", &gru]).stdout(full).output().unwrap();
        let stderr = String::from_utf8(without_notes(&done.stderr)).unwrap();
        assert_eq!(done.status.code(), Some(1));
        assert!(
            stderr.starts_with("tidegate: standard output: No space left") && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
}
