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

/// Where first-boot data comes from: one key of a Secret that bears the label `holdfast.dev/first-boot-data: "true"`.
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

/// A reference to a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapReference {
    /// Namespace of the ConfigMap. Defaults to `holdfast-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// First-boot data: taken whole from a Secret, or made from a template. Exactly one of the two must be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.secretRef) != has(self.template)",
    "message": "exactly one of secretRef and template must be set"
}]))]
pub struct UserDataSource {
    /// The Secret that holds the data, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<UserDataReference>,
    /// The template that the data is made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<UserDataTemplate>,
}

/// A template of first-boot data. It sees `machine.name`, `machine.site`, `machine.image`, `machine.instanceType`,
/// `machine.zone` and, under `values`, the values listed here; anything else that it names is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserDataTemplate {
    /// The ConfigMap that holds the template.
    pub config_map_ref: ConfigMapReference,
    /// Key within the ConfigMap's data. Defaults to `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the template may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub values: Vec<TemplateValue>,
}

/// A value that a template may use. Exactly one of `value` and `secretRef` must be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.value) != has(self.secretRef)",
    "message": "exactly one of value and secretRef must be set"
}]))]
pub struct TemplateValue {
    /// Its name in the template: `values.NAME`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// The value itself, if it is no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub value: Option<String>,
    /// The Secret that holds the value. The key defaults to the value's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<UserDataReference>,
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
    /// Zone of the offering that it was made for, if that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Who owns it: the uid of the allocation, else of the operation, else of the cluster.
    pub owner: String,
    /// Where the binding pointed when it was created: origin, base path and variables. It is asked for and released only
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What tells it from another that is given the same id later (a uuid, a time of creation), where the manifest names
    /// that. What has another one is not destroyed: this one is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
}

impl OwnedResource {
    /// The same resource, as far as both say: binding, kind and id, and no other incarnation.
    pub fn is(&self, other: &OwnedResource) -> bool {
        let incarnations = self.incarnation.as_ref().zip(other.incarnation.as_ref());
        self.binding == other.binding
            && self.kind == other.kind
            && self.id == other.id
            && incarnations.is_none_or(|(one, other)| one == other)
    }
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
