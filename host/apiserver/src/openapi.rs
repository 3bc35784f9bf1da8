//! OpenAPI v3: one document for each group and version, enough for `kubectl explain`, for validation on the
//! server (`fieldValidation`), and for `kubectl apply` to know which patches a kind takes.

use bytes::Bytes;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::discovery::path;
use crate::registry::{Kind, Registry};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The documents, encoded once.
pub(crate) struct Documents {
    index: Bytes,
    documents: Vec<(String, Bytes)>,
}

impl Documents {
    /// Makes the documents of all groups.
    pub(crate) fn new(registry: &Registry) -> Self {
        let mut paths = Map::new();
        let mut documents = Vec::new();
        for (group, version) in registry.groups() {
            let path = path(group, version);
            let bytes = Bytes::from(document(registry, group, version).to_string());
            let hash = data_encoding::HEXUPPER.encode(digest(&SHA256, &bytes).as_ref());
            // A document's address names its content, so that clients may keep it.
            let url = format!("/openapi/v3{path}?hash={hash}");
            paths.insert(path.trim_start_matches('/').to_owned(), json!({ "serverRelativeURL": url }));
            documents.push((path, bytes));
        }
        Self { index: json!({ "paths": paths }).to_string().into(), documents }
    }

    /// `/openapi/v3`: where the documents are.
    pub(crate) fn index(&self) -> Bytes {
        self.index.clone()
    }

    /// The document of one group and version.
    pub(crate) fn document(&self, group: &str, version: &str) -> Option<Bytes> {
        let wanted = path(group, version);
        self.documents.iter().find(|(path, _)| *path == wanted).map(|(_, bytes)| bytes.clone())
    }
}

/// One document.
fn document(registry: &Registry, group: &str, version: &str) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    schemas.insert(OBJECT_META.into(), registry.metadata_openapi.clone());
    schemas.insert(LIST_META.into(), list_meta());
    for kind in registry.kinds().iter().filter(|k| k.group == group && k.version == version) {
        let name = schema_name(kind);
        schemas.insert(name.clone(), object_schema(kind));
        schemas.insert(format!("{name}List"), list_schema(kind, &name));
        add_paths(&mut paths, kind, &name);
    }
    json!({ "openapi": "3.0.0", "info": { "title": "Holdfast", "version": env!("CARGO_PKG_VERSION") },
            "paths": paths, "components": { "schemas": schemas } })
}

/// `dev.holdfast.v1alpha1.Machine`; core kinds have the names that clients know.
fn schema_name(kind: &Kind) -> String {
    let group: Vec<&str> = kind.group.split('.').rev().collect();
    match kind.group.as_str() {
        "" => format!("io.k8s.api.core.{}.{}", kind.version, kind.kind),
        "coordination.k8s.io" => format!("io.k8s.api.coordination.{}.{}", kind.version, kind.kind),
        "events.k8s.io" => format!("io.k8s.api.events.{}.{}", kind.version, kind.kind),
        _ => format!("{}.{}.{}", group.join("."), kind.version, kind.kind),
    }
}

fn gvk(kind: &Kind, suffix: &str) -> Value {
    json!({ "group": kind.group, "version": kind.version, "kind": format!("{}{suffix}", kind.kind) })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn object_schema(kind: &Kind) -> Value {
    let mut schema = kind.openapi.clone();
    schema["x-kubernetes-group-version-kind"] = json!([gvk(kind, "")]);
    schema["properties"]["metadata"] = json!({ "description": "Standard object metadata.", "allOf": [reference(OBJECT_META)], "default": {} });
    schema
}

fn list_schema(kind: &Kind, name: &str) -> Value {
    json!({
        "type": "object",
        "description": format!("A list of {}.", kind.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string", "description": "Group and version of this representation." },
            "kind": { "type": "string", "description": "Kind of the list." },
            "metadata": { "description": "Standard list metadata.", "allOf": [reference(LIST_META)], "default": {} },
            "items": { "type": "array", "description": "The objects.", "items": reference(name) },
        },
        "x-kubernetes-group-version-kind": [gvk(kind, "List")],
    })
}

fn list_meta() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    json!({ "type": "object", "description": "Metadata of a list.", "properties": {
        "continue": text("Token for the next page."),
        "resourceVersion": text("The version that the list is of."),
        "remainingItemCount": { "type": "integer", "format": "int64", "description": "How many objects follow." },
    } })
}

fn add_paths(paths: &mut Map<String, Value>, kind: &Kind, name: &str) {
    let base = path(&kind.group, &kind.version);
    let inside = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{base}{inside}/{}", kind.plural);
    let parameters = |named: bool| {
        let mut list = Vec::new();
        if named {
            list.push(parameter("name", "path", "Name of the object."));
        }
        if kind.namespaced {
            list.push(parameter("namespace", "path", "Namespace of the object."));
        }
        list
    };
    let list = format!("{name}List");
    paths.insert(
        collection.clone(),
        json!({ "get": operation(kind, "list", &list, None), "post": operation(kind, "post", name, Some(&["application/json"])),
                "delete": operation(kind, "deletecollection", &list, None), "parameters": parameters(false) }),
    );
    let patches: &[&str] = if kind.custom {
        &["application/json-patch+json", "application/merge-patch+json"]
    } else {
        &[
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ]
    };
    let object = json!({
        "get": operation(kind, "get", name, None),
        "put": operation(kind, "put", name, Some(&["application/json"])),
        "patch": operation(kind, "patch", name, Some(patches)),
        "delete": operation(kind, "delete", name, None),
        "parameters": parameters(true),
    });
    if kind.status {
        let mut status = object.clone();
        status.as_object_mut().map(|s| s.remove("delete"));
        paths.insert(format!("{collection}/{{name}}/status"), status);
    }
    paths.insert(format!("{collection}/{{name}}"), object);
    if kind.namespaced {
        let all = json!({ "get": operation(kind, "list", &list, None) });
        paths.insert(format!("{base}/{}", kind.plural), all);
    }
}

fn operation(kind: &Kind, action: &str, answer: &str, consumes: Option<&[&str]>) -> Value {
    let mut operation = json!({
        "operationId": format!("{action}{}{}", kind.version, kind.qualified_kind().replace('.', "")),
        "tags": [kind.api_version()],
        "responses": { "200": { "description": "OK",
            "content": { "application/json": { "schema": reference(answer) } } } },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk(kind, ""),
    });
    if let Some(media) = consumes {
        let patch = action == "patch";
        let schema = if patch { json!({ "type": "object" }) } else { reference(answer) };
        let content: Map<String, Value> =
            media.iter().map(|m| ((*m).to_owned(), json!({ "schema": schema }))).collect();
        operation["requestBody"] = json!({ "content": content, "required": true });
        operation["parameters"] = json!([
            parameter("dryRun", "query", "All: nothing is stored."),
            parameter("fieldManager", "query", "Who writes."),
            parameter("fieldValidation", "query", "Ignore, Warn or Strict: what to do with unknown fields."),
        ]);
    }
    operation
}

fn parameter(name: &str, place: &str, about: &str) -> Value {
    json!({ "name": name, "in": place, "description": about, "required": place == "path",
            "schema": { "type": "string", "uniqueItems": true } })
}
