//! Folding: what is left of a text without case, separators, wrapping and the difference of alphabets.
//!
//! A long text is folded two bytes at a time through a table of all pairs; a short one byte by byte, since it would not
//! pay for the table's way into the cache.

use std::sync::LazyLock;

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

/// What two bytes fold to, in the low half; how many bytes that are, in the high half.
static PAIRS: LazyLock<Box<[u32]>> = LazyLock::new(|| {
    let pair = |both: u16| {
        let [first, second] = both.to_le_bytes().map(|byte| TABLE[usize::from(byte)]);
        let kept = u32::from(first != 0) + u32::from(second != 0);
        let text = if first == 0 { [second, 0] } else { [first, second] };
        u32::from(u16::from_le_bytes(text)) | kept << 16
    };
    (0..=u16::MAX).map(pair).collect()
});

/// Bytes that are folded in one go.
const STEP: usize = 32;
/// The room that [`fold_into`] wants beyond what it fills.
pub(super) const SLACK: usize = 2 * STEP;
/// A text of this length pays for the table of pairs.
const LONG: usize = 4096;

/// Is the byte a letter or a digit?
#[inline(always)]
pub(super) fn folds_to_itself(byte: u8) -> bool {
    TABLE[usize::from(byte)] != 0
}

/// Letters and digits of a text in lower case, as many as there is room for. Undoes MIME line wrapping,
/// quoted-printable soft breaks, hex separators, case folding, interleaved punctuation and the difference of base64 and
/// base64url (attack 8). Returns how much of the text was read and how much was written.
pub(super) fn fold_into(text: &[u8], out: &mut [u8]) -> (usize, usize) {
    let pairs = (text.len() >= LONG).then(|| &PAIRS[..]).and_then(|pairs| pairs.first_chunk::<65536>());
    let (mut read, mut filled) = (0, 0);
    while let Some(room) = out.get_mut(filled..).and_then(|out| out.first_chunk_mut::<SLACK>()) {
        let rest = &text[read..];
        let Some(step) = rest.first_chunk::<STEP>() else {
            filled += single(rest, room);
            return (text.len(), filled);
        };
        filled += match pairs {
            Some(pairs) => paired(step, pairs, room),
            None => single(step, room),
        };
        read += STEP;
    }
    (read, filled)
}

#[inline(always)]
fn paired(step: &[u8; STEP], pairs: &[u32; 65536], room: &mut [u8; SLACK]) -> usize {
    let mut filled = 0;
    for both in step.as_chunks::<2>().0 {
        let pair = pairs[usize::from(u16::from_le_bytes(*both))];
        // The mask changes nothing: it tells the compiler that there is room.
        let at = filled & (STEP - 1);
        room[at..at + 2].copy_from_slice(&(pair as u16).to_le_bytes());
        filled += (pair >> 16) as usize;
    }
    filled
}

/// Folds up to [`STEP`] bytes.
#[inline(always)]
fn single(text: &[u8], room: &mut [u8; SLACK]) -> usize {
    let mut filled = 0;
    for byte in text {
        let folded = TABLE[usize::from(*byte)];
        room[filled & (SLACK - 1)] = folded;
        filled += usize::from(folded != 0);
    }
    filled
}

/// All of a text, folded.
pub(super) fn fold(text: &[u8]) -> zeroize::Zeroizing<Vec<u8>> {
    let mut out = zeroize::Zeroizing::new(vec![0; text.len() + SLACK]);
    let (_, filled) = fold_into(text, &mut out);
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
    fn short_and_long_texts_fold_alike_whatever_their_bytes() {
        let text: Vec<u8> = (0..40_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let plain: Vec<u8> =
            text.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect();
        assert_eq!(fold(&text)[..], plain);
        let parts: Vec<u8> = text.chunks(777).flat_map(|part| fold(part).to_vec()).collect();
        assert_eq!(parts, plain);
    }

    #[test]
    fn folding_stops_where_the_room_ends_and_goes_on_from_there() {
        let text = b"Some-Text ".repeat(1000);
        let (mut at, mut all, mut out) = (0, Vec::new(), [0; 200]);
        while at < text.len() {
            let (read, filled) = fold_into(&text[at..], &mut out);
            assert!(read > 0);
            all.extend_from_slice(&out[..filled]);
            at += read;
        }
        assert_eq!(all, b"sometext".repeat(1000));
    }
}
