//! Checks that take hours: the fuzz targets for millions of inputs each, the wheel for Python, Miri, the thread sanitizer,
//! NEON, functions over every f32, and every cut of power in an update. Each result is recorded in `tests/soak.json` with
//! its commit and date.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::fuzz::{self, Limit, Ran};
use crate::shell::{cargo, output_within, read, root};
use crate::{Failure, firmware, record, test, wheel};

/// Inputs and seconds after which a target stops, whichever comes first. The targets together run a hundred million inputs
/// and each at least two million; the time is that of a core that other work shares.
const FUZZ: Limit = Limit { seconds: 3600, executions: 6_000_000 };
/// Seconds of the thread sanitizer.
const RACE_SECONDS: u32 = 600;
/// Fewest cuts of power, and the time for them.
const CUTS: u64 = 1_000_000;
const CUTS_LIMIT: Duration = Duration::from_secs(12 * 3600);

/// `tests/soak.json`.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Record {
    /// By name of the target.
    fuzz: BTreeMap<String, Outcome>,
    /// The tests of `cargo xtask hosts` that have passed.
    hosts: Option<Outcome>,
    /// The tests of functions over every f32 and of integers at every size that have passed.
    every_input: Option<Outcome>,
    /// The cuts of power in updates that were tried: every one.
    cuts: Option<Outcome>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Outcome {
    commit: String,
    date: String,
    #[serde(flatten)]
    ran: Ran,
}

/// Runs the named fuzz targets, or everything if there are none.
pub fn run(targets: Vec<String>) -> Result<(), Failure> {
    if !printed("git", &["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
        return Err("a record names its commit: commit the changes first".to_owned());
    }
    let (commit, date) = (printed("git", &["rev-parse", "HEAD"])?, printed("date", &["-u", "+%F"])?);
    let result = |ran| Outcome { commit: commit.clone(), date: date.clone(), ran };
    let path = root().join("tests/soak.json");
    let mut record: Record = if path.is_file() {
        serde_json::from_str(&read(&path)?).map_err(|error| error.to_string())?
    } else {
        Record::default()
    };
    let is_everything = targets.is_empty();
    let targets = if is_everything { fuzz::targets()? } else { targets };
    fuzz::build()?;
    // The record is written after each target, so that hours of work survive an interruption.
    fuzz::run(&targets, FUZZ, |target, ran| {
        record.fuzz.insert(target.to_owned(), result(ran));
        write(&path, &record)
    })?;
    if is_everything {
        wheel::run()?;
        let start = Instant::now();
        let executions = test::hosts(RACE_SECONDS)?;
        record.hosts = Some(result(Ran { executions, seconds: start.elapsed().as_secs() }));
        let start = Instant::now();
        let executions = test::every_input()?;
        record.every_input = Some(result(Ran { executions, seconds: start.elapsed().as_secs() }));
        write(&path, &record)?;
        let start = Instant::now();
        let executions = cuts()?;
        record.cuts = Some(result(Ran { executions, seconds: start.elapsed().as_secs() }));
        write(&path, &record)?;
    }
    Ok(())
}

/// Cuts the power at every byte and every erase of updates, and flips every bit of a signed image. Returns the number of
/// cuts.
///
/// # Errors
/// If a test fails, or fewer than [`CUTS`] are tried.
fn cuts() -> Result<u64, Failure> {
    let mut tests = cargo(".", &firmware::WORKSPACE_TESTS);
    tests.args(["--test", "engine", "--", "--nocapture", "update_cuts", "every_flipped_bit_and_every_truncation"]);
    tests.envs([("TIDEGATE_CUTS", "all"), ("TIDEGATE_FLIPS", "all")]);
    let printed = output_within(tests, CUTS_LIMIT)?;
    let tried =
        printed.lines().filter_map(|line| line.strip_suffix(" cuts tried")?.rsplit(' ').next()?.parse::<u64>().ok());
    let tried = tried.sum();
    if tried >= CUTS { Ok(tried) } else { Err(format!("{tried} cuts of power were tried, fewer than {CUTS}")) }
}

/// Output of a command, without the end of its line.
fn printed(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    output_within(command, Duration::from_secs(60)).map(|text| text.trim().to_owned())
}

fn write(path: &Path, record: &Record) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
    record::write(path, &format!("{text}\n"))
}
