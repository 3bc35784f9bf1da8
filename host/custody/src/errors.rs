//! Errors by audience: refusals for guests and operators of a call, and errors of registration and deposit for the
//! daemon. None of them can hold a secret's bytes: they are built from the template's names alone.

use crate::message::Refusal;

/// Custody could not start.
#[derive(Debug, thiserror::Error)]
pub enum CustodyError {
    #[error("the user agent is not a header value: use visible ASCII in `user-agent`")]
    UserAgent,
    #[error("the TLS library refused its own defaults: {0}")]
    Tls(String),
}

/// A module with its grants was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    #[error("binding of endpoint `{endpoint}`: the manifest declares no such endpoint; remove the binding")]
    UnknownEndpoint { endpoint: String },
    #[error(
        "binding of endpoint `{endpoint}`: origin {why}; write `origin = \"https://host[:port][/base]\"`"
    )]
    Origin { endpoint: String, why: String },
    #[error("binding of endpoint `{endpoint}`: {why}; write `ca-pem` or `pin-sha256`")]
    Trust { endpoint: String, why: String },
    #[error("binding of endpoint `{endpoint}`: the manifest asks for `vars.{var}`; add it to the binding")]
    MissingVar { endpoint: String, var: String },
    #[error(
        "binding of endpoint `{endpoint}`: `vars.{var}` is no region of a signature; write lower-case letters, digits and `-`"
    )]
    Region { endpoint: String, var: String },
    #[error(
        "binding of endpoint `{endpoint}`: authentication {why}; write `auth = \"NAME\"` with one of {names}"
    )]
    Auth { endpoint: String, why: String, names: String },
    #[error("binding of endpoint `{endpoint}`: an endpoint with an address per machine needs `ranges`")]
    RangesRequired { endpoint: String },
    #[error("call `{call}` {why} ({rule}); to allow it, add \"{call}\" to `calls` of the provider's grants")]
    CallNotGranted { call: String, why: String, rule: String },
    #[error("call `{call}`: {why}")]
    Manifest { call: String, why: String },
}

/// A deposit was refused. Names keys, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DepositError {
    #[error("no module is registered under this revision; register it before its secrets")]
    UnknownRevision,
    #[error("credential key `{key}` is required by the manifest; add it to the secret")]
    Missing { key: String },
    #[error("credential key `{key}` is not declared by the manifest; known keys are {known}")]
    Unknown { key: String, known: String },
    #[error(
        "credential key `{key}` is shorter than 8 bytes, so replies can't be scanned for it; use a longer one"
    )]
    TooShort { key: String },
    #[error("credential key `{key}` goes to a header and holds a control or non-ASCII character (attack 33)")]
    NotAHeader { key: String },
    #[error("credential key `{key}` is declared as a JSON file: {why}")]
    NotAFile { key: String, why: String },
}

/// A refusal in the contract's words.
pub(crate) fn refusal(code: &str, reason: &str, message: impl Into<String>) -> Refusal {
    Refusal {
        code: code.into(),
        reason: reason.into(),
        message: message.into(),
        native: None,
        retry_after_ms: None,
    }
}

/// The guest's argument (or the host's) does not fit its declaration. Also what a guest sees when its argument holds
/// a live secret: the two must look the same (attack 15).
pub(crate) fn bad_argument(call: &str, arg: &str, why: &str) -> Refusal {
    refusal("invalid-input", "ArgumentDoesNotFit", format!("call `{call}`: argument `{arg}` {why}"))
}

/// Custody's own invariant does not hold; nothing is sent.
pub(crate) fn broken(call: &str, why: &str) -> Refusal {
    refusal("internal", "HostInvariant", format!("call `{call}`: {why}; nothing was sent"))
}
