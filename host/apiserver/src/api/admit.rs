//! What an object goes through before it is stored: unknown fields out, defaults in, every rule checked.

use serde_json::{Value, json};

use super::{Api, FieldValidation};
use crate::metadata;
use crate::patch::within_bounds;
use crate::registry::Kind;
use crate::rules;
use crate::schema::drop_nulls;
use crate::status::{ApiError, Cause};

/// Largest object, in bytes of JSON.
const MAX_OBJECT: usize = 1 << 20;
/// Room that a Secret or ConfigMap has beside its data for its metadata.
const MAX_METADATA: usize = 512 << 10;
/// Most warnings in an answer.
const MAX_WARNINGS: usize = 32;

impl Api {
    /// First half: the object's shape. Unknown fields are dropped, or refused if validation is strict; then
    /// defaults are set. Returns warnings.
    pub(super) fn shape(
        &self,
        kind: &Kind,
        object: &mut Value,
        duplicates: &[String],
        validation: FieldValidation,
    ) -> Result<Vec<String>, ApiError> {
        within_bounds(object)?;
        check_type(kind, object)?;
        let mut unknown = Vec::new();
        if !kind.custom {
            drop_nulls(object);
        }
        let Some(meta) = metadata::of(object) else {
            return Err(ApiError::bad_request("metadata is not an object"));
        };
        let mut meta = Value::Object(std::mem::take(meta));
        drop_nulls(&mut meta);
        self.registry.metadata.prune(&mut meta, "metadata", &mut unknown);
        kind.schema.prune(object, "", &mut unknown);
        kind.schema.fill(object);
        object["metadata"] = meta;
        normalise(kind, object)?;
        let faults: Vec<String> = (unknown.iter().map(|f| format!("unknown field \"{f}\"")))
            .chain(duplicates.iter().map(|f| format!("duplicate field \"{f}\"")))
            .collect();
        match validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(faults.into_iter().take(MAX_WARNINGS).collect()),
            FieldValidation::Strict if faults.is_empty() => Ok(Vec::new()),
            FieldValidation::Strict => Err(ApiError::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                kind.kind,
                kind.version,
                kind.kind,
                faults.join(", ")
            ))),
        }
    }

    /// Second half: every rule, of the schema, of metadata, and of the kind.
    pub(super) fn check(&self, kind: &Kind, object: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        let mut causes = Vec::new();
        let meta = std::mem::replace(&mut object["metadata"], json!({}));
        self.registry.metadata.validate(&meta, "metadata", &mut causes);
        if causes.is_empty() {
            metadata::validate(&meta, kind, old.map(|o| &o["metadata"]), &mut causes);
        }
        let before = causes.len();
        kind.schema.validate(object, "", &mut causes);
        object["metadata"] = meta;
        // These rules rely on the shape alone, so that a person hears of everything at once.
        if causes.len() == before {
            rules::run(&self.validators, kind, old, object, &mut causes);
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if causes.is_empty() {
            check_size(kind, object)
        } else {
            Err(ApiError::invalid(kind, &name, &causes))
        }
    }

    /// Refuses an object for a namespace that isn't there.
    pub(super) fn check_namespace(&self, kind: &Kind, namespace: &str) -> Result<(), ApiError> {
        let Some(namespaces) = self.registry.core("namespaces") else { return Ok(()) };
        if !kind.namespaced {
            return Ok(());
        }
        let key = crate::index::ObjectKey { namespace: String::new(), name: namespace.to_owned() };
        self.current(namespaces, &key).map(|_| ())
    }
}

fn check_size(kind: &Kind, object: &Value) -> Result<(), ApiError> {
    let most = if kind.custom { MAX_OBJECT } else { MAX_OBJECT + MAX_METADATA };
    let bytes = object.to_string().len();
    if bytes > most {
        return Err(ApiError::too_large(format!("the object has {bytes} bytes; at most {most} are kept")));
    }
    Ok(())
}

/// Refuses an object of another kind than the path's; a missing kind is the path's.
fn check_type(kind: &Kind, object: &mut Value) -> Result<(), ApiError> {
    let Some(map) = object.as_object_mut() else {
        return Err(ApiError::bad_request("the body of the request is not an object"));
    };
    let version = kind.api_version();
    for (field, expected) in [("apiVersion", version.as_str()), ("kind", kind.kind.as_str())] {
        match map.get(field) {
            None | Some(Value::Null) => drop(map.insert(field.to_owned(), expected.into())),
            Some(found) if found == expected => {}
            Some(found) => {
                return Err(ApiError::bad_request(format!(
                    "the {field} in the data ({}) does not match the expected {field} ({expected})",
                    found.as_str().unwrap_or("not a string")
                )));
            }
        }
    }
    Ok(())
}

/// What core kinds turn into on the way in.
fn normalise(kind: &Kind, object: &mut Value) -> Result<(), ApiError> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Secret") => normalise_secret(object),
        ("", "Namespace") => {
            if object["status"]["phase"].is_null() {
                object["status"] = json!({ "phase": "Active" });
            }
            let name = object["metadata"]["name"].clone();
            if name.is_string() {
                if !object["metadata"]["labels"].is_object() {
                    object["metadata"]["labels"] = json!({});
                }
                object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Said without the value: it may be a secret.
fn not_a_map(field: &str) -> ApiError {
    ApiError::bad_request(format!(
        "Secret in version \"v1\" cannot be handled as a Secret: {field} is not a map of strings"
    ))
}

fn normalise_secret(object: &mut Value) -> Result<(), ApiError> {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let Some(map) = object.as_object_mut() else { return Ok(()) };
    if map.get("type").is_none_or(|t| t == "") {
        map.insert("type".into(), "Opaque".into());
    }
    if let Some(text) = map.remove("stringData") {
        let Value::Object(text) = text else { return Err(not_a_map("stringData")) };
        let data = map.entry("data").or_insert_with(|| json!({}));
        let Some(data) = data.as_object_mut() else { return Err(not_a_map("data")) };
        for (key, value) in text {
            let Some(value) = value.as_str() else {
                return Err(ApiError::bad_request(
                    "Secret in version \"v1\" cannot be handled as a Secret: stringData holds a value that is not a string",
                ));
            };
            data.insert(key, engine.encode(value).into());
        }
    }
    // Said without the value: this one may be a secret.
    let bad = |value: &Value| value.as_str().is_none_or(|v| engine.decode(v).is_err());
    let data = map.get("data").and_then(Value::as_object);
    if data.is_some_and(|data| data.values().any(bad)) {
        return Err(ApiError::bad_request(
            "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data",
        ));
    }
    Ok(())
}

/// A cause for a field that a client may not set itself.
pub(super) fn must_match(field: &str, found: &Value, expected: &str) -> Option<Cause> {
    let same = found.as_str().is_none_or(|f| f.is_empty() || f == expected);
    (!same).then(|| Cause::invalid(field, found, "field is immutable"))
}
