//! The difference in meaning between two revisions of a manifest, for an operator who is asked again.

use crate::digest::canonical;
use crate::model::{Call, Manifest};
use serde_json::Value;
use std::collections::BTreeMap;

impl Manifest {
    /// What is new, gone and changed against an older revision. Empty exactly where the call set is the same.
    pub fn diff(&self, old: &Manifest) -> Vec<String> {
        if self.call_set == old.call_set {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let before: BTreeMap<String, String> = old.facts().into_iter().collect();
        let now = self.facts();
        for (key, sentence) in &now {
            match before.get(key) {
                None => lines.push(format!("new: {sentence}")),
                Some(was) if was != sentence => lines.push(format!("changed: {sentence} (was: {was})")),
                Some(_) => {}
            }
        }
        for (key, sentence) in old.facts() {
            if !now.iter().any(|(known, _)| *known == key) {
                lines.push(format!("gone: {sentence}"));
            }
        }
        for (name, call) in &self.calls {
            if let Some(was) = old.calls.get(name) {
                let parts = changed_parts(call, was);
                if !parts.is_empty() {
                    lines.push(format!("changed: call {name} differs in {}.", parts.join(", ")));
                }
            }
        }
        if lines.is_empty() {
            lines.push(
                "changed: details of [provider], an endpoint or a credential that no sentence speaks of."
                    .to_owned(),
            );
        }
        lines
    }
}

/// Top-level parts of a call that are not the same.
fn changed_parts(call: &Call, was: &Call) -> Vec<String> {
    let parts = |call: &Call| match serde_json::to_value(call) {
        Ok(Value::Object(map)) => map.into_iter().collect::<BTreeMap<String, Value>>(),
        _ => BTreeMap::new(),
    };
    let text = |value: Option<&Value>| {
        let mut out = String::new();
        canonical(value.unwrap_or(&Value::Null), &mut out);
        out
    };
    let (now, before) = (parts(call), parts(was));
    now.keys()
        .filter(|key| text(now.get(*key)) != text(before.get(*key)))
        .map(|key| key.replace('_', "-"))
        .collect()
}
