//! L1, first half: everything named is used, and everything used is named.

use crate::error::Rule;
use crate::model::*;
use crate::report::Report;
use std::collections::BTreeSet;

pub(super) fn check(m: &Manifest, r: &mut Report) {
    endpoints(m, r);
    credentials(m, r);
    sessions(m, r);
    for call in m.calls.values() {
        holes(call, r);
        error_words(m, call, r);
        pages(call, r);
    }
    if !m.provider.targets.is_empty() && m.provider.machine_kind.is_none() {
        r.error(
            Rule::L1,
            "provider.targets",
            "`targets` reads the machine object: `machine-kind` is required",
        );
    }
}

fn endpoints(m: &Manifest, r: &mut Report) {
    for (name, endpoint) in &m.endpoints {
        let path = format!("endpoints.{name}");
        let calls: Vec<&Call> = m.calls.values().filter(|call| call.endpoint == *name).collect();
        if calls.is_empty() {
            r.error(Rule::L1, &path, "no call uses this endpoint");
        }
        if matches!(endpoint.per, Per::Machine { .. }) && m.provider.machine_kind.is_none() {
            r.error(Rule::L1, &path, "`per = \"machine\"` needs `machine-kind` in [provider]");
        }
        let mut used = BTreeSet::new();
        for call in calls {
            for (arg_name, arg) in &call.args {
                let Source::Binding(var) = &arg.from else { continue };
                used.insert(var);
                if !endpoint.vars.contains(var) {
                    let known: Vec<&str> = endpoint.vars.iter().map(String::as_str).collect();
                    let path = format!("calls.{}.args.{arg_name}.from", call.name);
                    let message = format!("the endpoint `{name}` has no variable `{var}`");
                    r.unknown(Rule::L1, &path, message, var, &known);
                }
            }
        }
        for (auth_name, auth) in &endpoint.auth {
            let Auth::Sigv4(Sigv4 { region: Region::Binding(var), .. }) = auth else { continue };
            used.insert(var);
            if !endpoint.vars.contains(var) {
                let known: Vec<&str> = endpoint.vars.iter().map(String::as_str).collect();
                let message =
                    format!("the endpoint `{name}` has no variable `{var}` for its signature's region");
                let path = super::signed::path(name, endpoint, auth_name);
                r.unknown(Rule::L1, &format!("{path}.region"), message, var, &known);
            }
        }
        for var in endpoint.vars.iter().filter(|var| !used.contains(var)) {
            r.error(Rule::L1, &format!("{path}.vars"), format!("no argument uses the variable `{var}`"));
        }
    }
}

/// Keys that formats may use: a JSON file's parts, every other key itself.
fn usable(m: &Manifest) -> Vec<(String, String)> {
    let mut keys = Vec::new();
    for (name, key) in &m.credentials {
        match &key.kind {
            CredentialKind::JsonFile { from_file } => {
                keys.extend(
                    from_file
                        .keys()
                        .map(|part| (part.clone(), format!("credentials.{name}.from-file.{part}"))),
                );
            }
            _ => keys.push((name.clone(), format!("credentials.{name}"))),
        }
    }
    keys
}

fn credentials(m: &Manifest, r: &mut Report) {
    let usable = usable(m);
    let mut seen = BTreeSet::new();
    for (name, path) in &usable {
        if !seen.insert(name) {
            r.error(Rule::L1, path, format!("the credential key `{name}` is declared twice"));
        }
    }
    let known: Vec<&str> = usable.iter().map(|(name, _)| name.as_str()).collect();
    let mut used = BTreeSet::new();
    let mut hole = |hole: &str, captures: Option<&Call>, path: &str, r: &mut Report| {
        let captured = captures.is_some_and(|login| login.captures.contains_key(hole));
        if captured && known.contains(&hole) {
            r.error(
                Rule::L1,
                path,
                format!("`{{{hole}}}` is both a credential key and a capture of the login"),
            );
        } else if !captured && !known.contains(&hole) {
            let mut all = known.clone();
            all.extend(captures.iter().flat_map(|login| login.captures.keys().map(String::as_str)));
            r.unknown(Rule::L1, path, format!("no credential key is named `{hole}`"), hole, &all);
        }
        used.insert(hole.to_owned());
    };
    for (name, endpoint) in &m.endpoints {
        for auth in endpoint.auth.values() {
            let (put, login) = match auth {
                Auth::None => continue,
                Auth::Sigv4(signed) => {
                    for key in [Some(&signed.id), Some(&signed.secret), signed.session.as_ref()]
                        .into_iter()
                        .flatten()
                    {
                        hole(key, None, &format!("endpoints.{name}.auth"), r);
                    }
                    continue;
                }
                Auth::Put { put } => (put, None),
                Auth::Session { put, login, .. } => (put, m.calls.get(login)),
            };
            for (_, format) in put {
                for key in format.holes() {
                    hole(key, login, &format!("endpoints.{name}.auth.put"), r);
                }
            }
        }
    }
    for call in m.calls.values() {
        for (name, slot) in &call.slots {
            if let SlotKind::Credential(format) = &slot.kind {
                for key in format.holes() {
                    hole(key, None, &format!("calls.{}.slots.{name}", call.name), r);
                }
            }
        }
    }
    for (name, path) in usable.iter().filter(|(name, _)| !used.contains(name)) {
        r.error(Rule::L1, path, format!("nothing uses the credential key `{name}`"));
    }
}

fn sessions(m: &Manifest, r: &mut Report) {
    let mut run = BTreeSet::new();
    let mut captures = BTreeSet::new();
    for endpoint in m.endpoints.values() {
        for auth in endpoint.auth.values() {
            if let Auth::Session { login, put, logout, .. } = auth {
                run.insert(login);
                run.extend(logout);
                captures.extend(put.iter().flat_map(|(_, f)| f.holes()).map(|hole| (login.as_str(), hole)));
            }
        }
    }
    for call in m.calls.values().filter(|call| call.effect == EffectKind::Session) {
        for arg in call.args.values() {
            if let Source::Field { call, field } = &arg.from {
                captures.insert((call, field));
            }
        }
        if !run.contains(&call.name) {
            r.error(Rule::L1, &format!("calls.{}", call.name), "no endpoint logs in or out by this call");
        }
    }
    for call in m.calls.values() {
        for (name, capture) in &call.captures {
            if capture.to == CaptureTo::Session && !captures.contains(&(call.name.as_str(), name.as_str())) {
                let path = format!("calls.{}.captures.{name}", call.name);
                r.error(Rule::L1, &path, "nothing uses this capture: neither a `put` nor the logout");
            }
        }
    }
}

/// Each hole of the path has exactly one argument, and each path place has a hole.
fn holes(call: &Call, r: &mut Report) {
    let path = format!("calls.{}", call.name);
    let at_url = call.args.values().any(|arg| arg.at.contains(&Place::Url));
    let template = match (&call.path, at_url) {
        (Some(_), true) => {
            r.error(
                Rule::L1,
                &format!("{path}.path"),
                "the target is an argument at `url`; there is no path beside it",
            );
            return;
        }
        (None, false) => {
            r.error(Rule::L1, &path, "`path` is required, unless an argument is at `url`");
            return;
        }
        (Some(template), false) => template,
        (None, true) => return,
    };
    let mut filled: Vec<(&str, &str)> = Vec::new();
    for (name, arg) in &call.args {
        for place in &arg.at {
            if let Place::Path(hole) = place {
                filled.push((hole, name));
            }
        }
        if arg.optional && arg.at.iter().any(|place| matches!(place, Place::Path(_))) {
            r.error(Rule::L1, &format!("{path}.args.{name}"), "an argument in the path cannot be optional");
        }
    }
    for hole in template.holes() {
        let count = filled.iter().filter(|(filled, _)| *filled == hole).count();
        if count != 1 {
            let message = format!("the hole `{{{hole}}}` is filled by {count} arguments, not one");
            r.error(Rule::L1, &format!("{path}.path"), message);
        }
    }
    for (hole, name) in filled {
        if !template.holes().any(|known| known == hole) {
            let known: Vec<&str> = template.holes().collect();
            let message = format!("the path has no hole `{{{hole}}}`");
            r.unknown(Rule::L1, &format!("{path}.args.{name}.at"), message, hole, &known);
        }
    }
}

/// A word can only be read where the endpoint says where it stands.
fn error_words(m: &Manifest, call: &Call, r: &mut Report) {
    let Some(endpoint) = m.endpoints.get(&call.endpoint) else { return };
    if endpoint.error_code.is_empty() && call.answers.keys().any(|key| key.word.is_some()) {
        let message = format!(
            "words of answers are read at `error-code` of the endpoint `{}`, which has none",
            call.endpoint
        );
        r.error(Rule::L1, &format!("calls.{}", call.name), message);
    }
    for status in call.answers.keys().filter(|key| key.word.is_none()).filter_map(|key| key.status) {
        if (200..300).contains(&status) {
            let message = format!("the bare status {status} is a success and cannot be a refusal");
            r.error(Rule::L1, &format!("calls.{}", call.name), message);
        }
    }
}

fn pages(call: &Call, r: &mut Report) {
    let Some(pages) = &call.pages else { return };
    let path = format!("calls.{}.pages", call.name);
    if call.effect != EffectKind::Read {
        r.error(Rule::L1, &path, "only reads have pages");
    }
    if !call.fields.get(&pages.items).is_some_and(Field::is_list) {
        let known: Vec<&str> =
            call.fields.iter().filter(|(_, f)| f.is_list()).map(|(n, _)| n.as_str()).collect();
        let message = format!("`items` names a list field of this call; `{}` is none", pages.items);
        r.unknown(Rule::L1, &path, message, &pages.items, &known);
    }
    let count = matches!(pages.next, NextPage::Count { .. });
    if pages.into == Place::Url && (count || call.path.is_none()) {
        r.error(
            Rule::L1,
            &path,
            "`into = \"url\"` takes a URL from `next`, on a call with a path of its own",
        );
    }
    if matches!(pages.into, Place::Path(_)) || pages.into.is_list() {
        r.allowed(
            Rule::L1,
            &path,
            "the next page cannot go there",
            "query:N, form:K, header:N, json:/pointer, url",
        );
    }
}
