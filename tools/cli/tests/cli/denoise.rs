//! `denoise`: RNNoise's recipe from its weights and from images, and what is refused.

use super::{Workplace, shipped, yes_flac};

fn rnnoise(file: &str) -> String {
    shipped(&format!("../tests/rnnoise/{file}"))
}

fn samples(wav: &[u8]) -> Vec<i16> {
    let mut reader = hound::WavReader::new(wav).unwrap();
    assert_eq!((reader.spec().sample_rate, reader.spec().channels, reader.spec().bits_per_sample), (48_000, 1, 16));
    reader.samples().map(Result::unwrap).collect()
}

fn power(samples: &[i16]) -> f64 {
    samples.iter().map(|&sample| f64::from(sample).powi(2)).sum()
}

#[test]
fn a_sound_loses_its_noise_in_floats_and_in_integers() {
    let here = Workplace::new();
    let (noisy, weights) = (rnnoise("noisy.wav"), rnnoise("weights.rnn"));
    let recipe = ["--recipe", "rnnoise", &weights];
    let told = here.succeed(&[&["denoise", &noisy, "clean.wav", "--plot", "clean.svg"][..], &recipe].concat());
    assert!(told.contains("noisy.wav -> clean.wav: 1.0 s, rnnoise in f32\ndrawn in clean.svg\n"), "{told}");
    assert!(String::from_utf8(here.read("clean.svg")).unwrap().contains("gain in dB"));
    let floats = samples(&here.read("clean.wav"));
    let noise = samples(&std::fs::read(&noisy).unwrap());
    assert_eq!(floats.len(), noise.len());
    // The reference lacks the end.
    let reference = samples(&std::fs::read(rnnoise("clean.wav")).unwrap());
    assert!(floats.iter().zip(&reference).all(|(a, b)| a.abs_diff(*b) <= 2));
    here.succeed(&[&["denoise", &noisy, "scalar.wav", "--backend", "scalar"][..], &recipe].concat());
    assert!(samples(&here.read("scalar.wav")).iter().zip(&floats).all(|(a, b)| a.abs_diff(*b) <= 2));

    // Calibrated on the sound itself, on another one, and before.
    let own = [&["denoise", &noisy, "own.wav", "--numeric", "i8x16"][..], &recipe].concat();
    let own = here.command(&own).output().unwrap();
    let note = String::from_utf8(own.stderr).unwrap();
    assert!(own.status.success() && note.starts_with("note: ") && note.lines().count() == 1, "{note}");
    assert!(note.ends_with("noisy.wav: calibrates the integers too; --calibrate takes another sound\n"), "{note}");
    assert!(String::from_utf8(own.stdout).unwrap().contains("rnnoise in i8x16"));
    let others = ["denoise", &noisy, "other.wav", "--numeric", "i8x16", "--calibrate", &noisy];
    here.succeed(&[&others[..], &recipe].concat());
    assert_eq!(here.read("other.wav"), here.read("own.wav"));
    let coarse = ["denoise", &noisy, "coarse.wav", "--numeric", "i4x16", "--calibrate", &noisy];
    let coarse = here.command(&[&coarse[..], &recipe].concat()).output().unwrap();
    let warning = String::from_utf8(coarse.stderr).unwrap();
    assert!(coarse.status.success() && warning.starts_with("warning: "), "{warning}");
    assert!(warning.ends_with(" dB from that in f32: give another --numeric\n"), "{warning}");
    here.succeed(&["pack", &weights, "-o", "r.tgi", "--calibrate", &rnnoise("features.safetensors")]);
    here.succeed(&["denoise", &noisy, "image.wav", "--recipe", "rnnoise", "r.tgi"]);
    for name in ["own.wav", "image.wav"] {
        let found = samples(&here.read(name));
        let off: Vec<i16> = found.iter().zip(&floats).map(|(a, b)| a.saturating_sub(*b)).collect();
        let ratio = 10.0 * (power(&floats) / power(&off)).log10();
        println!("{name}: {ratio:.1} dB from f32");
        assert!(ratio > 30.0, "{name}: {ratio}");
    }
}

#[test]
fn sounds_models_and_names_that_do_not_fit_are_refused_in_one_line() {
    let here = Workplace::new();
    let (noisy, weights, yes) = (rnnoise("noisy.wav"), rnnoise("weights.rnn"), yes_flac());
    here.succeed(&["pack", &weights, "-o", "r.tgi", "--numeric", "f16"]);
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: 48_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(here.path("stereo.wav"), spec).unwrap();
    (0..960).for_each(|_| writer.write_sample(1_i16).unwrap());
    writer.finalize().unwrap();
    let refuse = |input: &str, output: &str, more: &[&str], file: &str, parts: &[&str]| {
        here.refuse(&[&["denoise", input, output][..], more].concat(), file, parts);
    };
    let recipe = ["--recipe", "rnnoise", weights.as_str()];
    refuse(&yes, "c.wav", &recipe, &yes, &["is 16000 Hz mono", "48000 Hz mono", "sox"]);
    refuse("stereo.wav", "c.wav", &recipe, "stereo.wav", &["stereo", "-c 1"]);
    refuse("none.wav", "c.wav", &recipe, "none.wav", &["no such file"]);
    refuse(&noisy, "c.flac", &recipe, "c.flac", &["is not named .wav"]);
    refuse(
        &noisy,
        "c.wav",
        &["--recipe", "dtl", &weights],
        "--recipe",
        &["dtl is not known; known: dtln, gtcrn, rnnoise"],
    );
    refuse(
        &noisy,
        "c.wav",
        &["--recipe", "dtln", &weights],
        "--recipe",
        &["dtln needs 2 models after its name, and has 1"],
    );
    refuse(
        &noisy,
        "c.wav",
        &["--recipe", "rnnoise", &weights, &weights],
        "--recipe",
        &["rnnoise needs 1 model after its name, and has 2"],
    );
    let gru = super::gru_pb();
    let other = ["--recipe", "rnnoise", gru.as_str()];
    refuse(
        &noisy,
        "c.wav",
        &other,
        &gru,
        &["takes [10] and gives [12]; network 1 of rnnoise takes [42] and gives [22, 1]"],
    );
    let second = shipped("../tests/data/small/deployed/dtln/model_1.onnx");
    let swapped = ["--recipe", "dtln", second.as_str(), second.as_str()];
    let sound = shipped("../tests/data/small/deployed/noisy.flac");
    refuse(&sound, "c.wav", &swapped, &second, &["takes [257] and gives [257]; network 2 of dtln takes [512]"]);
    let image = ["--recipe", "rnnoise", "r.tgi"];
    refuse(&noisy, "c.wav", &[&image[..], &["--numeric", "i8x16"]].concat(), "r.tgi", &["is packed as f16 already"]);
    refuse(&noisy, "c.wav", &[&image[..], &["--calibrate", &noisy]].concat(), &noisy, &["--calibrate is for"]);
    refuse(&noisy, "c.wav", &[&recipe[..], &["--plot", "c.wav"]].concat(), "c.wav", &["the name of two outputs"]);
    here.refuse_use(&["denoise", &noisy, "c.wav"], "--recipe");
    here.refuse_use(&["denoise", &noisy, "c.wav", "--recipe", "rnnoise"], "values");
}
