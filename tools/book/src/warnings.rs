//! Collects the warnings and errors of mdBook, which it reports by `tracing`.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The warnings so far.
#[derive(Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

/// Collects the warnings of this process from now on.
pub fn listen() -> Warnings {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).expect("nothing else listens");
    warnings
}

impl Warnings {
    /// The warnings so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
    }

    // Spans are not of interest.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The fields of an event in one line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let separator = if self.0.is_empty() { "" } else { ", " };
        let _ = match field.name() {
            "message" => write!(self.0, "{separator}{value:?}"),
            name => write!(self.0, "{separator}{name}: {value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn warnings_are_collected_and_notes_are_not() {
        let warnings = super::Warnings::default();
        tracing::subscriber::with_default(warnings.clone(), || {
            tracing::info!("a note");
            tracing::warn!("page {} is missing", 1);
            tracing::error!(code = 2, "worse");
        });
        assert_eq!(warnings.take(), ["page 1 is missing", "worse, code: 2"]);
        assert!(warnings.take().is_empty());
    }
}
