//! Folding: what is left of a text when case, separators, wrapping and alphabets of an encoding are taken away.

use zeroize::Zeroizing;

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
}
