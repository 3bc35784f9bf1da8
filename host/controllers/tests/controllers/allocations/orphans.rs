//! The orphan sweep: what is under our marker and on nobody's record is told, and never released by itself.

use serde_json::json;

use crate::support::capacity::*;
use crate::support::*;

fn lists(world: &World, servers: &[(&str, Option<&str>)]) {
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
