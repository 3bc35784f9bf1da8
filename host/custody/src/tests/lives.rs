//! How long sessions and connections live: longer than a deposit of their bytes, and no longer than the bytes are good.

use super::sessions::{count, sessions};
use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

async fn world(options: Options) -> (World, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    (World::with(options, sessions(Arc::default(), made.clone())).await, made)
}

/// A call with other credentials than the world's own.
async fn system(world: &World, credentials: CredentialsId) -> Answer {
    let mut exchange = world.exchange("system", json!({"id": "s1"}));
    exchange.credentials = Some(credentials);
    world.send(exchange).await
}

/// Other bytes of the same account.
fn others(world: &World) -> CredentialsId {
    world.custody.deposit_credentials(deposit(&world.revision, "another-token-2")).unwrap()
}

async fn until(what: impl Fn() -> bool) {
    let waited = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), waited).await.unwrap();
}

#[tokio::test]
async fn a_gap_between_two_deposits_of_the_same_bytes_costs_neither_a_login_nor_a_connection_n08() {
    let (world, made) = world(Options::default()).await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    world.custody.revoke_credentials(world.credentials);
    assert!(
        world.custody.prepare(world.exchange("system", json!({"id": "s1"}))).is_err(),
        "nobody holds them"
    );
    let again = world.custody.deposit_credentials(deposit(&world.revision, TOKEN)).unwrap();
    assert_ne!(again, world.credentials);
    fields(&system(&world, again).await);
    assert_eq!((made.load(Ordering::SeqCst), count(&world, "DELETE")), (1, 0));
    assert_eq!(world.service.connected(), 1);
}

/// Field case K02.
#[tokio::test]
async fn other_bytes_of_an_account_log_out_of_the_former_session_before_they_log_in() {
    let (world, made) = world(Options::default()).await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    let new = others(&world);
    fields(&system(&world, new).await);
    let targets = world.service.targets();
    let expected =
        ["POST /sessions", "GET /systems/s1", "DELETE /sessions/1", "POST /sessions", "GET /systems/s1"];
    assert_eq!(targets, expected);
    assert_eq!(made.load(Ordering::SeqCst), 2);
    let used = world.service.heard();
    assert_ne!(used[1].connection, used[4].connection, "no connection of the former bytes is used again");
}

#[tokio::test]
async fn other_bytes_end_the_former_session_also_when_nobody_calls() {
    let (world, _) = world(Options::default()).await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    others(&world);
    until(|| count(&world, "DELETE /sessions/1") == 1).await;
}

/// Its callback began before the rotation: one more attempt with the former bytes could lock the account.
#[tokio::test]
async fn a_late_call_with_the_former_bytes_sends_nothing_and_leaves_the_new_session_alone() {
    let (world, made) = world(Options::default()).await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    let new = others(&world);
    fields(&system(&world, new).await);
    let late = world.call("system", json!({"id": "s1"})).await;
    let refused = refusal(&late.verdict);
    assert_eq!((refused.code.as_str(), refused.reason.as_str()), ("unavailable", "CredentialsReplaced"));
    assert!(!late.sent && matches!(late.verdict, Verdict::Rejected(_)));
    fields(&system(&world, new).await);
    assert_eq!((made.load(Ordering::SeqCst), count(&world, "DELETE")), (2, 1));
    // A person may have meant the former ones after all.
    let back = world.custody.deposit_credentials(deposit(&world.revision, TOKEN)).unwrap();
    fields(&system(&world, back).await);
}

#[tokio::test]
async fn a_session_that_nobody_uses_is_logged_out_of_and_the_next_call_makes_another() {
    let (world, made) =
        world(Options { session_idle: Duration::from_millis(50), ..Options::default() }).await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    until(|| count(&world, "DELETE /sessions/1") == 1).await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    assert_eq!(made.load(Ordering::SeqCst), 2);
    until(|| count(&world, "DELETE /sessions/2") == 1).await;
}

/// Revoked credentials and captures stay in memory as long as a session needs them to log out.
#[tokio::test]
async fn what_a_session_holds_is_watched_for_until_it_ends_attacks_3_and_48() {
    let (world, _) = world(Options { grace: Duration::ZERO, ..Options::default() }).await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    world.custody.revoke_credentials(world.credentials);
    let leaks = |text: &str| world.custody.scan("cloud", Place::Log, text).is_err();
    assert!(leaks("session-token-1") && leaks("correct horse battery"));
    world.custody.shutdown().await;
    until(|| !leaks("session-token-1") && !leaks("correct horse battery")).await;
}

/// Those who wait behind a login when the revision is withdrawn must not make another session that nobody ends.
#[tokio::test]
async fn calls_that_wait_while_their_revision_is_withdrawn_leave_no_session_behind_n08() {
    let (logins, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (inner, notify) = (sessions(Arc::default(), logins.clone()), gate.clone());
    let world = World::new(move |heard| {
        if heard.target == "/sessions" {
            notify.notify_one();
        }
        inner(heard)
    })
    .await;
    let call = || {
        let prepared = world.custody.prepare(world.exchange("system", json!({"id": "s1"}))).unwrap();
        let custody = world.custody.clone();
        tokio::spawn(async move { custody.send(prepared).await })
    };
    let calls: Vec<_> = (0..10).map(|_| call()).collect();
    let late = world.custody.prepare(world.exchange("system", json!({"id": "s1"}))).unwrap();
    gate.notified().await;
    world.custody.unregister(&world.revision);
    for call in calls {
        call.await.unwrap();
    }
    let late = world.custody.send(late).await;
    assert_eq!(refusal(&late.verdict).reason, "RevisionNotRegistered");
    assert!(!late.sent);
    until(|| count(&world, "DELETE /sessions/") == logins.load(Ordering::SeqCst)).await;
}

/// A daemon that stops withdraws its modules first; their logouts must not be cut off by its end.
#[tokio::test]
async fn a_shutdown_waits_for_logouts_that_are_on_their_way_n08() {
    for rotated in [false, true] {
        let (world, _) = world(Options::default()).await;
        fields(&world.call("system", json!({"id": "s1"})).await);
        if rotated {
            others(&world);
        } else {
            world.custody.unregister(&world.revision);
        }
        world.custody.shutdown().await;
        assert_eq!(count(&world, "DELETE /sessions/1"), 1, "rotated: {rotated}");
    }
}

#[tokio::test]
async fn a_withdrawn_revision_ends_its_sessions_at_once() {
    let (world, _) = world(Options::default()).await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    world.custody.unregister(&world.revision);
    until(|| count(&world, "DELETE /sessions/1") == 1).await;
}
