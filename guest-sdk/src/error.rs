//! Errors in the words of the contract, and the outcome of a mutating call.

pub use crate::bindings::holdfast::provider::types::{Code, Error, Failure};
use std::time::Duration;

impl Error {
    /// Retrying with the same input cannot make progress. `reason` is CamelCase, `message` one sentence for a person.
    pub fn permanent(code: Code, reason: &str, message: impl Into<String>) -> Error {
        Error::Permanent(failure(code, reason, message.into()))
    }

    /// The host retries with growing intervals.
    pub fn transient(code: Code, reason: &str, message: impl Into<String>) -> Error {
        Error::Transient(failure(code, reason, message.into()))
    }

    /// Permanent `not-found`.
    pub fn not_found(reason: &str, message: impl Into<String>) -> Error {
        Error::permanent(Code::NotFound, reason, message)
    }

    /// Permanent `invalid-input`.
    pub fn invalid_input(reason: &str, message: impl Into<String>) -> Error {
        Error::permanent(Code::InvalidInput, reason, message)
    }

    /// Permanent `unsupported`: what a trait's default answers.
    pub fn unsupported(what: &str) -> Error {
        Error::permanent(Code::Unsupported, "Unsupported", format!("this provider does not support {what}"))
    }

    /// Transient wait: call again no sooner than this.
    pub fn wait(reason: &str, message: impl Into<String>, after: Duration) -> Error {
        let mut failure = failure(Code::Unavailable, reason, message.into());
        failure.retry_after = Some(millis(after));
        Error::Transient(failure)
    }

    /// The failure, whichever class it is.
    pub fn failure(&self) -> &Failure {
        match self {
            Error::Permanent(failure) | Error::Transient(failure) => failure,
        }
    }

    /// Is it `not-found`: what a call was aimed at is not there?
    pub fn is_not_found(&self) -> bool {
        matches!(self.failure().code, Code::NotFound)
    }

    /// Does it have this word of the service (which the manifest lists)?
    pub fn is_native(&self, word: &str) -> bool {
        self.failure().native.as_deref() == Some(word)
    }
}

fn failure(code: Code, reason: &str, message: String) -> Failure {
    Failure { code, reason: reason.to_owned(), message, native: None, retry_after: None }
}

/// Whole milliseconds, as the contract counts them.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How a mutating call stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an outcome in doubt is no success: return and be called again, for example by `.done()?`"]
pub enum Outcome<T> {
    /// It took effect, now or in an earlier attempt with the same key.
    Done(T),
    /// An attempt was sent and nobody knows yet what became of it. `None`: it may not be repeated, and a person must
    /// settle it.
    InDoubt(Option<Duration>),
}

impl<T> Outcome<T> {
    /// The reply, or the transient error by which a callback waits: the host calls again when there is something to
    /// know.
    ///
    /// # Errors
    /// Transient, with the wait that the host named.
    pub fn done(self) -> Result<T, Error> {
        match self {
            Outcome::Done(reply) => Ok(reply),
            Outcome::InDoubt(after) => {
                let mut failure = failure(
                    Code::Unavailable,
                    "EffectInDoubt",
                    "a change was sent and its outcome is not known yet".to_owned(),
                );
                failure.retry_after = after.map(millis);
                Err(Error::Transient(failure))
            }
        }
    }

    /// The same outcome with another reply.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Done(reply) => Outcome::Done(f(reply)),
            Outcome::InDoubt(after) => Outcome::InDoubt(after),
        }
    }
}
