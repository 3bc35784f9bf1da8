//! Fields, captures and slots: what comes back, and what the host splices.

use super::endpoint::is_auth_header;
use crate::error::Rule;
use crate::model::{
    Alphabet, Capture, CaptureTo, EffectKind, Encoding, Field, Format, MaxOf, Place, Pointer, Slot, SlotKind,
    Step, Type,
};
use crate::pattern::{glob, one_hole};
use crate::report::{Node, Report};
use crate::table::{Tab, check_name, ok};
use std::collections::BTreeMap;

const FIELD: &[&str] = &["at", "type", "max", "max-items", "optional", "match", "within", "each"];
const SLOT: &[&str] = &[
    "kind",
    "at",
    "key",
    "format",
    "encode",
    "max-bytes",
    "max-of",
    "length",
    "alphabet",
    "alg",
    "life",
    "claims",
];
const MAX_DEPTH: usize = 4;
/// Most elements of a list in any reply.
const MAX_ITEMS: u64 = 10_000;
/// Of a list in the reply of a call that changes something, unless the manifest says otherwise, and at most: the
/// journal keeps what such a reply returned.
const MUTATION_ITEMS: u32 = 16;
const MUTATION_ITEMS_MOST: u32 = 64;

pub(super) fn fields(tab: &Tab<'_>, key: &str, depth: usize, r: &mut Report) -> BTreeMap<String, Field> {
    let mut fields = BTreeMap::new();
    for (name, path, node) in tab.named(key, r) {
        if depth == 0 && name == "status" {
            r.error(
                Rule::L1,
                &path,
                "`status` is the reply's status code and always there; name the field otherwise",
            );
        }
        if let Some(field) = field(node, &path, depth, r) {
            fields.insert(name, field);
        }
    }
    fields
}

fn field(node: &Node, path: &str, depth: usize, r: &mut Report) -> Option<Field> {
    let tab = Tab::open(node, path, FIELD, r)?;
    tab.need("at", r)?;
    let at = reply_places(&tab, r);
    let each = tab.has("each").then(|| fields(&tab, "each", depth + 1, r));
    if let Some(inner) = &each {
        for key in ["type", "match", "within", "max"] {
            if tab.has(key) {
                r.error(
                    Rule::Grammar,
                    &tab.at(key),
                    format!("`each` gives every element's fields; `{key}` stands inside"),
                );
            }
        }
        if inner.is_empty() {
            r.error(Rule::Grammar, &tab.at("each"), "`each` has at least one field");
        }
        if !at.iter().all(Place::is_list) {
            r.error(Rule::Grammar, &tab.at("at"), "`each` needs a list: a place with `*`");
        }
        if depth + 1 > MAX_DEPTH {
            r.error(Rule::Grammar, path, format!("fields are nested at most {MAX_DEPTH} deep"));
        }
    }
    if depth > 0 && at.iter().any(|place| !matches!(place, Place::Json(_) | Place::Xml(_))) {
        let message = "places inside `each` are json or xml places relative to the element";
        r.error(Rule::Grammar, &tab.at("at"), message);
    }
    let max_items = tab.int("max-items", 1, MAX_ITEMS, r).map(|max| max as u32);
    if max_items.is_some() && !at.iter().any(Place::is_list) {
        r.error(Rule::Grammar, &tab.at("max-items"), "`max-items` bounds lists: places with `*`");
    }
    let ty = if each.is_some() {
        Type::Sealed
    } else {
        tab.need("type", r).and_then(|_| tab.parsed("type", r, Type::parse))?
    };
    let within = tab.parsed("within", r, glob);
    if within.is_some() && ty != Type::Sealed {
        r.error(Rule::L8, &tab.at("within"), "`within` bounds sealed values only");
    }
    let max = tab.int("max", 1, ty.max_bytes() as u64, r).map(|max| max as u32);
    let matches = tab.parsed("match", r, one_hole);
    if matches.is_some() && matches!(ty, Type::Int | Type::Bool) {
        r.error(
            Rule::Grammar,
            &tab.at("match"),
            format!("`match` takes text apart; a value of type {ty} is none"),
        );
    }
    Some(Field { at, ty, max, max_items, optional: tab.bool("optional", false, r), matches, within, each })
}

/// Lists in replies of calls that change something are short: a longer one does not fit, and the effect is in doubt.
pub(super) fn bound_lists(fields: &mut BTreeMap<String, Field>, key: &str, tab: &Tab<'_>, r: &mut Report) {
    for (name, field) in fields {
        let key = format!("{key}.{name}");
        if field.is_list() {
            let items = *field.max_items.get_or_insert(MUTATION_ITEMS);
            if items > MUTATION_ITEMS_MOST {
                let message =
                    format!("a call that changes something returns at most {MUTATION_ITEMS_MOST} elements");
                r.error(Rule::L3, &tab.at(&format!("{key}.max-items")), message);
            }
        }
        if let Some(each) = &mut field.each {
            bound_lists(each, &format!("{key}.each"), tab, r);
        }
    }
}

/// `at` of fields: reply places, all of them lists or none.
fn reply_places(tab: &Tab<'_>, r: &mut Report) -> Vec<Place> {
    let path = tab.at("at");
    let mut places: Vec<Place> = Vec::new();
    for text in tab.strings("at", true, r) {
        let Some(place) = ok(Place::parse(text), &path, r) else { continue };
        check_reply_place(&place, &path, r);
        places.push(place);
    }
    if places.is_empty() && r.is_clean() {
        r.error(Rule::Grammar, &path, "`at` names at least one place");
    }
    if places.iter().any(Place::is_list) && !places.iter().all(Place::is_list) {
        r.error(Rule::L1, &path, "either every place of a field is a list (`*`) or none is");
    }
    places
}

pub(super) fn check_reply_place(place: &Place, path: &str, r: &mut Report) {
    if !matches!(place, Place::Json(_) | Place::Xml(_) | Place::Header(_)) {
        r.allowed(
            Rule::Grammar,
            path,
            format!("`{place}` is no place of a reply"),
            "json:/pointer, xml:/steps, header:N",
        );
    }
}

pub(super) fn captures(tab: &Tab<'_>, effect: EffectKind, r: &mut Report) -> BTreeMap<String, Capture> {
    let mut captures = BTreeMap::new();
    for (name, path, node) in tab.named("captures", r) {
        let Some(tab) = Tab::open(node, &path, &["at", "optional", "to"], r) else { continue };
        let session = effect == EffectKind::Session;
        let to = match tab.str("to", r) {
            None if session => CaptureTo::Session,
            Some("session") if session => CaptureTo::Session,
            Some("scan") => CaptureTo::Scan,
            Some("session") => {
                r.error(Rule::L7, &tab.at("to"), "only session calls capture for a session");
                CaptureTo::Scan
            }
            Some(text) if text.starts_with("secret:") => {
                r.not_yet(&tab.at("to"), "captures into a Secret are");
                CaptureTo::Scan
            }
            _ => {
                r.allowed(
                    Rule::Grammar,
                    &path,
                    "`to` says what becomes of the captured value",
                    "session (in session calls), scan",
                );
                CaptureTo::Scan
            }
        };
        if tab.need("at", r).is_none() {
            continue;
        }
        let Some(at) = tab.parsed("at", r, Place::parse) else { continue };
        check_reply_place(&at, &tab.at("at"), r);
        if at.is_list() && to == CaptureTo::Session {
            r.error(Rule::Grammar, &tab.at("at"), "a session's capture is one value");
        }
        captures.insert(name, Capture { at, optional: tab.bool("optional", false, r), to });
    }
    captures
}

pub(super) fn slots(tab: &Tab<'_>, r: &mut Report) -> BTreeMap<String, Slot> {
    let mut slots = BTreeMap::new();
    for (name, path, node) in tab.named("slots", r) {
        if let Some(slot) = slot(node, &path, r) {
            slots.insert(name, slot);
        }
    }
    slots
}

fn slot(node: &Node, path: &str, r: &mut Report) -> Option<Slot> {
    let tab = Tab::open(node, path, SLOT, r)?;
    tab.need("kind", r)?;
    let kinds = [("user-data", 0), ("credential", 1), ("generated", 2), ("jwt", 3)];
    let which = tab.choice("kind", &kinds, r)?;
    if which == 3 {
        r.not_yet(path, "`jwt` slots are");
        return None;
    }
    let mine: &[&str] = match which {
        0 => &["encode", "max-bytes", "max-of"],
        1 => &["key", "format", "encode", "max-bytes", "max-of"],
        _ => &["length", "alphabet"],
    };
    for key in SLOT.iter().skip(2).filter(|key| tab.has(key) && !mine.contains(key)) {
        r.error(Rule::Grammar, &tab.at(key), format!("`{key}` does not belong to this kind of slot"));
    }
    let kind = match which {
        0 => SlotKind::UserData,
        1 => SlotKind::Credential(credential_format(&tab, r)?),
        _ => {
            tab.need("length", r)?;
            let alphabets = [("mixed", Alphabet::Mixed), ("alnum", Alphabet::Alnum), ("hex", Alphabet::Hex)];
            let alphabet =
                if tab.has("alphabet") { tab.choice("alphabet", &alphabets, r)? } else { Alphabet::Mixed };
            SlotKind::Generated { length: tab.int("length", 16, 128, r)? as u32, alphabet }
        }
    };
    tab.need("at", r)?;
    let at = tab.parsed("at", r, Place::parse)?;
    check_slot_place(&at, &kind, &tab.at("at"), r);
    let of = [("plain", MaxOf::Plain), ("encoded", MaxOf::Encoded)];
    let max_of = if tab.has("max-of") { tab.choice("max-of", &of, r)? } else { MaxOf::Encoded };
    Some(Slot {
        kind,
        at,
        encode: encodings(&tab, r),
        max_bytes: tab.int("max-bytes", 1, 16 << 20, r),
        max_of,
    })
}

fn credential_format(tab: &Tab<'_>, r: &mut Report) -> Option<Format> {
    match (tab.str("key", r), tab.has("format")) {
        (Some(key), false) => check_name(key, &tab.at("key"), r).then(|| Format::key(key)),
        (None, true) => tab.parsed("format", r, Format::parse),
        _ => {
            r.allowed(
                Rule::Grammar,
                &tab.path,
                "a credential slot says what fills it",
                "key or format, one of them",
            );
            None
        }
    }
}

/// Secrets never stand in a request's target, where every proxy and access log would keep them.
fn check_slot_place(at: &Place, kind: &SlotKind, path: &str, r: &mut Report) {
    let fits = match at {
        Place::Json(Pointer(steps)) => {
            !steps.iter().any(|step| !matches!(step, Step::Key(_))) && !steps.is_empty()
        }
        Place::Form(key) => !key.contains('*'),
        Place::Header(name) => matches!(kind, SlotKind::Credential(_)) && is_auth_header(name),
        Place::Path(_) | Place::Query(_) | Place::Xml(_) | Place::Url => false,
    };
    if !fits {
        let allowed = "json:/pointer and form:K without `*`; for credentials also header:N";
        r.allowed(Rule::Grammar, path, format!("a slot cannot stand at `{at}`"), allowed);
    }
}

fn encodings(tab: &Tab<'_>, r: &mut Report) -> Vec<Encoding> {
    let path = tab.at("encode");
    let words = [
        ("utf8", Encoding::Utf8),
        ("gzip", Encoding::Gzip),
        ("base64", Encoding::Base64),
        ("base64url", Encoding::Base64url),
    ];
    let mut list = Vec::new();
    for word in tab.strings("encode", false, r) {
        list.extend(crate::table::choose(word, &path, &words, r));
    }
    if list.is_empty() {
        return vec![Encoding::Utf8];
    }
    // A body is text: what is not text (gzip) must be encoded again.
    if list.last() == Some(&Encoding::Gzip) || list.iter().skip(1).any(|e| *e == Encoding::Utf8) {
        let allowed = "utf8 first if at all; gzip followed by base64 or base64url";
        r.allowed(Rule::Grammar, &path, "these encodings do not end in text", allowed);
    }
    let repeats = list.iter().enumerate().any(|(n, e)| list[..n].contains(e));
    if repeats {
        r.error(Rule::Grammar, &path, "an encoding stands twice");
    }
    list
}
