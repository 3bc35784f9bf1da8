//! The orphan sweep: what is under our marker and on nobody's record is told, and never released by itself.

use std::time::Duration;

use holdfast_controllers::Next;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::capacity::*;
use crate::support::*;

pub fn lists(world: &World, servers: &[(&str, Option<&str>)]) {
    let item = |(id, token): &(&str, Option<&str>)| json!({ "id": id, "token": token });
    let servers: Vec<_> = servers.iter().map(item).collect();
    *world.cloud.listing.lock().unwrap() = json!({ "servers": servers });
}

/// Field case B11.
#[tokio::test]
async fn what_nobody_has_on_record_is_told_after_a_grace_and_nothing_is_released() {
    let (world, _) = World::with_class().await;
    *world.module.manifest.lock().unwrap() = listing_manifest();
    world.allocation("web", json!({})).await;
    let mut daemon = world.daemon().await;
    daemon.settle_within(&world, 30).await;
    // One is the allocation's, one bears no token of ours, and one is an orphan.
    lists(&world, &[("new", Some("t1")), ("stranger", None), ("lost", Some("t2"))]);
    for _ in 0..3 {
        world.pass(15 * 60);
        daemon.class_step("c").await;
    }
    let status = world.class_status("c").await;
    let told: Vec<_> =
        status.orphans.iter().map(|o| (o.kind.as_str(), o.id.as_str(), o.token.as_str())).collect();
    assert_eq!(told, [("server", "lost", "t2")]);
    assert!(status.orphans[0].first_seen.0 < world.clock_now());
    let written = daemon.plan.objects_written().len();
    world.pass(15 * 60);
    daemon.class_step("c").await;
    assert_eq!(world.class_status("c").await.orphans, status.orphans);
    assert!(daemon.plan.objects_written().len() <= written + 1, "only a new resolution may be written");
    assert_eq!(world.sent("drop"), 0);
    daemon.controllers.flush_events().await;
    let events = world.events().await;
    assert_eq!(events.iter().filter(|event| *event == "OrphansFound").count(), 1);

    lists(&world, &[("new", Some("t1"))]);
    world.pass(15 * 60);
    daemon.class_step("c").await;
    assert!(world.class_status("c").await.orphans.is_empty());
}

/// Field case B11.
#[tokio::test]
async fn a_listing_that_fails_tells_nothing_and_keeps_what_was_told() {
    let (world, _) = World::with_class().await;
    *world.module.manifest.lock().unwrap() = listing_manifest();
    lists(&world, &[("lost", Some("t"))]);
    let daemon = world.daemon().await;
    for _ in 0..2 {
        daemon.class_step("c").await;
        world.pass(15 * 60);
    }
    assert_eq!(world.class_status("c").await.orphans.len(), 1);
    world.cloud.lose_next();
    daemon.class_step("c").await;
    assert_eq!(world.class_status("c").await.orphans.len(), 1);
}

async fn annotate(world: &World, value: &str) {
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { "holdfast.dev/sweep": value } } }));
    world.classes().patch("c", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn a_sweep_is_made_at_once_for_each_new_value_of_the_annotation_and_says_what_it_found() {
    let (world, _) = World::with_class().await;
    *world.module.manifest.lock().unwrap() = listing_manifest();
    let mut daemon = world.daemon().await;
    daemon.class_step("c").await;
    assert_eq!(world.sent("list-owned"), 1);
    lists(&world, &[("lost", Some("t2")), ("stranger", None)]);
    annotate(&world, "a").await;
    for _ in 0..3 {
        daemon.class_step("c").await;
    }
    assert_eq!(world.sent("list-owned"), 2, "once for the value");
    let told = world.class_status("c").await.sweep.expect("it was asked for");
    assert_eq!(told.request, "a");
    assert_eq!(
        told.message,
        "1 listed under our marker, 1 of them on nobody's record, 0 for 15 minutes or longer"
    );
    assert!(world.class_status("c").await.orphans.is_empty(), "it is too young");

    world.pass(15 * 60);
    world.cloud.lose_next();
    annotate(&world, "b").await;
    daemon.class_step("c").await;
    let told = world.class_status("c").await.sweep.expect("it was asked for");
    assert!(told.request == "b" && told.message.starts_with("nothing could be listed: "), "{told:?}");
    annotate(&world, "c").await;
    daemon.class_step("c").await;
    let status = world.class_status("c").await;
    assert_eq!(status.orphans.len(), 1);
    let told = status.sweep.expect("it was asked for");
    assert!(told.message.ends_with("1 for 15 minutes or longer"), "{told:?}");
    daemon.controllers.flush_events().await;
    let events = world.events().await;
    let count = |reason: &str| events.iter().filter(|event| *event == reason).count();
    assert_eq!((count("Swept"), count("SweepFailed")), (2, 1), "{events:?}");
}

#[tokio::test]
async fn who_asks_for_a_sweep_of_a_provider_that_cannot_list_is_told_so() {
    let (world, _) = World::with_class().await;
    annotate(&world, "a").await;
    world.daemon().await.class_step("c").await;
    let told = world.class_status("c").await.sweep.expect("it was asked for");
    assert_eq!(told.message, "nothing was listed: the provider's manifest names no `list-owned`");
}

/// What was told keeps its age, so that a restart makes nobody wait again.
#[tokio::test]
async fn the_interval_and_the_age_are_settings_and_what_was_told_is_told_by_the_next_daemon() {
    let (mut world, _) = World::with_class().await;
    *world.module.manifest.lock().unwrap() = listing_manifest();
    world.settings.sweep_interval = Duration::from_secs(60);
    world.settings.orphan_age = Duration::from_secs(120);
    lists(&world, &[("lost", Some("t2"))]);
    let daemon = world.daemon().await;
    let mut swept = Vec::new();
    for _ in 0..6 {
        let next = daemon.class_step("c").await;
        assert!(matches!(next, Next::After(after) if after <= Duration::from_secs(60)), "{next:?}");
        swept.push((world.sent("list-owned"), world.class_status("c").await.orphans.len()));
        world.pass(30);
    }
    assert_eq!(swept, [(1, 0), (1, 0), (2, 0), (2, 0), (3, 1), (3, 1)]);
    drop(daemon);
    let told = world.class_status("c").await.orphans;
    world.daemon().await.class_step("c").await;
    assert_eq!(world.class_status("c").await.orphans, told);
}
