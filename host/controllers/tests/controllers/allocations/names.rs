//! Names that were taken, and incarnations that share one (2(e) 23).

use holdfast_api::*;
use kube::ResourceExt as _;
use serde_json::json;

use crate::support::capacity::*;
use crate::support::*;

/// 2(e) 23: the same allocation name with a new uid.
#[tokio::test]
async fn an_allocation_made_anew_under_its_name_is_another_one_with_a_host_of_its_own() {
    let (world, _) = World::with_class().await;
    let first = world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    world.delete_claim("web").await;
    daemon.settle_within(&world, 30).await;
    let second = world.allocation("web", json!({})).await;
    daemon.settle_within(&world, 30).await;
    let status = world.claim("web").await;
    assert_eq!(status.phase, AllocationPhase::Allocated, "{status:?}");
    let reference = status.operation_ref.unwrap();
    let uid = second.uid().unwrap();
    assert_eq!(reference.name, format!("web-allocate-0-{}", &uid[uid.len() - 8..]));
    let effects = world.cloud.effects();
    let made = effects.iter().filter(|effect| effect.starts_with("make")).count();
    assert_eq!(made, 2, "two tokens, two hosts: {effects:?}");
    let old = world.status("web-allocate-0").await;
    let input = old.target.unwrap().input.unwrap().allocation.unwrap();
    assert_eq!(Some(input.uid), first.uid(), "the first one's journal stays");
    world.delete_claim("web").await;
    daemon.settle_within(&world, 30).await;
    assert!(world.allocations().get_opt("web").await.unwrap().is_none());
    assert_eq!(world.sent("drop"), 2);
}

#[tokio::test]
async fn an_operation_of_other_hands_under_the_name_reaches_nothing_and_is_gone_around() {
    let (world, _) = World::with_class().await;
    world.allocation("web", json!({})).await;
    let theirs = json!({ "machineRef": { "name": "web" }, "operationKind": "HostAllocate",
        "allocationRef": { "name": "web" } });
    world.operation_with("web-allocate-0", theirs.clone()).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 30).await;
    assert_eq!(world.status("web-allocate-0").await.reason.as_deref(), Some("NotTheAllocationsOperation"));
    let status = world.claim("web").await;
    assert_eq!(status.phase, AllocationPhase::Allocated, "{status:?}");
    assert_ne!(status.operation_ref.unwrap().name, "web-allocate-0");
    assert_eq!(world.sent("make"), 1);
    // A release made by hand destroys nothing.
    let release = json!({ "machineRef": { "name": "web" }, "operationKind": "HostRelease",
        "allocationRef": { "name": "web" } });
    world.operation_with("by-hand", release).await;
    daemon.settle_within(&world, 15).await;
    assert_eq!(world.status("by-hand").await.reason.as_deref(), Some("NotTheAllocationsOperation"));
    assert_eq!(world.sent("drop"), 0);
}

/// The operation was deleted by hand while it ran: its finalizers hold it until its end is taken over.
#[tokio::test]
async fn an_operation_that_is_deleted_by_hand_is_cancelled_and_nothing_is_lost() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Endless);
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    world.delete_operation("web-allocate-0").await;
    daemon.settle_within(&world, 60).await;
    let status = world.claim("web").await;
    assert_eq!(status.phase, AllocationPhase::Failed, "{status:?}");
    assert!(status.owned_resources.is_empty());
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
}

/// Torn out with its finalizers: the machine's copy of what it had made is all there is.
#[tokio::test]
async fn an_operation_that_is_torn_out_fails_the_claim_and_what_is_known_is_released() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Endless);
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    let mut machine = world.machines().get("web").await.unwrap();
    let made = world.status("web-allocate-0").await.owned_resources;
    assert_eq!(made.len(), 1);
    machine.status.get_or_insert_default().owned_resources = made;
    world.machines().replace_status("web", &Default::default(), &machine).await.unwrap();
    world.tear_out("web-allocate-0").await;
    daemon.settle_within(&world, 30).await;
    let status = world.claim("web").await;
    assert_eq!(
        (status.phase, status.reason.as_deref()),
        (AllocationPhase::Failed, Some("OperationVanished"))
    );
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
}
