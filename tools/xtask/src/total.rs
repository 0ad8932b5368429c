//! The results of tests and checks, and their total as the last line.

use std::process::Command;

use crate::shell::{self, say, shown, step, stream};
use crate::{Failure, share};

/// Words after SKIP that are no failure in CI. CI has no GPU and no gigabytes for cuDNN, PyTorch and Keras, does not check
/// types of Python or start Ray, has tools without which some tests would run, and often lacks IPv6 in containers.
const MAY_LACK: [&str; 8] = [
    "no GPU",
    "no IPv6",
    "no Keras",
    "no PyTorch",
    "no mypy",
    "Ray takes long to start",
    "TIDEGATE_CUDNN does not name",
    "this machine has",
];

/// The results so far.
#[derive(Debug, Default)]
pub struct Total {
    pub passed: u64,
    failed: u64,
    skipped: u64,
    /// Number of passed tests that have printed SKIP.
    pretended: u64,
    failures: Vec<Failure>,
}

/// The output of `cargo test -- --show-output`.
#[derive(Debug, Default)]
struct Output {
    /// Whether the lines are those of tests that passed.
    is_of_passed: bool,
    /// The test whose output follows, until it has said SKIP.
    test: Option<String>,
}

impl Output {
    /// Whether to show a line: of the tests that passed, only the lines that say what they skip.
    fn is_shown(&mut self, line: &str) -> bool {
        if line == "successes:" {
            self.is_of_passed = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.is_of_passed = false;
        }
        !self.is_of_passed || line.starts_with("SKIP ")
    }

    /// The first line with which a test that passed says that it skips something.
    fn skips(&mut self, line: &str) -> Option<String> {
        if let Some(test) = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            self.test = Some(test.to_owned());
        }
        let is_skip = self.is_of_passed && line.starts_with("SKIP ");
        is_skip.then(|| Some(format!("{}: {line}", self.test.take()?))).flatten()
    }
}

impl Total {
    /// Forwards cargo's output and adds up its results.
    pub fn cargo_tests(&mut self, what: &str, command: Command) -> Result<(), Failure> {
        step(what, || {
            let typed = shown(&command);
            let before = self.failed;
            let mut output = Output::default();
            let streamed = stream(command, |line| {
                if output.is_shown(line) {
                    shell::result(line);
                }
                if let Some(reason) = output.skips(line) {
                    self.skips(&reason);
                }
                self.add(line);
            });
            if streamed != Ok(true) {
                self.failures.push(streamed.err().unwrap_or(typed));
                // A crate that does not compile has no result line.
                self.failed += u64::from(self.failed == before);
            }
            Ok(())
        })
    }

    /// A test that passes because it lacks something counts as skipped; in CI it fails, unless it [may](MAY_LACK).
    pub fn skips(&mut self, reason: &str) {
        let may_lack = MAY_LACK.iter().any(|lacks| reason.contains(&format!("SKIP {lacks}")));
        self.pretended += 1;
        if shell::is_ci() && !may_lack {
            self.failed += 1;
            self.failures.push(reason.to_owned());
        } else {
            self.skipped += 1;
        }
    }

    /// Counts a check that runs on another day.
    pub fn leaves_out(&mut self, what: &str, command: &str) {
        self.skipped += 1;
        share::leaves_out(what, command);
    }

    /// Adds the results of another thread.
    pub fn absorb(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.pretended += other.pretended;
        self.failures.extend(other.failures);
    }

    /// Reports missing tools: SKIP on a developer's machine, a failure in CI.
    pub fn lacks(&mut self, what: &str, failure: &str) {
        if shell::is_ci() {
            say(failure);
            self.failed += 1;
            self.failures.push(format!("{what}: {failure}"));
        } else {
            self.skipped += 1;
            say(&format!("SKIP {what}: {failure}"));
        }
    }

    /// A check of our own counts as one test.
    pub fn check(&mut self, what: &str, work: impl FnOnce() -> Result<(), Failure>) -> bool {
        match step(what, work) {
            Ok(()) => self.passed += 1,
            Err(failure) => {
                say(&failure);
                self.failed += 1;
                self.failures.push(format!("{what}: {failure}"));
                return false;
            }
        }
        true
    }

    /// `test result: ok. 3 passed; 0 failed; 1 ignored; …`
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.split_once("test result: ").and_then(|(_, rest)| rest.split_once(". ")) else {
            return;
        };
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }

    /// Prints what failed, and the total as the last line.
    pub fn end(&self) -> Result<(), Failure> {
        for failure in &self.failures {
            eprintln!("FAILED {failure}");
        }
        println!("{}", self.line());
        if self.failed == 0 { Ok(()) } else { Err(Failure::new()) }
    }

    fn line(&self) -> String {
        let skipped = if self.skipped > 0 { format!(", {} skipped", self.skipped) } else { String::new() };
        format!("{} passed, {} failed{skipped}", self.passed.saturating_sub(self.pretended), self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Output, Total};

    #[test]
    fn results_of_cargo_test_add_up() {
        let mut total = Total::default();
        for line in [
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test tests::a ... ok",
            "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 4 filtered out; finished in 1.25s",
        ] {
            total.add(line);
        }
        assert_eq!(total.line(), "14 passed, 3 failed, 1 skipped");
    }

    #[test]
    fn a_test_that_passes_because_it_skips_is_no_pass() {
        let lines = [
            "test a ... ok",
            "successes:",
            "---- a stdout ----",
            "figures",
            "SKIP a: there is no tool",
            "SKIP a: nor another",
            "---- b stdout ----",
            "SKIP no GPU: none",
            "successes:",
            "    a",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ];
        let mut output = Output::default();
        let shown: Vec<&str> = lines.into_iter().filter(|line| output.is_shown(line)).collect();
        assert_eq!(shown, [lines[0], lines[4], lines[5], lines[7], lines[10]]);
        let (mut output, mut total) = (Output::default(), Total::default());
        for line in lines {
            output.is_shown(line);
            if let Some(reason) = output.skips(line) {
                total.skips(&reason);
            }
            total.add(line);
        }
        let (lacking, line) = (total.failures.clone(), total.line());
        if crate::shell::is_ci() {
            assert_eq!(
                (line.as_str(), lacking),
                ("1 passed, 1 failed, 1 skipped", vec!["a: SKIP a: there is no tool".to_owned()])
            );
        } else {
            assert_eq!((line.as_str(), lacking.len()), ("1 passed, 0 failed, 2 skipped", 0));
        }
    }

    #[test]
    fn a_check_that_fails_is_counted_and_kept() {
        let mut total = Total::default();
        assert!(total.check("good", || Ok(())) && !total.check("bad", || Err("reason".into())));
        assert_eq!((total.line().as_str(), total.failures), ("1 passed, 1 failed", vec!["bad: reason".to_owned()]));
    }
}
