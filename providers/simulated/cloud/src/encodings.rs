//! The forms in which an endpoint can give a secret back (attack 8): what a scanner must know, and what it cannot.
//! Each form is a function from bytes to text, chosen by its name in the query of the echo endpoint.

use std::io::Write;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use flate2::{Compression, write::GzEncoder};

/// Every name that `encode` knows.
pub const ENCODINGS: &[&str] = &[
    "raw",
    "base64-0",
    "base64-1",
    "base64-2",
    "base64url-0",
    "base64url-1",
    "base64url-2",
    "base64-nopad",
    "base64url-nopad",
    "base64-mime",
    "base64-twice",
    "hex",
    "hex-upper",
    "hex-colon",
    "percent",
    "percent-lower",
    "percent-all",
    "percent-twice",
    "form",
    "json-u",
    "json-slash",
    "html",
    "html-decimal",
    "html-hex",
    "quoted-printable",
    "utf-16le-hex",
    "utf-16be-hex",
    "utf-16le-base64",
    "upper",
    "lower",
    "reversed",
    "rot13",
    "interleaved",
    "gzip-base64",
];

/// Writes bytes in a form; `None` if there is no form of that name. Forms of characters take the bytes as UTF-8,
/// lossily.
pub fn encode(form: &str, bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    Some(match form {
        "raw" => text.into_owned(),
        "base64-0" => STANDARD.encode(bytes),
        "base64-1" => STANDARD.encode(shifted(1, bytes)),
        "base64-2" => STANDARD.encode(shifted(2, bytes)),
        "base64url-0" => URL_SAFE.encode(bytes),
        "base64url-1" => URL_SAFE.encode(shifted(1, bytes)),
        "base64url-2" => URL_SAFE.encode(shifted(2, bytes)),
        "base64-nopad" => STANDARD_NO_PAD.encode(bytes),
        "base64url-nopad" => URL_SAFE_NO_PAD.encode(bytes),
        "base64-mime" => in_lines(&STANDARD.encode(bytes), 76),
        "base64-twice" => STANDARD.encode(STANDARD.encode(bytes)),
        "hex" => joined(bytes, "", |byte| format!("{byte:02x}")),
        "hex-upper" => joined(bytes, "", |byte| format!("{byte:02X}")),
        "hex-colon" => joined(bytes, ":", |byte| format!("{byte:02x}")),
        "percent" => percent(bytes, false),
        "percent-lower" => percent(bytes, true),
        "percent-all" => joined(bytes, "", |byte| format!("%{byte:02X}")),
        "percent-twice" => percent(percent(bytes, false).as_bytes(), false),
        "form" => percent(bytes, false).replace("%20", "+"),
        "json-u" => text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
        "json-slash" => {
            let quoted = serde_json::Value::String(text.into_owned()).to_string();
            quoted[1..quoted.len() - 1].replace('/', "\\/")
        }
        "html" => html(&text),
        "html-decimal" => text.chars().map(|c| format!("&#{};", u32::from(c))).collect(),
        "html-hex" => text.chars().map(|c| format!("&#x{:x};", u32::from(c))).collect(),
        "quoted-printable" => quoted_printable(bytes),
        "utf-16le-hex" => joined(&utf16(&text, u16::to_le_bytes), "", |byte| format!("{byte:02x}")),
        "utf-16be-hex" => joined(&utf16(&text, u16::to_be_bytes), "", |byte| format!("{byte:02x}")),
        "utf-16le-base64" => STANDARD.encode(utf16(&text, u16::to_le_bytes)),
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "reversed" => text.chars().rev().collect(),
        "rot13" => text.chars().map(rot13).collect(),
        "interleaved" => text.chars().flat_map(|c| [c, '.']).collect(),
        "gzip-base64" => STANDARD.encode(gzip(bytes)),
        _ => return None,
    })
}

/// Bytes as gzip (RFC 1952).
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory does not fail")
}

/// As it stands in a longer text that is encoded as a whole.
fn shifted(by: usize, bytes: &[u8]) -> Vec<u8> {
    let mut all = b"xy"[..by].to_vec();
    all.extend_from_slice(bytes);
    all.extend_from_slice(b"\nz");
    all
}

fn joined(bytes: &[u8], separator: &str, write: impl Fn(u8) -> String) -> String {
    bytes.iter().map(|byte| write(*byte)).collect::<Vec<_>>().join(separator)
}

fn in_lines(text: &str, width: usize) -> String {
    let lines = text.as_bytes().chunks(width).map(|line| String::from_utf8_lossy(line).into_owned());
    lines.collect::<Vec<_>>().join("\r\n")
}

/// Everything but the unreserved characters of RFC 3986.
fn percent(bytes: &[u8], lower: bool) -> String {
    joined(bytes, "", |byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if lower => format!("%{byte:02x}"),
        _ => format!("%{byte:02X}"),
    })
}

fn html(text: &str) -> String {
    let named = |c| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        _ => String::from(c),
    };
    text.chars().map(named).collect()
}

/// RFC 2045 section 6.7, with soft breaks so that no line is longer than 76 characters.
fn quoted_printable(bytes: &[u8]) -> String {
    let (mut out, mut width) = (String::new(), 0);
    for byte in bytes {
        let piece = match byte {
            b'\n' => {
                out.push_str("\r\n");
                width = 0;
                continue;
            }
            b'!'..=b'<' | b'>'..=b'~' => char::from(*byte).to_string(),
            _ => format!("={byte:02X}"),
        };
        if width + piece.len() > 75 {
            out.push_str("=\r\n");
            width = 0;
        }
        width += piece.len();
        out.push_str(&piece);
    }
    out
}

fn utf16(text: &str, order: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(order).collect()
}

fn rot13(c: char) -> char {
    let turn = |base: u8| char::from(base + (c as u8 - base + 13) % 26);
    match c {
        'a'..='z' => turn(b'a'),
        'A'..='Z' => turn(b'A'),
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_form_exists_and_writes_what_it_says() {
        for form in ENCODINGS {
            assert!(encode(form, b"Pa/ss w\"rd\n").is_some(), "{form}");
        }
        assert_eq!(encode("rot26", b"x"), None);
        for (form, expected) in [
            ("hex-colon", "61:3a:2f"),
            ("percent-lower", "a%3a%2f"),
            ("percent-twice", "a%253A%252F"),
            ("json-u", "\\u0061\\u003a\\u002f"),
            ("html-decimal", "&#97;&#58;&#47;"),
            ("utf-16be-hex", "0061003a002f"),
            ("reversed", "/:a"),
            ("rot13", "n:/"),
            ("base64-1", "eGE6Lwp6"),
        ] {
            assert_eq!(encode(form, b"a:/").unwrap(), expected, "{form}");
        }
        assert_eq!(encode("quoted-printable", b"a=b c").unwrap(), "a=3Db=20c");
    }
}
