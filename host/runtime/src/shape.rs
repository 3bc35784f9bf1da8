//! Checks of size, and cutting of text, before anything of a guest goes further.

use crate::halt::Halt;

/// Refuses a text over `limit` bytes.
pub(crate) fn bounded(what: &str, text: &str, limit: usize) -> Result<(), Halt> {
    if text.len() <= limit {
        return Ok(());
    }
    Err(Halt::violation(
        "TooLarge",
        format!("the module passed {what} of {} bytes; {limit} are allowed (attack 80)", text.len()),
    ))
}

/// Refuses a list of more than `limit` elements.
pub(crate) fn few(what: &str, count: usize, limit: usize) -> Result<(), Halt> {
    if count <= limit {
        return Ok(());
    }
    Err(Halt::violation(
        "TooMany",
        format!("the module passed {count} {what}; {limit} are allowed (attack 80)"),
    ))
}

/// Cuts a text to at most `limit` bytes at a character's end.
pub(crate) fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_a_characters_end() {
        assert_eq!(cut("añb".to_owned(), 2), "a");
        assert_eq!(cut("añb".to_owned(), 3), "añ");
        assert_eq!(cut("añb".to_owned(), 9), "añb");
        assert_eq!(cut("ñ".to_owned(), 0), "");
    }
}
