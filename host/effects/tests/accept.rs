//! What a guest returns, before anybody believes it.

mod kit;

use holdfast_effects::*;
use kit::cloud::{Fault, SECRET};
use kit::*;
use serde_json::json;

fn result(new: Option<&str>, cleanup: Option<&str>) -> OperationResult {
    let own = |text: &str| text.to_owned();
    OperationResult { provider_id: new.map(own), cleanup_provider_id: cleanup.map(own) }
}

fn succeeded(result: OperationResult) -> Returned {
    Returned::Poll(Ok(PollResult {
        state: PollState::Succeeded,
        result: Some(result),
        reason: String::new(),
        message: String::new(),
        requeue_after_ms: None,
    }))
}

fn identities(returned: Returned) -> OperationResult {
    match returned {
        Returned::Execute(Ok(result)) => result,
        Returned::Poll(Ok(poll)) => poll.result.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn failure() -> Failure {
    Failure {
        permanent: true,
        code: "not-found".into(),
        reason: "Gone".into(),
        message: "it is gone".into(),
        native: None,
        retry_after_ms: None,
    }
}

fn begun(id: &str, token: &str) -> Returned {
    Returned::Begin(Ok(BeginResult {
        operation: ProviderOperation { operation_id: id.into(), resume_token: token.into() },
        message: "accepted".into(),
        requeue_after_ms: Some(0),
    }))
}

#[tokio::test]
async fn a_neighbours_identity_returned_as_the_new_one_is_refused_h8() {
    let house = House::new();
    let mut rich = context(Phase::Track);
    // Owned by this machine already, but not made by this operation.
    rich.owned = vec![Owned::new("api/here", "server", "earlier")];
    let session = house.open(rich);
    done(session.perform("create".into(), no_args("make-bare")).await);
    for foreign in
        ["fake://neighbour", "fake://earlier", "other://srv-1", "fake://srv-1/x", "srv-1", "fake://"]
    {
        for returned in
            [succeeded(result(Some(foreign), None)), Returned::Execute(Ok(result(Some(foreign), None)))]
        {
            assert_eq!(session.accept(returned).unwrap_err().reason, "ForeignIdentity", "{foreign}");
        }
    }
    let made = succeeded(result(Some("fake://srv-1"), Some("fake://old")));
    assert_eq!(identities(session.accept(made).unwrap()), result(Some("fake://srv-1"), Some("fake://old")));
}

#[tokio::test]
async fn an_identity_of_another_kind_is_not_this_one_h3() {
    let house = House::new();
    let session = house.act();
    done(session.perform("create".into(), no_args("make-bare")).await);
    let mut effect = house.effect("create");
    effect.created[0].kind = "disk".into();
    house.disk.lock().unwrap().insert("create".into(), effect);
    let returned = succeeded(result(Some("fake://srv-1"), None));
    assert_eq!(session.accept(returned).unwrap_err().reason, "ForeignIdentity");
}

#[tokio::test]
async fn the_current_identity_and_a_blank_one_are_no_change_2e12() {
    let house = House::new();
    let session = house.act();
    for same in [Some("fake://old"), Some(""), Some("  "), None] {
        assert_eq!(identities(session.accept(succeeded(result(same, None))).unwrap()), result(None, None));
    }
}

#[tokio::test]
async fn the_identity_to_clean_up_is_the_old_one_or_owned_and_never_the_new_one_2e13() {
    let house = House::new();
    let session = house.act();
    done(session.perform("create".into(), no_args("make-bare")).await);
    for (new, cleanup) in [
        (Some("fake://srv-1"), "fake://srv-1"),
        (None, "fake://old"),
        (Some("fake://old"), "fake://old"),
        (Some("fake://srv-1"), "fake://neighbour"),
        (None, "nonsense"),
    ] {
        let refused = session.accept(succeeded(result(new, Some(cleanup))));
        assert_eq!(refused.unwrap_err().reason, "ForeignIdentity", "{new:?} {cleanup}");
    }
    // Something half-made may be cleaned up while the machine stays as it is.
    session.accept(succeeded(result(None, Some("fake://srv-1")))).unwrap();
    // Polled again once the new identity is applied: the same result, the same cleanup (R2.9).
    let mut applied = context(Phase::Track);
    applied.provider_id = Some("fake://srv-1".into());
    let again =
        house.open(applied).accept(succeeded(result(Some("fake://srv-1"), Some("fake://old")))).unwrap();
    assert_eq!(identities(again), result(None, Some("fake://old")));
}

#[tokio::test]
async fn success_over_an_effect_in_doubt_is_refused_and_a_failure_is_not() {
    let house = House::new();
    let session = house.act();
    house.cloud.fault(Fault::LostAfter);
    waits(session.perform("kick".into(), call("kick", json!({"id": "old"}))).await);
    assert_eq!(session.in_doubt().len(), 1);
    for returned in
        [succeeded(result(None, None)), Returned::Execute(Ok(result(None, None))), Returned::Cleanup(Ok(()))]
    {
        let violation = session.accept(returned).unwrap_err();
        assert_eq!(violation.reason, "UnsettledEffect");
        assert!(violation.message.contains("kick"));
    }
    session.accept(Returned::Execute(Err(failure()))).unwrap();
    session.accept(begun("handle", "")).unwrap();
    session.accept(Returned::Cancel(Ok(()))).unwrap();
}

#[tokio::test]
async fn a_blank_operation_id_is_a_transient_failure_r2_5() {
    let session = House::new().act();
    for blank in ["", "  ", "\t\n"] {
        let Returned::Begin(Err(failure)) = session.accept(begun(blank, "")).unwrap() else {
            panic!("{blank:?}")
        };
        assert_eq!((failure.reason.as_str(), failure.permanent), ("BlankOperationID", false));
    }
}

#[tokio::test]
async fn a_handle_comes_back_as_it_was_or_not_at_all() {
    let session = House::new().act();
    let token = "ä\u{202e}{}".repeat(1000);
    let Returned::Begin(Ok(begin)) = session.accept(begun(" id 1 ", &token)).unwrap() else { panic!() };
    assert_eq!((begin.operation.operation_id.as_str(), begin.operation.resume_token), (" id 1 ", token));
    assert_eq!(begin.requeue_after_ms, None);
    let refused = |id: &str, token: &str| session.accept(begun(id, token)).unwrap_err().reason;
    assert_eq!(refused("id", &"x".repeat(16 * 1024 + 1)), "OversizedResumeToken");
    assert_eq!(refused(&"x".repeat(1025), ""), "BadOperationID");
    assert_eq!(refused("a\u{1b}b", ""), "BadOperationID");
}

#[tokio::test]
async fn text_is_cleaned_bounded_and_clamped_2b6_2e3_2e6() {
    let session = House::new().act();
    let poll = |state, requeue| {
        Returned::Poll(Ok(PollResult {
            state,
            result: Some(result(Some("fake://neighbour"), None)),
            reason: "503 busy!".into(),
            message: format!("a\nb\u{202e}{}", "\u{1F980}".repeat(10_240)),
            requeue_after_ms: requeue,
        }))
    };
    for (given, wanted) in
        [(Some(0), None), (Some(1), Some(1_000)), (Some(u64::MAX), Some(600_000)), (None, None)]
    {
        let Returned::Poll(Ok(kept)) = session.accept(poll(PollState::InProgress, given)).unwrap() else {
            panic!()
        };
        assert_eq!((kept.requeue_after_ms, kept.reason.as_str()), (wanted, "Provider_503_busy_"));
        assert!(kept.message.len() <= 32_768 && kept.message.starts_with("a b\u{fffd}"));
        assert_eq!(kept.result, None, "only a success has a result");
    }
    let odd = session.accept(poll(PollState::Other("half way".into()), None)).unwrap();
    assert!(
        matches!(odd, Returned::Poll(Ok(PollResult { state: PollState::Other(word), .. })) if word == "half_way")
    );
}

#[tokio::test]
async fn failures_speak_the_contracts_words_only() {
    let session = House::new().act();
    let accept = |failure| match session.accept(Returned::Execute(Err(failure))).unwrap() {
        Returned::Execute(Err(failure)) => failure,
        other => panic!("{other:?}"),
    };
    assert_eq!(accept(failure()), failure());
    assert_eq!(accept(Failure { code: "made-up".into(), ..failure() }).code, "other");
    assert_eq!(
        accept(Failure { native: Some("quota_exceeded".into()), ..failure() }).native.as_deref(),
        Some("quota_exceeded")
    );
    assert_eq!(accept(Failure { native: Some("unlisted".into()), ..failure() }).native, None);
    assert_eq!(accept(Failure { retry_after_ms: Some(5), ..failure() }).retry_after_ms, Some(1_000));
    assert_eq!(
        accept(Failure { reason: " ".into(), ..failure() }).reason,
        "",
        "the caller has its own default (2(e) 5)"
    );
}

#[tokio::test]
async fn a_secret_anywhere_in_what_is_returned_ends_the_guest_without_a_byte_of_it_r2_6() {
    let session = House::new().act();
    let s = || format!("x{SECRET}y");
    let poll = |reason: String, message: String, state| {
        Returned::Poll(Ok(PollResult { state, result: None, reason, message, requeue_after_ms: None }))
    };
    let leaks = [
        Returned::Execute(Ok(result(Some(&s()), None))),
        Returned::Execute(Ok(result(None, Some(&s())))),
        begun(&s(), ""),
        begun("id", &s()),
        poll(s(), String::new(), PollState::InProgress),
        poll(String::new(), s(), PollState::InProgress),
        poll(String::new(), "canary\u{2d}secret-value".into(), PollState::InProgress),
        poll(String::new(), String::new(), PollState::Other(s())),
        Returned::Cleanup(Err(Failure { reason: s(), ..failure() })),
        Returned::Cancel(Err(Failure { message: s(), ..failure() })),
        Returned::Begin(Err(Failure { native: Some(s()), ..failure() })),
        Returned::Execute(Err(Failure { code: s(), ..failure() })),
    ];
    for (n, leak) in leaks.into_iter().enumerate() {
        let violation = session.accept(leak).unwrap_err();
        assert_eq!(violation.reason, "SecretInOutput", "{n}");
        assert!(!violation.message.contains("canary"), "{n}");
    }
}
