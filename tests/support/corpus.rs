//! The corpora of the fuzz targets. Seeds are generated in memory and checked against recorded digests; only inputs
//! that a fuzzer found are files.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::random::Rng;

/// The environment variable with the seconds of mutations for each target, and its default.
const SECONDS: &str = "TIDEGATE_MUTATION_SECONDS";
const DEFAULT_SECONDS: f64 = 1.0;
/// The environment variable with the number of mutations of all targets together, in place of seconds. `cargo xtask soak`
/// sets it.
const MUTATIONS: &str = "TIDEGATE_MUTATIONS";
/// Mutations of all targets so far.
static MUTATED: AtomicU64 = AtomicU64::new(0);
/// Time after which an input counts as hanging.
const MOST_TIME: Duration = Duration::from_secs(10);
/// Maximum memory of the process of the tests, whose other tests hold models and sounds.
const MOST_KIB: u64 = 3 << 20;

/// The inputs that every test run replays through one fuzz target.
#[derive(Debug)]
pub struct Corpus {
    /// Name of the fuzz target.
    pub target: &'static str,
    /// The generated inputs, by name.
    pub seeds: BTreeMap<String, Vec<u8>>,
}

impl Corpus {
    /// Files in `tests/fuzz/corpus/TARGET`: inputs that once made the target fail. Most targets have none.
    fn finds(&self) -> BTreeMap<String, Vec<u8>> {
        files(&recorded().join(self.target))
    }

    /// Inputs that libFuzzer has found in this clone.
    fn found(&self) -> BTreeMap<String, Vec<u8>> {
        files(&folder("fuzz-found", self.target))
    }

    /// Runs `body` on every seed and every find. Returns how many of them it accepts.
    pub fn replay(&self, body: impl Fn(&[u8]) -> bool) -> usize {
        let finds = self.finds();
        let inputs: Vec<_> = self.seeds.iter().chain(&finds).collect();
        let mut accepted = 0;
        for (name, bytes) in &inputs {
            println!("{}/{name}", self.target); // after a panic, the last line names the input
            accepted += usize::from(body(bytes));
        }
        println!("{}: {accepted} of {} inputs accepted", self.target, inputs.len());
        accepted
    }

    /// Runs `body` on seeded mutations of the inputs, for as many seconds as `TIDEGATE_MUTATION_SECONDS` says, otherwise for
    /// one. With `TIDEGATE_MUTATIONS`, also on those of the inputs that libFuzzer has found, until all targets together have
    /// had that many, and this one a tenth of them. This is a share of what `cargo xtask soak` does with libFuzzer, without a
    /// build of its own. An input that fails is kept in `target/fuzz-failed`.
    pub fn mutate<T>(&self, body: impl Fn(&[u8]) -> T) {
        let seconds = std::env::var(SECONDS).map_or(DEFAULT_SECONDS, |text| text.parse().expect("a number of seconds"));
        let most: Option<u64> = std::env::var(MUTATIONS).ok().map(|text| text.parse().expect("a number of mutations"));
        let found = most.map(|_| self.found()).unwrap_or_default();
        let finds = self.finds();
        let inputs = self.seeds.values().chain(finds.values()).chain(found.values());
        let inputs: Vec<&[u8]> = inputs.map(Vec::as_slice).collect();
        let mut rng = Rng::new(0xF0CC);
        let start = Instant::now();
        let running = Running::watched(self.target);
        let mut count = 0;
        let goes_on = |count: u64| match most {
            Some(most) => MUTATED.fetch_add(1, Ordering::Relaxed) < most || count < most / 10,
            None => start.elapsed().as_secs_f64() < seconds,
        };
        while goes_on(count) {
            let input = mutated(&mut rng, &inputs);
            running.starts(&input);
            if catch_unwind(AssertUnwindSafe(|| body(&input))).is_err() {
                panic!("{}: the input is in {}", self.target, kept(self.target, &input).display());
            }
            count += 1;
        }
        running.ends();
        let peak = peak_kib();
        let seconds = start.elapsed().as_secs();
        println!("{}: {count} mutations in {seconds} s, peak memory of the process {} MiB", self.target, peak / 1024);
        assert!(peak < MOST_KIB, "{}: {} MiB of memory are in use", self.target, peak / 1024);
    }

    /// The seeds as `sha256sum` lists them.
    fn digests(&self) -> String {
        let hex = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        self.seeds.iter().map(|(name, bytes)| format!("{}  {name}\n", hex(bytes))).collect()
    }

    fn digests_path(&self) -> PathBuf {
        recorded().join(format!("{}.sha256", self.target))
    }

    /// Checks that the generator still makes the seeds whose digests are recorded, and no others.
    pub fn is_as_recorded(&self) {
        let path = self.digests_path();
        let recorded = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let generated = self.digests();
        let missing = |here: &str, there: &str| -> Vec<String> {
            here.lines().filter(|line| !there.lines().any(|other| other == *line)).map(str::to_owned).collect()
        };
        let (gone, new) = (missing(&recorded, &generated), missing(&generated, &recorded));
        assert!(
            recorded == generated,
            "the seeds differ from {}; recorded: {gone:#?}; generated: {new:#?}. If the change is intended, record \
             them again: cargo test --release -p tidegate-tests -- --ignored regenerate",
            path.display()
        );
    }

    /// Checks the digests, runs `body` on every input, and checks that it accepts all seeds except `refused` of them.
    pub fn passes(&self, refused: usize, body: impl Fn(&[u8]) -> bool) {
        self.is_as_recorded();
        let accepted = self.replay(&body);
        self.mutate(body);
        assert!(accepted + refused >= self.seeds.len(), "{accepted} of {} seeds are accepted", self.seeds.len());
    }

    /// Records the digests of the seeds and writes the inputs for `cargo fuzz`.
    pub fn regenerate(&self) {
        fs::write(self.digests_path(), self.digests()).expect("the digests can be written");
        self.write_inputs();
    }

    /// Writes seeds and finds to `target/fuzz/TARGET`, the folder that `cargo fuzz run` starts from.
    pub fn write_inputs(&self) {
        let folder = folder("fuzz", self.target);
        fs::create_dir_all(&folder).expect("the folder can be created");
        for (name, bytes) in self.seeds.iter().chain(&self.finds()) {
            fs::write(folder.join(name), bytes).expect("the input can be written");
        }
        println!("{}: {} seeds", folder.display(), self.seeds.len());
    }
}

/// The folder of a target for inputs of a kind, in the build folder.
fn folder(of: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(of).join(target)
}

/// The files of a folder by name, none if it does not exist.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(files) = fs::read_dir(folder) else { return BTreeMap::new() };
    let paths = files.map(|entry| entry.expect("a folder of inputs is readable").path());
    let name = |path: &Path| path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    paths.map(|path| (name(&path), fs::read(&path).expect("an input is readable"))).collect()
}

/// The folder of digests and finds.
fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus")
}

/// One to four changes of a random input: bytes, integers at borders, pieces that are removed, repeated or come from
/// another input.
fn mutated(rng: &mut Rng, inputs: &[&[u8]]) -> Vec<u8> {
    const BORDERS: [u32; 10] = [0, 1, 2, 0x7f, 0xff, 0x7fff, 0xffff, 1 << 24, i32::MAX as u32, u32::MAX];
    let mut bytes = rng.pick(inputs).to_vec();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        let len = (1 << rng.below(9)).min(bytes.len() - at);
        match rng.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..at + len)),
            2 => {
                let piece = bytes[at..at + len].to_vec();
                bytes.splice(at..at, piece);
            }
            3 => {
                let other = rng.pick(inputs);
                let from = rng.below(other.len() + 1);
                let len = (1 << rng.below(9)).min(other.len() - from);
                let end = (at + len).min(bytes.len());
                bytes.splice(at..end, other[from..from + len].iter().copied());
            }
            kind if at < bytes.len() => match kind {
                4 => bytes[at] = rng.bits() as u8,
                5 => bytes[at] ^= 1 << rng.below(8),
                _ => {
                    let near = u32::from(bytes[at]).wrapping_add(if rng.below(2) == 0 { 1 } else { u32::MAX });
                    let value = if kind == 6 { rng.pick(&BORDERS) } else { near };
                    let width = [1, 2, 4][rng.below(3)].min(bytes.len() - at);
                    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                }
            },
            _ => bytes.push(rng.bits() as u8),
        }
    }
    bytes
}

/// Writes an input that failed, and returns its path.
fn kept(target: &str, input: &[u8]) -> PathBuf {
    let folder = folder("fuzz-failed", target);
    fs::create_dir_all(&folder).expect("the folder can be created");
    let name: String = Sha256::digest(input).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(name);
    fs::write(&path, input).expect("the input can be written");
    path
}

/// The input that runs and when it started, seen by a thread that ends the process if it hangs.
struct Running(Arc<Mutex<Option<Input>>>);

/// When an input started, and its bytes.
type Input = (Instant, Vec<u8>);

impl Running {
    fn watched(target: &'static str) -> Self {
        let shared = Arc::new(Mutex::new(Some((Instant::now(), Vec::new()))));
        let watched = Arc::clone(&shared);
        thread::spawn(move || {
            loop {
                match &*watched.lock().expect("nothing panics with the lock") {
                    None => break,
                    Some((start, input)) if start.elapsed() > MOST_TIME => {
                        eprintln!("{target}: {MOST_TIME:?} are over for {}", kept(target, input).display());
                        std::process::abort();
                    }
                    Some(_) => {}
                }
                thread::sleep(Duration::from_millis(200));
            }
        });
        Self(shared)
    }

    fn starts(&self, input: &[u8]) {
        *self.0.lock().expect("nothing panics with the lock") = Some((Instant::now(), input.to_vec()));
    }

    fn ends(&self) {
        *self.0.lock().expect("nothing panics with the lock") = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends();
    }
}

/// The greatest memory that this process has had, in KiB; 0 where the system does not say.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
}
