//! Users' data files: they are read, written, or refused with a reason, and never cause a panic.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use chacha20::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use tempfile::TempDir;
use tidegate_model::{
    canonical::Tensor,
    data::{UNNAMED, read_audio, read_audio_at, read_index, read_index_files, read_tensors, write_tensors},
};
use tidegate_tests::data;
use tidegate_tests::memory::{peak_bytes, ran_alone};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn tensors(list: &[(&str, &[usize])]) -> BTreeMap<String, Tensor> {
    let values = [0.0, -1.5, 0.1, 3.4e38, 1e-40, f32::NEG_INFINITY, 16_777_216.0];
    let tensor = |shape: &[usize]| Tensor {
        shape: shape.to_vec(),
        data: values.iter().cycle().take(shape.iter().product()).copied().collect(),
    };
    list.iter().map(|&(name, shape)| (name.to_owned(), tensor(shape))).collect()
}

fn shipped(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/speech_commands").join(file)
}

fn write_wav(path: &Path, sample_rate: u32, channels: u16, bits_per_sample: u16, len: i16) {
    let sample_format = hound::SampleFormat::Int;
    let mut wav =
        hound::WavWriter::create(path, hound::WavSpec { channels, sample_rate, bits_per_sample, sample_format })
            .unwrap();
    (0..len).for_each(|i| wav.write_sample(i * 5 - 99).unwrap());
    wav.finalize().unwrap();
}

#[test]
fn tensors_round_trip_and_are_written_to_the_same_bytes_every_time() {
    let folder = folder();
    let several = tensors(&[("gru.w", &[3, 4, 2]), ("scalar", &[]), ("none", &[0, 3]), ("vector", &[5])]);
    for name in ["a.npz", "a.safetensors", "A.NPZ"] {
        let path = folder.path().join(name);
        write_tensors(&path, &several).unwrap();
        assert_eq!(read_tensors(&path).unwrap(), several, "{name}");
        let bytes = fs::read(&path).unwrap();
        write_tensors(&path, &several).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name}");
    }
    for name in ["a.npy", "a.csv"] {
        let (path, one) = (folder.path().join(name), tensors(&[(UNNAMED, &[3, 4])]));
        write_tensors(&path, &one).unwrap();
        assert_eq!(read_tensors(&path).unwrap(), one, "{name}");
        assert!(write_tensors(&path, &several).unwrap_err().to_string().contains("cannot hold 4 tensors"), "{name}");
    }
    let error = |name| write_tensors(&folder.path().join(name), &tensors(&[(UNNAMED, &[5])])).unwrap_err().to_string();
    assert!(error("b.csv").contains("shape [5]"));
    assert!(error("b.npz").contains("without a name"));
    assert!(error("b.txt").contains(".npy, .npz"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5, "no partly written file is left");
}

#[test]
fn a_file_of_another_format_is_refused_in_one_line() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    write_tensors(&path("a.npz"), &tensors(&[("a", &[2])])).unwrap();
    fs::copy(path("a.npz"), path("b.npy")).unwrap();
    fs::copy(path("a.npz"), path("noext")).unwrap();
    fs::write(path("c.npy"), b"\n\n").unwrap();
    fs::write(path("d.txt"), b"hello").unwrap();
    fs::write(path("e.safetensors"), b"\x05\0\0\0\0\0\0\0{\"a\n\"").unwrap();
    assert_eq!(read_tensors(&path("noext")).unwrap().len(), 1, "recognized by its first bytes");
    for (name, why) in [
        ("b.npy", "is named .npy, but begins like .npz"),
        ("c.npy", "is not an .npy file: save the array with `numpy.save`"),
        ("d.txt", "is not an .npy, .npz"),
        ("e.safetensors", "is not a whole .safetensors"),
        ("no\nsuch.npy", "no such file"),
        ("x.wav", "is sound"),
        ("", "is a folder"),
    ] {
        let error = read_tensors(&path(name)).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains('\n'), "{name}: {error}");
    }
}

#[test]
fn sound_is_read_unchanged_and_unsupported_sound_is_described() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    write_wav(&path("a.wav"), 16_000, 1, 16, 100);
    let audio = read_audio_at(&path("a.wav"), 16_000).unwrap();
    assert_eq!((audio.sample_rate, audio.samples.len(), audio.samples[1]), (16_000, 100, -94));
    let flac = read_audio(&shipped("yes").read_dir().map(|mut d| d.next().unwrap().unwrap().path()).unwrap()).unwrap();
    assert_eq!((flac.sample_rate, flac.samples.len()), (16_000, 16_000));

    write_wav(&path("b.wav"), 44_100, 2, 16, 100);
    let error = read_audio_at(&path("b.wav"), 16_000).unwrap_err().to_string();
    assert!(error.contains("is 44100 Hz stereo, 16-bit PCM; this model needs 16000 Hz mono"), "{error}");
    assert!(error.ends_with("-b 16 -e signed-integer -r 16000 -c 1 OUT.wav`"), "{error}");
    write_wav(&path("c.wav"), 16_000, 1, 24, 100);
    assert!(read_audio(&path("c.wav")).unwrap_err().to_string().contains("24-bit"));

    let whole = fs::read(path("a.wav")).unwrap();
    fs::write(path("d.wav"), &whole[..whole.len() - 3]).unwrap();
    assert!(read_audio(&path("d.wav")).unwrap_err().to_string().contains("ends after 98 of 100 samples"));
    fs::write(path("e.wav"), b"ID3").unwrap();
    assert!(read_audio(&path("e.wav")).unwrap_err().to_string().contains("neither .wav nor .flac"));
}

#[test]
fn an_index_names_the_line_that_is_wrong() {
    let clips = read_index(&shipped("index.csv")).unwrap();
    assert!(clips.iter().all(|clip| clip.path.is_file() && !clip.label.is_empty()));
    assert_eq!(read_index_files(&shipped("index.csv")).unwrap().len(), clips.len());

    let folder = folder();
    let path = folder.path().join("i.csv");
    let here = path.display();
    for (text, why) in [
        ("", format!("{here}: is empty, but needs a header with file and label")),
        ("file,word\ni.csv,yes\n", format!("{here}: line 1: the header has no column `label`; it has: file, word")),
        ("file,label,file\n", format!("{here}: line 1: has two columns `file`")),
        ("file,label\n", format!("{here}: lists no clips")),
        ("label,file\nyes,i.csv\nno,\n", format!("{here}: line 3: `file` is empty")),
        ("file,label\ni.csv\n", format!("{here}: line 2: has 1 columns; the header has 2")),
        (
            "file,label\ni.csv,yes\nj.csv,no\n",
            format!(
                "{here}: line 3: {}/j.csv: there is no such file: check the path; paths are relative to the index",
                folder.path().display()
            ),
        ),
        ("file,label\n.,yes\n", format!("{here}: line 2: {}/. is not a file", folder.path().display())),
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(read_index(&path).unwrap_err().to_string(), why);
    }
    fs::write(&path, "\u{feff}file\n\"i.csv\"\n").unwrap();
    assert_eq!(read_index_files(&path).unwrap(), [path]);
}

#[test]
fn real_clips_and_tensors_are_read() {
    // The other tests take these numbers from the files. Neither set may shrink unnoticed.
    let (count, chunks, digits) = if data::is_whole() { (1680, 1875, 2000) } else { (95, 480, 500) };
    let clips = read_index(&data::file("speech_commands_v2/index.csv")).unwrap();
    assert_eq!(clips.len(), count);
    for clip in clips.iter().step_by(7) {
        assert_eq!(read_audio_at(&clip.path, 16_000).unwrap().samples.len(), 16_000);
    }
    assert_eq!(read_audio(&data::file("silero_vad/test.wav")).unwrap().samples.len(), 512 * chunks);
    let logits = read_tensors(&data::file("hello_edge/reference.safetensors")).unwrap();
    assert_eq!(logits["logits/GRU_S"].shape, [count, 12]);
    assert_eq!(fs::metadata(data::file("mnist/digits_2000x28x28_u8.bin")).unwrap().len(), 28 * 28 * digits);
}

/// Changes, cuts, repeats and removes bytes, most often near the beginning where the headers are.
fn mutated(bytes: &[u8], draw: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + draw.next_u32() % 4 {
        let near = draw.next_u32() < u32::MAX / 4 * 3;
        let reach = if near { bytes.len().min(128) } else { bytes.len() };
        if reach == 0 {
            break;
        }
        let at = draw.next_u32() as usize % reach;
        match draw.next_u32() % 6 {
            0 => bytes[at] = draw.next_u32() as u8,
            1 => bytes[at] ^= 1 << (draw.next_u32() % 8),
            2 => bytes[at] = 0xff,
            3 => bytes.truncate(at),
            4 => drop(bytes.remove(at)),
            _ => bytes.insert(at, b"0(9{,\xff"[draw.next_u32() as usize % 6]),
        }
    }
    bytes
}

/// Reading a file of any content ends with a value or with a one-line error. The files are a few kilobytes, so a value
/// of more than a million numbers, or half a gigabyte more memory, means that a declared length was trusted.
#[test]
fn no_mutation_of_any_format_panics_or_exhausts_memory() {
    if ran_alone(concat!(module_path!(), "::no_mutation_of_any_format_panics_or_exhausts_memory")) {
        return;
    }
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    write_tensors(&path("a.npy"), &tensors(&[(UNNAMED, &[3, 4])])).unwrap();
    write_tensors(&path("a.csv"), &tensors(&[(UNNAMED, &[3, 4])])).unwrap();
    write_tensors(&path("a.npz"), &tensors(&[("a", &[3]), ("b", &[2, 2])])).unwrap();
    write_tensors(&path("a.safetensors"), &tensors(&[("a", &[3]), ("b", &[2, 2])])).unwrap();
    write_wav(&path("a.wav"), 16_000, 1, 16, 100);
    let shortest = shipped("_silence_").read_dir().unwrap().map(|entry| entry.unwrap().path());
    fs::copy(shortest.min_by_key(|path| path.metadata().unwrap().len()).unwrap(), path("a.flac")).unwrap();
    fs::write(path("i.csv"), "file,label\na.npy,yes\na.csv,no\n").unwrap();
    let before = peak_bytes();
    for (seed, name) in (1..).zip(["a.npy", "a.csv", "a.npz", "a.safetensors", "a.wav", "a.flac", "i.csv"]) {
        let (original, mut draw) = (fs::read(path(name)).unwrap(), ChaCha8Rng::from_seed([seed; 32]));
        let (file, mut refused) = (path(name), 0);
        for _ in 0..5000 {
            // A new file: some file systems write a truncated one to the disk at once.
            fs::remove_file(&file).unwrap();
            fs::write(&file, mutated(&original, &mut draw)).unwrap();
            let values = match name {
                "a.wav" | "a.flac" => read_audio(&file).map(|audio| audio.samples.len()),
                "i.csv" => read_index(&file).map(|clips| clips.len()),
                _ => read_tensors(&file).map(|all| all.values().map(|tensor| tensor.data.len()).sum()),
            };
            match values {
                Ok(values) => assert!(values < 1 << 20, "{name}"),
                Err(error) => {
                    refused += 1;
                    let text = error.to_string();
                    assert!(!text.chars().any(char::is_control) && text.len() < 1000, "{text}");
                }
            }
        }
        println!("{name}: {refused} of 5000 refused");
        // The index refers to the other files.
        fs::write(&file, &original).unwrap();
    }
    assert!(peak_bytes() - before < 1 << 29, "{} bytes more", peak_bytes() - before);
}

/// The sounds that the packer carries are the clips of `assets`, each padded to a second.
#[test]
fn the_carried_sounds_are_the_shipped_clips() {
    let clips = read_index(&shipped("index.csv")).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/model/sounds/speech.flac");
    let carried = read_audio_at(&file, 16_000).unwrap().samples;
    assert_eq!(carried.len(), 16_000 * clips.len());
    for (clip, carried) in clips.iter().zip(carried.chunks(16_000)) {
        let mut samples = read_audio_at(&clip.path, 16_000).unwrap().samples;
        samples.resize(16_000, 0);
        assert_eq!(samples, carried, "{}", clip.path.display());
    }
}
