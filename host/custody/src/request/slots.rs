//! Slots: what a secret becomes before it is placed. Encoders write into wiped buffers only.

use crate::keys::stream;
use crate::secret::{GrowBuffer, SecretBytes, Sink, write_exactly};
use base64::Engine;
use base64::engine::Config as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use flate2::{Compression, GzBuilder};
use holdfast_manifest::{Alphabet, Encoding, Format, FormatPart, MaxOf, Slot};
use std::io::Write;

/// Encodes a slot's bytes in the declared order. The same bytes always become the same text, so that a repeat is
/// recognised by its fingerprint: gzip has no name, no time and no system in its header.
pub(crate) fn encode(slot: &Slot, plain: &SecretBytes) -> Result<SecretBytes, String> {
    let too_long = |length: usize| slot.max_bytes.is_some_and(|max| length as u64 > max);
    if slot.max_of == MaxOf::Plain && too_long(plain.len()) {
        return Err(limit(slot, ""));
    }
    let mut current = SecretBytes::copy_of(plain.expose());
    for encoding in &slot.encode {
        current = match encoding {
            Encoding::Utf8 => {
                current.text().ok_or("is not UTF-8; use a slot with base64")?;
                current
            }
            Encoding::Gzip => gzip(current.expose())?,
            Encoding::Base64 => base64(current.expose(), &STANDARD),
            Encoding::Base64url => base64(current.expose(), &URL_SAFE_NO_PAD),
        };
    }
    if slot.max_of == MaxOf::Encoded && too_long(current.len()) {
        return Err(limit(slot, " once encoded"));
    }
    Ok(current)
}

/// Says the limit, which is the manifest's, and never how long the secret is.
fn limit(slot: &Slot, when: &str) -> String {
    format!(
        "is longer{when} than the {} bytes that the slot's max-bytes allows",
        slot.max_bytes.unwrap_or_default()
    )
}

fn gzip(plain: &[u8]) -> Result<SecretBytes, String> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(GrowBuffer::with_capacity(plain.len() / 2 + 64), Compression::new(9));
    encoder.write_all(plain).map_err(|_| "could not be compressed")?;
    Ok(encoder.finish().map_err(|_| "could not be compressed")?.into_secret())
}

fn base64(plain: &[u8], engine: &impl Engine) -> SecretBytes {
    let mut out = vec![0; base64::encoded_len(plain.len(), engine.config().encode_padding()).unwrap_or(0)];
    // The buffer has exactly the length that the encoder needs.
    let _ = engine.encode_slice(plain, &mut out);
    SecretBytes::from(out)
}

/// Writes a format with its holes filled. `None` if a hole has no value.
pub(crate) fn format<'s>(
    format: &Format,
    value: &dyn Fn(&str) -> Option<&'s SecretBytes>,
) -> Option<SecretBytes> {
    holes(&format.0).iter().all(|hole| value(hole).is_some()).then_some(())?;
    write_exactly(|out| parts(out, &format.0, value))
}

/// Names of the holes of a format.
pub(crate) fn holes(parts: &[FormatPart]) -> Vec<&str> {
    let mut names = Vec::new();
    for part in parts {
        match part {
            FormatPart::Text(_) => {}
            FormatPart::Hole(name) => names.push(name.as_str()),
            FormatPart::Base64(inner) => names.extend(holes(inner)),
        }
    }
    names
}

/// Are all holes inside `base64(…)`? Then control characters of a secret can't reach the place.
pub(crate) fn bare_holes(parts: &[FormatPart]) -> Vec<&str> {
    parts
        .iter()
        .filter_map(|p| if let FormatPart::Hole(name) = p { Some(name.as_str()) } else { None })
        .collect()
}

fn parts<'s>(out: &mut dyn Sink, list: &[FormatPart], value: &dyn Fn(&str) -> Option<&'s SecretBytes>) {
    for part in list {
        match part {
            FormatPart::Text(text) => out.put(text.as_bytes()),
            FormatPart::Hole(name) => {
                if let Some(secret) = value(name) {
                    out.put(secret.expose());
                }
            }
            FormatPart::Base64(inner) => {
                if let Some(plain) = write_exactly(|inner_out| parts(inner_out, inner, value)) {
                    out.put(base64(plain.expose(), &STANDARD).expose());
                }
            }
        }
    }
}

/// A secret that the host makes: the same for every repeat, so that a repeat sends the same bytes.
pub(crate) fn generated(seed: &[u8; 32], length: u32, alphabet: Alphabet) -> SecretBytes {
    const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
    const DIGIT: &[u8] = b"0123456789";
    const OTHER: &[u8] = b"-_.";
    let classes: &[&[u8]] = match alphabet {
        Alphabet::Mixed => &[UPPER, LOWER, DIGIT, OTHER],
        Alphabet::Alnum => &[UPPER, LOWER, DIGIT],
        Alphabet::Hex => &[b"0123456789abcdef"],
    };
    let length = length as usize;
    let all: Vec<u8> = classes.concat();
    let random = stream(seed, length * 4 + classes.len() * 4);
    let word = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&random.expose()[at * 4..at * 4 + 4]);
        u32::from_be_bytes(bytes) as usize
    };
    let mut out: Vec<u8> = (0..length).map(|at| all[word(at) % all.len()]).collect();
    // One of each class, at places of which no two are the same.
    if length >= classes.len() {
        let room = length / classes.len();
        for (index, class) in classes.iter().enumerate() {
            let pick = word(length + index);
            out[index * room + pick % room] = class[(pick / room) % class.len()];
        }
    }
    SecretBytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_kit::slot;
    use holdfast_manifest::SlotKind;
    use std::io::Read;

    /// Field case J09.
    #[test]
    fn first_boot_data_is_encoded_in_order_and_always_alike() {
        let plain = SecretBytes::from(b"#cloud-config\npassword: x\n".to_vec());
        let mut slot = slot(SlotKind::UserData);
        slot.encode = vec![Encoding::Gzip, Encoding::Base64];
        let once = encode(&slot, &plain).unwrap();
        assert_eq!(once.expose(), encode(&slot, &plain).unwrap().expose());
        let packed = STANDARD.decode(once.expose()).unwrap();
        let mut out = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut out).unwrap();
        assert_eq!(out, plain.expose());
    }

    #[test]
    fn limits_count_plain_or_encoded_bytes_as_declared() {
        let plain = SecretBytes::from(vec![b'x'; 30]);
        let mut slot = slot(SlotKind::UserData);
        slot.encode = vec![Encoding::Base64];
        slot.max_bytes = Some(39);
        assert!(encode(&slot, &plain).is_err());
        slot.max_of = MaxOf::Plain;
        assert!(encode(&slot, &plain).is_ok());
        slot.max_bytes = Some(29);
        assert!(encode(&slot, &plain).is_err());
    }

    #[test]
    fn binary_data_in_a_utf8_slot_is_refused() {
        let binary = SecretBytes::from(vec![0xff; 20]);
        assert!(encode(&slot(SlotKind::UserData), &binary).is_err());
    }

    #[test]
    fn formats_fill_holes_and_encode_basic_credentials() {
        let (user, password) = (SecretBytes::from(b"ops".to_vec()), SecretBytes::from(b"p:w".to_vec()));
        let value = |name: &str| match name {
            "user" => Some(&user),
            "password" => Some(&password),
            _ => None,
        };
        let hole = |name: &str| FormatPart::Hole(name.into());
        let inner = vec![hole("user"), FormatPart::Text(":".into()), hole("password")];
        let basic = Format(vec![FormatPart::Text("Basic ".into()), FormatPart::Base64(inner)]);
        assert_eq!(format(&basic, &value).unwrap().expose(), b"Basic b3BzOnA6dw==");
        assert!(format(&Format(vec![hole("missing")]), &value).is_none());
    }

    #[test]
    fn a_generated_secret_has_every_class_and_repeats_itself() {
        for seed in 0..50 {
            let made = generated(&[seed; 32], 12, Alphabet::Mixed);
            let text = made.text().unwrap();
            assert_eq!(text, generated(&[seed; 32], 12, Alphabet::Mixed).text().unwrap());
            for class in [
                char::is_uppercase,
                char::is_lowercase,
                |c: char| c.is_ascii_digit(),
                |c: char| "-_.".contains(c),
            ] {
                assert!(text.contains(class), "{text}");
            }
        }
    }
}
