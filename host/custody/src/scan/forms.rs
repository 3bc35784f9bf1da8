//! The finite list of derived forms of a secret (attack 8). Forms that differ only in case, separators or line breaks
//! need no entry of their own where they are rich in letters and digits: folding meets them.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::io::Write;
use zeroize::Zeroizing;

/// One derived form. `encoded` forms are specific even when short.
pub(super) struct Form {
    pub bytes: Zeroizing<Vec<u8>>,
    pub encoded: bool,
}

/// Every form of a single value.
pub(super) fn all(secret: &[u8]) -> Vec<Form> {
    let mut forms = common(secret);
    let mut plain = |bytes| forms.push(Form { bytes, encoded: false });
    plain(map(secret, u8::to_ascii_lowercase));
    plain(map(secret, u8::to_ascii_uppercase));
    plain(map(secret, rot13));
    let wide = |bytes: fn(u16) -> [u8; 2]| -> Zeroizing<Vec<u8>> {
        match std::str::from_utf8(secret) {
            Ok(text) => Zeroizing::new(text.encode_utf16().flat_map(bytes).collect()),
            Err(_) => Zeroizing::new(secret.iter().flat_map(|b| bytes(u16::from(*b))).collect()),
        }
    };
    let mut encoded = |bytes| forms.push(Form { bytes, encoded: true });
    for utf16 in [wide(u16::to_le_bytes), wide(u16::to_be_bytes)] {
        encoded(hex(&utf16));
        base64_cores(&utf16).into_iter().for_each(&mut encoded);
        encoded(utf16);
    }
    for inner in base64_cores(secret) {
        base64_cores(&inner).into_iter().for_each(&mut encoded);
    }
    base64_cores_url(secret).into_iter().for_each(&mut encoded);
    encoded(escaped(secret, is_not_unreserved, |out, b| write!(out, "%{b:02x}")));
    encoded(escaped(secret, is_not_unreserved, |out, b| write!(out, "%25{b:02X}")));
    encoded(escaped(secret, is_not_unreserved, |out, b| write!(out, "%25{b:02x}")));
    encoded(escaped(secret, |_| true, |out, b| write!(out, "%25{b:02X}")));
    encoded(escaped(secret, |_| true, |out, b| write!(out, "&#{b};")));
    encoded(escaped(secret, |_| true, |out, b| write!(out, "&#x{b:x};")));
    encoded(escaped(secret, |_| true, |out, b| write!(out, "\\u{b:04x}")));
    encoded(escaped(secret, |_| true, |out, b| write!(out, "\\x{b:02x}")));
    encoded(escaped(secret, |_| true, |out, b| write!(out, "={b:02X}")));
    encoded(escaped(secret, is_not_quoted_printable, |out, b| write!(out, "={b:02X}")));
    encoded(escaped(secret, |b| !b.is_ascii_alphanumeric(), |out, b| write!(out, "\\u{b:04x}")));
    forms
}

/// The forms that ordinary services make: for the many lines of a document.
pub(super) fn common(secret: &[u8]) -> Vec<Form> {
    let mut forms = Vec::with_capacity(48);
    let mut plain = |bytes| forms.push(Form { bytes, encoded: false });
    plain(Zeroizing::new(secret.to_vec()));
    plain(Zeroizing::new(secret.iter().rev().copied().collect()));
    let mut encoded = |bytes| forms.push(Form { bytes, encoded: true });
    encoded(json(secret, false));
    encoded(json(secret, true));
    base64_cores(secret).into_iter().for_each(&mut encoded);
    encoded(hex(secret));
    encoded(escaped(secret, |_| true, |out, b| write!(out, "%{b:02X}")));
    encoded(escaped(secret, is_not_unreserved, |out, b| write!(out, "%{b:02X}")));
    encoded(escaped(secret, is_not_unreserved, plus_form));
    for (quote, apostrophe) in QUOTES {
        encoded(escaped(secret, is_markup, |out, byte| {
            out.write_all(match byte {
                b'<' => b"&lt;",
                b'>' => b"&gt;",
                b'&' => b"&amp;",
                b'"' => quote,
                _ => apostrophe,
            })
        }));
    }
    forms
}

/// The part of a base64 text that doesn't depend on the bytes beside the secret, at each of the three alignments.
pub(super) fn base64_cores(secret: &[u8]) -> [Zeroizing<Vec<u8>>; 3] {
    [0, 1, 2].map(|offset| core(secret, offset, &STANDARD_NO_PAD))
}

fn base64_cores_url(secret: &[u8]) -> [Zeroizing<Vec<u8>>; 3] {
    [0, 1, 2].map(|offset| core(secret, offset, &URL_SAFE_NO_PAD))
}

fn core(secret: &[u8], offset: usize, engine: &GeneralPurpose) -> Zeroizing<Vec<u8>> {
    let mut padded = Zeroizing::new(vec![0; offset]);
    padded.reserve_exact(secret.len());
    padded.extend_from_slice(secret);
    let mut text = Zeroizing::new(vec![0; padded.len().div_ceil(3) * 4]);
    let written = engine.encode_slice(&padded[..], &mut text[..]).unwrap_or(0);
    // Sextets that hold only bits of the secret: the first after the foreign bytes, the last before them.
    let first = (offset * 8).div_ceil(6);
    let last = (padded.len() * 8 / 6).min(written);
    Zeroizing::new(text.get(first..last).unwrap_or_default().to_vec())
}

pub(super) fn hex(secret: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(data_encoding::HEXLOWER.encode(secret).into_bytes())
}

fn map(secret: &[u8], change: impl Fn(&u8) -> u8) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(secret.iter().map(change).collect())
}

fn rot13(byte: &u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        other => *other,
    }
}

fn is_not_unreserved(byte: u8) -> bool {
    !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~'))
}

fn is_not_quoted_printable(byte: u8) -> bool {
    byte == b'=' || !(byte == b' ' || byte.is_ascii_graphic())
}

fn plus_form(out: &mut Vec<u8>, byte: u8) -> std::io::Result<()> {
    if byte == b' ' { out.write_all(b"+") } else { write!(out, "%{byte:02X}") }
}

/// Escapers of HTML and XML differ in what they make of quotes.
const QUOTES: [(&[u8], &[u8]); 6] = [
    (b"&quot;", b"&#39;"),
    (b"&quot;", b"&#x27;"),
    (b"&quot;", b"&apos;"),
    (b"&#34;", b"&#39;"),
    (b"&quot;", b"'"),
    (b"\"", b"'"),
];

fn is_markup(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'&' | b'\'' | b'"')
}

/// JSON as writers escape it; with `\/` where asked.
fn json(secret: &[u8], slashes: bool) -> Zeroizing<Vec<u8>> {
    let special = |b| matches!(b, b'"' | b'\\' | 0..=0x1f) || (slashes && b == b'/');
    escaped(secret, special, |out, byte| match byte {
        b'\n' => out.write_all(b"\\n"),
        b'\r' => out.write_all(b"\\r"),
        b'\t' => out.write_all(b"\\t"),
        0x08 => out.write_all(b"\\b"),
        0x0c => out.write_all(b"\\f"),
        b'"' | b'\\' | b'/' => out.write_all(&[b'\\', byte]),
        other => write!(out, "\\u{other:04x}"),
    })
}

/// Replaces some bytes by an escape, in a buffer that never grows.
fn escaped(
    secret: &[u8],
    special: impl Fn(u8) -> bool,
    escape: impl Fn(&mut Vec<u8>, u8) -> std::io::Result<()>,
) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(secret.len() * 6));
    for byte in secret {
        if special(*byte) {
            // A Vec takes every write.
            let _ = escape(&mut out, *byte);
        } else {
            out.push(*byte);
        }
    }
    out
}
