//! What comes back: verdicts, caps, content types, paging, sealed values.

use super::*;

/// Field case E09.
#[tokio::test]
async fn statuses_and_words_mean_what_the_manifest_says() {
    let cases: [(u16, &str, &str, &str); 12] = [
        (404, "{}", "gone", ""),
        (401, "{}", "rejected", "unauthenticated"),
        (403, "{}", "rejected", "permission-denied"),
        (409, "{}", "rejected", "conflict"),
        (422, "{}", "rejected", "invalid-input"),
        (429, "{}", "rejected", "throttled"),
        (500, "{}", "unclear", "unavailable"),
        (204, "", "unclear", "unavailable"),
        (302, "", "unclear", "unavailable"),
        (500, r#"{"error": {"code": "locked"}}"#, "rejected", "conflict"),
        (200, r#"{"state": "on", "error": {"code": "no_capacity"}}"#, "rejected", "capacity-exhausted"),
        (400, r#"{"error": {"code": "broken_pipe"}}"#, "unclear", "unavailable"),
    ];
    for (status, body, kind, code) in cases {
        let world = World::new(move |_| Says::json(status, body)).await;
        let answer = world.call("server", json!({"id": "s1"})).await;
        let (got, refused) = match &answer.verdict {
            Verdict::Fits(_) => ("fits", ""),
            Verdict::Gone { .. } => ("gone", ""),
            Verdict::Rejected(refused) => ("rejected", refused.code.as_str()),
            Verdict::Unclear(refused) => ("unclear", refused.code.as_str()),
        };
        assert_eq!((got, refused), (kind, code), "{status} {body}");
        assert!(answer.sent);
    }
}

#[tokio::test]
async fn an_unfit_2xx_is_in_doubt_on_a_mutation_and_refused_on_a_read_hole_h5() {
    let bodies = [r#"{"id": "has space"}"#, "{}", "", "not json", r#"{"id": "a", "id": "b"}"#, "[]"];
    for body in bodies {
        let world =
            World::new(move |heard| Says::json(if heard.method == "POST" { 201 } else { 200 }, body)).await;
        let answer = world.send(world.create()).await;
        assert!(
            matches!(&answer.verdict, Verdict::Unclear(refused) if refused.reason == "ReplyDoesNotFit"),
            "{body}"
        );
        let answer = world.call("server", json!({"id": "s1"})).await;
        let Verdict::Rejected(refused) = &answer.verdict else { panic!("{body}: {answer:?}") };
        assert_eq!((refused.code.as_str(), refused.reason.as_str()), ("internal", "ReplyDoesNotFit"));
    }
}

#[tokio::test]
async fn compressed_long_untyped_and_broken_replies_are_refused_whole_attacks_9_to_11() {
    let long = format!("{{\"state\": \"on\", \"x\": \"{}\"}}", "y".repeat(5000));
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
        long.len()
    );
    let good = r#"{"state": "on"}"#;
    let json = "content-type: application/json\r\n";
    type Case = (&'static str, Box<dyn Fn() -> Says + Send + Sync>);
    let cases: Vec<Case> = vec![
        ("gzip", Box::new(move || Says::with(200, &format!("{json}content-encoding: gzip\r\n"), good))),
        (
            "br in a list",
            Box::new(move || Says::with(200, &format!("{json}content-encoding: identity, br\r\n"), good)),
        ),
        (
            "long",
            Box::new({
                let long = long.clone();
                move || Says::json(200, &long)
            }),
        ),
        ("long in chunks", Box::new(move || Says::Bytes(chunked.clone().into_bytes()))),
        ("text", Box::new(move || Says::with(200, "content-type: text/plain\r\n", good))),
        ("untyped", Box::new(move || Says::with(200, "", good))),
        ("two types", Box::new(move || Says::with(200, &format!("{json}{json}"), good))),
    ];
    for (name, says) in cases {
        let world = World::new(move |_| says()).await;
        let answer = world.call("server", json!({"id": "s1"})).await;
        assert!(
            matches!(&answer.verdict, Verdict::Rejected(r) if r.reason == "ReplyDoesNotFit"),
            "{name}: {answer:?}"
        );
    }
    let upgrade = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n".to_vec();
    let short =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{\"state\"".to_vec();
    let smuggled = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 5\r\n\r\n{}abc".to_vec();
    for (name, bytes) in [("101", upgrade), ("smuggled", smuggled)] {
        let world = World::new(move |_| Says::Bytes(bytes.clone())).await;
        let answer = world.call("server", json!({"id": "s1"})).await;
        assert!(!matches!(answer.verdict, Verdict::Fits(_)), "{name}");
    }
    let world = World::new(move |_| Says::Bytes(short.clone())).await;
    let mut exchange = world.exchange("server", json!({"id": "s1"}));
    exchange.timeout_ms = 2_000;
    assert!(matches!(world.send(exchange).await.verdict, Verdict::Unclear(_)), "a reply that breaks off");
}

#[tokio::test]
async fn interim_answers_trailers_and_undeclared_headers_are_not_surfaced_attacks_6_and_7() {
    let body = r#"{"state": "on"}"#;
    let bytes = format!(
        "HTTP/1.1 103 Early\r\nlink: <x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: application/json\r\nset-cookie: a=b\r\n\
         transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\nx-trailer: y\r\n\r\n",
        body.len()
    );
    let world = World::new(move |_| Says::Bytes(bytes.clone().into_bytes())).await;
    assert_eq!(fields(&world.call("server", json!({"id": "s1"})).await), json!({"state": "on"}));
    fields(&world.call("server", json!({"id": "s1"})).await);
    assert!(world.service.heard().iter().all(|heard| heard.header("cookie").is_none()), "no cookie jar");
}

#[tokio::test]
async fn waits_that_a_service_asks_for_reach_the_caller() {
    let world = World::new(|_| Says::with(429, "retry-after: 7\r\n", "")).await;
    let answer = world.call("server", json!({"id": "s1"})).await;
    assert_eq!(refusal(&answer.verdict).retry_after_ms, Some(7000));
}

/// Field cases B17 and L01.
#[tokio::test]
async fn all_pages_come_or_none() {
    let page = |heard: &Heard| match heard.target.as_str() {
        "/v1/servers?per_page=2&name=x" => {
            Says::json(200, r#"{"servers": [{"id": "a"}, {"id": "b"}], "next": "t&2"}"#)
        }
        "/v1/servers?per_page=2&name=x&page=t%262" => {
            Says::json(200, r#"{"servers": [{"id": "c"}], "next": null}"#)
        }
        _ => Says::json(500, "{}"),
    };
    let world = World::new(page).await;
    let answer = world.call("find", json!({"name": "x"})).await;
    assert_eq!(fields(&answer), json!({"servers": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}));
    let endless = World::new(|_| Says::json(200, r#"{"servers": [], "next": "same"}"#)).await;
    let answer = endless.call("find", json!({"name": "x"})).await;
    assert_eq!(refusal(&answer.verdict).reason, "ReplyDoesNotFit");
    assert_eq!(endless.service.heard().len(), 2);
    let broken = World::new(|heard| match heard.target.contains("page=t") {
        false => Says::json(200, r#"{"servers": [{"id": "a"}], "next": "t"}"#),
        true => Says::json(503, "{}"),
    })
    .await;
    assert!(matches!(broken.call("find", json!({"name": "x"})).await.verdict, Verdict::Unclear(_)));
}

#[tokio::test]
async fn a_next_page_that_is_a_url_stays_on_the_same_list_attack_27() {
    let cases = [
        ("https://HOST/v1/walk?cursor=2", true),
        ("/v1/walk?cursor=2", true),
        ("?cursor=2", true),
        ("/v1/users?cursor=2", false),
        ("https://evil.example/v1/walk?cursor=2", false),
        ("https://u:p@HOST/v1/walk?cursor=2", false),
        ("/v1/walk/../users", false),
    ];
    for (next, good) in cases {
        let world = World::new(move |heard| match heard.target.as_str() {
            "/v1/walk" => {
                let next = next.replace("HOST", heard.header("host").unwrap());
                Says::json(200, json!({"servers": ["a"], "next": next}).to_string())
            }
            "/v1/walk?cursor=2" => Says::json(200, r#"{"servers": ["b"]}"#),
            _ => Says::json(200, r#"{"servers": ["wrong"]}"#),
        })
        .await;
        let answer = world.call("walk", json!({})).await;
        if good {
            assert_eq!(fields(&answer), json!({"servers": ["a", "b"]}), "{next}");
        } else {
            assert!(!matches!(answer.verdict, Verdict::Fits(_)), "{next}");
            assert_eq!(world.service.heard().len(), 1, "{next}");
        }
    }
}

fn sealing(heard: &Heard) -> Says {
    match heard.target.as_str() {
        "/v1/servers/s1" => Says::with(
            200,
            "content-type: application/json\r\netag: W/\"e-1\"\r\n",
            r#"{"state": "on", "next": "/v1/actions/7?sig=abc"}"#,
        ),
        _ => Says::json(200, r#"{"state": "done"}"#),
    }
}

#[tokio::test]
async fn a_sealed_value_goes_back_to_its_own_place_and_only_there() {
    let world = World::new(sealing).await;
    let first = fields(&world.call("server", json!({"id": "s1"})).await);
    assert!(!first.to_string().contains("sig"));
    assert_eq!(first, fields(&world.call("server", json!({"id": "s1"})).await), "a recorded reply is stable");
    let answer = world.call("follow", json!({"target": first["next"], "etag": first["etag"]})).await;
    assert_eq!(fields(&answer), json!({"state": "done"}));
    let heard = world.service.heard().pop().unwrap();
    assert_eq!(heard.target, "/v1/actions/7?sig=abc");
    assert_eq!(heard.header("if-none-match"), Some("W/\"e-1\""));
    let foreign = |args: Value, owner: &str| {
        let mut exchange = world.exchange("follow", args);
        exchange.scope.owner = owner.into();
        world.custody.prepare(exchange).err().map(|refused| refused.reason)
    };
    let refused = Some("SealedValueForeign".to_owned());
    assert_eq!(foreign(json!({"target": first["next"]}), "op-1"), None);
    assert_eq!(foreign(json!({"target": first["next"]}), "op-2"), refused, "another operation's");
    assert_eq!(foreign(json!({"target": first["etag"]}), "op-1"), refused, "another field's");
    assert_eq!(foreign(json!({"target": "/v1/actions/7"}), "op-1"), refused, "made by the guest");
    assert_eq!(foreign(json!({"target": "hs1.AAAA"}), "op-1"), refused);
    assert_eq!(foreign(json!({"target": 7}), "op-1"), refused);
}

#[tokio::test]
async fn without_the_seal_a_neighbours_value_is_taken_so_the_test_above_can_fail() {
    let options = Options { defences: Defences { seal: false, ..Defences::default() }, ..Options::default() };
    let world = World::with(options, sealing).await;
    let first = fields(&world.call("server", json!({"id": "s1"})).await);
    let mut exchange = world.exchange("follow", json!({"target": first["next"]}));
    exchange.scope.owner = "op-2".into();
    assert!(world.custody.prepare(exchange).is_ok());
}

#[tokio::test]
async fn a_url_outside_its_glob_or_origin_is_never_sealed_attacks_27_and_31() {
    for next in [
        "https://evil.example/v1/x",
        "/admin",
        "/v1/../admin",
        "//evil.example/v1/x",
        "https://a@127.0.0.1/v1/x",
    ] {
        let body = json!({"state": "on", "next": next}).to_string();
        let world = World::new(move |_| Says::json(200, &body)).await;
        let answer = world.call("server", json!({"id": "s1"})).await;
        assert_eq!(refusal(&answer.verdict).reason, "ReplyDoesNotFit", "{next}");
    }
}
