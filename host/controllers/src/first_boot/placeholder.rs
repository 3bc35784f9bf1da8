//! Placeholders for secret values, and how they are filled in after the engine is done.
//!
//! In a text a placeholder is two characters that stand for no text (U+FDD0, U+FDD1) around a number. The number is of a
//! secret, or of a step over a text that holds placeholders itself.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use data_encoding::BASE64;
use minijinja::Value;
use minijinja::value::{Object, ObjectRepr};
use zeroize::Zeroizing;

use super::template::MAX_BUILT;
use crate::rooms::Secret;

/// Begins a placeholder.
pub(super) const FIRST: char = '\u{fdd0}';
/// Ends one.
pub(super) const LAST: char = '\u{fdd1}';
/// Deepest chain of filters over a secret.
const MAX_DEPTH: usize = 16;

/// What a filter does with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A JSON string, quotes included.
    Json,
    Base64,
    /// Spaces before each line after the first (`first`: before it too), blank lines left alone unless `blank`.
    Indent {
        width: usize,
        first: bool,
        blank: bool,
    },
    Trim,
}

/// Why a placeholder can't be filled in.
#[derive(Debug)]
pub(super) struct FillError {
    /// Line of the result, where it is known to be that of the template too.
    pub line: Option<usize>,
    pub what: String,
}

enum Node {
    Secret { name: String, bytes: Secret },
    Over { step: Step, text: String },
}

/// The secrets of one template, and the steps that were asked for over them.
#[derive(Default)]
pub(super) struct Secrets {
    nodes: Mutex<Vec<Node>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// What the engine is given in place of a secret. It is one thing without parts: it can't be cut, indexed or counted.
#[derive(Debug)]
struct Placeholder(String);

impl Object for Placeholder {
    fn repr(self: &std::sync::Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &std::sync::Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text holds a placeholder.
pub(super) fn holds_secret(text: &str) -> bool {
    text.contains([FIRST, LAST])
}

impl Secrets {
    fn lock(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, node: Node) -> Value {
        let mut nodes = self.lock();
        nodes.push(node);
        Value::from_object(Placeholder(format!("{FIRST}{}{LAST}", nodes.len() - 1)))
    }

    /// Takes a secret in.
    pub(super) fn secret(&self, name: &str, bytes: Secret) -> Value {
        self.add(Node::Secret { name: name.to_owned(), bytes })
    }

    /// Applies a step: at once to a plain text, later to one with secrets in it.
    pub(super) fn step(&self, step: Step, text: String) -> Result<Value, String> {
        if holds_secret(&text) {
            return Ok(self.add(Node::Over { step, text }));
        }
        let bytes = step.apply(text.as_bytes(), "the value")?;
        String::from_utf8(bytes.to_vec()).map(Value::from).map_err(|_| "the value is no text".to_owned())
    }

    /// Fills everything in. The buffers are made as large as they must be beforehand: one that grows leaves copies.
    pub(super) fn fill(&self, text: &str) -> Result<Secret, FillError> {
        let nodes = self.lock();
        fill(&nodes, text, 0)
    }
}

enum Piece<'a> {
    Plain(&'a str),
    Secret(&'a [u8]),
    Made(Secret),
}

impl Piece<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(text) => text.as_bytes(),
            Self::Secret(bytes) => bytes,
            Self::Made(bytes) => bytes,
        }
    }
}

fn fill(nodes: &[Node], text: &str, depth: usize) -> Result<Secret, FillError> {
    let (mut pieces, mut rest, mut size) = (Vec::new(), text, 0);
    while !rest.is_empty() {
        let at = rest.find([FIRST, LAST]).unwrap_or(rest.len());
        let (plain, after) = rest.split_at(at);
        pieces.push(Piece::Plain(plain));
        rest = after;
        if !after.is_empty() {
            let line = (depth == 0).then(|| text[..text.len() - after.len()].matches('\n').count() + 1);
            let (piece, left) = one(nodes, after, depth).map_err(|what| FillError { line, what })?;
            pieces.push(piece);
            rest = left;
        }
        size = pieces.iter().map(|piece| piece.bytes().len()).sum();
        if size > MAX_BUILT {
            let what = format!("it makes more than {} KiB, the most first-boot data", MAX_BUILT / 1024);
            return Err(FillError { line: None, what });
        }
    }
    let mut filled = Zeroizing::new(Vec::with_capacity(size));
    for piece in &pieces {
        filled.extend_from_slice(piece.bytes());
    }
    Ok(filled)
}

/// The placeholder that a text begins with, and the text after it.
fn one<'a>(nodes: &'a [Node], text: &'a str, depth: usize) -> Result<(Piece<'a>, &'a str), String> {
    let cut = || {
        "it cuts or changes a secret value; only `tojson`, `b64encode`, `indent` and `trim` take one"
            .to_owned()
    };
    let inner = text.strip_prefix(FIRST).ok_or_else(cut)?;
    let (number, rest) = inner.split_once(LAST).ok_or_else(cut)?;
    let node = number.parse().ok().and_then(|at: usize| nodes.get(at)).ok_or_else(cut)?;
    if depth >= MAX_DEPTH {
        return Err(format!("it chains more than {MAX_DEPTH} filters over a secret value"));
    }
    let piece = match node {
        Node::Secret { bytes, .. } => Piece::Secret(bytes),
        Node::Over { step, text } => {
            let bytes = fill(nodes, text, depth + 1).map_err(|error| error.what)?;
            Piece::Made(step.apply(&bytes, &names(nodes, text))?)
        }
    };
    Ok((piece, rest))
}

/// The names of the secrets in a text, for a sentence.
fn names(nodes: &[Node], text: &str) -> String {
    let numbers = text.split(FIRST).skip(1).filter_map(|part| part.split(LAST).next()?.parse::<usize>().ok());
    let names = numbers.filter_map(|at| match nodes.get(at)? {
        Node::Secret { name, .. } => Some(format!("values.{name}")),
        Node::Over { text, .. } => Some(names(nodes, text)),
    });
    names.collect::<Vec<_>>().join(" and ")
}

impl Step {
    fn apply(self, bytes: &[u8], name: &str) -> Result<Secret, String> {
        let text = || {
            std::str::from_utf8(bytes)
                .map_err(|_| format!("{name} is no UTF-8 text, which this filter needs"))
        };
        Ok(match self {
            Self::Json => json(text()?),
            Self::Base64 => {
                let mut out = Zeroizing::new(vec![0; BASE64.encode_len(bytes.len())]);
                BASE64.encode_mut(bytes, &mut out);
                out
            }
            Self::Indent { width, first, blank } => indent(bytes, width, first, blank)?,
            Self::Trim => Zeroizing::new(text()?.trim().as_bytes().to_vec()),
        })
    }
}

fn json(text: &str) -> Secret {
    let mut out = Zeroizing::new(Vec::with_capacity(text.len() * 6 + 2));
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 | 0x7f => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
    out
}

fn indent(bytes: &[u8], width: usize, first: bool, blank: bool) -> Result<Secret, String> {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let size = bytes.len() + lines * width;
    if size > MAX_BUILT {
        return Err(format!("it makes more than {} KiB, the most first-boot data", MAX_BUILT / 1024));
    }
    let mut out = Zeroizing::new(Vec::with_capacity(size));
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if number > 0 {
            out.push(b'\n');
        }
        if (number > 0 || first) && (blank || !line.is_empty()) {
            let end = out.len() + width;
            out.resize(end, b' ');
        }
        out.extend_from_slice(line);
    }
    Ok(out)
}
