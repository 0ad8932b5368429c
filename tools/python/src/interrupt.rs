//! Long work that Ctrl-C ends.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Runs work on a thread of its own, without the GIL. After Ctrl-C the caller goes on at once, and the work ends unheard.
///
/// # Errors
/// `KeyboardInterrupt`, and what other signal handlers raise.
pub fn interruptible<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (done, mut result) = channel();
    // Nobody listens after Ctrl-C.
    thread::spawn(move || drop(done.send(work())));
    loop {
        let receiver = &mut result;
        // A receiver may move to another thread, but not be shared.
        let wait = move || {
            let receiver = receiver;
            receiver.recv_timeout(LOOK)
        };
        match py.detach(wait) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the work has panicked")),
        }
    }
}
