//! Knobs 2 to 8 of the fake cloud: lags, keys, limits, rate, authentication, clock, pages, and going away.

mod common;

use common::{Client, advance, frozen, server};
use holdfast_simulated_cloud::{
    AuthChange, Behaviour, Capacity, Cloud, EffectKind, LastPage, Lockout, Rate, RetryAfter, Seed,
};
use serde_json::{Value, json};

fn seen(answer: &common::Answer) -> usize {
    answer.at("/servers").as_array().unwrap().len()
}

#[tokio::test]
async fn a_new_server_is_visible_only_after_a_time_and_listed_later_still() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.behave(|behaviour| {
        behaviour.visibility.get_ms = 100;
        behaviour.visibility.list_ms = 200;
    });
    let id = client.post("/v1/servers", server("one")).await.text("/server/id");
    let target = format!("/v1/servers/{id}");
    advance(&cloud, 99);
    assert_eq!(client.get(&target).await.status, 404);
    assert_eq!(client.delete(&target).await.status, 404, "not even a delete finds it yet (B14)");
    advance(&cloud, 1);
    assert_eq!(client.get(&target).await.status, 200);
    assert_eq!(seen(&client.get("/v1/servers?name=one").await), 0);
    advance(&cloud, 100);
    assert_eq!(seen(&client.get("/v1/servers?name=one").await), 1);
    assert_eq!(cloud.ledger().live, [id]);
}

#[tokio::test]
async fn a_new_server_is_visible_only_after_so_many_reads() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.behave(|behaviour| {
        behaviour.visibility.get_reads = 2;
        behaviour.visibility.list_reads = 1;
    });
    let id = client.post("/v1/servers", server("one")).await.text("/server/id");
    let target = format!("/v1/servers/{id}");
    let statuses = [client.get(&target).await, client.get(&target).await, client.get(&target).await];
    assert_eq!(statuses.map(|answer| answer.status), [404, 404, 200]);
    assert_eq!(seen(&client.get("/v1/servers").await), 0);
    assert_eq!(seen(&client.get("/v1/servers").await), 1);
}

#[tokio::test]
async fn a_deleted_server_lingers_in_reads_and_longer_in_lists() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.behave(|behaviour| {
        behaviour.visibility.deleted_get_ms = 100;
        behaviour.visibility.deleted_list_ms = 200;
    });
    let id = cloud.seed_server(Seed::named("one")).unwrap();
    let target = format!("/v1/servers/{id}");
    client.delete(&target).await;
    advance(&cloud, 50 + 99);
    assert_eq!(client.get(&target).await.text("/server/status"), "deleting");
    assert_eq!(
        client.act(&format!("{target}/actions/power_on")).await.status,
        404,
        "it is gone all the same"
    );
    advance(&cloud, 1);
    assert_eq!(client.get(&target).await.status, 404);
    assert_eq!(seen(&client.get("/v1/servers?name=one").await), 1);
    advance(&cloud, 100);
    assert_eq!(seen(&client.get("/v1/servers?name=one").await), 0);
    assert!(cloud.ledger().live.is_empty());
}

#[tokio::test]
async fn an_idempotency_key_is_honoured_ignored_or_expires() {
    let cloud = frozen().await;
    let client = Client::of(&cloud).with("idempotency-key", "key-1");
    let first = client.post("/v1/servers", server("one")).await;
    advance(&cloud, 1000);
    let again = client.post("/v1/servers", server("one")).await;
    assert_eq!((again.status, &again.bytes), (201, &first.bytes), "the same answer, root password included");
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(cloud.count(EffectKind::Create), 1);
    assert_eq!(client.post("/v1/servers", server("two")).await.code(), "idempotency_mismatch");
    assert_eq!(cloud.ledger().effects[0].idempotency_key.as_deref(), Some("key-1"));

    cloud.behave(|behaviour| behaviour.idempotency.expire_ms = Some(2000));
    advance(&cloud, 999);
    client.post("/v1/servers", server("one")).await;
    assert_eq!(cloud.count(EffectKind::Create), 1, "a millisecond before its end the key still holds");
    advance(&cloud, 1);
    client.post("/v1/servers", server("one")).await;
    assert_eq!(cloud.count(EffectKind::Create), 2, "an expired key makes a twin");

    cloud.behave(|behaviour| behaviour.idempotency.honoured = false);
    client.post("/v1/servers", server("one")).await;
    assert_eq!(cloud.count(EffectKind::Create), 3);
}

#[tokio::test]
async fn every_mutation_of_a_server_takes_an_idempotency_key() {
    let cloud = frozen().await;
    let id = cloud.seed_server(Seed::named("one")).unwrap();
    let client = Client::of(&cloud);
    let body = json!({ "image": "image-2", "user_data": "x", "name": "n" });
    let rebuild = json!({ "image": "image-2", "user_data": "x" });
    for (index, (target, body, kind)) in [
        (format!("/v1/servers/{id}/replace"), body, EffectKind::Replace),
        (format!("/v1/servers/{id}/actions/rebuild"), rebuild, EffectKind::Rebuild),
        (format!("/v1/servers/{id}/actions/reset"), json!({}), EffectKind::Reset),
    ]
    .into_iter()
    .enumerate()
    {
        let client = client.with("idempotency-key", &format!("key-{index}"));
        assert_eq!(client.post(&target, body.clone()).await.status, 201, "{target}");
        assert_eq!(client.post(&target, body).await.header("idempotency-replayed"), "true", "{target}");
        assert_eq!(cloud.count(kind), 1, "{target}");
    }
}

#[tokio::test]
async fn a_refused_request_does_not_use_up_its_idempotency_key() {
    let cloud = frozen().await;
    cloud.behave(|behaviour| behaviour.limits.servers = Some(0));
    let client = Client::of(&cloud).with("idempotency-key", "key-1");
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 403);
    cloud.behave(|behaviour| behaviour.limits.servers = None);
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 201);
}

#[tokio::test]
async fn names_are_unique_only_if_the_cloud_says_so() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = client.post("/v1/servers", server("one")).await.text("/server/id");
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 201);
    cloud.behave(|behaviour| behaviour.unique_names = true);
    let refused = client.post("/v1/servers", server("one")).await;
    assert_eq!((refused.status, refused.code()), (409, "uniqueness_error".into()));
    cloud.reset();
    cloud.behave(|behaviour| behaviour.unique_names = true);
    client.post("/v1/servers", server("one")).await;
    client.delete(&format!("/v1/servers/{id}")).await;
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 409, "until the old one is gone");
    advance(&cloud, 50);
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 201);
}

#[tokio::test]
async fn ids_are_reused_only_if_the_cloud_says_so_and_then_belong_to_a_stranger() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let first = client.post("/v1/servers", server("one")).await;
    let id = first.text("/server/id");
    client.delete(&format!("/v1/servers/{id}")).await;
    advance(&cloud, 50);
    assert_ne!(client.post("/v1/servers", server("two")).await.text("/server/id"), id);
    cloud.behave(|behaviour| behaviour.reuse_ids = true);
    let stranger = client.post("/v1/servers", server("three")).await;
    assert_eq!(stranger.text("/server/id"), id);
    assert_ne!(
        stranger.text("/server/created_at"),
        first.text("/server/created_at"),
        "the incarnation differs (A29)"
    );
}

#[tokio::test]
async fn quota_and_capacity_refuse_with_the_status_and_code_that_the_cloud_uses() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let one = Capacity { zone: Some("zone-a".into()), kind: Some("small".into()), max: 1, until_ms: None };
    for status in [409, 412, 500, 503] {
        cloud.reset();
        cloud.behave(|behaviour| {
            behaviour.limits.capacity = vec![one.clone()];
            behaviour.limits.capacity_status = status;
        });
        let id = client.post("/v1/servers", server("one")).await.text("/server/id");
        let full = client.post("/v1/servers", server("two")).await;
        assert_eq!((full.status, full.code()), (status, "no_capacity".into()));
        let mut elsewhere = server("three");
        elsewhere["zone"] = json!("zone-b");
        assert_eq!(client.post("/v1/servers", elsewhere).await.status, 201);
        client.delete(&format!("/v1/servers/{id}")).await;
        assert_eq!(client.post("/v1/servers", server("four")).await.status, 201, "a delete gives room back");
    }
    cloud.behave(|behaviour| behaviour.limits.servers = Some(2));
    let quota = client.post("/v1/servers", server("five")).await;
    assert_eq!((quota.status, quota.code()), (403, "quota_exceeded".into()));
}

#[tokio::test]
async fn capacity_changes_with_time() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let now = cloud.clock(Default::default());
    cloud.behave(|behaviour| {
        behaviour.limits.capacity =
            vec![Capacity { max: 0, until_ms: Some(now + 1000), ..Capacity::default() }];
    });
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 412);
    advance(&cloud, 1000);
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 201);
}

#[tokio::test]
async fn images_that_do_not_exist_and_first_boot_data_that_does_not_fit_are_refused_before_any_effect() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.behave(|behaviour| {
        behaviour.images = Some(vec!["image-1".into()]);
        behaviour.user_data.limit = 16;
        behaviour.user_data.base64 = true;
    });
    let body = |image: &str, data: &str| json!({ "name": "one", "image": image, "user_data": data });
    for (image, data, code) in [
        ("image-2", "", "image_not_found"),
        ("image-1", "c2V2ZW50ZWVuIGJ5dGVz", "user_data_too_long"),
        ("image-1", "not base64!", "user_data_encoding"),
    ] {
        assert_eq!(client.post("/v1/servers", body(image, data)).await.code(), code);
    }
    assert_eq!(client.post("/v1/servers", body("image-1", "aGVsbG8=")).await.status, 201);
    let ledger = cloud.ledger();
    let digest = ring::digest::digest(&ring::digest::SHA256, b"hello");
    let digest = data_encoding::HEXLOWER.encode(digest.as_ref());
    assert_eq!(ledger.effects.len(), 1);
    assert_eq!(ledger.effects[0].user_data_decoded_sha256, Some(digest), "decoded exactly once (J09)");
}

#[tokio::test]
async fn the_rate_limit_is_shared_with_others_and_says_when_to_come_back_in_both_forms() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let rate = Rate { requests: 10, window_ms: 60_000, ..Rate::default() };
    cloud.behave(|behaviour| behaviour.rate = Some(rate.clone()));
    assert_eq!(client.get("/v1/types").await.header("ratelimit-remaining"), "9");
    cloud.noise(8);
    let last = client.get("/v1/types").await;
    assert_eq!((last.status, last.header("ratelimit-remaining")), (200, "0"));
    assert_eq!(last.header("ratelimit-limit"), "10");
    let now_s = cloud.clock(Default::default()) / 1000;
    let reset: i64 = last.header("ratelimit-reset").parse().unwrap();
    assert!((60..=61).contains(&(reset - now_s)));
    let refused = client.get("/v1/types").await;
    assert_eq!((refused.status, refused.code()), (429, "rate_limited".into()));
    assert_eq!(refused.header("retry-after"), "60");

    cloud.behave(|behaviour| {
        behaviour.rate = Some(Rate { retry_after: RetryAfter::Date, reset_unix: false, ..rate.clone() });
    });
    let refused = client.get("/v1/types").await;
    assert_eq!(refused.header("ratelimit-reset"), "60");
    assert!(refused.header("retry-after").ends_with(" GMT"));
    assert_eq!(cloud.ledger().auth.throttled, 2);
    advance(&cloud, 60_000);
    assert_eq!(client.get("/v1/types").await.status, 200);
}

#[tokio::test]
async fn a_token_is_rotated_with_a_window_in_which_both_are_valid() {
    let cloud = frozen().await;
    let old = Client::of(&cloud);
    let new = old.with("authorization", "Bearer second-token");
    assert_eq!(new.get("/v1/types").await.status, 401);
    let change = AuthChange {
        token: Some("second-token".into()),
        end_others_in_ms: Some(1000),
        ..AuthChange::default()
    };
    cloud.auth(change);
    assert_eq!([old.get("/v1/types").await.status, new.get("/v1/types").await.status], [200, 200]);
    advance(&cloud, 1000);
    assert_eq!([old.get("/v1/types").await.status, new.get("/v1/types").await.status], [401, 200]);
}

#[tokio::test]
async fn failed_authentications_are_counted_and_lock_everybody_out_for_a_time() {
    let cloud = frozen().await;
    let good = Client::of(&cloud);
    let bad = good.with("authorization", "Bearer wrong");
    cloud.behave(|behaviour| behaviour.lockout = Some(Lockout { after: 3, for_ms: 1000 }));
    for _ in 0..3 {
        assert_eq!(bad.get("/v1/types").await.code(), "unauthorized");
    }
    assert_eq!(good.get("/v1/types").await.code(), "account_locked");
    let auth = cloud.ledger().auth;
    assert_eq!((auth.failed, auth.lockouts, auth.refused_while_locked), (3, 1, 1));
    advance(&cloud, 1000);
    assert_eq!(good.get("/v1/types").await.status, 200);
}

async fn login(cloud: &Cloud, client: &Client) -> common::Answer {
    let (user, password) = cloud.login();
    client.post("/v1/sessions", json!({ "user": user, "password": password })).await
}

#[tokio::test]
async fn sessions_take_slots_give_them_back_and_end() {
    let cloud = frozen().await;
    let client = Client::of(&cloud).with("authorization", "none");
    cloud.behave(|behaviour| {
        behaviour.sessions.slots = 1;
        behaviour.sessions.life_ms = Some(1000);
    });
    let wrong = client.post("/v1/sessions", json!({ "user": "operator", "password": "no" })).await;
    assert_eq!(wrong.status, 401);
    let first = login(&cloud, &client).await;
    assert_eq!(first.status, 201);
    assert_eq!(login(&cloud, &client).await.code(), "session_limit_exceeded");
    let inside = client.with("x-session-token", first.header("x-session-token"));
    assert_eq!(inside.get("/v1/types").await.status, 200);
    assert_eq!(cloud.ledger().sessions.len(), 1);
    assert_eq!(inside.delete(first.header("location")).await.status, 204);
    assert_eq!(inside.get("/v1/types").await.status, 401);
    assert!(cloud.ledger().sessions.is_empty(), "none leaked");

    let second = login(&cloud, &client).await;
    let inside = client.with("x-session-token", second.header("x-session-token"));
    advance(&cloud, 1000);
    assert_eq!(inside.get("/v1/types").await.status, 401, "its life is over");
    login(&cloud, &client).await;
    cloud.auth(AuthChange { end_sessions: true, ..AuthChange::default() });
    let auth = cloud.ledger().auth;
    assert_eq!((auth.sessions_opened, auth.sessions_closed), (3, 3));
}

#[tokio::test]
async fn the_date_header_goes_wrong_by_as_much_as_it_is_told() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let read = |answer: &common::Answer| {
        let parser = jiff::fmt::rfc2822::DateTimeParser::new();
        parser.parse_timestamp(answer.header("date")).unwrap().as_second()
    };
    let right = read(&client.get("/v1/types").await);
    assert_eq!(right, cloud.clock(Default::default()) / 1000);
    cloud.behave(|behaviour| behaviour.date_offset_ms = -3_600_000);
    assert_eq!(read(&client.get("/v1/types").await), right - 3600);
}

#[tokio::test]
async fn pages_are_small_short_and_end_in_every_way() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    for name in ["a", "b", "c"] {
        cloud.seed_server(Seed::named(name)).unwrap();
    }
    cloud.behave(|behaviour| behaviour.paging.force_size = Some(2));
    let first = client.get("/v1/servers?per_page=50").await;
    assert_eq!((seen(&first), first.at("/meta/pagination/next_page")), (2, json!(2)));
    for (last, expected) in [
        (LastPage::Null, Some(Value::Null)),
        (LastPage::Empty, Some(json!(""))),
        (LastPage::Absent, None),
        (LastPage::Repeat, Some(json!(2))),
    ] {
        cloud.behave(|behaviour| behaviour.paging.last = last);
        let page = client.get("/v1/servers?page=2").await;
        assert_eq!(seen(&page), 1);
        assert_eq!(page.json().pointer("/meta/pagination/next_page"), expected.as_ref(), "{last:?}");
    }
    cloud.behave(|behaviour| {
        behaviour.paging = Default::default();
        behaviour.paging.short_pages = true;
        behaviour.paging.force_size = Some(1);
    });
    let mut counts = Vec::new();
    let mut page = 1;
    loop {
        let answer = client.get(&format!("/v1/servers?page={page}")).await;
        counts.push(seen(&answer));
        match answer.at("/meta/pagination/next_page").as_i64() {
            Some(next) => page = next,
            None => break,
        }
    }
    assert_eq!(counts, [1, 0, 1, 0, 1], "a page without servers names a next one (L02)");
}

#[tokio::test]
async fn a_cloud_that_is_offline_resets_new_and_old_connections() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let mut sender = client.connect().await.unwrap();
    assert_eq!(client.send_on(&mut sender, "GET", "/v1/types", Vec::new()).await.unwrap().status, 200);
    cloud.behave(|behaviour| behaviour.offline = true);
    assert!(client.send_on(&mut sender, "GET", "/v1/types", Vec::new()).await.is_err());
    assert!(client.connect().await.is_err());
    cloud.behave(|behaviour: &mut Behaviour| behaviour.offline = false);
    assert_eq!(client.get("/v1/types").await.status, 200);
}
