//! Logins run by the host: one session per account, none leaked, and no lock-out storm.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A service with sessions: `valid` is the number of the session that it takes.
pub(super) fn sessions(
    valid: Arc<AtomicUsize>,
    made: Arc<AtomicUsize>,
) -> impl Fn(&Heard) -> Says + Send + Sync + 'static {
    move |heard| match (heard.method.as_str(), heard.target.as_str()) {
        ("POST", "/sessions") => {
            let number = made.fetch_add(1, Ordering::SeqCst) + 1;
            valid.store(number, Ordering::SeqCst);
            let headers = format!(
                "x-auth-token: session-token-{number}\r\nlocation: /sessions/{number}\r\ncontent-type: application/json\r\n"
            );
            Says::with(201, &headers, "{}")
        }
        ("DELETE", _) => Says::with(204, "", ""),
        (method, _) => {
            let expected = format!("session-token-{}", valid.load(Ordering::SeqCst));
            match (heard.header("x-auth-token") == Some(&expected), method) {
                (true, "GET") => Says::json(200, r#"{"state": "on"}"#),
                (true, _) => Says::with(200, "", ""),
                (false, _) => Says::json(401, "{}"),
            }
        }
    }
}

async fn world() -> (World, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (valid, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    (World::new(sessions(valid.clone(), made.clone())).await, valid, made)
}

pub(super) fn count(world: &World, what: &str) -> usize {
    world.service.targets().iter().filter(|target| target.starts_with(what)).count()
}

#[tokio::test]
async fn many_calls_share_one_login_and_shutdown_logs_out() {
    let (world, _, made) = world().await;
    let calls = (0..10).map(|_| world.call("system", json!({"id": "s1"})));
    for answer in futures_all(calls).await {
        assert_eq!(fields(&answer), json!({"state": "on"}));
        assert_eq!(answer.binding, "login-api/lab");
    }
    assert_eq!(made.load(Ordering::SeqCst), 1);
    assert!(
        world.custody.scan("cloud", Place::Log, "session-token-1").is_err(),
        "a captured token is a secret (attack 48)"
    );
    world.custody.shutdown().await;
    assert_eq!(count(&world, "DELETE /sessions/1"), 1);
    let answer = world.call("system", json!({"id": "s1"})).await;
    assert_eq!(refusal(&answer.verdict).reason, "ShuttingDown");
    assert!(!answer.sent);
}

async fn futures_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(output) => {
                done.push(output);
                false
            }
            std::task::Poll::Pending => true,
        });
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

/// Field cases D01, D02 and K04.
#[tokio::test]
async fn a_stale_session_is_logged_out_replaced_once_and_the_call_made_again() {
    let (world, valid, made) = world().await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    valid.store(99, Ordering::SeqCst);
    let answer = world.call("stop", json!({"id": "s1"})).await;
    assert!(matches!(answer.verdict, Verdict::Fits(_)), "{answer:?}");
    assert_eq!(made.load(Ordering::SeqCst), 2);
    assert_eq!(count(&world, "DELETE /sessions/1"), 1, "logged out before it was replaced");
    assert_eq!(count(&world, "POST /systems/s1/stop"), 2, "refused for good, then done");
}

#[tokio::test]
async fn a_service_that_refuses_fresh_sessions_is_left_alone_for_a_while() {
    let world = World::new(|heard| match (heard.method.as_str(), heard.target.as_str()) {
        ("POST", "/sessions") => Says::with(
            201,
            "x-auth-token: session-token-x\r\nlocation: /sessions/x\r\ncontent-type: application/json\r\n",
            "{}",
        ),
        ("DELETE", _) => Says::with(204, "", ""),
        _ => Says::json(401, "{}"),
    })
    .await;
    let answer = world.call("system", json!({"id": "s1"})).await;
    assert_eq!(refusal(&answer.verdict).code, "unauthenticated");
    assert!(refusal(&answer.verdict).retry_after_ms.unwrap() > 4000);
    let logins = count(&world, "POST /sessions");
    let answer = world.call("system", json!({"id": "s1"})).await;
    assert_eq!(refusal(&answer.verdict).reason, "AuthenticationHeldBack");
    assert_eq!(count(&world, "POST /sessions"), logins);
    assert_eq!(count(&world, "DELETE"), logins, "no session was leaked");
}

#[tokio::test]
async fn wrong_credentials_make_one_login_however_many_operations_wait() {
    let world = World::new(|_| Says::json(401, "{}")).await;
    let calls = (0..20).map(|_| world.call("system", json!({"id": "s1"})));
    for answer in futures_all(calls).await {
        assert_eq!(refusal(&answer.verdict).code, "unauthenticated");
        assert!(refusal(&answer.verdict).retry_after_ms.is_some());
        assert!(!answer.sent, "logins don't count");
    }
    assert_eq!(world.service.heard().len(), 1);
}

#[tokio::test]
async fn wrong_tokens_make_one_attempt_however_many_operations_wait() {
    let world = World::new(|_| Says::json(401, "{}")).await;
    let calls = (0..20).map(|_| world.call("server", json!({"id": "s1"})));
    let answers = futures_all(calls).await;
    assert!(answers.iter().all(|answer| refusal(&answer.verdict).code == "unauthenticated"));
    assert_eq!(answers.iter().filter(|answer| answer.sent).count(), 1);
    assert_eq!(world.service.heard().len(), 1);
    // New bytes of the same account are another matter.
    let id = world.custody.deposit_credentials(deposit(&world.revision, "corrected-token")).unwrap();
    let mut exchange = world.exchange("server", json!({"id": "s1"}));
    exchange.credentials = Some(id);
    assert!(world.send(exchange).await.sent);
}

#[tokio::test]
async fn a_login_reply_without_its_captures_makes_no_session_and_tells_nothing_attack_47() {
    let replies = [
        Says::json(201, r#"{"token": "hidden-in-body-1"}"#),
        Says::with(200, "x-auth-token: session-token-1\r\nlocation: /sessions/1\r\n", ""),
        Says::with(201, "x-auth-token: session-token-1\r\n", ""),
        Says::with(201, "x-auth-token: session-token-1\r\nx-auth-token: two\r\nlocation: /s\r\n", ""),
        Says::with(500, "x-auth-token: session-token-1\r\nlocation: /sessions/1\r\n", ""),
        Says::with(201, "content-encoding: gzip\r\nx-auth-token: session-token-1\r\nlocation: /s\r\n", ""),
    ];
    for reply in replies {
        let Says::Bytes(bytes) = reply else { continue };
        let world = World::new(move |_| Says::Bytes(bytes.clone())).await;
        let answer = world.call("system", json!({"id": "s1"})).await;
        assert!(matches!(answer.verdict, Verdict::Rejected(_)), "nothing happened");
        assert!(!answer.sent);
        assert!(!format!("{answer:?}").contains("token-1") && !format!("{answer:?}").contains("hidden"));
        assert_eq!(count(&world, "GET"), 0);
    }
}

#[tokio::test]
async fn a_caller_who_gives_up_does_not_leak_the_session_that_is_being_made() {
    let slow = Arc::new(AtomicBool::new(true));
    let gate = Arc::new(tokio::sync::Notify::new());
    let (valid, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let inner = sessions(valid, made.clone());
    let (waits, notify) = (slow.clone(), gate.clone());
    let world = World::new(move |heard| {
        if heard.target == "/sessions" && waits.load(Ordering::SeqCst) {
            notify.notify_one();
        }
        inner(heard)
    })
    .await;
    let prepared = world.custody.prepare(world.exchange("system", json!({"id": "s1"}))).unwrap();
    tokio::select! {
        biased;
        () = gate.notified() => {}
        answer = world.custody.send(prepared) => panic!("{answer:?}"),
    }
    // The caller is gone; the login goes on in its own task and its session is there for the next.
    fields(&world.call("system", json!({"id": "s1"})).await);
    assert_eq!(made.load(Ordering::SeqCst), 1);
    world.custody.shutdown().await;
    assert_eq!(count(&world, "DELETE /sessions/1"), 1);
}

#[tokio::test]
async fn a_logout_never_leaves_its_origin_attack_27() {
    let elsewhere = World::new(|_| Says::Hang).await;
    let target = format!("https://127.0.0.1:{}/sessions/1", elsewhere.service.port);
    let world = World::new(move |heard| match heard.method.as_str() {
        "POST" => Says::with(201, &format!("x-auth-token: session-token-1\r\nlocation: {target}\r\n"), ""),
        _ => Says::json(200, r#"{"state": "on"}"#),
    })
    .await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    world.custody.shutdown().await;
    assert_eq!(elsewhere.service.connected(), 0);
}

/// Field case D02.
#[tokio::test]
async fn a_session_is_logged_out_when_its_life_is_over() {
    let (valid, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let world = World::new(sessions(valid, made.clone())).await;
    let text = CLOUD.replace("life = \"25m\"", "life = \"1s\"");
    world
        .custody
        .register(world.revision.clone(), manifest(&text), world.service.grants(&["login-api"]))
        .unwrap();
    fields(&world.call("system", json!({"id": "s1"})).await);
    while count(&world, "DELETE /sessions/1") == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    fields(&world.call("system", json!({"id": "s1"})).await);
    assert_eq!(made.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_life_that_the_reply_tells_is_read_and_its_lack_makes_no_session_attack_47() {
    let told = |body: &'static str| async move {
        let world = World::new(move |heard| match heard.method.as_str() {
            "POST" => Says::with(
                201,
                "x-auth-token: session-token-1\r\nlocation: /sessions/1\r\ncontent-type: application/json\r\n",
                body,
            ),
            "DELETE" => Says::with(204, "", ""),
            _ => Says::json(200, r#"{"state": "on"}"#),
        })
        .await;
        let text = CLOUD.replace("life = \"25m\"", "life = { at = \"json:/expires\", less = \"60s\" }");
        let grants = world.service.grants(&["login-api"]);
        world.custody.register(world.revision.clone(), manifest(&text), grants).unwrap();
        let answers = [
            world.call("system", json!({"id": "s1"})).await,
            world.call("system", json!({"id": "s1"})).await,
        ];
        let fits = answers.iter().all(|answer| matches!(answer.verdict, Verdict::Fits(_)));
        (fits, count(&world, "POST"), count(&world, "DELETE"))
    };
    assert_eq!(told(r#"{"expires": 3600}"#).await, (true, 1, 0));
    assert_eq!(told(r#"{"expires": "2999-01-01T00:00:00Z"}"#).await, (true, 1, 0));
    // What the service may have made is ended.
    assert_eq!(told(r#"{"expires": "soon"}"#).await, (false, 2, 2));
    assert_eq!(told("{}").await, (false, 2, 2));
}

#[tokio::test]
async fn a_refused_mutation_whose_repeat_never_left_is_refused_not_in_doubt() {
    let logins = Arc::new(AtomicUsize::new(0));
    let counter = logins.clone();
    let world = World::new(move |heard| match (heard.method.as_str(), heard.target.as_str()) {
        ("POST", "/sessions") if counter.fetch_add(1, Ordering::SeqCst) == 0 => {
            Says::with(201, "x-auth-token: session-token-1\r\nlocation: /sessions/1\r\n", "")
        }
        ("POST", "/sessions") => Says::json(503, "{}"),
        ("GET", _) => Says::json(200, r#"{"state": "on"}"#),
        ("DELETE", _) => Says::with(204, "", ""),
        _ => Says::json(401, "{}"),
    })
    .await;
    fields(&world.call("system", json!({"id": "s1"})).await);
    let answer = world.call("stop", json!({"id": "s1"})).await;
    assert!(answer.sent, "the refused attempt left");
    assert!(
        matches!(&answer.verdict, Verdict::Rejected(refused) if refused.reason == "LoginFailed"),
        "{answer:?}"
    );
}

/// A service with two captures in its login replies; other machines answer with ordinary text.
async fn answers_login_with(token: String, location: String) -> World {
    World::new(move |heard| match (heard.method.as_str(), heard.target.as_str()) {
        ("POST", "/sessions") => {
            Says::with(201, &format!("x-auth-token: {token}\r\nlocation: {location}\r\n"), "")
        }
        ("DELETE", _) => Says::with(204, "", ""),
        _ => Says::json(200, r#"{"state": "on", "note": "the machine next door"}"#),
    })
    .await
}

#[tokio::test]
async fn a_login_that_answers_with_a_one_letter_token_harms_no_other_machine() {
    let world = answers_login_with("e".into(), "/sessions/1".into()).await;
    let answer = world.call("system", json!({"id": "s1"})).await;
    assert_eq!(refusal(&answer.verdict).reason, "LoginReplyDoesNotFit", "attack 47");
    assert!(!answer.sent);
    // Every other machine of the provider goes on, and so do its logs: nothing of that reply is watched for.
    let other = world.call("server", json!({"id": "s2"})).await;
    assert_eq!(fields(&other)["note"], "the machine next door");
    for text in ["one more step", "/sessions/1"] {
        assert_eq!(world.custody.scan("cloud", Place::Log, text), Ok(()), "attack 47");
    }
    assert_eq!(world.caught(), 0);
    assert_eq!(count(&world, "GET /systems"), 0);
    world.custody.shutdown().await;
    assert_eq!(count(&world, "DELETE"), 0, "no session was kept");
}

#[tokio::test]
async fn a_login_keeps_only_captures_of_8_to_8192_bytes_attack_47() {
    let self_ = || "/sessions/1".to_owned();
    let token = |length: usize| "0123456789abcdef".repeat(600)[..length].to_owned();
    let cases = [
        (token(7), self_(), false),
        (token(8), self_(), true),
        (token(8192), self_(), true),
        (token(8193), self_(), false),
        (token(20), "/s".into(), false),
        (token(20), format!("/{}", "s".repeat(8192)), false),
    ];
    for (token, location, fits) in cases {
        let lengths = (token.len(), location.len());
        let world = answers_login_with(token.clone(), location).await;
        let answer = world.call("system", json!({"id": "s1"})).await;
        assert_eq!(matches!(answer.verdict, Verdict::Fits(_)), fits, "{lengths:?} {answer:?}");
        assert_eq!(world.custody.scan("cloud", Place::Log, &token).is_err(), fits, "{lengths:?}");
        if !fits {
            assert_eq!(refusal(&answer.verdict).reason, "LoginReplyDoesNotFit");
            assert!(!format!("{answer:?}").contains(&token));
        }
    }
}

#[tokio::test]
async fn a_refused_login_with_an_odd_token_is_still_refused_for_good_and_watches_nothing_attack_47() {
    let world = World::new(|_| Says::with(401, "x-auth-token: e\r\nlocation: /sessions/1\r\n", "")).await;
    let answer = world.call("system", json!({"id": "s1"})).await;
    assert_eq!(refusal(&answer.verdict).reason, "LoginRefused", "no lock-out storm");
    assert_eq!(world.custody.scan("cloud", Place::Log, "one more step"), Ok(()));
}
