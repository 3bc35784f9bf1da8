//! Text hygiene (contract 2, section 2(b).6): providers can send anything, conditions accept little.
//!
//! A reason is forced into the Kubernetes pattern; a message is cut on a UTF-8 boundary.

/// Longest condition reason, in bytes (Kubernetes' own limit).
pub const MAX_REASON_BYTES: usize = 1024;
/// Longest condition message, in bytes (Kubernetes' own limit).
pub const MAX_MESSAGE_BYTES: usize = 32768;

const DEFAULT_REASON: &str = "ProviderStatus";
const PREFIX: &str = "Provider_";

/// Forces any text into a condition reason, `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$` of at most
/// [`MAX_REASON_BYTES`]: bad characters become `_`, a reason that doesn't begin with a letter gets the prefix
/// `Provider_`, an empty one becomes `ProviderStatus`.
pub fn sanitise_reason(reason: &str) -> String {
    let reason = reason.trim();
    if reason.is_empty() {
        return DEFAULT_REASON.to_owned();
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    let mut out = String::new();
    if !reason.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.push_str(PREFIX);
    }
    let room = MAX_REASON_BYTES - out.len();
    out.extend(reason.chars().take(room).map(|c| if allowed(c) { c } else { '_' }));
    if out.ends_with([',', ':']) {
        out.pop();
        out.push('_');
    }
    out
}

/// Cuts a message to at most [`MAX_MESSAGE_BYTES`], on a UTF-8 boundary.
pub fn truncate_message(message: &str) -> &str {
    &message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits_the_pattern(reason: &str) -> bool {
        let bytes = reason.as_bytes();
        bytes.len() <= MAX_REASON_BYTES
            && bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.last().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':'))
    }

    /// Contract 2, section 2(f), Resumable row 10.
    #[test]
    fn a_reason_that_is_a_sentence_with_a_number_first_is_sanitised() {
        assert_eq!(sanitise_reason("503 HTTP failure!"), "Provider_503_HTTP_failure_");
    }

    /// Contract 2, section 2(f), Resumable row 10.
    #[test]
    fn a_message_of_forty_kilobytes_is_cut_on_a_character_boundary() {
        for lead in ["", "a", "ab", "abc"] {
            let message = format!("{lead}{}", "\u{1F980}".repeat(10 * 1024));
            let cut = truncate_message(&message);
            assert!(cut.len() <= MAX_MESSAGE_BYTES && cut.len() > MAX_MESSAGE_BYTES - 4);
            assert!(message.starts_with(cut));
        }
        assert_eq!(truncate_message("short"), "short");
    }

    #[test]
    fn every_reason_comes_out_in_the_kubernetes_pattern() {
        let long = "x".repeat(5000);
        let long_number = "9".repeat(5000);
        let long_colon = ":".repeat(5000);
        for reason in [
            "",
            "  ",
            "Ok",
            "a",
            "1",
            "_",
            ":",
            "Foo:",
            "Foo,",
            "äöü",
            "a b\nc\0",
            "\u{1F980}",
            &long,
            &long_number,
            &long_colon,
        ] {
            let out = sanitise_reason(reason);
            assert!(fits_the_pattern(&out), "{reason:?} became {out:?}");
        }
        assert_eq!(sanitise_reason(""), "ProviderStatus");
        assert_eq!(sanitise_reason("QuotaExceeded"), "QuotaExceeded");
        assert_eq!(sanitise_reason("Foo:"), "Foo_");
    }
}
