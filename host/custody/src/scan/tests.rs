//! Every derived form of attack 8, at any position of a longer text, is found; ordinary text is not.

mod layers;

use super::reading::PART;
use super::*;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;

const SECRET: &str = "S3cr\"et/Pa ss&w<o>rd+Zürich";

fn scanner(kind: Kind, secret: &[u8]) -> Scanner {
    let mut scanner = Scanner::new();
    scanner.add(7, kind, secret, "");
    scanner
}

fn bytes(secret: &[u8], each: impl Fn(u8) -> String) -> String {
    secret.iter().map(|b| each(*b)).collect()
}

/// The encodings of the catalogue, made here independently of the scanner's own list.
fn echoes(secret: &str) -> Vec<(&'static str, Vec<u8>)> {
    let raw = secret.as_bytes();
    let upper_hex = data_encoding::HEXUPPER.encode(raw);
    let utf16: Vec<u8> = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf16be: Vec<u8> = secret.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let percent: String =
        percent_encoding::utf8_percent_encode(secret, percent_encoding::NON_ALPHANUMERIC).collect();
    let form: String = url::form_urlencoded::byte_serialize(raw).collect();
    let mime = STANDARD.encode(raw).as_bytes().chunks(7).collect::<Vec<_>>().join(&b"\r\n"[..]);
    let pairs = |with: &str| {
        upper_hex.as_bytes().chunks(2).map(String::from_utf8_lossy).collect::<Vec<_>>().join(with)
    };
    let text = |s: String| s.into_bytes();
    vec![
        ("raw", raw.to_vec()),
        ("json", text(serde_json::to_string(secret).unwrap())),
        ("json slashes", text(serde_json::to_string(secret).unwrap().replace('/', "\\/"))),
        ("base64", text(STANDARD.encode(raw))),
        ("base64 at 1", text(STANDARD.encode([b"x", raw].concat()))),
        ("base64 at 2", text(STANDARD.encode([b"xy", raw, b"zz"].concat()))),
        ("base64url", text(URL_SAFE.encode([b"x", raw, b"q"].concat()))),
        ("base64url unpadded", text(URL_SAFE_NO_PAD.encode(raw))),
        ("base64 twice", text(STANDARD.encode(STANDARD.encode(raw)))),
        (
            "base64 twice, shifted",
            text(STANDARD.encode(format!("k={}", STANDARD.encode([b"x", raw].concat())))),
        ),
        ("base64 wrapped", mime),
        ("hex", text(data_encoding::HEXLOWER.encode(raw))),
        ("HEX", text(upper_hex.clone())),
        ("hex:colon", text(pairs(":"))),
        ("hex space", text(pairs(" "))),
        ("percent", text(percent.clone())),
        ("percent lower", text(percent.to_lowercase())),
        ("percent all", text(bytes(raw, |b| format!("%{b:02x}")))),
        ("percent twice", text(percent.replace('%', "%25"))),
        ("form", text(form)),
        (
            "html names",
            text(
                secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"),
            ),
        ),
        ("html decimal", text(bytes(raw, |b| format!("&#{b};")))),
        ("html hex", text(bytes(raw, |b| format!("&#x{b:X};")))),
        ("\\u lower", text(bytes(raw, |b| format!("\\u{b:04x}")))),
        ("\\u upper", text(bytes(raw, |b| format!("\\u{b:04X}")))),
        ("\\x", text(bytes(raw, |b| format!("\\x{b:02x}")))),
        ("quoted-printable", text(bytes(raw, |b| format!("={b:02X}")))),
        ("utf-16le", utf16.clone()),
        ("utf-16be", utf16be.clone()),
        ("utf-16le hex", text(data_encoding::HEXUPPER.encode(&utf16))),
        ("utf-16be hex", text(data_encoding::HEXLOWER.encode(&utf16be))),
        ("utf-16le base64", text(STANDARD.encode(&utf16))),
        ("reversed", raw.iter().rev().copied().collect()),
        (
            "rot13",
            raw.iter()
                .map(|b| match b {
                    b'a'..=b'm' | b'A'..=b'M' => b + 13,
                    b'n'..=b'z' | b'N'..=b'Z' => b - 13,
                    o => *o,
                })
                .collect(),
        ),
        ("lower", raw.to_ascii_lowercase()),
        ("upper", raw.to_ascii_uppercase()),
        (
            "swapped case",
            raw.iter()
                .map(|b| if b.is_ascii_lowercase() { b.to_ascii_uppercase() } else { b.to_ascii_lowercase() })
                .collect(),
        ),
        ("interleaved", secret.chars().flat_map(|c| [c, '.']).collect::<String>().into_bytes()),
        (
            "json in percent",
            text(
                percent_encoding::utf8_percent_encode(
                    &serde_json::to_string(secret).unwrap(),
                    percent_encoding::NON_ALPHANUMERIC,
                )
                .to_string(),
            ),
        ),
        ("quoted-printable soft breaks", raw.chunks(5).collect::<Vec<_>>().join(&b"=\r\n"[..])),
        ("basic", text(format!("Basic {}", STANDARD.encode(format!("user:{secret}"))))),
    ]
}

#[test]
fn every_form_of_attack_8_is_found_and_vanishes_with_its_secret() {
    let mut scanner = scanner(Kind::Value, SECRET.as_bytes());
    for (name, echo) in echoes(SECRET) {
        let text = [b"{\"note\":\"", &echo[..], b"\"}"].concat();
        assert_eq!(scanner.find(&text), Some(7), "{name}");
    }
    scanner.remove(7);
    for (name, echo) in echoes(SECRET) {
        assert_eq!(scanner.find(&echo), None, "{name}");
    }
}

#[test]
fn ordinary_text_is_not_withheld_attack_89() {
    let scanner = scanner(Kind::Value, SECRET.as_bytes());
    for text in
        ["", "short", "web-1.prod.example.com", "ssss-cccc-rrrr-eeee", &"lorem ipsum dolor ".repeat(500)]
    {
        assert_eq!(scanner.find(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn slices_of_a_long_value_are_found_attack_12() {
    let secret = "ghp_9Xk2LmQ8vR4tYw7ZbN1cD5eF6gH3jK0pSaUo";
    let scanner = scanner(Kind::Value, secret.as_bytes());
    for start in 0..=secret.len() - 16 {
        assert!(scanner.find(&secret.as_bytes()[start..start + 16]).is_some(), "slice at {start}");
    }
}

#[test]
fn one_password_line_of_first_boot_data_is_found_attack_13() {
    let data = "#cloud-config\nhostname: web-1\nusers:\n  - name: ops\n    passwd: tr0ub4dor&3xy\n";
    let scanner = scanner(Kind::Document, data.as_bytes());
    assert!(scanner.find(b"the password is tr0ub4dor&3xy, keep it").is_some());
    assert!(scanner.find(STANDARD.encode(data).as_bytes()).is_some());
    assert!(scanner.find(b"#cloud-config hostname: web-1").is_none());
}

#[test]
fn secrets_made_by_a_service_are_found_even_when_short() {
    assert_eq!(scanner(Kind::Value, b"Ab1!").find(b"root/Ab1! is it"), Some(7));
}

#[test]
fn a_table_of_forms_grows_and_shrinks_with_its_secrets() {
    let mut scanner = Scanner::new();
    for owner in 0..200 {
        scanner.add(owner, Kind::Value, format!("secret-number-{owner}-{}", owner * 7919).as_bytes(), "");
    }
    assert!(scanner.find(b"x secret-number-150-1187850 x").is_some());
    for owner in 0..200 {
        scanner.remove(owner);
    }
    assert_eq!(scanner.forms(), 0);
    assert!(scanner.find(b"x secret-number-150-1187850 x").is_none());
}

/// The first-boot data of a fleet differs in a line: a further machine costs that line, and no secret is forgotten
/// before the last machine that has it.
#[test]
fn what_many_secrets_have_in_common_is_kept_once_and_as_long_as_one_of_them_has_it() {
    let data =
        |owner: u32| format!("#cloud-config\nserial: {owner:08}\n  passwd: tr0ub4dor&3xy-of-the-fleet\n");
    let (mut scanner, mut forms) = (Scanner::new(), vec![0]);
    for owner in 1..=64 {
        scanner.add(owner, Kind::Document, data(owner).as_bytes(), "");
        scanner.add(owner, Kind::Document, data(owner).as_bytes(), "");
        forms.push(scanner.forms());
    }
    assert!(2 * (forms[64] - forms[1]) < 63 * forms[1], "a further one costs less than half: {forms:?}");
    for owner in (1..=64).rev() {
        assert_eq!(scanner.find(b"it is tr0ub4dor&3xy-of-the-fleet"), Some(owner));
        scanner.remove(owner);
    }
    assert!(scanner.find(b"it is tr0ub4dor&3xy-of-the-fleet").is_none());
    assert_eq!(scanner.forms(), 0);
}

proptest! {
    #[test]
    fn every_form_is_found_at_any_position(secret in "[!-~]{12,40}", before in "[a-z ]{0,40}", after in "[a-z ]{0,40}") {
        prop_assume!(secret.bytes().filter(u8::is_ascii_alphanumeric).count() >= 10);
        let scanner = scanner(Kind::Value, secret.as_bytes());
        for (name, echo) in echoes(&secret) {
            let text = [before.as_bytes(), &echo, after.as_bytes()].concat();
            prop_assert!(scanner.find(&text).is_some(), "{}", name);
        }
    }

    #[test]
    fn base64_cores_are_inside_every_longer_encoding(secret in proptest::collection::vec(any::<u8>(), 8..60),
                                                     before in proptest::collection::vec(any::<u8>(), 0..9),
                                                     after in proptest::collection::vec(any::<u8>(), 0..9)) {
        let scanner = scanner(Kind::Value, &secret);
        let text = STANDARD.encode([&before[..], &secret, &after].concat());
        prop_assert!(scanner.find(text.as_bytes()).is_some());
    }
}
