//! The status of every reason why an update does not go on.

#![deny(unsafe_code)]

use ::tidegate_update::{KeyError, TestError, TrustError, UpdateError};
use tidegate::SelfTestError;

use super::flash::Failed;
use crate::status::Text;
use crate::status::tidegate_status::{self, *};

/// The sentences of the statuses of updates, in the order of numbers.
pub(crate) const TEXTS: [Text; 32] = [
    (TIDEGATE_UPDATE_FLASH, c"a callback of the flash has failed"),
    (TIDEGATE_UPDATE_GEOMETRY, c"the sizes of the flash are not supported"),
    (TIDEGATE_UPDATE_NO_TRANSFER, c"no image is being received"),
    (TIDEGATE_UPDATE_TOO_LONG, c"the image does not fit the bank"),
    (TIDEGATE_UPDATE_OUT_OF_ORDER, c"the block is not the next one, or ends after the image"),
    (TIDEGATE_UPDATE_INCOMPLETE, c"the image is not complete"),
    (TIDEGATE_UPDATE_OTHER_LENGTH, c"the image has another length than was announced"),
    (TIDEGATE_UPDATE_BUSY, c"a model is pending or on trial: reset, or confirm it, first"),
    (TIDEGATE_UPDATE_NO_TRIAL, c"no model is on trial"),
    (TIDEGATE_UPDATE_NOT_TESTED, c"another model than the one on trial has been tested"),
    (TIDEGATE_UPDATE_NOTHING_PENDING, c"no image is pending"),
    (TIDEGATE_UPDATE_NO_SELF_TEST, c"the image has no self-test: test the model in the firmware"),
    (TIDEGATE_UPDATE_HAS_SELF_TEST, c"the image has a self-test: run it"),
    (TIDEGATE_UPDATE_SELF_TEST_FAILED, c"the model does not give the outputs of its self-test"),
    (TIDEGATE_UPDATE_MODEL_OPEN, c"the model is open: close it first"),
    (TIDEGATE_UPDATE_NOT_OPEN, c"the model is not the one that is open"),
    (TIDEGATE_TRUST_UNSIGNED, c"the image is not signed"),
    (TIDEGATE_TRUST_NOT_ATTACHED, c"the image is prepared for a signature, but has none yet"),
    (TIDEGATE_TRUST_UNSUPPORTED, c"the version or algorithm of the signature is not supported by this build"),
    (TIDEGATE_TRUST_UNKNOWN_KEY, c"the image is signed by an unknown key"),
    (TIDEGATE_TRUST_REVOKED_KEY, c"the image is signed by a key that has been replaced"),
    (TIDEGATE_TRUST_BAD_SIGNATURE, c"the signature is not that of this image: it is damaged or forged"),
    (TIDEGATE_TRUST_WRONG_PRODUCT, c"the image is for another product"),
    (TIDEGATE_TRUST_OLD_COUNTER, c"the security counter of the image is too low"),
    (TIDEGATE_TRUST_EMPTY, c"no image has been confirmed yet"),
    (TIDEGATE_KEY_NOT_A_POINT, c"the bytes are not an Ed25519 public key"),
    (TIDEGATE_KEY_SMALL_ORDER, c"the public key has a small order, so that anybody could forge signatures"),
    (TIDEGATE_KEY_NOT_A_CHANGE, c"the bytes are not a key change that this build knows"),
    (TIDEGATE_KEY_BAD_SIGNATURE, c"the key change is not signed by the root key"),
    (TIDEGATE_KEY_WRONG_PRODUCT, c"the key change is for another product"),
    (TIDEGATE_KEY_OLD_SERIAL, c"the serial number of the key change is not above the last"),
    (TIDEGATE_KEY_IN_USE, c"the active model is signed by a key that would be dropped: update it first"),
];

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
