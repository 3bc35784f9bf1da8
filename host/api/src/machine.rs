//! `Machine`: one machine, existing or planned, and what the host recorded as owned for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{OwnedResource, UserDataReference};

/// One machine, existing or planned. The label `holdfast.dev/site` names the site it stands at.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "holdfast.dev",
    version = "v1alpha1",
    kind = "Machine",
    plural = "machines",
    shortname = "mach",
    category = "holdfast",
    status = "MachineStatus",
    derive = "PartialEq",
    doc = "One machine, existing or planned. The label `holdfast.dev/site` names the site it stands at.",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.host.external.provider"),
    printcolumn(name = "ProviderID", type_ = "string", json_path = ".spec.host.external.providerID"),
    printcolumn(name = "Site", type_ = "string", json_path = ".metadata.labels.holdfast\\.dev/site"),
    printcolumn(name = "Operation", type_ = "string", json_path = ".status.currentOperation"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The host that this machine is.
    pub host: Host,
    /// First-boot data for operations that install the machine anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_ref: Option<UserDataReference>,
}

/// The host that a machine is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// A host that a provider manages.
    pub external: ExternalHost,
    /// The image that the host is installed with. Empty keeps what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// A host that a provider manages. At least one of `providerID` and `machineRef` must be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.providerID) || has(self.machineRef)",
    "message": "at least one of providerID and machineRef must be set"
}]))]
pub struct ExternalHost {
    /// Name of the provider.
    #[schemars(length(min = 1, max = 253))]
    pub provider: String,
    /// The provider's identity of the host. It changes when an operation replaces the host.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub provider_id: Option<String>,
    /// The provider's own machine object, for example a BareMetalMachine. It must be cluster-scoped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_ref: Option<ProviderMachineReference>,
}

/// A reference to a provider's own machine object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderMachineReference {
    /// API group of the object, without its version.
    pub api_group: String,
    /// Kind of the object.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What the daemon knows about a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Remote resources that operations on this machine created and that still belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned_resources: Vec<OwnedResource>,
    /// Name of the operation that holds the machine now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_operation: Option<String>,
    /// Conditions of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
