//! Allocations in trouble for long: what they leave in the store, and how they are left.

use holdfast_api::*;
use holdfast_effects::Returned;
use serde_json::json;

use crate::support::capacity::*;
use crate::support::*;

/// Attempts, five minutes apart.
const ATTEMPTS: usize = 30;
/// Of an hour: those of the first minutes come faster.
const KEPT: usize = 20;

/// A quota stays exceeded for weeks, and an attempt every five minutes would leave 2,000 operations in the store.
#[tokio::test]
async fn operations_that_made_nothing_are_kept_for_an_hour_and_those_that_did_for_longer() {
    let (world, provider) = World::with_class().await;
    let world = &world;
    provider.next_launch(Launch::Half("quota-exceeded"));
    for _ in 0..ATTEMPTS {
        provider.next_launch(Launch::Refused("quota-exceeded"));
    }
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    for _ in 0..ATTEMPTS {
        provider.offers(vec![offering("a", "z1", world.in_hours(2))]);
        daemon.settle(world).await;
        world.pass(301);
    }
    daemon.settle(world).await;
    let status = world.claim("web").await;
    assert_eq!((status.phase, status.reason.as_deref()), (AllocationPhase::Pending, Some("QuotaExceeded")));
    assert!(status.attempt as usize >= ATTEMPTS - 2, "{}", status.attempt);
    let names = world.operation_names().await;
    assert!(names.len() < KEPT, "{names:?}");
    for kept in ["web-allocate-0", "web-release-1"] {
        assert!(names.iter().any(|name| name == kept), "{kept} made or released something: {names:?}");
    }
}

#[tokio::test]
async fn releases_that_fail_for_good_and_released_nothing_are_kept_for_an_hour() {
    let (world, provider) = World::with_class().await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    provider.releases.lock().unwrap().extend(["Locked"; ATTEMPTS]);
    world.delete_claim("web").await;
    for _ in 0..ATTEMPTS - 1 {
        daemon.settle(&world).await;
        world.pass(301);
    }
    let status = world.claim("web").await;
    assert!(status.releases as usize >= ATTEMPTS - 2, "{}", status.releases);
    let names = world.operation_names().await;
    assert!(names.len() < KEPT && names.contains(&"web-allocate-0".to_owned()), "{names:?}");
    daemon.settle(&world).await;
    world.pass(301);
    daemon.settle_within(&world, 30).await;
    assert!(world.allocations().get_opt("web").await.unwrap().is_none());
    assert_eq!(world.sent("drop"), 1);
}

#[tokio::test]
async fn the_last_operation_is_kept_to_be_read_though_it_changed_nothing() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Refused("internal"));
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    assert_eq!(world.claim("web").await.phase, AllocationPhase::Failed);
    for _ in 0..3 {
        world.pass(60 * 60 + 1);
        daemon.settle(&world).await;
    }
    assert_eq!(world.operation_names().await, ["web-allocate-0"]);
}

/// A pause of the next launch is none of the release's.
#[tokio::test]
async fn a_deletion_does_not_wait_until_a_quota_or_a_plan_would_have_been_tried_again() {
    let (world, provider) = World::with_class().await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    provider.next_launch(Launch::Refused("quota-exceeded"));
    world.allocation("quota", json!({})).await;
    daemon.settle(&world).await;
    world.module.say(Ok(Returned::PlanAllocation(Err(refused(false, "unavailable", "Away")))));
    world.allocation("plan", json!({})).await;
    daemon.claim_step("plan").await;
    for (name, reason) in [("quota", "QuotaExceeded"), ("plan", "PlanFailed")] {
        assert_eq!(world.claim(name).await.waiting.unwrap().reason, reason);
        world.delete_claim(name).await;
        daemon.settle(&world).await;
        assert!(world.allocations().get_opt(name).await.unwrap().is_none(), "{name}");
        assert!(world.machines().get_opt(name).await.unwrap().is_none(), "{name}");
    }
}
