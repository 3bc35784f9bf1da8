//! `BareMetalMachine`: a provider's own machine object, for `machineRef`: a BMC and a system behind it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine behind a baseboard management controller.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "holdfast.dev",
    version = "v1alpha1",
    kind = "BareMetalMachine",
    plural = "baremetalmachines",
    shortname = "bmm",
    category = "holdfast",
    status = "BareMetalMachineStatus",
    derive = "PartialEq",
    doc = "A machine behind a baseboard management controller (BMC).",
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.bmc.address"),
    printcolumn(name = "System", type_ = "string", json_path = ".spec.systemID"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalMachineSpec {
    /// The management controller.
    pub bmc: Bmc,
    /// Identity of the system on that controller, for example `1` or `System.Embedded.1`.
    #[serde(rename = "systemID")]
    #[schemars(length(min = 1, max = 253))]
    pub system_id: String,
}

/// A management controller: where it is and how to log in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bmc {
    /// Address of the controller: an `https://` URL, or a host with an optional port.
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^(https://[^\s/?#@]+/?|[^\s/?#@]+)$"))]
    pub address: String,
    /// How to authenticate. Defaults to the provider's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<BmcAuth>,
    /// The Secret with the credentials. It must be of type `holdfast.dev/credential` in the namespace
    /// `holdfast-system` and carry the label `holdfast.dev/provider`.
    pub credentials_ref: BmcCredentialsReference,
}

/// How to authenticate at a management controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BmcAuth {
    /// A session with a token.
    Session,
    /// User and password with each request.
    Basic,
}

/// A reference to a credential Secret in `holdfast-system`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BmcCredentialsReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What is known about a bare-metal machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalMachineStatus {
    /// Conditions of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
