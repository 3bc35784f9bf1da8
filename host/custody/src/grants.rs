//! What an operator must grant by name, and what custody re-checks of a manifest before it serves it (L3, L6, L9).

use crate::errors::RegisterError;
use crate::request::headers::{auth_name, declared_name};
use holdfast_manifest::{Auth, Body, Call, EffectKind, Manifest, PathPart, Place, SlotKind};
use std::collections::BTreeSet;

/// Parts of names that read a secret back (L9), without case and separators.
const RISKY_PARTS: &[&str] = &["userdata", "customdata", "console", "kubeconfig", "password", "secret"];
const RISKY_WORDS: &[&str] = &["metadata", "token", "tokens", "output", "outputs", "screenshot", "serial"];

pub(crate) fn check(manifest: &Manifest, granted: &BTreeSet<String>) -> Result<(), RegisterError> {
    for call in manifest.calls.values() {
        if let Some((why, rule)) = needs_grant(manifest, call)
            && !granted.contains(&call.name)
        {
            return Err(RegisterError::CallNotGranted { call: call.name.clone(), why, rule });
        }
        recheck(manifest, call).map_err(|why| RegisterError::Manifest { call: call.name.clone(), why })?;
    }
    Ok(())
}

/// Why a call needs the operator's grant by name, and the rule that says so.
fn needs_grant(manifest: &Manifest, call: &Call) -> Option<(String, String)> {
    let endpoint = manifest.endpoints.get(&call.endpoint)?;
    let needs = |why: &str, rule: &str| Some((why.to_owned(), rule.to_owned()));
    let puts = endpoint.auth.values().flat_map(|auth| match auth {
        Auth::None => [].as_slice(),
        Auth::Put { put } | Auth::Session { put, .. } => put.as_slice(),
    });
    let mut puts = puts.map(|(place, _)| place);
    if call.effect != EffectKind::Session && puts.any(|place| matches!(place, Place::Query(_))) {
        return needs("puts a credential into the query", "attack 42");
    }
    if call.slots.values().any(|slot| matches!(slot.at, Place::Query(_))) {
        return needs("puts a secret into the query", "attack 42");
    }
    if call.effect == EffectKind::Session {
        return None;
    }
    if call.slots.values().any(|slot| matches!(slot.kind, SlotKind::Credential(_))) {
        return needs("puts a credential into the request outside login", "rule L6");
    }
    let user_data = call.slots.values().any(|slot| slot.kind == SlotKind::UserData);
    if user_data && endpoint.auth.values().any(|auth| *auth == Auth::None) {
        return needs("sends first-boot data without the operator's credentials", "attack 38");
    }
    let mut constants: Vec<String> = Vec::new();
    if let Some(path) = &call.path {
        for part in &path.parts {
            if let PathPart::Literal(literal) = part {
                constants.extend(literal.split('/').map(str::to_owned));
            }
        }
        let query = path.query.as_deref().unwrap_or_default();
        constants.extend(
            url::form_urlencoded::parse(query.as_bytes()).flat_map(|(k, v)| [k.into_owned(), v.into_owned()]),
        );
    }
    if let Body::Form(pairs) = &call.body {
        let action = |key: &str| matches!(key, "Action" | "Attribute" | "action" | "attribute");
        constants.extend(pairs.iter().filter(|(key, _)| action(key)).map(|(_, value)| value.clone()));
    }
    if constants.iter().any(|constant| is_risky(constant)) {
        return needs("reads or writes a place where secrets stand", "rule L9");
    }
    None
}

/// Does a path segment or an action name a place of secrets (attacks 4, 5)?
pub(crate) fn is_risky(constant: &str) -> bool {
    let name: String =
        constant.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    RISKY_WORDS.contains(&name.as_str()) || RISKY_PARTS.iter().any(|part| name.contains(part))
}

/// Fail-closed checks of what the loader has checked already, at the last place where it matters.
fn recheck(manifest: &Manifest, call: &Call) -> Result<(), String> {
    let endpoint = manifest.endpoints.get(&call.endpoint).ok_or("its endpoint is not declared")?;
    for (name, value) in endpoint.headers.iter().chain(&call.headers) {
        declared_name(name).ok_or_else(|| format!("header `{name}` is not a module's to set (attack 34)"))?;
        crate::request::headers::value(value).ok_or_else(|| format!("header `{name}` has an odd value"))?;
    }
    for arg in call.args.values() {
        for place in &arg.at {
            if let Place::Header(name) = place {
                declared_name(name)
                    .ok_or_else(|| format!("header `{name}` is not a guest's to set (attack 34)"))?;
            }
        }
    }
    for (name, slot) in &call.slots {
        match &slot.at {
            Place::Header(header) => {
                auth_name(header).ok_or_else(|| format!("header `{header}` takes no secret"))?;
            }
            Place::Path(_) | Place::Url => {
                return Err(format!("slot `{name}` would put a secret into the path"));
            }
            _ => {}
        }
    }
    for auth in endpoint.auth.values() {
        let (Auth::Put { put } | Auth::Session { put, .. }) = auth else { continue };
        for (place, _) in put {
            match place {
                Place::Header(name) if auth_name(name).is_some() => {}
                Place::Query(_) => {}
                _ => return Err("authentication goes to a place that is neither header nor query".into()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_secrets_are_risky_by_any_spelling_attacks_4_and_5() {
        for evil in [
            "user-data",
            "user_data",
            "userData",
            "GetConsoleOutput",
            "console",
            "kubeconfig",
            "metadata",
            "tokens",
        ] {
            assert!(is_risky(evil), "{evil}");
        }
        for good in ["servers", "v1", "Systems", "actions", "instances", "DescribeInstances", ""] {
            assert!(!is_risky(good), "{good}");
        }
    }
}
