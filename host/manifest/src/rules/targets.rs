//! L3: what changes or destroys has a target, of a kind that the host can compare (hole H4).

use crate::error::Rule;
use crate::model::*;
use crate::report::Report;
use std::collections::BTreeSet;

pub(super) fn check(m: &Manifest, r: &mut Report) {
    let kinds = kinds(m);
    for call in m.calls.values() {
        let path = format!("calls.{}", call.name);
        let aimed: Vec<&Arg> = call.args.values().filter(|arg| arg.on.is_some() && !arg.optional).collect();
        match call.effect {
            EffectKind::Destroy if !aimed.iter().any(|arg| arg.at.iter().any(names_one)) => {
                let message = "a destroy needs a mandatory argument with `on`, in the path, the body or as `url`: a filter destroys by the dozen";
                r.error(Rule::L3, &path, message);
            }
            EffectKind::Update if aimed.is_empty() => {
                let message = "an update needs a mandatory argument with `on`; without a target it is a create with `creates`";
                r.error(Rule::L3, &path, message);
            }
            _ => {}
        }
        method(call, &path, r);
        hidden_method(call, &path, r);
        for (name, arg) in &call.args {
            if call.effect.mutates() {
                free_aim(call, arg, &format!("{path}.args.{name}"), r);
            }
            if let Some(kind) = &arg.on {
                check_on(m, call, arg, kind, &kinds, &format!("{path}.args.{name}.on"), r);
            }
        }
    }
}

/// An effect is what a call does, whatever its method; but some methods contradict it.
fn method(call: &Call, path: &str, r: &mut Report) {
    let contradicts = match call.effect {
        EffectKind::Read => matches!(call.method, Method::Put | Method::Patch | Method::Delete),
        EffectKind::Create => matches!(call.method, Method::Get | Method::Head | Method::Delete),
        _ => false,
    };
    if contradicts {
        let effect = if call.effect == EffectKind::Read { "read" } else { "create" };
        let why = match call.method {
            Method::Get | Method::Head => "it makes nothing, and what it lists would count as made (hole H3)",
            _ => "it would need no target",
        };
        let message = format!("a {} is no {effect}: {why}", call.method.as_str());
        r.error(Rule::L3, &format!("{path}.effect"), message);
    }
}

/// Names by which some frameworks let a POST be something else.
const METHOD_KEYS: &[&str] =
    &["_method", "_httpmethod", "x-http-method-override", "x-http-method", "x-method-override"];

fn hidden_method(call: &Call, path: &str, r: &mut Report) {
    let mut keys = call.path.as_ref().map(PathTemplate::query_keys).unwrap_or_default();
    if let Body::Form(pairs) = &call.body {
        keys.extend(pairs.iter().map(|(key, _)| key.clone()));
    }
    for place in call.args.values().flat_map(|arg| &arg.at) {
        if let Place::Query(key) | Place::Form(key) = place {
            keys.push(key.clone());
        }
    }
    if let Some(key) = keys.iter().find(|key| METHOD_KEYS.contains(&key.to_ascii_lowercase().as_str())) {
        r.error(Rule::L3, path, format!("`{key}` hides the method; write it as `method`"));
    }
}

/// A second argument must not be the real target: what the guest gives freely aims at nothing.
fn free_aim(call: &Call, arg: &Arg, path: &str, r: &mut Report) {
    if arg.from != Source::Guest || arg.on.is_some() || !arg.one_of.is_empty() {
        return;
    }
    let in_path = arg.at.iter().any(|place| matches!(place, Place::Path(_)));
    let names = match call.effect {
        EffectKind::Create | EffectKind::Destroy => !matches!(arg.ty, Type::Int | Type::Bool),
        EffectKind::Update => matches!(arg.ty, Type::Id | Type::Path),
        _ => false,
    };
    if in_path || names {
        let message = "this may name the real target of a call that changes something; it needs `on`";
        r.allowed(Rule::L3, path, message, "on = KIND, one-of, or a `from` other than the guest");
    }
}

/// Does a value at this place name the thing itself, not a filter over things?
pub(super) fn names_one(place: &Place) -> bool {
    !matches!(place, Place::Query(_) | Place::Header(_))
}

/// Kinds that the host can know a value of: parsed out of the provider ID, read from the machine object, recorded.
fn kinds(m: &Manifest) -> BTreeSet<&str> {
    let mut kinds: BTreeSet<&str> = m.provider.targets.keys().map(String::as_str).collect();
    kinds.extend(m.provider.provider_id.iter().flat_map(ProviderIdPattern::kinds));
    for call in m.calls.values() {
        kinds.extend(call.creates.keys().chain(call.adopts.keys()).map(String::as_str));
    }
    kinds
}

fn check_on(
    m: &Manifest,
    call: &Call,
    arg: &Arg,
    kind: &str,
    kinds: &BTreeSet<&str>,
    path: &str,
    r: &mut Report,
) {
    if !kinds.contains(kind) {
        let known: Vec<&str> = kinds.iter().copied().collect();
        let message = format!("the host knows no target of kind `{kind}`");
        r.unknown(Rule::L3, path, message, kind, &known);
        return;
    }
    if !matches!(arg.from, Source::Guest | Source::Field { .. }) {
        r.error(Rule::L3, path, "`on` checks what a guest gives; this argument comes from the host");
    }
    if !arg.one_of.is_empty()
        || !matches!(arg.ty, Type::Id | Type::Path | Type::Word | Type::Int | Type::Sealed)
    {
        r.error(Rule::L3, path, "a target is an id, a path or a sealed value");
    }
    let changes = matches!(call.effect, EffectKind::Update | EffectKind::Destroy);
    if changes && m.provider.provider_id.is_none() && !m.provider.targets.contains_key(kind) {
        let message = format!(
            "`provider-id` in [provider] is required to compare targets of kind `{kind}` with the machine"
        );
        r.error(Rule::L3, path, message);
    }
}
