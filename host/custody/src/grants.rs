//! What an operator must grant by name, and what custody re-checks of a manifest before it serves it (L3, L6, L9).

use crate::errors::RegisterError;
use crate::request::headers::{auth_name, declared_name};
use holdfast_manifest::{Auth, Call, Manifest, Place, SlotKind};
use std::collections::BTreeSet;

pub(crate) fn check(manifest: &Manifest, granted: &BTreeSet<String>) -> Result<(), RegisterError> {
    for need in manifest.needs_grants() {
        if !granted.contains(&need.call) {
            let (call, why, rule) = (need.call, need.why, need.rule.to_string());
            return Err(RegisterError::CallNotGranted { call, why, rule });
        }
    }
    for call in manifest.calls.values() {
        if sends_data_to_anybody(manifest, call) && !granted.contains(&call.name) {
            let why = "sends first-boot data without the operator's credentials".to_owned();
            return Err(RegisterError::CallNotGranted {
                call: call.name.clone(),
                why,
                rule: "attack 38".into(),
            });
        }
        recheck(manifest, call).map_err(|why| RegisterError::Manifest { call: call.name.clone(), why })?;
    }
    Ok(())
}

/// First-boot data goes out with the operator's credentials only, else it could go to anybody's account (attack 38).
fn sends_data_to_anybody(manifest: &Manifest, call: &Call) -> bool {
    let user_data = call.slots.values().any(|slot| slot.kind == SlotKind::UserData);
    let endpoint = manifest.endpoints.get(&call.endpoint);
    user_data && endpoint.is_none_or(|endpoint| endpoint.auth.values().any(|auth| *auth == Auth::None))
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
    for (name, field) in &call.fields {
        let digest = |place: &Place| matches!(place, Place::Header(header) if is_withheld_header(header));
        if field.at.iter().any(digest) {
            return Err(format!(
                "field `{name}` is a header that repeats or digests what was sent (attacks 6 and 16)"
            ));
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

/// Headers of a reply that repeat the request, set state, or are digests of what was sent (attacks 6, 16). An ETag may
/// be carried sealed.
fn is_withheld_header(name: &str) -> bool {
    const WITHHELD: &[&str] = &[
        "set-cookie",
        "www-authenticate",
        "authentication-info",
        "authorization",
        "content-md5",
        "digest",
        "content-digest",
        "repr-digest",
        "sec-websocket-accept",
        "signature",
    ];
    WITHHELD.contains(&name) || name.contains("checksum") || name.starts_with("access-control-")
}
