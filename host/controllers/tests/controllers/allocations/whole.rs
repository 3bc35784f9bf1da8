//! The running daemon: watches and the queue drive classes, allocations and machines by themselves.

use std::time::Duration;

use holdfast_api::*;
use kube::api::ListParams;
use serde_json::json;
use tokio::sync::watch;

use crate::support::capacity::offering;
use crate::support::*;

/// Waits until something holds, moving the clock all the while.
async fn until<F>(world: &World, what: &str, holds: impl Fn() -> F)
where
    F: Future<Output = bool>,
{
    let patience = tokio::time::Instant::now() + Duration::from_secs(120);
    while !holds().await {
        assert!(tokio::time::Instant::now() < patience, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
        world.clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_fleet_grows_and_shrinks_by_apply_and_delete_alone() {
    const FLEET: usize = 12;
    let (world, provider) = World::for_capacity().await;
    // However slow the machine: the offerings last.
    provider.offers(vec![offering("a", "z1", world.in_hours(23))]);
    let daemon = world.daemon().await;
    let plan = daemon.plan.clone();
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(daemon.controllers.run(stopped));
    let name = |i: usize| format!("host-{i}");
    for i in 0..FLEET {
        match i % 3 {
            0 => drop(world.machine_with(&name(i), json!({}), json!({ "classRef": { "name": "c" } })).await),
            _ => drop(world.allocation(&name(i), json!({})).await),
        }
    }
    // Everything waits for the class, which comes last.
    world.class("c").await;
    until(&world, "the fleet", || async {
        let all = world.allocations().list(&ListParams::default()).await.unwrap().items;
        let phase = |a: &MachineAllocation| a.status.as_ref().map(|status| status.phase);
        all.len() == FLEET && all.iter().all(|a| phase(a) == Some(AllocationPhase::Allocated))
    })
    .await;
    // The last finalizers are off once writes have ended; then nothing is written while nothing happens.
    until(&world, "rest", || async {
        let all = world.operations().list(&ListParams::default()).await.unwrap().items;
        all.iter().all(|operation| operation.metadata.finalizers.as_ref().is_none_or(Vec::is_empty))
    })
    .await;
    let writes = plan.objects_written().len();
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        world.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(plan.objects_written().len(), writes, "{:?}", plan.objects_written().split_off(writes));
    for i in 0..FLEET {
        match i % 3 {
            0 => drop(world.machines().delete(&name(i), &Default::default()).await.unwrap()),
            _ => world.delete_claim(&name(i)).await,
        }
    }
    until(&world, "an empty house", || async {
        let list = ListParams::default();
        world.allocations().list(&list).await.unwrap().items.is_empty()
            && world.machines().list(&list).await.unwrap().items.is_empty()
    })
    .await;
    assert_eq!((world.sent("make"), world.sent("drop")), (FLEET, FLEET));
    stop.send_replace(true);
    running.await.unwrap();
}
