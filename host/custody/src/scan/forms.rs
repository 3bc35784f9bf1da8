//! The finite list of derived forms of a secret (attack 8). What differs only in case, separators, line breaks or escapes
//! has no entry of its own: folding and peeling the text meet it.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
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
    let mut encoded = |bytes| forms.push(Form { bytes, encoded: true });
    for utf16 in [wide(secret, u16::to_le_bytes), wide(secret, u16::to_be_bytes)] {
        encoded(hex(&utf16));
        base64_cores(&utf16).into_iter().for_each(&mut encoded);
        encoded(utf16);
    }
    for inner in base64_cores(secret) {
        base64_cores(&inner).into_iter().for_each(&mut encoded);
    }
    base64_cores_url(secret).into_iter().for_each(&mut encoded);
    forms
}

/// The forms that ordinary services make: for the many lines of a document.
pub(super) fn common(secret: &[u8]) -> Vec<Form> {
    let mut forms = Vec::with_capacity(48);
    let mut plain = |bytes| forms.push(Form { bytes, encoded: false });
    plain(Zeroizing::new(secret.to_vec()));
    plain(Zeroizing::new(secret.iter().rev().copied().collect()));
    let mut encoded = |bytes| forms.push(Form { bytes, encoded: true });
    base64_cores(secret).into_iter().for_each(&mut encoded);
    encoded(hex(secret));
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

/// UTF-16 of a text, or of bytes as if each were a character.
fn wide(secret: &[u8], bytes: fn(u16) -> [u8; 2]) -> Zeroizing<Vec<u8>> {
    // No more units than bytes, so that the buffer never grows.
    let mut out = Zeroizing::new(Vec::with_capacity(secret.len() * 2));
    match std::str::from_utf8(secret) {
        Ok(text) => text.encode_utf16().for_each(|unit| out.extend_from_slice(&bytes(unit))),
        Err(_) => secret.iter().for_each(|byte| out.extend_from_slice(&bytes(u16::from(*byte)))),
    }
    out
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
