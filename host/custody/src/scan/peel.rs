//! Families of escapes, and how one escape of a family is undone.

/// One family of escapes. They are peeled one at a time: undoing two at once could spoil a secret that holds the
/// other's characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// No escape is longer.
pub(super) const LONGEST: usize = 12;

/// Does an escape of some family start with this byte?
#[inline(always)]
pub(super) fn is_mark(byte: u8) -> bool {
    MARKS[usize::from(byte)]
}

const MARKS: [bool; 256] = {
    let mut marks = [false; 256];
    let mut n = 0;
    while n < 5 {
        marks[b"%&\\=+"[n] as usize] = true;
        n += 1;
    }
    marks
};

/// What one escape stands for; nothing for a soft line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Undone {
    /// Length of the escape, up to [`LONGEST`].
    pub escape: usize,
    bytes: [u8; 4],
    filled: usize,
}

impl Undone {
    #[inline(always)]
    fn byte(byte: u8, escape: usize) -> Undone {
        Undone { escape, bytes: [byte, 0, 0, 0], filled: 1 }
    }

    fn char(c: char, escape: usize) -> Undone {
        let mut bytes = [0; 4];
        let filled = c.encode_utf8(&mut bytes).len();
        Undone { escape, bytes, filled }
    }

    /// Four bytes and how many of them count.
    #[inline(always)]
    pub fn bytes(&self) -> (&[u8; 4], usize) {
        (&self.bytes, self.filled)
    }
}

impl Family {
    pub const ALL: [Family; 5] =
        [Family::Percent, Family::Form, Family::Entity, Family::Backslash, Family::QuotedPrintable];

    /// The first escape at or after a place of a text.
    #[inline(always)]
    pub fn next(self, text: &[u8], mut at: usize) -> Option<(usize, Undone)> {
        loop {
            at += self.mark_in(text.get(at..)?)?;
            if let Some(undone) = self.undo(&text[at..]) {
                return Some((at, undone));
            }
            at += 1;
        }
    }

    /// Where the family's next mark stands.
    #[inline(always)]
    fn mark_in(self, text: &[u8]) -> Option<usize> {
        let mark = match self {
            Family::Percent => b'%',
            Family::Form => return memchr::memchr2(b'%', b'+', text),
            Family::Entity => b'&',
            Family::Backslash => b'\\',
            Family::QuotedPrintable => b'=',
        };
        // Where escapes stand close, eight bytes at hand are quicker than a search by vectors.
        let Some(eight) = text.first_chunk::<8>() else { return text.iter().position(|b| *b == mark) };
        const ONES: u64 = u64::from_le_bytes([1; 8]);
        let differs = u64::from_le_bytes(*eight) ^ (ONES * u64::from(mark));
        let same = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
        if same != 0 {
            return Some(same.trailing_zeros() as usize / 8);
        }
        memchr::memchr(mark, &text[8..]).map(|at| at + 8)
    }

    /// Undoes the escape at the start of a text.
    #[inline(always)]
    pub fn undo(self, text: &[u8]) -> Option<Undone> {
        match self {
            Family::Form if text.first() == Some(&b'+') => Some(Undone::byte(b' ', 1)),
            Family::Percent | Family::Form => match text {
                [b'%', high, low, ..] => Some(Undone::byte(pair(*high, *low)?, 3)),
                _ => None,
            },
            Family::QuotedPrintable => match text {
                [b'=', b'\r', b'\n', ..] => Some(Undone { escape: 3, bytes: [0; 4], filled: 0 }),
                [b'=', b'\n', ..] => Some(Undone { escape: 2, bytes: [0; 4], filled: 0 }),
                [b'=', high, low, ..] => Some(Undone::byte(pair(*high, *low)?, 3)),
                _ => None,
            },
            Family::Entity => entity(text),
            Family::Backslash => backslash(text),
        }
    }
}

fn entity(text: &[u8]) -> Option<Undone> {
    // The second byte rules out most of what is no entity, such as the `&` between the parameters of a link.
    if !matches!(text, [b'&', b'#' | b'a' | b'l' | b'g' | b'q', ..]) {
        return None;
    }
    let end = text.iter().take(LONGEST).position(|b| *b == b';')?;
    let named = |byte| Some(Undone::byte(byte, end + 1));
    let code = match &text[1..end] {
        b"amp" => return named(b'&'),
        b"lt" => return named(b'<'),
        b"gt" => return named(b'>'),
        b"quot" => return named(b'"'),
        b"apos" => return named(b'\''),
        [b'#', b'x' | b'X', digits @ ..] => hex(digits)?,
        [b'#', digits @ ..] => decimal(digits)?,
        _ => return None,
    };
    Some(Undone::char(char::from_u32(code)?, end + 1))
}

fn backslash(text: &[u8]) -> Option<Undone> {
    let [b'\\', second, ..] = text else { return None };
    let simple = match second {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'x' => return Some(Undone::char(char::from(pair(*text.get(2)?, *text.get(3)?)?), 4)),
        b'u' => return unicode(text),
        other if other.is_ascii_punctuation() => *other,
        _ => return None,
    };
    Some(Undone::byte(simple, 2))
}

fn unicode(text: &[u8]) -> Option<Undone> {
    let first = hex(text.get(2..6)?)?;
    if let Some(single) = char::from_u32(first) {
        return Some(Undone::char(single, 6));
    }
    let second = text.get(6..8).filter(|mark| mark == b"\\u").and_then(|_| hex(text.get(8..12)?))?;
    let both = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
    Some(Undone::char(char::decode_utf16(both).next()?.ok()?, 12))
}

/// A lenient reader takes a sign.
fn decimal(digits: &[u8]) -> Option<u32> {
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    if digits.is_empty() {
        return None;
    }
    let next = |code: u32, digit: &u8| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        code.checked_mul(10)?.checked_add(u32::from(digit))
    };
    digits.iter().try_fold(0, next)
}

fn hex(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 6 {
        return None;
    }
    digits.iter().try_fold(0, |code, digit| Some(code * 16 + u32::from(nibble(*digit)?)))
}

#[inline(always)]
fn pair(high: u8, low: u8) -> Option<u8> {
    Some(nibble(high)? << 4 | nibble(low)?)
}

#[inline(always)]
fn nibble(digit: u8) -> Option<u8> {
    Some(NIBBLES[usize::from(digit)]).filter(|nibble| *nibble < 16)
}

const NIBBLES: [u8; 256] = nibbles();

const fn nibbles() -> [u8; 256] {
    let mut table = [255; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit] as usize] = digit as u8;
        table[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    table
}

/// One layer of a family undone everywhere; `None` where there is none.
#[cfg(test)]
pub(super) fn peel(family: Family, text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some((escape, undone)) = family.next(text, at) {
        out.extend_from_slice(&text[at..escape]);
        out.extend_from_slice(&undone.bytes[..undone.filled]);
        at = escape + undone.escape;
    }
    out.extend_from_slice(&text[at..]);
    (at > 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_layer_of_one_family_is_peeled_at_a_time() {
        let cases = [
            (Family::Percent, "a%2Fb%zz%4", Some("a/b%zz%4")),
            (Family::Percent, "%2541+", Some("%41+")),
            (Family::Form, "a+b%2B", Some("a b+")),
            (Family::Entity, "&lt;&#65;&#x42;&nope;&", Some("<AB&nope;&")),
            (Family::Backslash, "\\u00fc\\\"\\/\\n\\x41\\uD83D\\uDE00\\q", Some("ü\"/\nA😀\\q")),
            (Family::Backslash, "\\\\u0041\\", Some("\\u0041\\")),
            (Family::QuotedPrintable, "a=3Db=\r\nc=x", Some("a=bc=x")),
            (Family::Percent, "plain", None),
            (Family::Entity, "a & b", None),
        ];
        for (family, text, expected) in cases {
            let peeled = peel(family, text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(peeled.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn no_escape_is_longer_than_it_may_be_and_each_starts_with_a_mark() {
        for text in ["\\uD83D\\uDE00", "&#x0001F6;zz", "&#00000065;z", "%41", "=\r\n", "+", "&quot;"] {
            let undone = Family::ALL.iter().find_map(|family| family.undo(text.as_bytes())).unwrap();
            assert!(undone.escape <= LONGEST && is_mark(text.as_bytes()[0]), "{text}");
        }
        assert_eq!(Family::Entity.undo(b"&#000000000065;"), None);
    }
}
