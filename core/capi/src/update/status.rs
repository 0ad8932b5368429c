//! The status of every reason why an update does not go on.

#![deny(unsafe_code)]

use ::tidegate_update::{KeyError, TestError, TrustError, UpdateError};
use tidegate::SelfTestError;

use super::flash::Failed;
use crate::status::tidegate_status::{self, *};

impl From<UpdateError<Failed>> for tidegate_status {
    fn from(error: UpdateError<Failed>) -> Self {
        match error {
            UpdateError::Flash(Failed) => TIDEGATE_UPDATE_FLASH,
            UpdateError::Geometry => TIDEGATE_UPDATE_GEOMETRY,
            UpdateError::NoTransfer => TIDEGATE_UPDATE_NO_TRANSFER,
            UpdateError::TooLong { .. } => TIDEGATE_UPDATE_TOO_LONG,
            UpdateError::OutOfOrder { .. } => TIDEGATE_UPDATE_OUT_OF_ORDER,
            UpdateError::Incomplete { .. } => TIDEGATE_UPDATE_INCOMPLETE,
            UpdateError::OtherLength { .. } => TIDEGATE_UPDATE_OTHER_LENGTH,
            UpdateError::Trust(error) => error.into(),
            UpdateError::Key(error) => error.into(),
            UpdateError::KeyInUse => TIDEGATE_KEY_IN_USE,
            UpdateError::Busy => TIDEGATE_UPDATE_BUSY,
            UpdateError::NoTrial => TIDEGATE_UPDATE_NO_TRIAL,
            UpdateError::NotTested => TIDEGATE_UPDATE_NOT_TESTED,
            UpdateError::NothingPending => TIDEGATE_UPDATE_NOTHING_PENDING,
            _ => TIDEGATE_OTHER,
        }
    }
}

impl From<TrustError> for tidegate_status {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Truncated { .. } => TIDEGATE_IMAGE_TRUNCATED,
            TrustError::NotAnImage => TIDEGATE_NOT_AN_IMAGE,
            TrustError::Unsigned => TIDEGATE_TRUST_UNSIGNED,
            TrustError::NotAttached => TIDEGATE_TRUST_NOT_ATTACHED,
            TrustError::UnsupportedSignature { .. } => TIDEGATE_TRUST_UNSUPPORTED,
            TrustError::UnknownKey { .. } => TIDEGATE_TRUST_UNKNOWN_KEY,
            TrustError::RevokedKey { .. } => TIDEGATE_TRUST_REVOKED_KEY,
            TrustError::Key(error) => error.into(),
            TrustError::BadSignature => TIDEGATE_TRUST_BAD_SIGNATURE,
            TrustError::WrongProduct { .. } => TIDEGATE_TRUST_WRONG_PRODUCT,
            TrustError::OldCounter { .. } => TIDEGATE_TRUST_OLD_COUNTER,
            TrustError::Misaligned(error) => error.into(),
            TrustError::Empty => TIDEGATE_TRUST_EMPTY,
            TrustError::Image(error) => error.into(),
            _ => TIDEGATE_OTHER,
        }
    }
}

impl From<KeyError> for tidegate_status {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::NotAPoint => TIDEGATE_KEY_NOT_A_POINT,
            KeyError::SmallOrder => TIDEGATE_KEY_SMALL_ORDER,
            KeyError::NotAChange => TIDEGATE_KEY_NOT_A_CHANGE,
            KeyError::BadSignature => TIDEGATE_KEY_BAD_SIGNATURE,
            KeyError::WrongProduct => TIDEGATE_KEY_WRONG_PRODUCT,
            KeyError::OldSerial { .. } => TIDEGATE_KEY_OLD_SERIAL,
            _ => TIDEGATE_OTHER,
        }
    }
}

impl From<TestError> for tidegate_status {
    fn from(error: TestError) -> Self {
        match error {
            TestError::NoSelfTest => TIDEGATE_UPDATE_NO_SELF_TEST,
            TestError::HasSelfTest => TIDEGATE_UPDATE_HAS_SELF_TEST,
            TestError::Failed(SelfTestError::Step(error)) => error.into(),
            TestError::Failed(SelfTestError::Differs { .. } | SelfTestError::Outputs { .. }) => {
                TIDEGATE_UPDATE_SELF_TEST_FAILED
            }
            _ => TIDEGATE_OTHER,
        }
    }
}
