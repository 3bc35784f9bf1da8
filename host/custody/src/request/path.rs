//! The request target: percent-encoded parts, a constant query and query arguments, parsed again and compared
//! (attacks 26, 30, 31, 32).

use crate::secret::{SecretBytes, Sink, write_exactly};
use holdfast_manifest::{PathPart, PathTemplate};
use url::Url;

/// A query argument or slot.
pub(crate) enum QueryValue<'a> {
    Text(&'a str),
    Secret(&'a SecretBytes),
}

/// Writes everything but unreserved characters (RFC 3986 section 2.3) as `%XX`.
pub(crate) fn percent(out: &mut dyn Sink, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.put(&[*byte]);
        } else {
            out.put(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

/// Percent-encodes into a string; for public text only.
pub(crate) fn percent_text(text: &str) -> String {
    struct Text(String);
    impl Sink for Text {
        fn put(&mut self, bytes: &[u8]) {
            self.0.extend(bytes.iter().map(|b| char::from(*b)));
        }
    }
    let mut out = Text(String::with_capacity(text.len()));
    percent(&mut out, text.as_bytes());
    out.0
}

/// The path of a template: each hole filled by one argument; `/` survives only in arguments of type path.
pub(crate) fn path(
    base: &str,
    template: &PathTemplate,
    fill: impl Fn(&str) -> Option<(String, bool)>,
) -> Result<String, String> {
    let mut out = base.trim_end_matches('/').to_owned();
    for part in &template.parts {
        match part {
            PathPart::Literal(literal) => out.push_str(literal),
            PathPart::Hole(name) => {
                let (text, joined) = fill(name).ok_or_else(|| format!("path:{name} is not filled"))?;
                let segments: Vec<&str> = if joined { text.split('/').collect() } else { vec![&text] };
                if segments.iter().any(|s| s.is_empty() || *s == "." || *s == "..") {
                    return Err(format!("path:{name} would change the path's shape"));
                }
                let encoded: Vec<String> = segments.iter().map(|s| percent_text(s)).collect();
                out.push_str(&encoded.join("/"));
            }
        }
    }
    if !out.starts_with('/') {
        out.insert(0, '/');
    }
    Ok(out)
}

/// Parses origin and path again with the one URL parser and compares: what is sent is what was checked.
pub(crate) fn same_after_parsing(origin: &Url, path: &str, query: Option<&str>) -> bool {
    let base = origin.origin().ascii_serialization();
    let text = match query {
        Some(query) => format!("{base}{path}?{query}"),
        None => format!("{base}{path}"),
    };
    let Ok(parsed) = Url::parse(&text) else { return false };
    parsed.origin() == origin.origin()
        && parsed.path() == path
        && parsed.query() == query
        && parsed.fragment().is_none()
        && parsed.username().is_empty()
        && parsed.password().is_none()
}

/// The keys of a query string, decoded.
pub(crate) fn query_keys(query: &str) -> Vec<String> {
    url::form_urlencoded::parse(query.as_bytes()).map(|(key, _)| key.into_owned()).collect()
}

/// Path and query in one exact buffer: only slots granted by name put a secret here (attack 42).
pub(crate) fn target(
    path: &str,
    constant: Option<&str>,
    values: &[(String, QueryValue<'_>)],
) -> Option<SecretBytes> {
    write_exactly(|out| {
        out.put(path.as_bytes());
        let mut separator: &[u8] = b"?";
        if let Some(constant) = constant.filter(|c| !c.is_empty()) {
            out.put(separator);
            out.put(constant.as_bytes());
            separator = b"&";
        }
        for (name, value) in values {
            out.put(separator);
            percent(out, name.as_bytes());
            out.put(b"=");
            match value {
                QueryValue::Text(text) => percent(out, text.as_bytes()),
                QueryValue::Secret(secret) => percent(out, secret.expose()),
            }
            separator = b"&";
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn template(parts: &[PathPart]) -> PathTemplate {
        PathTemplate { text: String::new(), parts: parts.to_vec(), query: None }
    }

    #[test]
    fn an_argument_cannot_leave_its_segment_attacks_31_and_32() {
        let template = template(&[PathPart::Literal("/v1/s/".into()), PathPart::Hole("id".into())]);
        for evil in ["..", ".", ""] {
            assert!(path("", &template, |_| Some((evil.into(), false))).is_err(), "{evil:?}");
        }
        for evil in ["a/../b", "a?x=1", "a#b", "a\\b", "@evil", "%2e%2e", "a\r\nb", "a b", "ü"] {
            let path = path("/base", &template, |_| Some((evil.into(), false))).unwrap();
            assert_eq!(path.matches('/').count(), 4, "{path}");
            assert!(path.bytes().all(|b| b.is_ascii_graphic() && b != b'?' && b != b'#'), "{path}");
        }
    }

    #[test]
    fn a_target_that_the_parser_reads_otherwise_is_refused_attack_32() {
        let origin = Url::parse("https://api.example:8443").unwrap();
        assert!(same_after_parsing(&origin, "/v1/a%2Fb", Some("x=1")));
        for (path, query) in [
            ("/v1/../x", None),
            ("/v1/%2e%2e/x", None),
            ("/a\\b", None),
            ("/a", Some("b#c")),
            ("/a\tb", None),
        ] {
            assert!(!same_after_parsing(&origin, path, query), "{path}");
        }
    }

    proptest! {
        #[test]
        fn percent_encoding_round_trips(text in "\\PC{0,40}") {
            let encoded = percent_text(&text);
            let decoded = percent_encoding::percent_decode_str(&encoded).decode_utf8().unwrap().into_owned();
            prop_assert_eq!(decoded, text);
        }

        #[test]
        fn every_argument_survives_the_second_parse(text in "[!-~]{1,30}") {
            prop_assume!(text != "." && text != "..");
            let template = template(&[PathPart::Literal("/v1/".into()), PathPart::Hole("id".into())]);
            let path = path("", &template, |_| Some((text.clone(), false))).unwrap();
            let origin = Url::parse("https://api.example").unwrap();
            prop_assert!(same_after_parsing(&origin, &path, None), "{}", path);
        }
    }
}
