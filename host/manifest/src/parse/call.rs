//! Section 4: `[calls.C]`, its arguments, replay, pages and ownership.

use super::body::body;
use super::endpoint::{answers, headers, is_free_header};
use super::field::{captures, check_reply_place, fields, slots};
use crate::error::{Rule, Syntax};
use crate::model::*;
use crate::report::{Node, Report};
use crate::table::{Tab, check_name, is_name, ok, text};
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
    "args",
    "slots",
    "captures",
    "fields",
    "rejects",
    "fails",
    "gone",
];
const ARG: &[&str] = &["at", "from", "type", "one-of", "format", "as", "optional", "on"];
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
    let kind = effect.unwrap_or(EffectKind::Read);
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
        fields: fields(&tab, "fields", 0, r),
        answers: answers(&tab, r),
        creates: creates(&tab, r),
        adopts: adopts(&tab, r),
        completes: completes(&tab, r),
        endpoint: endpoint?.to_owned(),
        effect: effect?,
        method: method?,
    })
}

fn reply(tab: &Tab<'_>, r: &mut Report) -> ReplyKind {
    match tab.str("reply", r) {
        None | Some("json") => ReplyKind::Json,
        Some("none") => ReplyKind::None,
        Some("xml") => {
            r.not_yet(&tab.at("reply"), "xml replies are");
            ReplyKind::None
        }
        Some(other) => {
            r.allowed(
                Rule::Grammar,
                &tab.at("reply"),
                format!("unknown kind of reply `{other}`"),
                "json, none",
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

fn args(tab: &Tab<'_>, effect: EffectKind, r: &mut Report) -> BTreeMap<String, Arg> {
    let mut args = BTreeMap::new();
    for (name, path, node) in tab.named("args", r) {
        if let Some(arg) = arg(node, &path, effect, r) {
            args.insert(name, arg);
        }
    }
    args
}

fn arg(node: &Node, path: &str, effect: EffectKind, r: &mut Report) -> Option<Arg> {
    let tab = Tab::open(node, path, ARG, r)?;
    tab.need("at", r)?;
    let mut at: Vec<Place> = Vec::new();
    for text in tab.strings("at", true, r) {
        at.extend(ok(Place::parse(text), &tab.at("at"), r));
    }
    check_request_places(&at, &tab.at("at"), r);
    let from = tab.parsed("from", r, source).unwrap_or(Source::Guest);
    let one_of: Vec<String> = tab.strings("one-of", false, r).into_iter().map(str::to_owned).collect();
    check_one_of(&tab, &one_of, &from, r);
    let format =
        tab.parsed("format", r, ArgFormat::parse).unwrap_or(ArgFormat::Around(String::new(), String::new()));
    let written = tab.parsed("type", r, Type::parse);
    let ty = match written {
        Some(ty) => ty,
        None if !one_of.is_empty() => Type::Word,
        None => default_type(&from, &format, effect).or_else(|| {
            r.error(Rule::L1, path, "an argument of the guest has a `type` or a `one-of`");
            None
        })?,
    };
    let kinds = [("string", WriteAs::String), ("int", WriteAs::Int), ("bool", WriteAs::Bool)];
    let write_as = if tab.has("as") { tab.choice("as", &kinds, r)? } else { WriteAs::String };
    let on = tab.str("on", r).filter(|kind| check_name(kind, &tab.at("on"), r)).map(str::to_owned);
    Some(Arg { at, from, ty, one_of, format, write_as, optional: tab.bool("optional", false, r), on })
}

fn check_request_places(at: &[Place], path: &str, r: &mut Report) {
    if at.is_empty() && r.is_clean() {
        r.error(Rule::Grammar, path, "`at` names at least one place");
    }
    for place in at {
        match place {
            Place::Header(name) if !is_free_header(name) => {
                r.error(Rule::Grammar, path, format!("the header `{name}` is written by the host alone"));
            }
            Place::Json(pointer) if pointer.0.is_empty() => {
                r.error(Rule::Grammar, path, "an argument cannot be the whole body: the skeleton is");
            }
            Place::Json(pointer) if pointer.0.iter().any(|s| matches!(s, Step::Where { .. })) => {
                r.error(Rule::Grammar, path, "`[key=literal]` selects in replies only");
            }
            Place::Json(pointer) if pointer.0.iter().filter(|s| **s == Step::Every).count() > 1 => {
                r.error(Rule::Grammar, path, "a place of a request has at most one `*`");
            }
            _ => {}
        }
    }
    if at.iter().any(Place::is_list) && !at.iter().all(Place::is_list) {
        r.error(Rule::L1, path, "either every place of an argument is a list (`*`) or none is");
    }
    if at.contains(&Place::Url) && at.len() > 1 {
        r.error(Rule::Grammar, path, "`url` is the whole target and stands alone");
    }
}

fn check_one_of(tab: &Tab<'_>, one_of: &[String], from: &Source, r: &mut Report) {
    let path = tab.at("one-of");
    if !tab.has("one-of") {
        return;
    }
    if tab.has("type") {
        r.error(Rule::L1, &path, "`one-of` stands instead of a type");
    }
    if *from != Source::Guest {
        r.error(Rule::L1, &path, "`one-of` is for arguments of the guest");
    }
    let repeats = one_of.iter().enumerate().any(|(n, word)| one_of[..n].contains(word));
    let fits = |word: &String| {
        !word.is_empty() && word.len() <= 64 && word.chars().all(|c| (' '..='~').contains(&c))
    };
    if one_of.is_empty() || one_of.len() > 64 || repeats || !one_of.iter().all(fits) {
        r.error(Rule::L1, &path, "`one-of` lists 1 to 64 different printable words of up to 64 characters");
    }
}

fn source(text: &str) -> Result<Source, Syntax> {
    const ALLOWED: &str = "guest, token, host-image, host-name, offering.instance-type, offering.zone, config:K, binding:V, CALL.FIELD";
    let bad = || Syntax::bad(format!("`{text}` supplies nothing; allowed: {ALLOWED}"));
    Ok(match text {
        "guest" => Source::Guest,
        "token" => Source::Token,
        "host-image" => Source::HostImage,
        "host-name" => Source::HostName,
        "offering.instance-type" => Source::OfferingInstanceType,
        "offering.zone" => Source::OfferingZone,
        other => {
            if let Some(key) = other.strip_prefix("config:").filter(|key| is_name(key)) {
                Source::Config(key.to_owned())
            } else if let Some(var) = other.strip_prefix("binding:").filter(|var| is_name(var)) {
                Source::Binding(var.to_owned())
            } else {
                let (call, field) = other.split_once('.').ok_or_else(bad)?;
                if call == "offering"
                    || !is_name(call)
                    || !field.split('/').all(|part| part == "*" || is_name(part))
                {
                    return Err(bad());
                }
                Source::Field { call: call.to_owned(), field: field.to_owned() }
            }
        }
    })
}

/// What a value of the host is unless the manifest says more. `None` where the manifest must say it.
fn default_type(from: &Source, format: &ArgFormat, effect: EffectKind) -> Option<Type> {
    Some(match from {
        Source::Guest => return None,
        Source::Token if matches!(format, ArgFormat::Int(..)) => Type::Int,
        // Images are named by paths and URNs too; the value is the operator's.
        Source::HostImage => Type::Text(512),
        // A capture stays with the host; a field's type is looked up once all calls are read.
        Source::Field { .. } if effect == EffectKind::Session => Type::Sealed,
        Source::Field { .. } => UNRESOLVED,
        _ => Type::Id,
    })
}

/// Stands for "the type of the field" until `resolve_types`: no manifest can write it.
const UNRESOLVED: Type = Type::Text(0);

/// Gives arguments `from = "CALL.FIELD"` the type of that field.
pub(super) fn resolve_types(manifest: &mut Manifest, r: &mut Report) {
    let mut found = Vec::new();
    for call in manifest.calls.values().filter(|call| call.effect != EffectKind::Session) {
        for (name, arg) in &call.args {
            let Source::Field { call: source, field } = &arg.from else { continue };
            let path = format!("calls.{}.args.{name}.from", call.name);
            let Some(origin) = manifest.calls.get(source) else {
                let known: Vec<&str> = manifest.calls.keys().map(String::as_str).collect();
                r.unknown(Rule::L10, &path, format!("no call is named `{source}`"), source, &known);
                continue;
            };
            let steps: Vec<String> = field.split('/').map(str::to_owned).collect();
            let Some(origin_field) = origin.field_at(&steps).filter(|field| field.each.is_none()) else {
                let known: Vec<&str> = origin.fields.keys().map(String::as_str).collect();
                r.unknown(
                    Rule::L10,
                    &path,
                    format!("the call `{source}` has no field `{field}`"),
                    field,
                    &known,
                );
                continue;
            };
            if arg.ty != UNRESOLVED && arg.ty != origin_field.ty {
                let message = format!("`{source}.{field}` is of type {}, not {}", origin_field.ty, arg.ty);
                r.error(Rule::L1, &path, message);
            }
            found.push((call.name.clone(), name.clone(), origin_field.ty));
        }
    }
    for (call, name, ty) in found {
        if let Some(arg) = manifest.calls.get_mut(&call).and_then(|call| call.args.get_mut(&name)) {
            arg.ty = ty;
        }
    }
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
