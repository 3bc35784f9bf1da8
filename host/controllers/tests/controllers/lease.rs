//! The lease: one daemon acts at a time, and each holding has a higher epoch than the one before.

use std::sync::Arc;
use std::time::Duration;

use holdfast_controllers::LeaseSettings;
use holdfast_controllers::clock::ManualClock;
use holdfast_controllers::lease::{LeaseFence, Leaser};
use holdfast_controllers::rooms::Fence;

use crate::support::*;

fn leaser(world: &World, who: &str) -> (Leaser, Arc<LeaseFence>) {
    let clock: Arc<ManualClock> = world.clock.clone();
    let leaser = Leaser::new(world.client.clone(), clock, LeaseSettings::new(who));
    let fence = leaser.fence();
    (leaser, fence)
}

#[tokio::test]
async fn a_second_daemon_waits_for_the_whole_duration_and_gets_a_higher_epoch() {
    let world = World::empty().await;
    let (mut first, fence) = leaser(&world, "first");
    let (mut second, waiting) = leaser(&world, "second");
    assert!(!fence.held());
    assert!(first.turn().await.unwrap() && fence.held());
    assert!(!second.turn().await.unwrap() && !waiting.held());
    world.pass(9);
    assert!(first.turn().await.unwrap());
    world.pass(9);
    assert!(!second.turn().await.unwrap(), "it was renewed nine seconds ago");
    world.pass(6);
    assert!(!second.turn().await.unwrap(), "six seconds after it was last seen to change");
    assert!(!fence.held(), "the first has stopped by itself long before");
    world.pass(9);
    assert!(second.turn().await.unwrap() && waiting.held());
    assert!(waiting.epoch() > fence.epoch());
    assert!(!first.turn().await.unwrap() && !fence.held());
}

#[tokio::test]
async fn a_lease_that_is_given_back_is_free_at_once() {
    let world = World::empty().await;
    let (mut first, fence) = leaser(&world, "first");
    let (mut second, _) = leaser(&world, "second");
    assert!(first.turn().await.unwrap());
    first.release().await;
    assert!(!fence.held());
    assert!(second.turn().await.unwrap());
}

#[tokio::test]
async fn the_fence_shuts_by_itself_when_the_lease_is_not_renewed() {
    let world = World::empty().await;
    let (mut only, fence) = leaser(&world, "only");
    only.turn().await.unwrap();
    world.clock.advance(Duration::from_secs(11));
    assert!(!fence.held());
    assert!(only.turn().await.unwrap() && fence.held(), "renewed under the same epoch");
    assert_eq!(fence.epoch(), 1);
}

#[tokio::test]
async fn two_daemons_that_reach_for_a_free_lease_at_once_do_not_both_get_it() {
    let world = World::empty().await;
    let (mut a, _) = leaser(&world, "a");
    let (mut b, _) = leaser(&world, "b");
    let (a, b) = tokio::join!(a.turn(), b.turn());
    assert!(a.unwrap() != b.unwrap());
}
