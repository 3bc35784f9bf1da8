//! The daemon dies at every durable write of an allocation and of its release, before it lands and after, and is started
//! again: one Machine, one host, nothing left behind.

use holdfast_api::AllocationPhase;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::support::capacity::*;
use crate::support::faults::Plan;
use crate::support::*;

/// What is allocated.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Allocation,
    ClassMachine,
    /// The first offering has no capacity, after a server was made.
    SecondOffering,
}

async fn prepared(what: What) -> World {
    let (world, provider) = World::with_class().await;
    match what {
        What::ClassMachine => {
            world.machine_with("web", json!({}), json!({ "classRef": { "name": "c" } })).await;
        }
        _ => drop(world.allocation("web", json!({})).await),
    }
    if what == What::SecondOffering {
        provider.next_launch(Launch::Half("capacity-exhausted"));
    }
    // The class is there before: its writes are not what is counted.
    world.daemon().await.class_step("c").await;
    world.pass(1);
    world
}

/// Drives under a plan until the daemon dies or rests, and then under a new daemon.
async fn live_and_die(world: &World, plan: &std::sync::Arc<Plan>) {
    let daemon = world.daemon_under(plan.clone()).await;
    daemon.settle_within(world, 60).await;
    drop(daemon);
    world.pass(1);
    world.daemon().await.settle_within(world, 60).await;
}

async fn allocate_under(what: What, plan: std::sync::Arc<Plan>, at: &str) {
    let world = prepared(what).await;
    live_and_die(&world, &plan).await;
    let status = world.claim("web").await;
    assert_eq!(status.phase, AllocationPhase::Allocated, "{at}: {status:?}");
    let (made, dropped) = if what == What::SecondOffering { (2, 1) } else { (1, 1) };
    let count = |call: &str| world.cloud.effects().iter().filter(|effect| effect.starts_with(call)).count();
    assert_eq!(count("make"), made, "{at}: {:?}", world.cloud.effects());
    assert_eq!(status.owned_resources.len(), 1, "{at}");
    let machines = world.machines().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(machines.len(), 1, "{at}");
    assert_eq!(machines[0].metadata.uid, status.machine_uid, "{at}");
    assert_eq!(machines[0].spec.host.external.provider_id.as_deref(), Some("fake://new"), "{at}");
    for operation in world.operations().list(&ListParams::default()).await.unwrap().items {
        assert!(operation.metadata.finalizers.unwrap_or_default().is_empty(), "{at}");
    }
    if what != What::SecondOffering {
        assert_eq!(count("drop"), dropped - 1, "{at}");
    }
}

async fn release_under(what: What, plan: std::sync::Arc<Plan>, at: &str) {
    let world = prepared(what).await;
    world.daemon().await.settle_within(&world, 60).await;
    world.pass(1);
    match what {
        What::ClassMachine => drop(world.machines().delete("web", &DeleteParams::default()).await.unwrap()),
        _ => world.delete_claim("web").await,
    }
    live_and_die(&world, &plan).await;
    assert!(
        world.allocations().get_opt("web").await.unwrap().is_none(),
        "{at}: {:?}",
        world.claim("web").await
    );
    assert!(world.machines().get_opt("web").await.unwrap().is_none(), "{at}");
    let count = |call: &str| world.cloud.effects().iter().filter(|effect| effect.starts_with(call)).count();
    assert_eq!((count("make"), count("drop")), (1, 1), "{at}");
}

/// Kills at the n-th write for every n, before and after it lands. Returns how many writes there are.
async fn sweep(what: What, release: bool) -> i64 {
    for write in 0.. {
        let mut died = false;
        for lands in [false, true] {
            let plan = Plan::at(write, lands);
            let at = format!("{what:?}, write {write}, {}", if lands { "after it" } else { "before it" });
            match release {
                false => allocate_under(what, plan.clone(), &at).await,
                true => release_under(what, plan.clone(), &at).await,
            }
            died |= plan.is_dead();
        }
        if !died {
            return write;
        }
    }
    unreachable!()
}

#[tokio::test]
async fn an_allocation_survives_a_crash_at_every_write_with_one_machine_and_one_host() {
    let writes = sweep(What::Allocation, false).await;
    assert!(writes >= 12, "only {writes} durable writes were found");
}

#[tokio::test]
async fn a_machine_with_a_class_survives_a_crash_at_every_write_with_one_host() {
    let writes = sweep(What::ClassMachine, false).await;
    assert!(writes >= 12, "only {writes} durable writes were found");
}

/// Field case B18.
#[tokio::test]
async fn a_second_attempt_survives_a_crash_at_every_write_and_the_first_leaves_nothing() {
    let writes = sweep(What::SecondOffering, false).await;
    assert!(writes >= 20, "only {writes} durable writes were found");
}

/// Field case C08.
#[tokio::test]
async fn a_release_survives_a_crash_at_every_write_and_removes_everything_once() {
    let writes = sweep(What::Allocation, true).await;
    assert!(writes >= 8, "only {writes} durable writes were found");
}

#[tokio::test]
async fn a_release_of_a_machine_with_a_class_survives_a_crash_at_every_write() {
    let writes = sweep(What::ClassMachine, true).await;
    assert!(writes >= 8, "only {writes} durable writes were found");
}
