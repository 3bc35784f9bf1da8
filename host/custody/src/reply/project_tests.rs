//! Projection against hostile and odd replies.

use super::super::document::parse;
use super::*;
use crate::test_kit::{field, pointer};
use serde_json::json;

fn run(fields: &[(&str, Field)], body: &str) -> Result<Value, Misfit> {
    let fields = fields.iter().map(|(n, f)| (n.to_string(), f.clone())).collect();
    let doc = parse(body.as_bytes());
    let mut headers = HeaderMap::new();
    headers.insert("etag", "W/\"abc\"".parse().unwrap());
    let source = Source { headers: &headers, body: doc.as_ref() };
    let seal: Seal<'_> =
        &|field, within, text| Some(format!("sealed:{field}:{}:{text}", within.unwrap_or("-")));
    project(&fields, &source, seal, true).map(Value::Object)
}

#[test]
fn only_declared_fields_come_back_attack_2() {
    let body = r#"{"id": 42, "echo": {"password": "S"}, "state": "running"}"#;
    let fields = [("id", field(Type::Id, "/id")), ("state", field(Type::Word, "/state"))];
    assert_eq!(run(&fields, body).unwrap(), json!({"id": "42", "state": "running"}));
}

#[test]
fn a_misfit_names_the_field_and_the_kind_and_no_byte() {
    let misfit = run(&[("id", field(Type::Id, "/id"))], r#"{"id": "has spaces and s3cret"}"#).unwrap_err();
    assert_eq!(misfit, Misfit { field: "id".into(), found: "a string of 9 to 64 bytes".into() });
    let misfit = run(&[("id", field(Type::Id, "/id"))], r#"{"id": {"a": 1}}"#).unwrap_err();
    assert_eq!(misfit.found, "an object");
    assert_eq!(run(&[("id", field(Type::Id, "/id"))], "{}").unwrap_err().found, "nothing");
}

#[test]
fn lists_each_filters_and_matches_are_projected() {
    let body = r#"{"servers": [
        {"id": 1, "tags": [{"k": "x", "v": "no"}, {"k": "holdfast", "v": "hfa"}], "nets": ["a", "b"]},
        {"id": 2, "tags": [], "nets": []}], "self": "/redfish/v1/Systems/437"}"#;
    let mut servers = field(Type::Id, "/servers/*");
    let mut token = field(Type::Word, "/tags/[k=holdfast]/v");
    token.optional = true;
    let each = [("id", field(Type::Id, "/id")), ("token", token), ("nets", field(Type::Id, "/nets/*"))];
    servers.each = Some(each.into_iter().map(|(n, f)| (n.to_string(), f)).collect());
    let mut own = field(Type::Id, "/self");
    own.matches = Some(("/redfish/v1/Systems/".into(), String::new()));
    assert_eq!(
        run(&[("servers", servers), ("own", own)], body).unwrap(),
        json!({"servers": [{"id": "1", "token": "hfa", "nets": ["a", "b"]}, {"id": "2", "nets": []}], "own": "437"})
    );
}

#[test]
fn null_is_absent_and_the_first_present_place_wins() {
    let mut either = field(Type::Id, "/a");
    either.at.push(Place::Json(pointer("/b")));
    assert_eq!(run(&[("x", either)], r#"{"a": null, "b": "two"}"#).unwrap(), json!({"x": "two"}));
    let mut etag = field(Type::Sealed, "/none");
    etag.at = vec![Place::Header("etag".into())];
    assert_eq!(run(&[("etag", etag)], "{}").unwrap(), json!({"etag": "sealed:etag:-:W/\"abc\""}));
}

#[test]
fn every_type_has_its_own_grammar_attack_8() {
    let cases = [
        (Type::Int, "3", true),
        (Type::Int, "3.5", false),
        (Type::Int, "\"7\"", true),
        (Type::Bool, "true", true),
        (Type::Bool, "1", false),
        (Type::Size, "\"4 GiB\"", true),
        (Type::Size, "-1", false),
        (Type::Word, "\"Pending\"", true),
        (Type::Word, "\"SGVsbG8=\"", false),
        (Type::Ip, "\"2001:db8::1\"", true),
        (Type::Ip, "\"example.com\"", false),
        (Type::Time, "\"2026-01-02T03:04:05Z\"", true),
        (Type::Text(10), "\"line\\nbreak\"", false),
        (Type::Id, "[\"a\"]", false),
    ];
    for (ty, body, fits) in cases {
        let result = run(&[("f", field(ty, "/f"))], &format!("{{\"f\": {body}}}"));
        assert_eq!(result.is_ok(), fits, "{ty:?} {body}");
    }
}

#[test]
fn a_field_may_be_narrower_than_its_type() {
    let mut id = field(Type::Id, "/id");
    id.max = Some(4);
    assert!(run(&[("id", id.clone())], r#"{"id": "abcd"}"#).is_ok());
    assert!(run(&[("id", id)], r#"{"id": "abcde"}"#).is_err());
}

#[test]
fn a_list_with_gaps_is_not_taken_for_the_whole() {
    let body = r#"{"s": [{"id": "a"}, {"name": "b"}], "t": [{"k": "x", "v": "1"}, {"k": "y"}], "e": []}"#;
    assert_eq!(run(&[("ids", field(Type::Id, "/s/*/id"))], body).unwrap_err().found, "a list with gaps");
    let mut loose = field(Type::Id, "/s/*/id");
    loose.optional = true;
    assert_eq!(run(&[("ids", loose)], body).unwrap(), json!({"ids": ["a"]}));
    assert_eq!(run(&[("v", field(Type::Id, "/t/[k=x]/v"))], body).unwrap(), json!({"v": "1"}));
    assert!(run(&[("v", field(Type::Id, "/t/[k=z]/v"))], body).is_err());
    assert_eq!(run(&[("e", field(Type::Id, "/e/*"))], body).unwrap(), json!({"e": []}));
}
