//! L10: calls name calls that exist and are of the right kind; no circles; what the host runs alone needs no guest.

use crate::error::Rule;
use crate::model::*;
use crate::report::Report;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(m: &Manifest, r: &mut Report) {
    for call in m.calls.values() {
        let path = format!("calls.{}", call.name);
        if !m.endpoints.contains_key(&call.endpoint) {
            let known: Vec<&str> = m.endpoints.keys().map(String::as_str).collect();
            let message = format!("no endpoint is named `{}`", call.endpoint);
            r.unknown(Rule::L1, &format!("{path}.endpoint"), message, &call.endpoint, &known);
        }
        if let Some(lookup) = call.lookup() {
            check_lookup(m, call, lookup, &format!("{path}.lookup"), r);
        }
        for (name, arg) in &call.args {
            check_capture_source(m, call, arg, &format!("{path}.args.{name}.from"), r);
        }
        if let Some(name) = &call.confirm {
            check_confirm(m, call, name, &format!("{path}.confirm"), r);
        }
        for (target, completes) in &call.completes {
            check_completes(m, call, target, completes, &format!("{path}.completes.{target}"), r);
        }
    }
    for (name, endpoint) in &m.endpoints {
        for auth in endpoint.auth.values() {
            if let Auth::Session { login, logout, .. } = auth {
                let path = format!("endpoints.{name}.auth");
                session_call(m, login, &path, "login", r);
                if let Some(logout) = logout {
                    session_call(m, logout, &path, "logout", r);
                }
            }
        }
    }
    if let Some(name) = &m.provider.list_owned {
        let path = "provider.list-owned";
        if let Some(call) = read_call(m, name, path, r) {
            host_runs(call, path, &[], r);
            check_listed(call, path, r);
        }
    }
    circles(m, r);
}

fn find<'a>(m: &'a Manifest, name: &str, path: &str, r: &mut Report) -> Option<&'a Call> {
    let call = m.calls.get(name);
    if call.is_none() {
        let known: Vec<&str> = m.calls.keys().map(String::as_str).collect();
        r.unknown(Rule::L10, path, format!("no call is named `{name}`"), name, &known);
    }
    call
}

fn session_call(m: &Manifest, name: &str, path: &str, role: &str, r: &mut Report) {
    if find(m, name, path, r).is_some_and(|call| call.effect != EffectKind::Session) {
        r.error(Rule::L10, path, format!("the {role} `{name}` must be a call with `effect = \"session\"`"));
    }
}

fn read_call<'a>(m: &'a Manifest, name: &str, path: &str, r: &mut Report) -> Option<&'a Call> {
    let call = find(m, name, path, r)?;
    if call.effect != EffectKind::Read {
        r.error(Rule::L10, path, format!("`{name}` must be a read"));
        return None;
    }
    Some(call)
}

/// The orphan sweep compares each item's token with those that the host recorded: an item says what it is and whose.
fn check_listed(call: &Call, path: &str, r: &mut Report) {
    if call.adopts.is_empty() {
        let message =
            format!("`{}` does not say which field is the id of what, and which one its token", call.name);
        r.allowed(
            Rule::L10,
            path,
            message,
            "adopts = { KIND = { field = \"items/*/id\", proof = \"items/*/token\" } }",
        );
    }
    for (kind, adopt) in &call.adopts {
        // An item without a token is somebody else's and left alone; one without an id could not be swept.
        let optional = |end: usize| call.field_at(&adopt.field[..end]).is_some_and(|field| field.optional);
        if (1..=adopt.field.len()).any(optional) {
            let message = format!("what `{}` lists as {kind} has a mandatory id", call.name);
            r.error(Rule::L10, path, message);
        }
    }
}

/// The host runs this call without a guest: it cannot make up what a guest would have given.
fn host_runs(call: &Call, path: &str, knows: &[&Source], r: &mut Report) {
    for (name, arg) in call.args.iter().filter(|(_, arg)| !arg.optional && arg.is_given(call.effect)) {
        if !knows.contains(&&arg.from) {
            let message =
                format!("the host runs `{}` by itself and cannot know its argument `{name}`", call.name);
            r.allowed(Rule::L10, path, message, "an argument that is optional or `from` the host");
        }
    }
}

fn check_lookup(m: &Manifest, call: &Call, lookup: &Lookup, path: &str, r: &mut Report) {
    let Some(read) = read_call(m, &lookup.call, path, r) else { return };
    host_runs(read, path, &[&Source::Token], r);
    if read.endpoint != call.endpoint {
        let message = format!(
            "`{}` looks at the endpoint `{}`, but this call changes `{}`",
            read.name, read.endpoint, call.endpoint
        );
        r.error(Rule::L10, path, message);
    }
    if !read.args.values().any(|arg| arg.from == Source::Token && !arg.optional) {
        r.error(
            Rule::L10,
            path,
            format!("`{}` needs a mandatory argument `from = \"token\"` to find this effect by", read.name),
        );
    }
    let item = if lookup.item == "self" {
        if read.answers.gone.is_empty() {
            r.error(
                Rule::L10,
                path,
                format!("`item = \"self\"` needs `gone` on `{}`: how absence is told", read.name),
            );
        }
        Some(&read.fields)
    } else {
        read.fields.get(&lookup.item).and_then(|field| field.each.as_ref())
    };
    let Some(item) = item else {
        let known: Vec<&str> = read
            .fields
            .iter()
            .filter(|(_, f)| f.each.is_some())
            .map(|(n, _)| n.as_str())
            .chain(["self"])
            .collect();
        let message = format!("`{}` has no list field `{}` with `each`", read.name, lookup.item);
        r.unknown(Rule::L10, path, message, &lookup.item, &known);
        return;
    };
    check_evidence(read, lookup, item, path, r);
    for (name, field) in call.fields.iter().filter(|(_, field)| !field.optional) {
        let same = item.get(name).is_some_and(|found| {
            !found.optional
                && found.ty == field.ty
                && found.is_list() == field.is_list()
                && shape(found) == shape(field)
        });
        if !same {
            let message = format!(
                "an item of `{}` must have the mandatory field `{name}` of this call, with its type",
                read.name
            );
            r.error(Rule::L10, path, message);
        }
    }
}

/// A filter that the service ignores would show a neighbour's thing: the item itself must bear the token (hole H3).
fn check_evidence(read: &Call, lookup: &Lookup, item: &BTreeMap<String, Field>, path: &str, r: &mut Report) {
    if lookup.item == "self" {
        let mut tokens = read.args.values().filter(|arg| arg.from == Source::Token && !arg.optional);
        if !tokens.any(|arg| arg.at.iter().any(|place| matches!(place, Place::Path(_)))) {
            let message = format!(
                "`item = \"self\"` needs the token in the path of `{}`: a filter may show a neighbour (hole H3)",
                read.name
            );
            r.error(Rule::L10, path, message);
        }
        return;
    }
    let bears = item.get("token").is_some_and(|field| {
        !field.optional && !field.is_list() && matches!(field.ty, Type::Id | Type::Word)
    });
    // The loader holds a proof to the item of its field.
    let proven = read.adopts.values().any(|adopt| {
        matches!(adopt.proof.as_slice(), [list, star, name]
            if *list == lookup.item && star == "*" && item.get(name).is_some_and(|field| !field.optional))
    });
    if !bears && !proven {
        let message = format!(
            "an item of `{}` does not show whose it is: a filter may be ignored and list neighbours (hole H3)",
            read.name
        );
        r.allowed(
            Rule::L10,
            path,
            message,
            "a mandatory field `token` (id or word), or an `adopts` with its `proof`",
        );
    }
}

/// Names and types below a list of tables.
fn shape(field: &Field) -> Vec<(String, Type, bool)> {
    let inner = field.each.iter().flatten();
    inner.filter(|(_, f)| !f.optional).map(|(name, f)| (name.clone(), f.ty, f.is_list())).collect()
}

/// In session calls `from` names a capture; elsewhere it names a field, which the types already found.
fn check_capture_source(m: &Manifest, call: &Call, arg: &Arg, path: &str, r: &mut Report) {
    let (Source::Field { call: origin, field }, EffectKind::Session) = (&arg.from, call.effect) else {
        return;
    };
    let Some(origin) = find(m, origin, path, r) else { return };
    let captured = origin.captures.get(field).is_some_and(|capture| capture.to == CaptureTo::Session);
    if origin.effect != EffectKind::Session || !captured {
        let known: Vec<&str> = origin.captures.keys().map(String::as_str).collect();
        let message = format!("the session call `{}` has no capture `{field}`", origin.name);
        r.unknown(Rule::L10, path, message, field, &known);
    }
}

/// The host asks for one target by itself, through the binding that owns it.
fn check_confirm(m: &Manifest, call: &Call, name: &str, path: &str, r: &mut Report) {
    let Some(read) = read_call(m, name, path, r) else { return };
    if read.endpoint != call.endpoint {
        let message = format!(
            "`{}` looks at the endpoint `{}`, but this call destroys at `{}`",
            read.name, read.endpoint, call.endpoint
        );
        r.error(Rule::L10, path, message);
    }
    let aimed = read.confirming().map(|(name, _)| name);
    let others = |name: &str, arg: &Arg| Some(name) != aimed && !arg.optional && arg.is_given(read.effect);
    if let Some((name, _)) = read.args.iter().find(|(name, arg)| others(name, arg)) {
        let message =
            format!("the host runs `{}` by itself and cannot know its argument `{name}`", read.name);
        r.allowed(
            Rule::L10,
            path,
            message,
            "one argument of the guest with `on`, the others `from` the host",
        );
    }
}

fn check_completes(
    m: &Manifest,
    read: &Call,
    target: &str,
    completes: &Completes,
    path: &str,
    r: &mut Report,
) {
    let Some(create) = find(m, target, path, r) else { return };
    if create.effect != EffectKind::Create || read.effect != EffectKind::Read {
        r.error(Rule::L10, path, "a read completes a create");
    }
    let from_create = read.args.get(&completes.arg).is_some_and(|arg| {
        !arg.optional && matches!(&arg.from, Source::Field { call, .. } if call == target)
    });
    if !from_create {
        let message =
            format!("`arg` names a mandatory argument of this read with `from = \"{target}.FIELD\"`");
        r.error(Rule::L10, path, message);
    }
    if let Some(when) = &completes.when {
        let scalar = read.fields.get(&when.field).is_some_and(|f| !f.is_list() && f.ty != Type::Sealed);
        if !scalar {
            let known: Vec<&str> = read.fields.keys().map(String::as_str).collect();
            let message = format!("`when` needs a plain field of this read; `{}` is none", when.field);
            r.unknown(Rule::L10, path, message, &when.field, &known);
        }
    }
}

/// A call that needs, in the end, itself can never be made.
fn circles(m: &Manifest, r: &mut Report) {
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for call in m.calls.values() {
        let out = edges.entry(call.name.as_str()).or_default();
        for arg in call.args.values().filter(|arg| !arg.optional) {
            if let Source::Field { call: origin, .. } = &arg.from {
                out.insert(origin.as_str());
            }
        }
        let Some(endpoint) = m.endpoints.get(&call.endpoint) else { continue };
        for auth in endpoint.auth.values() {
            if let Auth::Session { login, logout, .. } = auth {
                // The login of an endpoint is itself sent without that login; its logout belongs to it.
                if *login != call.name && logout.as_ref() != Some(&call.name) {
                    out.insert(login.as_str());
                }
            }
        }
    }
    for start in m.calls.keys() {
        let mut seen = BTreeSet::new();
        let mut open = vec![start.as_str()];
        while let Some(name) = open.pop() {
            for next in edges.get(name).into_iter().flatten().copied() {
                if next == start {
                    let message = format!("`{start}` needs itself, by way of `{name}`: a circle");
                    r.error(Rule::L10, &format!("calls.{start}"), message);
                } else if seen.insert(next) {
                    open.push(next);
                }
            }
        }
    }
}
