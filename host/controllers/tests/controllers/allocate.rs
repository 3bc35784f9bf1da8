//! HostAllocate: rows of contract 2, sections 2(b).7, 2(e) 23–24 and 2(f) capacity.

use std::sync::Arc;

use crate::support::cloud::Fate;
use crate::support::hosts::*;
use crate::support::modules::*;
use crate::support::*;
use holdfast_api::{EffectState, Phase};
use holdfast_controllers::Next;
use holdfast_effects::{CallOutcome, Callback, PollState, Returned};
use kube::ResourceExt as _;
use serde_json::json;

#[tokio::test]
async fn a_host_is_made_its_identity_and_what_it_owns_are_written_and_the_result_is_kept_2b7() {
    let world = World::for_allocate().await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.host_id().await.as_deref(), Some(PLANNED), "the plan stays until the host is confirmed");
    assert_eq!(daemon.step("op").await, Next::Done);
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "{:?} {:?}", status.reason, status.message);
    let result = status.target.clone().unwrap().result.unwrap();
    assert_eq!(result.provider_id.as_deref(), Some("fake://new"));
    let host = result.allocation.unwrap();
    assert_eq!((host.provider_resource_id.as_str(), host.zone.as_deref()), ("new", Some("z1")));
    assert_eq!(world.host_id().await.as_deref(), Some("fake://new"));
    let expected = [("volume".to_owned(), "vol-1".to_owned()), ("server".to_owned(), "new".to_owned())];
    assert_eq!(pairs(&status.owned_resources), expected);
    assert_eq!(world.machine_owned().await, expected);
    let uid = world.claims_api().get("web-1").await.unwrap().uid().unwrap();
    assert!(status.owned_resources.iter().all(|one| one.owner == uid), "the allocation owns them");
    assert!(status.owned_resources.iter().all(|one| one.zone.as_deref() == Some("z1")), "the plan's zone");
    assert_eq!(status.failure_code, None);
}

#[tokio::test]
async fn configuration_and_first_boot_data_are_given_when_the_allocation_begins_and_never_else_r2_25_r2_14() {
    let world = World::for_allocate_with(json!({ "classRef": { "name": "small" },
        "userData": { "secretRef": { "name": "boot" } } }))
    .await;
    world.secret_of_type("boot", "Opaque", "", &[("userData", b"#cloud-config\n")]).await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("op").await;
    let calls = world.module.calls.lock().unwrap().clone();
    let [
        Callback::BeginAllocate { config, lend, allocation, request },
        Callback::PollAllocate { lend: later, .. },
    ] = &calls[..]
    else {
        panic!("{:?}", world.module.called());
    };
    assert_eq!(*config, [("region".to_owned(), "north".to_owned())]);
    assert!(lend.user_data && !later.user_data && later.credentials);
    assert_eq!(allocation.planned_provider_id, PLANNED);
    assert_eq!((allocation.host_name.as_str(), allocation.offering.name.as_str()), ("web-1", "small-z1"));
    assert_eq!(allocation.uid, world.claims_api().get("web-1").await.unwrap().uid().unwrap());
    assert_eq!(request.uid, uid(&world.get("op").await), "replay is keyed on both uids");
    assert_eq!(*world.vault.user_data_ever.lock().unwrap(), [b"#cloud-config\n".to_vec()]);
    assert!(world.vault.user_data.lock().unwrap().is_empty(), "revoked after begin");
}

#[tokio::test]
async fn an_allocation_without_first_boot_data_is_lent_an_empty_one() {
    let world = World::for_allocate().await;
    *world.module.default.lock().unwrap() = Some(hosts());
    world.daemon().await.step("op").await;
    assert_eq!(*world.vault.user_data_ever.lock().unwrap(), [Vec::<u8>::new()]);
    let Callback::BeginAllocate { lend, .. } = world.module.last() else { panic!() };
    assert!(lend.user_data);
}

#[tokio::test]
async fn an_operation_that_the_allocation_does_not_name_reaches_nothing() {
    for (name, kind) in [("mine", "HostRelease"), ("mine", "HostAllocate"), ("op", "HostRelease")] {
        let world = World::for_allocate().await;
        let name = if name == "op" {
            // The right name and another kind: somebody deleted the allocation's own and made another.
            world.delete_operation("op").await;
            "op"
        } else {
            name
        };
        world.set_allocation(|s| s.owned_resources = vec![resource("server", "new", "x")]).await;
        world.allocation_operation(name, kind).await;
        let daemon = world.daemon().await;
        daemon.step(name).await;
        let status = world.status(name).await;
        assert_eq!(status.phase, Phase::Failed, "{name} {kind}");
        assert_eq!(status.reason.as_deref(), Some("NotTheAllocationsOperation"), "{name} {kind}");
        assert!(world.module.called().is_empty() && world.cloud.sends() == 0);
    }
}

#[tokio::test]
async fn an_operation_made_anew_under_the_name_is_not_the_allocations_once_its_uid_is_known() {
    let world = World::for_allocate().await;
    world.set_allocation(|s| s.operation_ref.as_mut().unwrap().uid = Some("another".to_owned())).await;
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("NotTheAllocationsOperation"));
}

/// Made in the moment between the allocation's word and the daemon's own operation, it would launch a host that nobody
/// takes over.
#[tokio::test]
async fn an_operation_made_by_hand_under_the_name_that_is_about_to_be_used_reaches_nothing() {
    let world = World::for_allocate().await;
    world.delete_operation("op").await;
    let spec = json!({ "machineRef": { "name": "web-1" }, "allocationRef": { "name": "web-1" },
        "operationKind": "HostAllocate" });
    world.operation_with("op", spec).await;
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("NotTheAllocationsOperation"));
    assert!(world.module.called().is_empty() && world.cloud.sends() == 0);
}

/// The create was answered by nobody, the allocation went on without it, and it arrived after all.
#[tokio::test]
async fn an_operation_that_appears_after_the_allocation_went_on_without_it_reaches_nothing() {
    let world = World::for_allocate().await;
    world.set_allocation(|status| status.operation_ended = true).await;
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("NotTheAllocationsOperation"));
    assert!(world.module.called().is_empty() && world.cloud.sends() == 0);
}

/// Field case F17.
#[tokio::test]
async fn nothing_is_launched_from_an_offering_that_is_no_longer_valid_r2_23() {
    let world = World::for_allocate().await;
    world.pass(3600);
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.reason.as_deref(), Some("OfferingExpired"));
    assert!(world.module.called().is_empty());
}

#[tokio::test]
async fn an_offering_that_expires_between_two_begins_of_which_none_sent_anything_ends_the_operation_r2_23() {
    let world = World::for_allocate().await;
    world.module.say(allocate_refused(false, "unavailable"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::InProgress);
    world.pass(3600);
    daemon.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("OfferingExpired"));
    assert_eq!(world.module.called(), ["begin-allocate"]);
}

#[tokio::test]
async fn an_offering_that_expires_within_a_begin_launches_nothing_r2_23() {
    let world = World::for_allocate().await;
    let clock = world.clock.clone();
    world.module.then(Arc::new(move |_, port| {
        let clock = clock.clone();
        Box::pin(async move {
            clock.advance(std::time::Duration::from_secs(3600));
            assert!(port.perform("server".into(), with_data("make")).await.is_err());
            allocate_refused(false, "unavailable")
        })
    }));
    let daemon = world.daemon().await;
    // The callback's own time is over as well; the offering is what ends it.
    daemon.step("op").await;
    world.pass_backoff("op").await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("OfferingExpired"));
    assert_eq!(world.cloud.sends(), 0);
}

#[tokio::test]
async fn what_was_begun_before_the_offering_expired_is_gone_on_with_r2_23() {
    let world = World::for_allocate().await;
    *world.module.default.lock().unwrap() = Some(hosts());
    world.cloud.lose_next();
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.pass(3590);
    daemon.step("op").await;
    world.pass(3600);
    for _ in 0..4 {
        daemon.step("op").await;
        world.pass(600);
    }
    let status = world.status("op").await;
    assert_ne!(status.reason.as_deref(), Some("OfferingExpired"));
    assert!(!status.owned_resources.is_empty() || status.phase == Phase::OutcomeUnknown, "{status:?}");
}

/// A module whose begin sends nothing and whose poll launches.
#[tokio::test]
async fn an_offering_that_expires_within_a_poll_launches_nothing_and_ends_the_operation_r2_23() {
    let world = World::for_allocate().await;
    world.module.say(allocate_begun("h"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let clock = world.clock.clone();
    world.module.then(Arc::new(move |_, port| {
        let clock = clock.clone();
        Box::pin(async move {
            clock.advance(std::time::Duration::from_secs(3600));
            assert!(port.perform("volume".into(), plain("volume")).await.is_err());
            allocate_polled(PollState::InProgress, None, "", "going on")
        })
    }));
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::InProgress);
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("OfferingExpired")));
    assert_eq!(world.module.called(), ["begin-allocate", "poll-allocate"], "nobody is asked again");
    assert_eq!(world.cloud.sends(), 0);
}

#[tokio::test]
async fn a_poll_goes_on_with_what_was_launched_before_the_offering_expired_r2_23() {
    let world = World::for_allocate().await;
    world.module.then(hosts());
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.pass(7200);
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            assert!(matches!(port.perform("more".into(), plain("volume")).await, Ok(CallOutcome::Done(_))));
            allocated("new")
        })
    }));
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "{:?}", status.message);
    assert_eq!(status.effects.len(), 3);
}

#[tokio::test]
async fn a_cancel_of_what_launched_nothing_until_its_offering_expired_is_a_cancel() {
    let world = World::for_allocate().await;
    world.module.say(allocate_begun("h"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.pass(3600);
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Canceled")));
    assert_eq!(world.module.called(), ["begin-allocate"]);
}

#[tokio::test]
async fn a_failed_allocation_keeps_what_it_made_for_a_release_r2_27() {
    let world = World::for_allocate().await;
    let made: Script = Arc::new(|_, port| {
        Box::pin(async move {
            for (key, request) in [("volume", plain("volume")), ("server", with_data("make"))] {
                assert!(matches!(port.perform(key.into(), request).await, Ok(CallOutcome::Done(_))));
            }
            allocate_begun("h")
        })
    });
    world.module.then(made).say(allocate_polled(PollState::Failed, None, "CapacityExhausted", "no network"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("CapacityExhausted")));
    assert_eq!(status.failure_code.as_deref(), Some("capacity-exhausted"));
    let expected = [("volume".to_owned(), "vol-1".to_owned()), ("server".to_owned(), "new".to_owned())];
    assert_eq!(pairs(&status.owned_resources), expected);
    assert_eq!(world.machine_owned().await, expected);
    assert_eq!(status.message.as_deref(), Some("no network; residual: volume vol-1, server new"));
    assert_eq!(world.host_id().await.as_deref(), Some(PLANNED));
}

#[tokio::test]
async fn a_begin_that_fails_after_two_of_three_resources_keeps_the_two_2e23() {
    let world = World::for_allocate().await;
    world.cloud.fates.lock().unwrap().extend([Fate::Done, Fate::Refused("quota-exceeded")]);
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            assert!(matches!(port.perform("volume".into(), plain("volume")).await, Ok(CallOutcome::Done(_))));
            assert!(port.perform("server".into(), with_data("make")).await.is_err());
            allocate_refused(true, "quota-exceeded")
        })
    }));
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.failure_code.as_deref()), (Phase::Failed, Some("quota-exceeded")));
    assert_eq!(pairs(&status.owned_resources), [("volume".to_owned(), "vol-1".to_owned())]);
}

/// Field case F02.
#[tokio::test]
async fn no_capacity_ends_the_operation_at_once_with_its_code_though_the_provider_calls_it_transient() {
    let world = World::for_allocate().await;
    world.module.say(allocate_refused(false, "capacity-exhausted"));
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.failure_code.as_deref()), (Phase::Failed, Some("capacity-exhausted")));
    assert!(status.owned_resources.is_empty());
}

/// Field cases E01 and E03.
#[tokio::test]
async fn other_transient_failures_are_tried_again_and_have_no_code_while_it_runs() {
    let world = World::for_allocate().await;
    world.module.say(allocate_refused(false, "unavailable"));
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.failure_code), (Phase::InProgress, None));
    assert_eq!(status.waiting.unwrap().reason, "BeginFailed");
}

#[tokio::test]
async fn a_trap_in_a_begin_is_a_lost_reply_and_in_a_poll_transient_2e24() {
    let world = World::for_allocate().await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            let _ = port.perform("volume".into(), plain("volume")).await;
            trap()
        })
    }));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::InProgress);
    *world.module.default.lock().unwrap() = Some(hosts());
    world.pass_backoff("op").await;
    daemon.step("op").await;
    assert_eq!(world.cloud.effects().len(), 2, "the volume of the first begin was found again");
    world.module.say(trap());
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::InProgress);
    world.pass(600);
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}

#[tokio::test]
async fn a_cancel_before_anything_was_sent_ends_at_once() {
    let world = World::for_allocate().await;
    world.module.say(allocate_refused(false, "unavailable"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Canceled")));
    assert_eq!(
        status.message.as_deref(),
        Some("the operation was cancelled"),
        "nothing is left, nothing is named"
    );
    assert_eq!(world.module.called(), ["begin-allocate"]);
}

#[tokio::test]
async fn a_cancel_after_the_handle_is_asked_of_the_provider_polled_to_its_end_and_says_what_is_left() {
    let world = World::for_allocate().await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    world.module.say(Ok(Returned::Cancel(Ok(()))));
    world.module.say(allocate_polled(PollState::InProgress, None, "", "stopping"));
    daemon.step("op").await;
    let waiting = world.status("op").await;
    assert_eq!(waiting.phase, Phase::InProgress, "asked is not stopped (R2.38)");
    world.module.say(allocate_polled(PollState::Canceled, None, "", "stopped"));
    daemon.step("op").await;
    assert_eq!(world.module.called(), ["begin-allocate", "cancel", "poll-allocate", "poll-allocate"]);
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Canceled")));
    let message = status.message.unwrap();
    assert!(message.ends_with("; residual: volume vol-1, server new"), "{message}");
    assert_eq!(status.owned_resources.len(), 2, "R2.27");
}

/// Field cases B14 and C01.
#[tokio::test]
async fn a_cancel_over_an_effect_in_doubt_settles_it_first_and_begins_nothing_new() {
    let world = World::for_allocate().await;
    *world.module.default.lock().unwrap() = Some(hosts());
    world.cloud.lose_next();
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.effects[0].state, EffectState::Intended);
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    world.pass_backoff("op").await;
    for _ in 0..3 {
        daemon.step("op").await;
        world.pass_backoff("op").await;
    }
    let status = world.status("op").await;
    assert_eq!(
        (status.phase, status.reason.as_deref()),
        (Phase::Failed, Some("Canceled")),
        "{:?}",
        status.message
    );
    assert_eq!(pairs(&status.owned_resources), [("volume".to_owned(), "vol-1".to_owned())]);
    assert!(world.cloud.sends.lock().unwrap().iter().all(|send| send.starts_with("volume")), "no server");
}

/// Makes the volume and the server, and is lost before the handle is told.
async fn made_and_lost() -> World {
    let world = World::for_allocate().await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            for (key, request) in [("volume", plain("volume")), ("server", with_data("make"))] {
                assert!(matches!(port.perform(key.into(), request).await, Ok(CallOutcome::Done(_))));
            }
            trap()
        })
    }));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let status = world.status("op").await;
    let handle = status.target.unwrap().provider_operation;
    assert!(handle.is_none() && status.effects.iter().all(|effect| effect.state == EffectState::Done));
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    world.pass_backoff("op").await;
    world
}

/// Only its polls tell what came with a host, such as disks that outlive it.
#[tokio::test]
async fn a_cancel_after_something_was_made_and_before_its_handle_was_stored_is_seen_to_its_end_attack_a8() {
    let world = made_and_lost().await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    for _ in 0..3 {
        daemon.step("op").await;
        world.pass_backoff("op").await;
    }
    assert_eq!(world.module.called(), ["begin-allocate", "begin-allocate", "cancel", "poll-allocate"]);
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "the host was made all the same: {:?}", status.message);
    assert_eq!(world.cloud.effects().len(), 2, "nothing was made anew");
}

#[tokio::test]
async fn a_begin_that_cannot_say_what_it_made_is_asked_again_and_ends_once_it_never_will_attack_a8() {
    let world = made_and_lost().await;
    let daemon = world.daemon().await;
    world.module.say(allocate_refused(false, "unavailable"));
    daemon.step("op").await;
    let status = world.status("op").await;
    let waiting = status.waiting.unwrap();
    assert_eq!((status.phase, waiting.reason.as_str()), (Phase::InProgress, "BeginFailed"));
    let message = status.message.unwrap();
    assert!(message.contains("what came with what it made"), "{message}");
    world.module.say(allocate_refused(true, "internal"));
    world.pass_backoff("op").await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Canceled")));
    assert_eq!(status.owned_resources.len(), 2, "what is known of it is released (R2.27)");
}

#[tokio::test]
async fn deadline_is_a_cancel_with_another_reason() {
    let world = World::of_hosts().await;
    world.planned(json!({ "classRef": { "name": "small" } })).await;
    world.name_operation("op", "HostAllocate").await;
    let spec = json!({ "machineRef": { "name": "web-1" }, "allocationRef": { "name": "web-1" },
        "operationKind": "HostAllocate", "deadlineSeconds": 60 });
    world.marked_operation("op", spec).await;
    world.module.say(allocate_refused(false, "unavailable"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.pass(60);
    daemon.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("DeadlineExceeded"));
}

#[tokio::test]
async fn other_work_on_a_machine_waits_for_nothing_that_is_only_planned_h8() {
    let world = World::of_hosts().await;
    world.planned(json!({ "classRef": { "name": "small" } })).await;
    let mut machine = world.machines().get("web-1").await.unwrap();
    machine.status.get_or_insert_default().allocation = Some("web-1".to_owned());
    world.machines().replace_status("web-1", &Default::default(), &machine).await.unwrap();
    world
        .operation_with("reboot", json!({ "machineRef": { "name": "web-1" }, "operationKind": "HostReboot" }))
        .await;
    let daemon = world.daemon().await;
    daemon.step("reboot").await;
    assert_eq!(world.status("reboot").await.reason.as_deref(), Some("HostNotAllocated"));
    world.set_allocation(|status| status.result = Some(Default::default())).await;
    world
        .operation_with("again", json!({ "machineRef": { "name": "web-1" }, "operationKind": "HostReboot" }))
        .await;
    world.module.say(accepted("h"));
    daemon.step("again").await;
    assert_eq!(world.module.called(), ["begin"]);
    let input = world.target("again").await.input.unwrap();
    assert!(input.allocation.is_none(), "R2.30");
}

#[tokio::test]
async fn each_attempt_of_an_allocation_has_tokens_of_its_own() {
    let world = World::for_allocate().await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    world.module.say(Ok(Returned::Cancel(Ok(()))));
    world.module.say(allocate_polled(PollState::Canceled, None, "", ""));
    daemon.step("op").await;
    world.set_allocation(|status| status.attempt = 1).await;
    world.name_operation("op-1", "HostAllocate").await;
    world.allocation_operation("op-1", "HostAllocate").await;
    daemon.step("op-1").await;
    let first = world.status("op").await.effects[0].token.clone();
    let second = world.status("op-1").await.effects[0].token.clone();
    assert!(!first.is_empty() && first != second);
    assert_eq!(world.target("op-1").await.input.unwrap().allocation.unwrap().attempt, 1);
}

#[tokio::test]
async fn nothing_is_begun_for_an_allocation_that_is_being_deleted() {
    let world = World::for_allocate().await;
    let held = kube::api::Patch::Merge(json!({ "metadata": { "finalizers": ["holdfast.dev/allocation"] } }));
    world.claims_api().patch("web-1", &Default::default(), &held).await.unwrap();
    world.claims_api().delete("web-1", &Default::default()).await.unwrap();
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("Canceled"));
    assert!(world.module.called().is_empty());
}

#[tokio::test]
async fn an_abandoned_allocation_says_what_may_be_left_and_keeps_what_is_recorded() {
    let world = World::for_allocate().await;
    *world.module.default.lock().unwrap() = Some(hosts());
    world.cloud.fates.lock().unwrap().extend([Fate::Done, Fate::Lost]);
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let word = json!({ "spec": { "resolve": { "effect": "server", "outcome": "Abandon" } } });
    world.patch_operation("op", word).await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Abandoned")));
    let message = status.message.unwrap();
    assert!(message.ends_with("residual: volume vol-1, perhaps what the effect server did"), "{message}");
    assert_eq!(status.owned_resources.len(), 1);
    assert_eq!(status.effects[1].state, EffectState::Abandoned);
}

/// 2(b).7: the config of the class and the objects may change; what was frozen is what is worked with (R2.15).
#[tokio::test]
async fn the_input_is_frozen_when_the_operation_starts_r2_15() {
    let world = World::for_allocate().await;
    world.module.say(allocate_refused(false, "unavailable"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world
        .set_allocation(|status| {
            status.config.insert("region".to_owned(), "south".to_owned());
            status.plan.as_mut().unwrap().host_image = "img-2".to_owned();
        })
        .await;
    world.pass_backoff("op").await;
    *world.module.default.lock().unwrap() = Some(hosts());
    daemon.step("op").await;
    let Callback::BeginAllocate { config, allocation, .. } = world.module.last() else { panic!() };
    assert_eq!(config, [("region".to_owned(), "north".to_owned())]);
    assert_eq!(allocation.host_image, "img-1");
}

/// A long message doesn't push out of an event what is left.
#[tokio::test]
async fn an_event_says_what_is_left_however_much_the_provider_says() {
    let world = World::for_allocate().await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let mut daemon = world.daemon().await;
    daemon.step("op").await;
    world.module.say(allocate_polled(PollState::Failed, None, "Broken", &"words ".repeat(400)));
    daemon.step("op").await;
    daemon.controllers.flush_events().await;
    let api: kube::Api<k8s_openapi::api::core::v1::Event> =
        kube::Api::namespaced(world.client.clone(), holdfast_api::SYSTEM_NAMESPACE);
    let events = api.list(&Default::default()).await.unwrap().items;
    let notes: Vec<String> = events.into_iter().filter_map(|event| event.message).collect();
    assert!(notes.iter().any(|note| note.ends_with("; residual: volume vol-1, server new")), "{notes:?}");
    assert!(notes.iter().all(|note| note.len() <= 1024));
}
