//! `MachineOperation`: one piece of work on one machine. Its status carries the frozen input, the handle,
//! the attempts and the effect journal, so that any daemon can go on where another stopped.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::allocation::AllocationReference;
use crate::class::Offering;
use crate::effect::Effect;
use crate::shared::{MachineReference, OwnedResource, Time, UserDataSource, any_json};

/// Longest effect journal of one operation, in entries.
pub const MAX_EFFECTS: usize = 32;

/// Type of the Secrets in which the daemon keeps built first-boot data while a repeat may need the same bytes. They
/// are the daemon's own: made, read and removed by it alone.
pub const FIRST_BOOT_SECRET_TYPE: &str = "holdfast.dev/first-boot-data";

/// One piece of work on one machine. The spec is immutable, except that `cancel` may become true and that
/// `resolve` may be set.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "holdfast.dev",
    version = "v1alpha1",
    kind = "MachineOperation",
    plural = "machineoperations",
    shortname = "mop",
    category = "holdfast",
    status = "MachineOperationStatus",
    derive = "PartialEq",
    doc = "One piece of work on one machine.",
    selectable = ".spec.machineRef.name",
    printcolumn(name = "Machine", type_ = "string", json_path = ".spec.machineRef.name"),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.operationKind"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.machineRef) != has(self.machineSelector)",
      "message": "exactly one of machineRef and machineSelector must be set" },
    { "rule": "has(self.machineRef) == has(oldSelf.machineRef) && (!has(self.machineRef) || self.machineRef == oldSelf.machineRef)",
      "message": "machineRef is immutable" },
    { "rule": "has(self.machineSelector) == has(oldSelf.machineSelector) && (!has(self.machineSelector) || self.machineSelector == oldSelf.machineSelector)",
      "message": "machineSelector is immutable" },
    { "rule": "has(self.allocationRef) == (self.operationKind == 'HostAllocate' || self.operationKind == 'HostRelease')",
      "message": "allocationRef belongs to HostAllocate and HostRelease, and only to them" },
    { "rule": "has(self.allocationRef) == has(oldSelf.allocationRef) && (!has(self.allocationRef) || self.allocationRef == oldSelf.allocationRef)",
      "message": "allocationRef is immutable" },
    { "rule": "self.operationKind == oldSelf.operationKind", "message": "operationKind is immutable" },
    { "rule": "self.parameters == oldSelf.parameters", "message": "parameters are immutable" },
    { "rule": "has(self.ttlSecondsAfterFinished) == has(oldSelf.ttlSecondsAfterFinished) && (!has(self.ttlSecondsAfterFinished) || self.ttlSecondsAfterFinished == oldSelf.ttlSecondsAfterFinished)",
      "message": "ttlSecondsAfterFinished is immutable" },
    { "rule": "has(self.deadlineSeconds) == has(oldSelf.deadlineSeconds) && (!has(self.deadlineSeconds) || self.deadlineSeconds == oldSelf.deadlineSeconds)",
      "message": "deadlineSeconds is immutable" },
    { "rule": "self.cancel || !oldSelf.cancel", "message": "cancel can't be taken back" }
]))]
pub struct MachineOperationSpec {
    /// The machine to work on. Exactly one of `machineRef` and `machineSelector` must be set. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_ref: Option<MachineReference>,
    /// Machines to work on, by label. Accepted for other executors; Holdfast leaves such operations alone.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_selector: Option<LabelSelector>,
    /// What to do: HostReboot, HostPowerOff, HostPowerOn, HostReplace, HostAllocate, HostRelease, or another
    /// CamelCase word that an executor knows. Immutable.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[A-Z][A-Za-z0-9]*$"))]
    pub operation_kind: String,
    /// The allocation that a HostAllocate or HostRelease serves. Such operations are made by the daemon. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_ref: Option<AllocationReference>,
    /// Parameters of the operation; their meaning is the provider's. Immutable.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 64))]
    pub parameters: BTreeMap<String, String>,
    /// Seconds after which a finished operation is deleted. Unset keeps it. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i64>,
    /// Seconds after its start at which a running operation is given up. Unset means never. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub deadline_seconds: Option<i64>,
    /// Asks for the operation to be cancelled. It can't be taken back, and does nothing to a HostRelease that has begun.
    #[serde(default)]
    pub cancel: bool,
    /// What a person knows about an effect whose outcome the daemon can't find out. `Abandon` ends a HostAllocate or
    /// HostRelease, whatever effect is named; what is recorded as owned stays recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve: Option<Resolve>,
}

/// What a person knows about an effect whose outcome the daemon can't find out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolve {
    /// Key of the effect in `status.effects`.
    #[schemars(length(min = 1))]
    pub effect: String,
    /// What became of it.
    pub outcome: Resolution,
}

/// What became of an effect, in the words of a person who looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Resolution {
    /// It happened.
    TookEffect,
    /// It did not happen; it may be sent again.
    DidNotHappen,
    /// Nobody can say; the operation ends as failed.
    Abandon,
}

/// How far an operation is, and everything needed to go on with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineOperationStatus {
    /// Pending, InProgress, OutcomeUnknown, Complete or Failed.
    #[serde(default)]
    pub phase: Phase,
    /// Why the operation is in its phase, in CamelCase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The contract's code of the failure that ended the operation, for example `capacity-exhausted`. Absent while it
    /// runs, after a success, and where the host itself ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub failure_code: Option<String>,
    /// When the operation started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When the operation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// The generation of the operation's spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation of the Machine after the operation's result was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_machine_generation: Option<i64>,
    /// Epoch of the lease under which the operation was last driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_epoch: Option<i64>,
    /// What the operation waits for. Every wait has a way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The machine, its frozen input, and the progress on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<OperationTarget>,
    /// The journal: every remote change that the operation made or may have made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub effects: Vec<Effect>,
    /// Remote resources that the operation created. Of a HostRelease: what it has not released yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned_resources: Vec<OwnedResource>,
    /// Conditions: Completed, Failed, ProviderOperationStalled, OutcomeUnknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Not started.
    #[default]
    Pending,
    /// Started.
    InProgress,
    /// An effect's outcome can't be found out by the daemon; a person must resolve it.
    OutcomeUnknown,
    /// Ended well.
    Complete,
    /// Ended badly.
    Failed,
}

impl Phase {
    /// Whether the operation has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }

    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::InProgress => "InProgress",
            Self::OutcomeUnknown => "OutcomeUnknown",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        }
    }
}

/// What an operation waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Why it waits, in CamelCase.
    pub reason: String,
    /// Since when.
    pub since: Time,
    /// Until when, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// What happens next by itself.
    pub next_action: String,
    /// How a person can end the wait.
    pub way_out: String,
}

/// The machine of an operation, its frozen input, and the progress on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationTarget {
    /// The machine.
    pub machine_ref: MachineReference,
    /// The machine's uid. A machine that is made anew under the same name is another one.
    #[serde(default, rename = "machineUID")]
    pub machine_uid: String,
    /// What the operation works with. Written once; later edits of other objects don't reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<OperationInput>,
    /// The step that the operation is in, for example WaitingProviderOperation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// How often the provider was asked to act. Polls don't count.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempts: i32,
    /// When the provider was last asked to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt_at: Option<Time>,
    /// When the provider accepted a long-running operation. The stall timer runs from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Time>,
    /// The durable handle of a long-running operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_operation: Option<ProviderOperation>,
    /// What the provider returned at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<OperationResult>,
    /// Whether the result was written to the Machine.
    #[serde(default)]
    pub result_applied: bool,
}

/// What an operation works with; written once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationInput {
    /// Name of the provider.
    pub provider: String,
    /// Name of the site.
    #[serde(default)]
    pub site: String,
    /// The machine's identity at the start. What a provider returns is judged by it.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The provider's own machine object, as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ProviderSnapshot>,
    /// The image to install. Empty keeps what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_image: Option<String>,
    /// Where first-boot data comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserDataSource>,
    /// What a HostAllocate or HostRelease works with; absent from other kinds (R2.30).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationInput>,
    /// The generation of the Machine that the input was taken from.
    #[serde(default)]
    pub machine_generation: i64,
}

/// What a HostAllocate or HostRelease works with; written once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocationInput {
    /// Name of the MachineAllocation.
    pub name: String,
    /// Its uid: the incarnation that owns every remote effect.
    pub uid: String,
    /// Which offering of the allocation is being tried, from 0.
    #[serde(default)]
    pub attempt: i32,
    /// Name of the class.
    pub class_name: String,
    /// Uid of the class.
    #[serde(rename = "classUID")]
    pub class_uid: String,
    /// Planned name of the Machine and of the host.
    pub host_name: String,
    /// The class's configuration. The provider is given it when HostAllocate begins, and never else (R2.25).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    /// The chosen offering.
    pub offering: Offering,
    /// Locator of the plan.
    #[serde(rename = "plannedProviderID")]
    pub planned_provider_id: String,
    /// Image of the plan.
    pub host_image: String,
    /// What a HostRelease may act on (R2.26). Empty in a HostAllocate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned_resources: Vec<OwnedResource>,
}

/// A provider's own machine object, as it was when the operation started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSnapshot {
    /// Which object it is.
    pub object: ObjectSnapshot,
    /// Its spec.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "any_json")]
    pub spec: Value,
    /// Its status.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "any_json")]
    pub status: Value,
}

/// Which object a snapshot was taken from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSnapshot {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural resource name.
    pub resource: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// Generation, at least 1.
    pub generation: i64,
    /// When the object was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Labels. Annotations stay out: clients keep copies of whole objects in them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The durable handle of a long-running operation. Only the provider that issued it may poll it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderOperation {
    /// Name of the provider that issued the handle.
    pub provider: String,
    /// The provider's identity of the operation; never blank.
    #[serde(rename = "operationID")]
    pub operation_id: String,
    /// Opaque state of the provider. It never holds secrets.
    #[serde(default)]
    pub resume_token: String,
    /// The version of that state, from the manifest.
    #[serde(default)]
    pub state_version: String,
}

/// What a provider returned at the end of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationResult {
    /// The machine's new identity. Unset leaves it unchanged.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The identity that cleanup removes.
    #[serde(default, rename = "cleanupProviderID", skip_serializing_if = "Option::is_none")]
    pub cleanup_provider_id: Option<String>,
    /// The host that HostAllocate confirmed; absent from other kinds (R2.30).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationResult>,
    /// What a HostRelease could not remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<OwnedResource>,
}

/// The host that HostAllocate confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocationResult {
    /// The provider's own identity of the host.
    #[serde(rename = "providerResourceID")]
    pub provider_resource_id: String,
    /// The provider's word for the size of the machine.
    #[serde(default)]
    pub instance_type: String,
    /// Zone, if the provider has zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The image that the host was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}
