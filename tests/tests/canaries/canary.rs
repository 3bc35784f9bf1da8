//! The canaries, and the look for them in every form that they could take.

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;
use base64::{
    Engine,
    engine::general_purpose::{GeneralPurpose, STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use holdfast_simulated_cloud::{ENCODINGS, encode};

/// A token of ordinary characters.
pub const PLAIN: &str = "cnry-7Kq2Zx9Lw4Vb8Tn3Rf6Hd1Jm5Gs0Py";
/// A token that is hostile to JSON, to HTML, to URLs and to formats, as far as a header goes.
pub const HOSTILE: &str = "cn\"q\\u0041\\\\x</b>&%41+{api-token}'$7Wd3=Xk9";
/// A token that gzip makes shorter, so that nothing of it is left in what comes out.
pub const REPEATING: &str = "cnry-4Tg8Wq-cnry-4Tg8Wq-cnry-4Tg8Wq-cnry-4Tg8Wq";
/// A password in first-boot data: quotes, backslashes, and characters beyond ASCII.
pub const PASSWORD: &str = "P\u{e4}\"ss\\w\u{f6}rd\u{1f980}/<&>%41+7Qz3Lk";
/// One line of a private key in first-boot data.
pub const KEY_LINE: &str = "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0Q4x7ZtR9";
/// Refused before it is used: two lines, which would be two header lines.
pub const TWO_LINES: &str = "first-line-8Hs5Kd2Qn\nX-Injected: second-line-3Vc7Mz9Bt";
/// Refused before it is used: no header is made of it.
pub const UNICODE: &str = "tok-\u{df}\u{fc}\u{1f511}-Qz8Rk5Wn2Lx7";
/// Refused before it is used: seven bytes.
pub const SHORT: &str = "sh9Rt7!";

/// First-boot data with keys, quotes and several lines.
pub fn user_data() -> String {
    format!(
        "#cloud-config\npassword: {PASSWORD}\nwrite_files:\n  - path: /etc/agent/key.pem\n    content: |\n      \
         -----BEGIN OPENSSH PRIVATE KEY-----\n      {KEY_LINE}\n      -----END OPENSSH PRIVATE KEY-----\n\
         runcmd: ['echo \"it\\'s \\\\ up\"']\n"
    )
}

/// Bytes that are no UTF-8.
pub fn binary(word: &str) -> Vec<u8> {
    [b"\xff\xfe\x80", word.as_bytes(), b"\xc3\x28"].concat()
}
/// What stands in binary data.
pub const BINARY_TOKEN: &str = "bin-6Fj3Tq8Wc1Hz5Nv9";
pub const BINARY_DATA: &str = "bin-2Lp7Xs4Gk9Dm6Yb1";

/// Finds canaries in bytes.
pub struct Look {
    search: AhoCorasick,
    /// What each pattern is.
    names: Vec<String>,
}

impl Look {
    /// Looks for all of them.
    pub fn for_all() -> Look {
        let secrets = [
            ("plain token", PLAIN),
            ("hostile token", HOSTILE),
            ("repeating token", REPEATING),
            ("password", PASSWORD),
            ("key", KEY_LINE),
            ("token of two lines, first", "first-line-8Hs5Kd2Qn"),
            ("token of two lines, second", "second-line-3Vc7Mz9Bt"),
            ("unicode token", UNICODE),
            ("binary token", BINARY_TOKEN),
            ("binary first-boot data", BINARY_DATA),
        ];
        let mut forms = BTreeSet::new();
        for (name, secret) in secrets {
            forms.extend(forms_of(name, secret));
        }
        for (name, token) in
            [("plain token", PLAIN), ("hostile token", HOSTILE), ("repeating token", REPEATING)]
        {
            // Compressed with what stands before it, as the cloud received it.
            let sent = encode("gzip-base64", format!("Bearer {token}").as_bytes()).unwrap();
            forms.insert((sent.into_bytes(), format!("{name} as sent, gzip-base64")));
        }
        forms.insert((SHORT.as_bytes().to_vec(), "short token".to_owned()));
        let (patterns, names): (Vec<_>, Vec<_>) = forms.into_iter().unzip();
        Look { search: AhoCorasick::new(&patterns).unwrap(), names }
    }

    /// What was seen, with the place. Empty is what is wanted.
    pub fn sightings(&self, place: &str, hay: &[u8]) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        for hay in [hay, &unbroken(hay)] {
            let found = self.search.find_iter(hay);
            seen.extend(found.map(|found| format!("{} in {place}", self.names[found.pattern()])));
        }
        seen
    }
}

/// Without line breaks, be they real ones or escaped in a string: forms in lines become whole.
fn unbroken(hay: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(hay.len());
    let mut at = 0;
    while at < hay.len() {
        match &hay[at..] {
            [b'\n' | b'\r', ..] => at += 1,
            [b'\\', b'n' | b'r', ..] => at += 2,
            [byte, ..] => {
                out.push(*byte);
                at += 1;
            }
            [] => {}
        }
    }
    out
}

/// A secret as it is, as it stands in a JSON text, and as that stands in another; each in every form of the echo.
fn forms_of(name: &str, secret: &str) -> BTreeSet<(Vec<u8>, String)> {
    let mut forms = BTreeSet::new();
    let (once, twice) = (escaped(secret), escaped(&escaped(secret)));
    for (how, text) in [("", secret), (", in JSON", &once), (", in JSON twice", &twice)] {
        for form in ENCODINGS.iter().filter(|form| !form.starts_with("base64")) {
            let encoded = encode(form, text.as_bytes()).unwrap().replace("=\r\n", "");
            forms.insert((encoded.into_bytes(), format!("{name}{how}, {form}")));
        }
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            for inner in cores(text.as_bytes(), &engine) {
                forms.insert((inner.clone(), format!("{name}{how}, base64")));
                for outer in cores(&inner, &engine) {
                    forms.insert((outer, format!("{name}{how}, base64-twice")));
                }
            }
        }
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for core in cores(&wide, &STANDARD_NO_PAD) {
            forms.insert((core, format!("{name}{how}, utf-16le-base64")));
        }
        let whole = STANDARD.encode(text);
        forms.insert((whole.into_bytes(), format!("{name}{how}, base64 alone")));
    }
    forms
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The part of a base64 text that stays the same whatever stands beside the secret, at each of the three offsets.
fn cores(secret: &[u8], engine: &GeneralPurpose) -> [Vec<u8>; 3] {
    [0, 1, 2].map(|offset| {
        let padded = [&vec![0; offset][..], secret].concat();
        let text = engine.encode(&padded);
        text.as_bytes()[(offset * 8usize).div_ceil(6)..padded.len() * 8 / 6].to_vec()
    })
}

#[test]
fn the_look_finds_a_canary_in_every_form_alone_and_inside_a_longer_text() {
    let look = Look::for_all();
    for secret in [PLAIN, HOSTILE, PASSWORD, KEY_LINE, UNICODE] {
        for form in ENCODINGS {
            let alone = encode(form, secret.as_bytes()).unwrap();
            assert!(!look.sightings("a text", alone.as_bytes()).is_empty(), "{form} of {secret}");
            let logged = format!("{alone:?}");
            let plain =
                ["raw", "upper", "lower", "reversed", "rot13", "interleaved", "html", "json-slash", "json-u"];
            if !plain.contains(form) {
                assert!(!look.sightings("a log", logged.as_bytes()).is_empty(), "{form} of {secret}, quoted");
            }
            if *form != "gzip-base64" {
                let longer = encode(form, format!("Bearer {secret}\nand more").as_bytes()).unwrap();
                assert!(!look.sightings("a text", longer.as_bytes()).is_empty(), "{form} inside");
            }
        }
        let body = serde_json::json!({ "user_data": format!("a: {secret}\n") }).to_string();
        assert!(!look.sightings("a body", body.as_bytes()).is_empty(), "{secret} in JSON");
    }
    assert!(look.sightings("nothing", b"an ordinary text, srv-1, act-2 and image-2").is_empty());
}
