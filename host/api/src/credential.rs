//! `ProviderCredential`: which secret a provider works with at a site.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The credential of one provider at one site. Exactly one may exist for each pair.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "holdfast.dev",
    version = "v1alpha1",
    kind = "ProviderCredential",
    plural = "providercredentials",
    shortname = "pcred",
    category = "holdfast",
    status = "ProviderCredentialStatus",
    derive = "PartialEq",
    doc = "The credential of one provider at one site. Exactly one may exist for each pair.",
    printcolumn(name = "Site", type_ = "string", json_path = ".spec.siteName"),
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.auth.mode"),
    printcolumn(name = "Secret", type_ = "string", json_path = ".spec.auth.secretRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCredentialSpec {
    /// Name of the site, as in the label `holdfast.dev/site` of a Machine.
    #[schemars(length(min = 1, max = 63))]
    pub site_name: String,
    /// Name of the provider.
    #[schemars(length(min = 1, max = 253))]
    pub provider: String,
    /// How the provider's calls are authenticated.
    pub auth: CredentialAuth,
}

/// How a provider's calls are authenticated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.mode != 'ExternalPlugin' || has(self.secretRef)",
    "message": "secretRef is required when mode is ExternalPlugin"
}]))]
pub struct CredentialAuth {
    /// Where the credential comes from.
    pub mode: AuthMode,
    /// The Secret that holds the credential. Required when `mode` is ExternalPlugin. It must be of type
    /// `holdfast.dev/credential` and carry the label `holdfast.dev/provider`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}

/// Where a credential comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AuthMode {
    /// The daemon's own workload identity; no stored secret.
    WorkloadIdentity,
    /// A Secret named by `secretRef`.
    ExternalPlugin,
}

/// A reference to a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Namespace of the Secret. Defaults to `holdfast-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What the daemon knows about a credential.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCredentialStatus {
    /// Conditions of the credential.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
