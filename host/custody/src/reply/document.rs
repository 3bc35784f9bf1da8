//! A reply's body, parsed once from its buffer: strings borrow from it, duplicate keys are refused, depth is bounded.

use super::xml::{self, Element};
use holdfast_manifest::ReplyKind;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use zeroize::Zeroizing;

const DEPTH: usize = 64;

/// Text of a reply: a slice of the buffer, or unescaped into memory that is wiped.
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Owned(Zeroizing<String>),
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Owned(text) => text,
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// A JSON value or an XML element of a reply. Has no `Debug`: it may hold a captured secret.
pub(crate) enum Doc<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Above `i64`.
    Large(u64),
    Float,
    Text(Text<'a>),
    List(Vec<Doc<'a>>),
    Map(BTreeMap<Text<'a>, Doc<'a>>),
    /// Of XML, which has no other variant.
    Element(Element<'a>),
}

/// Parses a whole body of this kind. `xmlns` is the endpoint's.
pub(crate) fn parse_as<'a>(
    kind: ReplyKind,
    body: &'a [u8],
    xmlns: &'a BTreeMap<String, String>,
) -> Option<Doc<'a>> {
    match kind {
        ReplyKind::Json => parse(body),
        ReplyKind::Xml => xml::parse(body, xmlns),
        ReplyKind::None => None,
    }
}

/// The kind of body that the headers announce, by one content type: `application/json`, `application/…+json`,
/// `application/xml`, `text/xml`, `application/…+xml`; XML in UTF-8 only.
pub(crate) fn announced(headers: &HeaderMap) -> Option<ReplyKind> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let text = value.to_str().ok()?.to_ascii_lowercase();
    let (media, rest) = text.split_once(';').unwrap_or((&text, ""));
    let media = media.trim();
    let suffix = |of: &str| media.starts_with("application/") && media.ends_with(of);
    if media == "application/json" || suffix("+json") {
        return Some(ReplyKind::Json);
    }
    let charset = rest.split(';').find_map(|part| part.trim().strip_prefix("charset="));
    let utf8 = charset.is_none_or(|charset| matches!(charset.trim_matches('"'), "utf-8" | "us-ascii"));
    let xml = matches!(media, "application/xml" | "text/xml") || suffix("+xml");
    (xml && utf8).then_some(ReplyKind::Xml)
}

/// Parses a whole body.
pub(crate) fn parse(body: &[u8]) -> Option<Doc<'_>> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let doc = Seed { depth: DEPTH }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(doc)
}

struct Seed {
    depth: usize,
}

impl Seed {
    fn inner<E: Error>(&self) -> Result<Seed, E> {
        self.depth.checked_sub(1).map(|depth| Seed { depth }).ok_or_else(|| E::custom("too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Doc<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Doc<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Doc<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Doc<'de>, E> {
        Ok(Doc::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Doc<'de>, E> {
        Ok(Doc::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Doc<'de>, E> {
        Ok(Doc::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Doc<'de>, E> {
        Ok(i64::try_from(value).map_or(Doc::Large(value), Doc::Int))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Doc<'de>, E> {
        Ok(Doc::Float)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Doc<'de>, E> {
        Ok(Doc::Text(Text::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Doc<'de>, E> {
        Ok(Doc::Text(Text::Owned(Zeroizing::new(text.to_owned()))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Doc<'de>, A::Error> {
        let mut out = Vec::new();
        while let Some(element) = list.next_element_seed(self.inner()?)? {
            out.push(element);
        }
        Ok(Doc::List(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Doc<'de>, A::Error> {
        let mut out = BTreeMap::new();
        while let Some(key) = map.next_key_seed(self.inner()?)? {
            let Doc::Text(key) = key else { return Err(A::Error::custom("a key is not text")) };
            let value = map.next_value_seed(self.inner()?)?;
            if out.insert(key, value).is_some() {
                return Err(A::Error::custom("duplicate key"));
            }
        }
        Ok(Doc::Map(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_trailing_bytes_and_depth_are_refused_attack_44() {
        assert!(
            parse(br#"{"a": [1, -2, 1.5, "x", null, true, {"b": "c\n"}], "d": 18446744073709551615}"#)
                .is_some()
        );
        for bad in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, "{} {}", "", "nope", "{\"a\": \"\u{1}\"}"] {
            assert!(parse(bad.as_bytes()).is_none(), "{bad}");
        }
        assert!(parse(format!("{}{}", "[".repeat(60), "]".repeat(60)).as_bytes()).is_some());
        assert!(parse(format!("{}{}", "[".repeat(70), "]".repeat(70)).as_bytes()).is_none());
    }
}
