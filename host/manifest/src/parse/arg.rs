//! `args.A` of section 4: what fills a place, and who supplies it.

use super::endpoint::is_free_header;
use crate::error::{Rule, Syntax};
use crate::model::*;
use crate::report::{Node, Report};
use crate::table::{Tab, check_name, is_name, ok};
use std::collections::BTreeMap;

const ARG: &[&str] = &["at", "from", "type", "one-of", "format", "as", "optional", "on"];

pub(super) fn args(tab: &Tab<'_>, effect: EffectKind, r: &mut Report) -> BTreeMap<String, Arg> {
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
            Place::Xml(_) => {
                r.error(Rule::Grammar, path, "xml places are of replies only; bodies are json or form");
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
