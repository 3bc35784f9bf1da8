//! Callbacks of a provider as owned messages: what the host asks and what the guest answered.
//!
//! The shapes are those of the WIT contract's `operations` and `capacity` interfaces. Zero values are already resolved: an empty text
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

/// Asks for a class to be resolved into offerings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassRequest {
    pub class_name: String,
    pub class_uid: String,
    pub site_name: String,
    /// The class's immutable configuration.
    pub config: Vec<(String, String)>,
}

/// One thing that can be launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassOffering {
    pub name: String,
    pub instance_type: String,
    pub zone: Option<String>,
    /// Kubernetes quantities.
    pub resources: Vec<(String, String)>,
    pub available: bool,
    /// RFC 3339.
    pub valid_until: String,
    /// Opaque to the host.
    pub attributes: Vec<(String, String)>,
}

/// Asks for the planned identity of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanRequest {
    pub allocation_name: String,
    pub allocation_uid: String,
    pub host_name: String,
    pub config: Vec<(String, String)>,
    pub offering: ClassOffering,
}

/// The planned identity of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub provider_id: String,
    pub host_image: String,
}

/// A resource in a guest's words. The host knows it by (binding, kind, id); the guest by kind and id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnedResource {
    pub kind: String,
    pub id: String,
    pub zone: Option<String>,
}

/// What HostAllocate and HostRelease work with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    pub name: String,
    pub uid: String,
    pub class_name: String,
    pub class_uid: String,
    pub host_name: String,
    pub offering: ClassOffering,
    pub planned_provider_id: String,
    pub host_image: String,
}

/// The host that HostAllocate confirmed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocationResult {
    pub provider_resource_id: String,
    /// Replaces the planned locator on the machine.
    pub provider_id: Option<String>,
    pub instance_type: String,
    pub zone: Option<String>,
    pub image: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatePollResult {
    pub state: PollState,
    /// Only of a success.
    pub result: Option<AllocationResult>,
    /// May only name what the host has recorded as owned.
    pub owned_resources: Vec<OwnedResource>,
    pub reason: String,
    pub message: String,
    pub requeue_after_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePollResult {
    pub state: PollState,
    /// What is still there, in the guest's words.
    pub remaining: Vec<OwnedResource>,
    pub reason: String,
    pub message: String,
    pub requeue_after_ms: Option<u64>,
}

/// One call into a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Callback {
    Execute {
        request: OperationRequest,
        lend: Lend,
    },
    Begin {
        request: OperationRequest,
        lend: Lend,
    },
    Poll {
        request: OperationRequest,
        operation: ProviderOperation,
        lend: Lend,
    },
    Cancel {
        request: OperationRequest,
        operation: ProviderOperation,
        lend: Lend,
    },
    Cleanup {
        request: OperationRequest,
        result: OperationResult,
        lend: Lend,
    },
    ResolveClass {
        request: ClassRequest,
        lend: Lend,
    },
    /// Pure: nothing is lent.
    PlanAllocation {
        request: PlanRequest,
    },
    /// The only callback of an allocation that is given the configuration and the first-boot data (R2.25).
    BeginAllocate {
        request: OperationRequest,
        allocation: Allocation,
        config: Vec<(String, String)>,
        lend: Lend,
    },
    PollAllocate {
        request: OperationRequest,
        allocation: Allocation,
        operation: ProviderOperation,
        lend: Lend,
    },
    BeginRelease {
        request: OperationRequest,
        allocation: Allocation,
        owned: Vec<OwnedResource>,
        lend: Lend,
    },
    PollRelease {
        request: OperationRequest,
        allocation: Allocation,
        owned: Vec<OwnedResource>,
        operation: ProviderOperation,
        lend: Lend,
    },
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
    ResolveClass(Result<Vec<ClassOffering>, Failure>),
    PlanAllocation(Result<Plan, Failure>),
    BeginAllocate(Result<BeginResult, Failure>),
    PollAllocate(Result<AllocatePollResult, Failure>),
    BeginRelease(Result<BeginResult, Failure>),
    PollRelease(Result<ReleasePollResult, Failure>),
}
