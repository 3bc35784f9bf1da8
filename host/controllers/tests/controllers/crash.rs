//! The daemon dies at every durable write, before it lands and after, and is started again (X.2 rule 1): the operation
//! ends, and each effect happened exactly once.

use std::sync::Arc;

use holdfast_api::Phase;
use holdfast_controllers::Next;
use holdfast_effects::{CallOutcome, Callback, PollState, Returned};
use serde_json::json;

use crate::support::faults::Plan;
use crate::support::hosts::hosts;
use crate::support::modules::*;
use crate::support::*;

/// Performs, and answers "come back" while the effect is in doubt, as the contract asks.
fn provider() -> Script {
    Arc::new(|callback, port| {
        Box::pin(async move {
            let doubt = || failure(false, "InDoubt", "an effect is in doubt");
            match callback {
                Callback::Begin { .. } => match port.perform("make".into(), plain("make")).await {
                    Ok(CallOutcome::Done(_)) => accepted("h"),
                    _ => Ok(Returned::Begin(Err(doubt()))),
                },
                Callback::Poll { .. } => {
                    polled(PollState::Succeeded, Some(result(Some("fake://new"), Some("fake://old"))), "", "")
                }
                Callback::Execute { .. } => match port.perform("set".into(), on("set", "old")).await {
                    Ok(CallOutcome::Done(_)) => executed(),
                    _ => Ok(Returned::Execute(Err(doubt()))),
                },
                Callback::Cleanup { .. } => match port.perform("drop".into(), on("drop", "old")).await {
                    Ok(CallOutcome::Done(_)) => Ok(Returned::Cleanup(Ok(()))),
                    _ => Ok(Returned::Cleanup(Err(doubt()))),
                },
                Callback::Cancel { .. } => Ok(Returned::Cancel(Ok(()))),
                other => panic!("{} belongs to an allocation", name_of(&other)),
            }
        })
    })
}

/// Drives until the operation has ended or the daemon has died.
async fn drive(world: &World, daemon: &Daemon) {
    for _ in 0..30 {
        let step = async {
            daemon.controllers.refresh().await?;
            daemon.controllers.reconcile("op").await.map_err(|error| kube::Error::Service(error.into()))
        };
        let next = tokio::select! {
            next = step => next,
            () = daemon.plan.death() => return,
        };
        if world.status("op").await.phase.is_terminal() && next.is_ok_and(|next| next == Next::Done) {
            return;
        }
        world.pass(600);
    }
    panic!("no end: {:?}", world.status("op").await);
}

/// Dies at a write, then lives again. Returns whether it died at all.
async fn killed_at(kind: &str, write: i64, lands: bool, effects: &[&str]) -> bool {
    let world = World::for_replace().await;
    *world.module.default.lock().unwrap() = Some(provider());
    world.operation("op", kind).await;
    let plan = Plan::at(write, lands);
    let daemon = world.daemon_under(plan.clone()).await;
    drive(&world, &daemon).await;
    drop(daemon);
    world.pass(1);
    drive(&world, &world.daemon().await).await;
    let at = format!("{kind}, write {write}, {}", if lands { "after it" } else { "before it" });
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "{at}: {:?} {:?}", status.reason, status.message);
    let calls: Vec<String> =
        world.cloud.effects().iter().map(|effect| effect.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(calls, effects, "{at}");
    for call in effects {
        let sent = world.cloud.sends.lock().unwrap().iter().filter(|send| send.starts_with(call)).count();
        // An effect whose outcome could not be written is sent again as its declaration allows, with the same token.
        assert!(sent <= 2, "{at}: {call} sent {sent} times");
    }
    if kind == "HostReplace" {
        assert_eq!(world.provider_id().await.as_deref(), Some("fake://new"), "{at}");
        let owned = world.machines().get("m").await.unwrap().status.unwrap().owned_resources;
        assert_eq!(owned.len(), 1, "{at}: {owned:?}");
    }
    assert!(world.get("op").await.metadata.finalizers.unwrap_or_default().is_empty(), "{at}");
    plan.is_dead()
}

async fn sweep(kind: &str, effects: &[&str], at_least: i64) {
    let mut write = 0;
    loop {
        let before = killed_at(kind, write, false, effects).await;
        let after = killed_at(kind, write, true, effects).await;
        if !before && !after {
            break;
        }
        write += 1;
    }
    assert!(write >= at_least, "only {write} durable writes were found");
}

/// Field case A13.
#[tokio::test]
async fn a_replacement_survives_a_crash_at_every_write_with_one_new_and_one_removed_host() {
    sweep("HostReplace", &["drop", "make"], 9).await;
}

#[tokio::test]
async fn a_replay_safe_operation_survives_a_crash_at_every_write_with_one_effect() {
    sweep("HostPowerOff", &["set"], 5).await;
}

/// Not replay-safe: it ends by itself, or a person is asked; there is never a second effect.
#[tokio::test]
async fn an_operation_that_may_not_be_repeated_never_has_a_second_effect() {
    for write in 0..10 {
        for lands in [false, true] {
            let world = World::new().await;
            *world.module.default.lock().unwrap() = Some(provider());
            world.operation("op", "HostPowerOn").await;
            let daemon = world.daemon_under(Plan::at(write, lands)).await;
            drive(&world, &daemon).await;
            drop(daemon);
            world.pass(1);
            let daemon = world.daemon().await;
            for _ in 0..5 {
                daemon.step("op").await;
                world.pass(600);
            }
            let status = world.status("op").await;
            assert!(
                matches!(status.phase, Phase::Complete | Phase::OutcomeUnknown),
                "{write} {lands}: {:?}",
                status.phase
            );
            assert!(world.cloud.sends() <= 1, "{write} {lands}");
        }
    }
}

/// A host is made, or one is released, and the daemon dies at a write. `token_changes`: the value of the template is
/// another one after the crash.
async fn host_killed_at(kind: &str, write: i64, lands: bool) -> bool {
    let world = if kind == "HostAllocate" {
        let template = json!({ "configMapRef": { "name": "boot" },
            "values": [{ "name": "token", "secretRef": { "name": "join" } }] });
        let world = World::for_allocate_with(json!({ "classRef": { "name": "small" },
            "userData": { "template": template } }))
        .await;
        world.template("boot", "template", "join {{ values.token }}").await;
        world.secret_of_type("join", "Opaque", "", &[("token", b"first-token")]).await;
        world
    } else {
        World::for_release(&[("volume", "vol-1"), ("server", "new")]).await
    };
    *world.module.default.lock().unwrap() = Some(hosts());
    let plan = Plan::at(write, lands);
    let daemon = world.daemon_under(plan.clone()).await;
    drive(&world, &daemon).await;
    drop(daemon);
    if kind == "HostAllocate" {
        let mut secret = world.secrets().get("join").await.unwrap();
        let value = k8s_openapi::ByteString(b"another-token".to_vec());
        secret.data.as_mut().unwrap().insert("token".to_owned(), value);
        world.secrets().replace("join", &Default::default(), &secret).await.unwrap();
    }
    world.pass(1);
    drive(&world, &world.daemon().await).await;
    let at = format!("{kind}, write {write}, {}", if lands { "after it" } else { "before it" });
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "{at}: {:?} {:?}", status.reason, status.message);
    assert_eq!(world.cloud.effects().len(), 2, "{at}: {:?}", world.cloud.effects());
    assert!(world.kept().await.is_empty(), "{at}: first-boot data was left behind");
    let owned = if kind == "HostAllocate" { 2 } else { 0 };
    assert_eq!(status.owned_resources.len(), owned, "{at}");
    if kind == "HostAllocate" {
        assert_eq!(world.host_id().await.as_deref(), Some("fake://new"), "{at}");
        assert_eq!(world.machine_owned().await.len(), 2, "{at}");
        assert!(status.target.unwrap().result.unwrap().allocation.is_some(), "{at}");
    }
    plan.is_dead()
}

async fn host_sweep(kind: &str, at_least: i64) {
    let mut write = 0;
    while host_killed_at(kind, write, false).await | host_killed_at(kind, write, true).await {
        write += 1;
    }
    assert!(write >= at_least, "only {write} durable writes were found");
}

/// 2(b).7: the token of the first-boot data has changed by the time the daemon lives again.
/// Field cases A08 and D18.
#[tokio::test]
async fn an_allocation_survives_a_crash_at_every_write_with_one_host_and_no_first_boot_data_left() {
    host_sweep("HostAllocate", 12).await;
}

#[tokio::test]
async fn a_release_survives_a_crash_at_every_write_and_destroys_each_thing_once() {
    host_sweep("HostRelease", 8).await;
}
