//! Results: written to the machine, cleaned up after, completed (R2.9, R2.10, edge cases 12 to 14).

use std::sync::Arc;

use holdfast_api::{OwnedResource, Phase};
use holdfast_controllers::Next;
use holdfast_effects::{Callback, PollState, Returned};

use crate::support::modules::*;
use crate::support::*;

fn cleaned() -> Answer {
    Ok(Returned::Cleanup(Ok(())))
}

/// Begins by making the server `new`.
fn making() -> Script {
    Arc::new(|_, port| {
        Box::pin(async move {
            port.perform("make".into(), plain("make")).await.unwrap();
            accepted("h")
        })
    })
}

fn succeeded(new: Option<&str>, cleanup: Option<&str>) -> Answer {
    polled(PollState::Succeeded, Some(result(new, cleanup)), "", "")
}

#[tokio::test]
async fn the_machine_is_patched_before_cleanup_and_the_generation_is_the_one_after_r2_10() {
    let world = World::for_replace().await;
    world.operation("op", "HostReplace").await;
    let daemon = world.daemon().await;
    let machines = world.machines();
    world.module.then(making()).say(succeeded(Some("fake://new"), Some("fake://old"))).then(Arc::new(
        move |callback, port| {
            let machines = machines.clone();
            Box::pin(async move {
                let machine = machines.get("m").await.unwrap();
                assert_eq!(machine.spec.host.external.provider_id.as_deref(), Some("fake://new"));
                let Callback::Cleanup { request, result, .. } = callback else { panic!("cleanup") };
                assert_eq!(request.machine.provider_id.as_deref(), Some("fake://new"));
                assert_eq!(result.cleanup_provider_id.as_deref(), Some("fake://old"));
                port.perform("drop".into(), on("drop", "old")).await.unwrap();
                cleaned()
            })
        },
    ));
    daemon.step("op").await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "{:?}", status.message);
    assert_eq!(status.observed_machine_generation, Some(2));
    let target = status.target.unwrap();
    assert!(target.result_applied && target.result.unwrap().provider_id.as_deref() == Some("fake://new"));
    assert_eq!(target.input.unwrap().provider_id.as_deref(), Some("fake://old"));
    let mine = OwnedResource {
        binding: "api/here".into(),
        kind: "server".into(),
        id: "new".into(),
        owner: uid(&world.get("op").await),
        ..OwnedResource::default()
    };
    assert_eq!(status.owned_resources, std::slice::from_ref(&mine));
    let machine = world.machines().get("m").await.unwrap();
    assert_eq!(machine.status.unwrap().owned_resources, [mine], "copied before Complete");
}

/// X.3: upstream loses the cleanup of an immediate operation when it fails once.
#[tokio::test]
async fn a_cleanup_that_fails_is_repeated_and_nothing_else_is() {
    let world = World::for_replace().await;
    world.operation("op", "HostReplace").await;
    let daemon = world.daemon().await;
    world.module.then(making()).say(succeeded(Some("fake://new"), Some("fake://old")));
    world.module.say(Ok(Returned::Cleanup(Err(failure(false, "Busy", "later"))))).say(trap()).say(cleaned());
    daemon.step("op").await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.waiting.unwrap().reason, "CleanupFailed");
    world.pass_backoff("op").await;
    world.daemon().await.step("op").await;
    world.pass_backoff("op").await;
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
    assert_eq!(world.module.called(), ["begin", "poll", "cleanup", "cleanup", "cleanup"]);
}

#[tokio::test]
async fn an_immediate_result_is_stored_before_the_patch_and_resumes_at_cleanup() {
    let world = World::new().await;
    world.operation("op", "HostRebuild").await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            port.perform("make".into(), plain("make")).await.unwrap();
            Ok(Returned::Execute(Ok(result(Some("fake://new"), Some("fake://old")))))
        })
    }));
    world.module.say(Ok(Returned::Cleanup(Err(failure(false, "Busy", "later")))));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.provider_id().await.as_deref(), Some("fake://new"));
    world.module.say(cleaned());
    world.pass_backoff("op").await;
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
    assert_eq!(world.module.called(), ["execute", "cleanup", "cleanup"], "HostRebuild isn't replay-safe");
}

/// Edge case 12.
#[tokio::test]
async fn a_result_equal_to_the_current_identity_patches_nothing_and_the_end_is_one_write() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h")).say(succeeded(Some("fake://old"), None));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let before = daemon.plan.objects_written().len();
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.observed_machine_generation), (Phase::Complete, Some(1)));
    let writes = daemon.plan.objects_written().split_off(before);
    assert_eq!(writes.iter().filter(|w| w.contains("operations/op/status")).count(), 1, "{writes:?}");
    assert!(!writes.iter().any(|w| w.starts_with("PATCH")), "{writes:?}");
}

/// Edge case 13.
/// X.3: what an execution answered is kept when the machine can't be written at the end.
/// Field case A12.
#[tokio::test]
async fn a_success_is_not_forgotten_when_the_machine_can_not_be_written() {
    let world = World::new().await;
    world.operation("op", "HostPowerOn").await;
    let daemon = world.daemon().await;
    let plan = daemon.plan.clone();
    world.module.then(Arc::new(move |_, port| {
        *plan.flaky.lock().unwrap() = Some(("machines/m/status".into(), 1));
        Box::pin(async move {
            port.perform("k".into(), on("set", "old")).await.unwrap();
            executed()
        })
    }));
    daemon.failing_step("op").await;
    assert_eq!(world.target("op").await.stage.as_deref(), Some("ApplyingResult"));
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
    assert_eq!((world.module.count("execute"), world.cloud.sends()), (1, 1));
}

#[tokio::test]
async fn a_cleanup_of_the_new_host_is_refused() {
    let world = World::for_replace().await;
    world.operation("op", "HostReplace").await;
    world.module.then(making()).say(succeeded(Some("fake://new"), Some("fake://new")));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Failed);
    assert_eq!(world.module.count("cleanup"), 0);
    assert_eq!(world.provider_id().await.as_deref(), Some("fake://old"));
}

/// Hole H8: an identity that no effect of this operation made.
#[tokio::test]
async fn a_result_that_claims_a_neighbour_is_refused_for_good() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h")).say(succeeded(Some("fake://neighbour"), None));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("ForeignIdentity")));
    assert_eq!(world.provider_id().await.as_deref(), Some("fake://old"));
}

/// X.3: upstream drops what a failed operation made.
#[tokio::test]
async fn what_a_failed_operation_made_is_recorded_on_the_machine() {
    let world = World::for_replace().await;
    world.operation("op", "HostReplace").await;
    world.module.then(making()).say(polled(PollState::Failed, None, "NoBoot", "it does not boot"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(daemon.step("op").await, Next::Done);
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("NoBoot")));
    let owned = world.machines().get("m").await.unwrap().status.unwrap().owned_resources;
    assert_eq!((owned.len(), owned[0].id.as_str()), (1, "new"));
}

#[tokio::test]
async fn a_provider_that_ends_without_a_reason_gives_its_state_as_one() {
    for (state, reason) in [(PollState::Failed, "Failed"), (PollState::Canceled, "Canceled")] {
        let world = World::new().await;
        world.operation("op", "HostReboot").await;
        world.module.say(accepted("h")).say(poll(state));
        let daemon = world.daemon().await;
        daemon.step("op").await;
        daemon.step("op").await;
        let status = world.status("op").await;
        assert_eq!(status.phase, Phase::Failed);
        assert!(status.reason.is_some_and(|r| r == reason || r == "ProviderStatus"), "{reason}");
    }
}

/// Edge case 4.
#[tokio::test]
async fn an_unknown_state_is_waited_out() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world
        .module
        .say(accepted("h"))
        .say(poll(PollState::Other("Dreaming".into())))
        .say(poll(PollState::Succeeded));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(daemon.step("op").await, after(15));
    let status = world.status("op").await;
    assert_eq!(
        (status.phase, status.waiting.unwrap().reason.as_str()),
        (Phase::InProgress, "UnknownProviderState")
    );
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}

/// An identity that was removed may come to be somebody else's: it is owned no longer.
#[tokio::test]
async fn what_a_cleanup_removed_is_owned_no_longer() {
    let world = World::for_replace().await;
    let mut machine = world.machines().get("m").await.unwrap();
    let old = |id: &str| OwnedResource {
        binding: "api/here".into(),
        kind: "server".into(),
        id: id.into(),
        owner: "an operation before".into(),
        ..OwnedResource::default()
    };
    machine.status = Some(holdfast_api::MachineStatus {
        owned_resources: vec![old("old"), old("disk")],
        ..holdfast_api::MachineStatus::default()
    });
    world.machines().replace_status("m", &Default::default(), &machine).await.unwrap();
    world.operation("op", "HostReplace").await;
    world.module.then(making()).say(succeeded(Some("fake://new"), Some("fake://old"))).then(Arc::new(
        |_, port| {
            Box::pin(async move {
                port.perform("drop".into(), on("drop", "old")).await.unwrap();
                cleaned()
            })
        },
    ));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("op").await;
    let owned = world.machines().get("m").await.unwrap().status.unwrap().owned_resources;
    let mut ids: Vec<&str> = owned.iter().map(|owned| owned.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["disk", "new"]);
    let own = world.status("op").await.owned_resources;
    assert_eq!(own.len(), 1, "what was owned before is not this operation's: {own:?}");
}
