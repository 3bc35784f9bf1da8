//! HostRelease: everything that is owned, nothing else, and only gone is gone.

use super::*;

fn owned(ids: &[(&str, &str)]) -> Vec<OwnedResource> {
    ids.iter().map(|(kind, id)| OwnedResource::new(kind, *id)).collect()
}

const ALL: [(&str, &str); 3] = [("server", "srv-1"), ("volume", "vol-1"), ("nic", "nic-1")];

fn begin(ids: &[(&str, &str)]) -> Result<BeginResult, Error> {
    Simulated::begin_release(planned("HostRelease"), allocation(), owned(ids), testing::credentials())
}

fn poll(ids: &[(&str, &str)], begun: &BeginResult) -> Result<ReleasePollResult, Error> {
    let (request, operation) = (planned("HostRelease"), begun.operation.clone());
    Simulated::poll_release(request, allocation(), owned(ids), operation, testing::credentials())
}

fn gone() -> Error {
    Error::not_found("NotFound", "not there")
}

fn server() -> Value {
    json!({ "state": "deleting", "boots": 1, "created": "2026-01-02T03:04:05Z" })
}

#[test]
fn parts_are_deleted_once_the_server_is_gone_and_all_of_it_is_seen_gone() {
    let in_use = Error::transient(Code::Dependency, "InUse", "attached");
    let cloud = Fake::new()
        .reply("delete", 200, json!({}))
        .reply("server", 200, server())
        .fails("server", gone())
        .fails("server", gone())
        .fails("server", gone())
        .fails("delete-volume", in_use)
        .reply("delete-volume", 204, json!({}))
        .reply("delete-nic", 204, json!({}))
        .fails("nic", gone())
        .reply("volume", 200, json!({ "state": "deleting" }))
        .fails("nic", gone())
        .fails("volume", gone())
        .fails("nic", gone());
    cloud.run(|| {
        let begun = begin(&ALL).unwrap();
        for remaining in [3, 1, 1] {
            let polled = poll(&ALL, &begun).unwrap();
            assert!(matches!(polled.state, State::InProgress));
            assert_eq!(polled.remaining.len(), remaining, "{}", polled.message);
        }
        let polled = poll(&ALL, &begun).unwrap();
        assert!(matches!(polled.state, State::Succeeded) && polled.remaining.is_empty());
    });
    let first_part = cloud.names().iter().position(|name| name.starts_with("delete-")).unwrap();
    assert!(first_part > cloud.names().iter().position(|name| name == "server").unwrap());
}

#[test]
fn begin_called_again_deletes_once_and_what_is_gone_already_is_a_success_c03() {
    let cloud = Fake::new().reply("delete", 200, json!({})).fails("server", gone());
    cloud.run(|| {
        let first = begin(&ALL[..1]).unwrap();
        let again = begin(&ALL[..1]).unwrap();
        assert_eq!(first.operation.resume_token, again.operation.resume_token);
        assert!(matches!(poll(&ALL[..1], &again).unwrap().state, State::Succeeded));
    });
    assert_eq!((count(&cloud, "delete"), cloud.calls()[0].key.as_deref()), (1, Some("delete-srv-1")));
}

/// Field case B02.
#[test]
fn parts_without_a_server_are_released_too_r2_27() {
    let cloud = Fake::new().reply("delete-volume", 204, json!({})).fails("volume", gone());
    cloud.run(|| {
        let begun = begin(&ALL[1..2]).unwrap();
        assert_eq!(begun.operation.operation_id, "vol-1");
        assert!(matches!(poll(&ALL[1..2], &begun).unwrap().state, State::Succeeded));
    });
}

#[test]
fn a_release_of_nothing_asks_for_nothing() {
    let cloud = Fake::new();
    cloud.run(|| {
        let begun = begin(&[]).unwrap();
        assert!(!begun.operation.operation_id.is_empty(), "R2.5");
        assert!(matches!(poll(&[], &begun).unwrap().state, State::Succeeded));
    });
    assert!(cloud.calls().is_empty());
}

#[test]
fn a_delete_in_doubt_and_one_that_is_refused_wait() {
    let locked = Error::transient(Code::Conflict, "Locked", "an action is running");
    let cloud = Fake::new().in_doubt("delete", None).fails("delete", locked).reply("delete", 200, json!({}));
    cloud.run(|| {
        for _ in 0..2 {
            assert!(matches!(begin(&ALL).unwrap_err(), Error::Transient(_)));
        }
        begin(&ALL).unwrap();
    });
}

#[test]
fn a_kind_that_this_provider_never_makes_is_refused_for_good() {
    let begun = Fake::new().run(|| begin(&[("moon", "m-1")]).unwrap());
    let error = Fake::new().run(|| poll(&[("moon", "m-1")], &begun)).unwrap_err();
    assert!(matches!(error, Error::Permanent(_)), "{error:?}");
}

/// Nobody deletes what stands there undisturbed: a release that waited for it would do so for ever (I9).
#[test]
fn a_deletion_that_was_accepted_and_not_carried_out_has_failed() {
    let there = |mut seen: Value, state: &str| {
        seen["state"] = json!(state);
        seen
    };
    let cloud = Fake::new()
        .reply("delete", 200, json!({}))
        .reply("server", 200, server())
        .reply("server", 200, there(server(), "running"))
        .fails("server", gone())
        .reply("delete-volume", 204, json!({}))
        .reply("volume", 200, there(server(), "available"));
    cloud.run(|| {
        let begun = begin(&ALL[..2]).unwrap();
        assert!(matches!(poll(&ALL[..2], &begun).unwrap().state, State::InProgress));
        for remaining in [2, 1] {
            let polled = poll(&ALL[..2], &begun).unwrap();
            assert!(matches!(polled.state, State::Failed), "{}", polled.message);
            assert_eq!((polled.reason.as_str(), polled.remaining.len()), ("DeleteFailed", remaining));
        }
    });
}
