//! The test that a model on trial must pass.

use core::fmt;

use tidegate::SelfTestError;

/// Proof that a model has passed its test, identified by the first bytes of its image's signature.
/// [`Updater::confirm`](crate::Updater::confirm) requires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tested(pub(crate) u64);

/// Why a model does not count as tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TestError {
    /// The image has no self-test: the firmware tests the model itself.
    NoSelfTest,
    /// The image has a self-test, which must be run.
    HasSelfTest,
    /// The model has not passed its self-test.
    Failed(SelfTestError),
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSelfTest => write!(f, "the image has no self-test: test the model in the firmware"),
            Self::HasSelfTest => write!(f, "the image has a self-test: run it"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TestError {}
