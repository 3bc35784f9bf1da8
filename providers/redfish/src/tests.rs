use super::*;
use holdfast_guest_sdk::testing::{self, Fake};
use serde_json::{Value, json};

const ALL: [&str; 5] = ["On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart"];

fn machine() -> Machine {
    testing::machine_with_object("holdfast.dev", "BareMetalMachine", &json!({ "systemID": "1" }))
}

fn request(kind: &str, parameters: &[(&str, &str)]) -> OperationRequest {
    let mut request = testing::request(kind, machine());
    request.parameters = parameters.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    request
}

fn system(power: &str, allowed: &[&str]) -> Value {
    json!({ "power": power, "reset": "sealed-reset", "etag": "sealed-etag", "allowed": allowed })
}

fn begin(kind: &str, parameters: &[(&str, &str)]) -> Result<BeginResult, Error> {
    Redfish::begin(request(kind, parameters), testing::credentials(), None)
}

fn poll(kind: &str, parameters: &[(&str, &str)], begun: &BeginResult) -> State {
    let request = request(kind, parameters);
    Redfish::poll(request, begun.operation.clone(), testing::credentials()).unwrap().state
}

fn sent(bmc: &Fake, call: &str) -> Vec<String> {
    let calls = bmc.calls().into_iter().filter(|it| it.name == call);
    calls.map(|it| it.args["type"].as_str().unwrap().to_owned()).collect()
}

/// Field case D06.
#[test]
fn power_on_succeeds_only_once_observed_r2_34() {
    let bmc = Fake::new()
        .reply("system", 200, system("Off", &ALL))
        .reply("power", 204, json!({}))
        .reply("system", 200, system("PoweringOn", &ALL))
        .reply("system", 200, system("On", &ALL));
    bmc.run(|| {
        let begun = begin("HostPowerOn", &[]).unwrap();
        assert!(matches!(poll("HostPowerOn", &[], &begun), State::InProgress));
        assert!(matches!(poll("HostPowerOn", &[], &begun), State::Succeeded));
    });
    assert_eq!(sent(&bmc, "power"), ["On"]);
}

#[test]
fn a_system_that_is_already_there_is_not_asked() {
    let bmc = Fake::new().always("system", 200, system("On", &ALL));
    bmc.run(|| {
        let begun = begin("HostPowerOn", &[]).unwrap();
        assert!(matches!(poll("HostPowerOn", &[], &begun), State::Succeeded));
    });
    assert!(sent(&bmc, "power").is_empty());
}

#[test]
fn power_off_is_graceful_and_forced_only_by_parameter_r2_35() {
    for (parameters, word) in [(vec![], "GracefulShutdown"), (vec![("force", "true")], "ForceOff")] {
        let bmc = Fake::new().always("system", 200, system("On", &ALL)).reply("power", 204, json!({}));
        bmc.run(|| begin("HostPowerOff", &parameters).unwrap());
        assert_eq!(sent(&bmc, "power"), [word]);
    }
}

#[test]
fn a_service_without_graceful_shutdown_is_refused_not_forced_r2_35() {
    let bmc = Fake::new().always("system", 200, system("On", &["On", "ForceOff"]));
    let refused = bmc.run(|| begin("HostPowerOff", &[])).unwrap_err();
    assert!(matches!(&refused, Error::Permanent(failure) if failure.reason == "ResetTypeNotOffered"));
    assert!(sent(&bmc, "power").is_empty());
}

#[test]
fn a_reboot_is_off_observed_on_observed_n23() {
    let bmc = Fake::new()
        .reply("system", 200, system("On", &ALL))
        .reply("power", 204, json!({}))
        .reply("system", 200, system("On", &ALL))
        .reply("system", 200, system("Off", &ALL))
        .reply("power", 204, json!({}))
        .reply("system", 200, system("Off", &ALL))
        .reply("system", 200, system("On", &ALL));
    bmc.run(|| {
        let begun = begin("HostReboot", &[]).unwrap();
        for _ in 0..3 {
            assert!(matches!(poll("HostReboot", &[], &begun), State::InProgress));
        }
        assert!(matches!(poll("HostReboot", &[], &begun), State::Succeeded));
    });
    assert_eq!(sent(&bmc, "power"), ["GracefulShutdown", "On"]);
}

#[test]
fn a_reboot_of_a_system_that_is_off_turns_it_on() {
    let bmc = Fake::new().reply("system", 200, system("Off", &ALL)).reply("power", 204, json!({})).always(
        "system",
        200,
        system("On", &ALL),
    );
    bmc.run(|| {
        let begun = begin("HostReboot", &[]).unwrap();
        assert!(matches!(poll("HostReboot", &[], &begun), State::Succeeded));
    });
    assert_eq!(sent(&bmc, "power"), ["On"]);
}

#[test]
fn a_restart_action_is_sent_once_and_its_task_is_followed_n09() {
    let parameters = [("restart", "ForceRestart")];
    let bmc = Fake::new()
        .always("system", 200, system("On", &ALL))
        .reply("restart", 202, json!({ "task": "sealed-task" }))
        .reply("restart-task", 202, json!({ "state": "Running" }))
        .fails("restart-task", Error::not_found("Gone", "the monitor is gone"));
    bmc.run(|| {
        let begun = begin("HostReboot", &parameters).unwrap();
        assert!(matches!(poll("HostReboot", &parameters, &begun), State::InProgress));
        assert!(matches!(poll("HostReboot", &parameters, &begun), State::Succeeded));
    });
    assert_eq!(sent(&bmc, "restart"), ["ForceRestart"]);
}

#[test]
fn a_task_that_ends_in_an_exception_fails_the_operation() {
    let bmc = Fake::new()
        .always("system", 200, system("Off", &ALL))
        .reply("power", 202, json!({ "task": "sealed-task" }))
        .always("power-task", 200, json!({ "state": "Exception" }));
    bmc.run(|| {
        let begun = begin("HostPowerOn", &[]).unwrap();
        assert!(matches!(poll("HostPowerOn", &[], &begun), State::Failed));
    });
}

#[test]
fn on_has_force_on_as_its_stand_in_n03() {
    let bmc = Fake::new().always("system", 200, system("Off", &["ForceOn", "ForceOff"])).reply(
        "power",
        204,
        json!({}),
    );
    bmc.run(|| begin("HostPowerOn", &[]).unwrap());
    assert_eq!(sent(&bmc, "power"), ["ForceOn"]);
}

#[test]
fn unknown_parameters_are_refused_before_anything_is_asked() {
    let bmc = Fake::new();
    for parameters in [[("forced", "true")], [("force", "yes")]] {
        let refused = bmc.run(|| begin("HostPowerOff", &parameters)).unwrap_err();
        assert!(matches!(refused, Error::Permanent(_)));
    }
    assert!(bmc.names().is_empty());
}

#[test]
fn a_power_on_whose_answer_was_lost_is_asked_again_not_waited_for_as_off() {
    let bmc = Fake::new()
        .reply("system", 200, system("Off", &ALL))
        .in_doubt("power", None)
        .reply("power", 204, json!({}))
        .always("system", 200, system("On", &ALL));
    bmc.run(|| {
        assert!(begin("HostReboot", &[]).is_err());
        let begun = begin("HostReboot", &[]).unwrap();
        assert!(matches!(poll("HostReboot", &[], &begun), State::Succeeded));
    });
}

#[test]
fn a_soft_off_that_is_ignored_ends_when_it_is_no_longer_wanted_and_is_not_forced_n16() {
    let bmc = Fake::new().always("system", 200, system("On", &ALL)).reply("power", 204, json!({}));
    bmc.run(|| {
        let begun = begin("HostPowerOff", &[]).unwrap();
        let mut request = request("HostPowerOff", &[]);
        let mut polled = |deadline: &str| {
            request.deadline = Some(deadline.to_owned());
            Redfish::poll(request.clone(), begun.operation.clone(), testing::credentials()).unwrap()
        };
        assert!(matches!(polled("2999-01-01T00:00:00Z").state, State::InProgress));
        let ended = polled("1999-01-01T00:00:00Z");
        assert!(matches!(ended.state, State::Canceled));
        assert!(
            ended.message.contains("is on; GracefulShutdown was accepted and may still"),
            "{}",
            ended.message
        );
    });
    assert_eq!(sent(&bmc, "power"), ["GracefulShutdown"]);
}

#[test]
fn a_reboot_that_is_given_up_after_off_is_still_switched_on_n23() {
    let bmc = Fake::new()
        .reply("system", 200, system("On", &ALL))
        .reply("power", 204, json!({}))
        .reply("system", 200, system("Off", &ALL))
        .reply("power", 204, json!({}))
        .reply("system", 200, system("On", &ALL));
    bmc.run(|| {
        let begun = begin("HostReboot", &[]).unwrap();
        let mut request = request("HostReboot", &[]);
        request.deadline = Some("1999-01-01T00:00:00Z".to_owned());
        let polled =
            || Redfish::poll(request.clone(), begun.operation.clone(), testing::credentials()).unwrap().state;
        assert!(matches!(polled(), State::InProgress));
        assert!(matches!(polled(), State::Succeeded));
    });
    assert_eq!(sent(&bmc, "power"), ["GracefulShutdown", "On"]);
}
