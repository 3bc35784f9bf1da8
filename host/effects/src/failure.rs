//! The words in which calls fail, for the guest and for the operator.

use crate::message::{CallError, Failure, Violation};
use crate::text;
use holdfast_custody::Refusal;

/// Codes that no repeat with the same input can cure. A wrong password or a missing permission is not among them: an
/// operator may mend it while the operation waits.
const PERMANENT: [&str; 6] =
    ["not-found", "already-exists", "invalid-input", "unsupported", "multiple-matches", "canceled"];

pub(crate) fn violation(reason: &str, message: impl Into<String>) -> Violation {
    Violation { reason: reason.to_owned(), message: message.into() }
}

pub(crate) fn failure(permanent: bool, code: &str, reason: &str, message: impl Into<String>) -> Failure {
    Failure {
        permanent,
        code: code.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        native: None,
        retry_after_ms: None,
    }
}

/// The guest's request is wrong and stays wrong.
pub(crate) fn invalid(reason: &str, message: impl Into<String>) -> CallError {
    CallError::Failure(failure(true, "invalid-input", reason, message))
}

/// The host could not, this time.
pub(crate) fn unavailable(reason: &str, message: impl Into<String>) -> CallError {
    CallError::Failure(failure(false, "unavailable", reason, message))
}

pub(crate) fn from_refusal(refusal: Refusal) -> Failure {
    Failure {
        permanent: PERMANENT.contains(&refusal.code.as_str()),
        code: refusal.code,
        reason: refusal.reason,
        message: refusal.message,
        native: refusal.native,
        retry_after_ms: refusal.retry_after_ms.and_then(text::clamp_wait),
    }
}

impl From<Violation> for CallError {
    fn from(violation: Violation) -> Self {
        CallError::Violation(violation)
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        CallError::Failure(failure)
    }
}
