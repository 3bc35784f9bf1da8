//! XML replies, read whole from their buffer: elements and text, nothing that a second parser might read otherwise.
//!
//! Refused: document types, entities beyond the five built-in ones, processing instructions, mixed content, comments
//! inside text, more than [`DEPTH`] levels or [`NODES`] elements. Attributes are not read.

use super::document::{Doc, Text};
use super::project::{Found, Reach, Selected};
use holdfast_manifest::Step;
use quick_xml::events::{BytesRef, BytesText, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;
use std::collections::BTreeMap;
use zeroize::Zeroizing;

const DEPTH: usize = 64;
const NODES: usize = 200_000;

/// An element. Has either children or text.
pub(crate) struct Element<'a> {
    space: Space<'a>,
    local: Zeroizing<String>,
    /// Elements in order.
    pub children: Vec<Doc<'a>>,
    pub text: Text<'a>,
}

/// The namespace of a name in the words of the manifest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space<'a> {
    /// What steps without a prefix name: the `default` namespace or none at all; every one where `xmlns` is empty.
    Bare,
    Prefix(&'a str),
    /// No step names it.
    Foreign,
}

impl Element<'_> {
    fn is_named(&self, step: &str) -> bool {
        match (step.split_once(':'), self.space) {
            (None, Space::Bare) => self.local.as_str() == step,
            (Some((prefix, local)), Space::Prefix(known)) => prefix == known && self.local.as_str() == local,
            _ => false,
        }
    }

    /// Without content: absent as a value, empty as a parent.
    fn is_blank(&self) -> bool {
        self.children.is_empty() && self.text.as_str().is_empty()
    }

    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }
}

/// Parses a whole document; the result stands above the root element. `xmlns`: prefix to namespace.
pub(crate) fn parse<'a>(body: &'a [u8], xmlns: &'a BTreeMap<String, String>) -> Option<Doc<'a>> {
    let text = std::str::from_utf8(body).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.chars().any(|c| !is_char(c)) {
        return None;
    }
    let mut reader = NsReader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut open = vec![Frame::new(Space::Bare, Zeroizing::new(String::new()))];
    let mut nodes = 0;
    loop {
        let (space, event) = reader.read_resolved_event().ok()?;
        match event {
            Event::Start(start) => {
                nodes += 1;
                if nodes > NODES || open.len() > DEPTH {
                    return None;
                }
                let space = space_of(&space, xmlns)?;
                let local = start.local_name().into_inner().to_owned();
                open.push(Frame::new(space, Zeroizing::new(local)));
            }
            Event::End(_) => {
                let element = open.pop()?.finish()?;
                open.last_mut()?.children.push(Doc::Element(element));
            }
            Event::Text(part) => open.last_mut()?.parts.push(Part::Slice(slice(&part)?)),
            Event::CData(part) => {
                let part = match part.into_inner() {
                    std::borrow::Cow::Borrowed(part) => part,
                    std::borrow::Cow::Owned(_) => return None,
                };
                open.last_mut()?.parts.push(Part::Slice(part));
            }
            Event::GeneralRef(reference) => open.last_mut()?.parts.push(Part::Char(character(&reference)?)),
            Event::Comment(_) => open.last_mut()?.comment = true,
            Event::Decl(declaration) if open.len() == 1 && open[0].children.is_empty() => {
                let utf8 = match declaration.encoding() {
                    None => true,
                    Some(encoding) => encoding.ok()?.eq_ignore_ascii_case("utf-8"),
                };
                if !utf8 {
                    return None;
                }
            }
            Event::Eof => break,
            // Document types, processing instructions.
            _ => return None,
        }
    }
    let document = open.pop()?.finish()?;
    // Exactly one root, and nothing left open.
    (open.is_empty() && document.children.len() == 1).then_some(Doc::Element(document))
}

/// An element that is being read.
struct Frame<'a> {
    space: Space<'a>,
    local: Zeroizing<String>,
    children: Vec<Doc<'a>>,
    parts: Vec<Part<'a>>,
    comment: bool,
}

enum Part<'a> {
    Slice(&'a str),
    Char(char),
}

impl<'a> Frame<'a> {
    fn new(space: Space<'a>, local: Zeroizing<String>) -> Frame<'a> {
        Frame { space, local, children: Vec::new(), parts: Vec::new(), comment: false }
    }

    /// `None` of mixed content, and of a comment beside text: parsers disagree about where such a text ends.
    fn finish(mut self) -> Option<Element<'a>> {
        let blank = |part: &Part<'_>| matches!(part, Part::Slice(text) if text.chars().all(|c| c.is_ascii_whitespace()));
        if self.parts.iter().all(blank) {
            self.parts.clear();
        }
        if !self.parts.is_empty() && (self.comment || !self.children.is_empty()) {
            return None;
        }
        let Frame { space, local, children, parts, .. } = self;
        Some(Element { space, local, children, text: join(&parts) })
    }
}

/// The text of an element: a slice where it is one, else built in memory of the right size that is wiped. Line ends
/// are one `\n` each (XML 1.0 section 2.11); a written `&#13;` stays.
fn join<'a>(parts: &[Part<'a>]) -> Text<'a> {
    match parts {
        [] => return Text::Borrowed(""),
        [Part::Slice(text)] if !text.contains('\r') => return Text::Borrowed(text),
        _ => {}
    }
    let longest = parts.iter().map(|part| match part {
        Part::Slice(text) => text.len(),
        Part::Char(c) => c.len_utf8(),
    });
    let mut out = Zeroizing::new(String::with_capacity(longest.sum()));
    for part in parts {
        match part {
            Part::Char(c) => out.push(*c),
            Part::Slice(text) => {
                let mut rest = text.chars().peekable();
                while let Some(c) = rest.next() {
                    match c {
                        '\r' => {
                            rest.next_if_eq(&'\n');
                            out.push('\n');
                        }
                        c => out.push(c),
                    }
                }
            }
        }
    }
    Text::Owned(out)
}

fn slice<'a>(part: &BytesText<'a>) -> Option<&'a str> {
    match part.clone().into_inner() {
        std::borrow::Cow::Borrowed(text) => Some(text),
        std::borrow::Cow::Owned(_) => None,
    }
}

/// The five built-in entities and character references.
fn character(reference: &BytesRef<'_>) -> Option<char> {
    if reference.is_char_ref() {
        return reference.resolve_char_ref().ok()?.filter(|c| is_char(*c));
    }
    Some(match &**reference {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "apos" => '\'',
        "quot" => '"',
        _ => return None,
    })
}

/// XML 1.0 section 2.2.
fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

fn space_of<'a>(space: &ResolveResult<'_>, xmlns: &'a BTreeMap<String, String>) -> Option<Space<'a>> {
    let uri = match space {
        ResolveResult::Unknown(_) => return None,
        ResolveResult::Unbound => return Some(Space::Bare),
        ResolveResult::Bound(Namespace(uri)) => *uri,
    };
    if xmlns.is_empty() {
        return Some(Space::Bare);
    }
    let known = xmlns.iter().find(|(_, known)| known.as_str() == uri);
    Some(match known {
        Some((prefix, _)) if prefix == "default" => Space::Bare,
        Some((prefix, _)) => Space::Prefix(prefix),
        None => Space::Foreign,
    })
}

/// What the steps of an xml place lead to. `every`: where one element is asked for and several stand there, all of
/// them (captures); else the selection says so, and does not fit.
pub(crate) fn select<'d>(doc: &'d Doc<'d>, steps: &[Step], every: bool) -> Option<Selected<'d>> {
    let mut selected = Selected::default();
    let reach = walk(doc, steps, every, &mut selected);
    (reach == Reach::Yes || selected.repeated).then_some(selected)
}

fn walk<'d>(doc: &'d Doc<'d>, steps: &[Step], every: bool, out: &mut Selected<'d>) -> Reach {
    let Doc::Element(element) = doc else { return Reach::No };
    let children = |name: &str| {
        let named = |child: &&'d Doc<'d>| matches!(child, Doc::Element(child) if child.is_named(name));
        element.children.iter().filter(named).collect::<Vec<_>>()
    };
    match steps {
        [] if element.is_blank() => Reach::No,
        [] => {
            out.found.push(Found::Doc(doc));
            Reach::Yes
        }
        // An empty list is there as long as its parent is.
        [Step::Key(name), Step::Every, rest @ ..] => {
            for child in children(name) {
                out.gaps |= walk(child, rest, every, out) == Reach::No;
            }
            Reach::Yes
        }
        [Step::Key(name), Step::Where { key, is }, rest @ ..] => {
            let matching = children(name).into_iter().filter(|child| has(child, key, is)).collect();
            one(matching, rest, every, out, Reach::Filtered)
        }
        [Step::Key(name), rest @ ..] => one(children(name), rest, every, out, Reach::No),
        [Step::Where { key, is }, rest @ ..] if has(doc, key, is) => walk(doc, rest, every, out),
        [Step::Where { .. }, ..] => Reach::Filtered,
        [Step::Every, ..] => Reach::No,
    }
}

/// Goes on where one element is meant.
fn one<'d>(all: Vec<&'d Doc<'d>>, rest: &[Step], every: bool, out: &mut Selected<'d>, none: Reach) -> Reach {
    if all.len() > 1 && !every {
        out.repeated = true;
        return Reach::No;
    }
    let mut reach = none;
    for child in all {
        match walk(child, rest, every, out) {
            Reach::Yes => reach = Reach::Yes,
            other if reach != Reach::Yes => reach = other,
            _ => {}
        }
    }
    reach
}

/// Has the element exactly one child of this name, with this text?
fn has(doc: &Doc<'_>, key: &str, is: &str) -> bool {
    let Doc::Element(element) = doc else { return false };
    let mut named = element.children.iter().filter_map(|child| match child {
        Doc::Element(child) if child.is_named(key) => Some(child),
        _ => None,
    });
    let (first, second) = (named.next(), named.next());
    second.is_none() && first.is_some_and(|child| child.is_leaf() && child.text.as_str() == is)
}

#[cfg(test)]
#[path = "xml_tests.rs"]
mod tests;
