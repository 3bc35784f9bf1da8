//! Section 4: `[calls.C]`, its arguments, replay, pages and ownership.

use super::arg::args;
use super::body::body;
use super::endpoint::{answers, headers};
use super::field::{bound_lists, captures, check_reply_place, fields, slots};
use crate::error::{Rule, Syntax};
use crate::model::*;
use crate::report::{Node, Report};
use crate::table::{Tab, is_name, ok, text};
use crate::types::{duration, size};
use std::collections::BTreeMap;

const CALL: &[&str] = &[
    "endpoint",
    "effect",
    "method",
    "path",
    "headers",
    "body",
    "reply",
    "max-reply",
    "accept",
    "replay",
    "lookup",
    "token-life",
    "pages",
    "creates",
    "adopts",
    "completes",
    "incarnation",
    "confirm",
    "args",
    "slots",
    "captures",
    "fields",
    "rejects",
    "fails",
    "gone",
];
/// Where `absent-after` is not written: late enough for any sane service, since a twin costs more than a wait.
const ABSENT_AFTER: u64 = 600;
const MAX_REPLY: u64 = 64 << 20;

pub(super) fn call(name: &str, node: &Node, path: &str, r: &mut Report) -> Option<Call> {
    let tab = Tab::open(node, path, CALL, r)?;
    if tab.has("run") || tab.has("read") {
        r.not_yet(path, "SSH calls are");
    }
    let endpoint = tab.need_str("endpoint", r);
    tab.need("effect", r);
    let effects = [
        ("read", EffectKind::Read),
        ("create", EffectKind::Create),
        ("update", EffectKind::Update),
        ("destroy", EffectKind::Destroy),
        ("session", EffectKind::Session),
    ];
    let effect = tab.choice("effect", &effects, r);
    tab.need("method", r);
    let methods = [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("POST", Method::Post),
        ("PUT", Method::Put),
        ("PATCH", Method::Patch),
        ("DELETE", Method::Delete),
    ];
    let method = tab.choice("method", &methods, r);
    // Most of the rest depends on what the call does.
    let kind = effect?;
    let mut fields = fields(&tab, "fields", 0, r);
    if kind.mutates() {
        bound_lists(&mut fields, "fields", &tab, r);
    }
    Some(Call {
        name: name.to_owned(),
        path: tab.parsed("path", r, PathTemplate::new),
        headers: headers(&tab, r),
        body: body(&tab, r),
        reply: reply(&tab, r),
        max_reply: max_reply(&tab, r),
        accept: accept(&tab, r),
        replay: replay(&tab, kind, r),
        pages: tab.get("pages").and_then(|node| pages(node, &tab.at("pages"), r)),
        args: args(&tab, kind, r),
        slots: slots(&tab, r),
        captures: captures(&tab, kind, r),
        fields,
        answers: answers(&tab, r),
        creates: creates(&tab, r),
        adopts: adopts(&tab, r),
        completes: completes(&tab, r),
        incarnation: incarnation(&tab, r),
        confirm: tab.str("confirm", r).map(str::to_owned),
        endpoint: endpoint?.to_owned(),
        effect: kind,
        method: method?,
    })
}

fn reply(tab: &Tab<'_>, r: &mut Report) -> ReplyKind {
    match tab.str("reply", r) {
        None | Some("json") => ReplyKind::Json,
        Some("none") => ReplyKind::None,
        Some("xml") => ReplyKind::Xml,
        Some(other) => {
            r.allowed(
                Rule::Grammar,
                &tab.at("reply"),
                format!("unknown kind of reply `{other}`"),
                "json, xml, none",
            );
            ReplyKind::None
        }
    }
}

fn max_reply(tab: &Tab<'_>, r: &mut Report) -> u64 {
    let bytes = match tab.get("max-reply") {
        None => return 1 << 20,
        Some(Node::Int(_)) => tab.int("max-reply", 1, MAX_REPLY, r),
        Some(_) => tab.parsed("max-reply", r, size),
    };
    let bytes = bytes.unwrap_or(1);
    if !(1..=MAX_REPLY).contains(&bytes) {
        r.allowed(Rule::Grammar, &tab.at("max-reply"), format!("{bytes} is out of range"), "1 byte to 64MiB");
    }
    bytes
}

fn accept(tab: &Tab<'_>, r: &mut Report) -> Vec<u16> {
    let path = tab.at("accept");
    let Some(node) = tab.get("accept") else { return vec![200] };
    let mut list = Vec::new();
    if let Node::List(items) = node {
        for item in items {
            match item {
                Node::Int(n @ 200..=299) if !list.contains(&(*n as u16)) => list.push(*n as u16),
                _ => r.allowed(Rule::Grammar, &path, "not a list of different successes", "200 to 299"),
            }
        }
    }
    if list.is_empty() {
        r.allowed(Rule::Grammar, &path, "`accept` lists at least one status", "200 to 299");
    }
    list
}

fn replay(tab: &Tab<'_>, effect: EffectKind, r: &mut Report) -> Option<Replay> {
    let path = tab.at("replay");
    let lookup = tab.get("lookup").and_then(|node| lookup(node, &tab.at("lookup"), r));
    let life = tab.parsed("token-life", r, duration);
    let word = tab.str("replay", r);
    if word != Some("token") && tab.has("token-life") {
        r.error(Rule::L2, &tab.at("token-life"), "`token-life` belongs to `replay = \"token\"`");
    }
    if !matches!(word, Some("token" | "lookup")) && tab.has("lookup") {
        r.error(Rule::L2, &tab.at("lookup"), "`lookup` belongs to `replay = \"lookup\"` or `\"token\"`");
    }
    if !effect.mutates() {
        if word.is_some() {
            r.error(Rule::L2, &path, "only calls that change something have `replay`");
        }
        return None;
    }
    match word {
        Some("token") => {
            if !tab.has("token-life") {
                r.error(
                    Rule::L2,
                    &path,
                    "`replay = \"token\"` needs `token-life`: how long the service remembers a token",
                );
            }
            Some(Replay::Token { life: life?, lookup })
        }
        Some("idempotent") => Some(Replay::Idempotent),
        Some("lookup") => {
            if !tab.has("lookup") {
                r.error(
                    Rule::L2,
                    &path,
                    "`replay = \"lookup\"` needs `lookup = { call, item, absent-after }`",
                );
            }
            lookup.map(Replay::Lookup)
        }
        Some("never") => Some(Replay::Never),
        Some(other) => {
            let known = ["token", "idempotent", "lookup", "never"];
            r.unknown(Rule::L2, &path, format!("unknown replay `{other}`"), other, &known);
            None
        }
        None => {
            let message =
                "a call that changes something says how a lost answer is settled: `replay` is required";
            r.allowed(Rule::L2, &tab.path, message, "token, idempotent, lookup, never");
            None
        }
    }
}

fn lookup(node: &Node, path: &str, r: &mut Report) -> Option<Lookup> {
    let tab = Tab::open(node, path, &["call", "item", "absent-after"], r)?;
    let absent_after =
        if tab.has("absent-after") { tab.parsed("absent-after", r, duration)? } else { ABSENT_AFTER };
    Some(Lookup {
        call: tab.need_str("call", r)?.to_owned(),
        item: tab.need_str("item", r)?.to_owned(),
        absent_after,
    })
}

fn pages(node: &Node, path: &str, r: &mut Report) -> Option<Pages> {
    let tab = Tab::open(node, path, &["items", "next", "into", "max-pages"], r)?;
    let next = match tab.need("next", r)? {
        Node::Table(_) => {
            let inner = Tab::open(tab.get("next")?, &tab.at("next"), &["page", "of"], r)?;
            inner.need("page", r)?;
            inner.need("of", r)?;
            let page = inner.parsed("page", r, Place::parse)?;
            let of = inner.parsed("of", r, Place::parse)?;
            NextPage::Count { page, of }
        }
        _ => NextPage::Token(tab.parsed("next", r, Place::parse)?),
    };
    let places = match &next {
        NextPage::Token(place) => vec![place],
        NextPage::Count { page, of } => vec![page, of],
    };
    for place in places {
        check_reply_place(place, &tab.at("next"), r);
        if place.is_list() {
            r.error(Rule::Grammar, &tab.at("next"), "the next page is one value");
        }
    }
    tab.need("into", r)?;
    let into = tab.parsed("into", r, Place::parse)?;
    let max_pages = if tab.has("max-pages") { tab.int("max-pages", 1, 1000, r)? as u32 } else { 100 };
    Some(Pages { items: tab.need_str("items", r)?.to_owned(), next, into, max_pages })
}

fn creates(tab: &Tab<'_>, r: &mut Report) -> BTreeMap<String, CreatedAt> {
    let mut all = BTreeMap::new();
    for (kind, path, node) in tab.named("creates", r) {
        let Some(written) = text(node, &path, r) else { continue };
        let at = match written.strip_prefix("args.") {
            Some(arg) if is_name(arg) => Some(CreatedAt::Arg(arg.to_owned())),
            _ => ok(field_path(written), &path, r).map(CreatedAt::Field),
        };
        all.extend(at.map(|at| (kind, at)));
    }
    all
}

fn field_path(text: &str) -> Result<Vec<String>, Syntax> {
    let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
    if parts.iter().all(|part| part == "*" || is_name(part)) && parts[0] != "*" {
        Ok(parts)
    } else {
        Err(Syntax::bad(format!("`{text}` is not a field path; allowed: id, instances/*/id")))
    }
}

fn incarnation(tab: &Tab<'_>, r: &mut Report) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for (kind, path, node) in tab.named("incarnation", r) {
        let Some(written) = text(node, &path, r) else { continue };
        all.extend(ok(field_path(written), &path, r).map(|steps| (kind, steps)));
    }
    all
}

fn adopts(tab: &Tab<'_>, r: &mut Report) -> BTreeMap<String, Adopt> {
    let mut all = BTreeMap::new();
    for (kind, path, node) in tab.named("adopts", r) {
        let Some(inner) = Tab::open(node, &path, &["field", "proof"], r) else { continue };
        if inner.need("field", r).is_none() || inner.need("proof", r).is_none() {
            continue;
        }
        let field = inner.parsed("field", r, field_path);
        let proof = inner.parsed("proof", r, field_path);
        if let (Some(field), Some(proof)) = (field, proof) {
            all.insert(kind, Adopt { field, proof });
        }
    }
    all
}

fn completes(tab: &Tab<'_>, r: &mut Report) -> BTreeMap<String, Completes> {
    let mut all = BTreeMap::new();
    for (call, path, node) in tab.named("completes", r) {
        let Some(inner) = Tab::open(node, &path, &["arg", "when"], r) else { continue };
        let Some(arg) = inner.need_str("arg", r) else { continue };
        let when = inner.get("when").and_then(|node| {
            let tab = Tab::open(node, &inner.at("when"), &["field", "is"], r)?;
            Some(CompletesWhen {
                field: tab.need_str("field", r)?.to_owned(),
                is: tab.need_str("is", r)?.to_owned(),
            })
        });
        all.insert(call, Completes { arg: arg.to_owned(), when });
    }
    all
}
