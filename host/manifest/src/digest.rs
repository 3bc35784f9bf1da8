//! The digest that an operator approves: everything that a manifest declares, except its version.

use crate::model::Manifest;
use data_encoding::HEXLOWER;
use serde_json::Value;

/// SHA-256 over the canonical text, lower-case hex.
pub(crate) fn call_set(manifest: &Manifest) -> String {
    let mut value = serde_json::to_value(manifest).unwrap_or(Value::Null);
    if let Some(root) = value.as_object_mut() {
        root.remove("call_set");
        if let Some(provider) = root.get_mut("provider").and_then(Value::as_object_mut) {
            provider.remove("version");
        }
    }
    let mut text = String::from("holdfast call set 1\n");
    canonical(&value, &mut text);
    HEXLOWER.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref())
}

/// JSON with sorted keys and no blanks, whatever map the JSON crate was built with.
pub(crate) fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (n, key) in keys.into_iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                canonical(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}
