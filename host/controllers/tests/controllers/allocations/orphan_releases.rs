//! The release of an orphan that a person names: taken over and released like everything on record, or refused in one
//! sentence. Field case B11: under our marker, on nobody's record, old enough, and so many in an hour.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{
    AllocationPhase, EffectKind, EffectState, Machine, MachineAllocationStatus, OwnedResource, Phase,
};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::orphans::lists;
use crate::support::capacity::*;
use crate::support::faults::Plan;
use crate::support::hosts::resource;
use crate::support::*;

/// What the service lists: two that are lost, and a stranger's.
const LISTED: [(&str, Option<&str>); 3] =
    [("lost", Some("t2")), ("lost-too", Some("t3")), ("stranger", None)];

/// A class `c` that tells of the orphans `lost` and `lost-too`.
async fn world() -> World {
    let (world, _) = World::with_class().await;
    *world.module.manifest.lock().unwrap() = listing_manifest();
    told(&world).await;
    world
}

async fn told(world: &World) {
    lists(world, &LISTED);
    let daemon = world.daemon().await;
    for _ in 0..2 {
        daemon.class_step("c").await;
        world.pass(15 * 60);
    }
    assert_eq!(orphans(world).await, ["lost", "lost-too"]);
}

async fn orphans(world: &World) -> Vec<String> {
    world.class_status("c").await.orphans.into_iter().map(|one| one.id).collect()
}

async fn asks(world: &World, name: &str, id: &str) {
    world.allocation(name, json!({ "releaseOrphan": { "kind": "server", "id": id } })).await;
}

/// What was dropped, in order.
fn dropped(world: &World) -> Vec<String> {
    let sends = world.cloud.sends.lock().unwrap();
    sends.iter().filter(|send| send.starts_with("drop")).cloned().collect()
}

fn ended(status: &MachineAllocationStatus) -> (AllocationPhase, &str) {
    (status.phase, status.reason.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn an_orphan_that_a_person_names_is_taken_over_and_released_and_nothing_else_is_touched_b11() {
    let world = world().await;
    asks(&world, "away", "lost").await;
    let mut daemon = world.daemon().await;
    daemon.settle_within(&world, 60).await;
    assert_eq!(dropped(&world), [r#"drop {"id":"lost"}"#]);
    let status = world.claim("away").await;
    assert_eq!(ended(&status), (AllocationPhase::Released, "OrphanReleased"), "{status:?}");
    assert_eq!(status.message.as_deref(), Some("server lost is gone"));
    assert_eq!(claim_condition(&status, "Released").unwrap().0, "True");
    let taken = status.orphan.expect("it was taken over");
    assert_eq!((taken.token.as_str(), status.owned_resources.len()), ("t2", 0));
    assert!(taken.first_seen.0 + jiff::SignedDuration::from_mins(15) <= taken.taken_at.0);

    let operation = world.operations().get("away-release-1").await.unwrap().status.unwrap();
    assert_eq!((operation.phase, operation.effects.len()), (Phase::Complete, 1));
    let effect = &operation.effects[0];
    assert_eq!((effect.effect, effect.state), (EffectKind::Destroy, EffectState::Done));
    assert_eq!(effect.targets[0].binding, "api/here", "it is known by the binding that it was listed by");
    assert!(world.machines().get_opt("away").await.unwrap().is_none(), "an orphan is no machine");
    assert_eq!(orphans(&world).await, ["lost-too"], "the class tells of it no more");
    daemon.controllers.flush_events().await;
    let events = world.events().await;
    for reason in ["OrphanTaken", "OrphanReleased"] {
        assert!(events.iter().any(|event| event == reason), "{reason} in {events:?}");
    }

    // The request stays for people to read, and goes without a call.
    world.delete_claim("away").await;
    daemon.settle_within(&world, 60).await;
    assert!(world.allocations().get_opt("away").await.unwrap().is_none());
    assert_eq!(dropped(&world).len(), 1);
}

/// Each of these is told of as an orphan, and is none by the time that somebody asks.
#[tokio::test]
async fn what_is_on_record_or_is_not_what_was_told_is_refused_and_nothing_is_sent_b11() {
    for (case, reason) in [
        ("an allocation", "OnRecord"),
        ("a machine", "OnRecord"),
        ("a machine of other hands", "OnRecord"),
        ("an operation", "OnRecord"),
        ("gone", "NoLongerListed"),
        ("without a marker", "NoLongerListed"),
        ("another token", "AnotherToken"),
        ("never told", "NotReported"),
        ("switched off", "OrphanReleasesOff"),
    ] {
        let mut world = world().await;
        change(&mut world, case).await;
        asks(&world, "away", if case == "never told" { "stranger" } else { "lost" }).await;
        let mut daemon = world.daemon().await;
        // The class is not swept in between: what it tells is what it told.
        for _ in 0..3 {
            daemon.claim_step("away").await;
        }
        let status = world.claim("away").await;
        assert_eq!(ended(&status), (AllocationPhase::Failed, reason), "{case}: {status:?}");
        assert!(status.owned_resources.is_empty() && status.operation_ref.is_none(), "{case}");
        assert!(dropped(&world).is_empty(), "{case}");
        daemon.controllers.flush_events().await;
        assert!(world.events().await.iter().any(|event| event == reason), "{case}");
        world.delete_claim("away").await;
        daemon.claim_step("away").await;
        assert!(world.allocations().get_opt("away").await.unwrap().is_none(), "{case}");
    }
}

/// Makes an orphan into none.
async fn change(world: &mut World, case: &str) {
    let owned: Vec<OwnedResource> = vec![resource("server", "lost", "somebody")];
    match case {
        "an allocation" => {
            world.allocation("other", json!({})).await;
            world.set_claim("other", |status| status.owned_resources = owned).await;
        }
        "a machine" => {
            world.machine("other", json!({ "provider": "fake", "providerID": "fake://other" })).await;
            let mut machine: Machine = world.machines().get("other").await.unwrap();
            machine.status.get_or_insert_default().owned_resources = owned;
            world.machines().replace_status("other", &Default::default(), &machine).await.unwrap();
        }
        "a machine of other hands" => {
            world.machine("other", json!({ "provider": "fake", "providerID": "fake://lost" })).await;
        }
        "an operation" => {
            world.operation("op", "HostReboot").await;
            let mut operation = world.operations().get("op").await.unwrap();
            operation.status.get_or_insert_default().owned_resources = owned;
            world.operations().replace_status("op", &Default::default(), &operation).await.unwrap();
        }
        "gone" => lists(world, &LISTED[1..]),
        "without a marker" => lists(world, &[("lost", None), LISTED[1]]),
        "another token" => lists(world, &[("lost", Some("t9")), LISTED[1]]),
        "switched off" => world.settings.orphan_releases_per_hour = 0,
        _ => {}
    }
}

/// Field cases B14 and B11: what a create that is not over has made is not its operation's yet.
#[tokio::test]
async fn while_an_operation_that_may_have_made_it_is_open_an_orphan_is_not_touched() {
    let (world, provider) = World::with_class().await;
    *world.module.manifest.lock().unwrap() = listing_manifest();
    provider.next_launch(Launch::Endless);
    world.allocation("web", json!({})).await;
    world.daemon().await.settle_within(&world, 30).await;
    told(&world).await;
    asks(&world, "away", "lost").await;
    let daemon = world.daemon().await;
    daemon.claim_step("away").await;
    let status = world.claim("away").await;
    let waiting = status.waiting.clone().expect("it waits");
    assert_eq!(waiting.reason, "OrphanInDoubt");
    assert!(status.message.as_deref().unwrap().contains("the operation web-allocate-0"), "{status:?}");
    let listings = world.sent("list-owned");
    world.pass(left(&world, &status.waiting));
    daemon.claim_step("away").await;
    assert_eq!((world.sent("list-owned"), dropped(&world).len()), (listings, 0), "still open");

    world.delete_claim("web").await;
    daemon.settle_within(&world, 120).await;
    let status = world.claim("away").await;
    assert_eq!(ended(&status), (AllocationPhase::Released, "OrphanReleased"), "{status:?}");
    assert_eq!(dropped(&world).iter().filter(|one| one.contains("lost")).count(), 1);
}

/// A fleet that always launches something must not keep an orphan for ever.
#[tokio::test]
async fn an_operation_that_was_begun_long_after_an_orphan_was_seen_does_not_postpone_it() {
    let (world, provider) = World::with_class().await;
    *world.module.manifest.lock().unwrap() = listing_manifest();
    told(&world).await;
    provider.next_launch(Launch::Endless);
    world.allocation("web", json!({})).await;
    asks(&world, "away", "lost").await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 60).await;
    assert_eq!(world.claim("away").await.phase, AllocationPhase::Released);
    assert_eq!(world.claim("web").await.phase, AllocationPhase::Allocating);
}

#[tokio::test]
async fn of_one_account_so_many_orphans_are_released_in_an_hour_and_no_more_b11() {
    let mut world = world().await;
    world.settings.orphan_releases_per_hour = 1;
    asks(&world, "first", "lost").await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 30).await;
    // Whether the request is still there or not.
    world.delete_claim("first").await;
    daemon.settle_within(&world, 30).await;
    asks(&world, "second", "lost-too").await;
    daemon.settle(&world).await;
    let status = world.claim("second").await;
    assert_eq!(ended(&status), (AllocationPhase::Pending, "OrphanRateCap"), "{status:?}");
    let wait = left(&world, &status.waiting);
    assert!((3_400..=3_600).contains(&wait), "{wait}");
    assert_eq!(dropped(&world).len(), 1);
    world.pass(wait);
    daemon.settle_within(&world, 60).await;
    assert_eq!(world.claim("second").await.phase, AllocationPhase::Released);
    assert_eq!(dropped(&world).len(), 2);
}

/// What the cap counts is on record: a new daemon knows it.
#[tokio::test]
async fn a_restart_does_not_begin_the_hour_anew() {
    let mut world = world().await;
    world.settings.orphan_releases_per_hour = 1;
    asks(&world, "first", "lost").await;
    world.daemon().await.settle_within(&world, 30).await;
    asks(&world, "second", "lost-too").await;
    world.daemon().await.claim_step("second").await;
    assert_eq!(ended(&world.claim("second").await), (AllocationPhase::Pending, "OrphanRateCap"));
}

#[tokio::test]
async fn of_two_requests_for_one_orphan_one_releases_it_and_the_other_is_told_who_has_it() {
    let world = world().await;
    asks(&world, "one", "lost").await;
    asks(&world, "two", "lost").await;
    let daemon = Arc::new(world.daemon().await);
    daemon.controllers.refresh().await.unwrap();
    let (one, two) = tokio::join!(
        daemon.controllers.reconcile_allocation("one"),
        daemon.controllers.reconcile_allocation("two")
    );
    assert!(one.is_ok() && two.is_ok());
    daemon.settle_within(&world, 60).await;
    let mut ends = [world.claim("one").await, world.claim("two").await];
    ends.sort_by_key(|status| status.phase != AllocationPhase::Released);
    assert_eq!(ended(&ends[0]), (AllocationPhase::Released, "OrphanReleased"), "{ends:?}");
    assert_eq!(ends[1].phase, AllocationPhase::Failed, "{ends:?}");
    assert_eq!(dropped(&world).len(), 1);
}

#[tokio::test]
async fn a_listing_that_fails_postpones_the_release() {
    let world = world().await;
    asks(&world, "away", "lost").await;
    let daemon = world.daemon().await;
    world.cloud.lose_next();
    daemon.claim_step("away").await;
    let status = world.claim("away").await;
    assert_eq!(ended(&status), (AllocationPhase::Pending, "OrphanNotListed"), "{status:?}");
    world.pass(left(&world, &status.waiting));
    daemon.settle_within(&world, 60).await;
    assert_eq!(world.claim("away").await.phase, AllocationPhase::Released);
}

/// Field case C08.
#[tokio::test]
async fn the_release_of_an_orphan_survives_a_crash_at_every_write_and_drops_it_once() {
    for write in 0.. {
        let mut died = false;
        for lands in [false, true] {
            let world = world().await;
            asks(&world, "away", "lost").await;
            let plan = Plan::at(write, lands);
            let daemon = world.daemon_under(plan.clone()).await;
            daemon.settle_within(&world, 60).await;
            died |= plan.is_dead();
            drop(daemon);
            world.pass(1);
            world.daemon().await.settle_within(&world, 120).await;
            let (at, status) = (format!("write {write}, lands: {lands}"), world.claim("away").await);
            assert_eq!(ended(&status), (AllocationPhase::Released, "OrphanReleased"), "{at}: {status:?}");
            let effects = world.cloud.effects();
            let drops: Vec<_> = effects.iter().filter(|effect| effect.starts_with("drop")).collect();
            assert_eq!(drops, [r#"drop {"id":"lost"}"#], "{at}");
        }
        if !died {
            assert!(write >= 8, "only {write} durable writes were found");
            return;
        }
    }
}

#[tokio::test]
async fn a_request_names_one_thing_exactly_and_goes_with_nothing_of_a_host() {
    let world = world().await;
    let refused = async |more: serde_json::Value| {
        let mut spec = json!({ "classRef": { "name": "c" } });
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let claim = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation",
            "metadata": { "name": "away" }, "spec": spec });
        let claim = serde_json::from_value(claim).unwrap();
        world.allocations().create(&Default::default(), &claim).await.unwrap_err().to_string()
    };
    for id in ["*", "lost*", "lost lost-too", ""] {
        let told = refused(json!({ "releaseOrphan": { "kind": "server", "id": id } })).await;
        assert!(told.contains("spec.releaseOrphan.id"), "{id}: {told}");
    }
    let orphan = json!({ "kind": "server", "id": "lost" });
    for more in [json!({ "machineName": "m" }), json!({ "deadlineSeconds": 5 })] {
        let mut more = more;
        more["releaseOrphan"] = orphan.clone();
        assert!(refused(more).await.contains("releaseOrphan makes no host"));
    }
    asks(&world, "away", "lost").await;
    let patch = Patch::Merge(json!({ "spec": { "releaseOrphan": { "id": "lost-too" } } }));
    let changed = world.allocations().patch("away", &PatchParams::default(), &patch).await;
    assert!(changed.unwrap_err().to_string().contains("an allocation is immutable"));
}

#[tokio::test]
async fn an_orphan_is_not_taken_over_before_its_time_even_if_the_class_tells_of_it() {
    let mut world = world().await;
    world.settings.orphan_age = Duration::from_secs(60 * 60);
    asks(&world, "away", "lost").await;
    let daemon = world.daemon().await;
    daemon.claim_step("away").await;
    let status = world.claim("away").await;
    assert_eq!(ended(&status), (AllocationPhase::Pending, "OrphanYoung"), "{status:?}");
    assert!(dropped(&world).is_empty());
}
