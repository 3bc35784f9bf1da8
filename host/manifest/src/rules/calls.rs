//! L4 to L7: who may supply what beside first-boot data, tokens, credentials, and the host's own session calls.

use super::Grant;
use crate::error::Rule;
use crate::model::*;
use crate::report::Report;

pub(super) fn check(m: &Manifest, r: &mut Report) {
    for call in m.calls.values() {
        let path = format!("calls.{}", call.name);
        if call.has_user_data() {
            beside_user_data(m, call, &path, r);
        }
        tokens(call, &path, r);
        if call.effect == EffectKind::Session {
            session(call, &path, r);
        }
        for (name, slot) in &call.slots {
            if matches!(slot.kind, SlotKind::Generated { .. }) && !call.effect.mutates() {
                r.error(
                    Rule::L6,
                    &format!("{path}.slots.{name}"),
                    "a generated secret belongs to a call that makes something",
                );
            }
        }
    }
}

/// L4 (hole H2): the guest chooses neither who receives first-boot data nor what stands beside it.
fn beside_user_data(m: &Manifest, call: &Call, path: &str, r: &mut Report) {
    if !matches!(call.effect, EffectKind::Create | EffectKind::Update) {
        r.error(Rule::L4, path, "first-boot data fills a slot of a create or an update only");
    }
    for (name, arg) in call.args.iter().filter(|(_, arg)| arg.from == Source::Guest) {
        let narrow =
            matches!(arg.ty, Type::Int | Type::Bool) && arg.one_of.is_empty() || !arg.one_of.is_empty();
        if !narrow && arg.on.is_none() {
            let message = "beside first-boot data an argument of the guest is int, bool, one-of or has `on`";
            let allowed =
                "`from` the host: token, host-image, host-name, offering.*, config:K, binding:V, CALL.FIELD";
            r.allowed(Rule::L4, &format!("{path}.args.{name}"), message, allowed);
        }
    }
    for (name, arg) in &call.args {
        let Source::Field { call: origin, .. } = &arg.from else { continue };
        let condition = arg.at.iter().all(|place| *place == Place::Header("if-match".to_owned()));
        let picked = m.calls.get(origin).is_some_and(|origin| origin.effect == EffectKind::Read);
        if picked && arg.on.is_none() && !condition {
            let message = format!(
                "the guest may pick among what the read `{origin}` returns, and so choose who receives"
            );
            r.allowed(
                Rule::L4,
                &format!("{path}.args.{name}"),
                message,
                "`on`, or a field of a call that changes something",
            );
        }
    }
    for (name, field) in &call.fields {
        fields_beside(field, &format!("{path}.fields.{name}"), r);
    }
}

fn fields_beside(field: &Field, path: &str, r: &mut Report) {
    if let Some(each) = &field.each {
        for (name, inner) in each {
            fields_beside(inner, &format!("{path}.each.{name}"), r);
        }
        return;
    }
    let in_header = field.at.iter().all(|place| matches!(place, Place::Header(_)));
    match field.ty {
        Type::Text(_) => r.error(Rule::L4, path, "a call with first-boot data returns no text"),
        Type::Sealed if !in_header => {
            r.error(Rule::L4, path, "a call with first-boot data returns sealed values from headers only");
        }
        _ => {}
    }
}

/// L5: a token is a name that the host derives.
fn tokens(call: &Call, path: &str, r: &mut Report) {
    let mut named_by_host = false;
    for (name, arg) in &call.args {
        let path = format!("{path}.args.{name}");
        if arg.from != Source::Token {
            if matches!(arg.format, ArgFormat::Uuid | ArgFormat::Int(..)) {
                r.error(Rule::L5, &format!("{path}.format"), "`uuid` and `int:A-B` are forms of a token");
            }
            continue;
        }
        if !matches!(arg.ty, Type::Id | Type::Word | Type::Int) {
            r.allowed(
                Rule::L5,
                &path,
                format!("a token is a name, not a value of type {}", arg.ty),
                "id, word, or int with `format = \"int:A-B\"`",
            );
        }
        if arg.ty == Type::Int && !matches!(arg.format, ArgFormat::Int(..)) {
            r.error(Rule::L5, &path, "a token as a number needs `format = \"int:A-B\"`");
        }
        if arg.at.iter().any(Place::is_list) || arg.at.contains(&Place::Url) {
            r.error(Rule::L5, &path, "a token is one name, neither a list nor a target");
        }
        if call.effect.mutates() && arg.optional {
            r.error(Rule::L5, &path, "the host always has the token of a mutating call; it is not optional");
        }
        if call.effect == EffectKind::Session {
            r.error(Rule::L5, &path, "a session call has no key to derive a token from");
        }
        named_by_host |= !arg.optional && arg.at.iter().any(|place| matches!(place, Place::Path(_)));
    }
    if call.effect == EffectKind::Create && call.method == Method::Put && !named_by_host {
        let message =
            "a PUT create needs its name from the host, or it may overwrite what is there (hole H3)";
        r.allowed(Rule::L5, path, message, "an argument in the path with `from = \"token\"`");
    }
}

/// L7: what only the host runs takes nothing from a guest and gives nothing to it.
fn session(call: &Call, path: &str, r: &mut Report) {
    for (name, arg) in &call.args {
        if arg.from == Source::Guest {
            r.error(Rule::L7, &format!("{path}.args.{name}"), "a session call has no argument of the guest");
        } else if !matches!(arg.from, Source::Binding(_) | Source::Field { .. }) {
            let message =
                "a session outlives one operation: its arguments come from the binding or from the login";
            r.allowed(Rule::L7, &format!("{path}.args.{name}"), message, "binding:V, LOGIN.CAPTURE");
        }
    }
    for name in call.fields.keys() {
        r.error(Rule::L7, &format!("{path}.fields.{name}"), "a session call shows nothing to the guest");
    }
    for (name, slot) in &call.slots {
        if !matches!(slot.kind, SlotKind::Credential(_)) {
            r.error(
                Rule::L7,
                &format!("{path}.slots.{name}"),
                "a session call has slots for credentials only",
            );
        }
    }
}

/// L6: credentials outside logins and `auth`, and credentials in a URL.
pub(super) fn grants(m: &Manifest) -> Vec<Grant> {
    let mut grants = Vec::new();
    for call in m.calls.values() {
        if call.effect != EffectKind::Session {
            for slot in call.slots.values() {
                if let SlotKind::Credential(format) = &slot.kind {
                    let why = format!(
                        "sends the credential {} at {}, outside of any login",
                        format.text(),
                        slot.at
                    );
                    grants.push(Grant { call: call.name.clone(), why, rule: Rule::L6 });
                }
            }
        }
        let Some(endpoint) = m.endpoints.get(&call.endpoint) else { continue };
        for auth in endpoint.auth.values() {
            let put = match auth {
                Auth::None | Auth::Sigv4(_) => continue,
                Auth::Session { login, .. } if *login == call.name => continue,
                Auth::Put { put } | Auth::Session { put, .. } => put,
            };
            for (place, _) in put.iter().filter(|(place, _)| matches!(place, Place::Query(_))) {
                let why = format!("carries its credential at {place}, in the URL, where logs keep it");
                grants.push(Grant { call: call.name.clone(), why, rule: Rule::L6 });
            }
        }
    }
    grants
}
