//! Text hygiene (contract 2, 2(b).6): guests can say anything, conditions and terminals accept little.

/// Longest reason, in bytes.
pub const MAX_REASON: usize = 1024;
/// Longest message, in bytes.
pub const MAX_MESSAGE: usize = 32_768;
/// Shortest and longest wait that a guest may ask for, in milliseconds.
pub const WAIT_MS: (u64, u64) = (1_000, 600_000);

/// Forces a reason into `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`. A blank one stays empty, so that the caller can
/// put its own default there.
pub fn reason(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    let mut out = String::new();
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.push_str("Provider_");
    }
    let room = MAX_REASON - out.len();
    out.extend(text.chars().take(room).map(|c| if allowed(c) { c } else { '_' }));
    if out.ends_with([',', ':']) {
        out.pop();
        out.push('_');
    }
    out
}

/// Makes a message printable and cuts it at [`MAX_MESSAGE`] bytes on a character boundary.
pub fn message(text: &str) -> String {
    bounded(text, MAX_MESSAGE)
}

/// Makes text printable and cuts it at `max` bytes on a character boundary.
pub fn bounded(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars().map(printable) {
        if out.len() + c.len_utf8() > max {
            break;
        }
        out.push(c);
    }
    out
}

/// A name that a guest gave, fit to stand in a sentence.
pub fn shown(name: &str) -> String {
    let cut = bounded(name, 64);
    if cut.len() < name.len() && name.len() > 64 { format!("{cut}…") } else { cut }
}

/// Line breaks become spaces; controls, bidirectional overrides and invisible characters become U+FFFD.
fn printable(c: char) -> char {
    match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' => '\u{FFFD}',
        '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' => '\u{FFFD}',
        '\u{E0000}'..='\u{E007F}' => '\u{FFFD}',
        c if c.is_control() => '\u{FFFD}',
        c => c,
    }
}

/// 0 is "the host's default"; the rest is clamped to [`WAIT_MS`].
pub fn clamp_wait(ms: u64) -> Option<u64> {
    (ms != 0).then(|| ms.clamp(WAIT_MS.0, WAIT_MS.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_comes_out_in_the_kubernetes_pattern_2b6() {
        for (given, wanted) in [
            ("QuotaExceeded", "QuotaExceeded"),
            ("503 HTTP failure!", "Provider_503_HTTP_failure_"),
            ("Foo:", "Foo_"),
            ("a b\nc\0", "a_b_c_"),
            ("  ", ""),
            ("äöü", "Provider____"),
        ] {
            assert_eq!(reason(given), wanted, "{given:?}");
        }
        assert_eq!(reason(&"9".repeat(5000)).len(), MAX_REASON);
    }

    #[test]
    fn a_message_of_forty_kilobytes_is_cut_on_a_character_boundary_2b6() {
        for lead in ["", "a", "ab", "abc"] {
            let cut = message(&format!("{lead}{}", "\u{1F980}".repeat(10 * 1024)));
            assert!(cut.len() <= MAX_MESSAGE && cut.len() > MAX_MESSAGE - 4);
        }
    }

    #[test]
    fn terminal_escapes_and_bidirectional_overrides_do_not_survive() {
        assert_eq!(message("a\u{1b}[31mb\u{202e}c\u{9b}d\ne"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d e");
    }

    #[test]
    fn a_wait_of_zero_is_the_default_and_the_rest_is_clamped_2e3() {
        assert_eq!(clamp_wait(0), None);
        assert_eq!(clamp_wait(1), Some(1_000));
        assert_eq!(clamp_wait(90_000), Some(90_000));
        assert_eq!(clamp_wait(u64::MAX), Some(600_000));
    }
}
