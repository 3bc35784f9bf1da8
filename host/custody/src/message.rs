//! Messages between custody and the rooms above it.
//!
//! Requests and answers are owned and serialisable, and secrets are named by numbers, so that the engine which runs
//! guests can move to a process of its own without a change of shape. Nothing in this file can hold a secret byte.

use holdfast_manifest::EffectKind;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names one deposited set of credentials. Valid until revoked; never reused in a process's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CredentialsId(pub u64);

/// Names one deposit of first-boot data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UserDataId(pub u64);

/// What a provider's declared calls are made from: one registered manifest with the operator's bindings.
/// The text is `name@sha256` of the module.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Revision(pub String);

/// Selects an operator's binding of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Selector {
    /// The binding of (provider, endpoint, site).
    Site { site: String },
    /// The binding of (provider, endpoint, site, value).
    Value { site: String, value: String },
    /// An address out of a machine object; it must lie in the ranges that the operator granted to the endpoint.
    Machine { site: String, address: String, auth: Option<String> },
}

/// Owner of sealed values and tokens: (provider name, operation or allocation uid).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scope {
    pub provider: String,
    pub owner: String,
}

/// One declared call to be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Exchange {
    pub revision: Revision,
    pub call: String,
    pub selector: Selector,
    /// Every argument by name, those from host data and tokens included; lists as JSON arrays. Absent optional
    /// arguments are left out. Sealed arguments carry the opaque text.
    pub args: BTreeMap<String, serde_json::Value>,
    pub credentials: Option<CredentialsId>,
    pub user_data: BTreeMap<String, UserDataId>,
    pub scope: Scope,
    /// Milliseconds for the whole exchange, login and paging included.
    pub timeout_ms: u64,
}

/// What came of an exchange.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub verdict: Verdict,
    /// Did any byte of the call's own request leave (logins do not count)?
    pub sent: bool,
    /// Name of the binding that served it, for ownership: `endpoint/site[/value]` or `endpoint/site/address`.
    pub binding: String,
    /// Fingerprint of the exact request bytes, user data included, under a key of this host; base32.
    pub fingerprint: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// An accepted status, and every declared field fits.
    Fits(Reply),
    /// The service says that the thing is not there (`gone`).
    Gone { status: u16 },
    /// Nothing happened.
    Rejected(Refusal),
    /// It may have happened, or not: connection lost, unlisted status, a 2xx that does not fit (hole H5).
    Unclear(Refusal),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub status: u16,
    /// JSON object of the declared fields, sealed ones already sealed.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// Why a call failed, in the words of the contract. Holds no secret and no text of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// A code of the contract's `types.code`: `unauthenticated`, `unavailable`, …
    pub code: String,
    /// CamelCase.
    pub reason: String,
    /// One sentence from the host: what was refused, which rule, which line would change it.
    pub message: String,
    /// The service's error word, if the manifest lists it.
    pub native: Option<String>,
    /// Earliest sensible retry.
    pub retry_after_ms: Option<u64>,
}

/// How often a secret was spliced and where it was caught: the evidence that `demo` prints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Name of the secret (credential name and key, or machine of the user data); never its value.
    pub secret: String,
    pub spliced: u64,
    /// Times a derived form was caught on its way to a guest or out of one.
    pub caught: u64,
}

/// Where a text that is being scanned came from; shown in refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    GuestArgument,
    Reply,
    Result,
    Log,
    ResumeToken,
}

/// A live secret was found. Says where, never what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("a {place:?} holds a secret in some form and was withheld (attack 54)")]
pub struct Leak {
    pub place: Place,
}

/// How much one account may ask of one origin now, and how that went. For metrics and for operators; no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetView {
    /// `https://host[:port]`.
    pub endpoint: String,
    /// Uid of the credentials' object; empty for requests without credentials.
    pub account: String,
    /// Name of the credentials, when the budget was made.
    pub name: String,
    /// Most requests in flight, as learnt so far; at least 1.
    pub limit: u32,
    pub in_flight: u32,
    pub waiting: u32,
    /// Until when the service wants no request at all.
    pub throttled_until: Option<Timestamp>,
    /// Requests left of the rate that the service declares.
    pub remaining: Option<u64>,
    /// Until when nothing is sent because the service refused the credentials: the breaker is open.
    pub held_until: Option<Timestamp>,
    /// Requests sent, logins and logouts among them.
    pub sent: u64,
    /// Answers that asked for fewer requests.
    pub throttled: u64,
    /// Answers that told of overload, or did not come in time.
    pub overloaded: u64,
    /// Requests turned away here, before anything was sent.
    pub refused: u64,
}

/// What a binding's budget is keyed by, and what the journal says of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    pub call: String,
    pub effect: EffectKind,
    pub binding: String,
}
