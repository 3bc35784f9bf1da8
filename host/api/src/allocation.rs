//! `MachineAllocation`: a claim on one offering of a class. It becomes a `Machine`, and is released through its
//! finalizer, with the resources that were recorded as owned and no others (R2.26).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::class::Offering;
use crate::operation::{AllocationResult, Waiting};
use crate::shared::{MachineReference, OwnedResource, Time, UserDataSource};

/// Annotation of a Machine: uid of the allocation that it belongs to. Together with the name it is the link that no object
/// made anew under the same name can take over.
pub const ALLOCATION_UID_ANNOTATION: &str = "holdfast.dev/allocation-uid";
/// Annotation of an allocation that was made for a Machine with `spec.classRef`: name of the Machine.
pub const MACHINE_ANNOTATION: &str = "holdfast.dev/machine";
/// The same: uid of the Machine.
pub const MACHINE_UID_ANNOTATION: &str = "holdfast.dev/machine-uid";

/// A claim on one offering of a class. The spec is immutable; deleting the object releases the host and everything that
/// was made for it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "holdfast.dev",
    version = "v1alpha1",
    kind = "MachineAllocation",
    plural = "machineallocations",
    shortname = "malloc",
    category = "holdfast",
    status = "MachineAllocationStatus",
    derive = "PartialEq",
    doc = "A claim on one offering of a class. It becomes a Machine; deleting it releases the host.",
    selectable = ".spec.classRef.name",
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.classRef.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Machine", type_ = "string", json_path = ".status.machineRef.name"),
    printcolumn(name = "Type", type_ = "string", json_path = ".status.offering.instanceType"),
    printcolumn(name = "Zone", type_ = "string", json_path = ".status.offering.zone"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Host",
        type_ = "string",
        json_path = ".status.result.providerResourceID",
        priority = 1
    ),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self == oldSelf", "message": "an allocation is immutable: make a new one" },
    { "rule": "!has(self.releaseOrphan) || (!has(self.machineName) && !has(self.userData) && !has(self.deadlineSeconds))",
      "message": "releaseOrphan makes no host: it goes with classRef alone" }
]))]
pub struct MachineAllocationSpec {
    /// The class to allocate from.
    pub class_ref: ClassReference,
    /// Name of the Machine that the allocation becomes, which is also the host's name. Defaults to the allocation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub machine_name: Option<String>,
    /// Which offerings will do. Empty takes any.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    pub constraints: Constraints,
    /// First-boot data of the host. Absent boots without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserDataSource>,
    /// Labels of the Machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub machine_labels: BTreeMap<String, String>,
    /// Seconds after which an allocation that has no host yet is given up: what was made is released, and the
    /// allocation is Failed. Unset means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub deadline_seconds: Option<i64>,
    /// Makes no host, but releases one that nobody has on record: one of the class's `status.orphans`, by its exact kind
    /// and id. The service is asked again before; what is on record or not under the host's marker is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_orphan: Option<OrphanReference>,
}

/// A remote resource that is on nobody's record, exactly as a class's `status.orphans` tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrphanReference {
    /// Kind of the resource, in the provider's own words.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[^\s*]+$"))]
    pub kind: String,
    /// The provider's own identity of the resource. There are no wildcards.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[^\s*]+$"))]
    pub id: String,
}

/// A reference to a `MachineClass` by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassReference {
    /// Name of the MachineClass.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A reference to a `MachineAllocation` by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocationReference {
    /// Name of the MachineAllocation.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Which offerings will do. Of those that fit, the first in the class's order that is available is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Constraints {
    /// Names of offerings. Empty takes any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub offerings: Vec<String>,
    /// Instance types. Empty takes any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub instance_types: Vec<String>,
    /// Zones. Empty takes any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub zones: Vec<String>,
    /// Least quantities, in Kubernetes notation: `cpu: "4"`. An offering that doesn't name a resource doesn't fit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub resources: BTreeMap<String, String>,
}

impl Constraints {
    /// Whether any offering will do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How far an allocation is, and everything needed to go on with it or to release it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineAllocationStatus {
    /// Pending, Allocating, Allocated, Releasing, Failed or, of an orphan, Released.
    #[serde(default)]
    pub phase: AllocationPhase,
    /// Why the allocation is in its phase, in CamelCase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Which offering of the allocation is being tried, from 0. Tokens of remote effects are derived from it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempt: i32,
    /// Uid of the class at the start. A class made anew under the same name is another one.
    #[serde(default, rename = "classUID", skip_serializing_if = "Option::is_none")]
    pub class_uid: Option<String>,
    /// The provider, from the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The site, from the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_name: Option<String>,
    /// The class's configuration, frozen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    /// The chosen offering, frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offering: Option<Offering>,
    /// The planned identity of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<AllocationPlan>,
    /// The Machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_ref: Option<MachineReference>,
    /// Uid of the Machine.
    #[serde(default, rename = "machineUID", skip_serializing_if = "Option::is_none")]
    pub machine_uid: Option<String>,
    /// The HostAllocate or HostRelease operation under way, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_ref: Option<OperationReference>,
    /// Whether what the operation ended with stands in this status. Until then it is waited for, and can't vanish.
    #[serde(default)]
    pub operation_ended: bool,
    /// How many HostRelease operations were begun.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub releases: i32,
    /// The Machine's identity that HostAllocate confirmed. A Machine that has vanished is made again with it, so that
    /// the host can be released.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The host that HostAllocate confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<AllocationResult>,
    /// Remote resources that were made for the allocation, also by attempts that failed. A release acts on these only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned_resources: Vec<OwnedResource>,
    /// The orphan that was taken over, to be released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan: Option<TakenOrphan>,
    /// Offerings that were tried and had no capacity, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub exhausted: Vec<TriedOffering>,
    /// When the host was confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_at: Option<Time>,
    /// What the allocation waits for. Every wait has a way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Conditions: Allocated, Released.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// How far an allocation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AllocationPhase {
    /// No offering is chosen yet.
    #[default]
    Pending,
    /// An offering is chosen; the host is being made.
    Allocating,
    /// The host is there.
    Allocated,
    /// The host and what belongs to it are being removed.
    Releasing,
    /// There will be no host. Nothing is owned, or what is owned could not be released.
    Failed,
    /// The orphan that was named is gone.
    Released,
}

impl AllocationPhase {
    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Allocating => "Allocating",
            Self::Allocated => "Allocated",
            Self::Releasing => "Releasing",
            Self::Failed => "Failed",
            Self::Released => "Released",
        }
    }
}

/// An orphan as it was when it was taken over: seen under the host's marker, and on nobody's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenOrphan {
    /// Kind of the resource, in the provider's own words.
    pub kind: String,
    /// The provider's own identity of the resource.
    pub id: String,
    /// The token that it bore.
    pub token: String,
    /// Since when it had been listed without being on record.
    pub first_seen: Time,
    /// When it was taken over. So many in an hour are released, and no more.
    pub taken_at: Time,
}

/// The planned identity of a host (R2.24).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocationPlan {
    /// Locator that is the Machine's providerID before the host exists.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The image that the host starts with.
    pub host_image: String,
    /// Name of the Machine and of the host.
    pub host_name: String,
}

/// An operation of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationReference {
    /// Name of the MachineOperation.
    pub name: String,
    /// Its uid, once it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// HostAllocate or HostRelease.
    pub kind: String,
}

/// An offering that had no capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriedOffering {
    /// Name of the offering.
    pub name: String,
    /// Its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// When it was tried.
    pub at: Time,
    /// Until when it is not tried again.
    pub until: Time,
    /// What the provider said, in CamelCase.
    pub reason: String,
}
