//! L1 for replies: places are of the reply's own kind, and every prefix stands for a declared namespace.

use crate::error::Rule;
use crate::model::*;
use crate::report::Report;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(m: &Manifest, r: &mut Report) {
    let mut used: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, endpoint) in &m.endpoints {
        let seen = used.entry(name).or_default();
        for place in &endpoint.error_code {
            prefixes(endpoint, place, &format!("endpoints.{name}.error-code"), seen, r);
        }
    }
    for (place_path, call, place) in body_places(m) {
        let fits = match place {
            Place::Json(_) => call.reply != ReplyKind::Xml,
            Place::Xml(_) => call.reply != ReplyKind::Json,
            _ => true,
        };
        if !fits {
            let other = if call.reply == ReplyKind::Xml { "xml" } else { "json" };
            let message = format!("`{place}` is no place of the reply of `{}`, which is {other}", call.name);
            r.allowed(
                Rule::L1,
                &place_path,
                message,
                "reply = \"json\" with json places, reply = \"xml\" with xml places",
            );
        }
        if let Some(endpoint) = m.endpoints.get(&call.endpoint) {
            prefixes(endpoint, place, &place_path, used.entry(&call.endpoint).or_default(), r);
        }
    }
    for (name, endpoint) in &m.endpoints {
        let seen = used.get(name.as_str()).cloned().unwrap_or_default();
        for prefix in endpoint.xmlns.keys().filter(|prefix| !seen.contains(prefix.as_str())) {
            let path = format!("endpoints.{name}.xmlns.{prefix}");
            r.error(Rule::L1, &path, format!("no xml place uses the namespace `{prefix}`"));
        }
    }
}

/// Every place that is read in a call's reply, with the path to report it at.
fn body_places(m: &Manifest) -> Vec<(String, &Call, &Place)> {
    let mut all = Vec::new();
    for call in m.calls.values() {
        let path = format!("calls.{}", call.name);
        fields(&call.fields, &format!("{path}.fields"), call, &mut all);
        all.extend(call.captures.iter().map(|(name, c)| (format!("{path}.captures.{name}"), call, &c.at)));
        let next: Vec<&Place> = match call.pages.as_ref().map(|pages| &pages.next) {
            Some(NextPage::Token(place)) => vec![place],
            Some(NextPage::Count { page, of }) => vec![page, of],
            None => Vec::new(),
        };
        all.extend(next.into_iter().map(|place| (format!("{path}.pages.next"), call, place)));
    }
    for (name, endpoint) in &m.endpoints {
        for auth in endpoint.auth.values() {
            let Auth::Session { login, life: Life::At { at, .. }, .. } = auth else { continue };
            all.extend(m.calls.get(login).map(|call| (format!("endpoints.{name}.auth.life"), call, at)));
        }
    }
    all
}

fn fields<'m>(
    map: &'m BTreeMap<String, Field>,
    path: &str,
    call: &'m Call,
    all: &mut Vec<(String, &'m Call, &'m Place)>,
) {
    for (name, field) in map {
        let path = format!("{path}.{name}");
        all.extend(field.at.iter().map(|place| (path.clone(), call, place)));
        if let Some(each) = &field.each {
            fields(each, &format!("{path}.each"), call, all);
        }
    }
}

fn prefixes<'m>(
    endpoint: &Endpoint,
    place: &'m Place,
    path: &str,
    used: &mut BTreeSet<&'m str>,
    r: &mut Report,
) {
    let Place::Xml(pointer) = place else { return };
    for name in pointer.names() {
        let Some((prefix, _)) = name.split_once(':') else {
            used.insert("default");
            continue;
        };
        used.insert(prefix);
        if prefix == "default" || !endpoint.xmlns.contains_key(prefix) {
            let known: Vec<&str> =
                endpoint.xmlns.keys().map(String::as_str).filter(|p| *p != "default").collect();
            let message = format!("no namespace of the endpoint's `xmlns` has the prefix `{prefix}`");
            r.unknown(Rule::L1, path, message, prefix, &known);
        }
    }
}
