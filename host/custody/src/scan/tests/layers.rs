//! Readings piece by piece find what a reading of every whole layer finds, within a bounded number of passes.

use super::*;
use crate::scan::peel::{Family, peel};

/// The text and each of its layers, whole: the meaning of [`Scanner::find`], without its savings.
fn whole(scanner: &Scanner, text: &[u8]) -> bool {
    let look = |view: &[u8]| Reading::new(scanner).look(view).is_some();
    look(text)
        || Family::ALL.iter().filter_map(|outer| peel(*outer, text)).any(|once| {
            look(&once)
                || Family::ALL.iter().filter_map(|inner| peel(*inner, &once)).any(|twice| look(&twice))
        })
}

/// One character in one of the escapes, or as it is.
fn escaped(way: u8, byte: u8) -> String {
    match way {
        0 => format!("%{byte:02x}"),
        1 => format!("&#{byte};"),
        2 => format!("&#x{byte:X};"),
        3 => format!("\\x{byte:02x}"),
        4 => format!("\\u{byte:04X}"),
        5 => format!("={byte:02X}"),
        6 => format!("{}=\r\n", char::from(byte)),
        7 => format!("{}\\n", char::from(byte)),
        8 => format!("{}%20", char::from(byte)),
        9 => format!("+{}", char::from(byte)),
        _ => char::from(byte).to_string(),
    }
}

/// A part of a text: plain, or part of the secret under up to two layers of one way each.
fn part(secret: &'static str) -> impl Strategy<Value = String> {
    let layered =
        (0..secret.len(), 0..13u8, 0..13u8, any::<u64>()).prop_map(move |(from, inner, outer, mask)| {
            let layer = |text: &str, way: u8, mask: u64| {
                let each =
                    |(n, byte): (usize, u8)| escaped(if mask >> (n % 60) & 1 == 1 { way } else { 99 }, byte);
                text.bytes().enumerate().map(each).collect::<String>()
            };
            layer(&layer(&secret[from / 4..], inner, mask), outer, mask.rotate_left(17) | mask >> 9)
        });
    prop_oneof![
        4 => layered,
        2 => "[a-z]{0,12}",
        1 => "[a-z ]{100,300}",
        1 => "[.,: ]{0,200}",
        1 => "[%&=+\\\\]{1,20}",
        1 => prop_oneof![Just("="), Just("%4"), Just("&#"), Just("\\u00"), Just("\\\\\\"), Just("%5C"), Just("&#37;")]
            .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pieces_show_what_whole_layers_show_attack_8(parts in proptest::collection::vec(part("Ab3\"defgh+1j%41kl/mnop=41q&r"), 1..7)) {
        let scanner = scanner(Kind::Value, b"Ab3\"defgh+1j%41kl/mnop=41q&r");
        let text = parts.concat();
        prop_assert_eq!(scanner.find(text.as_bytes()).is_some(), whole(&scanner, text.as_bytes()), "{}", text);
    }

    #[test]
    fn pieces_show_short_and_odd_secrets_too(parts in proptest::collection::vec(part("a%41\\n=4+"), 1..7)) {
        // Few letters: kept as it is, not folded.
        let scanner = scanner(Kind::Value, b"a%41\\n=4+");
        let text = parts.concat();
        prop_assert_eq!(scanner.find(text.as_bytes()).is_some(), whole(&scanner, text.as_bytes()), "{}", text);
    }

    #[test]
    fn forms_are_found_in_any_text_that_holds_them(form in "[a-c]{8,14}", text in "[a-c]{0,400}") {
        let mut index = Index::default();
        index.insert(3, form.as_bytes());
        prop_assert_eq!(index.find(text.as_bytes()).is_some(), text.contains(&form));
        let with = format!("{}{form}{}", &text[..text.len() / 2], &text[text.len() / 2..]);
        prop_assert_eq!(index.find(with.as_bytes()), Some(3));
    }
}

/// `length` bytes of what is repeated, without the secret.
fn filled(length: usize, unit: &str) -> Vec<u8> {
    unit.bytes().cycle().take(length).collect()
}

#[test]
fn a_text_without_escapes_is_read_once() {
    let scanner = scanner(Kind::Value, SECRET.as_bytes());
    for unit in ["{\"id\":\"srv-1\",\"tags\":[\"a\"]},", "QUJD+/xyz0", "one two\r\n"] {
        assert_eq!(scanner.work(&filled(100_000, unit)), 100_000, "{unit}");
    }
}

#[test]
fn escapes_far_apart_cost_only_their_surroundings() {
    let scanner = scanner(Kind::Value, SECRET.as_bytes());
    let text = filled(200_000, &format!("{}\\n%20 &amp; \\u0041", "plain words ".repeat(1000)));
    assert!(scanner.work(&text) < 2 * text.len(), "{}", scanner.work(&text));
}

#[test]
fn a_hostile_text_is_read_within_a_bounded_number_of_passes() {
    let scanner = scanner(Kind::Value, SECRET.as_bytes());
    for unit in [
        "\\\"note\\\": \\u0041 \\n",
        "%41%42%20&#65;\\x41=41",
        "%2541&#38;#65;\\\\x41=3D41%5Cx41&#x25;41",
        "\\\\\\\\\\\\\\\\",
        "%25%25%2525",
        "&amp;amp;#65;",
        "=3D=\r\n",
        "%&\\=+",
        "&#&#&#&#&#&#",
    ] {
        // The text, four families, sixteen pairs, each peeled and read.
        let text = filled(60_000, unit);
        let work = scanner.work(&text);
        assert!(work <= 2 * 21 * text.len(), "{unit}: {work}");
        let double = scanner.work(&filled(120_000, unit));
        assert!(double <= 2 * work + work / 10, "{unit}: {work}, and {double} for twice the text");
    }
}

#[test]
fn a_secret_is_found_across_the_borders_of_parts() {
    let scanner = scanner(Kind::Value, SECRET.as_bytes());
    for around in [PART, 2 * PART] {
        for start in (around - 80..around + 20).step_by(3) {
            for (name, form) in [("raw", SECRET.to_owned()), ("upper", SECRET.to_uppercase())] {
                let text =
                    [&filled(start, "abcdefghij")[..], form.as_bytes(), &filled(50_000, "k.l")].concat();
                assert!(scanner.find(&text).is_some(), "{name} at {start}");
                let dotted: Vec<u8> = text.iter().flat_map(|byte| [*byte, b'-']).collect();
                assert!(scanner.find(&dotted).is_some(), "{name} at {start}, interleaved");
            }
        }
    }
}

fn each(text: &str, way: u8) -> String {
    text.bytes().map(|byte| escaped(way, byte)).collect()
}

/// Long pieces are cut where they can be; what stands across a cut is found all the same.
#[test]
fn a_secret_is_found_wherever_it_stands_between_escapes() {
    let secret = "Tok9Xk2Lm/Q8vR4";
    let scanner = scanner(Kind::Value, secret.as_bytes());
    let hex = data_encoding::HEXUPPER.encode(secret.as_bytes());
    let cases = [
        ("a\\nb c, ", each(&hex, 4)),
        ("plain words and \\u0041nd more of them, ", each(&hex, 3)),
        ("&#37;20 x, ", each(&each(&hex, 0), 1)),
        ("%26amp; and &lt; ", each(&each(&hex, 2), 0)),
    ];
    for (unit, echo) in cases {
        for start in (0..3_000).step_by(5) {
            let text = [&filled(start, unit)[..], b" ", echo.as_bytes(), b" ", &filled(700, unit)].concat();
            assert!(scanner.find(&text).is_some(), "at {start} of {unit}");
        }
    }
}

/// The outer layer is a single escape, what it belongs to is all inner escapes.
#[test]
fn a_layer_that_changes_a_single_character_is_peeled_as_far_as_the_other_reaches() {
    let secret = "Tok9Xk2Lm/Q8vR4";
    let scanner = scanner(Kind::Value, secret.as_bytes());
    let around = filled(2_000, "plain words, more of them. ");
    let utf16: Vec<u8> = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let form = data_encoding::HEXLOWER.encode(&utf16);
    for inner in 0..6 {
        let all = each(&form, inner);
        let marks: Vec<usize> = all.match_indices(['%', '&', '\\', '=']).map(|(at, _)| at).collect();
        for at in [marks[0], marks[marks.len() / 2], marks[marks.len() - 1]] {
            for outer in 0..6 {
                let hidden = [&all[..at], &escaped(outer, all.as_bytes()[at]), &all[at + 1..]].concat();
                let text = [&around[..], b" ", hidden.as_bytes(), b" ", &around].concat();
                assert!(scanner.find(&text).is_some(), "{inner} under {outer} at {at}: {hidden}");
            }
        }
    }
}

#[test]
fn nested_and_mixed_families_are_found_deep_in_a_long_text() {
    let secret = "tok_9Xk2LmQ8vR4t";
    let scanner = scanner(Kind::Value, secret.as_bytes());
    for outer in 0..6 {
        for inner in 0..6 {
            let echo = each(&each(secret, inner), outer);
            let text =
                [&filled(30_000, "word, ")[..], echo.as_bytes(), &filled(30_000, "\\n more ")].concat();
            assert!(scanner.find(&text).is_some(), "{inner} inside {outer}");
        }
    }
}

#[test]
fn a_long_line_is_found_and_another_of_its_beginning_and_end_is_not_attack_89() {
    let random = |n: u32| n.wrapping_mul(2_654_435_761) >> 7;
    let line: String = (0..600).map(|n| char::from(b'a' + (random(n) % 26) as u8)).collect();
    let document = format!("first words {line} last words\n");
    let scanner = scanner(Kind::Document, document.as_bytes());
    assert!(scanner.find(format!("so: FIRST words {line} last-words").as_bytes()).is_some());
    let other: String = line.chars().rev().collect();
    assert!(scanner.find(format!("first words {other} last words").as_bytes()).is_none());
}

/// A form is as long as its piece must be: with one escape in it, or one at each end, all of it is needed.
#[test]
fn one_escape_anywhere_in_a_form_is_enough_to_hide_it_from_nobody() {
    let secret = "Tok9Xk2Lm/Q8vR4";
    let scanner = scanner(Kind::Value, secret.as_bytes());
    let around = filled(3_000, "plain words and = or % ");
    for (name, echo) in echoes(secret) {
        // What is under two layers already would come under a third.
        let Ok(echo) = String::from_utf8(echo) else { continue };
        if name.starts_with("quoted-printable") {
            continue;
        }
        let escapable = |byte: u8| byte.is_ascii_alphanumeric();
        if !echo.bytes().all(|byte| escapable(byte) || b"/+=-_.: ".contains(&byte)) {
            continue;
        }
        let places: Vec<usize> = (0..echo.len()).filter(|at| escapable(echo.as_bytes()[*at])).collect();
        let hides = |ways: &[(usize, u8)]| {
            let each = |(at, byte): (usize, u8)| match ways.iter().find(|(of, _)| *of == at) {
                Some((_, way)) => escaped(*way, byte),
                None => char::from(byte).to_string(),
            };
            let hidden: String = echo.bytes().enumerate().map(each).collect();
            let text = [&around[..], b" ", hidden.as_bytes(), b" ", &around].concat();
            assert!(scanner.find(&text).is_some(), "{name}: {hidden}");
        };
        let (first, last) = (places[0], places[places.len() - 1]);
        for way in 0..9 {
            [first, last, places[places.len() / 2]].iter().for_each(|at| hides(&[(*at, way)]));
            (0..6).for_each(|other| hides(&[(first, way), (last, other)]));
        }
    }
}
