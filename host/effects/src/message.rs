//! Messages between the effects room and the engine that runs guests, and the frozen context of one callback.
//!
//! All of it is owned and serialisable: the engine may live in another process. A guest's handles appear as numbers.

use holdfast_custody::{CredentialsId, Revision, UserDataId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a callback may do (`Phases` of the architecture).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Reaches nothing at all, not even clock or log.
    Pure,
    /// `read` only.
    Observe,
    /// `read`; `perform` of create and update.
    Act,
    /// The same, for later steps of the same operation.
    Track,
    /// `read`; `perform` of destroy on the result's cleanup identity.
    Cleanup,
    /// `read`; `perform` of update and destroy on recorded owned identities.
    Release,
}

/// Who owns what the effects make: the allocation, else the operation, else the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    pub kind: OwnerKind,
    pub uid: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OwnerKind {
    Allocation,
    Operation,
    Cluster,
}

/// An identity that an effect of an owner made. Recorded by the host, never claimed by a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owned {
    pub binding: String,
    pub kind: String,
    pub id: String,
    /// Where the binding pointed when it was made (`https://host/base?variable=value`). A name stays when an operator
    /// points it elsewhere, and there an id is another thing or none (attack A9). Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What tells it from another that is given the same id later (a uuid, a time of creation), where the manifest's
    /// `incarnation` names it (field case A29).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
}

impl Owned {
    pub fn new(binding: impl Into<String>, kind: impl Into<String>, id: impl Into<String>) -> Owned {
        Owned { binding: binding.into(), kind: kind.into(), id: id.into(), ..Owned::default() }
    }

    /// The same thing, as far as both say: binding, kind and id, and no other incarnation.
    pub fn is(&self, other: &Owned) -> bool {
        let incarnations = self.incarnation.as_ref().zip(other.incarnation.as_ref());
        self.binding == other.binding
            && self.kind == other.kind
            && self.id == other.id
            && incarnations.is_none_or(|(one, other)| one == other)
    }

    /// The identity alone.
    pub(crate) fn bare(&self) -> Owned {
        Owned::new(&self.binding, &self.kind, &self.id)
    }
}

/// Frozen host data of one callback: what calls may be made, for whom, on what.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Context {
    pub revision: Revision,
    /// Provider name.
    pub provider: String,
    pub phase: Phase,
    pub owner: Owner,
    pub operation_uid: String,
    /// Which offering of an allocation is being tried, from 0. A token belongs to owner, attempt and key: another
    /// offering is another thing to make.
    pub attempt: u32,
    pub site: String,
    /// Current identity of the machine, as its `providerID`; `on` compares with its parts.
    pub provider_id: Option<String>,
    /// Identity at the operation's start; results are judged by it (hole H8). Of an allocation: the planned locator,
    /// which counts for nothing until it is made of owned parts.
    pub frozen_provider_id: Option<String>,
    /// In the cleanup phase: the identity to remove.
    pub cleanup_provider_id: Option<String>,
    /// The provider-owned machine object (`spec` and so on) that `machineRef` names, frozen.
    pub machine_object: Option<serde_json::Value>,
    /// Recorded as owned before this callback.
    pub owned: Vec<Owned>,
    pub host_image: Option<String>,
    pub host_name: Option<String>,
    /// Class configuration, frozen. The host chooses bindings and fills arguments by it in every phase; what of it the
    /// guest sees is said by the callback alone (R2.25).
    pub config: BTreeMap<String, String>,
    pub offering: Option<Offering>,
    pub credentials: Option<CredentialsId>,
    pub user_data: Option<UserDataId>,
    /// End of the callback's time.
    pub deadline: Timestamp,
    /// The clock that the guest sees, frozen for the callback.
    pub now: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Offering {
    pub instance_type: String,
    pub zone: Option<String>,
}

/// A guest's request to make a declared call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallRequest {
    pub call: String,
    /// JSON object of guest arguments, as the guest wrote it.
    pub args: String,
    /// Did the guest present the lent credentials?
    pub credentials: bool,
    /// Slot names for which the guest presented the lent first-boot data.
    pub user_data: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallReply {
    pub status: u16,
    /// JSON object of the declared fields.
    pub fields: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallOutcome {
    Done(CallReply),
    /// Milliseconds until it makes sense to come back; `None`: a person must settle it.
    InDoubt(Option<u64>),
}

/// A failure as the contract's `types.error` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub permanent: bool,
    /// `not-found`, `invalid-input`, …
    pub code: String,
    pub reason: String,
    pub message: String,
    pub native: Option<String>,
    pub retry_after_ms: Option<u64>,
}

/// Why a guest was stopped: it did what its phase, its manifest or its limits forbid. The callback ends with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// CamelCase: `WrongPhase`, `UndeclaredCall`, `ForeignTarget`, `SecretInOutput`, …
    pub reason: String,
    /// What was refused, by which rule.
    pub message: String,
}

/// What a call ends with when it does not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallError {
    /// Given to the guest.
    Failure(Failure),
    /// Ends the guest.
    Violation(Violation),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// One line that a guest wrote, scanned, bounded and made printable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub level: LogLevel,
    pub message: String,
    pub fields: Vec<(String, String)>,
}

/// The only thing that the engine knows of the house below it: one open callback.
///
/// Implemented by [`crate::Session`]. Methods are async because another process may sit behind them.
#[async_trait::async_trait]
pub trait Port: Send + Sync + 'static {
    async fn read(&self, request: CallRequest) -> Result<CallReply, CallError>;
    async fn perform(&self, key: String, request: CallRequest) -> Result<CallOutcome, CallError>;
    /// How this operation's effect with this key stands; `None` while nothing was sent that may have taken effect.
    /// Sends nothing.
    fn recorded(&self, key: &str) -> Result<Option<CallOutcome>, Violation>;
    fn token(&self, key: &str) -> Result<String, Violation>;
    /// RFC 3339, whole seconds, frozen.
    fn now(&self) -> Result<String, Violation>;
    fn log(&self, line: LogLine) -> Result<(), Violation>;
    /// 32 bytes that seed the guest's random numbers: the same for every repeat of this owner and callback.
    fn seed(&self) -> [u8; 32];
}
