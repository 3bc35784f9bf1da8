//! Start, stop and reboot.

use super::*;

fn parameters(kind: &str, pairs: &[(&str, &str)]) -> OperationRequest {
    OperationRequest { parameters: config(pairs), ..request(kind) }
}

fn begin(request: OperationRequest) -> Result<BeginResult, Error> {
    Ec2::begin(request, testing::credentials(), None)
}

fn poll(request: OperationRequest, begun: &BeginResult) -> Poll {
    Ec2::poll(request, begun.operation.clone(), testing::credentials()).unwrap()
}

#[test]
fn a_start_succeeds_once_the_instance_is_seen_running_r2_34() {
    let service = Fake::new()
        .reply("instance", 200, instance("stopped"))
        .reply("start", 200, json!({ "state": "pending" }))
        .reply("instance", 200, instance("pending"))
        .reply("instance", 200, instance("running"));
    service.run(|| {
        let begun = begin(request("HostPowerOn")).unwrap();
        assert!(matches!(poll(request("HostPowerOn"), &begun).state, State::InProgress));
        assert!(matches!(poll(request("HostPowerOn"), &begun).state, State::Succeeded));
    });
    assert_eq!(count(&service, "start"), 1);
}

#[test]
fn an_instance_that_is_already_there_is_not_asked_e17() {
    for (kind, state) in [("HostPowerOn", "running"), ("HostPowerOff", "stopped")] {
        let service = Fake::new().always("instance", 200, instance(state));
        service.run(|| {
            let begun = begin(request(kind)).unwrap();
            assert!(matches!(poll(request(kind), &begun).state, State::Succeeded));
        });
        assert!(service.calls().iter().all(|call| call.key.is_none()));
    }
}

#[test]
fn a_stop_is_forced_only_where_it_was_asked_for_r2_35() {
    for (pairs, force) in [(vec![], false), (vec![("force", "true")], true)] {
        let service = Fake::new().always("instance", 200, instance("running")).reply("stop", 200, json!({}));
        service.run(|| begin(parameters("HostPowerOff", &pairs)).unwrap());
        let stop = service.calls().into_iter().find(|call| call.name == "stop").unwrap();
        assert_eq!(stop.args, json!({ "id": "i-1", "force": force }));
    }
}

#[test]
fn unknown_parameters_are_refused_before_anything_is_asked() {
    let service = Fake::new();
    for (kind, pairs) in [
        ("HostPowerOn", vec![("force", "true")]),
        ("HostPowerOff", vec![("force", "yes")]),
        ("HostReboot", vec![("forced", "true")]),
        ("HostReboot", vec![("force", "true")]),
        ("HostReplace", vec![]),
    ] {
        assert!(
            matches!(service.run(|| begin(parameters(kind, &pairs))), Err(Error::Permanent(_))),
            "{kind}"
        );
    }
    assert!(service.names().is_empty());
}

#[test]
fn a_reboot_is_sent_once_and_the_instance_seen_running_r2_36() {
    let service = Fake::new().always("instance", 200, instance("running")).reply("reboot", 200, json!({}));
    service.run(|| {
        let begun = begin(request("HostReboot")).unwrap();
        begin(request("HostReboot")).unwrap();
        assert!(matches!(poll(request("HostReboot"), &begun).state, State::Succeeded));
    });
    assert_eq!(count(&service, "reboot"), 1);
}

#[test]
fn a_stopped_instance_is_started_to_reboot_and_a_busy_one_waited_for() {
    let service = Fake::new().always("instance", 200, instance("stopped")).reply("start", 200, json!({}));
    service.run(|| begin(request("HostReboot")).unwrap());
    assert_eq!(count(&service, "reboot"), 0);
    let busy = Fake::new().always("instance", 200, instance("stopping"));
    assert!(matches!(busy.run(|| begin(request("HostReboot"))), Err(Error::Transient(_))));
}

#[test]
fn a_reboot_in_doubt_stays_in_doubt() {
    let service = Fake::new().always("instance", 200, instance("running")).in_doubt("reboot", None);
    let answer = service.run(|| begin(request("HostReboot")));
    assert!(matches!(&answer, Err(Error::Transient(failure)) if failure.reason == "EffectInDoubt"));
}

#[test]
fn a_power_cycle_is_stopped_seen_stopped_started_seen_running_n23() {
    let pairs = [("power-cycle", "true"), ("force", "true")];
    let service = Fake::new()
        .reply("instance", 200, instance("running"))
        .reply("stop", 200, json!({}))
        .reply("instance", 200, instance("stopping"))
        .reply("instance", 200, instance("stopped"))
        .reply("start", 200, json!({}))
        .reply("instance", 200, instance("stopped"))
        .reply("instance", 200, instance("running"));
    service.run(|| {
        let request = || parameters("HostReboot", &pairs);
        let begun = begin(request()).unwrap();
        for _ in 0..3 {
            assert!(matches!(poll(request(), &begun).state, State::InProgress));
        }
        assert!(matches!(poll(request(), &begun).state, State::Succeeded));
    });
    assert_eq!((count(&service, "stop"), count(&service, "start")), (1, 1));
}

#[test]
fn a_start_in_doubt_is_asked_again_although_the_instance_is_seen_running() {
    let service = Fake::new()
        .reply("instance", 200, instance("stopped"))
        .in_doubt("start", None)
        .always("instance", 200, instance("running"))
        .reply("start", 200, json!({}));
    service.run(|| {
        assert!(matches!(begin(request("HostPowerOn")), Err(Error::Transient(_))));
        let begun = begin(request("HostPowerOn")).unwrap();
        assert!(matches!(poll(request("HostPowerOn"), &begun).state, State::Succeeded));
    });
    assert_eq!(count(&service, "start"), 2);
}

#[test]
fn a_stop_that_is_no_longer_wanted_says_what_may_still_happen_r2_38() {
    let service = Fake::new().always("instance", 200, instance("running")).reply("stop", 200, json!({}));
    service.run(|| {
        let begun = begin(request("HostPowerOff")).unwrap();
        let late =
            OperationRequest { deadline: Some("2029-01-01T00:00:00Z".to_owned()), ..request("HostPowerOff") };
        let ended = poll(late, &begun);
        assert!(matches!(ended.state, State::Canceled));
        assert!(ended.message.contains("may still take effect"), "{}", ended.message);
    });
}

/// Field case C11.
#[test]
fn an_instance_that_ended_fails_the_operation() {
    let service = Fake::new().always("instance", 200, instance("terminated"));
    service.run(|| {
        let begun = begin(request("HostPowerOn")).unwrap();
        assert!(matches!(poll(request("HostPowerOn"), &begun).state, State::Failed));
    });
    assert_eq!(count(&service, "start"), 0);
}

#[test]
fn a_machine_of_another_cloud_is_refused_before_anything_is_asked() {
    let service = Fake::new();
    let foreign = testing::request("HostPowerOn", testing::machine("hcloud://42"));
    assert!(matches!(service.run(|| begin(foreign)), Err(Error::Permanent(_))));
    assert!(service.names().is_empty());
}
