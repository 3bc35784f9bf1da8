//! Signed endpoints (`sigv4`): what the signature covers is what is sent, and nobody but the host writes it.

use crate::error::Rule;
use crate::model::*;
use crate::report::Report;

/// Headers that the signature writes.
pub(super) const HEADERS: [&str; 4] =
    ["authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"];

pub(super) fn check(m: &Manifest, r: &mut Report) {
    for (name, endpoint) in &m.endpoints {
        for (auth_name, auth) in &endpoint.auth {
            let Auth::Sigv4(signed) = auth else { continue };
            if m.credentials.get(&signed.secret).is_some_and(|key| key.public) {
                let path = path(name, endpoint, auth_name);
                r.error(Rule::L6, &format!("{path}.secret"), "what signs is a secret, so it is not `public`");
            }
            for call in m.calls.values().filter(|call| call.endpoint == *name) {
                check_call(call, r);
            }
        }
    }
}

/// Where an alternative of `auth` stands in the file.
pub(super) fn path(name: &str, endpoint: &Endpoint, auth: &str) -> String {
    let single = endpoint.auth.len() == 1 && auth == "default";
    if single {
        format!("endpoints.{name}.auth.sigv4")
    } else {
        format!("endpoints.{name}.auth.{auth}.sigv4")
    }
}

fn check_call(call: &Call, r: &mut Report) {
    let path = format!("calls.{}", call.name);
    if call.effect == EffectKind::Session {
        r.error(
            Rule::L7,
            &format!("{path}.endpoint"),
            "a session call is not signed: its endpoint has no `sigv4`",
        );
    }
    let mut keys: Vec<String> = Vec::new();
    if let Some(template) = &call.path {
        keys.extend(template.query_keys());
        if template.query.as_deref().is_some_and(|query| !is_canonical(query)) {
            let message = "the constant query of a signed call has one spelling";
            r.allowed(
                Rule::L1,
                &format!("{path}.path"),
                message,
                "letters, digits, `-._~`, and %XX for the rest",
            );
        }
    }
    if let Body::Form(pairs) = &call.body {
        keys.extend(pairs.iter().map(|(key, _)| key.clone()));
    }
    let filled = call.args.values().flat_map(|arg| &arg.at).chain(call.slots.values().map(|slot| &slot.at));
    for place in filled.chain(call.pages.iter().map(|pages| &pages.into)) {
        if let Place::Query(key) | Place::Form(key) = place {
            keys.push(key.clone());
        }
    }
    // A signature in a URL is good for whoever reads it (attack 46).
    if let Some(key) = keys.iter().find(|key| key.to_ascii_lowercase().starts_with("x-amz-")) {
        r.error(Rule::L6, &path, format!("`{key}` belongs to presigned URLs, which are not offered"));
    }
}

/// `k=v&k=v` of unreserved characters (RFC 3986 section 2.3) and upper-case escapes.
fn is_canonical(query: &str) -> bool {
    let bytes = query.as_bytes();
    let upper_hex = |at: usize| bytes.get(at).is_some_and(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
    bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => upper_hex(at + 1) && upper_hex(at + 2),
        b'&' | b'=' | b'-' | b'.' | b'_' | b'~' => true,
        other => other.is_ascii_alphanumeric(),
    })
}
