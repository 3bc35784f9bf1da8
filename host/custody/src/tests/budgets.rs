//! Budgets against a real service: what is turned away never leaves, and all modules share what one has learnt.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn on() -> Says {
    Says::json(200, r#"{"state": "on"}"#)
}

/// A service that throttles with these words once, and is fine from then on.
async fn throttling(status: u16, headers: &'static str, body: &'static str) -> World {
    let first = AtomicBool::new(true);
    World::new(move |_| match first.swap(false, Ordering::SeqCst) {
        true => Says::with(status, &format!("content-type: application/json\r\n{headers}"), body),
        false => on(),
    })
    .await
}

/// Field case G07.
#[tokio::test]
async fn a_service_that_asks_for_fewer_requests_gets_none_until_its_time_g08_and_g09() {
    let date = "date: Fri, 02 Jan 2026 03:04:05 GMT\r\nretry-after: Fri, 02 Jan 2026 04:04:05 GMT\r\n";
    for (status, headers) in [(429, "retry-after: 3600\r\n"), (503, "retry-after: 3600\r\n"), (429, date)] {
        let world = throttling(status, headers, "{}").await;
        let asked = world.call("server", json!({"id": "s1"})).await;
        assert_eq!(refusal(&asked.verdict).retry_after_ms, Some(3_600_000), "{status}");
        for create in [false, true] {
            let exchange =
                if create { world.create() } else { world.exchange("server", json!({"id": "s1"})) };
            let held = world.send(exchange).await;
            // Nothing happened, for sure: never in doubt.
            assert!(!held.sent && matches!(held.verdict, Verdict::Rejected(_)), "{held:?}");
            let refused = refusal(&held.verdict);
            assert_eq!((refused.code.as_str(), refused.reason.as_str()), ("throttled", "ServiceThrottles"));
            assert!(refused.retry_after_ms.is_some_and(|wait| wait > 3_000_000), "{refused:?}");
        }
        assert_eq!(world.service.heard().len(), 1, "{status}");
        let view = world.custody.budgets().remove(0);
        assert_eq!((view.sent, view.throttled, view.refused), (1, 1, 2));
        assert!(view.throttled_until.is_some());
    }
}

#[tokio::test]
async fn an_error_word_that_the_manifest_maps_to_throttled_counts_as_such_g08() {
    let body = r#"{"error": {"code": "slow_down"}}"#;
    let world = throttling(403, "retry-after: 3600\r\n", body).await;
    let text = CLOUD.replace("locked = \"conflict\"", "locked = \"conflict\", slow_down = \"throttled\"");
    world.custody.register(world.revision.clone(), manifest(&text), world.service.grants(&["api"])).unwrap();
    let asked = world.call("server", json!({"id": "s1"})).await;
    assert_eq!(refusal(&asked.verdict).code, "throttled");
    assert!(!world.call("server", json!({"id": "s1"})).await.sent);
    assert_eq!(world.service.heard().len(), 1);
}

#[tokio::test]
async fn a_declared_rate_is_learnt_from_every_answer_and_shown_g01() {
    let left = AtomicUsize::new(3);
    let world = World::new(move |_| {
        let left = left.fetch_sub(1, Ordering::SeqCst) - 1;
        let headers = format!("content-type: application/json\r\nx-left: {left}\r\nx-reset: 3600\r\n");
        Says::with(200, &headers, r#"{"state": "on"}"#)
    })
    .await;
    let text = CLOUD.replace(
        "error-code = \"json:/error/code\"",
        "error-code = \"json:/error/code\"\nthrottle = { remaining = \"x-left\", reset = \"x-reset\" }",
    );
    world.custody.register(world.revision.clone(), manifest(&text), world.service.grants(&["api"])).unwrap();
    fields(&world.call("server", json!({"id": "s1"})).await);
    assert_eq!(world.custody.budgets()[0].remaining, Some(2));
    for _ in 0..2 {
        let change = world.send(world.create()).await;
        assert!(change.sent, "a change need not save: {change:?}");
    }
    assert_eq!(world.custody.budgets()[0].remaining, Some(0));
    let held = world.send(world.create()).await;
    assert!(!held.sent, "the service would only refuse it");
    assert!(refusal(&held.verdict).retry_after_ms.is_some_and(|wait| wait > 3_000_000));
}

#[tokio::test]
async fn modules_share_the_budget_of_an_account_and_other_accounts_have_their_own_g01_and_g02() {
    let world = throttling(429, "retry-after: 3600\r\n", "{}").await;
    let other = Revision("cloud@2".into());
    world.custody.register(other.clone(), manifest(CLOUD), world.service.grants(&["api", "open"])).unwrap();
    assert!(world.call("server", json!({"id": "s1"})).await.sent);
    let mut exchange = world.exchange("server", json!({"id": "s1"}));
    exchange.revision = other.clone();
    assert!(!world.send(exchange.clone()).await.sent, "the same account by another module");
    let mut account = deposit(&other, "another-token-2");
    account.account = "uid-2".into();
    exchange.credentials = Some(world.custody.deposit_credentials(account).unwrap());
    assert!(world.send(exchange).await.sent, "another account at the same origin");
    assert!(world.call("public", json!({})).await.sent, "nobody's account at the same origin");
    let views = world.custody.budgets();
    let shown: Vec<_> = views.iter().map(|view| (view.account.as_str(), view.name.as_str())).collect();
    assert_eq!(shown, [("", ""), ("uid-1", "cloud-account"), ("uid-2", "cloud-account")]);
    let origin = format!("https://127.0.0.1:{}", world.service.port);
    assert!(views.iter().all(|view| view.endpoint == origin && view.in_flight == 0));
    let told = serde_json::to_string(&views).unwrap();
    assert!(!told.contains("another-token") && !told.contains("9Xk2"), "{told}");
}

#[tokio::test]
async fn wrong_credentials_are_tried_once_by_all_modules_together_g11() {
    let world = World::new(|_| Says::json(401, "{}")).await;
    let other = Revision("cloud@2".into());
    world.custody.register(other.clone(), manifest(CLOUD), world.service.grants(&["api"])).unwrap();
    let mut exchange = world.exchange("server", json!({"id": "s1"}));
    assert!(world.send(exchange.clone()).await.sent);
    exchange.revision = other;
    let held = world.send(exchange).await;
    assert_eq!(refusal(&held.verdict).reason, "AuthenticationHeldBack");
    assert_eq!(world.service.heard().len(), 1);
}

#[tokio::test]
async fn a_login_that_is_throttled_makes_no_attempt_and_is_no_refusal_of_the_credentials_g08_and_g11() {
    let first = AtomicBool::new(true);
    let world = World::new(move |_| match first.swap(false, Ordering::SeqCst) {
        true => Says::with(429, "retry-after: 3600\r\n", ""),
        false => Says::json(401, "{}"),
    })
    .await;
    for attempt in 0..3 {
        let answer = world.call("system", json!({"id": "s1"})).await;
        assert!(!answer.sent);
        assert_eq!(refusal(&answer.verdict).code, "throttled", "{attempt}");
        assert!(refusal(&answer.verdict).retry_after_ms.is_some_and(|wait| wait > 3_000_000));
    }
    assert_eq!(world.service.heard().len(), 1);
}

/// However many callers there are, the service has no more to bear than the window.
#[tokio::test]
async fn no_more_requests_are_under_way_than_the_window_allows_g12() {
    let most = Arc::new(Mutex::new((0usize, BTreeSet::new())));
    let seen = most.clone();
    let world = World::new(move |heard| {
        let mut seen = seen.lock().unwrap();
        seen.0 += 1;
        seen.1.insert(heard.connection);
        on()
    })
    .await;
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let prepared = world.custody.prepare(world.exchange("server", json!({"id": "s1"}))).unwrap();
            let custody = world.custody.clone();
            tokio::spawn(async move { custody.send(prepared).await })
        })
        .collect();
    let mut sent = 0;
    for call in calls {
        let answer = call.await.unwrap();
        // On a slow machine some wait for longer than they may.
        assert!(answer.sent || refusal(&answer.verdict).code == "throttled", "{answer:?}");
        sent += usize::from(answer.sent);
    }
    assert_eq!(most.lock().unwrap().0, sent);
    let view = world.custody.budgets().remove(0);
    assert_eq!((view.in_flight, view.waiting, view.sent), (0, 0, sent as u64));
    assert!(
        most.lock().unwrap().1.len() <= view.limit as usize,
        "no more connections than the window was wide"
    );
}
