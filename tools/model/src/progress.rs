//! Progress of long operations, shown to the user.

/// Shows the progress of work.
pub trait Progress {
    /// Starts a part of the work, as in "scoring", with `len` steps or an unknown number. The returned function is called
    /// after each step, and dropped at the end.
    fn begin(&self, what: &str, len: Option<usize>) -> Box<dyn Fn() + '_>;
}

/// Shows nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: Option<usize>) -> Box<dyn Fn() + '_> {
        Box::new(|| ())
    }
}
