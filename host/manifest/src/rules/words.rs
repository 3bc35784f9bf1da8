//! Names taken apart into words: `userData`, `user_data`, `user-data` and `UserData` are the same name.

/// Lower-case words of a name, split at case changes and at everything that is no letter or digit; plural `s` is
/// kept.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut current = String::new();
    let chars: Vec<char> = name.chars().collect();
    for (n, &c) in chars.iter().enumerate() {
        if !c.is_alphanumeric() {
            words.push(std::mem::take(&mut current));
            continue;
        }
        let before = n.checked_sub(1).map(|p| chars[p]);
        let after = chars.get(n + 1);
        let starts = c.is_uppercase()
            && (before.is_some_and(|p| p.is_lowercase() || p.is_ascii_digit())
                || (before.is_some_and(char::is_uppercase) && after.is_some_and(|a| a.is_lowercase())));
        if starts {
            words.push(std::mem::take(&mut current));
        }
        current.extend(c.to_lowercase());
    }
    words.push(current);
    words.retain(|word| !word.is_empty());
    words
}

/// Shorter listed names must be whole words: `bypass` is no `pass`.
const LONG_ENOUGH: usize = 5;

/// Do the last words of a name, joined, make one of the listed names (in singular or plural), or does the last word
/// end in one?
pub(super) fn ends_with(name: &str, list: &[&str]) -> bool {
    let words = words(name);
    let glued = |last: &String| {
        let one = last.strip_suffix('s').unwrap_or(last);
        list.iter().any(|known| known.len() >= LONG_ENOUGH && (last.ends_with(known) || one.ends_with(known)))
    };
    let joined = (0..words.len()).any(|start| {
        let tail = words[start..].concat();
        list.contains(&tail.as_str()) || tail.strip_suffix('s').is_some_and(|one| list.contains(&one))
    });
    joined || words.last().is_some_and(glued)
}

/// Do any neighbouring words of a name, joined, make one of the listed names (in singular or plural), or does one word
/// hold one (`rootpassword`)?
pub(super) fn contains(name: &str, list: &[&str]) -> bool {
    let words = words(name);
    let glued = |word: &String| list.iter().any(|known| known.len() >= LONG_ENOUGH && word.contains(known));
    let joined = (1..=words.len()).any(|end| {
        (0..end).any(|start| {
            let part = words[start..end].concat();
            list.contains(&part.as_str()) || part.strip_suffix('s').is_some_and(|one| list.contains(&one))
        })
    });
    joined || words.iter().any(glued)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_in_every_spelling() {
        for name in [
            "user_data",
            "userData",
            "UserData",
            "user-data",
            "USER_DATA",
            "user.data",
            "userdata",
            "x-userdata",
        ] {
            assert!(ends_with(name, &["userdata"]), "{name}");
            assert!(contains(name, &["userdata"]), "{name}");
        }
        assert_eq!(words("HTTPServerID2"), ["http", "server", "id2"]);
        assert!(ends_with("serial_outputs", &["output"]) && ends_with("accesstoken", &["token"]));
        assert!(!ends_with("output_id", &["output"]) && !ends_with("bypass", &["pass"]));
        assert!(contains("passwordHash", &["password"]) && contains("rootpassword", &["password"]));
        assert!(!contains("user_database", &["userdata"]));
    }
}
