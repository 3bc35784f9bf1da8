//! The data API as a provider's manifest sees it, and what the ledger says about it.

mod common;

use common::{Client, advance, frozen, server};
use holdfast_simulated_cloud::{Cloud, EffectKind, Options, Seed};
use serde_json::{Value, json};

#[tokio::test]
async fn a_server_is_created_becomes_running_and_its_action_succeeds() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let made = client.post("/v1/servers", server("one")).await;
    assert_eq!(made.status, 201);
    let (id, action) = (made.text("/server/id"), made.text("/action/id"));
    assert_eq!(made.text("/server/status"), "starting");
    assert_eq!(made.text("/action/status"), "running");
    assert!(made.text("/root_password").starts_with("root-"));

    advance(&cloud, 25);
    assert_eq!(client.get(&format!("/v1/actions/{action}")).await.at("/action/progress"), 50);
    advance(&cloud, 25);
    assert_eq!(client.get(&format!("/v1/actions/{action}")).await.text("/action/status"), "success");
    let shown = client.get(&format!("/v1/servers/{id}")).await;
    assert_eq!(shown.text("/server/status"), "running");
    assert_eq!(shown.at("/server/power_generation"), 1);
    assert_eq!(shown.at("/server/boots"), 1);
    assert_eq!(shown.at("/server/labels"), json!({ "holdfast": "one" }));
    assert_eq!(shown.header("etag"), shown.text("/server/etag"));

    let ledger = cloud.ledger();
    let [create] = ledger.creates()[..] else { panic!("one create, not {:?}", ledger.effects) };
    assert_eq!((create.server.as_str(), create.label.as_deref()), (id.as_str(), Some("one")));
    assert_eq!(create.user_data_sha256.as_deref(), Some(sha256(b"#cloud-config").as_str()));
    assert_eq!(cloud.user_data(&id).unwrap(), b"#cloud-config");
    assert_eq!(ledger.live, [id]);
}

fn sha256(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

#[tokio::test]
async fn only_real_transitions_of_power_are_effects_but_every_reset_is_one() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = cloud.seed_server(Seed::named("one")).unwrap();
    let act = async |command: &str| {
        let answer = client.act(&format!("/v1/servers/{id}/actions/{command}")).await;
        advance(&cloud, 50);
        answer.status
    };
    for command in
        ["power_on", "power_off", "power_off", "shutdown", "power_on", "power_on", "reset", "reset"]
    {
        assert_eq!(act(command).await, 201, "{command}");
    }
    let kinds: Vec<_> = cloud.ledger().effects.iter().map(|effect| effect.kind).collect();
    assert_eq!(kinds, [EffectKind::PowerOff, EffectKind::PowerOn, EffectKind::Reset, EffectKind::Reset]);
    let shown = cloud.server(&id).unwrap();
    assert_eq!((&shown["power_generation"], &shown["boots"]), (&json!(2), &json!(4)));
    assert_eq!(act("shutdown").await, 201);
    assert_eq!(act("reset").await, 409, "a server that is off has nothing to reset");
    assert_eq!(act("explode").await, 404);
    assert_eq!(cloud.ledger().count(EffectKind::Shutdown, &id), 1);
}

#[tokio::test]
async fn a_later_action_supersedes_the_one_that_runs_unless_the_cloud_locks_busy_servers() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = client.post("/v1/servers", server("one")).await.text("/server/id");
    let off = format!("/v1/servers/{id}/actions/power_off");
    assert_eq!(client.act(&off).await.status, 201);
    let create = client.get("/v1/actions/act-1").await;
    assert_eq!(
        (create.text("/action/status"), create.text("/action/error/code")),
        ("error".into(), "superseded".into())
    );
    cloud.behave(|behaviour| behaviour.lock_while_busy = true);
    let locked = client.act(&off).await;
    assert_eq!((locked.status, locked.code()), (423, "locked".into()));
}

#[tokio::test]
async fn a_rebuild_replaces_image_and_first_boot_data_in_place() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = cloud.seed_server(Seed::named("one")).unwrap();
    let body = json!({ "image": "image-2", "user_data": "second" });
    let answer = client.post(&format!("/v1/servers/{id}/actions/rebuild"), body).await;
    assert_eq!(answer.status, 201);
    assert_eq!(cloud.server(&id).unwrap()["status"], "rebuilding");
    advance(&cloud, 50);
    let shown = cloud.server(&id).unwrap();
    assert_eq!((&shown["status"], &shown["image"]), (&json!("running"), &json!("image-2")));
    assert_eq!((&shown["power_generation"], &shown["boots"]), (&json!(1), &json!(2)));
    assert_eq!(cloud.user_data(&id).unwrap(), b"second");
    assert_eq!(cloud.ledger().count(EffectKind::Rebuild, &id), 1);
}

#[tokio::test]
async fn a_replacement_is_a_new_server_and_the_old_one_lives_until_it_is_deleted() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let old = cloud.seed_server(Seed::named("one")).unwrap();
    let body =
        json!({ "name": "one-b", "image": "image-2", "user_data": "b", "labels": { "holdfast": "tok" } });
    let answer = client.post(&format!("/v1/servers/{old}/replace"), body).await;
    let new = answer.text("/server/id");
    assert_eq!(answer.status, 201);
    assert_ne!(new, old);
    assert_eq!(cloud.ledger().live, [old.clone(), new.clone()]);
    let found = client.get("/v1/servers?label=tok").await;
    assert_eq!(found.text("/servers/0/id"), new);
    assert_eq!(client.delete(&format!("/v1/servers/{old}")).await.status, 200);
    let ledger = cloud.ledger();
    assert_eq!(ledger.live, std::slice::from_ref(&new));
    assert_eq!(ledger.effects_of(&new)[0].replaces.as_deref(), Some(old.as_str()));
    assert_eq!(ledger.count(EffectKind::Replace, &new), 1);
    assert!(ledger.creates().is_empty());
}

#[tokio::test]
async fn a_delete_takes_time_is_one_effect_however_often_it_is_asked_and_ends_in_not_found() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = cloud.seed_server(Seed { user_data: "kept".into(), ..Seed::named("one") }).unwrap();
    let target = format!("/v1/servers/{id}");
    let first = client.delete(&target).await;
    let second = client.delete(&target).await;
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.text("/action/id"), second.text("/action/id"));
    assert_eq!(client.get(&target).await.text("/server/status"), "deleting");
    advance(&cloud, 50);
    assert_eq!(client.get(&target).await.status, 404);
    assert_eq!(client.delete(&target).await.code(), "not_found");
    assert_eq!(cloud.ledger().count(EffectKind::Delete, &id), 1);
    assert_eq!(cloud.user_data(&id).unwrap(), b"kept", "what a server was given outlives it, for the tests");
}

#[tokio::test]
async fn a_list_is_paged_and_filtered_by_name() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    for name in ["a", "b", "b", "c"] {
        cloud.seed_server(Seed::named(name)).unwrap();
    }
    let first = client.get("/v1/servers?per_page=3").await;
    assert_eq!(first.at("/servers").as_array().unwrap().len(), 3);
    assert_eq!(first.at("/meta/pagination/next_page"), 2);
    let second = client.get("/v1/servers?per_page=3&page=2").await;
    assert_eq!(second.text("/servers/0/name"), "c");
    assert_eq!(second.at("/meta/pagination/next_page"), Value::Null);
    assert_eq!(client.get("/v1/servers?name=b").await.at("/servers").as_array().unwrap().len(), 2);
    assert_eq!(client.get("/v1/servers?page=zero").await.status, 422);
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_refused_without_effect() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let bad = [
        json!({ "name": "one" }),
        json!({ "name": "one", "image": "i", "user-data": "misspelt" }),
        json!({ "name": "one", "image": "i", "type": "none" }),
        json!({ "name": "one", "image": "i", "zone": "none" }),
        json!({ "name": 1, "image": "i" }),
    ];
    for body in bad {
        assert_eq!(client.post("/v1/servers", body.clone()).await.status, 422, "{body}");
    }
    assert_eq!(client.send("POST", "/v1/servers", b"{".to_vec()).await.unwrap().status, 400);
    assert_eq!(client.act("/v1/servers").await.status, 415);
    for (method, target, status) in [
        ("GET", "/v1/nothing", 404),
        ("PATCH", "/v1/servers", 405),
        ("GET", "/v1/servers/srv-1", 404),
        ("GET", "/v1/servers/1", 404),
        ("GET", "/v1/servers/srv-+1", 404),
        ("DELETE", "/v1/types", 405),
    ] {
        assert_eq!(
            client.send(method, target, Vec::new()).await.unwrap().status,
            status,
            "{method} {target}"
        );
    }
    assert!(cloud.ledger().effects.is_empty());
}

#[tokio::test]
async fn an_etag_that_is_not_current_stops_a_mutation() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = cloud.seed_server(Seed::named("one")).unwrap();
    let etag = client.get(&format!("/v1/servers/{id}")).await.header("etag").to_owned();
    let guarded = client.with("if-match", &etag);
    let target = format!("/v1/servers/{id}/actions/reset");
    assert_eq!(guarded.act(&target).await.status, 201);
    advance(&cloud, 50);
    assert_eq!(guarded.act(&target).await.code(), "precondition_failed");
    assert_eq!(cloud.count(EffectKind::Reset), 1);
}

#[tokio::test]
async fn first_boot_data_can_be_read_back_where_no_provider_may_look() {
    let cloud = frozen().await;
    let id = cloud.seed_server(Seed { user_data: "secret".into(), ..Seed::named("one") }).unwrap();
    let answer = Client::of(&cloud).get(&format!("/v1/servers/{id}/user_data")).await;
    assert_eq!(answer.text("/user_data"), "secret");
}

#[tokio::test]
async fn types_and_zones_show_what_is_left() {
    let cloud = frozen().await;
    cloud.behave(|behaviour| {
        let entry = json!({ "zone": "zone-a", "type": "small", "max": 3 });
        behaviour.limits.capacity = vec![serde_json::from_value(entry).unwrap()];
    });
    let client = Client::of(&cloud);
    client.post("/v1/servers", server("one")).await;
    assert_eq!(client.get("/v1/types").await.text("/types/0/name"), "small");
    let zones = client.get("/v1/zones").await;
    assert_eq!(zones.at("/zones/0/capacity/0"), json!({ "type": "small", "left": 2 }));
    assert_eq!(zones.at("/zones/1/capacity/0/left"), Value::Null);
}

#[tokio::test]
async fn one_connection_carries_many_requests_and_thousands_of_servers_need_no_list() {
    let cloud = Cloud::start(Options::default()).await.unwrap();
    let client = Client::of(&cloud);
    let mut sender = client.connect().await.unwrap();
    for index in 0..2000 {
        let name = format!("server-{index}");
        let body = server(&name).to_string().into_bytes();
        let made = client.send_on(&mut sender, "POST", "/v1/servers", body).await.unwrap();
        assert_eq!(made.status, 201);
        let found = format!("/v1/servers?name={name}");
        let found = client.send_on(&mut sender, "GET", &found, Vec::new()).await.unwrap();
        assert_eq!(found.text("/servers/0/id"), made.text("/server/id"));
    }
    assert_eq!(cloud.count(EffectKind::Create), 2000);
    assert_eq!(cloud.request_counts()["POST /v1/servers"], 2000);
    drop(sender);
    cloud.stop().await;
    assert!(client.connect().await.is_err(), "a stopped cloud does not listen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_connections_at_once_with_one_key_make_one_server() {
    let cloud = Cloud::start(Options::default()).await.unwrap();
    let client = Client::of(&cloud).with("idempotency-key", "key-1");
    let calls = (0..32).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.post("/v1/servers", server("one")).await })
    });
    let mut ids = std::collections::BTreeSet::new();
    for call in calls.collect::<Vec<_>>() {
        ids.insert(call.await.unwrap().text("/server/id"));
    }
    let made: Vec<String> = ids.into_iter().collect();
    assert_eq!(cloud.ledger().live, made);
    assert_eq!((made.len(), cloud.count(EffectKind::Create)), (1, 1));
    assert!(cloud.ledger().twins().is_empty());
}
