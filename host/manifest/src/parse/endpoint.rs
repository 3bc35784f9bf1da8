//! Section 3: `[endpoints.E]`, and the answer tables that endpoints share with calls.

use super::provider::machine_object;
use super::signed::sigv4;
use crate::error::Rule;
use crate::model::{AnswerKey, Answers, Auth, Endpoint, Format, Life, Per, Place, Throttle};
use crate::place::is_header;
use crate::report::{Node, Report};
use crate::table::{Tab, check_name, is_name, ok, text};
use crate::types::{ERROR_CODES, duration};
use std::collections::BTreeMap;

const ENDPOINT: &[&str] = &[
    "about",
    "per",
    "address",
    "credential",
    "vars",
    "auth",
    "headers",
    "error-code",
    "xmlns",
    "throttle",
    "rejects",
    "fails",
    "gone",
];

/// Headers that only the host writes; constants and arguments never.
const HOST_HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "proxy-authenticate",
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "accept-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "cookie",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "via",
    "date",
    "http2-settings",
    "proxy-connection",
    // Some services let these turn a POST into a DELETE.
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

/// May the manifest write this header outside `auth`?
pub(super) fn is_free_header(name: &str) -> bool {
    !HOST_HEADERS.contains(&name.to_ascii_lowercase().as_str())
}

/// May `auth` write it? The framing of a message is never anybody's but the host's.
pub(super) fn is_auth_header(name: &str) -> bool {
    matches!(name, "authorization" | "cookie") || is_free_header(name)
}

pub(super) fn endpoint(node: &Node, path: &str, r: &mut Report) -> Option<Endpoint> {
    if matches!(node, Node::Table(map) if map.contains_key("aliases") || map.contains_key("alias")) {
        r.not_yet(path, "aliases of an endpoint are");
    }
    let tab = Tab::open(node, path, ENDPOINT, r)?;
    let about = tab.need_str("about", r);
    let auth = auth(&tab, r);
    Some(Endpoint {
        per: per(&tab, &auth, r),
        vars: vars(&tab, r),
        headers: headers(&tab, r),
        error_code: error_code(&tab, r),
        xmlns: xmlns(&tab, r),
        throttle: throttle(&tab, r),
        answers: answers(&tab, r),
        about: about?.to_owned(),
        auth,
    })
}

fn vars(tab: &Tab<'_>, r: &mut Report) -> Vec<String> {
    let path = tab.at("vars");
    let mut vars = Vec::new();
    for name in tab.strings("vars", false, r) {
        if check_name(name, &path, r) && vars.iter().any(|known| known == name) {
            r.error(Rule::L1, &path, format!("the variable `{name}` stands twice"));
        }
        vars.push(name.to_owned());
    }
    vars
}

/// Prefixes of xml places and the namespaces that they stand for.
fn xmlns(tab: &Tab<'_>, r: &mut Report) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (prefix, path, node) in tab.named("xmlns", r) {
        let Some(uri) = text(node, &path, r) else { continue };
        if uri.is_empty() || uri.len() > 512 || uri.chars().any(|c| !('!'..='~').contains(&c)) {
            r.error(Rule::Grammar, &path, "a namespace is a URI of 1 to 512 visible ASCII characters");
        }
        if all.values().any(|known| known == uri) {
            r.error(Rule::L1, &path, "two prefixes stand for this namespace");
        }
        all.insert(prefix, uri.to_owned());
    }
    all
}

fn per(tab: &Tab<'_>, auth: &BTreeMap<String, Auth>, r: &mut Report) -> Per {
    let per = tab.str("per", r);
    let path = tab.at("per");
    if per != Some("machine") {
        for key in ["address", "credential"] {
            if tab.has(key) {
                r.error(Rule::Grammar, &tab.at(key), format!("`{key}` belongs to `per = \"machine\"`"));
            }
        }
    }
    match per {
        None => Per::None,
        Some("machine") => {
            let needs = auth.values().any(|auth| *auth != Auth::None);
            let address = tab.need("address", r).and_then(|_| tab.parsed("address", r, machine_object));
            if needs {
                tab.need("credential", r);
            }
            let credential = tab.parsed("credential", r, machine_object);
            if !needs && credential.is_some() {
                r.error(Rule::L1, &tab.at("credential"), "`auth = \"none\"` uses no credential");
            }
            Per::Machine { address: address.unwrap_or_default(), credential }
        }
        Some(text) => match text.strip_prefix("config:") {
            Some(key) if is_name(key) => Per::Config(key.to_owned()),
            _ => {
                r.allowed(
                    Rule::Grammar,
                    &path,
                    format!("`{text}` chooses no binding"),
                    "config:KEY, machine",
                );
                Per::None
            }
        },
    }
}

fn auth(tab: &Tab<'_>, r: &mut Report) -> BTreeMap<String, Auth> {
    const SINGLE: &[&str] = &["put", "login", "life", "logout", "sigv4", "http-signature", "jwt"];
    let path = tab.at("auth");
    let mut all = BTreeMap::new();
    match tab.need("auth", r) {
        Some(Node::Table(map))
            if !map.is_empty() && !map.keys().any(|key| SINGLE.contains(&key.as_str())) =>
        {
            for (name, path, node) in tab.named("auth", r) {
                if let Some(auth) = one_auth(node, &path, r) {
                    all.insert(name, auth);
                }
            }
        }
        Some(node) => all.extend(one_auth(node, &path, r).map(|auth| ("default".to_owned(), auth))),
        None => {}
    }
    all
}

fn one_auth(node: &Node, path: &str, r: &mut Report) -> Option<Auth> {
    const ALLOWED: &str = "\"none\", { put }, { login, put, life, logout }, { sigv4 }, or a table of named alternatives of these";
    let Node::Table(map) = node else {
        if matches!(node, Node::Str(word) if word == "none") {
            return Some(Auth::None);
        }
        r.allowed(Rule::Grammar, path, "this is not an authentication", ALLOWED);
        return None;
    };
    if map.contains_key("sigv4") {
        let tab = Tab::open(node, path, &["sigv4"], r)?;
        return sigv4(tab.get("sigv4")?, &tab.at("sigv4"), r).map(Auth::Sigv4);
    }
    for kind in ["http-signature", "jwt"] {
        if map.contains_key(kind) {
            r.not_yet(path, &format!("`{kind}` authentication is"));
            return None;
        }
    }
    let tab = Tab::open(node, path, &["put", "login", "life", "logout"], r)?;
    tab.need("put", r)?;
    let put = put(&tab, r);
    let Some(login) = tab.str("login", r) else {
        for key in ["life", "logout"] {
            if tab.has(key) {
                r.error(Rule::Grammar, &tab.at(key), format!("`{key}` belongs to a `login`"));
            }
        }
        return Some(Auth::Put { put });
    };
    let life = tab.need("life", r).and_then(|node| life(node, &tab.at("life"), r))?;
    Some(Auth::Session {
        login: login.to_owned(),
        put,
        life,
        logout: tab.str("logout", r).map(str::to_owned),
    })
}

fn put(tab: &Tab<'_>, r: &mut Report) -> Vec<(Place, Format)> {
    let mut all: Vec<(Place, Format)> = Vec::new();
    let Some(table) = tab.below("put", r) else { return all };
    for (key, path, node) in table.iter() {
        let place = ok(Place::parse(key), &path, r);
        let format = text(node, &path, r).and_then(|text| ok(Format::parse(text), &path, r));
        let (Some(place), Some(format)) = (place, format) else { continue };
        match &place {
            Place::Header(name) if is_auth_header(name) => {}
            Place::Query(_) => {}
            _ => r.allowed(
                Rule::Grammar,
                &path,
                format!("`{place}` cannot hold a credential"),
                "header:N, query:N",
            ),
        }
        if all.iter().any(|(known, _)| *known == place) {
            r.error(Rule::L1, &path, format!("`{place}` is filled twice"));
        }
        all.push((place, format));
    }
    if all.is_empty() {
        r.error(Rule::Grammar, &tab.at("put"), "`put` fills at least one place");
    }
    all
}

fn life(node: &Node, path: &str, r: &mut Report) -> Option<Life> {
    if let Node::Str(text) = node {
        return ok(duration(text), path, r).map(Life::Seconds);
    }
    let tab = Tab::open(node, path, &["at", "less"], r)?;
    tab.need("at", r)?;
    let at = tab.parsed("at", r, Place::parse)?;
    if !matches!(at, Place::Json(_) | Place::Xml(_) | Place::Header(_)) {
        r.allowed(
            Rule::Grammar,
            &tab.at("at"),
            "the life stands in the login's reply",
            "json:/pointer, xml:/steps, header:N",
        );
    }
    tab.need("less", r)?;
    Some(Life::At { at, less: tab.parsed("less", r, duration)? })
}

/// Constant headers, names as written.
pub(super) fn headers(tab: &Tab<'_>, r: &mut Report) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let Some(table) = tab.below("headers", r) else { return all };
    for (name, path, node) in table.iter() {
        let Some(value) = text(node, &path, r) else { continue };
        if !is_header(name) {
            r.error(Rule::Grammar, &path, format!("`{name}` is not a header name"));
        } else if !is_free_header(name) {
            r.error(Rule::Grammar, &path, format!("the header `{name}` is written by the host alone"));
        }
        if value.len() > 512 || value.chars().any(|c| !(' '..='~').contains(&c)) {
            r.error(Rule::Grammar, &path, "a header value has at most 512 printable ASCII characters");
        }
        if all.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            r.error(Rule::L1, &path, format!("the header `{name}` stands twice"));
        }
        all.push((name.to_owned(), value.to_owned()));
    }
    all
}

fn error_code(tab: &Tab<'_>, r: &mut Report) -> Vec<Place> {
    let path = tab.at("error-code");
    let mut places = Vec::new();
    for text in tab.strings("error-code", true, r) {
        match ok(Place::parse(text), &path, r) {
            Some(place @ (Place::Json(_) | Place::Xml(_) | Place::Header(_))) => places.push(place),
            Some(_) => r.allowed(
                Rule::Grammar,
                &path,
                "an error word stands in the reply",
                "json:/pointer, xml:/steps, header:N",
            ),
            None => {}
        }
    }
    places
}

fn throttle(tab: &Tab<'_>, r: &mut Report) -> Option<Throttle> {
    let node = tab.get("throttle")?;
    let tab = Tab::open(node, &tab.at("throttle"), &["remaining", "reset"], r)?;
    let mut header = |key: &str| {
        let name = tab.need_str(key, r)?;
        if !is_header(name) {
            r.error(Rule::Grammar, &tab.at(key), format!("`{name}` is not a header name"));
        }
        Some(name.to_owned())
    };
    Some(Throttle { remaining: header("remaining")?, reset: header("reset")? })
}

/// `rejects`, `fails` and `gone` of an endpoint or a call.
pub(super) fn answers(tab: &Tab<'_>, r: &mut Report) -> Answers {
    let mut answers = Answers {
        rejects: code_map(tab, "rejects", r),
        fails: code_map(tab, "fails", r),
        gone: Default::default(),
    };
    let path = tab.at("gone");
    for text in tab.strings("gone", false, r) {
        answers.gone.extend(ok(AnswerKey::parse(text), &path, r));
    }
    let mut seen = std::collections::BTreeSet::new();
    for key in answers.keys() {
        if !seen.insert(key) {
            r.error(Rule::L1, &tab.path, format!("the answer `{key}` is listed in two tables"));
        }
    }
    answers
}

fn code_map(tab: &Tab<'_>, key: &str, r: &mut Report) -> BTreeMap<AnswerKey, String> {
    let mut map = BTreeMap::new();
    let Some(table) = tab.below(key, r) else { return map };
    for (key, path, node) in table.iter() {
        if matches!(node, Node::Table(inner) if inner.contains_key("exclusive")) || key == "exclusive" {
            r.not_yet(&path, "a uniqueness proved by `exclusive` is");
            continue;
        }
        let parsed = ok(AnswerKey::parse(key), &path, r);
        let Some(code) = text(node, &path, r) else { continue };
        if !ERROR_CODES.contains(&code) {
            r.unknown(Rule::Grammar, &path, format!("unknown error code `{code}`"), code, ERROR_CODES);
        }
        if let Some(key) = parsed {
            map.insert(key, code.to_owned());
        }
    }
    map
}
