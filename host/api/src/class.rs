//! `MachineClass`: a provider, a site and an immutable configuration, resolved into offerings.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::operation::Waiting;
use crate::shared::{ConfigMapReference, Time};

/// Annotation of a class: the orphan sweep is made at once, for each new value. `status.sweep` tells of it.
pub const SWEEP_ANNOTATION: &str = "holdfast.dev/sweep";
/// Most bytes of the annotation's value that are looked at.
pub const MAX_SWEEP_REQUEST: usize = 253;
/// Most bytes of a class's configuration, keys and values together.
pub const MAX_CONFIG_BYTES: usize = 16 * 1024;
/// Most orphans that a class lists.
pub const MAX_ORPHANS: usize = 100;
/// Most offerings of one class.
pub const MAX_OFFERINGS: usize = 512;

/// What machines can be allocated from: a provider at a site, with a configuration that only the provider interprets.
/// The spec is immutable (R2.28): another configuration is another class.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "holdfast.dev",
    version = "v1alpha1",
    kind = "MachineClass",
    plural = "machineclasses",
    shortname = "mclass",
    category = "holdfast",
    status = "MachineClassStatus",
    derive = "PartialEq",
    doc = "What machines can be allocated from: a provider at a site, with a configuration that only the provider interprets.",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "Site", type_ = "string", json_path = ".spec.siteName"),
    printcolumn(name = "Offerings", type_ = "integer", json_path = ".status.available"),
    printcolumn(
        name = "Resolved",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Resolved')].status"
    ),
    // Not a date, which tables tell as an age: it is yet to come.
    printcolumn(name = "Valid until", type_ = "string", json_path = ".status.validUntil"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self == oldSelf", "message": "a class is immutable: make a new one" }
]))]
pub struct MachineClassSpec {
    /// Name of the provider.
    #[schemars(length(min = 1, max = 253))]
    pub provider: String,
    /// Name of the site whose credentials and endpoint bindings serve the class.
    #[schemars(length(min = 1, max = 63))]
    pub site_name: String,
    /// The ConfigMap whose data is the provider's configuration. It is read once: what the class was resolved with
    /// first is what it keeps, in `status.config`.
    pub provider_config_ref: ConfigMapReference,
}

/// What a class offers, and how that is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The frozen configuration: the ConfigMap's data as it was when the class was first resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// What can be launched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub offerings: Vec<Offering>,
    /// How many offerings are available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub available: i32,
    /// When the offerings were resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<Time>,
    /// Revision of the provider that resolved them, as `name@sha256`. Another one resolves the class anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// The earliest end of an offering. The class is resolved again well before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
    /// What the service lists under the host's marker and nobody has on record. Told, never released by itself: it may
    /// be another Holdfast's of the same account. A `MachineAllocation` with `spec.releaseOrphan` releases one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub orphans: Vec<Orphan>,
    /// The last sweep that the annotation `holdfast.dev/sweep` asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepReport>,
    /// Why the class is as it is, in CamelCase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the class waits for. Every wait has a way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Conditions: Resolved, ConfigCurrent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A remote resource that bears the host's marker and that nobody has on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// Kind of the resource, in the provider's own words.
    pub kind: String,
    /// The provider's own identity of the resource.
    pub id: String,
    /// The token that it bears: by it the creating effect is found in the journals of operations.
    pub token: String,
    /// Since when it is listed without being on record.
    pub first_seen: Time,
}

/// What came of a sweep that a person asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SweepReport {
    /// The annotation's value.
    #[schemars(length(max = 253))]
    pub request: String,
    /// When it was made.
    pub at: Time,
    /// What was found, or why nothing was, in one sentence.
    pub message: String,
}

/// One thing that can be launched (R2.22). Nobody launches from it when it is not available or `validUntil` has
/// passed (R2.23).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Offering {
    /// Name, unique within the class.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The provider's word for the size of the machine.
    #[schemars(length(max = 256))]
    pub instance_type: String,
    /// Zone, if the provider has zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub zone: Option<String>,
    /// Resource quantities in Kubernetes notation: `cpu: "4"`, `memory: 16Gi`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, String>,
    /// Whether it can be launched now, as far as the provider knows.
    pub available: bool,
    /// Until when this is true.
    pub valid_until: Time,
    /// What the provider needs to launch from it. Opaque to the host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}
