//! Small shapes that several kinds use: references, owned resources, times, untyped JSON.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A reference to a `Machine` by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineReference {
    /// Name of the Machine.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Where first-boot data comes from: one key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserDataReference {
    /// Namespace of the Secret. Defaults to `holdfast-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key within the Secret's data. Defaults to `userData`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A remote resource that the host recorded as made by one of its own effects. Only what is recorded may be
/// updated or destroyed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnedResource {
    /// The binding (provider, endpoint, site) through which it was created.
    pub binding: String,
    /// Kind of the resource, in the provider's own words.
    pub kind: String,
    /// The provider's own identity of the resource.
    pub id: String,
    /// Zone of the resource, if the provider has zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Who owns it: the uid of the allocation, else of the operation, else of the cluster.
    pub owner: String,
}

/// The current time in the resolution that objects keep: whole seconds.
pub fn now() -> Time {
    whole_seconds(Timestamp::now())
}

/// Cuts a time to whole seconds. A time kept with more digits would differ from itself after one trip
/// through the store.
pub fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// Schema of a field that holds any JSON value and is stored as it is.
pub(crate) fn any_json(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Schema of a field that holds any JSON object and is stored as it is.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
