//! The grammar itself: keys, words, places, patterns, and how refusals are shown.

mod common;

use common::*;
use holdfast_manifest::*;
use std::collections::BTreeMap;

#[test]
fn the_base_of_these_tests_loads() {
    let m = load(BASE);
    assert_eq!(m.calls["create"].args["name"].ty, Type::Id);
    assert_eq!(m.calls["create"].slots["user-data"].encode, [Encoding::Base64]);
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    let text = with("accept = [201]", "acept = [201]");
    let shown = Manifest::parse(&text).unwrap_err().to_string();
    let line = text.lines().position(|line| line.starts_with("acept")).unwrap() + 1;
    assert!(
        shown.starts_with(&format!(
            "provider.toml:{line}:1: calls.create.acept: unknown key `acept`; did you mean `accept`?"
        )),
        "{shown}"
    );
    assert!(shown.ends_with("(grammar)"), "{shown}");
}

#[test]
fn every_table_refuses_unknown_keys() {
    for (old, new) in [
        ("name = \"sim\"", "name = \"sim\"\nnope = 1"),
        ("{ mode = \"immediate\" }", "{ mode = \"immediate\", nope = 1 }"),
        ("about = \"Key of the account\"", "about = \"K\", nope = 1"),
        ("vars = [\"project\"]", "vars = [\"project\"]\nnope = 1"),
        ("type = \"id\", on = \"server\" }", "type = \"id\", on = \"server\", nope = 1 }"),
        ("max-bytes = 16384", "max-bytes = 16384, nope = 1"),
        ("type = \"word\" }\nfields.link", "type = \"word\", nope = 1 }\nfields.link"),
        ("into = \"query:page\"", "into = \"query:page\", nope = 1"),
        ("absent-after = \"60s\"", "absent-after = \"60s\", nope = 1"),
        ("[operations]", "[nope]\n[operations]"),
    ] {
        refused(&with(old, new), Rule::Grammar, "unknown key `nope`");
    }
}

#[test]
fn several_refusals_come_together_in_the_order_of_the_file() {
    let text =
        with("contract = \"0.1\"", "contract = \"9\"").replace("effect = \"update\"", "effect = \"updat\"");
    let errors = Manifest::parse(&text).unwrap_err();
    assert_eq!(errors.0.len(), 2, "{errors}");
    assert!(errors.0[0].line < errors.0[1].line);
    assert_eq!(errors.0[1].nearest.as_deref(), Some("update"));
}

#[test]
fn broken_toml_has_a_position_and_duplicate_keys_are_broken() {
    let errors = Manifest::parse("[provider]\nname = \n").unwrap_err();
    assert_eq!((errors.0[0].line, errors.0[0].rule), (2, Rule::Grammar));
    refused(&with("accept = [201]", "accept = [201]\naccept = [200]"), Rule::Grammar, "not TOML");
}

#[test]
fn a_manifest_over_256_kib_is_refused_unread() {
    refused(&format!("{BASE}#{}", "x".repeat(MAX_SECTION)), Rule::Grammar, "256 KiB");
}

#[test]
fn required_keys_are_asked_for() {
    for (old, key) in [
        ("version = \"1.2.3\"\n", "version"),
        ("about = \"The simulated cloud\"\n", "about"),
        ("auth = { put = { \"header:Authorization\" = \"Bearer {api-key}\" } }\n", "auth"),
        ("mode = \"immediate\"", "mode"),
        ("method = \"POST\"\npath = \"/v1/servers\"\n", "method"),
    ] {
        refused(&with(old, ""), Rule::Grammar, &format!("`{key}` is required"));
    }
}

#[test]
fn what_this_version_cannot_do_is_refused_as_not_yet() {
    let auth = "auth = { put = { \"header:Authorization\" = \"Bearer {api-key}\" } }";
    for (text, words) in [
        (
            with(auth, "auth = { sigv4 = { service = \"s3\", region = \"r\", id = \"a\", secret = \"b\" } }"),
            "s3",
        ),
        (with(auth, "auth = { http-signature = { alg = \"rsa\" } }"), "`http-signature`"),
        (with("kind = \"user-data\"", "kind = \"jwt\""), "`jwt`"),
        (
            with(
                "body.json = '{\"start\": true, \"boot\": {\"mode\": \"uefi\"}, \"disks\": [{\"size\": 10}]}'",
                "body.xml = '<a/>'",
            ),
            "xml bodies",
        ),
        (with("vars = [\"project\"]", "vars = [\"project\"]\naliases = [\"a.example\"]"), "aliases"),
        (
            and("[calls.create.captures]\np = { at = \"json:/p\", to = \"secret:X\" }"),
            "captures into a Secret",
        ),
    ] {
        refused(&text, Rule::NotYet, words);
        refused(&text, Rule::NotYet, "not yet supported by this version");
    }
}

#[test]
fn places_are_read_and_written_alike() {
    for text in [
        "path:id",
        "query:X-Filter",
        "header:etag",
        "form:Filter.1.Value.*",
        "json:",
        "json:/a/*/[k=v]/b~1c~0d",
        "url",
    ] {
        assert_eq!(Place::parse(text).unwrap().to_string(), text);
    }
    for text in [
        "",
        "json",
        "json:a",
        "json:/a//b",
        "json:/~2",
        "json:/[k]",
        "path:Id",
        "header:a b",
        "form:a*b*",
        "cookie:x",
        "body:/x",
    ] {
        assert!(Place::parse(text).is_err(), "{text}");
    }
    assert_eq!(Place::parse("header:X-Auth-Token").unwrap(), Place::Header("x-auth-token".into()));
}

#[test]
fn a_provider_id_is_read_in_one_way_only_and_anchored() {
    let p = ProviderIdPattern::new("sim://{zone}/{server}").unwrap();
    let values = p.parse("sim://a/b").unwrap();
    assert_eq!(values, BTreeMap::from([("zone".into(), "a".into()), ("server".into(), "b".into())]));
    assert_eq!(p.render(&values).as_deref(), Some("sim://a/b"));
    for id in [
        "",
        "sim://",
        "sim://a",
        "sim://a/",
        "sim:///b",
        "sim://a/b/c",
        "xsim://a/b",
        "sim://a/b\n",
        "SIM://a/b",
    ] {
        assert!(p.parse(id).is_none(), "{id}");
    }
    let smuggled = BTreeMap::from([("zone".into(), "a/b".into()), ("server".into(), "c".into())]);
    assert_eq!(p.render(&smuggled), None, "what would be read back differently is not rendered");
    for text in ["", "sim", "{a}", "s://{a}{b}", "s://{a}/{a}", "s://{A}", "s://{a", "s://a}", "s ://{a}"] {
        assert!(ProviderIdPattern::new(text).is_err(), "{text}");
    }
}

#[test]
fn credential_formats_have_holes_and_one_function() {
    let f = Format::parse("Basic {base64(user:password)}").unwrap();
    assert_eq!(
        f.0,
        [
            FormatPart::Text("Basic ".into()),
            FormatPart::Base64(vec![
                FormatPart::Hole("user".into()),
                FormatPart::Text(":".into()),
                FormatPart::Hole("password".into())
            ])
        ]
    );
    assert_eq!(f.holes(), ["user", "password"]);
    assert_eq!(f.text(), "Basic {base64(user:password)}");
    for text in ["", "constant", "{}", "{A}", "{a", "{hex(a)}", "{a}\n"] {
        assert!(Format::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_path_cannot_leave_its_template() {
    for path in [
        "v1",
        "/v1//x",
        "/v1/../x",
        "/v1/%2e%2E/x",
        "/v1/a%2fb",
        "/v1/{id}/{id}",
        "/v1/{Id}",
        "/v1/ä",
        "/v1?",
        "/v1?a={id}",
        "/v1#x",
        "/%zz",
    ] {
        refused(&with("path = \"/v1/servers\"\n", &format!("path = \"{path}\"\n")), Rule::Grammar, "");
    }
}

#[test]
fn skeletons_are_strict_json_and_forms() {
    let body = "body.json = '{\"start\": true, \"boot\": {\"mode\": \"uefi\"}, \"disks\": [{\"size\": 10}]}'";
    refused(
        &with(body, "body.json = '{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}'"),
        Rule::Grammar,
        "occurs twice",
    );
    refused(&with(body, "body.json = '{\"a\": '"), Rule::Grammar, "not a JSON skeleton");
    refused(&with(body, "body.json = '1'"), Rule::Grammar, "object or a list");
    refused(&with(body, "body.form = 'a=1&a=2'"), Rule::Grammar, "occurs twice");
    let form = and(
        "[calls.form]\nendpoint='api'\neffect='read'\nmethod='POST'\npath='/'\nbody.form='Action=Describe&scope=https://a.b/.default&x=a%20b+c'",
    );
    let expected = [("Action", "Describe"), ("scope", "https://a.b/.default"), ("x", "a b c")];
    let Body::Form(pairs) = &load(&form).calls["form"].body else { panic!("no form") };
    assert!(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).eq(expected));
}

#[test]
fn headers_of_the_host_are_nobody_elses() {
    for name in [
        "Authorization",
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Accept-Encoding",
        "Cookie",
        "Content-Type",
    ] {
        let constant = with("accept = [201]", &format!("accept = [201]\nheaders = {{ \"{name}\" = \"x\" }}"));
        refused(&constant, Rule::Grammar, "written by the host alone");
        let arg = and(&format!("[calls.reboot.args.h]\nat = \"header:{name}\"\ntype = \"word\""));
        refused(&arg, Rule::Grammar, "written by the host alone");
    }
    refused(&with("header:Authorization", "header:Host"), Rule::Grammar, "cannot hold a credential");
}

/// Field case J06.
#[test]
fn slots_stand_in_bodies_and_end_in_text() {
    refused(
        &with("at = \"json:/user_data\"", "at = \"query:user_data\""),
        Rule::Grammar,
        "a slot cannot stand",
    );
    refused(
        &with("at = \"json:/user_data\"", "at = \"header:x-user-data\""),
        Rule::Grammar,
        "a slot cannot stand",
    );
    refused(&with("encode = [\"base64\"]", "encode = [\"gzip\"]"), Rule::Grammar, "do not end in text");
    refused(
        &with("max-bytes = 16384", "key = \"api-key\""),
        Rule::Grammar,
        "does not belong to this kind of slot",
    );
}

#[test]
fn durations_codes_and_types_are_bounded() {
    refused(&with("\"60s\"", "\"0s\""), Rule::Grammar, "not a duration");
    refused(&with("\"60s\"", "\"1d\""), Rule::Grammar, "not a duration");
    refused(
        &with("\"capacity-exhausted\"", "\"capacity-exhausd\""),
        Rule::Grammar,
        "did you mean `capacity-exhausted`",
    );
    refused(&with("type = \"word\"", "type = \"text:513\""), Rule::Grammar, "1 to 512");
    refused(&with("type = \"word\"", "type = \"string\""), Rule::Grammar, "not a type");
    refused(&with("\"404\"", "\"4040\""), Rule::Grammar, "not an answer");
    refused(&with("accept = [201]", "accept = [302]"), Rule::Grammar, "200 to 299");
}

#[test]
fn globs_bound_paths() {
    assert!(glob_matches("/redfish/v1/**", "/redfish/v1/TaskService/1"));
    assert!(glob_matches("/a/*/b/**", "/a/x/b/y/z"));
    for (glob, path) in [
        ("/redfish/v1/**", "/redfish/v1"),
        ("/redfish/v1/**", "/redfish/v2/x"),
        ("/a/*", "/a/b/c"),
        ("/a/*", "/a/"),
    ] {
        assert!(!glob_matches(glob, path), "{glob} {path}");
    }
    refused(&with("/v1/**", "/**"), Rule::Grammar, "at least one part");
    refused(&with("/v1/**", "/v1/../x"), Rule::Grammar, "path glob");
}

/// Section 6, line by line.
#[test]
fn answers_are_classified_most_specific_first() {
    let text = with(
        "rejects = { NoCapacity = \"capacity-exhausted\" }",
        "rejects = { NoCapacity = \"capacity-exhausted\", \"403 NoCapacity\" = \"quota-exceeded\", \"503\" = \"throttled\" }\nfails = { Broken = \"internal\" }",
    );
    // A bare 503 is a refusal only where a repeat is known again (L2).
    let text = text.replace("replay = \"lookup\"\n", "replay = \"token\"\ntoken-life = \"24h\"\n");
    let m = load(&text);
    let create = &m.calls["create"];
    let rejected = |code: &str| Class::Rejected(code.into());
    let unclear = |code: &str| Class::Unclear(code.into());
    for (status, word, class) in [
        (201, None, Class::Plain),
        (201, Some("Unlisted"), Class::Plain),
        (201, Some("NoCapacity"), rejected("capacity-exhausted")),
        (403, Some("NoCapacity"), rejected("quota-exceeded")),
        (500, Some("NoCapacity"), rejected("capacity-exhausted")),
        (503, Some("NoCapacity"), rejected("capacity-exhausted")),
        (503, None, rejected("throttled")),
        (400, Some("Broken"), unclear("internal")),
        (400, None, rejected("invalid-input")),
        (405, None, rejected("invalid-input")),
        (422, Some("Unlisted"), rejected("invalid-input")),
        (401, None, rejected("unauthenticated")),
        (403, None, rejected("permission-denied")),
        (404, None, rejected("not-found")),
        (409, None, rejected("conflict")),
        (412, None, rejected("conflict")),
        (429, None, rejected("throttled")),
        (500, None, unclear("unavailable")),
        (302, None, unclear("unavailable")),
        (418, None, unclear("unavailable")),
        (200, None, unclear("unavailable")), // a success, but not the one that `accept` declares
    ] {
        assert_eq!(create.classify(status, word), class, "{status} {word:?}");
    }
    assert_eq!(m.calls["delete"].classify(404, None), Class::Gone);
    assert!(create.answers.lists("Broken") && !create.answers.lists("Unlisted"));
}

#[test]
fn a_calls_own_answer_hides_the_endpoints() {
    let text = with(
        "error-code = \"json:/error/code\"",
        "error-code = \"json:/error/code\"\nrejects = { NoCapacity = \"unavailable\", Other = \"conflict\" }\ngone = [\"Missing\"]",
    );
    let m = load(&text);
    assert_eq!(
        m.calls["create"].classify(400, Some("NoCapacity")),
        Class::Rejected("capacity-exhausted".into())
    );
    assert_eq!(m.calls["reboot"].classify(400, Some("NoCapacity")), Class::Rejected("unavailable".into()));
    assert_eq!(m.calls["reboot"].classify(400, Some("Missing")), Class::Gone);
    assert_eq!(
        m.calls["create"].classify(400, Some("Missing")),
        Class::Rejected("not-found".into()),
        "nothing was made"
    );
}

#[test]
fn texts_that_a_terminal_obeys_are_refused_and_shown_written_out_attack_62() {
    for (bad, shown) in [("\\u001b[2J", "\\u{1b}"), ("\\u202eevil", "\\u{202e}"), ("two\\nlines", "\\u{a}")] {
        let manifest = with("about = \"", &format!("about = \"{bad}"));
        refused(&manifest, Rule::Grammar, "control or invisible");
        let unknown = and(&format!("[provider.\"{bad}\"]\nx = 1\n"));
        let told = Manifest::parse(&unknown).unwrap_err().to_string();
        assert!(told.contains(shown), "{told:?}");
        assert!(!told.chars().any(|c| c == '\u{1b}' || c == '\u{202e}'), "{told:?}");
    }
}
