//! HostRelease: rows of contract 2, sections 2(b).7, 2(e) 23 and 2(f) capacity.

use std::sync::Arc;

use crate::support::cloud::Fate;
use crate::support::hosts::*;
use crate::support::modules::*;
use crate::support::*;
use holdfast_api::{AllocationPhase, Phase};
use holdfast_controllers::Next;
use holdfast_effects::{Callback, PollState, Returned};
use kube::api::DeleteParams;
use serde_json::json;

const BOTH: &[(&str, &str)] = &[("volume", "vol-1"), ("server", "new")];

async fn end(world: &World, daemon: &Daemon) {
    for _ in 0..8 {
        if world.status("op").await.phase.is_terminal() {
            return;
        }
        daemon.step("op").await;
        world.pass(600);
    }
    panic!("no end: {:?}", world.status("op").await);
}

#[tokio::test]
async fn a_release_is_given_what_is_recorded_and_nothing_else_r2_26_r2_25() {
    let world = World::for_release(BOTH).await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    end(&world, &daemon).await;
    let calls = world.module.calls.lock().unwrap().clone();
    let [
        Callback::BeginRelease { owned, lend, .. },
        Callback::PollRelease { owned: later, lend: polled, .. },
    ] = &calls[..]
    else {
        panic!("{:?}", world.module.called());
    };
    let named: Vec<_> = owned.iter().map(|one| (one.kind.as_str(), one.id.as_str())).collect();
    assert_eq!(named, BOTH);
    assert_eq!(later, owned, "what it destroyed itself it may look at again");
    assert!(!lend.user_data && !polled.user_data, "R2.25");
    assert!(world.vault.user_data_ever.lock().unwrap().is_empty());
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "{:?}", status.message);
    assert!(status.owned_resources.is_empty());
    let target = status.target.unwrap();
    assert!(target.result.unwrap().remaining.is_empty());
    assert!(target.input.unwrap().user_data.is_none());
    assert_eq!(world.cloud.effects().len(), 2);
}

#[tokio::test]
async fn a_release_with_an_empty_list_succeeds_without_a_call_or_a_provider_2e23() {
    let world = World::for_release(&[]).await;
    *world.modules.module.lock().unwrap() = None;
    let daemon = world.daemon().await;
    assert_eq!(daemon.step("op").await, Next::Done);
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete);
    assert!(status.target.unwrap().result.unwrap().remaining.is_empty());
    assert!(world.module.called().is_empty() && world.cloud.sends() == 0);
}

/// Field case C02.
#[tokio::test]
async fn a_release_of_what_is_gone_already_succeeds_2e23() {
    let world = World::for_release(BOTH).await;
    world.cloud.fates.lock().unwrap().extend([Fate::Gone, Fate::Gone]);
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    end(&world, &daemon).await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}

#[tokio::test]
async fn a_release_that_is_asked_for_a_neighbour_destroys_nothing_r2_26() {
    let world = World::for_release(BOTH).await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            assert!(port.perform("k".into(), on("drop", "neighbour")).await.is_err());
            // Its own planned locator is nobody's either (hole H8).
            assert!(port.perform("k".into(), on("drop", "web-1")).await.is_err());
            assert!(port.perform("k".into(), plain("make")).await.is_err(), "a release makes nothing");
            release_begun("r")
        })
    }));
    world.daemon().await.step("op").await;
    assert_eq!(world.cloud.sends(), 0);
}

/// Field case E13.
#[tokio::test]
async fn a_release_is_not_believed_over_a_resource_that_nobody_has_seen_gone() {
    let world = World::for_release(BOTH).await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            port.perform("s".into(), on("drop", "new")).await.unwrap();
            release_begun("r")
        })
    }));
    world.module.say(release_polled(PollState::Succeeded, "", ""));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::InProgress);
    assert!(status.message.unwrap().contains("UnreleasedResources"));
    // A poll that is not believed shows nothing, not even of what was deleted.
    let left = [("volume", "vol-1"), ("server", "new")].map(|(kind, id)| (kind.to_owned(), id.to_owned()));
    assert_eq!(pairs(&status.owned_resources), left);
}

#[tokio::test]
async fn what_a_read_has_shown_to_be_gone_stays_released_in_later_polls() {
    let world = World::for_release(BOTH).await;
    let look: Script = Arc::new(|_, port| {
        Box::pin(async move {
            assert!(port.read(on("volume-status", "vol-1")).await.is_err());
            release_polled(PollState::InProgress, "", "")
        })
    });
    world.module.say(release_begun("r")).then(look);
    world.module.then(Arc::new(|callback, port| {
        Box::pin(async move {
            let Callback::PollRelease { owned, .. } = callback else { panic!() };
            assert_eq!(owned.len(), 1, "the volume is no longer named: its id may be somebody else's by now");
            port.perform("s".into(), on("drop", "new")).await.unwrap();
            release_polled(PollState::Succeeded, "", "")
        })
    }));
    world.cloud.fates.lock().unwrap().push_back(Fate::Gone);
    let daemon = world.daemon().await;
    end(&world, &daemon).await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "{:?}", status.message);
    assert!(status.owned_resources.is_empty());
}

#[tokio::test]
async fn a_failed_release_says_what_is_left_and_another_one_releases_just_that_2e23() {
    let world = World::for_release(BOTH).await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            port.perform("s".into(), on("drop", "new")).await.unwrap();
            release_begun("r")
        })
    }));
    world.module.say(release_polled(PollState::Failed, "VolumeInUse", "the volume is in use"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("VolumeInUse")));
    let left = [("volume".to_owned(), "vol-1".to_owned())];
    assert_eq!(pairs(&status.owned_resources), left);
    assert_eq!(pairs(&status.target.unwrap().result.unwrap().remaining), left);
    assert_eq!(status.message.as_deref(), Some("the volume is in use; residual: volume vol-1"));
    // As the allocation controller goes on.
    world.set_allocation(|s| s.owned_resources.retain(|one| one.kind == "volume")).await;
    world.name_operation("op-1", "HostRelease").await;
    world.allocation_operation("op-1", "HostRelease").await;
    *world.module.default.lock().unwrap() = Some(hosts());
    daemon.step("op-1").await;
    daemon.step("op-1").await;
    assert_eq!(world.status("op-1").await.phase, Phase::Complete);
    assert_eq!(world.cloud.effects().len(), 2, "the server was destroyed once");
}

/// What waited behind the release would make another host, on a machine that is about to go with its allocation.
#[tokio::test]
async fn nothing_else_is_begun_on_a_machine_whose_host_is_being_released() {
    let world = World::for_release(BOTH).await;
    let mut machine = world.machines().get("web-1").await.unwrap();
    machine.status.get_or_insert_default().allocation = Some("web-1".to_owned());
    world.machines().replace_status("web-1", &Default::default(), &machine).await.unwrap();
    world
        .set_allocation(|status| {
            status.phase = AllocationPhase::Releasing;
            status.result = Some(Default::default());
        })
        .await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    let again = json!({ "machineRef": { "name": "web-1" }, "operationKind": "HostReboot" });
    world.operation_with("during", again.clone()).await;
    end(&world, &daemon).await;
    let asked = world.module.called().len();
    world.operation_with("after", again).await;
    for name in ["during", "after"] {
        daemon.step(name).await;
        assert_eq!(world.status(name).await.reason.as_deref(), Some("HostNotAllocated"), "{name}");
    }
    assert_eq!(world.module.called().len(), asked, "nobody was asked");
}

#[tokio::test]
async fn a_machine_that_is_gone_does_not_stop_a_release() {
    let world = World::for_release(BOTH).await;
    *world.module.default.lock().unwrap() = Some(hosts());
    world.machines().delete("web-1", &DeleteParams::default()).await.unwrap();
    let daemon = world.daemon().await;
    end(&world, &daemon).await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
    assert_eq!(world.cloud.effects().len(), 2);
}

#[tokio::test]
async fn a_machine_that_goes_in_the_middle_does_not_stop_a_release() {
    let world = World::for_release(BOTH).await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.machines().delete("web-1", &DeleteParams::default()).await.unwrap();
    end(&world, &daemon).await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}

#[tokio::test]
async fn what_later_operations_made_for_the_machine_is_released_with_it() {
    let world = World::for_release(BOTH).await;
    let mut machine = world.machines().get("web-1").await.unwrap();
    let later = vec![resource("server", "new", "x"), resource("server", "replaced", "another-operation")];
    machine.status.get_or_insert_default().owned_resources = later;
    world.machines().replace_status("web-1", &Default::default(), &machine).await.unwrap();
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    end(&world, &daemon).await;
    let recorded = world.target("op").await.input.unwrap().allocation.unwrap().owned_resources;
    assert_eq!(recorded.len(), 3);
    assert_eq!(world.status("op").await.phase, Phase::Complete);
    assert!(world.machine_owned().await.is_empty());
}

#[tokio::test]
async fn a_release_that_has_begun_is_cancelled_by_nothing_and_ended_by_abandon_alone() {
    let world = World::for_release(BOTH).await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    world.delete_operation("op").await;
    world.module.say(release_polled(PollState::InProgress, "", ""));
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::InProgress);
    assert!(status.waiting.unwrap().way_out.contains("Abandon"), "every wait says its own way out");
    assert_eq!(world.module.called(), ["begin-release", "poll-release"], "nor is the provider asked to stop");
    let word = json!({ "spec": { "resolve": { "effect": "drop-new", "outcome": "Abandon" } } });
    world.patch_operation("op", word).await;
    daemon.step("op").await;
    // The finalizer is off: the deleted operation is gone.
    assert!(world.operations().get_opt("op").await.unwrap().is_none());
}

#[tokio::test]
async fn a_release_that_has_not_begun_is_cancelled_at_once() {
    let world = World::for_release(BOTH).await;
    world.module.say(Ok(Returned::BeginRelease(Err(failure(false, "Busy", "come back")))));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Canceled")));
    assert_eq!(status.owned_resources.len(), 2, "what is recorded stays recorded");
}
