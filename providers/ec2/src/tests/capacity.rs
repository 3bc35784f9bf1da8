//! Allocating and releasing.

use super::*;

fn made() -> Value {
    json!({ "id": "i-1", "nics": ["eni-1"] })
}

fn volumes(ids: &[&str]) -> Value {
    let volumes = ids.iter().map(|id| json!({ "id": id, "token": "hfcreate" })).collect::<Vec<_>>();
    json!({ "volumes": volumes })
}

fn begin_allocate() -> Result<BeginResult, Error> {
    let (config, credentials) = (config(&CLASS), testing::credentials());
    Ec2::begin_allocate(request("HostAllocate"), allocation(), config, credentials, testing::user_data())
}

const JUST_NOW: &str = "2029-12-31T23:59:30Z";
const LONG_AGO: &str = "2029-12-31T23:00:00Z";

fn poll_allocate(begun: &BeginResult, accepted: &str) -> Result<AllocatePollResult, Error> {
    let request = OperationRequest { accepted_at: Some(accepted.to_owned()), ..request("HostAllocate") };
    Ec2::poll_allocate(request, allocation(), begun.operation.clone(), testing::credentials())
}

fn told(owned: &[OwnedResource]) -> Vec<String> {
    owned.iter().map(|one| format!("{}/{}", one.kind, one.id)).collect()
}

#[test]
fn an_instance_is_allocated_once_seen_running_with_what_came_with_it_r2_34() {
    let service = Fake::new()
        .reply("run", 200, made())
        .reply("instance", 200, instance("pending"))
        .always("instance", 200, instance("running"))
        .reply("volumes", 200, volumes(&[]))
        .always("volumes", 200, volumes(&["vol-1"]));
    service.run(|| {
        let begun = begin_allocate().unwrap();
        for _ in 0..2 {
            let polled = poll_allocate(&begun, JUST_NOW).unwrap();
            assert!(matches!(polled.state, State::InProgress));
            assert_eq!(
                told(&polled.owned_resources),
                ["instance/i-1", "nic/eni-1"],
                "from the first moment on"
            );
        }
        let polled = poll_allocate(&begun, JUST_NOW).unwrap();
        assert!(matches!(polled.state, State::Succeeded));
        assert_eq!(told(&polled.owned_resources), ["instance/i-1", "nic/eni-1", "volume/vol-1"]);
        let result = polled.result.unwrap();
        assert_eq!(result.provider_id.as_deref(), Some("aws:///eu-west-1a/i-1"));
        assert_eq!((result.instance_type.as_str(), result.zone.as_deref()), ("t3.micro", Some("eu-west-1a")));
    });
    let calls = service.calls();
    assert_eq!((&calls[0].args, &calls[0].user_data), (&json!({}), &vec!["user-data".to_owned()]));
    let asked = calls.iter().find(|call| call.name == "volumes").unwrap();
    assert_eq!(asked.args, json!({ "token": "create" }), "by the token of the create, never by attachment");
}

#[test]
fn begin_called_again_before_its_handle_was_stored_makes_no_second_instance_a01() {
    let service = Fake::new().reply("run", 200, made());
    service.run(|| {
        let first = begin_allocate().unwrap();
        assert_eq!(first.operation.resume_token, begin_allocate().unwrap().operation.resume_token);
    });
    assert_eq!(count(&service, "run"), 1);
}

#[test]
fn a_create_in_doubt_waits_until_the_host_knows_b07() {
    let service = Fake::new().in_doubt("run", Some(Duration::from_secs(9))).reply("run", 200, made());
    service.run(|| {
        let first = begin_allocate().unwrap_err();
        assert!(matches!(&first, Error::Transient(failure) if failure.retry_after == Some(9000)));
        assert_eq!(begin_allocate().unwrap().operation.operation_id, "i-1");
    });
}

#[test]
fn a_refused_create_keeps_the_class_of_its_refusal() {
    for code in [Code::CapacityExhausted, Code::QuotaExceeded, Code::PermissionDenied, Code::Throttled] {
        let refusal = Error::transient(code.clone(), "Refused", "the service refused");
        let refused = Fake::new().fails("run", refusal).run(begin_allocate).unwrap_err();
        assert_eq!(format!("{:?}", refused.failure().code), format!("{code:?}"));
    }
}

#[test]
fn an_instance_that_is_not_shown_yet_is_waited_for_but_not_for_ever_a03_a06() {
    let service = Fake::new().reply("run", 200, made());
    let service = (0..3).fold(service, |service, _| service.fails("instance", not_found()));
    service.run(|| {
        let begun = begin_allocate().unwrap();
        assert!(matches!(poll_allocate(&begun, JUST_NOW).unwrap().state, State::InProgress));
        let late = poll_allocate(&begun, LONG_AGO).unwrap();
        assert!(matches!(late.state, State::Failed));
        assert_eq!((late.reason.as_str(), late.owned_resources.len()), ("InstanceVanished", 2));
        let given_up = OperationRequest {
            accepted_at: Some(JUST_NOW.to_owned()),
            deadline: Some("2029-12-31T23:59:59Z".to_owned()),
            ..request("HostAllocate")
        };
        let ended =
            Ec2::poll_allocate(given_up, allocation(), begun.operation.clone(), testing::credentials());
        assert!(matches!(ended.unwrap().state, State::Failed));
    });
}

#[test]
fn a_volume_without_our_tag_is_waited_for_and_then_left_to_whom_it_belongs_h3() {
    let service = Fake::new().reply("run", 200, made()).always("instance", 200, instance("running")).always(
        "volumes",
        200,
        volumes(&[]),
    );
    service.run(|| {
        let begun = begin_allocate().unwrap();
        let polled = poll_allocate(&begun, JUST_NOW).unwrap();
        assert!(matches!(polled.state, State::InProgress) && polled.message.contains("vol-1"));
        let polled = poll_allocate(&begun, LONG_AGO).unwrap();
        assert!(matches!(polled.state, State::Succeeded));
        assert_eq!(told(&polled.owned_resources), ["instance/i-1", "nic/eni-1"]);
    });
    assert!(service.log().iter().any(|line| line.contains("vol-1")));
}

#[test]
fn volumes_of_an_instance_that_is_no_longer_wanted_are_waited_for_all_the_same_attack_a8() {
    let service = Fake::new()
        .reply("run", 200, made())
        .always("instance", 200, instance("running"))
        .reply("volumes", 200, volumes(&[]))
        .always("volumes", 200, volumes(&["vol-1"]));
    service.run(|| {
        let begun = begin_allocate().unwrap();
        let poll = || {
            let given_up = OperationRequest {
                accepted_at: Some(JUST_NOW.to_owned()),
                deadline: Some("2029-12-31T23:59:59Z".to_owned()),
                ..request("HostAllocate")
            };
            Ec2::poll_allocate(given_up, allocation(), begun.operation.clone(), testing::credentials())
        };
        assert!(matches!(poll().unwrap().state, State::InProgress));
        assert_eq!(told(&poll().unwrap().owned_resources), ["instance/i-1", "nic/eni-1", "volume/vol-1"]);
    });
}

#[test]
fn an_instance_that_ends_by_itself_says_why_and_all_of_it_stays_owned_b03_r2_27() {
    for (word, reason) in [
        (Some("Server.InsufficientInstanceCapacity"), "CapacityExhausted"),
        (Some("Client.VolumeLimitExceeded"), "QuotaExceeded"),
        (Some("Client.InternalError"), "InstanceEnded"),
        (None, "InstanceEnded"),
    ] {
        let mut seen = instance("terminated");
        seen["reason"] = json!(word);
        let service = Fake::new().reply("run", 200, made()).always("instance", 200, seen).always(
            "volumes",
            200,
            volumes(&["vol-1"]),
        );
        let polled = service.run(|| poll_allocate(&begin_allocate().unwrap(), JUST_NOW)).unwrap();
        assert!(matches!(polled.state, State::Failed));
        assert_eq!((polled.reason.as_str(), polled.owned_resources.len()), (reason, 3));
    }
}

#[test]
fn a_poll_that_cannot_see_keeps_the_operation_going_c17() {
    let service = Fake::new().reply("run", 200, made()).fails("instance", outage());
    service.run(|| {
        let begun = begin_allocate().unwrap();
        assert!(matches!(poll_allocate(&begun, JUST_NOW), Err(Error::Transient(_))));
    });
}

#[test]
fn a_config_that_became_unfit_is_refused_before_anything_is_made() {
    let service = Fake::new();
    let refused = service.run(|| {
        let (request, credentials) = (request("HostAllocate"), testing::credentials());
        Ec2::begin_allocate(
            request,
            allocation(),
            config(&[("image", "ami-1")]),
            credentials,
            testing::user_data(),
        )
    });
    assert!(matches!(refused, Err(Error::Permanent(_))));
    assert!(service.names().is_empty());
}

// ---- releasing ----

fn all() -> Vec<OwnedResource> {
    vec![
        OwnedResource::new(INSTANCE, "i-1"),
        OwnedResource::new(NIC, "eni-1"),
        OwnedResource::new(VOLUME, "vol-1"),
    ]
}

fn begin_release(owned: Vec<OwnedResource>) -> Result<BeginResult, Error> {
    Ec2::begin_release(request("HostRelease"), allocation(), owned, testing::credentials())
}

fn poll_release(
    begun: &BeginResult,
    owned: Vec<OwnedResource>,
    started: &str,
) -> Result<ReleasePollResult, Error> {
    let request = OperationRequest { started_at: started.to_owned(), ..request("HostRelease") };
    Ec2::poll_release(request, allocation(), owned, begun.operation.clone(), testing::credentials())
}

/// Field case B09.
#[test]
fn a_release_ends_the_instance_first_then_deletes_what_it_left_and_sees_all_of_it_gone() {
    let service = Fake::new()
        .reply("terminate", 200, json!({ "state": "shutting-down" }))
        .reply("instance", 200, instance("shutting-down"))
        .always("instance", 200, instance("terminated"))
        .reply("volume", 200, json!({ "state": "in-use" }))
        .reply("volume", 200, json!({ "state": "available" }))
        .reply("nic", 200, json!({ "state": "available" }))
        .reply("delete-nic", 200, json!({}))
        .fails("nic", not_found())
        .reply("delete-volume", 200, json!({}))
        .fails("nic", not_found())
        .fails("volume", not_found());
    service.run(|| {
        let begun = begin_release(all()).unwrap();
        begin_release(all()).unwrap();
        let left =
            |started| poll_release(&begun, all(), started).map(|polled| told(&polled.remaining)).unwrap();
        assert_eq!(left(JUST_NOW).len(), 3, "nothing is deleted while the instance holds it");
        assert_eq!(count(&service, "volume"), 0);
        assert_eq!(left(JUST_NOW), ["nic/eni-1", "volume/vol-1"]);
        assert_eq!(left(JUST_NOW), ["volume/vol-1"]);
        assert!(matches!(poll_release(&begun, all(), JUST_NOW).unwrap().state, State::Succeeded));
    });
    let once = ["terminate", "delete-nic", "delete-volume"].map(|call| count(&service, call));
    assert_eq!(once, [1, 1, 1]);
}

#[test]
fn terminated_is_gone_and_what_went_with_the_instance_is_not_asked_for_c09() {
    let service = Fake::new()
        .reply("terminate", 200, json!({}))
        .always("instance", 200, instance("terminated"))
        .fails("nic", not_found())
        .fails("volume", not_found());
    service.run(|| {
        let begun = begin_release(all()).unwrap();
        assert!(matches!(poll_release(&begun, all(), JUST_NOW).unwrap().state, State::Succeeded));
    });
    assert_eq!(count(&service, "delete-volume") + count(&service, "delete-nic"), 0);
}

#[test]
fn not_found_is_no_proof_while_reads_may_lag_behind_the_create_b14() {
    let owned = || vec![OwnedResource::new(INSTANCE, "i-1")];
    // The terminate met the lag and was told that there is none: the fake answers as the host does.
    let service = Fake::new()
        .reply("terminate", 400, json!({}))
        .fails("instance", not_found())
        .reply("instance", 200, instance("running"))
        .reply("terminate", 200, json!({}))
        .reply("instance", 200, instance("running"))
        .fails("instance", not_found());
    service.run(|| {
        let begun = begin_release(owned()).unwrap();
        for _ in 0..3 {
            let polled = poll_release(&begun, owned(), JUST_NOW).unwrap();
            assert!(matches!(polled.state, State::InProgress));
        }
        assert!(matches!(poll_release(&begun, owned(), LONG_AGO).unwrap().state, State::Succeeded));
    });
    let keys: Vec<String> = service.calls().into_iter().filter_map(|call| call.key).collect();
    assert_eq!(keys[0], "terminate-i-1");
    assert!(keys[1..].iter().all(|key| key == "again-i-1"));
    assert_eq!(count(&service, "terminate"), 2, "asked for once more, and once");
}

/// Field case E02.
#[test]
fn what_something_still_holds_is_asked_for_again_later() {
    let busy = || Error::transient(Code::Conflict, "Conflict", "is currently in use");
    let service = Fake::new()
        .always("instance", 200, instance("terminated"))
        .reply("terminate", 200, json!({}))
        .always("nic", 200, json!({ "state": "in-use" }))
        .fails("delete-nic", busy())
        .reply("delete-nic", 200, json!({}));
    service.run(|| {
        let owned = || all()[..2].to_vec();
        let begun = begin_release(owned()).unwrap();
        for _ in 0..2 {
            let polled = poll_release(&begun, owned(), JUST_NOW).unwrap();
            assert_eq!(told(&polled.remaining), ["nic/eni-1"]);
        }
    });
    assert_eq!(count(&service, "delete-nic"), 2);
}

/// A read that shows the end is no answer to what was asked: only a repeat settles it.
#[test]
fn what_was_asked_for_and_not_answered_is_asked_for_again_though_it_is_seen_gone_c03() {
    let gone = || json!({});
    let service = Fake::new()
        .reply("terminate", 400, gone())
        .reply("instance", 200, instance("running"))
        .in_doubt("terminate", None)
        .reply("terminate", 400, gone())
        .always("instance", 200, instance("terminated"))
        .reply("nic", 200, json!({ "state": "available" }))
        .in_doubt("delete-nic", None)
        .fails("nic", not_found())
        .reply("delete-nic", 400, gone())
        .fails("nic", not_found())
        .reply("volume", 200, json!({ "state": "available" }))
        .in_doubt("delete-volume", None)
        .fails("volume", not_found())
        .reply("delete-volume", 400, gone())
        .fails("volume", not_found());
    service.run(|| {
        let begun = begin_release(all()).unwrap();
        let again = || matches!(poll_release(&begun, all(), JUST_NOW), Err(Error::Transient(_)));
        assert!(again(), "the terminate is in doubt");
        assert!(!again() && again(), "then the delete of the interface");
        let polled = poll_release(&begun, all()[1..2].to_vec(), JUST_NOW).unwrap();
        assert!(matches!(polled.state, State::InProgress), "seen gone, and not settled before");
        let volume = || poll_release(&begun, all()[2..].to_vec(), JUST_NOW);
        assert!(volume().is_err(), "then that of the volume");
        assert!(matches!(volume().unwrap().state, State::InProgress));
        assert!(matches!(volume().unwrap().state, State::Succeeded));
    });
    assert_eq!(["terminate", "delete-nic", "delete-volume"].map(|call| count(&service, call)), [3, 2, 2]);
}

#[test]
fn a_delete_that_is_forbidden_is_told_and_not_waited_for() {
    let denied = Error::permanent(Code::PermissionDenied, "Denied", "you may not");
    let service = Fake::new()
        .always("instance", 200, instance("terminated"))
        .reply("terminate", 200, json!({}))
        .fails("nic", not_found())
        .always("volume", 200, json!({ "state": "available" }))
        .fails("delete-volume", denied);
    let polled = service.run(|| poll_release(&begin_release(all()).unwrap(), all(), JUST_NOW));
    assert!(matches!(polled, Err(Error::Permanent(_))));
}

#[test]
fn a_release_of_nothing_asks_nobody_and_succeeds_c08() {
    let service = Fake::new();
    let polled = service.run(|| poll_release(&begin_release(Vec::new()).unwrap(), Vec::new(), JUST_NOW));
    assert!(matches!(polled.unwrap().state, State::Succeeded));
    assert!(service.names().is_empty());
}

#[test]
fn a_resource_that_this_provider_never_makes_is_not_touched() {
    let service = Fake::new();
    let refused =
        service.run(|| begin_release(vec![all().remove(0), OwnedResource::new("subnet", "subnet-1")]));
    assert!(matches!(refused, Err(Error::Permanent(_))));
    assert!(service.names().is_empty(), "and nothing beside it either");
}
