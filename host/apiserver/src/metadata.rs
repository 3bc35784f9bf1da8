//! Rules of `metadata`: names, labels, annotations, finalizers, and which fields belong to the server.

use serde_json::{Map, Value, json};

use crate::registry::Kind;
use crate::status::Cause;

/// Most bytes of all annotations together (Kubernetes' own limit).
const MAX_ANNOTATIONS: usize = 256 << 10;
/// Fields that only the server sets; on an update they stay as they are.
const SERVER_FIELDS: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
];
/// Fields that are not kept at all.
const DROPPED: [&str; 2] = ["managedFields", "selfLink"];

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// The metadata of an object as a map; made if there is none.
pub(crate) fn of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let object = object.as_object_mut()?;
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    metadata.as_object_mut()
}

/// Sets the server's fields of a new object.
pub(crate) fn stamp_new(
    metadata: &mut Map<String, Value>,
    kind: &Kind,
    namespace: &str,
    name: &str,
    now: String,
) {
    for field in SERVER_FIELDS.iter().chain(&DROPPED) {
        metadata.remove(*field);
    }
    metadata.remove("resourceVersion");
    metadata.insert("name".into(), name.into());
    metadata.insert("uid".into(), new_uid().into());
    metadata.insert("creationTimestamp".into(), now.into());
    if kind.namespaced {
        metadata.insert("namespace".into(), namespace.into());
    }
    if kind.custom {
        metadata.insert("generation".into(), 1.into());
    }
}

/// Sets the server's fields of a changed object as they were.
pub(crate) fn carry_over(new: &mut Map<String, Value>, old: &Value) {
    for field in SERVER_FIELDS.iter().chain(&["name", "generateName", "resourceVersion"]) {
        match old.get(*field) {
            Some(value) => drop(new.insert((*field).to_owned(), value.clone())),
            None => drop(new.remove(*field)),
        }
    }
    for field in DROPPED {
        new.remove(field);
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match new.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if empty {
            new.remove(field);
        }
    }
}

/// Adds to `causes` what is wrong with metadata of the right types.
pub(crate) fn validate(metadata: &Value, kind: &Kind, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if old.is_none() {
        validate_name(&metadata["name"], kind, causes);
    }
    let entries = |field: &str| metadata[field].as_object().into_iter().flatten();
    for (key, value) in entries("labels") {
        validate_qualified(key, "metadata.labels", causes);
        let text = value.as_str().unwrap_or_default();
        if text.len() > 63 {
            causes.push(Cause::too_long("metadata.labels", 63));
        } else if !is_label_value(text) {
            causes.push(Cause::invalid("metadata.labels", value, LABEL_VALUE));
        }
    }
    let mut bytes = 0;
    for (key, value) in entries("annotations") {
        validate_qualified(&key.to_lowercase(), "metadata.annotations", causes);
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MAX_ANNOTATIONS {
        causes.push(Cause::too_long("metadata.annotations", MAX_ANNOTATIONS as u64));
    }
    for finalizer in metadata["finalizers"].as_array().into_iter().flatten() {
        validate_qualified(finalizer.as_str().unwrap_or_default(), "metadata.finalizers", causes);
    }
    if let Some(old) = old
        && !old["deletionTimestamp"].is_null()
    {
        refuse_new_finalizers(metadata, old, causes);
    }
}

fn refuse_new_finalizers(metadata: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let list = |m: &Value| m["finalizers"].as_array().cloned().unwrap_or_default();
    let before = list(old);
    let added: Vec<String> =
        list(metadata).iter().filter(|f| !before.contains(f)).map(Value::to_string).collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        causes.push(Cause::forbidden("metadata.finalizers", detail));
    }
}

fn validate_name(name: &Value, kind: &Kind, causes: &mut Vec<Cause>) {
    let text = name.as_str().unwrap_or_default();
    if text.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if kind.plural == "namespaces" {
        if text.len() > 63 || !is_label(text) {
            causes.push(Cause::invalid("metadata.name", name, LABEL));
        }
    } else if text.len() > 253 || !text.split('.').all(is_label) {
        causes.push(Cause::invalid("metadata.name", name, SUBDOMAIN));
    }
}

fn validate_qualified(key: &str, field: &str, causes: &mut Vec<Cause>) {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix
        && (prefix.is_empty() || prefix.len() > 253 || !prefix.split('.').all(is_label))
    {
        causes.push(Cause::invalid(field, &json!(key), format!("prefix part {SUBDOMAIN}")));
    }
    if name.is_empty() || name.len() > 63 || !is_label_value(name) {
        causes.push(Cause::invalid(field, &json!(key), QUALIFIED));
    }
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|&b| inner(b) || b == b'-')
        && bytes.first().is_some_and(|&b| inner(b))
        && bytes.last().is_some_and(|&b| inner(b))
}

fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
}

/// Random bytes from the system. Without them nothing here may go on.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; N];
    if ring::rand::SystemRandom::new().fill(&mut bytes).is_err() {
        tracing::error!("the system gives no random bytes");
        std::process::abort();
    }
    bytes
}

/// A version 7 UUID (RFC 9562): of two objects that this process makes, the later one has the greater uid, though both
/// bear the same second as their `creationTimestamp`. The order of operations on a machine rests on it (R2.18).
pub(crate) fn new_uid() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// A name from `generateName`: five letters that form no words.
pub(crate) fn generate_name(base: &str) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let base = &base[..base.floor_char_boundary(58)];
    let tail: String =
        random::<5>().iter().map(|b| char::from(LETTERS[usize::from(*b) % LETTERS.len()])).collect();
    format!("{base}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_ascend_in_the_order_of_creation_r2_18() {
        let uids: Vec<_> = (0..10_000).map(|_| new_uid()).collect();
        assert!(uids.is_sorted_by(|a, b| a < b));
    }
}
