//! `Provider`: one loaded module, written by the daemon for people to read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::Time;

/// One provider module. Written by the daemon; its spec is empty.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "holdfast.dev",
    version = "v1alpha1",
    kind = "Provider",
    plural = "providers",
    shortname = "prov",
    category = "holdfast",
    status = "ProviderStatus",
    derive = "PartialEq",
    doc = "One provider module: what it is, what it can do, and how it is bound. Written by the daemon.",
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Digest", type_ = "string", json_path = ".status.digest", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpec {}

/// What the daemon knows about a provider module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatus {
    /// File name of the module in the providers folder.
    #[serde(default)]
    pub file: String,
    /// SHA-256 of the file that serves now, in hex.
    #[serde(default)]
    pub digest: String,
    /// Version of the provider, from its manifest.
    #[serde(default)]
    pub version: String,
    /// Version of the contract that the module was built for.
    #[serde(default)]
    pub contract: String,
    /// Whether the provider can be used.
    #[serde(default)]
    pub state: ProviderState,
    /// The kinds of operation that the provider offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<ProviderOperationKind>,
    /// The endpoints that the provider asks for, and whether the operator bound them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<ProviderEndpoint>,
    /// Digest of the set of calls that the provider declares. It is what an operator approves.
    #[serde(default)]
    pub call_set: String,
    /// What approving the provider means, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meaning: Vec<String>,
    /// The line of configuration that would approve the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_line: Option<String>,
    /// The last file that was refused, and why. The old file goes on serving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<ProviderRefusal>,
    /// Conditions of the provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Whether a provider can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ProviderState {
    /// The module is being read and compiled.
    #[default]
    Loading,
    /// The provider serves.
    Ready,
    /// The operator has not approved the calls that the provider declares.
    PendingApproval,
    /// The file was refused and no older one serves.
    Refused,
    /// An endpoint that the provider needs is not bound.
    Unbound,
}

/// One kind of operation that a provider offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderOperationKind {
    /// The operation kind, for example HostReboot.
    pub kind: String,
    /// Whether the operation ends within one call.
    pub mode: OperationMode,
    /// Whether an Immediate operation may be executed again after a crash.
    #[serde(default)]
    pub replay_safe: bool,
}

/// Whether an operation ends within one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OperationMode {
    /// One call does it.
    Immediate,
    /// One call begins it; polling follows it to its end.
    LongRunning,
}

/// One endpoint that a provider asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderEndpoint {
    /// Name of the endpoint in the manifest.
    pub name: String,
    /// What the endpoint is for, in the manifest's words.
    #[serde(default)]
    pub about: String,
    /// What there is one of for each value, for example each region or each machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// Whether the operator bound the endpoint.
    #[serde(default)]
    pub bound: bool,
    /// The origin that the endpoint is bound to, if it is one for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// A file that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderRefusal {
    /// Name of the file.
    pub file: String,
    /// SHA-256 of the file, in hex, if it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What was refused, by which rule, and the line that would change it.
    pub reason: String,
    /// When it was refused.
    pub at: Time,
}
