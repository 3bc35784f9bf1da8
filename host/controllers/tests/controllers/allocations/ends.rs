//! Launches that end otherwise: no capacity, no quota, half-made hosts, deadlines, doubts.

use holdfast_api::*;
use serde_json::json;

use crate::support::capacity::*;
use crate::support::*;

/// Must-show 7: capacity exhausted in one zone.
/// Field case F04.
#[tokio::test]
async fn an_offering_without_capacity_is_left_for_the_next_and_others_know_it() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Refused("capacity-exhausted"));
    world.allocation("one", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let one = world.claim("one").await;
    assert_eq!((one.phase, one.attempt), (AllocationPhase::Allocated, 1), "{one:?}");
    assert_eq!(one.offering.unwrap().zone.as_deref(), Some("z2"));
    assert_eq!((one.exhausted[0].name.as_str(), one.exhausted[0].zone.as_deref()), ("a", Some("z1")));
    assert_eq!(world.operation_names().await, ["one-allocate-0", "one-allocate-1"]);

    world.allocation("two", json!({})).await;
    daemon.settle_within(&world, 15).await;
    let two = world.claim("two").await;
    assert_eq!((two.attempt, two.offering.unwrap().name.as_str()), (0, "b"), "it was not tried in vain");
}

/// Field case F01.
#[tokio::test]
async fn when_nothing_has_capacity_the_claims_wait_and_one_tries_first() {
    let (world, provider) = World::with_class().await;
    provider.offers(vec![offering("only", "z1", world.in_hours(2))]);
    provider.next_launch(Launch::Refused("capacity-exhausted"));
    let daemon = world.daemon().await;
    world.allocation("one", json!({})).await;
    daemon.settle(&world).await;
    world.allocation("two", json!({})).await;
    daemon.settle(&world).await;
    for name in ["one", "two"] {
        let status = world.claim(name).await;
        assert_eq!(status.waiting.clone().unwrap().reason, "NoOfferingAvailable", "{name}: {status:?}");
        assert!(status.message.clone().unwrap().contains("had no capacity lately"), "{:?}", status.message);
        let wait = left(&world, &status.waiting);
        assert!((600..=610).contains(&wait), "{wait}");
    }
    world.pass(611);
    daemon.claim_step("one").await;
    daemon.claim_step("two").await;
    assert_eq!(world.claim("one").await.phase, AllocationPhase::Allocating);
    assert_eq!(world.claim("two").await.phase, AllocationPhase::Pending, "one tries, the others wait for it");
    daemon.settle_within(&world, 30).await;
    assert_eq!(world.claim("one").await.phase, AllocationPhase::Allocated);
    assert_eq!(world.claim("two").await.phase, AllocationPhase::Allocated);
}

/// The host knows itself when an offering has expired. A provider that says so early would be asked for ever, and each
/// time at once.
#[tokio::test]
async fn a_provider_that_says_early_that_the_offering_has_expired_is_not_asked_again() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Said("OfferingExpired"));
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let status = world.claim("web").await;
    assert_eq!(status.phase, AllocationPhase::Failed, "{status:?}");
    assert_eq!(status.message.as_deref(), Some("the provider said so"));
    assert_eq!(world.operation_names().await, ["web-allocate-0"]);
}

/// 2(e) 23, R2.27: a launch that fails after having made something.
/// Field case B01.
#[tokio::test]
async fn what_a_failed_launch_has_made_is_released_before_the_next_offering_is_tried() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Half("capacity-exhausted"));
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 60).await;
    let status = world.claim("web").await;
    assert_eq!(
        (status.phase, status.attempt, status.releases),
        (AllocationPhase::Allocated, 1, 1),
        "{status:?}"
    );
    assert_eq!(world.operation_names().await, ["web-allocate-0", "web-allocate-1", "web-release-1"]);
    assert_eq!((world.sent("make"), world.sent("drop")), (2, 1));
    assert_eq!(status.owned_resources.len(), 1);
    assert_eq!(
        status.owned_resources[0].zone,
        status.offering.unwrap().zone,
        "it is in the zone of the second"
    );
}

/// Field cases B08, C16 and D13.
#[tokio::test]
async fn a_launch_that_fails_for_good_is_cleaned_up_and_kept_for_a_person_to_read() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Half("internal"));
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 60).await;
    let status = world.claim("web").await;
    assert_eq!(
        (status.phase, status.reason.as_deref()),
        (AllocationPhase::Failed, Some("GaveUp")),
        "{status:?}"
    );
    assert!(status.owned_resources.is_empty() && status.waiting.is_none());
    assert_eq!(claim_condition(&status, "Released").unwrap().0, "True");
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
    world.delete_claim("web").await;
    daemon.settle(&world).await;
    assert!(world.allocations().get_opt("web").await.unwrap().is_none());
    assert!(world.machines().get_opt("web").await.unwrap().is_none());
    assert_eq!(world.sent("drop"), 1, "what is released is not released again");
}

/// Field cases E11 and F06.
#[tokio::test]
async fn a_quota_is_waited_for_and_no_other_offering_is_tried_meanwhile() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Refused("quota-exceeded"));
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    let status = world.claim("web").await;
    let waiting = status.waiting.clone().unwrap();
    assert_eq!((status.phase, waiting.reason.as_str()), (AllocationPhase::Pending, "QuotaExceeded"));
    assert!(waiting.way_out.contains("quota") && status.exhausted.is_empty());
    daemon.settle(&world).await;
    assert_eq!(world.module.count("begin-allocate"), 1);
    world.pass(left(&world, &status.waiting) + 1);
    daemon.settle_within(&world, 15).await;
    let status = world.claim("web").await;
    assert_eq!((status.phase, status.offering.unwrap().name.as_str()), (AllocationPhase::Allocated, "a"));
}

/// Field cases A23, B23 and D19.
#[tokio::test]
async fn a_deadline_gives_up_releases_and_says_so() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Endless);
    world.allocation("web", json!({ "deadlineSeconds": 600 })).await;
    world.allocation("never", json!({ "deadlineSeconds": 600, "constraints": { "zones": ["z9"] } })).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 300).await;
    assert_eq!(world.claim("web").await.phase, AllocationPhase::Allocating);
    assert_eq!(world.claim("never").await.phase, AllocationPhase::Pending);
    world.pass(301);
    daemon.settle_within(&world, 60).await;
    for name in ["web", "never"] {
        let status = world.claim(name).await;
        let end = (status.phase, status.reason.as_deref());
        assert_eq!(end, (AllocationPhase::Failed, Some("DeadlineExceeded")), "{name}: {status:?}");
        assert!(status.owned_resources.is_empty());
    }
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
}

#[tokio::test]
async fn a_claim_comes_back_by_itself_at_its_deadline() {
    let (world, _) = World::with_class().await;
    world.allocation("web", json!({ "deadlineSeconds": 600, "constraints": { "zones": ["z9"] } })).await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    let holdfast_controllers::Next::After(next) = daemon.claim_step("web").await else { panic!("never") };
    assert!((590..=600).contains(&next.as_secs()), "{next:?}");
}

#[tokio::test]
async fn a_doubt_that_only_a_person_can_settle_is_shown_and_the_claim_goes_on_after_it() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Endless);
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    world.set_status("web-allocate-0", |status| status.phase = Phase::OutcomeUnknown).await;
    daemon.claim_step("web").await;
    let status = world.claim("web").await;
    let waiting = status.waiting.unwrap();
    assert_eq!(waiting.reason, "OutcomeUnknown");
    assert!(waiting.way_out.contains("spec.resolve"));
    // Not even a deletion gives up what nobody knows.
    world.delete_claim("web").await;
    daemon.claim_step("web").await;
    assert!(!world.get("web-allocate-0").await.spec.cancel);
    world.set_status("web-allocate-0", |status| status.phase = Phase::InProgress).await;
    daemon.settle_within(&world, 60).await;
    assert!(world.allocations().get_opt("web").await.unwrap().is_none());
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
}

/// Field case E08: a place where hosts do not become ready is not taken first again; it is no wall, and forgiven when one
/// does.
#[tokio::test]
async fn where_a_host_was_made_and_never_became_ready_others_are_preferred_for_a_while_e08() {
    let (world, provider) = World::with_class().await;
    let daemon = world.daemon().await;
    let lands = async |name: &str, more: serde_json::Value| {
        world.allocation(name, more).await;
        daemon.settle_within(&world, 60).await;
        let status = world.claim(name).await;
        let chosen = status.offering.map(|offering| offering.name);
        (status.phase, chosen.unwrap_or_default())
    };
    provider.next_launch(Launch::Half("internal"));
    assert_eq!(lands("bad", json!({})).await, (AllocationPhase::Failed, "a".into()));
    assert_eq!(lands("next", json!({})).await, (AllocationPhase::Allocated, "b".into()));
    world.pass(30 * 60);
    assert_eq!(lands("later", json!({})).await, (AllocationPhase::Allocated, "a".into()), "for a while");

    provider.next_launch(Launch::Half("internal"));
    assert_eq!(lands("bad-again", json!({})).await, (AllocationPhase::Failed, "a".into()));
    assert_eq!(lands("elsewhere", json!({})).await, (AllocationPhase::Allocated, "b".into()));
    let pinned = json!({ "constraints": { "zones": ["z1"] } });
    assert_eq!(
        lands("pinned", pinned).await,
        (AllocationPhase::Allocated, "a".into()),
        "nothing else will do"
    );
    assert_eq!(
        lands("last", json!({})).await,
        (AllocationPhase::Allocated, "a".into()),
        "a host became ready"
    );
}

/// Field case E08: what nobody wanted, or what never came to be, says nothing of a place.
#[tokio::test]
async fn a_refusal_and_a_host_that_was_given_up_leave_no_mark_on_a_place_e08() {
    let (world, provider) = World::with_class().await;
    let daemon = world.daemon().await;
    provider.next_launch(Launch::Refused("invalid-input"));
    world.allocation("refused", json!({})).await;
    daemon.settle_within(&world, 60).await;
    assert_eq!(world.claim("refused").await.phase, AllocationPhase::Failed);
    provider.next_launch(Launch::Endless);
    world.allocation("given-up", json!({})).await;
    daemon.settle_within(&world, 30).await;
    world.delete_claim("given-up").await;
    daemon.settle_within(&world, 60).await;
    assert!(world.allocations().get_opt("given-up").await.unwrap().is_none());
    world.allocation("next", json!({})).await;
    daemon.settle_within(&world, 60).await;
    assert_eq!(world.claim("next").await.offering.unwrap().name, "a");
}
