//! Bad input: the error is one line with the file, the reason and the remedy.

use std::collections::BTreeMap;
use std::fs;

use prost::Message;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::{UNNAMED, write_tensors};
use tidegate_model::format::graphdef::NodeDef;

use super::{Workplace, gru_pb, shipped, yes_flac};

fn matrix(shape: [usize; 2]) -> BTreeMap<String, Tensor> {
    let data = vec![0.5; shape[0] * shape[1]];
    BTreeMap::from([(UNNAMED.to_owned(), Tensor { shape: shape.to_vec(), data })])
}

#[test]
fn missing_files_and_folders_are_refused() {
    let here = Workplace::new();
    fs::create_dir(here.path("folder")).unwrap();
    let gru = gru_pb();
    let commands: [&[&str]; 6] = [
        &["import", "FILE", "-o", "x.safetensors"],
        &["pack", "FILE", "-o", "x.tgi"],
        &["inspect", "FILE"],
        &["run", &gru, "--input", "FILE.npy"],
        &["listen", &gru, "--wav", "FILE"],
        &["eval", &gru, "--index", "FILE"],
    ];
    for command in commands {
        for (name, reason) in [("missing", "there is no such file"), ("folder", "is a folder, but a file is needed")] {
            let args: Vec<String> = command.iter().map(|arg| arg.replace("FILE", name)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let file = args.iter().find(|arg| arg.starts_with(name)).unwrap();
            let reason = if file.ends_with(".npy") { "there is no such file" } else { reason };
            here.refuse(&args, file, &[reason]);
        }
    }
    here.refuse(&["pack", &gru, "-o", "x.tgi", "--labels", "missing"], "missing", &["there is no such file"]);
}

#[test]
fn truncated_graphs_and_unknown_operators_are_refused() {
    let here = Workplace::new();
    let whole = fs::read(gru_pb()).unwrap();
    for len in [0, 1, 2, 40, 1000, whole.len() / 2, whole.len() - 1000] {
        here.write("cut.pb", &whole[..len]);
        let way_out = "copy or export the file again";
        for args in [["pack", "cut.pb", "-o", "x.tgi"], ["import", "cut.pb", "-o", "x.safetensors"]] {
            here.refuse(&args, "cut.pb", &[way_out]);
        }
        here.refuse(&["inspect", "cut.pb"], "cut.pb", &[way_out]);
    }
    let node = |name: &str, op: &str, input: &[&str]| NodeDef {
        name: name.into(),
        op: op.into(),
        input: input.iter().map(|&input| input.into()).collect(),
        ..NodeDef::default()
    };
    let mut graph = Vec::new();
    for node in [node("in", "Placeholder", &[]), node("odd\nname", "FancyCell", &["in"])] {
        let encoded = node.encode_to_vec();
        graph.extend([0x0a, u8::try_from(encoded.len()).unwrap()]);
        graph.extend(encoded);
    }
    here.write("other.pb", graph);
    here.refuse(&["import", "other.pb", "-o", "x.safetensors"], "other.pb", &["FancyCell", "; "]);
}

#[test]
fn weights_of_rnnoise_with_a_wrong_length_are_refused() {
    let here = Workplace::new();
    let whole = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/rnnoise/weights.rnn")).unwrap();
    for (bytes, reason) in [
        (&whole[..1000], "it ends within input_dense's weights, after 1000 numbers; copy or export the file again"),
        (&[&whole[..], &whole].concat()[..], "87521 numbers follow its last layer; copy or export the file again"),
        (&b"rnnoise-nu model file version 1\n42 24 zero"[..], "number 3, of input_dense's activation, is \"zero\""),
    ] {
        here.write("x.rnn", bytes);
        for args in [["pack", "x.rnn", "-o", "x.tgi"], ["import", "x.rnn", "-o", "x.safetensors"]] {
            here.refuse(&args, "x.rnn", &["it is not a readable RNNoise model", reason]);
        }
        here.refuse(&["inspect", "x.rnn"], "x.rnn", &[reason]);
    }
}

#[test]
fn sounds_in_another_format_are_refused() {
    let here = Workplace::new();
    let gru = gru_pb();
    let wav = |name: &str, sample_rate, channels, bits_per_sample| {
        let sample_format = hound::SampleFormat::Int;
        let spec = hound::WavSpec { channels, sample_rate, bits_per_sample, sample_format };
        let mut wav = hound::WavWriter::create(here.path(name), spec).unwrap();
        (0..200_i16).for_each(|sample| wav.write_sample(sample % 100).unwrap());
        wav.finalize().unwrap();
    };
    wav("fast.wav", 44_100, 1, 16);
    wav("stereo.wav", 16_000, 2, 16);
    wav("coarse.wav", 16_000, 1, 8);
    wav("short.wav", 16_000, 1, 16);
    here.write("text.wav", "hello");
    let flac = fs::read(yes_flac()).unwrap();
    here.write("cut.flac", &flac[..flac.len() / 2]);
    for (file, reason) in [
        ("fast.wav", "is 44100 Hz mono, 16-bit PCM; this model needs 16000 Hz mono"),
        ("stereo.wav", "is 16000 Hz stereo"),
        ("coarse.wav", "is 16000 Hz mono, 8-bit PCM"),
        ("text.wav", "is neither .wav nor .flac"),
        ("cut.flac", "is not a whole FLAC"),
    ] {
        let way_out = if reason.starts_with("is 1") || reason.starts_with("is 4") { "convert with `sox" } else { "" };
        here.refuse(&["listen", &gru, "--wav", file, "--plot", "x.svg"], file, &[reason, way_out]);
        here.refuse(&["run", &gru, "--input", file, "--output", "x.npy"], file, &[reason, way_out]);
        here.write("index.csv", format!("file,label\n{file},yes\n"));
        here.refuse(&["eval", &gru, "--index", "index.csv", "--json"], file, &[reason, way_out]);
    }
    here.refuse(&["run", &gru, "--input", "short.wav"], "short.wav", &["200 samples are less than one frame of 640"]);
}

/// A panic of the decoder in a damaged file must not reach the user.
#[test]
fn damaged_sounds_never_show_a_panic() {
    let here = Workplace::new();
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f32"]);
    let (whole, mut refused) = (fs::read(yes_flac()).unwrap(), 0);
    for at in (4..120).step_by(3).chain((200..whole.len()).step_by(1500)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        here.write("a.flac", bytes);
        let run = here.run(&["run", "g.tgi", "--input", "a.flac", "--output", "x.npy"]);
        let stderr = String::from_utf8(run.stderr).unwrap();
        // Not every byte of a FLAC matters; its name and its MD5 do not.
        let lines = match run.status.code() {
            Some(0) => 0,
            Some(1) => 1,
            other => panic!("byte {at}: {other:?}: {stderr}"),
        };
        refused += lines;
        assert!(stderr.lines().count() == lines && !stderr.contains("panicked"), "byte {at}: {stderr}");
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn tables_and_tensors_of_a_wrong_shape_are_refused() {
    let here = Workplace::new();
    let gru = gru_pb();
    here.write("empty.csv", "");
    here.write("ragged.csv", "1,2\n3\n");
    here.write("words.csv", "1,2\n3,many\n");
    here.write("pair.csv", "1,2\n3,4\n");
    write_tensors(&here.path("wide.npy"), &matrix([25, 11])).unwrap();
    here.write("cut.npy", &here.read("wide.npy")[..200]);
    for (file, parts) in [
        ("empty.csv", ["has no row of numbers", ""]),
        ("ragged.csv", ["line 2: has 1 columns", "the first row has 2"]),
        ("words.csv", ["line 2: column 2: `many` is not a number", ""]),
        ("pair.csv", ["[2, 2]", "the input \"Mfcc\" takes [steps, 10]"]),
        ("wide.npy", ["[25, 11]", "the input \"Mfcc\" takes [steps, 10]"]),
        ("cut.npy", ["which is not what shape [25, 11] needs", ""]),
    ] {
        here.refuse(&["run", &gru, "--input", file, "--output", "x.npy"], file, &parts);
    }
    write_tensors(&here.path("in.npy"), &matrix([2, 10])).unwrap();
    let odd = ["run", &gru, "--input", "in.npy", "--output", "x.txt"];
    here.refuse(&odd, "x.txt", &["has no supported extension: .npy"]);
}

#[test]
fn indices_and_labels_that_do_not_match_are_refused() {
    let here = Workplace::new();
    let gru = gru_pb();
    let clip = yes_flac();
    for (text, parts) in [
        (String::new(), ["is empty, but needs a header with file and label", ""]),
        ("file,word\na.wav,yes\n".into(), ["line 1: the header has no column `label`", "it has: file, word"]),
        ("file,label\na.wav,yes\n".into(), ["line 2: a.wav: there is no such file", "relative to the index"]),
        (format!("file,label\n{clip},maybe\n"), ["label \"maybe\" is not one of the model's", "yes no up down"]),
        (format!("file,label\n{clip}\n"), ["line 2: has 1 columns", ""]),
        ("file,label\n".into(), ["lists no clips", ""]),
    ] {
        here.write("i.csv", text);
        here.refuse(&["eval", &gru, "--index", "i.csv"], "i.csv", &parts);
        here.refuse(&["eval", &gru, "--index", "i.csv", "--stream", "--json"], "i.csv", &parts);
    }
    here.write("few.txt", "yes\nno\n");
    let few = ["pack", &gru, "-o", "x.tgi", "--labels", "few.txt"];
    here.refuse(&few, "few.txt", &["has 2 labels", "12 classes", "--labels FILE"]);
}

#[test]
fn a_window_of_days_is_refused() {
    let here = Workplace::new();
    let mut front_end = here.json(&["inspect", &gru_pb(), "--json"])["front_end"].take();
    front_end["stride_len"] = 60_000.into();
    here.write("f.json", front_end.to_string());
    here.succeed(&[
        "pack",
        &gru_pb(),
        "-o",
        "g.tgi",
        "--front-end",
        "f.json",
        "--schedule",
        "60000/100",
        "--numeric",
        "f32",
    ]);
    let eval = ["eval", "g.tgi", "--index", &shipped("speech_commands/index.csv")];
    here.refuse(
        &eval,
        "g.tgi",
        &["a window of 60000 frames is 3599940640 samples long, but a clip has at most 268435456"],
    );
}

/// The file has no blocks on disk, only a length.
#[test]
fn an_image_of_half_a_gigabyte_is_not_read() {
    let here = Workplace::new();
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f32"]);
    fs::File::options().write(true).open(here.path("g.tgi")).unwrap().set_len((512 << 20) + 1).unwrap();
    here.refuse(&["inspect", "g.tgi"], "g.tgi", &["is longer than 512 MiB"]);
}

#[test]
fn labels_that_change_the_direction_of_text_are_refused() {
    let here = Workplace::new();
    let labels = |first: &str| format!("{first}\n{}", "x\n".repeat(11));
    for first in ["a\u{7}b", "a\u{85}b", "a\u{202e}b", "\u{2066}a"] {
        here.write("labels.txt", labels(first));
        let pack = ["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f32", "--labels", "labels.txt"];
        here.refuse(&pack, &gru_pb(), &["no control or direction characters"]);
    }
}

/// Root may write to every ordinary folder, so the test uses folders of kernel file systems.
#[test]
fn outputs_that_cannot_be_written_leave_nothing() {
    let here = Workplace::new();
    let gru = gru_pb();
    fs::create_dir(here.path("folder")).unwrap();
    here.write("file", "");
    write_tensors(&here.path("in.npy"), &matrix([3, 10])).unwrap();
    let yes = yes_flac();
    for (place, reason) in [
        ("none/x", "there is no folder none: make it with `mkdir -p none`"),
        ("folder", "is a folder, but a file name is needed"),
        ("file/x", "file is a file, not a folder; give another path"),
        ("/proc/x", "the folder /proc cannot be written to"),
        ("/dev/full", "cannot be written: No space left on device"),
    ] {
        if place.starts_with('/') && !cfg!(target_os = "linux") {
            println!("SKIP {place}: only Linux has it");
            continue;
        }
        here.refuse(&["import", &gru, "-o", place], place, &[reason]);
        here.refuse(&["pack", &gru, "-o", place], place, &[reason]);
        here.refuse(&["run", &gru, "--input", "in.npy", "--state-out", place], place, &[reason]);
        for (good, bad) in [("--state-out", "--output"), ("--layers", "--state-out"), ("--layers", "--output")] {
            if bad == "--output" && (place.starts_with("/dev") || place == "folder") {
                continue;
            }
            let place = if bad == "--output" { format!("{place}.npy") } else { place.to_owned() };
            here.refuse(&["run", &gru, "--input", "in.npy", good, "good.npz", bad, &place], &place, &[reason]);
        }
        let drawing = ["listen", &gru, "--wav", &yes, "--plot", place];
        here.refuse(&drawing, place, &[reason]);
        if !place.starts_with("/dev") && place != "folder" {
            let place = format!("{place}.npy");
            let output = ["run", &gru, "--input", "in.npy", "--output", &place];
            here.refuse(&output, &place, &[reason]);
        }
    }
}

#[test]
fn a_failed_pack_leaves_the_older_image() {
    let here = Workplace::new();
    let gru = gru_pb();
    here.succeed(&["pack", &gru, "-o", "g.tgi", "--numeric", "f32"]);
    here.write("cut.pb", &fs::read(&gru).unwrap()[..100_000]);
    here.write("few.txt", "yes\n");
    here.refuse(&["pack", "cut.pb", "-o", "g.tgi"], "cut.pb", &[]);
    here.refuse(&["pack", &gru, "-o", "g.tgi", "--labels", "few.txt"], "few.txt", &[]);
    here.refuse(&["pack", "g.tgi", "-o", "other.tgi"], "g.tgi", &["is a flash image already"]);
    here.succeed(&["inspect", "g.tgi"]);
}

#[test]
fn inputs_are_not_overwritten() {
    let here = Workplace::new();
    here.write("g.pb", fs::read(gru_pb()).unwrap());
    here.write("yes.flac", fs::read(yes_flac()).unwrap());
    here.succeed(&["pack", "g.pb", "-o", "g.tgi", "--numeric", "f32"]);
    write_tensors(&here.path("x.npy"), &matrix([5, 10])).unwrap();
    let reason = ["give the output another name"];
    here.refuse(&["pack", "g.pb", "-o", "g.pb"], "g.pb", &reason);
    here.refuse(&["import", "g.pb", "-o", "./g.pb"], "./g.pb", &reason);
    here.refuse(&["run", "g.tgi", "--input", "x.npy", "--output", "x.npy"], "x.npy", &reason);
    here.refuse(&["run", "g.tgi", "--input", "x.npy", "--state-out", "g.tgi"], "g.tgi", &reason);
    here.refuse(&["listen", "g.tgi", "--wav", "yes.flac", "--plot", "yes.flac"], "yes.flac", &reason);
    here.write("l.txt", fs::read(shipped("hello_edge/labels.txt")).unwrap());
    here.refuse(&["pack", "g.pb", "-o", "l.txt", "--labels", "l.txt"], "l.txt", &reason);
    here.refuse(&["import", "g.pb", "-o", "l.txt", "--labels", "l.txt"], "l.txt", &reason);
}

#[test]
fn two_outputs_do_not_share_a_name() {
    let here = Workplace::new();
    let gru = gru_pb();
    here.succeed(&["pack", &gru, "-o", "g.tgi", "--numeric", "f32"]);
    write_tensors(&here.path("x.npy"), &matrix([5, 10])).unwrap();
    let reason = ["is the name of two outputs: give each output its own name"];
    here.refuse(&["pack", &gru, "-o", "new.tgi", "--report", "./new.tgi"], "./new.tgi", &reason);
    here.refuse(&["inspect", "g.tgi", "--c-header", "g.c", "--c-array", "g.c"], "g.c", &reason);
    // If one file cannot be written, none appears.
    here.refuse(&["inspect", "g.tgi", "--c-header", "g.h", "--c-array", "no/g.c"], "no/g.c", &["mkdir -p no"]);
    let run = ["run", "g.tgi", "--input", "x.npy", "--output", "y.npz", "--layers", "y.npz"];
    here.refuse(&run, "y.npz", &reason);
}

#[test]
fn inputs_that_are_not_finite_are_refused() {
    let here = Workplace::new();
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f32"]);
    here.write("x.csv", "1,2,3,4,5,6,7,8,9,10\n1,2,NaN,4,5,6,7,8,9,10\n");
    here.refuse(&["run", "g.tgi", "--input", "x.csv"], "x.csv", &["NaN in step 1"]);
}

#[test]
fn damaged_images_and_states_of_other_models_are_refused() {
    let here = Workplace::new();
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f32"]);
    let whole = here.read("g.tgi");
    for at in [4, 8, 20, 33, 100, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        here.write("bad.tgi", bytes);
        here.refuse(&["inspect", "bad.tgi"], "bad.tgi", &["pack the model again"]);
    }
    for len in [4, 31, 32, 500, whole.len() - 1] {
        here.write("bad.tgi", &whole[..len]);
        here.refuse(&["inspect", "bad.tgi", "--json"], "bad.tgi", &["ends too soon", "fetch the image again"]);
    }
    here.refuse(&["inspect", "g.tgi", "--numeric", "f16"], "g.tgi", &["f32 already", "leave --numeric out"]);

    write_tensors(&here.path("in.npy"), &matrix([3, 10])).unwrap();
    let lstm = shipped("hello_edge/LSTM_S.pb");
    here.succeed(&["run", &lstm, "--input", "in.npy", "--state-out", "lstm.state"]);
    here.succeed(&["run", "g.tgi", "--input", "in.npy", "--state-out", "gru.state"]);
    let mut state = here.read("gru.state");
    state[100] ^= 1;
    here.write("bad.state", &state);
    here.write("text.state", "a".repeat(700));
    for (file, reason) in [
        ("lstm.state", "saved by another model, or by this one packed otherwise"),
        ("bad.state", "damaged: checksum"),
        ("text.state", "not a saved state"),
    ] {
        let args = ["run", "g.tgi", "--input", "in.npy", "--state-in", file, "--output", "x.npy"];
        here.refuse(&args, file, &[reason, "--state-out"]);
    }
    fs::File::create(here.path("long.state")).unwrap().set_len(1 << 30).unwrap();
    let args = ["run", "g.tgi", "--input", "in.npy", "--state-in", "long.state"];
    here.refuse(&args, "long.state", &["is longer than 512 MiB"]);
    fs::File::create(here.path("long.onnx")).unwrap().set_len((64 << 20) + 1).unwrap();
    here.refuse(&["import", "long.onnx", "-o", "x.safetensors"], "long.onnx", &["larger than 67108864 bytes"]);
    let verify = ["verify", "g.tgi", "--against", &lstm, "--input", "in.npy"];
    here.refuse(&verify, "g.tgi", &["has other layers", "packed from another model?"]);
}

/// Changes port names in an image to control sequences, with a valid checksum.
#[test]
fn a_port_name_that_controls_the_terminal_is_refused() {
    let here = Workplace::new();
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f32"]);
    let mut image = here.read("g.tgi");
    for (from, to) in [(&b"Mfcc"[..], &b"\x1b[2J"[..]), (b"labels_softmax", b"labels_s\nftmax")] {
        let at = image.windows(from.len()).position(|bytes| bytes == from).unwrap();
        image[at..at + to.len()].copy_from_slice(to);
    }
    // CRC-32 of every byte except those of the checksum.
    let bytes = image[..28].iter().chain(&image[32..]);
    let crc = bytes.fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    });
    image[28..32].copy_from_slice(&(!crc).to_le_bytes());
    here.write("g.tgi", image);
    write_tensors(&here.path("in.npy"), &matrix([3, 10])).unwrap();
    for args in [&["inspect", "g.tgi"][..], &["run", "g.tgi", "--input", "in.npy"], &["inspect", "g.tgi", "--json"]] {
        here.refuse(args, "g.tgi", &["the section `ports` is invalid"]);
    }
}

#[test]
fn canonical_models_of_a_wrong_shape_are_refused() {
    let here = Workplace::new();
    here.succeed(&["import", &gru_pb(), "-o", "g.safetensors"]);
    let model = Canonical::load(&here.path("g.safetensors")).unwrap();
    let bytes = here.read("g.safetensors");
    here.write("cut.safetensors", &bytes[..bytes.len() - 5]);
    let cut = ["pack", "cut.safetensors", "-o", "x.tgi"];
    here.refuse(&cut, "cut.safetensors", &["is not a readable safetensors file", "import the original model again"]);

    // The file is written without `Canonical::to_bytes`, which would refuse it.
    let (name, tensor) = model.tensors.iter().find(|(_, tensor)| tensor.shape.len() == 2).unwrap();
    let (rows, cols) = (tensor.shape[0], tensor.shape[1]);
    let (from, to) = (format!("\"shape\":[{rows},{cols}]"), format!("\"shape\":[{cols},{rows}]"));
    let header = String::from_utf8_lossy(&bytes[8..]).find(&from).unwrap() + 8;
    let mut swapped = bytes.clone();
    swapped[header..header + to.len()].copy_from_slice(to.as_bytes());
    here.write("swapped.safetensors", swapped);
    let needed = format!("needs {rows} x {cols}");
    let args = ["pack", "swapped.safetensors", "-o", "x.tgi"];
    here.refuse(&args, "swapped.safetensors", &[name, &format!("{cols} x {rows}"), &needed, "import the original"]);
}

#[test]
fn wrong_arguments_have_their_own_exit_code() {
    let here = Workplace::new();
    let gru = gru_pb();
    for (args, part) in [
        (vec!["pack", &gru, "-o", "x.tgi", "--schedule", "0/5"], "two numbers from 1"),
        (vec!["eval", &gru, "--index", "i.csv", "--stream", "--schedule", "4000000000/1"], "two numbers from 1"),
        (vec!["pack", &gru, "-o", "x.tgi", "--numeric", "i9"], "possible values: f32, f16"),
        (vec!["inspect", &gru, "--numeric", "i9"], "possible values: f32, f16"),
        (vec!["pack", &gru, "-o", "x.tgi", "--threshold", "7"], "a number from 0 to 1"),
        (vec!["pack", &gru, "-o", "x.tgi", "--threshold", "NaN"], "a number from 0 to 1"),
        (vec!["pack", &gru, "-o", "x.tgi", "--mean-of", "0"], "0 is not in 1..="),
        (vec!["pack", &gru], "--output"),
        (vec!["eval", &gru, "--index", "i.csv", "--seed", "1"], "--stream"),
        (vec!["sing"], "sing"),
        (vec![], "Usage"),
    ] {
        here.refuse_use(&args, part);
        assert!(here.names().is_empty());
    }
}
