//! The controllers as the daemon runs them: lease, watches, queue, shutdown.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use holdfast_api::{CREDENTIAL_SECRET_TYPE, MachineClassStatus, MachineOperation, PROVIDER_LABEL, Phase};
use holdfast_controllers::Controllers;
use holdfast_effects::{PollState, Returned};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchParams};
use serde_json::json;
use tokio::sync::watch;

use crate::support::capacity::class_condition;
use crate::support::modules::*;
use crate::support::*;

/// Waits, by watching, until an operation is as wanted. The deadline is for hangs only.
async fn until(world: &World, name: &str, wanted: impl Fn(&MachineOperation) -> bool) -> MachineOperation {
    let wait = async {
        loop {
            let version = {
                let operation = world.get(name).await;
                if wanted(&operation) {
                    return operation;
                }
                operation.metadata.resource_version.unwrap()
            };
            let events = world.operations().watch(&WatchParams::default(), &version).await.unwrap();
            let _ = events.boxed().next().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.expect("it did not get there")
}

/// Waits, by watching, until the operation of a name is there.
async fn until_there(world: &World, name: &str) {
    let wait = async {
        loop {
            let list = world.operations().list(&ListParams::default()).await.unwrap();
            if list.items.iter().any(|operation| operation.name_any() == name) {
                return;
            }
            let version = list.metadata.resource_version.unwrap();
            let events = world.operations().watch(&WatchParams::default(), &version).await.unwrap();
            let _ = events.boxed().next().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.expect("it was not made");
}

/// Waits, by watching, until class `c` is as wanted.
async fn class_until(world: &World, wanted: impl Fn(&MachineClassStatus) -> bool) {
    let wait = async {
        loop {
            let class = world.classes().get("c").await.unwrap();
            if wanted(&class.status.unwrap_or_default()) {
                return;
            }
            let version = class.metadata.resource_version.unwrap();
            let events = world.classes().watch(&WatchParams::default(), &version).await.unwrap();
            let _ = events.boxed().next().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.expect("the class did not get there");
}

struct Running {
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

fn run(world: &World) -> Running {
    let mut registry = prometheus_client::registry::Registry::default();
    let controllers = Controllers::new(world.deps(world.client.clone()), &mut registry);
    let (stop, stopped) = watch::channel(false);
    Running { stop, task: tokio::spawn(controllers.run(stopped)) }
}

impl Running {
    async fn end(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(Duration::from_secs(60), self.task).await.expect("an orderly end").unwrap();
    }
}

fn phase(operation: &MachineOperation) -> Phase {
    operation.status.as_ref().map_or(Phase::Pending, |status| status.phase)
}

#[tokio::test]
async fn an_operation_is_driven_to_its_end_by_watch_and_queue() {
    let world = World::new().await;
    world.module.say(accepted("h")).say(poll(PollState::InProgress)).say(poll(PollState::Succeeded));
    let running = run(&world);
    world.operation("op", "HostReboot").await;
    until(&world, "op", |o| {
        o.status.as_ref().is_some_and(|s| s.target.as_ref().is_some_and(|t| t.provider_operation.is_some()))
    })
    .await;
    while phase(&world.get("op").await) != Phase::Complete {
        world.pass(15);
        tokio::task::yield_now().await;
    }
    assert_eq!(world.module.called(), ["begin", "poll", "poll"]);
    running.end().await;
}

#[tokio::test]
async fn operations_on_one_machine_run_one_after_the_other_and_the_next_is_woken_by_the_end() {
    let world = World::new().await;
    *world.module.default.lock().unwrap() = Some(Arc::new(|_, _| Box::pin(async { executed() })));
    for name in ["a", "b", "c"] {
        world.operation(name, "HostPowerOff").await;
    }
    let running = run(&world);
    for name in ["a", "b", "c"] {
        until(&world, name, |o| phase(o) == Phase::Complete).await;
    }
    assert_eq!(world.module.count("execute"), 3);
    running.end().await;
}

#[tokio::test]
async fn a_module_that_becomes_ready_wakes_who_waited_for_it() {
    let world = World::new().await;
    *world.modules.module.lock().unwrap() = None;
    world.module.say(executed());
    let running = run(&world);
    world.operation("op", "HostPowerOff").await;
    until(&world, "op", |o| o.status.as_ref().is_some_and(|s| s.waiting.is_some())).await;
    *world.modules.module.lock().unwrap() = Some(world.module.clone());
    world.modules.changes.send_modify(|n| *n += 1);
    until(&world, "op", |o| phase(o) == Phase::Complete).await;
    running.end().await;
}

/// Field case C13. The clock stands still: nobody comes back by himself.
#[tokio::test]
async fn a_secret_that_comes_back_wakes_who_waited_for_it_at_once() {
    let (world, _) = World::with_class().await;
    world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
    let running = run(&world);
    let lacks = |status: &MachineClassStatus| {
        status.waiting.as_ref().is_some_and(|waiting| waiting.reason == "ProviderAuthUnavailable")
    };
    class_until(&world, lacks).await;
    world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
    class_until(&world, |status| status.available == 2).await;

    world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
    world.allocation("web", json!({})).await;
    let waits = |o: &MachineOperation| o.status.as_ref().is_some_and(|s| s.waiting.is_some());
    until_there(&world, "web-allocate-0").await;
    until(&world, "web-allocate-0", waits).await;
    assert_eq!(phase(&world.get("web-allocate-0").await), Phase::Pending);
    // It is there, and may be lent to nobody yet.
    world
        .secret_of_type("token-secret", CREDENTIAL_SECRET_TYPE, "other", &[("token", b"correct horse")])
        .await;
    let label = json!({ "metadata": { "labels": { PROVIDER_LABEL: "fake" } } });
    world.secrets().patch("token-secret", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    until(&world, "web-allocate-0", |o| phase(o) == Phase::InProgress).await;
    running.end().await;
}

/// R2.28: nobody waits for the next look. The clock stands still.
#[tokio::test]
async fn a_config_map_that_is_made_changed_or_deleted_is_told_by_its_classes_at_once() {
    let (world, _) = World::with_class().await;
    world.config_maps().delete("conf", &DeleteParams::default()).await.unwrap();
    let running = run(&world);
    class_until(&world, |status| status.reason.as_deref() == Some("ConfigNotFound")).await;
    world.config_map("conf", &[("image", "img-1")]).await;
    let current = |wanted: &'static str| {
        move |status: &MachineClassStatus| {
            class_condition(status, "ConfigCurrent").is_some_and(|(value, _)| value == wanted)
        }
    };
    class_until(&world, |status| status.available == 2 && current("True")(status)).await;
    let edit = |image: &str| Patch::Merge(json!({ "data": { "image": image } }));
    world.config_maps().patch("conf", &PatchParams::default(), &edit("img-2")).await.unwrap();
    class_until(&world, current("False")).await;
    world.config_maps().patch("conf", &PatchParams::default(), &edit("img-1")).await.unwrap();
    class_until(&world, current("True")).await;
    world.config_maps().delete("conf", &DeleteParams::default()).await.unwrap();
    class_until(&world, current("Unknown")).await;
    assert_eq!(world.module.count("resolve-class"), 1, "the provider is not asked for it");
    running.end().await;
}

#[tokio::test]
async fn shutdown_waits_for_a_callback_in_flight() {
    let world = World::new().await;
    let (open, gate) = watch::channel(false);
    world.module.then(Arc::new(move |_, _| {
        let mut gate = gate.clone();
        Box::pin(async move {
            gate.wait_for(|open| *open).await.unwrap();
            executed()
        })
    }));
    let running = run(&world);
    world.operation("op", "HostPowerOff").await;
    until(&world, "op", |o| phase(o) == Phase::InProgress).await;
    running.stop.send_replace(true);
    open.send_replace(true);
    running.end().await;
    assert_eq!(phase(&world.get("op").await), Phase::Complete);
}

#[tokio::test]
async fn a_cancel_is_seen_at_once_though_the_operation_waits_for_long() {
    let world = World::new().await;
    world.module.say(Ok(Returned::Begin(Err(failure(false, "Busy", "later")))));
    let running = run(&world);
    world.operation("op", "HostReboot").await;
    until(&world, "op", |o| o.status.as_ref().is_some_and(|s| s.waiting.is_some())).await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    until(&world, "op", |o| phase(o) == Phase::Failed).await;
    assert_eq!(world.module.called(), ["begin"]);
    running.end().await;
}

/// Field case D17.
#[tokio::test]
async fn a_restart_takes_up_what_was_left_and_the_next_epoch_is_higher() {
    let world = World::new().await;
    world.module.say(accepted("h"));
    let running = run(&world);
    world.operation("op", "HostReboot").await;
    let before = until(&world, "op", |o| {
        o.status.as_ref().is_some_and(|s| s.target.as_ref().is_some_and(|t| t.provider_operation.is_some()))
    })
    .await;
    running.end().await;
    world.pass(1);
    world.module.say(poll(PollState::Succeeded));
    let running = run(&world);
    let after = until(&world, "op", |o| phase(o) == Phase::Complete).await;
    running.end().await;
    let epoch = |o: &MachineOperation| o.status.as_ref().unwrap().lease_epoch.unwrap();
    assert!(epoch(&after) > epoch(&before));
}
