//! Cases from the field (docs/field-cases.md) that no other test of the controllers shows.

use std::sync::Arc;

use holdfast_api::*;
use holdfast_effects::PollState;
use kube::api::DeleteParams;
use serde_json::json;

use crate::support::capacity::*;
use crate::support::hosts::*;
use crate::support::modules::*;
use crate::support::*;

/// A24: a provider that calls it a failure although nobody knows what happened. Taken at its word, what was made would be
/// forgotten.
#[tokio::test]
async fn a_failure_that_is_reported_over_a_doubt_is_no_failure_a24() {
    for while_polling in [false, true] {
        let world = World::new().await;
        world.operation("op", "HostReboot").await;
        world.cloud.lose_next();
        let kicked = move |answer: Answer| -> Script {
            Arc::new(move |_, port| {
                let answer = answer.clone();
                Box::pin(async move {
                    assert!(port.perform("k".into(), on("kick", "old")).await.is_ok());
                    answer
                })
            })
        };
        let daemon = world.daemon().await;
        if while_polling {
            world.module.say(accepted("h"));
            world.module.then(kicked(polled(PollState::Failed, None, "GaveUp", "it failed")));
            daemon.step("op").await;
        } else {
            let refusal = failure(true, "GaveUp", "it failed");
            world.module.then(kicked(Ok(holdfast_effects::Returned::Begin(Err(refusal)))));
        }
        daemon.step("op").await;
        let status = world.status("op").await;
        assert_eq!(status.phase, Phase::OutcomeUnknown, "polling: {while_polling}, {status:?}");
        assert_eq!(status.effects[0].state, EffectState::Intended);
        assert_eq!(world.cloud.sends(), 1);
    }
}

/// C18: a host that cannot be reached any more, of which nothing was allocated here: its objects go without a call.
#[tokio::test]
async fn an_adopted_host_that_nobody_can_reach_is_deleted_without_a_call_and_the_reason_is_shown_c18() {
    let world = World::new().await;
    world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
    world.machine("odd", json!({ "provider": "fake", "providerID": "not an id at all" })).await;
    world.operation("op", "HostReboot").await;
    world
        .operation_with("on-odd", json!({ "machineRef": { "name": "odd" }, "operationKind": "HostReboot" }))
        .await;
    let daemon = world.daemon().await;
    for name in ["op", "on-odd"] {
        daemon.step(name).await;
        let status = world.status(name).await;
        let told = status.reason.clone().or(status.waiting.map(|waiting| waiting.reason));
        assert!(told.is_some(), "{name} says why");
        world.delete_operation(name).await;
        if world.operations().get_opt(name).await.unwrap().is_some() {
            daemon.step(name).await;
        }
        assert!(world.operations().get_opt(name).await.unwrap().is_none(), "{name} is gone");
    }
    for name in ["m", "odd"] {
        world.machines().delete(name, &DeleteParams::default()).await.unwrap();
        if world.machines().get_opt(name).await.unwrap().is_some() {
            daemon.machine_step(name).await;
        }
        assert!(world.machines().get_opt(name).await.unwrap().is_none(), "{name} is gone");
    }
    assert!(world.module.called().is_empty() && world.cloud.sends() == 0);
}

/// E06: what was wrong is told in the provider's words while it is wrong, and nothing of it is left afterwards.
#[tokio::test]
async fn a_cause_is_told_while_it_lasts_and_is_gone_after_recovery_e06() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Refused("quota-exceeded"));
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    let status = world.claim("web").await;
    let message = status.message.clone().unwrap_or_default();
    assert!(message.contains("the provider said so"), "the real cause is kept: {message}");
    world.pass(left(&world, &status.waiting) + 1);
    daemon.settle_within(&world, 15).await;
    let status = world.claim("web").await;
    assert_eq!(status.phase, AllocationPhase::Allocated);
    assert_eq!(status.waiting, None);
    let told = serde_json::to_string(&status).unwrap();
    for old in ["QuotaExceeded", "the provider said so"] {
        assert!(!told.contains(old), "{old} is left in {told}");
    }
}

/// E11: only a person can raise a quota. Where nothing is made yet the claim itself waits, and says what for; what is made
/// already is kept, and the rest asked for again.
#[tokio::test]
async fn a_quota_refusal_that_may_pass_ends_a_launch_that_has_made_nothing_and_no_other_e11() {
    let world = World::for_allocate().await;
    world.module.say(allocate_refused(false, "quota-exceeded"));
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.failure_code.as_deref()), (Phase::Failed, Some("quota-exceeded")));

    let world = World::for_allocate().await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            port.perform("volume".into(), plain("volume")).await.unwrap();
            allocate_refused(false, "quota-exceeded")
        })
    }));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.waiting.unwrap().reason.as_str()), (Phase::InProgress, "BeginFailed"));
    *world.module.default.lock().unwrap() = Some(hosts());
    world.pass_backoff("op").await;
    daemon.step("op").await;
    assert_eq!(world.cloud.effects().len(), 2, "one volume, one server");
}

/// F11: where a region has no zones, none is made up.
#[tokio::test]
async fn an_offering_without_a_zone_is_allocated_and_no_zone_is_made_up_f11() {
    for zone in [None, Some(String::new())] {
        let (world, provider) = World::with_class().await;
        let zoneless = holdfast_effects::ClassOffering { zone, ..offering("only", "", world.in_hours(2)) };
        provider.offers(vec![zoneless]);
        world.allocation("web", json!({})).await;
        let daemon = world.daemon().await;
        daemon.settle_within(&world, 15).await;
        let status = world.claim("web").await;
        assert_eq!(status.phase, AllocationPhase::Allocated, "{status:?}");
        assert_eq!(status.offering.unwrap().zone, None);
        world.delete_claim("web").await;
        daemon.settle_within(&world, 30).await;
        assert!(world.allocations().get_opt("web").await.unwrap().is_none());
        assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
    }
}
