//! Checks that take hours: the fuzz targets for millions of inputs each, the package for Python, Miri, the thread sanitizer,
//! NEON, functions over every f32, ten million mutations and every cut of power of updates. `tests/soak.json` records each
//! result with its commit and date. A run goes on where the last one stopped, as long as the code is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::fuzz::{self, Ran};
use crate::shell::{output_within, read, root};
use crate::{Failure, python, record, suites, test, wheel};

/// Inputs of all targets together and of each target, and the seconds after which a target is done with fewer inputs.
const ALL_INPUTS: u64 = 100_000_000;
const INPUTS: u64 = 2_000_000;
const SECONDS: u64 = 1200;
/// Seconds after which a target gives its core to another one.
const SLICE: u64 = 60;
/// Seconds of the thread sanitizer.
const RACE_SECONDS: u32 = 600;
/// Fewest cuts of power.
const CUTS: u64 = 1_000_000;
/// Time for the cuts, and for the mutations of updates.
const LIMIT: Duration = Duration::from_secs(12 * 3600);
/// Fewest mutations of flash and of the protocol of updates, on stable Rust: with the address sanitizer, signatures would
/// take days.
const UPDATES: u64 = 10_000_000;

/// `tests/soak.json`.
const RECORD: &str = "tests/soak.json";
const RECORD_IS_NO_CODE: &str = ":!tests/soak.json";

/// The outcomes by the name of a fuzz target or of a [part](PARTS).
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
struct Record(BTreeMap<String, Outcome>);

#[derive(Debug, Deserialize, Serialize)]
struct Outcome {
    commit: String,
    date: String,
    #[serde(flatten)]
    ran: Ran,
}

/// The name of all fuzz targets together.
const FUZZ: &str = "fuzz";

/// A check, which returns how many tests have passed or how many cuts were tried.
type Part = (&'static str, fn() -> Result<u64, Failure>);

/// The checks besides the fuzz targets.
const PARTS: [Part; 6] = [
    ("wheel", || wheel::run().map(|()| 1)),
    ("python", python::every),
    ("hosts", || test::hosts(RACE_SECONDS)),
    ("every_input", test::every_input),
    ("updates", updates),
    ("cuts", cuts),
];

/// What every result depends on besides [`code`]: dependencies, data that the program carries, and how the checks are run.
const EVERYWHERE: [&str; 5] =
    ["Cargo.toml", "Cargo.lock", "assets", "tools/xtask/src/fuzz.rs", "tools/xtask/src/hosts.rs"];

/// The files that sign images.
const SIGNER: &str = "tools/model/src/sign.rs";
const SECTIONS: &str = "tools/model/src/sections.rs";

/// The reader of indices, which only `read_data` calls.
const NO_INDEX: &str = ":!tools/model/src/data/index.rs";
/// The inputs that failed once, which the tests replay.
const NO_CORPUS: &str = ":!tests/fuzz/corpus";

/// The list of packages for the tests in Python.
const PYTHON: &str = "tools/xtask/src/python.rs";

/// The folders that a result depends on. A change elsewhere keeps it.
fn code(name: &str) -> &'static [&'static str] {
    match name {
        "wheel" => &["."],
        "python" => &["core", "cpu-fused", "tools/model", "tools/python", "docs/notebooks", "tests/frameworks", PYTHON],
        "hosts" | "every_input" => &["core", "cpu-fused", "tools/model", "tests"],
        "cuts" => &["core", "tools/model", "tests/support", "tests/update", "tests/update*.rs", "tests/signed.rs"],
        // The images are made by hand; only the signer is that of the packer.
        _ if name.starts_with("update") => &[
            "core",
            SIGNER,
            SECTIONS,
            "tests/fuzz",
            "tests/fuzz_update.rs",
            "tests/support",
            "tests/update",
            NO_CORPUS,
        ],
        "c_api" | "fused" | "image_parse" | "listen" | "parse_then_step" | "restore" | "step_i16" => {
            &["core", "cpu-fused", "tests/capi", "tests/fuzz", "tests/support", NO_CORPUS]
        }
        "read_data" => &["core", "tools/model", "tests/fuzz", "tests/support", NO_CORPUS],
        _ => &["core", "cpu-fused", "gpu-host/src", "tools/model", NO_INDEX, "tests/fuzz", "tests/support", NO_CORPUS],
    }
}

/// Runs the named fuzz targets and parts, or everything if none is named, without those that are recorded. After `minutes`,
/// no other target or part is started.
pub fn run(names: Vec<String>, minutes: Option<u64>) -> Result<(), Failure> {
    if !printed("git", &["status", "--porcelain", "--untracked-files=no", "--", ".", RECORD_IS_NO_CODE])?.is_empty() {
        return Err("a record names its commit: commit the changes first".to_owned());
    }
    let end = minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let is_over = || end.is_some_and(|end| Instant::now() >= end);
    let mut targets = fuzz::targets()?;
    let is_known = |name: &String| name == FUZZ || targets.contains(name) || PARTS.iter().any(|part| part.0 == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let parts = PARTS.map(|part| part.0).join(", ");
        return Err(format!("{unknown} is neither a fuzz target nor one of {FUZZ}, {parts}"));
    }
    let is_asked = |name: &str| names.is_empty() || names.iter().any(|asked| asked == name);
    targets.retain(|target| is_asked(target) || is_asked(FUZZ));
    let mut session = Session::new()?;
    if session.next(&targets, &BTreeSet::new()).is_some() {
        fuzz::build()?;
        session = session.fuzz(&targets, &is_over)?;
    }
    for (name, check) in PARTS.iter().filter(|part| is_asked(part.0)) {
        if session.record.0.contains_key(*name) || is_over() {
            continue;
        }
        let start = Instant::now();
        let executions = check()?;
        session.add(name, Ran { executions, seconds: start.elapsed().as_secs() })?;
    }
    Ok(())
}

/// The record of one commit.
struct Session {
    commit: String,
    date: String,
    path: PathBuf,
    record: Record,
}

impl Session {
    /// Reads the record, and removes the results of other code.
    fn new() -> Result<Self, Failure> {
        let (commit, date) = (printed("git", &["rev-parse", "HEAD"])?, printed("date", &["-u", "+%F"])?);
        let path = root().join(RECORD);
        let mut record = Record::default();
        if path.is_file() {
            record = serde_json::from_str(&read(&path)?).map_err(|error| error.to_string())?;
        }
        // Text has no influence on the checks, except for the examples of docs/python.md, which each CI runs.
        let is_same = |name: &str, outcome: &Outcome| {
            let mut changes = vec!["diff", "--quiet", &outcome.commit, &commit, "--", ":!*.md", RECORD_IS_NO_CODE];
            changes.extend(EVERYWHERE.iter().chain(code(name)));
            printed("git", &changes).is_ok()
        };
        record.0.retain(|name, outcome| is_same(name, outcome));
        Ok(Self { commit, date, path, record })
    }

    /// Adds to the result of a target or part, and writes the record, so that hours of work survive an interruption.
    fn add(&mut self, name: &str, ran: Ran) -> Result<(), Failure> {
        let before = self.record.0.get(name).map(|outcome| outcome.ran).unwrap_or_default();
        let ran = Ran { executions: before.executions + ran.executions, seconds: before.seconds + ran.seconds };
        let outcome = Outcome { commit: self.commit.clone(), date: self.date.clone(), ran };
        self.record.0.insert(name.to_owned(), outcome);
        let text = serde_json::to_string_pretty(&self.record).map_err(|error| error.to_string())?;
        record::write(&self.path, &format!("{text}\n"))
    }

    fn ran(&self, target: &str) -> Ran {
        self.record.0.get(target).map(|outcome| outcome.ran).unwrap_or_default()
    }

    /// The target that runs next: among those that lack inputs, the one that has run least. If only the total is too small, the
    /// fastest one.
    fn next<'a>(&self, targets: &'a [String], running: &BTreeSet<&str>) -> Option<&'a str> {
        let free = || targets.iter().map(String::as_str).filter(|target| !running.contains(target));
        let lacks = |target: &&str| {
            let Ran { executions, seconds } = self.ran(target);
            executions < INPUTS && seconds < SECONDS
        };
        let total: u64 = targets.iter().map(|target| self.ran(target).executions).sum();
        let speed = |target: &&str| self.ran(target).executions / self.ran(target).seconds.max(1);
        free()
            .filter(lacks)
            .min_by_key(|target| self.ran(target).seconds)
            .or_else(|| free().max_by_key(speed).filter(|_| total < ALL_INPUTS))
    }

    /// Runs targets in turns, one on each core, until each has enough inputs or the time is over. A target that fails does not
    /// run again.
    fn fuzz(self, targets: &[String], is_over: &(dyn Fn() -> bool + Sync)) -> Result<Self, Failure> {
        let shared = Mutex::new((self, BTreeSet::new()));
        let failures = Mutex::new(Vec::new());
        let work = || -> Result<(), Failure> {
            loop {
                let (target, turn) = {
                    let (session, running) = &mut *shared.lock().expect("no thread panics");
                    let Some(target) = session.next(targets, running).filter(|_| !is_over()) else { return Ok(()) };
                    running.insert(target);
                    (target, session.ran(target).seconds)
                };
                let ran = match fuzz::run_one(target, SLICE, 1 + turn) {
                    Ok(ran) => ran,
                    Err(failure) => {
                        eprintln!("    {target} failed and does not run again");
                        failures.lock().expect("no thread panics").push(failure);
                        continue;
                    }
                };
                let (session, running) = &mut *shared.lock().expect("no thread panics");
                running.remove(target);
                session.add(target, ran)?;
                let Ran { executions, seconds } = session.ran(target);
                eprintln!("    {target}: {executions} inputs in {seconds} s");
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
        })?;
        let failures = failures.into_inner().expect("no thread panics");
        if failures.is_empty() {
            Ok(shared.into_inner().expect("no thread panics").0)
        } else {
            Err(failures.join("\n"))
        }
    }
}

/// Cuts the power at every byte and every erase of updates, and flips every bit of a signed image. Returns the number of
/// cuts.
///
/// # Errors
/// If a test fails, or fewer than [`CUTS`] are tried.
fn cuts() -> Result<u64, Failure> {
    let mut tests = suites::command();
    tests.args(["--test", "engine", "--", "--nocapture", "update_cuts", "every_flipped_bit_and_every_truncation"]);
    tests.envs([("TIDEGATE_CUTS", "all"), ("TIDEGATE_FLIPS", "all")]);
    let printed = output_within(tests, LIMIT)?;
    let tried =
        printed.lines().filter_map(|line| line.strip_suffix(" cuts tried")?.rsplit(' ').next()?.parse::<u64>().ok());
    let tried = tried.sum();
    if tried >= CUTS { Ok(tried) } else { Err(format!("{tried} cuts of power were tried, fewer than {CUTS}")) }
}

/// Runs the bodies of the fuzz targets of updates on mutations of their inputs. Returns the number of mutations.
///
/// # Errors
/// If a test fails, or there are fewer than [`UPDATES`] mutations.
fn updates() -> Result<u64, Failure> {
    let mut tests = suites::command();
    tests.args(["--test", "engine", "--", "--nocapture", "fuzz_update"]).env("TIDEGATE_MUTATIONS", UPDATES.to_string());
    let printed = output_within(tests, LIMIT)?;
    let mutations = printed.lines().filter_map(|line| {
        let (before, _) = line.split_once(" mutations in ")?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    let mutations = mutations.sum();
    if mutations >= UPDATES { Ok(mutations) } else { Err(format!("{mutations} mutations, fewer than {UPDATES}")) }
}

/// Output of a command, without the end of its line.
fn printed(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    output_within(command, Duration::from_secs(60)).map(|text| text.trim().to_owned())
}
