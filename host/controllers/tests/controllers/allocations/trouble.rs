//! Allocations in trouble for long: what they leave in the store, and how they are left.

use holdfast_api::*;
use holdfast_effects::Returned;
use serde_json::json;

use crate::support::capacity::*;
use crate::support::*;

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
