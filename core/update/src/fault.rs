//! Why an update cannot continue.

use core::fmt;

use crate::error::{KeyError, TrustError};

/// Why an update cannot continue. The active model is not affected.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields hold")]
pub enum UpdateError<E> {
    /// The flash driver failed.
    Flash(E),
    /// The journal has fewer than two pages, a page that is not a multiple of 256 bytes, or a granularity that does not
    /// divide 256 bytes; or the banks have such a granularity.
    Geometry,
    /// No image is being received.
    NoTransfer,
    /// The image does not fit the bank.
    TooLong { len: u32, bank: u32 },
    /// The block does not start at the byte that follows the last one, or ends after the end of the image.
    OutOfOrder { expected: u32, found: u32 },
    /// The image is not complete.
    Incomplete { len: u32, received: u32 },
    /// The header of the image states another length than the sender announced.
    OtherLength { announced: u32, found: u32 },
    /// The image is not trusted.
    Trust(TrustError),
    /// The key change is refused.
    Key(KeyError),
    /// The active image is signed by a key that this key change would drop: update the model with the current key first.
    KeyInUse,
    /// A model is pending or on trial: reset, or confirm it, first.
    Busy,
    /// No model is on trial.
    NoTrial,
    /// The model that was tested is not the one on trial.
    NotTested,
    /// No image is pending.
    NothingPending,
}

impl<E: fmt::Debug> fmt::Display for UpdateError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flash(error) => write!(f, "the flash driver failed: {error:?}"),
            Self::Geometry => write!(f, "the pages or granularities of the flash are not supported"),
            Self::NoTransfer => write!(f, "no image is being received"),
            Self::TooLong { len, bank } => write!(f, "an image of {len} bytes does not fit a bank of {bank} bytes"),
            Self::OutOfOrder { expected, found } => {
                write!(f, "a block at byte {found} does not fit: byte {expected} is the next")
            }
            Self::Incomplete { len, received } => write!(f, "{received} of {len} bytes have been received"),
            Self::OtherLength { announced, found } => {
                write!(f, "{announced} bytes were announced, but the image has {found}")
            }
            Self::Trust(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::KeyInUse => write!(f, "the active model is signed by a key that would be dropped: update it first"),
            Self::Busy => write!(f, "a model is pending or on trial: reset, or confirm it, first"),
            Self::NoTrial => write!(f, "no model is on trial"),
            Self::NotTested => write!(f, "another model than the one on trial has been tested"),
            Self::NothingPending => write!(f, "no image is pending"),
        }
    }
}

impl<E: fmt::Debug> core::error::Error for UpdateError<E> {}
