//! The three patches: JSON (RFC 6902), merge (RFC 7386), and strategic merge for core kinds.
//!
//! A patch can make a document larger and deeper than itself; both are bounded on the way.

use json_patch::PatchOperation;
use serde_json::{Map, Value};

use crate::registry::Kind;
use crate::status::ApiError;

/// Most operations of a JSON patch (Kubernetes' own limit).
const MAX_OPERATIONS: usize = 10_000;
/// Most operations of a JSON patch that multiply or move what is there.
const MAX_COPIES: usize = 100;
/// Deepest document, and longest pointer of a patch.
pub(crate) const MAX_DEPTH: usize = 100;
/// Largest document on the way, in values.
const MAX_VALUES: usize = 1 << 20;

/// How a patch is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
}

impl PatchType {
    /// From the request's content type.
    pub(crate) fn from_content_type(kind: &Kind, content_type: &str) -> Result<Self, ApiError> {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        let supported = if kind.custom {
            "application/json-patch+json, application/merge-patch+json"
        } else {
            "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"
        };
        match media {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !kind.custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
                Err(ApiError::unsupported_media_type(
                    "server-side apply is not supported by the embedded API: use client-side apply",
                ))
            }
            _ => Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {supported}"
            ))),
        }
    }
}

/// Applies a patch to a document.
pub(crate) fn apply(type_: PatchType, document: &mut Value, patch: &Value) -> Result<(), ApiError> {
    match type_ {
        PatchType::Json => apply_json(document, patch)?,
        PatchType::Merge | PatchType::Strategic if !patch.is_object() => {
            return Err(ApiError::bad_request("the patch is not an object"));
        }
        PatchType::Merge => json_patch::merge(document, patch),
        PatchType::Strategic => strategic(document, patch, "")?,
    }
    within_bounds(document)
}

/// Refuses documents too deep or too large to be handled safely.
pub(crate) fn within_bounds(document: &Value) -> Result<(), ApiError> {
    let mut count = 0;
    let mut rest = vec![(document, 1)];
    while let Some((value, depth)) = rest.pop() {
        count += 1;
        if depth > MAX_DEPTH {
            return Err(ApiError::bad_request(format!(
                "the object is nested more than {MAX_DEPTH} levels deep"
            )));
        }
        if count > MAX_VALUES {
            return Err(ApiError::too_large("the object has too many values"));
        }
        match value {
            Value::Object(map) => rest.extend(map.values().map(|v| (v, depth + 1))),
            Value::Array(list) => rest.extend(list.iter().map(|v| (v, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

fn apply_json(document: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let operations: Vec<PatchOperation> = serde_json::from_value(patch.clone())
        .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
    if operations.len() > MAX_OPERATIONS {
        let found = operations.len();
        return Err(ApiError::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {found}"
        )));
    }
    let mut copies = 0;
    for operation in &operations {
        let multiplies = matches!(operation, PatchOperation::Copy(_) | PatchOperation::Move(_));
        copies += usize::from(multiplies);
        if copies > MAX_COPIES {
            let message =
                format!("the allowed maximum of copy and move operations in a JSON patch is {MAX_COPIES}");
            return Err(ApiError::too_large(message));
        }
        if operation.path().count() > MAX_DEPTH {
            return Err(ApiError::bad_request("a path of the patch is too long"));
        }
        json_patch::patch(document, std::slice::from_ref(operation)).map_err(|e| {
            let mut error = ApiError::bad_request(format!(
                "the server rejected our request due to an error in our request: {e}"
            ));
            (error.code, error.reason) = (422, "Invalid");
            error
        })?;
        if multiplies {
            within_bounds(document)?;
        }
    }
    Ok(())
}

/// Which lists are merged rather than replaced, in the core kinds served here: by key, or as a set.
fn merge_key(path: &str) -> Option<Option<&'static str>> {
    match path {
        "metadata.ownerReferences" => Some(Some("uid")),
        "status.conditions" => Some(Some("type")),
        "metadata.finalizers" => Some(None),
        _ => None,
    }
}

fn strategic(target: &mut Value, patch: &Value, path: &str) -> Result<(), ApiError> {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return Ok(());
    };
    match patch.get("$patch").and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            *target = Value::Object(without_directives(patch));
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(ApiError::bad_request(format!("unknown $patch directive {other:?}"))),
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(map) = target.as_object_mut() else { return Ok(()) };
    for (name, change) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            remove_from(map, list, change);
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match change {
            Value::Null => drop(map.remove(name)),
            Value::Object(_) => strategic(map.entry(name.clone()).or_insert(Value::Null), change, &path)?,
            Value::Array(changes) => {
                let list = map.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                merge_list(list, changes, &path)?;
            }
            other => drop(map.insert(name.clone(), other.clone())),
        }
    }
    retain_keys(map, patch);
    Ok(())
}

fn merge_list(list: &mut Value, changes: &[Value], path: &str) -> Result<(), ApiError> {
    let (Some(key), Some(items)) = (merge_key(path), list.as_array_mut()) else {
        *list = Value::Array(changes.to_vec());
        return Ok(());
    };
    if changes.iter().any(|c| c["$patch"] == "replace") {
        items.clear();
    }
    for change in changes.iter().filter(|c| c["$patch"] != "replace") {
        let Some(key) = key else {
            if !items.contains(change) {
                items.push(change.clone());
            }
            continue;
        };
        if change["$patch"] == "delete" {
            items.retain(|item| item[key] != change[key]);
        } else if let Some(item) = items.iter_mut().find(|item| item[key] == change[key]) {
            strategic(item, change, path)?;
        } else {
            items.push(change.as_object().map_or(Value::Null, |c| Value::Object(without_directives(c))));
        }
    }
    Ok(())
}

fn remove_from(map: &mut Map<String, Value>, list: &str, values: &Value) {
    let Some(items) = map.get_mut(list).and_then(Value::as_array_mut) else { return };
    items.retain(|item| !values.as_array().is_some_and(|v| v.contains(item)));
}

fn retain_keys(map: &mut Map<String, Value>, patch: &Map<String, Value>) {
    if let Some(keys) = patch.get("$retainKeys").and_then(Value::as_array) {
        map.retain(|name, _| keys.iter().any(|k| k == name));
    }
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch.iter().filter(|(name, _)| !name.starts_with('$')).map(|(n, v)| (n.clone(), v.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(type_: PatchType, document: Value, patch: Value) -> Result<Value, ApiError> {
        let mut document = document;
        apply(type_, &mut document, &patch).map(|()| document)
    }

    #[test]
    fn a_strategic_patch_merges_owner_references_by_uid_and_finalizers_as_a_set() {
        let document =
            json!({ "metadata": { "finalizers": ["a"], "ownerReferences": [{ "uid": "1", "name": "x" }] } });
        let patch = json!({ "metadata": { "finalizers": ["b", "a"], "$setElementOrder/finalizers": ["a", "b"],
            "ownerReferences": [{ "uid": "1", "name": "y" }, { "uid": "2", "name": "z" }] } });
        let out = patched(PatchType::Strategic, document, patch).unwrap();
        assert_eq!(
            out["metadata"],
            json!({ "finalizers": ["a", "b"],
                "ownerReferences": [{ "uid": "1", "name": "y" }, { "uid": "2", "name": "z" }] })
        );
        let patch = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["a"],
            "ownerReferences": [{ "uid": "1", "$patch": "delete" }] } });
        let out = patched(PatchType::Strategic, out, patch).unwrap();
        assert_eq!(
            out["metadata"],
            json!({ "finalizers": ["b"], "ownerReferences": [{ "uid": "2", "name": "z" }] })
        );
    }

    #[test]
    fn a_strategic_patch_removes_keys_by_null_and_replaces_other_lists() {
        let document = json!({ "data": { "a": "1", "b": "2" }, "list": [1, 2] });
        let patch = json!({ "data": { "a": null, "c": "3" }, "list": [3] });
        let out = patched(PatchType::Strategic, document, patch).unwrap();
        assert_eq!(out, json!({ "data": { "b": "2", "c": "3" }, "list": [3] }));
        let out =
            patched(PatchType::Strategic, out, json!({ "data": { "$patch": "replace", "z": "9" } })).unwrap();
        assert_eq!(out["data"], json!({ "z": "9" }));
    }

    #[test]
    fn a_json_patch_that_doubles_the_document_again_and_again_is_refused() {
        let copy = json!({ "op": "copy", "from": "/a", "path": "/a/a" });
        let error = patched(PatchType::Json, json!({ "a": {} }), Value::Array(vec![copy; 100])).unwrap_err();
        assert_eq!(error.code, 400);
        let wide = json!({ "op": "copy", "from": "/l", "path": "/l/-" });
        let error =
            patched(PatchType::Json, json!({ "l": ["x"] }), Value::Array(vec![wide; 60])).unwrap_err();
        assert!(error.code == 400 || error.code == 413);
        let long = json!({ "op": "move", "from": "/a", "path": "/b" });
        let error = patched(PatchType::Json, json!({ "a": 1 }), Value::Array(vec![long; 2])).unwrap_err();
        assert_eq!(error.code, 422);
    }
}
