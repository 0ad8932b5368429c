//! The how-to pages: their commands run, and their architectures are valid.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_model::canonical::Tensor;
use tidegate_model::data::{UNNAMED, write_tensors};
use tidegate_model::format::Description;

use super::{Workplace, shipped};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The blocks of a page in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(repository(page)).unwrap();
    let start = format!("```{language}\n");
    text.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Runs the commands of a page in a folder with copies of sample files, and with its first architecture as `arch.json`.
fn runs(page: &str, files: &[(&str, &str)]) {
    runs_with(page, files, &[]);
}

/// [`runs`] with additional files, given by their contents.
fn runs_with(page: &str, files: &[(&str, &str)], more: &[(&str, &str)]) -> Workplace {
    let here = Workplace::new();
    for (name, content) in more {
        here.write(name, content);
    }
    for (name, sample) in files {
        fs::copy(repository(sample), here.path(name)).unwrap();
    }
    for arch in blocks(page, "json").iter().take(1) {
        here.write("arch.json", arch);
    }
    for command in commands(page) {
        here.succeed(&command.split_whitespace().skip(1).collect::<Vec<_>>());
    }
    here
}

/// The commands of a page's blocks of `sh`, without comments.
fn commands(page: &str) -> Vec<String> {
    let text = blocks(page, "sh").concat();
    let commands: Vec<String> =
        text.lines().map(|line| line.split('#').next().unwrap().trim_end().to_owned()).collect();
    assert!(!commands.is_empty() && commands.iter().all(|command| command.starts_with("tidegate ")), "{page}: {text}");
    commands
}

/// Runs the commands of several pages in one folder, each command once.
fn run_in(here: &Workplace, pages: &[&str]) {
    let mut done = Vec::new();
    for page in pages {
        for command in commands(page) {
            if !done.contains(&command) {
                here.succeed(&command.split_whitespace().skip(1).collect::<Vec<_>>());
                done.push(command);
            }
        }
    }
}

#[test]
fn the_first_pages_run() {
    run_in(&Workplace::new(), &["docs/start.md", "docs/start/rust.md", "docs/start/c.md"]);
}

#[test]
fn the_first_page_for_python_runs() {
    let here = Workplace::new();
    for (name, sample) in [
        ("keywords.pt", "tests/frameworks/torch/classifier.pth"),
        ("keywords.keras", "tests/frameworks/keras3/keywords_conv1d.keras"),
    ] {
        fs::copy(repository(sample), here.path(name)).unwrap();
    }
    let data: Vec<f32> = (0..7 * 28_u8).map(|k| f32::from(k % 11) / 10.0 - 0.5).collect();
    let tensor = Tensor { shape: vec![28, 7], data };
    write_tensors(&here.path("x.npy"), &BTreeMap::from([(UNNAMED.to_owned(), tensor)])).unwrap();
    run_in(&here, &["docs/start/python.md"]);
}

#[test]
fn the_commands_of_readme_run() {
    let here = Workplace::new();
    std::os::unix::fs::symlink(repository("assets"), here.path("assets")).unwrap();
    here.succeed(&["demo", "--keep", "target/demo"]);
    run_in(&here, &["README.md"]);
    let heard = here.json(&["listen", "gru_s.tgi", "--wav", "target/demo/stream.wav", "--json"]);
    assert!(heard["events"].as_array().is_some_and(|events| events.len() > 10), "{heard}");
}

#[test]
fn the_page_of_running_runs() {
    let clips = format!("file,label\n{},yes\n", super::yes_flac());
    let features = "1,2,3,4,5,6,7,8,9,10\n".repeat(25);
    let demo = Workplace::new();
    demo.succeed(&["demo", "--keep", "demo"]);
    let stream = demo.path("demo/stream.wav");
    runs_with(
        "docs/running.md",
        &[
            ("GRU_S.pb", "assets/hello_edge/GRU_S.pb"),
            ("labels.txt", "assets/hello_edge/labels.txt"),
            ("yes.flac", "assets/speech_commands/yes/022cd682_nohash_0.flac"),
            ("stream.wav", stream.to_str().unwrap()),
        ],
        &[("clips.csv", &clips), ("features.csv", &features)],
    );
}

#[test]
fn the_page_of_updates_runs() {
    runs(
        "docs/update.md",
        &[("gru_s.tgi", "assets/keywords/keywords.tgi"), ("GRU_S.pb", "assets/hello_edge/GRU_S.pb")],
    );
}

/// The program on the page takes the image that the commands on the page sign: for its product, and with a self-test.
#[test]
fn the_page_of_updates_signs_what_its_program_takes() {
    let page = fs::read_to_string(shipped("../docs/update.md")).unwrap();
    let line =
        |part: &str| page.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: is missing"));
    let tested = line("--self-test ").split(' ').find(|word| word.ends_with(".tgi")).unwrap();
    let product = page.split(".product = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let digits: String = product.bytes().map(|byte| format!("{byte:02x}")).collect();
    let sign = line("tidegate sign ");
    assert!(sign.starts_with(&format!("tidegate sign {tested} ")), "{sign}");
    assert!(digits.len() == 32 && sign.contains(&format!(" --product {digits} ")), "{sign}: {product} is {digits}");
}

#[test]
fn the_page_of_pytorch_runs() {
    runs(
        "docs/pytorch.md",
        &[
            ("keywords.pt", "tests/frameworks/torch/classifier.pth"),
            ("speaker.pt", "tests/frameworks/torch/both_directions_final.pt"),
        ],
    );
}

#[test]
fn the_page_of_onnx_runs() {
    let case = |name: &str| format!("tests/frameworks/onnx/{name}");
    let files = [
        ("keywords.onnx", case("network_keywords.onnx")),
        ("features.safetensors", case("network_keywords.in.safetensors")),
        ("lstm.onnx", case("node_lstm_with_peepholes.onnx")),
        ("weights.safetensors", case("node_lstm_with_peepholes.in.safetensors")),
        ("speech.onnx", case("network_chunks.onnx")),
        ("chunks.safetensors", case("network_chunks.in.safetensors")),
    ];
    let silero = ("silero_vad_16k_op15.onnx", "assets/silero_vad/silero_vad_16k_op15.onnx");
    let files = files.iter().map(|(name, sample)| (*name, sample.as_str())).chain([silero]);
    runs("docs/onnx.md", &files.collect::<Vec<_>>());
}

#[test]
fn the_page_of_rnnoise_runs() {
    let files =
        [("weights.rnn", "tests/rnnoise/weights.rnn"), ("features.safetensors", "tests/rnnoise/features.safetensors")];
    let noisy = ("noisy.wav", "tests/rnnoise/noisy.wav");
    runs("docs/rnnoise.md", &[files[0], files[1], noisy]);
    runs("docs/denoise.md", &[files[0], files[1], noisy]);
}

#[test]
fn the_page_of_tflite_runs() {
    // A window of 4 steps of 17 features.
    let row = |step: usize| (0..17).map(|k| format!("0.{}", (3 * k + step) % 10)).collect::<Vec<_>>().join(",") + "\n";
    let features: String = (0..4).map(row).collect();
    let frames = "0.1,".repeat(39) + "0.2\n";
    runs_with(
        "docs/tflite.md",
        &[
            ("keywords_int8.tflite", "tests/frameworks/tflite/integer_whole.tflite"),
            ("keywords.tflite", "tests/frameworks/tflite/float_last.tflite"),
            ("model_1.tflite", "tests/frameworks/tflite/float_ports_mask.tflite"),
            ("str_ww_ref_model.tflite", "tests/data/small/deployed/mlperf_streaming/str_ww_ref_model.tflite"),
        ],
        &[
            ("features.csv", &features),
            ("frames.csv", &frames.repeat(40)),
            ("magnitudes.csv", "0.1,0.2,0.3,0.4,0.5,0.6,0.7\n0.7,0.6,0.5,0.4,0.3,0.2,0.1\n"),
        ],
    );
}

#[test]
fn the_page_of_rtneural_runs() {
    runs(
        "docs/rtneural.md",
        &[
            ("amplifier.json", "tests/frameworks/rtneural/lstm.json"),
            ("effect.json", "tests/frameworks/rtneural/full.json"),
            ("pedal.json", "tests/data/small/deployed/amps/lstm8_ts9_pytorch.json"),
        ],
    );
}

#[test]
fn the_page_of_keras_runs() {
    runs(
        "docs/keras.md",
        &[
            ("keywords.h5", "tests/frameworks/keras2/keywords_conv1d.h5"),
            ("keywords.keras", "tests/frameworks/keras3/keywords_conv1d.keras"),
            ("cudnn.h5", "tests/frameworks/keras2_tensorflow1/cudnn_bidirectional.h5"),
            ("speaker.keras", "tests/frameworks/keras3/bidirectional_window.keras"),
            ("model.weights.h5", "tests/frameworks/keras3/weights_json.weights.h5"),
            ("model.json", "tests/frameworks/keras3/weights_json.json"),
            ("old.h5", "tests/frameworks/keras2/weights.h5"),
        ],
    );
}

#[test]
fn the_page_of_tensorflow_1_runs() {
    let mut files: Vec<(String, String)> = Vec::new();
    for (name, sample) in
        [("cudnn", "cudnn_lstm_2"), ("keywords", "classifier"), ("both", "cudnn_lstm_2_bidirectional")]
    {
        for end in ["ckpt.index", "ckpt.data-00000-of-00001"] {
            files.push((format!("{name}.{end}"), format!("tests/frameworks/tf1_checkpoint/{sample}.{end}")));
        }
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(name, sample)| (name.as_str(), sample.as_str())).collect();
    runs("docs/tensorflow1.md", &files);
}

#[test]
fn the_page_of_frozen_graphs_runs() {
    runs(
        "docs/tf1_graph.md",
        &[
            ("keywords.pb", "tests/frameworks/tf1_graph/dynamic_gru_last_output.pb"),
            ("both.pb", "tests/frameworks/tf1_graph/bidirectional_open.pb"),
            ("unknown.pb", "tests/frameworks/tf1_graph/of_unknown_rank.pb"),
        ],
    );
}

#[test]
fn the_page_of_integers_runs() {
    let index = fs::read_to_string(shipped("speech_commands/index.csv")).unwrap();
    let folder = shipped("speech_commands");
    let absolute = index.lines().skip(1).map(|line| format!("{folder}/{line}\n"));
    let clips: String = [format!("{}\n", index.lines().next().unwrap())].into_iter().chain(absolute).collect();
    let here = runs_with(
        "docs/integers.md",
        &[("keywords.pb", "assets/hello_edge/GRU_S.pb"), ("labels.txt", "assets/hello_edge/labels.txt")],
        &[("clips.csv", &clips)],
    );
    let page = String::from_utf8(here.read("keywords.html")).unwrap();
    let (_, output) = page.split_once(">output ").unwrap();
    let (ratio, _) = output.split_once(" dB").unwrap();
    assert!(ratio.parse::<f64>().unwrap() > 25.0, "{ratio}");
    let drift = String::from_utf8(here.read("drift.svg")).unwrap();
    assert!(["seconds", "30 dB: enough", "softmax, output"].iter().all(|text| drift.contains(text)), "{drift}");
}

#[test]
fn the_page_of_new_runs() {
    runs("docs/new.md", &[("keywords.keras", "tests/frameworks/keras3/keywords_conv1d.keras")]);
}

#[test]
fn the_page_of_c_runs() {
    let here = runs_with(
        "docs/c.md",
        &[("kws.pb", "assets/hello_edge/GRU_S.pb"), ("labels.txt", "assets/hello_edge/labels.txt")],
        &[("clips.csv", &format!("file,label\n{},yes\n", super::yes_flac()))],
    );
    let text = |name: &str| String::from_utf8(here.read(name)).unwrap();
    let inspected = here.json(&["inspect", "kws.tgi", "--json"]);
    let header = text("kws.h");
    for (name, value) in [
        ("STATE_WORDS", inspected["state_bytes"].as_u64().unwrap() / 4),
        ("SCRATCH_WORDS", inspected["scratch_bytes"].as_u64().unwrap() / 4),
        ("IMAGE_BYTES", inspected["flash_bytes"].as_u64().unwrap()),
        ("INPUT_SIZE", 10),
        ("LABEL_COUNT", 12),
        ("SAMPLE_RATE", 16000),
    ] {
        assert!(header.contains(&format!("#define KWS_{name} {value}\n")), "{name} {value}: {header}");
    }
    let array = text("kws.c");
    let (_, values) = array.split_once("] = {\n").unwrap();
    let bytes: Vec<u8> =
        values.trim_end_matches("};\n").split([',', '\n']).filter_map(|byte| byte.parse().ok()).collect();
    assert_eq!(bytes, here.read("kws.tgi"));
    here.refuse(&["inspect", "kws.tgi", "--c-header", "kws.tgi"], "kws.tgi", &["is also an input"]);
}

#[test]
fn architectures_on_pages_are_read() {
    for page in ["docs/architecture.md", "docs/keras.md", "docs/pytorch.md", "docs/tensorflow1.md"] {
        for block in blocks(page, "json") {
            let description: Description =
                serde_json::from_str(&block).unwrap_or_else(|error| panic!("{page}: {error}"));
            let again = serde_json::to_string(&description).unwrap();
            assert_eq!(serde_json::from_str::<Description>(&again).unwrap(), description, "{page}");
        }
    }
}
