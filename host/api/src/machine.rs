//! `Machine`: one machine, existing or planned, and what the host recorded as owned for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allocation::ClassReference;
use crate::shared::{OwnedResource, UserDataReference, UserDataSource};

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
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.classRef.name"),
    printcolumn(name = "Site", type_ = "string", json_path = ".metadata.labels.holdfast\\.dev/site"),
    printcolumn(name = "Operation", type_ = "string", json_path = ".status.currentOperation"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.host) || has(self.classRef)",
      "message": "host must be set, or classRef for a machine whose host is to be allocated" },
    { "rule": "has(self.classRef) == has(oldSelf.classRef) && (!has(self.classRef) || self.classRef == oldSelf.classRef)",
      "message": "classRef is immutable" },
    { "rule": "!has(self.userDataRef) || !has(self.userData)",
      "message": "at most one of userDataRef and userData may be set" }
]))]
pub struct MachineSpec {
    /// The host that this machine is. May be left out of a machine that names a class: the allocation fills it in.
    #[serde(default, skip_serializing_if = "Host::is_unset")]
    pub host: Host,
    /// The class that the machine's host is allocated from. The daemon makes a MachineAllocation of the machine's name.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ClassReference>,
    /// First-boot data for operations that install the machine anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_ref: Option<UserDataReference>,
    /// The same, with a template as a further choice. At most one of `userDataRef` and `userData` may be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserDataSource>,
}

impl MachineSpec {
    /// Where first-boot data comes from, whichever field says it.
    pub fn user_data_source(&self) -> Option<UserDataSource> {
        let whole = |reference| UserDataSource { secret_ref: Some(reference), template: None };
        self.user_data.clone().or_else(|| self.user_data_ref.clone().map(whole))
    }
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

impl Host {
    /// Whether nothing is known of the host yet.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
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
    /// Name of the MachineAllocation that the machine's host comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<String>,
    /// Name of the operation that holds the machine now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_operation: Option<String>,
    /// Conditions of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
