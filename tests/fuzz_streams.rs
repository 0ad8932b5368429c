//! Replays the seeds of the fuzz targets that run images on stable Rust, beyond `fuzz_corpus.rs`: integer steps, saved
//! states, integer front ends and detectors, `tidegate-fused`, the interface to C, and readers of data.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tidegate::front_end::{Method, MfccSettings};
use tidegate::{DetectorSettings, LabelSettings, Model, State};
use tidegate_model::canonical::Tensor;
use tidegate_model::data::write_tensors;
use tidegate_tests::corpus::Corpus;
use tidegate_tests::front_end::{HELLO_EDGE, MLPERF, PRECISE, SMALL};
use tidegate_tests::fuzz::{Outcome, c::c_api, flag, fused::fused, integer::*};
use tidegate_tests::fuzz_data::{KINDS, read_data};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::random::Rng;

use crate::fuzz_corpus::seeds as images;

/// The length of some bytes, then the bytes.
fn counted(bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).expect("seeds are short");
    [&len.to_le_bytes(), bytes].concat()
}

/// A corpus of these seeds, without recorded digests: the digests of the images are recorded already.
fn corpus(target: &'static str, seeds: impl IntoIterator<Item = (String, Vec<u8>)>) -> Corpus {
    Corpus { target, seeds: seeds.into_iter().collect() }
}

/// A byte of flags before each image.
fn flagged(target: &'static str) -> Corpus {
    corpus(target, images().into_iter().map(|(name, image)| (name, [&[flag::SEAL], image.as_slice()].concat())))
}

/// Checks that a target accepts all of its seeds; `may_refuse` of them may be refused, because they are for other targets.
fn passes(corpus: &Corpus, may_refuse: usize, body: impl Fn(&[u8]) -> bool) {
    corpus.write_inputs();
    let accepted = corpus.replay(&body);
    corpus.mutate(body);
    assert!(accepted + may_refuse >= corpus.seeds.len(), "{accepted} of {} seeds are accepted", corpus.seeds.len());
}

fn ran(body: fn(&[u8]) -> Outcome) -> impl Fn(&[u8]) -> bool {
    move |data| body(data) == Outcome::Ran
}

#[test]
fn integer_steps_of_every_seed_run() {
    let corpus = flagged("step_i16");
    let floats = corpus.seeds.values().filter(|seed| !AlignedBytes::new(&seed[1..]).model().numeric().is_integer());
    passes(&corpus, floats.count(), ran(step_i16));
}

#[test]
fn fused_kernels_give_the_results_of_core_on_every_seed() {
    passes(&flagged("fused"), 0, ran(fused));
}

/// The state of a model after two steps, saved.
fn saved(model: &Model<'_>) -> Vec<u8> {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).unwrap();
    let inputs: Vec<Vec<f32>> = model.inputs().map(|port| vec![0.5; port.size]).collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    for _ in 0..2 {
        let mut outputs: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
        let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        assert!(model.step_ports(&mut state, &mut scratch, &inputs, &mut outputs).is_ok());
    }
    let mut bytes = vec![0; state.saved_bytes()];
    state.save(&mut bytes).unwrap();
    bytes
}

#[test]
fn saved_states_of_every_seed_are_restored() {
    let seed = |(name, image): (String, Vec<u8>)| {
        let saved = saved(&AlignedBytes::new(&image).model());
        (name, [counted(&image), saved].concat())
    };
    passes(&corpus("restore", images().into_iter().map(seed)), 0, ran(restore));
}

#[test]
fn integer_front_ends_and_detectors_of_every_seed_listen() {
    let mut rng = Rng::new(31);
    let mut detector = vec![0; DetectorSettings::section_len(3)];
    let labels = [LabelSettings { threshold: 0.5, refractory_ms: 100 }; 3];
    DetectorSettings::write(4, &labels, &mut detector).unwrap();
    let seed = |(name, settings): (&str, MfccSettings)| {
        let mut section = vec![0; settings.integer_section_len().unwrap()];
        match settings.method {
            Method::LogMel(_) => settings.write_log_mel(0.0037, Some(-128), 255, &mut section).unwrap(),
            _ => settings.write_integer(&mut section).unwrap(),
        };
        let sound: Vec<u8> = (0..512).map(|_| rng.bits() as u8).collect();
        (name.to_owned(), [counted(&section), counted(&detector), sound].concat())
    };
    let log_mel = MfccSettings { stride_len: 50, mel_bands: 6, coefficients: 6, ..MLPERF };
    let log_mel = MfccSettings { fft_len: 256, bins_per_rate: 256, window_len: 100, ..log_mel };
    let all = [("hello_edge", HELLO_EDGE), ("precise", PRECISE), ("small", SMALL[0]), ("smaller", SMALL[1])];
    let seeds = all.into_iter().chain([("log_mel", log_mel)]).map(seed);
    passes(&corpus("listen", seeds), 0, ran(listen));
}

#[test]
fn calls_from_c_on_every_seed_fail_or_succeed() {
    let mut rng = Rng::new(37);
    let seed = |(name, image): (String, Vec<u8>)| {
        // Good arguments throughout, then a random sequence.
        let good: Vec<u8> = [0, 5, 10, 13, 15, 18, 20, 22, 8, 9, 11, 12, 14, 16, 17, 19, 20, 23, 24, 25]
            .into_iter()
            .flat_map(|call| [[call, 100, 0, 100, 40, 100, 80, 120], [0; 8], [0; 8]])
            .flatten()
            .collect();
        let random: Vec<u8> = (0..256).map(|_| rng.bits() as u8).collect();
        (name, [counted(&image), good, random].concat())
    };
    // The arguments of the seeds are for one input and one output.
    let corpus = corpus("c_api", images().into_iter().map(seed));
    let ports = corpus.seeds.keys().filter(|name| name.starts_with("ports")).count();
    passes(&corpus, ports, ran(c_api));
}

#[test]
fn files_of_every_kind_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = Tensor { shape: vec![3, 2], data: vec![0.0, 1.0, -2.5, 1e-3, 7.0, 8.0] };
    let seed = |(number, kind): (usize, &&str)| {
        let path = folder.path().join(format!("file.{kind}"));
        match *kind {
            "wav" => fs::write(&path, wav()).unwrap(),
            "flac" => {
                let sound = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/model/sounds/speech.flac");
                fs::write(&path, &fs::read(sound).unwrap()[..4096]).unwrap();
            }
            "index.csv" => fs::write(&path, "file,label\nfile.wav,yes\n").unwrap(),
            "ts" => fs::write(&path, "@problemname x\n@data\n1,2,3:a\n").unwrap(),
            "csv" | "npy" => write_tensors(&path, &BTreeMap::from([(String::new(), tensor.clone())])).unwrap(),
            _ => write_tensors(&path, &BTreeMap::from([("x".to_owned(), tensor.clone())])).unwrap(),
        }
        let bytes = fs::read(&path).unwrap();
        ((*kind).to_owned(), [&[number as u8], bytes.as_slice()].concat())
    };
    // A cut flac file, an index whose sound is missing, and .ts, which only training reads, are refused.
    passes(&corpus("read_data", KINDS.iter().enumerate().map(seed)), 3, read_data);
}

/// A tenth of a second of silence at 8 kHz.
fn wav() -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let spec =
        hound::WavSpec { channels: 1, sample_rate: 8000, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
    (0..800).for_each(|_| writer.write_sample(0_i16).unwrap());
    writer.finalize().unwrap();
    bytes.into_inner()
}
