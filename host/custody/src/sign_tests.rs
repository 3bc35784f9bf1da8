//! The published test vectors of Signature Version 4, and what must never be signed.

use super::*;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};
use proptest::prelude::*;

const SESSION: &[u8] = b"6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";

fn secret(text: &[u8]) -> SecretBytes {
    SecretBytes::copy_of(text)
}

fn outgoing(method: Method, target: &str, headers: &[(&str, &str)], body: &str) -> Outgoing {
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter().chain(&[("host", "example.amazonaws.com"), ("user-agent", "x/1")]) {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    Outgoing {
        method,
        target: Bytes::copy_from_slice(target.as_bytes()),
        headers: map,
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

/// Signs as the vectors do; returns the Authorization header.
fn signed(outgoing: &mut Outgoing, session: bool) -> Result<String, String> {
    let (id, key) = (secret(b"AKIDEXAMPLE"), secret(b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"));
    let session = session.then(|| secret(SESSION));
    let signer =
        Signer { service: "service", region: "us-east-1", id: &id, secret: &key, session: session.as_ref() };
    sign(&signer, outgoing, "2015-08-30T12:36:00Z".parse().unwrap())?;
    Ok(outgoing.headers["authorization"].to_str().unwrap().to_owned())
}

#[test]
fn the_published_vectors_come_out() {
    let unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let both = format!("/?{unreserved}={unreserved}");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let blanks = [("my-header1", "value1"), ("my-header2", "\"a   b   c\"")];
    type Case<'c> = (&'c str, Method, &'c str, &'c [(&'c str, &'c str)], &'c str, bool, &'c str);
    let cases: [Case<'_>; 9] = [
        (
            "get-vanilla",
            Method::GET,
            "/",
            &[],
            "",
            false,
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            "get-vanilla-query-order-encoded",
            Method::GET,
            "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
            &[],
            "",
            false,
            "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
        ),
        (
            "get-vanilla-query-order-key-case",
            Method::GET,
            "/?Param2=value2&Param1=value1",
            &[],
            "",
            false,
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "get-vanilla-query-unreserved",
            Method::GET,
            &both,
            &[],
            "",
            false,
            "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
        ),
        (
            "get-header-value-trim",
            Method::GET,
            "/",
            &blanks,
            "",
            false,
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
        (
            "get-slashes",
            Method::GET,
            "//example//",
            &[],
            "",
            false,
            "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
        ),
        (
            "post-vanilla-empty-query-value",
            Method::POST,
            "/?Param1=value1",
            &[],
            "",
            false,
            "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
        ),
        (
            "post-x-www-form-urlencoded",
            Method::POST,
            "/",
            &form,
            "Param1=value1",
            false,
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        (
            "get-vanilla-with-session-token",
            Method::GET,
            "/",
            &[],
            "",
            true,
            "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
        ),
    ];
    for (name, method, target, headers, body, session, signature) in cases {
        let authorization = signed(&mut outgoing(method, target, headers, body), session).unwrap();
        assert!(authorization.ends_with(&format!("Signature={signature}")), "{name}: {authorization}");
        assert!(authorization.starts_with(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders="
        ));
    }
}

#[test]
fn a_path_is_encoded_once_more_as_services_other_than_s3_want_it() {
    let (path, query) = canonical_target(b"/test/@connections/JBDvjfGEIAMCERw%3D?b=&a").unwrap();
    assert_eq!(path, "/test/%40connections/JBDvjfGEIAMCERw%253D");
    assert_eq!(query, "a=&b=");
}

#[test]
fn what_two_parsers_may_read_differently_is_not_signed_attack_46() {
    for target in ["/a?b=1+2", "/a?b=%4", "/a?b=%zz", "/../a", "/a/./b", "a", ""] {
        assert!(signed(&mut outgoing(Method::GET, target, &[], ""), false).is_err(), "{target}");
    }
    let twice = [("x-thing", "1"), ("x-thing", "2")];
    assert!(signed(&mut outgoing(Method::GET, "/", &twice, ""), false).is_err(), "a header that comes twice");
    let dated = [("x-amz-date", "20150830T123600Z")];
    assert!(signed(&mut outgoing(Method::GET, "/", &dated, ""), false).is_err(), "a date that is not ours");
}

#[test]
fn every_signed_part_changes_the_signature_attack_46() {
    let form = [("content-type", "application/x-www-form-urlencoded"), ("x-other", "1")];
    let base = signed(&mut outgoing(Method::POST, "/a?b=1", &form, "Action=Run"), false).unwrap();
    let changed = [
        outgoing(Method::PUT, "/a?b=1", &form, "Action=Run"),
        outgoing(Method::POST, "/c?b=1", &form, "Action=Run"),
        outgoing(Method::POST, "/a?b=2", &form, "Action=Run"),
        outgoing(Method::POST, "/a?b=1", &form[..1], "Action=Run"),
        outgoing(Method::POST, "/a?b=1", &[form[0], ("x-other", "2")], "Action=Run"),
        outgoing(Method::POST, "/a?b=1", &form, "Action=Terminate"),
    ];
    for mut other in changed {
        let signature = signed(&mut other, false).unwrap();
        assert_ne!(signature.rsplit('=').next(), base.rsplit('=').next());
    }
}

#[test]
fn an_id_or_region_that_would_end_its_place_is_refused_attack_46() {
    let key = secret(b"secret-secret");
    for (id, region) in [
        ("AK/ID", "eu-1"),
        ("AK,ID", "eu-1"),
        ("AK ID", "eu-1"),
        ("", "eu-1"),
        ("AKID", "eu/1"),
        ("AKID", ""),
    ] {
        let id_bytes = secret(id.as_bytes());
        let signer = Signer { service: "ec2", region, id: &id_bytes, secret: &key, session: None };
        let mut outgoing = outgoing(Method::GET, "/", &[], "");
        assert!(sign(&signer, &mut outgoing, Timestamp::UNIX_EPOCH).is_err(), "{id} {region}");
        assert!(!outgoing.headers.contains_key("authorization"));
    }
}

#[test]
fn signature_and_token_are_marked_sensitive_and_the_key_is_nowhere_attack_56() {
    let mut request = outgoing(Method::GET, "/", &[], "");
    signed(&mut request, true).unwrap();
    let shown = format!("{:?}", request.headers);
    assert!(!shown.contains("AKIDEXAMPLE") && !shown.contains("6e86291e"), "{shown}");
    let all: Vec<u8> = request.headers.values().flat_map(|value| value.as_bytes().to_vec()).collect();
    assert!(!String::from_utf8_lossy(&all).contains("wJalrXUtnFEMI"));
}

proptest! {
    #[test]
    fn one_query_has_one_spelling_however_it_was_written(text in "\\PC{0,20}", other in "[a-z%+&=]{0,8}") {
        let written = encoded(&text);
        prop_assert_eq!(respelled(&written).unwrap(), written.clone(), "what is canonical stays");
        // Lower-case escapes, and escapes of what needs none, are other spellings of the same.
        let other_spelling: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        prop_assert_eq!(respelled(&other_spelling).unwrap(), written);
        if let Ok(once) = respelled(&other) {
            prop_assert_eq!(respelled(&once).unwrap(), once);
        }
    }

    #[test]
    fn any_target_is_signed_or_refused_and_never_panics(target in "[/?&=%+.a-f0-9~ \\-]{0,30}") {
        let _ = signed(&mut outgoing(Method::GET, &target, &[], ""), false);
    }
}
