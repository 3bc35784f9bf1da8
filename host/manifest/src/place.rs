//! Places: `path:N`, `query:N`, `header:N`, `form:K`, `json:/pointer`, `xml:/steps`, `url`.
//!
//! One string grammar for every location in a request or a reply.

use crate::error::Syntax;
use crate::model::{Place, Pointer, Step};
use crate::table::is_name;
use std::fmt;

const KINDS: &str = "path:N, query:N, header:N, form:K, json:/pointer, xml:/steps, url";
const MAX_STEPS: usize = 32;

impl Place {
    /// Parses the written form.
    pub fn parse(text: &str) -> Result<Place, Syntax> {
        if text == "url" {
            return Ok(Place::Url);
        }
        let Some((kind, rest)) = text.split_once(':') else {
            return Err(Syntax::bad(format!("`{text}` is not a place; allowed: {KINDS}")));
        };
        match kind {
            "path" if is_name(rest) => Ok(Place::Path(rest.to_owned())),
            "query" if is_key(rest, "") => Ok(Place::Query(rest.to_owned())),
            "header" if is_header(rest) => Ok(Place::Header(rest.to_ascii_lowercase())),
            "form" if is_key(rest, "*") && rest.matches('*').count() <= 1 => Ok(Place::Form(rest.to_owned())),
            "json" => Pointer::parse(rest).map(Place::Json),
            "xml" => Pointer::parse(rest).and_then(xml_steps).map(Place::Xml),
            "path" | "query" | "header" | "form" => {
                Err(Syntax::bad(format!("`{rest}` is not a name for `{kind}:`")))
            }
            _ => Err(Syntax::bad(format!("`{kind}:` is not a kind of place; allowed: {KINDS}"))),
        }
    }

    /// Do two request places touch: the same leaf, or one inside the other?
    pub fn overlaps(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Json(a), Place::Json(b)) => {
                let shared = a.0.len().min(b.0.len());
                let fork = (0..shared).find(|&i| a.0[i] != b.0[i]);
                // Two lists of their own at one `*` would have to be zipped: nobody could say how.
                fork.is_none_or(|fork| a.0[..fork].contains(&Step::Every))
            }
            (Place::Form(a), Place::Form(b)) => a == b || form_covers(a, b) || form_covers(b, a),
            (Place::Url, Place::Url | Place::Path(_) | Place::Query(_)) => true,
            (Place::Path(_) | Place::Query(_), Place::Url) => true,
            (a, b) => a == b,
        }
    }
}

/// Does `list` (with a `*`) name the literal key for some index?
fn form_covers(list: &str, literal: &str) -> bool {
    let Some((before, after)) = list.split_once('*') else { return false };
    literal
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after))
        .is_some_and(|index| !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()))
}

fn is_key(text: &str, also: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-[]$".contains(c) || also.contains(c))
}

/// RFC 9110 token, bounded.
pub(crate) fn is_header(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

impl Pointer {
    /// Parses a JSON pointer (RFC 6901) in which `*` and `[k=literal]` are further steps. Empty is the root.
    pub fn parse(text: &str) -> Result<Pointer, Syntax> {
        if text.is_empty() {
            return Ok(Pointer::default());
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(Syntax::bad(format!("`{text}` is not a pointer: it starts with `/` or is empty")));
        };
        if text.len() > 512 || text.chars().any(char::is_control) {
            return Err(Syntax::bad("a pointer has at most 512 printable bytes"));
        }
        let steps = rest.split('/').map(Step::parse).collect::<Result<Vec<_>, _>>()?;
        if steps.len() > MAX_STEPS {
            return Err(Syntax::bad(format!("a pointer has at most {MAX_STEPS} steps")));
        }
        Ok(Pointer(steps))
    }

    /// Names of elements that the steps pass, ask for, or compare.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|step| match step {
            Step::Key(key) | Step::Where { key, .. } => Some(key.as_str()),
            Step::Every => None,
        })
    }

    /// The last step that names something: indexes, `*` and selections are skipped.
    pub fn leaf(&self) -> Option<&str> {
        self.0.iter().rev().find_map(|step| match step {
            Step::Key(key) if !is_index(key) => Some(key.as_str()),
            _ => None,
        })
    }
}

impl Step {
    fn parse(text: &str) -> Result<Step, Syntax> {
        if text == "*" {
            return Ok(Step::Every);
        }
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            return match inner.split_once('=') {
                Some((key, is)) if !key.is_empty() && !is.is_empty() => {
                    Ok(Step::Where { key: unescape(key)?, is: unescape(is)? })
                }
                _ => Err(Syntax::bad(format!("`{text}` is not a selection; allowed: [key=literal]"))),
            };
        }
        if text.is_empty() {
            return Err(Syntax::bad("a pointer has no empty step"));
        }
        unescape(text).map(Step::Key)
    }
}

/// In XML a list is the elements of one name, so `*` and `[k=literal]` follow a name; there are no indexes.
fn xml_steps(pointer: Pointer) -> Result<Pointer, Syntax> {
    let mut before: Option<&Step> = None;
    for step in &pointer.0 {
        let fits = match step {
            Step::Key(name) => is_xml_name(name),
            Step::Every => matches!(before, Some(Step::Key(_))),
            Step::Where { key, .. } => is_xml_name(key) && matches!(before, Some(Step::Key(_) | Step::Every)),
        };
        if !fits {
            return Err(Syntax::bad(format!(
                "`xml:{pointer}` names no elements; allowed: /Name, /p:Name, and after a name `*` or [child=literal]"
            )));
        }
        before = Some(step);
    }
    if pointer.0.is_empty() {
        return Err(Syntax::bad("an xml place starts at the root element: xml:/Name"));
    }
    Ok(pointer)
}

/// `[A-Za-z_][A-Za-z0-9_.-]*`, with a prefix (a name of the manifest) before a colon or without.
fn is_xml_name(text: &str) -> bool {
    let (prefix, local) = match text.split_once(':') {
        Some((prefix, local)) => (Some(prefix), local),
        None => (None, text),
    };
    prefix.is_none_or(is_name)
        && local.len() <= 128
        && local.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && local.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

pub(crate) fn is_index(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit())
}

fn unescape(text: &str) -> Result<String, Syntax> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '~' => match chars.next() {
                Some('0') => out.push('~'),
                Some('1') => out.push('/'),
                _ => return Err(Syntax::bad(format!("`{text}` has a `~` that is neither `~0` nor `~1`"))),
            },
            c => out.push(c),
        }
    }
    Ok(out)
}

fn escape(text: &str) -> String {
    text.replace('~', "~0").replace('/', "~1")
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Path(name) => write!(f, "path:{name}"),
            Place::Query(name) => write!(f, "query:{name}"),
            Place::Header(name) => write!(f, "header:{name}"),
            Place::Form(key) => write!(f, "form:{key}"),
            Place::Json(pointer) => write!(f, "json:{pointer}"),
            Place::Xml(pointer) => write!(f, "xml:{pointer}"),
            Place::Url => f.write_str("url"),
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| match step {
            Step::Key(key) => write!(f, "/{}", escape(key)),
            Step::Every => f.write_str("/*"),
            Step::Where { key, is } => write!(f, "/[{}={}]", escape(key), escape(is)),
        })
    }
}
