//! The typed grammars of section 5: what an argument may be and what a field of a reply may be.

use holdfast_manifest::{Type, is_id, is_word};
use std::net::IpAddr;

/// Longest sealed plaintext in bytes.
pub(crate) const SEALED_MAX: usize = holdfast_manifest::MAX_SEALED;

/// Does a text fit the type's grammar? Integers and booleans have their own forms; a sealed value is bounded only.
pub(crate) fn text_fits(ty: Type, text: &str) -> bool {
    match ty {
        Type::Id => is_id(text),
        Type::Path => text.len() <= ty.max_bytes() && text.split('/').all(is_id),
        Type::Word => is_word(text),
        Type::Ip => text.parse::<IpAddr>().is_ok(),
        Type::Mac => is_mac(text),
        Type::Time => text.len() <= 40 && text.parse::<jiff::Timestamp>().is_ok(),
        Type::Size => size_of(text).is_some(),
        Type::Text(max) => text.len() <= usize::from(max) && text.chars().all(is_printable),
        Type::Sealed => text.len() <= SEALED_MAX && text.chars().all(|c| !c.is_control()),
        Type::Int | Type::Bool => false,
    }
}

/// A word for refusals.
pub(crate) fn describe(ty: Type) -> String {
    match ty {
        Type::Id => "an id".into(),
        Type::Path => "a path of ids".into(),
        Type::Word => "a word".into(),
        Type::Int => "a whole number".into(),
        Type::Bool => "true or false".into(),
        Type::Ip => "an IP address".into(),
        Type::Mac => "a MAC address".into(),
        Type::Time => "an RFC 3339 time".into(),
        Type::Size => "a size".into(),
        Type::Text(max) => format!("printable text of at most {max} bytes"),
        Type::Sealed => "a sealed value of this operation".into(),
    }
}

fn is_mac(text: &str) -> bool {
    let groups: Vec<&str> = text.split([':', '-']).collect();
    let separators = text.contains(':') != text.contains('-');
    separators
        && matches!(groups.len(), 6 | 8)
        && groups.iter().all(|g| g.len() == 2 && g.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// No control, format or separator characters: they could restyle or reorder a terminal line.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Bytes of `12`, `1.5 GiB`, `100GB`.
pub(crate) fn size_of(text: &str) -> Option<u64> {
    if text.len() > 32 {
        return None;
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let factor: u64 = match unit {
        "" | "B" => 1,
        "k" | "kB" | "KB" => 1000,
        "M" | "MB" => 1000_u64.pow(2),
        "G" | "GB" => 1000_u64.pow(3),
        "T" | "TB" => 1000_u64.pow(4),
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        "Ti" | "TiB" => 1 << 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 6 || fraction.contains('.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    if fraction.is_empty() {
        return (!number.contains('.')).then_some(whole);
    }
    let part =
        u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor) / 10_u128.pow(fraction.len() as u32);
    whole.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_words_addresses_and_times_are_a_table() {
        let sizes = [("12", Some(12)), ("1.5 GiB", Some(1_610_612_736)), ("100GB", Some(100_000_000_000))];
        for (text, bytes) in sizes {
            assert_eq!(size_of(text), bytes, "{text}");
        }
        for bad in ["", "x", "1..2", "1.", "-1", "9999999999999TB", "1 parsec"] {
            assert_eq!(size_of(bad), None, "{bad}");
        }
        assert!(text_fits(Type::Mac, "00:1b:44:11:3a:b7"));
        assert!(!text_fits(Type::Mac, "00:1b-44:11:3a:b7"));
        assert!(text_fits(Type::Time, "2026-01-02T03:04:05Z"));
        assert!(!text_fits(Type::Time, "yesterday"));
        assert!(!text_fits(Type::Word, "1abc"));
        assert!(!text_fits(Type::Text(20), "a\u{202e}b"));
    }
}
