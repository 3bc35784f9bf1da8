//! Operations on servers that exist.

use super::*;

fn request(kind: &str) -> OperationRequest {
    testing::request(kind, testing::machine("sim://srv-1"))
}

fn state(state: &str, boots: i64) -> serde_json::Value {
    json!({ "state": state, "boots": boots, "created": "2026-01-02T03:04:05Z" })
}

#[test]
fn power_off_succeeds_only_once_the_server_is_seen_off_r2_34() {
    let cloud = Fake::new()
        .reply("server", 200, state("running", 1))
        .reply("power-off", 201, json!({ "action": "act-1" }))
        .reply("server", 200, state("stopping", 1))
        .always("server", 200, state("off", 1));
    cloud.run(|| {
        let first = Simulated::execute(request("HostPowerOff"), testing::credentials(), None);
        assert!(matches!(first, Err(Error::Transient(_))));
        Simulated::execute(request("HostPowerOff"), testing::credentials(), None).unwrap();
    });
    assert_eq!(cloud.names().iter().filter(|name| *name == "power-off").count(), 1);
}

/// Field case D06.
#[test]
fn a_reboot_is_done_when_the_server_has_booted_once_more_r2_36() {
    let cloud = Fake::new()
        .reply("server", 200, state("running", 4))
        .reply("reset", 201, json!({ "action": "act-1" }))
        .always("action", 200, json!({ "state": "success" }))
        .reply("server", 200, state("running", 4))
        .reply("server", 200, state("running", 5));
    cloud.run(|| {
        let begun = Simulated::begin(request("HostReboot"), testing::credentials(), None).unwrap();
        let poll = || {
            Simulated::poll(request("HostReboot"), begun.operation.clone(), testing::credentials()).unwrap()
        };
        assert!(matches!(poll().state, State::InProgress));
        assert!(matches!(poll().state, State::Succeeded));
    });
}

#[test]
fn a_power_off_in_doubt_is_asked_for_again_although_the_server_is_seen_off_r2_11() {
    let cloud = Fake::new()
        .reply("server", 200, state("running", 1))
        .in_doubt("power-off", None)
        .reply("power-off", 201, json!({ "action": "act-1" }))
        .always("server", 200, state("off", 1));
    cloud.run(|| {
        let first = Simulated::execute(request("HostPowerOff"), testing::credentials(), None);
        assert!(matches!(first, Err(Error::Transient(_))));
        Simulated::execute(request("HostPowerOff"), testing::credentials(), None).unwrap();
    });
    assert_eq!(cloud.names().iter().filter(|name| *name == "power-off").count(), 2);
}

#[test]
fn a_reset_in_doubt_is_not_repeated_by_the_provider() {
    let cloud = Fake::new().always("server", 200, state("running", 4)).in_doubt("reset", None);
    cloud.run(|| {
        let begun = Simulated::begin(request("HostReboot"), testing::credentials(), None);
        assert!(matches!(begun, Err(Error::Transient(_))));
    });
}

#[test]
fn a_replacement_names_the_new_server_and_the_old_one_for_cleanup() {
    let cloud = Fake::new()
        .reply("replace", 201, json!({ "id": "srv-2", "created": "2026-01-02T03:05:06Z" }))
        .always("server", 200, state("running", 1))
        .reply("delete", 200, json!({}));
    cloud.run(|| {
        let data = Some(testing::user_data());
        let begun = Simulated::begin(request("HostReplace"), testing::credentials(), data).unwrap();
        let poll = |request| {
            let poll = Simulated::poll(request, begun.operation.clone(), testing::credentials()).unwrap();
            poll.result.unwrap()
        };
        let result = poll(request("HostReplace"));
        let renamed = poll(testing::request("HostReplace", testing::machine("sim://srv-2")));
        assert_eq!(renamed.cleanup_provider_id, result.cleanup_provider_id, "the same answer later (R2.9)");
        assert_eq!(result.provider_id.as_deref(), Some("sim://srv-2"));
        assert_eq!(result.cleanup_provider_id.as_deref(), Some("sim://srv-1"));
        Simulated::cleanup(request("HostReplace"), result, testing::credentials()).unwrap();
    });
    let calls = cloud.calls();
    assert_eq!(calls.last().unwrap().args, json!({ "id": "srv-1" }));
    assert_eq!(calls[0].user_data, ["user-data"]);
}

/// Nothing brings such a server to run any more: an operation that waited for it would be polled for ever (I9).
#[test]
fn a_replacement_that_the_cloud_could_not_start_has_failed() {
    let cloud = Fake::new()
        .reply("replace", 201, json!({ "id": "srv-2", "created": "2026-01-02T03:05:06Z" }))
        .reply("server", 200, state("starting", 0))
        .always("server", 200, state("error", 0));
    cloud.run(|| {
        let request = || request("HostReplace");
        let begun = Simulated::begin(request(), testing::credentials(), Some(testing::user_data())).unwrap();
        let poll = || Simulated::poll(request(), begun.operation.clone(), testing::credentials()).unwrap();
        assert!(matches!(poll().state, State::InProgress));
        let failed = poll();
        assert!(matches!(failed.state, State::Failed));
        assert_eq!(failed.reason, "ServerFailed");
    });
}
