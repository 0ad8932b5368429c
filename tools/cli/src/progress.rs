//! A bar for long work: on standard error, and only where a person is watching.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that goes away when it is dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

/// A bar of `len` parts; `what` names the work ("scoring").
pub fn bar(len: u64, what: &str) -> Progress {
    let target = if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{msg} {bar:40} {pos}/{len} {eta}").unwrap_or(ProgressStyle::default_bar());
    Progress(ProgressBar::with_draw_target(Some(len), target).with_style(style).with_message(what.to_owned()))
}

impl Progress {
    /// `parts` more are done.
    pub fn advance(&self, parts: u64) {
        self.0.inc(parts);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
