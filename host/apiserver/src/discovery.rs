//! Discovery: which groups, versions and resources there are, as `kubectl api-resources` asks.

use serde_json::{Value, json};

use crate::registry::{Kind, Registry};

/// The release of Kubernetes whose API is followed.
const KUBERNETES: (&str, &str) = ("1", "33");

/// `/version`.
pub(crate) fn version() -> Value {
    let (major, minor) = KUBERNETES;
    json!({ "major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.0+holdfast-{}", env!("CARGO_PKG_VERSION")),
            "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
            "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH) })
}

/// Every path of discovery.
pub(crate) fn paths(registry: &Registry) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    paths.extend(registry.groups().iter().map(|(group, version)| path(group, version)));
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    paths
}

/// The path of a group's version.
pub(crate) fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// `/api`.
pub(crate) fn core_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

/// `/apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, version)| entry(group, version))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/{group}`.
pub(crate) fn group(registry: &Registry, name: &str) -> Value {
    let found = registry.groups().iter().find(|(group, _)| group == name);
    let mut group = found.map_or(Value::Null, |(group, version)| entry(group, version));
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    group
}

fn entry(group: &str, version: &str) -> Value {
    let version = json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    json!({ "name": group, "versions": [version], "preferredVersion": version })
}

/// `/api/v1` and `/apis/{group}/{version}`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Value {
    let kinds = registry.kinds().iter().filter(|k| k.group == group && k.version == version);
    let resources: Vec<Value> = kinds.flat_map(entries).collect();
    let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources })
}

fn entries(kind: &Kind) -> Vec<Value> {
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let mut resource = json!({ "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
                               "kind": kind.kind, "verbs": verbs });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    let mut out = vec![resource];
    if kind.status {
        out.push(json!({ "name": format!("{}/status", kind.plural), "singularName": "",
                         "namespaced": kind.namespaced, "kind": kind.kind, "verbs": ["get", "patch", "update"] }));
    }
    out
}
