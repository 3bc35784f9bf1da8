//! Normal forms of a text. Folding takes case, separators, wrapping and alphabets away; peeling undoes one layer of one
//! family of escapes, however many of the characters were escaped.

use zeroize::Zeroizing;

/// One family of escapes. They are peeled one at a time: undoing two at once could spoil a secret that holds the
/// other's characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// `%41`
    Percent,
    /// `%41`, and `+` for a space.
    Form,
    /// `&amp;`, `&#65;`, `&#x41;`
    Entity,
    /// `\n`, `\"`, `\u0041`, `\x41`
    Backslash,
    /// `=41`, and `=` at the end of a line.
    QuotedPrintable,
}

impl Family {
    pub const ALL: [Family; 5] =
        [Family::Percent, Family::Form, Family::Entity, Family::Backslash, Family::QuotedPrintable];

    fn mark(self) -> u8 {
        match self {
            Family::Percent | Family::Form => b'%',
            Family::Entity => b'&',
            Family::Backslash => b'\\',
            Family::QuotedPrintable => b'=',
        }
    }
}

/// Undoes one layer of a family; `None` where there is none.
pub(super) fn peel(family: Family, text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let plus = family == Family::Form && text.contains(&b'+');
    if !plus && !text.contains(&family.mark()) {
        return None;
    }
    // Nothing that is undone becomes longer.
    let mut out = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut at = 0;
    let mut changed = plus;
    while at < text.len() {
        let byte = text[at];
        if byte == family.mark()
            && let Some(length) = undo(family, &text[at..], &mut out)
        {
            at += length;
            changed = true;
            continue;
        }
        out.push(if plus && byte == b'+' { b' ' } else { byte });
        at += 1;
    }
    changed.then_some(out)
}

/// Undoes the escape at the start of the text; returns its length.
fn undo(family: Family, text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    match family {
        Family::Percent | Family::Form => {
            out.push(hex(text.get(1..3)?)? as u8);
            Some(3)
        }
        Family::QuotedPrintable => match text.get(1..)? {
            [b'\r', b'\n', ..] => Some(3),
            [b'\n', ..] => Some(2),
            rest => {
                out.push(hex(rest.get(..2)?)? as u8);
                Some(3)
            }
        },
        Family::Entity => entity(text, out),
        Family::Backslash => backslash(text, out),
    }
}

fn entity(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let end = text.iter().take(12).position(|b| *b == b';')?;
    let name = &text[1..end];
    let named = match name {
        b"amp" => Some(b'&'),
        b"lt" => Some(b'<'),
        b"gt" => Some(b'>'),
        b"quot" => Some(b'"'),
        b"apos" => Some(b'\''),
        _ => None,
    };
    let code = match (named, name) {
        (Some(byte), _) => u32::from(byte),
        (None, [b'#', b'x' | b'X', digits @ ..]) => hex(digits)?,
        (None, [b'#', digits @ ..]) => std::str::from_utf8(digits).ok()?.parse().ok()?,
        _ => return None,
    };
    push(char::from_u32(code)?, out);
    Some(end + 1)
}

fn backslash(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let simple = match text.get(1)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'x' => {
            push(char::from_u32(hex(text.get(2..4)?)?)?, out);
            return Some(4);
        }
        b'u' => {
            let first = hex(text.get(2..6)?)?;
            if let Some(single) = char::from_u32(first) {
                push(single, out);
                return Some(6);
            }
            let second = text.get(6..8).filter(|mark| mark == b"\\u").and_then(|_| hex(text.get(8..12)?))?;
            let pair = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
            push(char::decode_utf16(pair).next()?.ok()?, out);
            return Some(12);
        }
        other if other.is_ascii_punctuation() => *other,
        _ => return None,
    };
    out.push(simple);
    Some(2)
}

fn push(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn hex(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 6 {
        return None;
    }
    digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
}

/// 0 for bytes that fold away, otherwise the lower-case letter or digit.
const TABLE: [u8; 256] = table();

const fn table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    table
}

/// Letters and digits in lower case. Undoes MIME line wrapping, quoted-printable soft breaks, hex separators, case
/// folding, interleaved punctuation and the difference of base64 and base64url (attack 8).
pub(super) fn fold(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(vec![0; text.len()]);
    let mut filled = 0;
    for byte in text {
        let folded = TABLE[*byte as usize];
        out[filled] = folded;
        filled += usize::from(folded != 0);
    }
    out.truncate(filled);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_case_separators_and_base64_alphabets_fold_away() {
        assert_eq!(&fold(b"aB:cD-e\r\nF+/_9=\n")[..], b"abcdef9");
    }

    #[test]
    fn one_layer_of_one_family_is_peeled_at_a_time() {
        let cases = [
            (Family::Percent, "a%2Fb%zz%4", Some("a/b%zz%4")),
            (Family::Percent, "%2541+", Some("%41+")),
            (Family::Form, "a+b%2B", Some("a b+")),
            (Family::Entity, "&lt;&#65;&#x42;&nope;&", Some("<AB&nope;&")),
            (Family::Backslash, "\\u00fc\\\"\\/\\n\\x41\\uD83D\\uDE00\\q", Some("ü\"/\nA😀\\q")),
            (Family::QuotedPrintable, "a=3Db=\r\nc=x", Some("a=bc=x")),
            (Family::Percent, "plain", None),
            (Family::Entity, "a & b", None),
        ];
        for (family, text, expected) in cases {
            let peeled =
                peel(family, text.as_bytes()).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
            assert_eq!(peeled.as_deref(), expected, "{text}");
        }
    }
}
