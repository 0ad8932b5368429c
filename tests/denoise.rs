//! The recipes of DTLN and GTCRN: the inputs of their networks, and the sound made from their outputs, compared with the
//! recorded values of their authors' files in ONNX Runtime. RNNoise's recipe is tested beside its importer.

use std::collections::BTreeMap;
use std::f64::consts::{PI, TAU};
use std::path::Path;

use tidegate::Numeric;
use tidegate_model::backend::Engine;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::{read_audio_at, read_tensors};
use tidegate_model::denoise::{Dtln, Gtcrn, HopError, Recipe, denoise, inputs, integers, sound};
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_tests::data;
use tidegate_tests::tolerance::{worse, worst};

/// Frames whose values are recorded.
const FRAMES: usize = 300;
const BINS: usize = 257;

fn file(name: &str) -> std::path::PathBuf {
    data::file(&format!("deployed/{name}"))
}

fn recorded() -> BTreeMap<String, Tensor> {
    read_tensors(&file("reference.safetensors")).unwrap()
}

fn noisy() -> Vec<i16> {
    read_audio_at(&file("noisy.flac"), 16_000).unwrap().samples
}

fn fractions(samples: &[i16]) -> Vec<f32> {
    samples.iter().map(|&sample| f32::from(sample) / 32_768.0).collect()
}

/// The greatest distance of values from recorded ones.
fn off(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    worst(found.iter().zip(expected).map(|(a, b)| (a - b).abs()))
}

/// Signal-to-noise ratio of a sound, given the clean one, in dB.
fn snr(clean: &[f32], sound: &[f32]) -> f64 {
    let power = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x) * f64::from(x)).sum::<f64>();
    let noise = power(&mut clean.iter().zip(sound).map(|(a, b)| a - b));
    10.0 * (power(&mut clean.iter().copied()) / noise).log10()
}

/// An error of 2^-24 for each of 9 stages of the FFT, and as much again for the FFT of the reference.
fn of_fft(expected: &[f32]) -> f32 {
    18.0 * f32::EPSILON * worst(expected.iter().map(|x| x.abs()))
}

/// A second network that leaves the frame as it is: the sum of four frames, each with an open mask, is four times the
/// sound.
#[test]
fn dtln_s_first_network_takes_the_recorded_magnitudes_and_an_open_mask_gives_the_sound_again() {
    let recorded = &recorded()["dtln/mag"].data;
    let (samples, mut memory) = (fractions(&noisy()), vec![0.0; Dtln::MEMORY_LEN]);
    let mut stream = Dtln::new(&mut memory).unwrap();
    let (mut magnitudes, mut found) = (Vec::new(), Vec::new());
    for hop in samples.chunks_exact(128).take(FRAMES) {
        let mut clean = [f32::NAN; 128];
        let mut step = |network: usize, input: &[f32], outputs: &mut [&mut [f32]]| {
            match network {
                0 => {
                    magnitudes.extend_from_slice(input);
                    outputs[0].fill(1.0);
                }
                _ => outputs[0].copy_from_slice(input),
            }
            Ok(())
        };
        stream.push(hop, &mut clean, &mut step).unwrap();
        found.extend(clean.map(|sample| sample / 4.0));
    }
    let most = off(&magnitudes, recorded);
    println!("magnitudes: {most:.1e} of {:.1e}", of_fft(recorded));
    assert!(most <= of_fft(recorded), "{most:e}");
    let again = off(&found[384..], &samples[..found.len() - 384]);
    assert!(again <= 1e-6, "{again:e}");
}

/// The mask of one bin removes that bin alone; the first and the last bin are covered too.
#[test]
fn dtln_s_mask_belongs_to_its_bin() {
    for bin in [0, 1, 100, 255, 256] {
        let mut memory = vec![0.0; Dtln::MEMORY_LEN];
        let mut stream = Dtln::new(&mut memory).unwrap();
        let tone = |n: usize| (TAU * (n * bin % 512) as f64 / 512.0).cos() as f32;
        let samples: Vec<f32> = (0..1024).map(tone).collect();
        for (masked, is_left) in [(bin, false), (bin ^ 1, true)] {
            let mut last = 0.0;
            for hop in samples.chunks(128) {
                let mut step = |network: usize, input: &[f32], outputs: &mut [&mut [f32]]| {
                    if network == 0 {
                        outputs[0].fill(1.0);
                        outputs[0].get_mut(masked).map(|mask| *mask = 0.0).unwrap_or_default();
                    } else {
                        outputs[0].copy_from_slice(input);
                        last = worst(input.iter().map(|x| x.abs()));
                    }
                    Ok(())
                };
                stream.push(hop, &mut [0.0; 128], &mut step).unwrap();
            }
            assert!(if is_left { last > 0.99 } else { last < 1e-5 }, "bin {bin}, mask of {masked}: {last}");
        }
    }
}

fn packed(path: &Path, model: &Canonical) -> ImageBuffer {
    load::packed(path, model, Numeric::F32).unwrap()
}

/// Both networks as published: every recorded value, the sound, and the remaining noise; then in integers.
#[test]
fn dtln_removes_noise_as_its_authors_recorded() {
    if !data::is_whole() {
        println!("SKIP: the second network is not in the repository; set TIDEGATE_DATA_DIR");
        return;
    }
    let recorded = recorded();
    let (samples, late) = (noisy(), Recipe::Dtln.facts().late);
    let clean = fractions(&read_audio_at(&file("clean.flac"), 16_000).unwrap().samples);
    let clean = &clean[..clean.len() - late];
    let paths = ["dtln/model_1.onnx", "dtln/model_2.onnx"].map(file);
    let models = paths.each_ref().map(|path| load::canonical(path, &Settings::default()).unwrap().model);
    let floats = [0, 1].map(|network| packed(&paths[network], &models[network]));
    let engines = floats.each_ref().map(|image| Engine::fused(&image.model().unwrap()));
    for (network, engine) in engines.iter().enumerate() {
        Recipe::Dtln.check(network, engine.model()).unwrap();
    }
    assert!(
        Recipe::Dtln.check(1, engines[0].model()).unwrap_err().starts_with("takes [257] and gives [257]; network 2")
    );
    let mut seen = vec![[Vec::new(), Vec::new()]; 2];
    let found = denoise(Recipe::Dtln, &engines, samples.chunks(1000), |network, input, outputs| {
        seen[network][0].extend_from_slice(input);
        seen[network][1].extend_from_slice(outputs[0]);
    })
    .unwrap();
    for (name, values) in
        [("mag", &seen[0][0]), ("mask", &seen[0][1]), ("block_in", &seen[1][0]), ("block_out", &seen[1][1])]
    {
        let expected = &recorded[&format!("dtln/{name}")].data;
        let most = off(&values[..expected.len()], expected);
        println!("{name}: {most:.1e} off");
        assert!(most <= 1e-5_f32.max(of_fft(expected)), "{name}: {most:e}");
    }
    let expected = &recorded["dtln/denoised"].data;
    let most = off(&found, expected);
    let ratios = [fractions(&samples)[..clean.len()].to_vec(), expected[late..].to_vec(), found[late..].to_vec()];
    let [before, reference, after] = ratios.map(|sound| snr(clean, &sound));
    println!("sound: {most:.1e} off; {before:.2} dB before, {after:.2} after, {reference:.2} recorded");
    assert!(most <= 1e-3 && after >= reference - 0.1 && reference - before > 8.8, "{most:e}, {after}");
    assert!((7.95..8.05).contains(&before), "{before}");

    // Calibrated on the recorded frames, a fifth of the sound.
    let of_start = inputs(Recipe::Dtln, &engines, samples[..FRAMES * 128].chunks(128)).unwrap();
    let images: Vec<ImageBuffer> = (of_start.into_iter().enumerate())
        .map(|(network, input)| integers(&paths[network], &models[network], Numeric::I8x16, &input).unwrap())
        .collect();
    let integers: Vec<Engine<'_>> = images.iter().map(|image| Engine::fused(&image.model().unwrap())).collect();
    let sound = denoise(Recipe::Dtln, &integers, samples.chunks(128), |_, _, _| ()).unwrap();
    let after = snr(clean, &sound[late..]);
    let (mut given, size) = (Vec::new(), 512);
    let mut memory = tidegate_model::denoise::Networks::memory(&integers[1..]);
    let mut second = tidegate_model::denoise::Networks::new(&integers[1..], &mut memory);
    for input in seen[1][0].chunks(size) {
        let mut output = vec![0.0; size];
        second.step(0, input, &mut [&mut output]).unwrap();
        given.extend(output);
    }
    let of_second = snr(&seen[1][1], &given);
    println!("i8x16: {after:.2} dB after; the second network {of_second:.1} dB from f32");
    assert!(after >= 16.0 && of_second >= 30.0, "{after}, {of_second}");
}

/// The sound of recorded spectra in f64: an inverse transform of each, the window, and the sum of overlapping frames.
fn synthesized(spectra: &[f32]) -> Vec<f64> {
    let cos: Vec<f64> = (0..512).map(|n| (TAU * f64::from(n) / 512.0).cos()).collect();
    let mut sound = vec![0.0; spectra.len() / (2 * BINS) * 256 + 256];
    for (frame, bins) in spectra.chunks(2 * BINS).enumerate() {
        for n in 0..512 {
            let part = |(k, &[re, im]): (usize, &[f32; 2])| {
                let twice = if k == 0 || k == BINS - 1 { 1.0 } else { 2.0 };
                let angle = n * k % 512;
                twice * (f64::from(re) * cos[angle] - f64::from(im) * cos[(angle + 384) % 512])
            };
            let sample: f64 = bins.as_chunks().0.iter().enumerate().map(part).sum::<f64>() / 512.0;
            sound[frame * 256 + n] += sample * (PI * n as f64 / 512.0).sin();
        }
    }
    sound
}

/// Replaces the network: its input must be the recorded input, and its output is the recorded output.
#[test]
fn gtcrn_takes_the_recorded_spectra_and_its_own_become_sound() {
    let recorded = recorded();
    let [mix, enh] = ["gtcrn/mix", "gtcrn/enh"].map(|name| &recorded[name].data);
    let frames = enh.len() / (2 * BINS);
    let mut memory = vec![0.0; Gtcrn::MEMORY_LEN];
    let mut stream = Gtcrn::new(&mut memory).unwrap();
    let (mut taken, mut found) = (Vec::new(), Vec::new());
    // The first frame of the recording begins with the first sample; the first frame of a stream ends with the first hop.
    for (hop, samples) in fractions(&noisy()).chunks(256).take(frames + 1).enumerate() {
        let mut step = |_: usize, input: &[f32], outputs: &mut [&mut [f32]]| {
            match hop.checked_sub(1) {
                None => outputs[0].fill(0.0),
                Some(frame) => {
                    taken.extend_from_slice(input);
                    outputs[0].copy_from_slice(&enh[frame * 2 * BINS..][..2 * BINS]);
                }
            }
            Ok(())
        };
        let mut clean = [f32::NAN; 256];
        stream.push(samples, &mut clean, &mut step).unwrap();
        found.extend(clean);
    }
    let most = off(&taken, mix);
    println!("{frames} spectra: {most:.1e} of {:.1e}", of_fft(mix));
    assert!(most <= of_fft(mix), "{most:e}");
    let expected = synthesized(enh);
    let distances = found[256..].iter().zip(&expected).map(|(&y, expected)| (f64::from(y) - expected).abs());
    let most = distances.fold(0.0, worse);
    assert!(found.len() == 256 * (frames + 1) && most <= 1e-6, "{most:e}");
}

/// A network that returns its input, with a schedule.
fn same(schedule: &str) -> Canonical {
    let json = format!(
        r#"{{"version": 1, "source": "", "inputs": [{{"name": "mix", "size": 514}}],
            "nodes": [{{"name": "same", "cell": "identity", "inputs": ["mix"],
                "input_size": 514, "hidden_size": 514, "output_size": 514}}],
            "outputs": [{{"name": "enh", "size": 514, "from": "same"}}], "schedule": {schedule}}}"#
    );
    Canonical { architecture: serde_json::from_str(&json).unwrap(), tensors: BTreeMap::new() }
}

#[test]
fn a_network_of_gtcrn_that_changes_nothing_gives_the_sound_again_at_once() {
    let samples = noisy();
    let samples = &samples[..5000];
    let model = same(r#""endless""#);
    let image = packed(Path::new("same"), &model);
    let engines = [Engine::from(&image.model().unwrap())];
    Recipe::Gtcrn.check(0, engines[0].model()).unwrap();
    assert!(Recipe::Rnnoise.check(0, engines[0].model()).unwrap_err().contains("rnnoise takes [42] and gives [22, 1]"));
    assert!(Recipe::Gtcrn.check(1, engines[0].model()).is_err());
    let found = denoise(Recipe::Gtcrn, &engines, samples.chunks(999), |_, _, _| ()).unwrap();
    assert_eq!(sound(&found, Recipe::Gtcrn).samples, samples);
    // Two streams of one engine share nothing.
    assert_eq!(denoise(Recipe::Gtcrn, &engines, [samples], |_, _, _| ()).unwrap(), found);
}

#[test]
fn a_network_without_an_output_for_each_step_is_refused() {
    let model = same(r#"{"windows": {"frames": 4, "every": 4}}"#);
    let image = packed(Path::new("same"), &model);
    let engines = [Engine::from(&image.model().unwrap())];
    let error = denoise(Recipe::Gtcrn, &engines, [&[0; 999][..]], |_, _, _| ()).unwrap_err();
    assert!(matches!(error, HopError::NoOutput { network: 0 }), "{error}");
}
