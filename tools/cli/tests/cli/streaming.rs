//! `run` of streaming TFLite models: steps and calls, real values and integers; and models over windows as streams.

use std::path::Path;

use tidegate_model::canonical::Tensor;
use tidegate_model::data::{UNNAMED, read_audio, read_tensors, write_tensors};
use tidegate_tests::data;

use super::Workplace;

/// Features of a step, and steps of a call.
const SIZE: usize = 4;
const ROWS: usize = 3;
const CALLS: usize = 9;
const SEQUENCES: usize = 3;

/// A file of LiteRT's recorded sequences, or their model.
fn recorded(end: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frameworks/tflite");
    folder.join(format!("integer_rings_of_3.{end}")).display().to_string()
}

/// TFLite's integers of the first sequence.
fn integers(end: &str) -> Vec<f32> {
    let Tensor { data, .. } = read_tensors(Path::new(&recorded(end))).unwrap().pop_first().unwrap().1;
    let sequence = data.len() / SEQUENCES;
    data[..sequence].to_vec()
}

/// An `.npy` file of int8.
fn int8(shape: &str, values: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '|i1', 'fortran_order': False, 'shape': ({shape}), }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16 + 1).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.push(b'\n');
    bytes.extend(values.iter().map(|&value| (value as i8).cast_unsigned()));
    bytes
}

#[test]
fn steps_calls_and_integers_of_a_streaming_model_give_the_outputs_of_litert() {
    let here = Workplace::new();
    let (model, input) = (recorded("tflite"), integers("in.safetensors"));
    assert_eq!(input.len(), CALLS * ROWS * SIZE);
    let inspected = here.json(&["inspect", &model, "--json"]);
    let port = |of: &str| {
        let number = |name: &str| inspected[of][0][name].as_f64().unwrap() as f32;
        (number("scale"), number("zero_point"))
    };
    let (scale, zero_point) = port("outputs");
    let expected: Vec<f32> = integers("out.safetensors").iter().map(|value| (value - zero_point) * scale).collect();
    let check = |name: &str| {
        here.succeed(&["run", &model, "--input", name, "--output", "out.npy"]);
        let given = read_tensors(&here.path("out.npy")).unwrap().remove(UNNAMED).unwrap();
        assert_eq!(given.shape, [CALLS, 3], "{name}");
        assert_eq!(given.data, expected, "{name}");
    };
    here.write("steps.npy", int8(&format!("{}, {SIZE}", CALLS * ROWS), &input));
    check("steps.npy");
    here.write("calls.npy", int8(&format!("{CALLS}, 1, {ROWS}, {SIZE}"), &input));
    check("calls.npy");
    let (scale, zero_point) = port("inputs");
    let real = |shape: Vec<usize>| {
        let data = input.iter().map(|value| (value - zero_point) * scale).collect();
        [(UNNAMED.to_owned(), Tensor { shape, data })].into()
    };
    write_tensors(&here.path("real.npy"), &real(vec![CALLS, ROWS, SIZE])).unwrap();
    check("real.npy");
    write_tensors(&here.path("rows.csv"), &real(vec![CALLS * ROWS, SIZE])).unwrap();
    check("rows.csv");
}

#[test]
fn steps_that_do_not_fill_a_call_are_dropped_with_a_note() {
    let here = Workplace::new();
    let (model, input) = (recorded("tflite"), integers("in.safetensors"));
    let run = |steps: usize| {
        here.write("steps.npy", int8(&format!("{steps}, {SIZE}"), &input[..steps * SIZE]));
        let run = ["run", &model, "--input", "steps.npy", "--output", "out.npy", "--state-out", "s"];
        let done = here.command(&run).output().unwrap();
        (done.status.success(), String::from_utf8(done.stderr).unwrap())
    };
    let (succeeded, said) = run(12);
    assert!(succeeded && !said.contains("steps.npy"), "{said}");
    let (state, output) = (here.read("s"), here.read("out.npy"));
    let (succeeded, said) = run(14);
    assert!(succeeded, "{said}");
    let dropped = "note: steps.npy: 2 steps at the end do not fill a call of 3, and are dropped\n";
    assert!(said.ends_with(dropped), "{said}");
    assert!(here.read("s") == state && here.read("out.npy") == output, "the dropped steps changed the result");
    let (succeeded, said) = run(2);
    assert!(!succeeded && said.contains("has 2 steps of the input") && said.contains("a call of the model takes 3"));
    here.write("calls.npy", int8(&format!("4, 2, {SIZE}"), &input[..8 * SIZE]));
    let done = here.run(&["run", &model, "--input", "calls.npy"]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains("takes [steps, 4] or [calls, 3, 4]"), "{said}");
}

/// A network whose input is a window of frames takes them in the shape of its input, and frame by frame.
#[test]
fn frames_are_grouped_as_the_input_of_the_network() {
    let here = Workplace::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frameworks/tflite");
    let model = folder.join("float_parts.tflite").display().to_string();
    let frames: Vec<f32> = (0..9 * 15).map(|at| (at * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let run = |shape: &[usize]| {
        let data = frames[..shape.iter().product()].to_vec();
        let tensor = Tensor { shape: shape.to_vec(), data };
        write_tensors(&here.path("frames.npy"), &[(UNNAMED.to_owned(), tensor)].into()).unwrap();
        let run = ["run", &model, "--input", "frames.npy", "--output", "out.npy", "--numeric", "f32"];
        let done = here.command(&run).output().unwrap();
        (done.status.success(), String::from_utf8(done.stderr).unwrap(), here.path("out.npy"))
    };
    let outputs = |shape: &[usize]| {
        let (succeeded, said, output) = run(shape);
        assert!(succeeded, "{shape:?}: {said}");
        (read_tensors(&output).unwrap().pop_first().unwrap().1, said)
    };
    let (one, _) = outputs(&[1, 45]);
    for shape in [&[9, 5][..], &[1, 9, 5]] {
        assert!(outputs(shape).0 == one, "{shape:?}");
    }
    let (two, _) = outputs(&[2, 9, 5]);
    assert_eq!(two.data.len(), 2 * one.data.len());
    let (frames, said) = outputs(&[20, 5]);
    assert!(frames == two && said.contains("2 frames at the end do not fill a call of 9, and are dropped"), "{said}");
    for shape in [&[8, 5][..], &[9, 6], &[9, 15]] {
        let (succeeded, said, _) = run(shape);
        assert!(!succeeded && said.contains("takes [frames, 5], [steps, 45] or [n, steps, 45]"), "{shape:?}: {said}");
    }
}

/// An amplifier has no front end: its steps are the samples of a sound.
#[test]
fn a_sound_is_the_steps_of_a_model_of_samples() {
    let here = Workplace::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/small/deployed/amps");
    let model = folder.join("lstm8_ts9_pytorch.json").display().to_string();
    let flac = super::yes_flac();
    let samples = read_audio(Path::new(&flac)).unwrap().samples;
    let data: Vec<f32> = samples.iter().map(|&sample| f32::from(sample) / 32_768.0).collect();
    let tensor = Tensor { shape: vec![data.len(), 1], data };
    write_tensors(&here.path("samples.npy"), &[(UNNAMED.to_owned(), tensor)].into()).unwrap();
    let given = [flac.as_str(), "samples.npy"].map(|input| {
        here.succeed(&["run", &model, "--input", input, "--output", "out.npy"]);
        here.succeed(&["pack", &model, "--calibrate", input, "-o", "amp.tgi"]);
        (here.read("out.npy"), here.read("amp.tgi"))
    });
    assert!(given[0] == given[1], "samples and their sound differ");
    let done = here.command(&["run", "amp.tgi", "--input", &flac, "--output", "out.npy"]).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.ends_with(&format!("its {} samples at 16000 Hz are the steps\n", samples.len())), "{said}");
}

/// Calls of a graph that has no time dimension are the steps of one stream in every command, as in `run`. An image does not
/// say how its graph was called.
#[test]
fn calls_of_a_graph_without_time_calibrate_as_one_stream() {
    const CHUNKS: usize = 12;
    const CHUNK: usize = 576;
    let here = Workplace::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/silero_vad");
    let model = folder.join("silero_vad_16k_op15.onnx").display().to_string();
    let sound = (0..CHUNKS * CHUNK).map(|at| ((at * at % 1009) as f32 / 1009.0 - 0.5) * (at % 3000) as f32 / 3000.0);
    let sound: Vec<f32> = sound.collect();
    let images = [vec![CHUNKS, CHUNK], vec![CHUNKS, 1, CHUNK], vec![CHUNKS, 1, 24, 24]].map(|shape| {
        let tensors = [(UNNAMED.to_owned(), Tensor { shape, data: sound.clone() })].into();
        write_tensors(&here.path("chunks.npy"), &tensors).unwrap();
        here.succeed(&["pack", &model, "--bind", "sr=16000", "--calibrate", "chunks.npy", "-o", "silero.tgi"]);
        here.read("silero.tgi")
    });
    assert!(images[0] == images[1] && images[0] == images[2], "the calibration depends on the shape");
    let verified = [vec![CHUNKS, CHUNK], vec![CHUNKS, 1, CHUNK]].map(|shape| {
        let tensors = [(UNNAMED.to_owned(), Tensor { shape, data: sound.clone() })].into();
        write_tensors(&here.path("chunks.npy"), &tensors).unwrap();
        let against = ["verify", "silero.tgi", "--against", &model, "--bind", "sr=16000"];
        here.succeed(&[&against[..], &["--input", "chunks.npy"]].concat())
    });
    assert!(verified[0] == verified[1], "{verified:#?}");
    let tensors = [(UNNAMED.to_owned(), Tensor { shape: vec![CHUNKS, 1, CHUNK], data: sound })].into();
    write_tensors(&here.path("chunks.npy"), &tensors).unwrap();
    let done = here.command(&["run", "silero.tgi", "--input", "chunks.npy", "--output", "out.npy"]).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    let note = "note: chunks.npy: each of the 12 sequences has one step; one sequence of 12 steps is [12, 576]\n";
    assert!(done.status.success() && said.ends_with(note), "{said}");
    let classifier = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frameworks/torch/classifier.pth");
    let tensor = Tensor { shape: vec![12, 1, 7], data: (0..84_u8).map(|k| f32::from(k % 11) / 10.0 - 0.5).collect() };
    write_tensors(&here.path("x.npy"), &[(UNNAMED.to_owned(), tensor)].into()).unwrap();
    let pack = ["pack", &classifier.display().to_string(), "--calibrate", "x.npy", "-o", "classifier.tgi"];
    let done = here.command(&pack).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    let note = "note: x.npy: each of the 12 sequences has one step; one sequence of 12 steps is [12, 7]\n";
    assert!(done.status.success() && said.contains(note), "{said}");
}

/// Frames of a window of MLPerf's streaming wake word, and features of a frame.
const FRAMES: usize = 30;
const FEATURES: usize = 40;

#[test]
fn a_model_over_windows_steps_frame_by_frame_with_stream() {
    let here = Workplace::new();
    let file = |name: &str| data::file(&format!("deployed/mlperf_streaming/{name}")).display().to_string();
    let model = file("str_ww_ref_model.tflite");
    let recorded = read_tensors(Path::new(&file("reference.safetensors"))).unwrap();
    let frames = &recorded["short/input"].data[..50 * FEATURES];
    let windows: Vec<f32> = frames.windows(FRAMES * FEATURES).step_by(FEATURES).flatten().copied().collect();
    here.write("frames.npy", int8(&format!("50, {FEATURES}"), frames));
    here.write("windows.npy", int8(&format!("21, {}", FRAMES * FEATURES), &windows));
    let output = |args: &[&str]| {
        here.succeed(&[args, &["--output", "out.npy"]].concat());
        read_tensors(&here.path("out.npy")).unwrap().remove(UNNAMED).unwrap()
    };
    let expected = output(&["run", &model, "--input", "windows.npy"]);
    assert_eq!(expected.shape, [21, 3]);
    assert_eq!(output(&["run", &model, "--stream", "--input", "frames.npy"]), expected);
    here.succeed(&["pack", &model, "--stream", "-o", "stream.tgi", "--for", "cortex-m4"]);
    assert_eq!(output(&["run", "stream.tgi", "--input", "frames.npy"]), expected);
    here.succeed(&["import", &model, "--stream", "-o", "stream.safetensors"]);
    assert_eq!(output(&["run", "stream.safetensors", "--input", "frames.npy"]), expected);
    let macs = |args: &[&str]| {
        let inspected = here.json(&[&["inspect", "--json"], args].concat());
        inspected["layers"].as_array().unwrap().iter().map(|layer| layer["macs"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!([macs(&[&model]), macs(&[&model, "--stream"])], [826_368, 46_040]);
    // The layers of both have the same order, and the reference has windows in place too.
    here.succeed(&["verify", "stream.tgi", "--against", &model, "--stream", "--input", "frames.npy"]);
    here.refuse(
        &["verify", "stream.tgi", "--against", &model, "--input", "frames.npy"],
        "stream.tgi",
        &["other layers"],
    );
}

#[test]
fn stream_is_proposed_where_it_works_and_refused_by_name_elsewhere() {
    let here = Workplace::new();
    let model = data::file("deployed/mlperf_streaming/str_ww_ref_model.tflite").display().to_string();
    let said = here.notes(&["pack", &model, "-o", "whole.tgi"]);
    assert!(said.contains("every layer treats the rows of the window alike: --stream steps row by row"), "{said}");
    let image = ["--arch, --window, --shape, --bind, --state and --stream out"];
    here.refuse(&["inspect", "whole.tgi", "--stream"], "whole.tgi", &image);
    let steps = recorded("tflite");
    here.refuse(&["inspect", &steps, "--stream"], &steps, &["no convolution reads several rows of the input"]);
    here.refuse(&["pack", &steps, "--stream", "-o", "x.tgi"], &steps, &["or steps row by row already"]);
}
