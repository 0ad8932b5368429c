//! Progress bars on standard error, shown only on a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// Shows the progress of the library as bars and counters.
#[derive(Clone, Copy, Debug)]
pub struct Bars;

impl tidegate_model::progress::Progress for Bars {
    fn begin(&self, what: &str, len: Option<usize>) -> Box<dyn Fn() + '_> {
        let shown = match len {
            Some(len) => bar(len as u64, what),
            None => counter(what),
        };
        Box::new(move || shown.advance(1))
    }
}

/// A progress bar, which is removed when it is dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

/// A bar for `len` parts of the work `what`, as in "scoring".
pub fn bar(len: u64, what: &str) -> Progress {
    shown(Some(len), what, "{msg} {bar:40} {pos}/{len} {eta}")
}

/// A counter for parts of the work `what` whose number is not known.
pub fn counter(what: &str) -> Progress {
    shown(None, what, "{msg} {pos} {elapsed}")
}

fn shown(len: Option<u64>, what: &str, template: &str) -> Progress {
    let target = if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(len, target).with_style(style).with_finish(ProgressFinish::AndClear);
    Progress(bar.with_message(what.to_owned()))
}

impl Progress {
    /// Adds finished parts.
    pub fn advance(&self, parts: u64) {
        self.0.inc(parts);
    }
}
