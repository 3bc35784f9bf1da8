//! The small scalar grammars: types, durations, sizes, answer keys, error codes.

use crate::error::Syntax;
use crate::model::{AnswerKey, Type};
use std::fmt;

/// Longest accepted text of a `sealed` value, in bytes.
pub const MAX_SEALED: usize = 4096;

/// The codes of the contract's `types.code` that a manifest may map an answer to.
pub const ERROR_CODES: &[&str] = &[
    "not-found",
    "already-exists",
    "invalid-input",
    "unsupported",
    "capacity-exhausted",
    "quota-exceeded",
    "throttled",
    "unauthenticated",
    "permission-denied",
    "conflict",
    "unavailable",
    "multiple-matches",
    "dependency",
    "canceled",
    "internal",
];

const TYPES: &str = "id, path, word, int, bool, ip, mac, time, size, text:N, sealed";

impl Type {
    /// Parses the written form: `id`, `text:64`, …
    pub fn parse(text: &str) -> Result<Type, Syntax> {
        Ok(match text {
            "id" => Type::Id,
            "path" => Type::Path,
            "word" => Type::Word,
            "int" => Type::Int,
            "bool" => Type::Bool,
            "ip" => Type::Ip,
            "mac" => Type::Mac,
            "time" => Type::Time,
            "size" => Type::Size,
            "sealed" => Type::Sealed,
            other => match other.strip_prefix("text:").map(str::parse::<u16>) {
                Some(Ok(n @ 1..=512)) => Type::Text(n),
                Some(_) => return Err(Syntax::bad("`text:N` takes an N from 1 to 512")),
                None => return Err(Syntax::bad(format!("`{other}` is not a type; allowed: {TYPES}"))),
            },
        })
    }

    /// Longest text in bytes that the type's own grammar allows.
    pub fn max_bytes(self) -> usize {
        match self {
            Type::Id => 256,
            Type::Path => 1024,
            Type::Word | Type::Ip | Type::Mac | Type::Time | Type::Size | Type::Int | Type::Bool => 64,
            Type::Text(n) => usize::from(n),
            Type::Sealed => MAX_SEALED,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Text(n) => return write!(f, "text:{n}"),
            Type::Id => "id",
            Type::Path => "path",
            Type::Word => "word",
            Type::Int => "int",
            Type::Bool => "bool",
            Type::Ip => "ip",
            Type::Mac => "mac",
            Type::Time => "time",
            Type::Size => "size",
            Type::Sealed => "sealed",
        })
    }
}

/// `[A-Za-z][A-Za-z0-9_.-]{0,63}`
pub fn is_word(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// `[A-Za-z0-9._:@!~+=,-]{1,256}`, not `.` or `..`
pub fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 256
        && text != "."
        && text != ".."
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._:@!~+=,-".contains(c))
}

/// `30s`, `5m`, `24h`: seconds, from one second to 31 days.
pub fn duration(text: &str) -> Result<u64, Syntax> {
    let bad = || Syntax::bad(format!("`{text}` is not a duration from 1s to 744h; allowed: 30s, 5m, 24h"));
    let unit = text.chars().last().ok_or_else(bad)?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return Err(bad()),
    };
    let digits = &text[..text.len() - 1];
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let seconds = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(bad)?;
    if (1..=744 * 3600).contains(&seconds) { Ok(seconds) } else { Err(bad()) }
}

/// `64KiB`, `1MiB`, or plain bytes.
pub fn size(text: &str) -> Result<u64, Syntax> {
    let bad =
        || Syntax::bad(format!("`{text}` is not a size; allowed: bytes, or a number with B, KiB or MiB"));
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let factor = match &text[end..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err(bad()),
    };
    text[..end].parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(bad)
}

impl AnswerKey {
    /// Parses `"403 Word"`, `"Word"` or `"403"`.
    pub fn parse(text: &str) -> Result<AnswerKey, Syntax> {
        let bad = || Syntax::bad(format!("`{text}` is not an answer; allowed: `403`, `Word`, `403 Word`"));
        let status = |text: &str| {
            let fits = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
            fits.then(|| text.parse::<u16>().ok()).flatten().filter(|n| (200..=599).contains(n))
        };
        let word = |text: &str| is_word(text).then(|| text.to_owned());
        match text.split_once(' ') {
            Some((first, second)) => match (status(first), word(second)) {
                (Some(status), Some(word)) => Ok(AnswerKey { status: Some(status), word: Some(word) }),
                _ => Err(bad()),
            },
            None => match (status(text), word(text)) {
                (Some(status), _) => Ok(AnswerKey { status: Some(status), word: None }),
                (None, Some(word)) => Ok(AnswerKey { status: None, word: Some(word) }),
                (None, None) => Err(bad()),
            },
        }
    }
}

impl fmt::Display for AnswerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, &self.word) {
            (Some(status), Some(word)) => write!(f, "{status} {word}"),
            (Some(status), None) => write!(f, "{status}"),
            (None, word) => f.write_str(word.as_deref().unwrap_or_default()),
        }
    }
}

// Written as its text, so that it can be the key of a JSON object.
impl serde::Serialize for AnswerKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for AnswerKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<AnswerKey, D::Error> {
        let text = String::deserialize(deserializer)?;
        AnswerKey::parse(&text).map_err(serde::de::Error::custom)
    }
}
