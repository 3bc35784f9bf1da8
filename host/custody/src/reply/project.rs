//! Projection: declared fields with typed grammars, and nothing else of a reply (attacks 2, 6, 12).

use super::document::{Doc, Text};
use super::types::{self, SEALED_MAX};
use super::xml;
use holdfast_manifest::{Field, Place, Step, Type};
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

/// What a place selects.
#[derive(Default)]
pub(crate) struct Selected<'d> {
    pub found: Vec<Found<'d>>,
    /// Some element of a list lacked what is asked of each.
    pub gaps: bool,
    /// Several XML elements stand where one is declared.
    pub repeated: bool,
}

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
        let Some(Selected { found, gaps, repeated }) = select_strictly(place, source) else { continue };
        if repeated {
            return Err(Misfit {
                field: path.into(),
                found: "several elements where one is declared".into(),
            });
        }
        if gaps && !field.optional {
            // A list without some of its items would be taken for the whole (a twin machine is the price).
            return Err(Misfit { field: path.into(), found: "a list with gaps".into() });
        }
        let leaf = |found: &Found<'_>| scalar(path, field, found, seal, grammar);
        if !field.is_list() {
            // A `[k=literal]` step that meets several elements picks the first.
            return found.first().map(leaf).transpose();
        }
        let most = field.max_items.map_or(LIST_MAX, |max| max as usize);
        if found.len() > most {
            return Err(Misfit { field: path.into(), found: format!("a list of more than {most} elements") });
        }
        let Some(each) = &field.each else {
            return found.iter().map(leaf).collect::<Result<_, _>>().map(|l| Some(Value::Array(l)));
        };
        let mut list = Vec::with_capacity(found.len());
        for item in &found {
            let Found::Doc(doc) = item else { return Err(misfit(path, item)) };
            let (Doc::Map(_) | Doc::Element(_)) = doc else { return Err(misfit(path, item)) };
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

/// Everything that a capture's place selects; of XML also every element where one is declared, so that a second one
/// hides nothing. `None` when absent or null.
pub(crate) fn select<'d>(place: &Place, source: &Source<'d>) -> Option<Vec<Found<'d>>> {
    match place {
        Place::Xml(pointer) => xml::select(source.body?, &pointer.0, true).map(|selected| selected.found),
        _ => select_strictly(place, source).map(|selected| selected.found),
    }
}

/// What a place selects; `None` when absent or null, so that the next place is tried.
fn select_strictly<'d>(place: &Place, source: &Source<'d>) -> Option<Selected<'d>> {
    match place {
        Place::Header(name) => {
            let mut values = source.headers.get_all(name.as_str()).iter();
            let value = values.next()?.to_str().ok()?;
            // A header that comes twice is nobody's.
            let found = vec![Found::Header(value)];
            values.next().is_none().then(|| Selected { found, ..Selected::default() })
        }
        Place::Json(pointer) => {
            let (mut out, mut gaps) = (Vec::new(), false);
            let reach = walk(source.body?, &pointer.0, &mut out, &mut gaps);
            let found = out.into_iter().map(Found::Doc).collect();
            (reach == Reach::Yes).then_some(Selected { found, gaps, repeated: false })
        }
        Place::Xml(pointer) => xml::select(source.body?, &pointer.0, false),
        _ => None,
    }
}

/// Did a place lead anywhere?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
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
        Found::Doc(Doc::Element(leaf)) if leaf.is_leaf() => leaf.text.as_str().to_owned(),
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
        Found::Doc(Doc::Element(leaf)) if leaf.is_leaf() => text_class(leaf.text.as_str().len()),
        Found::Doc(Doc::Element(_)) => "an element with elements".into(),
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
        Found::Doc(Doc::Element(leaf)) if leaf.is_leaf() => Some(leaf.text.as_str().into()),
        Found::Doc(Doc::Int(number)) => Some(number.to_string().into()),
        Found::Doc(Doc::Large(number)) => Some(number.to_string().into()),
        _ => None,
    }
}

/// Do several XML elements stand where the place means one?
pub(crate) fn is_repeated(place: &Place, source: &Source<'_>) -> bool {
    select_strictly(place, source).is_some_and(|selected| selected.repeated)
}

/// The first scalar at a place; nothing where XML has several.
pub(crate) fn text_at(place: &Place, source: &Source<'_>) -> Option<String> {
    let selected = select_strictly(place, source).filter(|selected| !selected.repeated)?;
    text_of(selected.found.first()?).map(std::borrow::Cow::into_owned)
}

/// Is every field that reads the body optional, so that an empty body fits?
pub(crate) fn body_is_optional(fields: &BTreeMap<String, Field>) -> bool {
    let in_body = |place: &Place| matches!(place, Place::Json(_) | Place::Xml(_));
    fields.values().all(|field| field.optional || !field.at.iter().any(in_body))
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
