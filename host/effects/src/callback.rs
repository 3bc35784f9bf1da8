//! Callbacks of a provider as owned messages: what the host asks and what the guest answered.
//!
//! The shapes are those of the WIT contract's `operations` interface. Zero values are already resolved: an empty text
//! where the contract has an option is `None`, and a wait of 0 is `None`.

use crate::message::Failure;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Plural.
    pub resource: String,
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    /// RFC 3339, like the next.
    pub creation_timestamp: String,
    pub deletion_timestamp: Option<String>,
    pub labels: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderMachine {
    pub object: ObjectRef,
    /// JSON text, references to secrets taken out.
    pub spec: String,
    pub status: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub provider_ref: Option<ProviderMachine>,
    pub provider_id: Option<String>,
    pub host_image: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationRequest {
    pub name: String,
    pub uid: String,
    pub kind: String,
    pub parameters: Vec<(String, String)>,
    pub machine: Machine,
    pub site: String,
    pub started_at: String,
    pub accepted_at: Option<String>,
    pub deadline: Option<String>,
    pub attempt: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationResult {
    pub provider_id: Option<String>,
    pub cleanup_provider_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderOperation {
    pub operation_id: String,
    pub resume_token: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BeginResult {
    pub operation: ProviderOperation,
    pub message: String,
    pub requeue_after_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PollState {
    InProgress,
    Succeeded,
    Failed,
    Canceled,
    /// Taken as in-progress.
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollResult {
    pub state: PollState,
    pub result: Option<OperationResult>,
    pub reason: String,
    pub message: String,
    pub requeue_after_ms: Option<u64>,
}

/// One call into a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Callback {
    Execute { request: OperationRequest, lend: Lend },
    Begin { request: OperationRequest, lend: Lend },
    Poll { request: OperationRequest, operation: ProviderOperation, lend: Lend },
    Cancel { request: OperationRequest, operation: ProviderOperation, lend: Lend },
    Cleanup { request: OperationRequest, result: OperationResult, lend: Lend },
}

/// Which handles are lent for the length of the call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lend {
    pub credentials: bool,
    pub user_data: bool,
}

/// What the guest answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Returned {
    Execute(Result<OperationResult, Failure>),
    Begin(Result<BeginResult, Failure>),
    Poll(Result<PollResult, Failure>),
    Cancel(Result<(), Failure>),
    Cleanup(Result<(), Failure>),
}
