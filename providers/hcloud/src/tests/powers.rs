//! Power and rebuild.

use super::*;

fn parameters(kind: &str, pairs: &[(&str, &str)]) -> OperationRequest {
    OperationRequest { parameters: config(pairs), ..request(kind) }
}

fn begin(request: OperationRequest) -> Result<BeginResult, Error> {
    Hcloud::begin(request, testing::credentials(), Some(testing::user_data()))
}

fn poll(request: OperationRequest, begun: &BeginResult) -> Poll {
    Hcloud::poll(request, begun.operation.clone(), testing::credentials()).unwrap()
}

#[test]
fn a_reboot_is_off_seen_off_on_seen_on_n23() {
    let service = Fake::new()
        .reply("server", 200, server("running"))
        .reply("shut-down", 201, json!({ "action": "1" }))
        .always("action", 200, json!({ "state": "success" }))
        .reply("server", 200, server("running"))
        .reply("server", 200, server("off"))
        .reply("power-on", 201, json!({ "action": "2" }))
        .reply("server", 200, server("starting"))
        .reply("server", 200, server("running"));
    service.run(|| {
        let begun = begin(request("HostReboot")).unwrap();
        for _ in 0..3 {
            assert!(matches!(poll(request("HostReboot"), &begun).state, State::InProgress));
        }
        assert!(matches!(poll(request("HostReboot"), &begun).state, State::Succeeded));
    });
    assert_eq!((count(&service, "shut-down"), count(&service, "power-on")), (1, 1));
}

#[test]
fn power_is_cut_only_where_it_was_asked_for_r2_35() {
    for (pairs, call) in [(vec![], "shut-down"), (vec![("force", "true")], "power-off")] {
        let service =
            Fake::new().always("server", 200, server("running")).reply(call, 201, json!({ "action": "1" }));
        service.run(|| begin(parameters("HostPowerOff", &pairs)).unwrap());
        assert_eq!(count(&service, call), 1);
    }
    for pairs in [[("forced", "true")], [("force", "yes")]] {
        assert!(matches!(begin(parameters("HostPowerOff", &pairs)), Err(Error::Permanent(_))));
    }
    assert!(matches!(begin(parameters("HostPowerOn", &[("force", "true")])), Err(Error::Permanent(_))));
}

#[test]
fn a_server_that_is_already_there_is_not_asked_e17() {
    let service = Fake::new().always("server", 200, server("running"));
    service.run(|| {
        let begun = begin(request("HostPowerOn")).unwrap();
        assert!(matches!(poll(request("HostPowerOn"), &begun).state, State::Succeeded));
    });
    assert_eq!(count(&service, "power-on"), 0);
}

#[test]
fn a_power_on_in_doubt_is_asked_again_although_the_server_is_seen_on() {
    let service = Fake::new()
        .reply("server", 200, server("off"))
        .in_doubt("power-on", None)
        .always("server", 200, server("running"))
        .reply("power-on", 201, json!({ "action": "2" }))
        .always("action", 200, json!({ "state": "success" }));
    service.run(|| {
        assert!(matches!(begin(request("HostPowerOn")), Err(Error::Transient(_))));
        let begun = begin(request("HostPowerOn")).unwrap();
        assert!(matches!(poll(request("HostPowerOn"), &begun).state, State::Succeeded));
    });
    assert_eq!(count(&service, "power-on"), 2);
}

#[test]
fn a_shutdown_that_is_ignored_ends_when_it_is_no_longer_wanted_n16() {
    let service = Fake::new()
        .always("server", 200, server("running"))
        .reply("shut-down", 201, json!({ "action": "1" }))
        .always("action", 200, json!({ "state": "success" }));
    service.run(|| {
        let begun = begin(request("HostPowerOff")).unwrap();
        assert!(matches!(poll(request("HostPowerOff"), &begun).state, State::InProgress));
        let late =
            OperationRequest { deadline: Some("2029-01-01T00:00:00Z".to_owned()), ..request("HostPowerOff") };
        let ended = poll(late, &begun);
        assert!(matches!(ended.state, State::Canceled));
        assert!(ended.message.contains("may still take effect"), "{}", ended.message);
    });
    assert_eq!(count(&service, "power-off"), 0);
}

#[test]
fn an_action_that_ends_badly_fails_the_operation_e18() {
    let service = Fake::new()
        .always("server", 200, server("running"))
        .reply("power-off", 201, json!({ "action": "1" }))
        .always("action", 200, json!({ "state": "error", "error": "action_failed" }));
    service.run(|| {
        let request = || parameters("HostPowerOff", &[("force", "true")]);
        let begun = begin(request()).unwrap();
        let polled = poll(request(), &begun);
        assert!(matches!(polled.state, State::Failed));
        assert!(polled.message.contains("action_failed"));
    });
}

#[test]
fn a_rebuild_keeps_the_server_and_hands_it_other_first_boot_data() {
    let service = Fake::new()
        .reply("rebuild", 201, json!({ "action": "3" }))
        .always("server", 200, server("running"))
        .reply("action", 200, json!({ "state": "running" }))
        .always("action", 200, json!({ "state": "success" }));
    service.run(|| {
        let begun = begin(request("HostReplace")).unwrap();
        begin(request("HostReplace")).unwrap();
        // Running it was before: the action tells, not the state.
        assert!(matches!(poll(request("HostReplace"), &begun).state, State::InProgress));
        let done = poll(request("HostReplace"), &begun);
        assert!(matches!(done.state, State::Succeeded));
        let result = done.result.unwrap();
        assert_eq!((result.provider_id, result.cleanup_provider_id), (None, None));
    });
    assert_eq!(count(&service, "rebuild"), 1);
    assert_eq!(service.calls()[0].user_data, ["user-data"]);
}

#[test]
fn a_machine_of_another_cloud_is_refused_before_anything_is_asked() {
    let service = Fake::new();
    let foreign = testing::request("HostPowerOn", testing::machine("aws:///eu-west-1a/i-1"));
    assert!(matches!(service.run(|| begin(foreign)), Err(Error::Permanent(_))));
    assert!(service.names().is_empty());
}
