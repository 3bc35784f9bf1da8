//! The admin API, the record of requests, and the cloud as a process of its own.

mod common;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use common::{Client, frozen, server};
use holdfast_simulated_cloud::{Cloud, Held, Ledger, Moment, Options, Recorded};
use serde_json::{Value, json};

fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    data_encoding::HEXLOWER.encode(digest.as_ref())
}

#[tokio::test]
async fn the_admin_api_has_a_token_of_its_own_and_the_data_api_does_not_take_it() {
    let cloud = frozen().await;
    assert_eq!(Client::of(&cloud).get("/_sim/ledger").await.status, 401);
    assert_eq!(Client::admin(&cloud).get("/v1/types").await.status, 401);
    assert_eq!(Client::admin(&cloud).get("/_sim/ledger").await.status, 200);
    assert_eq!(Client::admin(&cloud).get("/_sim/none").await.status, 404);
}

#[tokio::test]
async fn another_process_can_do_all_that_the_library_can() {
    let cloud = frozen().await;
    let (client, admin) = (Client::of(&cloud), Client::admin(&cloud));
    let seeded =
        admin.post("/_sim/servers", json!({ "name": "one", "status": "off", "user_data": "x" })).await;
    let id = seeded.text("/server/id");
    assert_eq!((seeded.status, seeded.text("/server/status")), (201, "off".into()));
    assert_eq!(admin.post("/_sim/servers", json!({ "status": "asleep" })).await.status, 422);

    let rules = json!({ "rules": [{ "method": "POST", "path": "/v1/**", "nth": 1, "status": 500 }],
                        "patch": { "action_ms": 10, "visibility": { "get_ms": 5 }, "lockout": null } });
    assert_eq!(admin.post("/_sim/faults", rules).await.status, 204);
    let shown = admin.get("/_sim/faults").await;
    assert_eq!(shown.at("/behaviour/action_ms"), 10);
    assert_eq!(
        shown.at("/behaviour/visibility"),
        json!({ "get_ms": 5, "get_reads": 0, "list_ms": 0,
        "list_reads": 0, "deleted_get_ms": 0, "deleted_list_ms": 0 })
    );
    assert_eq!(client.act(&format!("/v1/servers/{id}/actions/power_on")).await.status, 500);
    assert_eq!(client.act(&format!("/v1/servers/{id}/actions/power_on")).await.status, 201);
    assert_eq!(admin.get("/_sim/faults").await.at("/rules/0/fired"), 1);

    let before = admin.post("/_sim/clock", json!({})).await.at("/now_ms").as_i64().unwrap();
    let after = admin.post("/_sim/clock", json!({ "advance_ms": 10 })).await.at("/now_ms").as_i64().unwrap();
    assert_eq!(after - before, 10);
    assert_eq!(admin.get("/_sim/servers").await.text("/servers/0/status"), "running");
    assert_eq!(admin.get(&format!("/_sim/servers/{id}/user_data")).await.text("/user_data"), "x");

    let ledger: Ledger = serde_json::from_value(admin.get("/_sim/ledger").await.json()).unwrap();
    assert_eq!((ledger.effects.len(), ledger.live), (1, vec![id]));
    assert_eq!(admin.post("/_sim/auth", json!({ "token": "next", "end_others_in_ms": 0 })).await.status, 204);
    assert_eq!(client.get("/v1/types").await.status, 401);
    assert_eq!(admin.act("/_sim/reset").await.status, 204);
    assert_eq!(
        admin.post("/_sim/clock", json!({})).await.at("/now_ms"),
        after,
        "a reset leaves the clock alone"
    );
    assert_eq!(client.get("/v1/types").await.status, 200);
    assert_eq!(admin.get("/_sim/servers").await.at("/servers"), json!([]));
}

#[tokio::test]
async fn a_misspelt_fault_or_knob_is_refused_because_it_would_never_act() {
    let cloud = frozen().await;
    let admin = Client::admin(&cloud);
    for (body, named) in [
        (json!({ "rules": [{ "drops": "after" }] }), "drops"),
        (json!({ "rules": [{ "drop": "later" }] }), "later"),
        (json!({ "patch": { "action": 1 } }), "action"),
    ] {
        let refused = admin.post("/_sim/faults", body).await;
        assert_eq!(refused.status, 422);
        assert!(refused.text("/error/message").contains(named), "{}", refused.text("/error/message"));
    }
    assert_eq!(admin.post("/_sim/faults", json!({ "rule": [] })).await.status, 422);
}

#[tokio::test]
async fn a_held_exchange_is_seen_and_released_from_outside() {
    let cloud = frozen().await;
    let (client, admin) = (Client::of(&cloud), Client::admin(&cloud));
    admin.post("/_sim/faults", json!({ "rules": [{ "path": "/v1/servers", "hold": "after" }] })).await;
    let create = tokio::spawn(async move { client.post("/v1/servers", server("one")).await });
    cloud.held(1).await;
    let held: Vec<Held> = serde_json::from_value(admin.get("/_sim/held").await.at("/held")).unwrap();
    let expected = Held { method: "POST".into(), path: "/v1/servers".into(), moment: Moment::After };
    assert_eq!(held, [expected]);
    assert_eq!(admin.post("/_sim/release", json!({})).await.at("/released"), 1);
    assert_eq!(create.await.unwrap().status, 201);
}

#[tokio::test]
async fn the_noise_of_others_uses_up_the_rate_limit() {
    let cloud = frozen().await;
    let (client, admin) = (Client::of(&cloud), Client::admin(&cloud));
    admin.post("/_sim/faults", json!({ "patch": { "rate": { "requests": 5, "window_ms": 1000 } } })).await;
    admin.post("/_sim/noise", json!({ "requests": 5 })).await;
    assert_eq!(client.get("/v1/types").await.status, 429);
}

#[tokio::test]
async fn the_record_holds_digests_of_secrets_and_bodies_only_if_asked() {
    for record_bodies in [false, true] {
        let cloud = Cloud::start(Options { record_bodies, ..Options::default() }).await.unwrap();
        let client = Client::of(&cloud).with("idempotency-key", "k").with("x-session-token", "sess");
        let body = server("one");
        assert_eq!(client.post("/v1/servers?x=1", body.clone()).await.status, 201);
        let answer = Client::admin(&cloud).get("/_sim/requests").await;
        let all: Vec<Recorded> = serde_json::from_value(answer.at("/requests")).unwrap();
        let [request] = &all[..] else { panic!("admin calls are not recorded: {all:?}") };
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/v1/servers?x=1"));
        assert_eq!((request.status, request.idempotency_key.as_deref()), (Some(201), Some("k")));
        let token = cloud.api_token();
        for (place, text) in [
            ("header:Authorization", format!("Bearer {token}")),
            ("header:Authorization#token", token.to_owned()),
            ("header:X-Session-Token", "sess".to_owned()),
            ("json:/user_data", "#cloud-config".to_owned()),
            ("body", body.to_string()),
        ] {
            assert_eq!(request.secrets.get(place), Some(&sha256(&text)), "{place}");
        }
        assert_eq!(request.body, record_bodies.then(|| body.to_string()));
        assert_eq!(cloud.ledger().effects[0].request, request.seq);
        assert!(!answer.json().to_string().contains(token));
    }
}

#[tokio::test]
async fn the_record_keeps_the_last_requests_and_counts_all() {
    let cloud = Cloud::start(Options { record_limit: 2, ..Options::default() }).await.unwrap();
    for target in ["/v1/types", "/v1/zones", "/v1/servers/srv-9"] {
        Client::of(&cloud).get(target).await;
    }
    let kept: Vec<_> = cloud.requests().into_iter().map(|it| (it.seq, it.target, it.status)).collect();
    let expected = [(2, "/v1/zones".to_owned(), Some(200)), (3, "/v1/servers/srv-9".to_owned(), Some(404))];
    assert_eq!(kept, expected);
    assert_eq!(cloud.request_counts()["GET /v1/servers/*"], 1);
    assert_eq!(cloud.request_counts().values().sum::<u64>(), 3);
}

#[tokio::test]
async fn the_binary_says_where_it_is_in_one_line_and_ends_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast-simulated-cloud"))
        .args(["--listen", "127.0.0.1:0", "--state-dir"])
        .arg(folder.path().join("state"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let word = |name: &str| said[name].as_str().unwrap().to_owned();
    let ca = std::fs::read_to_string(word("ca")).unwrap();
    let address = word("origin").strip_prefix("https://").unwrap().to_owned();
    let client = Client::new(&address, &ca, &word("api_token"));
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 201);
    let admin = Client::new(&address, &ca, &word("admin_token"));
    assert_eq!(admin.get("/_sim/ledger").await.at("/effects/0/kind"), "create");
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(child.wait().unwrap().success(), "SIGTERM is a normal end");
}

#[tokio::test]
async fn only_the_ca_of_this_run_vouches_for_the_cloud() {
    let (one, other) = (frozen().await, frozen().await);
    let client = Client::new(&one.address().to_string(), other.ca_pem(), one.api_token());
    assert!(client.connect().await.is_err());
    assert!(one.origin().starts_with("https://127.0.0.1:"));
}
