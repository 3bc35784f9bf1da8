//! The journal: what was meant, what was sent, what came of it.
//!
//! [`Journal`] is implemented where the truth is stored (the operation's status, by compare-and-swap). The rules of
//! what may be sent again live in this crate, not there.

use crate::message::Owned;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// At most this many effects an operation.
pub const MAX_EFFECTS: usize = 32;
/// At most this many bytes of recorded fields an effect.
pub const MAX_RECORDED: usize = 4096;

/// One effect, as stored. Field names are those of `MachineOperation.status.effects[]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// Unique within the owner; chosen by the guest, stable over repeats.
    pub key: String,
    pub call: String,
    /// `create`, `update` or `destroy`.
    pub effect: String,
    pub binding: String,
    /// Where the binding pointed when it was sent (`https://host/base?variable=value`). Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Keyed fingerprint of the request, user data included.
    pub fingerprint: String,
    /// Keyed fingerprint of the wish: arguments, targets included, without what may differ from one send of it to
    /// the next (sealed ETags). Empty in records of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub aim: String,
    pub token: String,
    /// Sends, the one under way included.
    pub attempts: u32,
    /// Lease epoch of the daemon that wrote the intent: the fence.
    pub epoch: i64,
    pub state: EffectState,
    pub intended_at: Timestamp,
    pub first_intended_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_by: Option<SettledBy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<RecordedReply>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RecordedRefusal>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<Owned>,
    /// What an update or destroy is aimed at. A destroy that is done has released these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Owned>,
    /// Since when lookups have found nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_since: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EffectState {
    /// Sent, or about to be; without an outcome it is in doubt.
    Intended,
    Done,
    /// A definite refusal: nothing happened. May be sent again.
    Rejected,
    /// Given up by an operator; never sent again.
    Abandoned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SettledBy {
    Answer,
    Repeat,
    Lookup,
    Operator,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedReply {
    pub status: u16,
    pub fields: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRefusal {
    pub code: String,
    pub reason: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
}

/// Why the journal would not take a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Another daemon holds the lease, the operation is being deleted or cancelled, or its record changed: stop
    /// before sending.
    #[error("the journal is fenced: {0}")]
    Fenced(String),
    /// The store did not answer; nothing may be sent.
    #[error("the journal could not be written: {0}")]
    Unavailable(String),
}

/// Where effects are written. One owner per operation; `put` replaces the effect of the same key and is durable when
/// it returns.
#[async_trait::async_trait]
pub trait Journal: Send + Sync + 'static {
    /// The effects as last known.
    fn effects(&self) -> Vec<Effect>;
    /// Writes an intent (state `Intended`) by compare-and-swap before anything is sent.
    async fn intend(&self, effect: Effect) -> Result<(), JournalError>;
    /// Writes an outcome. Re-reads and goes on over unrelated changes; a cancelled operation still records it.
    async fn settle(&self, effect: Effect) -> Result<(), JournalError>;
    /// Lease epoch of this daemon.
    fn epoch(&self) -> i64;
}
