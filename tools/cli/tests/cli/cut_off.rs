//! Every kind of file that `import` reads, truncated at every kilobyte: the error is one line with the file, nothing is
//! written, and the memory is at most a small multiple of the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::write_tensors;

use super::{Workplace, gru_pb};

/// Maximum number of tested files of one kind in a folder.
const MOST_FILES: usize = 8;
/// Maximum number of cuts in one file. In larger files they are spread evenly.
const MOST_CUTS: usize = 48;
/// Address space of the program itself, its libraries and its stack.
const PROGRAM_BYTES: usize = 48 << 20;
/// Address space for each byte of the file: the file, its numbers as f32, and a copy in another order.
const MULTIPLE: usize = 5;

/// The ending of the name that identifies a model file.
fn kind(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    if name.contains(".golden.") || path.with_extension("pb").is_file() && name.ends_with(".safetensors") {
        return None;
    }
    let ends = [".pt", ".pth", ".safetensors", ".pb", ".h5", ".hdf5", ".keras", ".ckpt.index"];
    let shard = name.contains(".ckpt.data-").then_some(".data-00000-of-00001");
    ends.into_iter().find(|end| name.ends_with(end)).or(shard)
}

/// Finds models in a folder and its subfolders: of each kind the smallest, the largest and some between.
fn models(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut kinds: BTreeMap<&str, Vec<(u64, PathBuf)>> = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            models(&path, found);
        } else if let Some(kind) = kind(&path) {
            kinds.entry(kind).or_default().push((fs::metadata(&path).unwrap().len(), path));
        }
    }
    for mut files in kinds.into_values() {
        files.sort();
        let step = files.len().div_ceil(MOST_FILES);
        found.extend(files.into_iter().rev().step_by(step).map(|(_, path)| path));
    }
}

/// At the start, every kilobyte, and one byte before the end.
fn cuts(len: usize) -> Vec<usize> {
    let step = 1024.max(len.div_ceil(MOST_CUTS));
    let mut cuts: Vec<usize> = (0..len).step_by(step).collect();
    cuts.push(len - 1);
    cuts.dedup();
    cuts
}

/// Runs `tidegate` with limited address space.
fn limited(here: &Workplace, args: &[&str], limit: usize) -> Output {
    if !cfg!(target_os = "linux") {
        return here.run(args);
    }
    let mut shell = Command::new("sh");
    let kilobytes = (limit / 1024).to_string();
    shell.args(["-c", "ulimit -v \"$1\" && shift && exec \"$@\"", "sh", &kilobytes, env!("CARGO_BIN_EXE_tidegate")]);
    shell.args(args).current_dir(here.path("")).output().unwrap()
}

/// Runs an import that must fail with one line. Returns the line.
fn refused(here: &Workplace, args: &[&str], len: usize) -> String {
    let before = here.names();
    let Output { status, stdout, stderr } = limited(here, args, PROGRAM_BYTES + MULTIPLE * len);
    let stderr = String::from_utf8(stderr).unwrap();
    let one_line = stderr.ends_with('\n') && stderr.lines().count() == 1 && stderr.starts_with("tidegate: ");
    assert!(status.code() == Some(1) && stdout.is_empty() && one_line, "{args:?} of {len}: {status}: {stderr}");
    assert_eq!(here.names(), before, "{args:?}: {stderr}");
    stderr
}

/// Imports one model truncated at each cut. Returns the number of cuts.
fn cut(path: &Path) -> usize {
    let here = Workplace::new();
    let (name, end) = (path.file_name().unwrap().to_str().unwrap(), kind(path).unwrap());
    let whole = fs::read(path).unwrap();
    let stem = name.split('.').next().unwrap();
    // The other files of a checkpoint are not truncated.
    for beside in fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()) {
        let other = beside.file_name().unwrap().to_str().unwrap();
        if other.starts_with(&format!("{stem}.ckpt.")) {
            fs::copy(&beside, here.path(other)).unwrap();
        }
    }
    let mut args = vec!["import", name, "-o", "x.safetensors"];
    let arch = path.with_file_name(format!("{stem}.json"));
    if arch.is_file() {
        fs::copy(arch, here.path("arch.json")).unwrap();
        args.extend(["--arch", "arch.json"]);
    }
    let cuts = cuts(whole.len());
    for &len in &cuts {
        here.write(name, &whole[..len]);
        let line = refused(&here, &args, len);
        // A checkpoint is named by its index.
        let called = if end.contains("data") { stem } else { name };
        assert!(line.starts_with(&format!("tidegate: {called}")), "{name} cut at {len}: {line}");
        assert!(line.contains("; "), "{name} cut at {len} has no way out: {line}");
        if std::env::var_os("TIDEGATE_SHOW").is_some() {
            print!("{len} of {}: {line}", whole.len());
        }
    }
    cuts.len()
}

#[test]
fn files_of_every_framework_are_refused_at_every_kilobyte() {
    let mut all = vec![PathBuf::from(gru_pb())];
    models(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frameworks"), &mut all);
    let here = Workplace::new();
    here.succeed(&["import", &gru_pb(), "-o", "canonical.safetensors"]);
    all.push(here.path("canonical.safetensors"));
    all.sort();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    all.iter().for_each(|path| *kinds.entry(kind(path).unwrap()).or_default() += 1);
    // Two processes at a time.
    let (some, others) = all.split_at(all.len() / 2);
    let cuts: usize = thread::scope(|scope| {
        let halves = [some, others].map(|files| scope.spawn(|| files.iter().map(|path| cut(path)).sum::<usize>()));
        halves.into_iter().map(|half| half.join().unwrap()).sum()
    });
    println!("{cuts} cuts of {} files: {kinds:?}", all.len());
    for kind in [".pb", ".pt", ".pth", ".safetensors", ".ckpt.index", ".data-00000-of-00001"] {
        assert!(kinds.contains_key(kind), "{kind}: {kinds:?}");
    }
}

/// The file has twelve million bytes, and several copies of it in memory would exceed the limit.
#[test]
fn a_large_file_needs_a_small_multiple_of_its_size() {
    let here = Workplace::new();
    let tensor = |shape: &[usize]| Tensor { shape: shape.to_vec(), data: vec![0.5; shape.iter().product()] };
    let tensors =
        BTreeMap::from([("fc.weight".to_owned(), tensor(&[1500, 2000])), ("fc.bias".to_owned(), tensor(&[1500]))]);
    write_tensors(&here.path("torch.safetensors"), &tensors).unwrap();
    here.write(
        "arch.json",
        r#"{"inputs": [{"name": "x", "size": 2000}], "layers": [{"name": "fc", "class": "Linear"}]}"#,
    );
    let len = here.read("torch.safetensors").len();
    let limit = PROGRAM_BYTES + MULTIPLE * len;
    let import = ["import", "torch.safetensors", "--arch", "arch.json", "-o", "x.safetensors"];
    let Output { status, stderr, .. } = limited(&here, &import, limit);
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
    let Output { status, stderr, .. } =
        limited(&here, &["pack", "x.safetensors", "-o", "x.tgi", "--numeric", "f32"], limit);
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
    assert!(Canonical::load(&here.path("x.safetensors")).unwrap().tensors.len() == 2);
    for name in ["torch.safetensors", "x.safetensors"] {
        let whole = here.read(name);
        here.write("cut.safetensors", &whole[..whole.len() / 2]);
        refused(&here, &["import", "cut.safetensors", "-o", "y.safetensors"], len / 2);
    }
    // Checks that the limit works: with it, not even the file fits.
    if cfg!(target_os = "linux") {
        let starved = limited(&here, &import, PROGRAM_BYTES / 8);
        assert!(!starved.status.success());
    }
}
