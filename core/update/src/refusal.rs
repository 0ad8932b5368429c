//! Why a device refuses a request: a code and two numbers on the line, a sentence at the other end.

use core::fmt;

use crate::error::TrustError;
use crate::fault::UpdateError;

/// Why a device refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    reason: Reason,
    numbers: [u32; 2],
}

/// The reasons, by their codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Reason {
    Unknown,
    Flash,
    Geometry,
    TooLong,
    OutOfOrder,
    Incomplete,
    OtherLength,
    Busy,
    NothingPending,
    NoTransfer,
    Truncated,
    NotAnImage,
    Unsigned,
    NotAttached,
    UnsupportedSignature,
    UnknownKey,
    RevokedKey,
    BadSignature,
    WrongProduct,
    OldCounter,
    NotRunnable,
    Other,
}

impl Reason {
    const ALL: [Self; 22] = [
        Self::Unknown,
        Self::Flash,
        Self::Geometry,
        Self::TooLong,
        Self::OutOfOrder,
        Self::Incomplete,
        Self::OtherLength,
        Self::Busy,
        Self::NothingPending,
        Self::NoTransfer,
        Self::Truncated,
        Self::NotAnImage,
        Self::Unsigned,
        Self::NotAttached,
        Self::UnsupportedSignature,
        Self::UnknownKey,
        Self::RevokedKey,
        Self::BadSignature,
        Self::WrongProduct,
        Self::OldCounter,
        Self::NotRunnable,
        Self::Other,
    ];

    const fn with(self, numbers: [u32; 2]) -> Refusal {
        Refusal { reason: self, numbers }
    }
}

impl Refusal {
    pub(crate) const LEN: usize = 9;

    /// The device does not know the request.
    pub const UNKNOWN: Self = Reason::Unknown.with([0; 2]);

    /// Offset of the byte that the device expects next, if it refused a block as out of order.
    pub fn expected(&self) -> Option<u32> {
        (self.reason == Reason::OutOfOrder).then_some(self.numbers[0])
    }

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let [[a, b, c, d], [e, f, g, h]] = self.numbers.map(u32::to_le_bytes);
        [self.reason as u8, a, b, c, d, e, f, g, h]
    }

    pub(crate) fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let &[code, a, b, c, d, e, f, g, h] = bytes;
        let numbers = [[a, b, c, d], [e, f, g, h]].map(u32::from_le_bytes);
        Some(Reason::ALL.get(usize::from(code))?.with(numbers))
    }
}

impl<E> From<UpdateError<E>> for Refusal {
    fn from(error: UpdateError<E>) -> Self {
        match error {
            UpdateError::Flash(_) => Reason::Flash.with([0; 2]),
            UpdateError::Geometry => Reason::Geometry.with([0; 2]),
            UpdateError::NoTransfer => Reason::NoTransfer.with([0; 2]),
            UpdateError::TooLong { len, bank } => Reason::TooLong.with([len, bank]),
            UpdateError::OutOfOrder { expected, found } => Reason::OutOfOrder.with([expected, found]),
            UpdateError::Incomplete { len, received } => Reason::Incomplete.with([len, received]),
            UpdateError::OtherLength { announced, found } => Reason::OtherLength.with([announced, found]),
            UpdateError::Trust(error) => error.into(),
            UpdateError::Busy => Reason::Busy.with([0; 2]),
            UpdateError::NothingPending => Reason::NothingPending.with([0; 2]),
            UpdateError::Key(_) | UpdateError::KeyInUse | UpdateError::NoTrial | UpdateError::NotTested => {
                Reason::Other.with([0; 2])
            }
        }
    }
}

impl From<TrustError> for Refusal {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Truncated { needed, given } => Reason::Truncated.with([needed, given].map(|len| len as u32)),
            TrustError::NotAnImage => Reason::NotAnImage.with([0; 2]),
            TrustError::Unsigned => Reason::Unsigned.with([0; 2]),
            TrustError::NotAttached => Reason::NotAttached.with([0; 2]),
            TrustError::UnsupportedSignature { version, algorithm } => {
                Reason::UnsupportedSignature.with([version.into(), algorithm.into()])
            }
            TrustError::UnknownKey { .. } => Reason::UnknownKey.with([0; 2]),
            TrustError::RevokedKey { .. } => Reason::RevokedKey.with([0; 2]),
            TrustError::BadSignature => Reason::BadSignature.with([0; 2]),
            TrustError::WrongProduct { .. } => Reason::WrongProduct.with([0; 2]),
            TrustError::OldCounter { found, needed } => Reason::OldCounter.with([found, needed]),
            TrustError::Image(_) => Reason::NotRunnable.with([0; 2]),
            TrustError::Key(_) | TrustError::Misaligned(_) | TrustError::Empty => Reason::Other.with([0; 2]),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.numbers;
        match self.reason {
            Reason::Unknown => write!(f, "it does not know this request: its firmware is older than this program"),
            Reason::Flash => write!(f, "its flash failed"),
            Reason::Geometry => write!(f, "its flash has pages or granularities that are not supported"),
            Reason::TooLong => write!(f, "an image of {a} bytes does not fit its bank of {b} bytes"),
            Reason::OutOfOrder => write!(f, "it expects byte {a}, but got byte {b}"),
            Reason::Incomplete => write!(f, "it has received {b} of {a} bytes"),
            Reason::OtherLength => write!(f, "{a} bytes were announced, but the image has {b}"),
            Reason::Busy => write!(f, "a model is pending or on trial: reset it, or let it confirm the model, first"),
            Reason::NothingPending => write!(f, "no image is pending"),
            Reason::NoTransfer => write!(f, "no image is being received"),
            Reason::Truncated => write!(f, "the image is truncated: it has {a} bytes, but only {b} are there"),
            Reason::NotAnImage => write!(f, "this is not an image of the format version that it reads"),
            Reason::Unsigned => write!(f, "the image is not signed"),
            Reason::NotAttached => write!(f, "the image is prepared for a signature, but has none yet"),
            Reason::UnsupportedSignature => write!(f, "it does not know signatures of version {a} and algorithm {b}"),
            Reason::UnknownKey => write!(f, "the image is signed by a key that it does not hold"),
            Reason::RevokedKey => write!(f, "the image is signed by a key that has been replaced"),
            Reason::BadSignature => write!(f, "the signature is not that of this image: it is damaged or forged"),
            Reason::WrongProduct => write!(f, "the image is for another product"),
            Reason::OldCounter => write!(f, "the image has security counter {a}, but at least {b} is required"),
            Reason::NotRunnable => write!(f, "the signature is valid, but its firmware cannot run the image"),
            Reason::Other => write!(f, "its firmware does not say why"),
        }
    }
}
