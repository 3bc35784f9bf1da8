//! Texts with holes: provider IDs, path templates, credential formats, argument formats, path globs.

use crate::error::Syntax;
use crate::model::{ArgFormat, Format, FormatPart, PathPart, PathTemplate, PatternPart, ProviderIdPattern};
use crate::table::is_name;
use std::collections::BTreeMap;

/// Literals and holes `{name}` in turn. No empty literal, no `{` or `}` elsewhere.
fn split(text: &str) -> Result<Vec<(bool, &str)>, Syntax> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        let (literal, tail) = rest.split_at(open);
        let Some((hole, after)) = tail.strip_prefix('{').and_then(|tail| tail.split_once('}')) else {
            return Err(Syntax::bad(format!("`{text}` has a brace without its partner")));
        };
        if !literal.is_empty() {
            parts.push((false, literal));
        }
        parts.push((true, hole));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push((false, rest));
    }
    Ok(parts)
}

impl ProviderIdPattern {
    /// Reads the pattern itself: `hcloud://{server}`.
    pub fn new(text: &str) -> Result<ProviderIdPattern, Syntax> {
        let pieces = split(text)?;
        let mut parts: Vec<PatternPart> = Vec::new();
        for (is_hole, piece) in pieces {
            if !is_hole {
                if piece.chars().any(|c| c.is_control() || c.is_whitespace()) {
                    return Err(Syntax::bad("a provider-id pattern has no blanks"));
                }
                parts.push(PatternPart::Literal(piece.to_owned()));
                continue;
            }
            if !is_name(piece) {
                return Err(Syntax::bad(format!("`{{{piece}}}` is not a resource kind")));
            }
            if matches!(parts.last(), Some(PatternPart::Hole(_))) {
                return Err(Syntax::bad("two holes of a provider-id pattern need a literal between them"));
            }
            let hole = PatternPart::Hole(piece.to_owned());
            if parts.contains(&hole) {
                return Err(Syntax::bad(format!("the hole `{{{piece}}}` occurs twice")));
            }
            parts.push(hole);
        }
        if !matches!(parts.first(), Some(PatternPart::Literal(_))) {
            return Err(Syntax::bad("a provider-id pattern starts with a literal, for example `hcloud://`"));
        }
        if parts.len() < 2 {
            return Err(Syntax::bad("a provider-id pattern has at least one hole"));
        }
        Ok(ProviderIdPattern { text: text.to_owned(), parts })
    }

    /// Resource kinds in the order of the text.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            PatternPart::Hole(kind) => Some(kind.as_str()),
            PatternPart::Literal(_) => None,
        })
    }

    /// The values by kind of a provider ID that fits, anchored at both ends; `None` of one that doesn't. A value is
    /// not empty and holds no `/`; it ends at the first occurrence of the literal that follows, so there is exactly
    /// one reading.
    pub fn parse(&self, id: &str) -> Option<BTreeMap<String, String>> {
        let mut values = BTreeMap::new();
        let mut rest = id;
        for (n, part) in self.parts.iter().enumerate() {
            match part {
                PatternPart::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                PatternPart::Hole(kind) => {
                    let end = match self.parts.get(n + 1) {
                        Some(PatternPart::Literal(next)) => rest.find(next.as_str())?,
                        _ => rest.len(),
                    };
                    let value = &rest[..end];
                    if value.is_empty() || value.contains('/') || value.chars().any(char::is_control) {
                        return None;
                    }
                    values.insert(kind.clone(), value.to_owned());
                    rest = &rest[end..];
                }
            }
        }
        rest.is_empty().then_some(values)
    }

    /// The provider ID of these values. `None` where a kind is missing or the text would be read back differently.
    pub fn render(&self, values: &BTreeMap<String, String>) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                PatternPart::Literal(literal) => text.push_str(literal),
                PatternPart::Hole(kind) => text.push_str(values.get(kind)?),
            }
        }
        let read = self.parse(&text)?;
        read.iter().all(|(kind, value)| values.get(kind) == Some(value)).then_some(text)
    }
}

impl PathTemplate {
    /// Reads `/v1/servers/{id}?per_page=50`.
    pub fn new(text: &str) -> Result<PathTemplate, Syntax> {
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (text, None),
        };
        if !path.starts_with('/') {
            return Err(Syntax::bad("a path starts with `/`"));
        }
        let mut parts = Vec::new();
        let mut flat = String::new();
        for (is_hole, piece) in split(path)? {
            if is_hole {
                if !is_name(piece) {
                    return Err(Syntax::bad(format!("`{{{piece}}}` is not the name of an argument place")));
                }
                let hole = PathPart::Hole(piece.to_owned());
                if parts.contains(&hole) {
                    return Err(Syntax::bad(format!("the hole `{{{piece}}}` occurs twice")));
                }
                parts.push(hole);
                flat.push('x');
            } else {
                if !is_escaped(piece, "/:@!$&'()*+,;=") {
                    return Err(Syntax::bad("a path is written percent-encoded (RFC 3986)"));
                }
                parts.push(PathPart::Literal(piece.to_owned()));
                flat.push_str(piece);
            }
        }
        let lower = flat.to_ascii_lowercase();
        if lower.contains("//") || lower.contains("%2f") || lower.contains("%5c") || lower.contains("%00") {
            return Err(Syntax::bad("a path has no empty part and no encoded slash or zero byte"));
        }
        let dotted = lower.replace("%2e", ".");
        if dotted.split('/').any(|part| part == "." || part == "..") {
            return Err(Syntax::bad("a path has no `.` or `..` parts"));
        }
        if query.is_some_and(|query| query.is_empty() || !is_escaped(query, "/:@!$&'()*+,;=?")) {
            return Err(Syntax::bad("a constant query is written percent-encoded, without holes"));
        }
        Ok(PathTemplate { text: text.to_owned(), parts, query: query.map(str::to_owned) })
    }

    /// Names of the holes.
    pub fn holes(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            PathPart::Hole(name) => Some(name.as_str()),
            PathPart::Literal(_) => None,
        })
    }

    /// Decoded keys of the constant query.
    pub fn query_keys(&self) -> Vec<String> {
        let query = self.query.as_deref().unwrap_or_default();
        query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| decode(pair.split('=').next().unwrap_or("")))
            .collect()
    }
}

/// RFC 3986 unreserved, percent-escapes, and the listed others.
fn is_escaped(text: &str, also: &str) -> bool {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let c = bytes[i];
        if c == b'%' {
            let hex = bytes.get(i + 1..i + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
            if !hex {
                return false;
            }
            i += 3;
            continue;
        }
        if !(c.is_ascii_alphanumeric() || b"-._~".contains(&c) || also.as_bytes().contains(&c)) {
            return false;
        }
        i += 1;
    }
    true
}

/// `application/x-www-form-urlencoded` text of one key or value.
fn decode(text: &str) -> String {
    let plus = text.replace('+', " ");
    percent_encoding::percent_decode_str(&plus).decode_utf8_lossy().into_owned()
}

/// Decoded pairs of a form skeleton in order; a key stands once.
pub(crate) fn form(text: &str) -> Result<Vec<(String, String)>, Syntax> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = decode(key);
        if pairs.iter().any(|(known, _)| *known == key) {
            return Err(Syntax::bad(format!("the form key `{key}` occurs twice")));
        }
        pairs.push((key, decode(value)));
    }
    Ok(pairs)
}

impl Format {
    /// Reads `Bearer {api-token}` or `Basic {base64(user:password)}`.
    pub fn parse(text: &str) -> Result<Format, Syntax> {
        if text.is_empty() || text.len() > 512 || text.chars().any(|c| !(' '..='~').contains(&c)) {
            return Err(Syntax::bad("a format has 1 to 512 printable ASCII characters"));
        }
        let mut parts = Vec::new();
        for (is_hole, piece) in split(text)? {
            if !is_hole {
                parts.push(FormatPart::Text(piece.to_owned()));
            } else if let Some(inner) = piece.strip_prefix("base64(").and_then(|p| p.strip_suffix(')')) {
                parts.push(FormatPart::Base64(base64_parts(inner)?));
            } else if is_name(piece) {
                parts.push(FormatPart::Hole(piece.to_owned()));
            } else {
                return Err(Syntax::bad(format!("`{{{piece}}}` is neither a key nor `base64(…)`")));
            }
        }
        let format = Format(parts);
        if format.holes().is_empty() {
            return Err(Syntax::bad("a format has at least one hole, for example `Bearer {api-token}`"));
        }
        Ok(format)
    }

    /// The format that is one key alone.
    pub fn key(name: &str) -> Format {
        Format(vec![FormatPart::Hole(name.to_owned())])
    }

    /// Keys in order, repeats included.
    pub fn holes(&self) -> Vec<&str> {
        fn walk<'a>(parts: &'a [FormatPart], into: &mut Vec<&'a str>) {
            for part in parts {
                match part {
                    FormatPart::Hole(name) => into.push(name),
                    FormatPart::Base64(inner) => walk(inner, into),
                    FormatPart::Text(_) => {}
                }
            }
        }
        let mut holes = Vec::new();
        walk(&self.0, &mut holes);
        holes
    }

    /// The format as written.
    pub fn text(&self) -> String {
        fn walk(parts: &[FormatPart], inside: bool, out: &mut String) {
            for part in parts {
                match part {
                    FormatPart::Text(text) => out.push_str(text),
                    FormatPart::Hole(name) if inside => out.push_str(name),
                    FormatPart::Hole(name) => {
                        out.push('{');
                        out.push_str(name);
                        out.push('}');
                    }
                    FormatPart::Base64(inner) => {
                        out.push_str("{base64(");
                        walk(inner, true, out);
                        out.push_str(")}");
                    }
                }
            }
        }
        let mut out = String::new();
        walk(&self.0, false, &mut out);
        out
    }
}

/// Inside `base64(…)` names are holes and everything between them is literal.
fn base64_parts(text: &str) -> Result<Vec<FormatPart>, Syntax> {
    let mut parts = Vec::new();
    let mut rest = text;
    let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    while !rest.is_empty() {
        let named = rest.starts_with(|c: char| c.is_ascii_lowercase());
        let end = if named {
            rest.find(|c: char| !in_name(c)).unwrap_or(rest.len())
        } else {
            rest.find(|c: char| c.is_ascii_lowercase()).unwrap_or(rest.len())
        };
        let (piece, tail) = rest.split_at(end);
        if named && !is_name(piece) {
            return Err(Syntax::bad(format!("`{piece}` is not a name")));
        }
        parts.push(if named {
            FormatPart::Hole(piece.to_owned())
        } else {
            FormatPart::Text(piece.to_owned())
        });
        rest = tail;
    }
    Ok(parts)
}

impl ArgFormat {
    /// Reads text with one `{}`, `uuid`, or `int:A-B`.
    pub fn parse(text: &str) -> Result<ArgFormat, Syntax> {
        if text == "uuid" {
            return Ok(ArgFormat::Uuid);
        }
        if let Some(range) = text.strip_prefix("int:") {
            let ends = range
                .split_once('-')
                .and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?)));
            return match ends {
                // Fewer than a million numbers would make unrelated tokens meet.
                Some((low, high)) if low < high && high - low >= 999_999 => Ok(ArgFormat::Int(low, high)),
                _ => Err(Syntax::bad("`int:A-B` takes a range of at least a million numbers")),
            };
        }
        one_hole(text).map(|(before, after)| ArgFormat::Around(before, after))
    }

    /// Is this the plain `{}`?
    pub fn is_plain(&self) -> bool {
        matches!(self, ArgFormat::Around(before, after) if before.is_empty() && after.is_empty())
    }
}

/// Printable text before and after the one `{}`.
pub(crate) fn one_hole(text: &str) -> Result<(String, String), Syntax> {
    let bad = || Syntax::bad(format!("`{text}` needs printable text with exactly one `{{}}`"));
    let (before, after) = text.split_once("{}").ok_or_else(bad)?;
    if after.contains("{}") || text.len() > 512 || text.chars().any(char::is_control) {
        return Err(bad());
    }
    Ok((before.to_owned(), after.to_owned()))
}

/// Checks a path glob: parts joined by `/`, `*` for one part, a last `**` for the rest.
pub(crate) fn glob(text: &str) -> Result<String, Syntax> {
    let Some(rest) = text.strip_prefix('/') else {
        return Err(Syntax::bad("a path glob starts with `/`"));
    };
    let parts: Vec<&str> = rest.split('/').collect();
    for (n, part) in parts.iter().enumerate() {
        let last = n + 1 == parts.len();
        let fits = match *part {
            "**" => last,
            "*" => true,
            "" | "." | ".." => false,
            literal => is_escaped(literal, ":@!$&'()+,;=") && !literal.contains('%'),
        };
        if !fits {
            return Err(Syntax::bad(format!(
                "`{part}` is not a part of a path glob; allowed: names, `*`, and `**` at the end"
            )));
        }
    }
    if parts == ["**"] || parts == ["*"] {
        return Err(Syntax::bad("a path glob names at least one part"));
    }
    Ok(text.to_owned())
}

/// Does a normalised absolute path lie under a glob? `*` is one part, a last `**` is one or more.
pub fn glob_matches(glob: &str, path: &str) -> bool {
    let mut wanted = glob.split('/').peekable();
    let mut parts = path.split('/');
    loop {
        match (wanted.next(), parts.next()) {
            (Some("**"), Some(part)) => return !part.is_empty(),
            (Some("*"), Some(part)) if !part.is_empty() => {}
            (Some(want), Some(part)) if want == part => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}
