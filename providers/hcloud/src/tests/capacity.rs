//! Allocating and releasing.

use super::*;

fn made() -> Value {
    json!({ "id": "42", "action": "7" })
}

fn begin_allocate() -> Result<BeginResult, Error> {
    let config = config(&CLASS);
    Hcloud::begin_allocate(
        request("HostAllocate"),
        allocation(),
        config,
        testing::credentials(),
        testing::user_data(),
    )
}

fn poll_allocate(begun: &BeginResult, accepted: &str) -> Result<AllocatePollResult, Error> {
    let request = OperationRequest { accepted_at: Some(accepted.to_owned()), ..request("HostAllocate") };
    Hcloud::poll_allocate(request, allocation(), begun.operation.clone(), testing::credentials())
}

const JUST_NOW: &str = "2029-12-31T23:59:30Z";

#[test]
fn a_server_is_allocated_once_it_is_seen_running_r2_34() {
    let service = Fake::new()
        .reply("create", 201, made())
        .reply("action", 200, json!({ "state": "running" }))
        .always("action", 200, json!({ "state": "success" }))
        .reply("server", 200, server("starting"))
        .always("server", 200, server("running"));
    service.run(|| {
        let begun = begin_allocate().unwrap();
        for _ in 0..2 {
            let polled = poll_allocate(&begun, JUST_NOW).unwrap();
            assert!(matches!(polled.state, State::InProgress));
            assert_eq!(polled.owned_resources[0].id, "42", "told from the first moment on (R2.27)");
        }
        let polled = poll_allocate(&begun, JUST_NOW).unwrap();
        assert!(matches!(polled.state, State::Succeeded));
        let result = polled.result.unwrap();
        assert_eq!(result.provider_id.as_deref(), Some("hcloud://42"));
        assert_eq!((result.instance_type.as_str(), result.zone.as_deref()), ("cx22", Some("fsn1")));
    });
    let create = &service.calls()[0];
    assert_eq!((create.args.clone(), create.user_data.clone()), (json!({}), vec!["user-data".to_owned()]));
}

#[test]
fn begin_called_again_before_its_handle_was_stored_makes_no_second_server_a01() {
    let service = Fake::new().reply("create", 201, made());
    service.run(|| {
        let first = begin_allocate().unwrap();
        let again = begin_allocate().unwrap();
        assert_eq!(first.operation.resume_token, again.operation.resume_token);
    });
    assert_eq!(count(&service, "create"), 1);
}

#[test]
fn a_create_in_doubt_waits_and_is_taken_when_the_lookup_found_it_b07() {
    let service = Fake::new()
        .in_doubt("create", Some(Duration::from_secs(3)))
        // What a lookup settles has no action: only the id is in the list.
        .reply("create", 200, json!({ "id": "42" }))
        .always("server", 200, server("running"));
    service.run(|| {
        let first = begin_allocate().unwrap_err();
        assert!(matches!(&first, Error::Transient(failure) if failure.retry_after == Some(3000)));
        let begun = begin_allocate().unwrap();
        assert!(matches!(poll_allocate(&begun, JUST_NOW).unwrap().state, State::Succeeded));
    });
    assert_eq!(count(&service, "action"), 0);
}

#[test]
fn a_refused_create_keeps_the_class_of_its_refusal() {
    for code in [Code::CapacityExhausted, Code::QuotaExceeded, Code::PermissionDenied, Code::Throttled] {
        let refusal = Error::transient(code.clone(), "Refused", "the service refused");
        let service = Fake::new().fails("create", refusal);
        let refused = service.run(begin_allocate).unwrap_err();
        assert_eq!(format!("{:?}", refused.failure().code), format!("{code:?}"));
    }
}

#[test]
fn a_server_that_is_not_shown_yet_is_waited_for_but_not_for_ever_a03_a06() {
    let gone = || Error::not_found("NotFound", "there is none");
    let service = Fake::new()
        .reply("create", 201, made())
        .always("action", 200, json!({ "state": "success" }))
        .fails("server", gone())
        .fails("server", gone())
        .fails("server", gone());
    service.run(|| {
        let begun = begin_allocate().unwrap();
        assert!(matches!(poll_allocate(&begun, JUST_NOW).unwrap().state, State::InProgress));
        let late = poll_allocate(&begun, "2029-12-31T23:50:00Z").unwrap();
        assert!(matches!(late.state, State::Failed));
        assert_eq!((late.reason.as_str(), late.owned_resources.len()), ("ServerVanished", 1));
        let mut given_up = request("HostAllocate");
        given_up.deadline = Some("2029-12-31T23:59:59Z".to_owned());
        given_up.accepted_at = Some(JUST_NOW.to_owned());
        let ended =
            Hcloud::poll_allocate(given_up, allocation(), begun.operation.clone(), testing::credentials());
        assert!(matches!(ended.unwrap().state, State::Failed));
    });
}

#[test]
fn a_create_that_fails_later_says_why_and_its_server_stays_owned_b03_e18() {
    for (word, reason) in [
        ("resource_unavailable", "CapacityExhausted"),
        ("placement_error", "CapacityExhausted"),
        ("resource_limit_exceeded", "QuotaExceeded"),
        ("action_failed", "CreateFailed"),
    ] {
        let service = Fake::new().reply("create", 201, made()).always(
            "action",
            200,
            json!({ "state": "error", "error": word }),
        );
        let polled = service.run(|| poll_allocate(&begin_allocate().unwrap(), JUST_NOW)).unwrap();
        assert!(matches!(polled.state, State::Failed));
        assert_eq!((polled.reason.as_str(), polled.owned_resources[0].id.as_str()), (reason, "42"));
    }
}

#[test]
fn a_poll_that_cannot_see_keeps_the_operation_going_c17() {
    let outage = || Error::transient(Code::Unavailable, "Unavailable", "the service is away");
    let service = Fake::new()
        .reply("create", 201, made())
        .fails("action", outage())
        .fails("action", Error::not_found("Forgotten", "the service forgets its actions"))
        .always("server", 200, server("running"));
    service.run(|| {
        let begun = begin_allocate().unwrap();
        assert!(matches!(poll_allocate(&begun, JUST_NOW), Err(Error::Transient(_))));
        assert!(matches!(poll_allocate(&begun, JUST_NOW).unwrap().state, State::Succeeded));
    });
}

// ---- releasing ----

fn owned(ids: &[&str]) -> Vec<OwnedResource> {
    ids.iter().map(|id| OwnedResource::new(SERVER, *id)).collect()
}

fn begin_release(ids: &[&str]) -> Result<BeginResult, Error> {
    Hcloud::begin_release(request("HostRelease"), allocation(), owned(ids), testing::credentials())
}

fn poll_release(ids: &[&str], begun: &BeginResult) -> Result<ReleasePollResult, Error> {
    let operation = begun.operation.clone();
    Hcloud::poll_release(request("HostRelease"), allocation(), owned(ids), operation, testing::credentials())
}

#[test]
fn a_release_ends_when_the_server_is_no_longer_shown() {
    let service = Fake::new()
        .reply("delete", 200, json!({ "action": "8" }))
        .reply("server", 200, server("deleting"))
        .fails("server", Error::not_found("NotFound", "there is none"));
    service.run(|| {
        let begun = begin_release(&["42"]).unwrap();
        begin_release(&["42"]).unwrap();
        let waiting = poll_release(&["42"], &begun).unwrap();
        assert!(matches!(waiting.state, State::InProgress));
        assert_eq!(waiting.remaining[0].id, "42");
        assert!(matches!(poll_release(&["42"], &begun).unwrap().state, State::Succeeded));
    });
    assert_eq!(count(&service, "delete"), 1);
}

#[test]
fn a_release_of_nothing_asks_nobody_and_succeeds_c08() {
    let service = Fake::new();
    let polled = service.run(|| poll_release(&[], &begin_release(&[]).unwrap())).unwrap();
    assert!(matches!(polled.state, State::Succeeded));
    assert!(service.names().is_empty());
}

#[test]
fn a_locked_server_is_deleted_later_b13() {
    let locked = Error::transient(Code::Conflict, "Locked", "an action is running");
    let service = Fake::new().fails("delete", locked).reply("delete", 200, json!({}));
    service.run(|| {
        assert!(matches!(begin_release(&["42"]), Err(Error::Transient(_))));
        begin_release(&["42"]).unwrap();
    });
}

#[test]
fn a_resource_that_this_provider_never_makes_is_not_touched() {
    let service = Fake::new();
    let foreign = vec![OwnedResource::new("volume", "42")];
    let refused = service
        .run(|| Hcloud::begin_release(request("HostRelease"), allocation(), foreign, testing::credentials()));
    assert!(matches!(refused, Err(Error::Permanent(_))));
    assert!(service.names().is_empty());
}
