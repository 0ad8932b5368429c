//! Conditions under which an import fails, one line each.

use std::fmt::Display;

use crate::data::one_line;
use crate::error::{ImportError, Result};

/// Refuses `what` if `found`.
pub(super) fn unsupported_if(found: bool, what: impl Display) -> Result<()> {
    if found { Err(ImportError::Unsupported(what.to_string())) } else { Ok(()) }
}

/// Refuses a file with more than `most` things, whatever memory is allowed.
pub(super) fn limit_if(found: bool, most: usize, what: &'static str) -> Result<()> {
    err_if(found, || ImportError::Limit { most, what })
}

/// Asks for the length of the sequences if `what`, which reads all of a sequence, is `found`.
pub(super) fn needs_window_if(found: bool, what: impl Display) -> Result<()> {
    if found { Err(ImportError::NeedsWindow { what: what.to_string() }) } else { Ok(()) }
}

/// Refuses a length of sequences given by the user that differs from that of the input.
pub(super) fn check_window(input: &str, steps: Option<usize>, window: Option<usize>) -> Result<()> {
    match (steps, window) {
        (Some(steps), Some(window)) if steps != window => Err(ImportError::Refused {
            found: format!("input {:?} has {steps} steps, but --window says {window}", one_line(input)),
            advice: "leave --window out",
        }),
        _ => Ok(()),
    }
}

/// The error of a layer, with its name and class.
pub(super) fn in_layer(layer: &str, class: &str, error: ImportError) -> ImportError {
    let escaped = |text: &str| text.escape_debug().to_string();
    ImportError::Layer { layer: escaped(layer), class: escaped(class), source: Box::new(error) }
}

/// Fails with this error if `failed`.
pub(super) fn err_if<E>(failed: bool, error: impl FnOnce() -> E) -> Result<(), E> {
    if failed { Err(error()) } else { Ok(()) }
}

/// Fails with a reason that does not name the node or tensor yet.
pub(super) fn fail_if(failed: bool, reason: impl Display) -> Result<(), String> {
    if failed { Err(reason.to_string()) } else { Ok(()) }
}
