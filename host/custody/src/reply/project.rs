//! Projection: declared fields with typed grammars, and nothing else of a reply (attacks 2, 6, 12).

use super::document::{Doc, Text};
use super::types::{self, SEALED_MAX};
use holdfast_manifest::{Field, Place, Pointer, Step, Type};
use http::HeaderMap;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Longest list in a reply.
const LIST_MAX: usize = 10_000;

/// A reply to read from.
pub(crate) struct Source<'d> {
    pub headers: &'d HeaderMap,
    pub body: Option<&'d Doc<'d>>,
}

/// Why a reply doesn't fit: the field, and what stood there by kind and length class, without a byte of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub field: String,
    pub found: String,
}

/// Seals one text: (call's field, its path glob, text) to the opaque value, or nothing if it may not be sealed.
pub(crate) type Seal<'s> = &'s dyn Fn(&str, Option<&str>, &str) -> Option<String>;

/// A leaf that a place selects.
pub(crate) enum Found<'d> {
    Header(&'d str),
    Doc(&'d Doc<'d>),
}

/// Projects all fields of a call.
pub(crate) fn project(
    fields: &BTreeMap<String, Field>,
    source: &Source<'_>,
    seal: Seal<'_>,
    grammar: bool,
) -> Result<Map<String, Value>, Misfit> {
    let mut out = Map::new();
    for (name, field) in fields {
        let value = project_field(name, field, source, seal, grammar)?;
        if let Some(value) = value {
            out.insert(name.clone(), value);
        }
    }
    Ok(out)
}

fn project_field(
    path: &str,
    field: &Field,
    source: &Source<'_>,
    seal: Seal<'_>,
    grammar: bool,
) -> Result<Option<Value>, Misfit> {
    for place in &field.at {
        let Some((found, gaps)) = select_with_gaps(place, source) else { continue };
        if gaps && !field.optional {
            // A list without some of its items would be taken for the whole (a twin machine is the price).
            return Err(Misfit { field: path.into(), found: "a list with gaps".into() });
        }
        let leaf = |found: &Found<'_>| scalar(path, field, found, seal, grammar);
        if !field.is_list() {
            // A `[k=literal]` step that meets several elements picks the first.
            return found.first().map(leaf).transpose();
        }
        if found.len() > LIST_MAX {
            return Err(Misfit { field: path.into(), found: "a list of more than 10000 elements".into() });
        }
        let Some(each) = &field.each else {
            return found.iter().map(leaf).collect::<Result<_, _>>().map(|l| Some(Value::Array(l)));
        };
        let mut list = Vec::with_capacity(found.len());
        for item in &found {
            let Found::Doc(doc) = item else { return Err(misfit(path, item)) };
            let Doc::Map(_) = doc else { return Err(misfit(path, item)) };
            let inner = Source { headers: source.headers, body: Some(doc) };
            let mut object = Map::new();
            for (name, field) in each {
                if let Some(value) = project_field(&format!("{path}/{name}"), field, &inner, seal, grammar)? {
                    object.insert(name.clone(), value);
                }
            }
            list.push(Value::Object(object));
        }
        return Ok(Some(Value::Array(list)));
    }
    if field.optional {
        return Ok(None);
    }
    Err(Misfit { field: path.into(), found: "nothing".into() })
}

/// What a place selects; `None` when absent or null, so that the next place is tried.
pub(crate) fn select<'d>(place: &Place, source: &Source<'d>) -> Option<Vec<Found<'d>>> {
    select_with_gaps(place, source).map(|(found, _)| found)
}

/// The same, and whether some element of a list lacked what is asked of each.
fn select_with_gaps<'d>(place: &Place, source: &Source<'d>) -> Option<(Vec<Found<'d>>, bool)> {
    match place {
        Place::Header(name) => {
            let mut values = source.headers.get_all(name.as_str()).iter();
            let value = values.next()?.to_str().ok()?;
            // A header that comes twice is nobody's.
            values.next().is_none().then(|| (vec![Found::Header(value)], false))
        }
        Place::Json(pointer) => {
            let (mut out, mut gaps) = (Vec::new(), false);
            let reach = walk(source.body?, &pointer.0, &mut out, &mut gaps);
            (reach == Reach::Yes).then(|| (out.into_iter().map(Found::Doc).collect(), gaps))
        }
        _ => None,
    }
}

/// Did a place lead anywhere?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Yes,
    No,
    /// A `[k=literal]` step met nothing: absent on purpose.
    Filtered,
}

/// Follows the steps. An empty list is there; an element that lacks what is asked of it is a gap.
fn walk<'d>(doc: &'d Doc<'d>, steps: &[Step], out: &mut Vec<&'d Doc<'d>>, gaps: &mut bool) -> Reach {
    let Some((step, rest)) = steps.split_first() else {
        if let Doc::Null = doc {
            return Reach::No;
        }
        out.push(doc);
        return Reach::Yes;
    };
    match (step, doc) {
        (Step::Key(key), Doc::Map(map)) => {
            map.get(key.as_str()).map_or(Reach::No, |d| walk(d, rest, out, gaps))
        }
        (Step::Key(key), Doc::List(list)) => key
            .parse::<usize>()
            .ok()
            .and_then(|index| list.get(index))
            .map_or(Reach::No, |d| walk(d, rest, out, gaps)),
        (Step::Every, Doc::List(list)) => {
            for element in list {
                *gaps |= walk(element, rest, out, gaps) == Reach::No;
            }
            Reach::Yes
        }
        (Step::Every, Doc::Map(map)) => {
            for element in map.values() {
                *gaps |= walk(element, rest, out, gaps) == Reach::No;
            }
            Reach::Yes
        }
        (Step::Where { key, is }, Doc::List(list)) => {
            let mut reach = Reach::Filtered;
            for element in list.iter().filter(|element| has(element, key, is)) {
                match walk(element, rest, out, gaps) {
                    Reach::Yes => reach = Reach::Yes,
                    Reach::No if reach == Reach::Filtered => reach = Reach::No,
                    _ => {}
                }
            }
            reach
        }
        (Step::Where { key, is }, element) if has(element, key, is) => walk(element, rest, out, gaps),
        (Step::Where { .. }, Doc::Map(_)) => Reach::Filtered,
        _ => Reach::No,
    }
}

fn has(element: &Doc<'_>, key: &str, is: &str) -> bool {
    matches!(element, Doc::Map(map) if matches!(map.get(key), Some(Doc::Text(text)) if text.as_str() == is))
}

fn scalar(
    path: &str,
    field: &Field,
    found: &Found<'_>,
    seal: Seal<'_>,
    grammar: bool,
) -> Result<Value, Misfit> {
    let refuse = || misfit(path, found);
    let text = match found {
        Found::Header(text) => (*text).to_owned(),
        Found::Doc(Doc::Text(text)) => text.as_str().to_owned(),
        Found::Doc(Doc::Int(number)) => match field.ty {
            Type::Int => return Ok(Value::from(*number)),
            Type::Size if *number >= 0 => return Ok(Value::from(*number)),
            Type::Id | Type::Sealed => number.to_string(),
            _ => return Err(refuse()),
        },
        Found::Doc(Doc::Large(number)) => match field.ty {
            Type::Size => return Ok(Value::from(*number)),
            Type::Id => number.to_string(),
            _ => return Err(refuse()),
        },
        Found::Doc(Doc::Bool(flag)) if field.ty == Type::Bool => return Ok(Value::Bool(*flag)),
        Found::Doc(_) => return Err(refuse()),
    };
    let text = match &field.matches {
        Some((before, after)) => text
            .strip_prefix(before.as_str())
            .and_then(|rest| rest.strip_suffix(after.as_str()))
            .ok_or_else(refuse)?,
        None => text.as_str(),
    };
    if field.max.is_some_and(|max| text.len() > max as usize) {
        return Err(refuse());
    }
    match field.ty {
        Type::Int => text.parse::<i64>().map(Value::from).map_err(|_| refuse()),
        Type::Bool => text.parse::<bool>().map(Value::from).map_err(|_| refuse()),
        Type::Sealed if text.is_empty() || text.len() > SEALED_MAX => Err(refuse()),
        Type::Sealed => seal(path, field.within.as_deref(), text).map(Value::String).ok_or_else(refuse),
        Type::Size => types::size_of(text).map(Value::from).ok_or_else(refuse),
        ty if !grammar || types::text_fits(ty, text) => Ok(Value::String(text.to_owned())),
        _ => Err(refuse()),
    }
}

/// Kind and length class of what was found.
pub(crate) fn misfit(path: &str, found: &Found<'_>) -> Misfit {
    let found = match found {
        Found::Header(value) => text_class(value.len()),
        Found::Doc(Doc::Text(value)) => text_class(value.as_str().len()),
        Found::Doc(Doc::Null) => "null".into(),
        Found::Doc(Doc::Bool(_)) => "a boolean".into(),
        Found::Doc(Doc::Int(_) | Doc::Large(_) | Doc::Float) => "a number".into(),
        Found::Doc(Doc::List(_)) => "a list".into(),
        Found::Doc(Doc::Map(_)) => "an object".into(),
    };
    Misfit { field: path.into(), found }
}

/// A length as a class, so that no length of a secret is told (attack 17).
pub(crate) fn text_class(length: usize) -> String {
    match length {
        0 => "an empty string",
        1..=8 => "a string of 1 to 8 bytes",
        9..=64 => "a string of 9 to 64 bytes",
        65..=256 => "a string of 65 to 256 bytes",
        257..=4096 => "a string of 257 to 4096 bytes",
        _ => "a string of more than 4096 bytes",
    }
    .to_owned()
}

/// Text of a scalar, for captures, error words and page tokens.
pub(crate) fn text_of<'t>(found: &'t Found<'_>) -> Option<std::borrow::Cow<'t, str>> {
    match found {
        Found::Header(text) => Some((*text).into()),
        Found::Doc(Doc::Text(Text::Borrowed(text))) => Some((*text).into()),
        Found::Doc(Doc::Text(Text::Owned(text))) => Some(text.as_str().into()),
        Found::Doc(Doc::Int(number)) => Some(number.to_string().into()),
        Found::Doc(Doc::Large(number)) => Some(number.to_string().into()),
        _ => None,
    }
}

/// The first scalar at a place.
pub(crate) fn text_at(place: &Place, source: &Source<'_>) -> Option<String> {
    text_of(select(place, source)?.first()?).map(std::borrow::Cow::into_owned)
}

/// Is every field that reads the body optional, so that an empty body fits?
pub(crate) fn body_is_optional(fields: &BTreeMap<String, Field>) -> bool {
    fields
        .values()
        .all(|field| field.optional || field.at.iter().all(|place| !matches!(place, Place::Json(Pointer(_)))))
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
