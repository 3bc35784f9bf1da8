//! The journal in the status: one type in two crates, and the fence.

use std::sync::Arc;

use holdfast_effects::{Effect, EffectState, Owned, RecordedRefusal, RecordedReply, SettledBy};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::modules::*;
use crate::support::*;

fn full() -> Effect {
    let at = |second| Timestamp::from_second(second).unwrap();
    Effect {
        key: "k".into(),
        call: "make".into(),
        effect: "create".into(),
        binding: "api/here".into(),
        place: Some("https://api.example/?region=eu".into()),
        fingerprint: "f".into(),
        aim: "a".into(),
        token: "hf".into(),
        attempts: 3,
        epoch: 7,
        state: EffectState::Done,
        intended_at: at(1_700_000_001),
        first_intended_at: at(1_700_000_000),
        settled_at: Some(at(1_700_000_002)),
        settled_by: Some(SettledBy::Lookup),
        reply: Some(RecordedReply {
            status: 201,
            fields: serde_json::from_value(json!({ "id": "i", "n": 4 })).unwrap(),
        }),
        refusal: Some(RecordedRefusal {
            code: "conflict".into(),
            reason: "Busy".into(),
            message: "m".into(),
            native: Some("E1".into()),
        }),
        created: vec![Owned {
            place: Some("https://api.example/?region=eu".into()),
            incarnation: Some("2026-01-02T03:04:05Z".into()),
            ..Owned::new("api/here", "server", "i")
        }],
        targets: vec![Owned::new("api/here", "server", "t")],
        absent_since: Some(at(1_700_000_003)),
    }
}

/// Field by field: what one crate writes, the other reads, and nothing is lost on the way there and back.
#[test]
fn the_effect_of_the_api_and_that_of_the_journal_are_the_same_in_json() {
    let mine = serde_json::to_value(full()).unwrap();
    let api: holdfast_api::Effect = serde_json::from_value(mine.clone()).unwrap();
    let theirs = serde_json::to_value(&api).unwrap();
    assert_eq!(theirs, mine);
    let back: Effect = serde_json::from_value(theirs).unwrap();
    assert_eq!(back, full());
}

#[test]
fn every_word_of_the_journal_is_one_of_the_api() {
    for state in [EffectState::Intended, EffectState::Done, EffectState::Rejected, EffectState::Abandoned] {
        serde_json::from_value::<holdfast_api::EffectState>(json!(state)).unwrap();
    }
    for by in [SettledBy::Answer, SettledBy::Repeat, SettledBy::Lookup, SettledBy::Operator] {
        serde_json::from_value::<holdfast_api::SettledBy>(json!(by)).unwrap();
    }
    for kind in ["create", "update", "destroy"] {
        serde_json::from_value::<holdfast_api::EffectKind>(Value::from(kind)).unwrap();
    }
}

/// Field case A32.
#[tokio::test]
async fn an_intent_is_in_the_store_before_anything_is_sent() {
    let world = World::new().await;
    world.operation("op", "HostPowerOff").await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            port.perform("k".into(), on("set", "old")).await.unwrap();
            executed()
        })
    }));
    let daemon = world.daemon().await;
    // The store is away when the intent is to be written: the start has gone through, nothing else does.
    let plan = daemon.plan.clone();
    world.module.script.lock().unwrap().clear();
    world.module.then(Arc::new(move |_, port| {
        *plan.flaky.lock().unwrap() = Some(("op/status".into(), 1));
        Box::pin(async move {
            assert!(port.perform("k".into(), on("set", "old")).await.is_err());
            Ok(holdfast_effects::Returned::Execute(Err(failure(false, "Store", "away"))))
        })
    }));
    daemon.step("op").await;
    assert_eq!(world.cloud.sends(), 0);
    assert!(world.status("op").await.effects.is_empty());
}

/// Labels and the like may change under a callback: the intent goes on over them.
/// Field cases A02 and A26.
#[tokio::test]
async fn an_unrelated_change_does_not_stop_an_effect_nor_lose_its_outcome() {
    let world = World::new().await;
    world.operation("op", "HostPowerOff").await;
    let operations = world.operations();
    world.module.then(Arc::new(move |_, port| {
        let operations = operations.clone();
        Box::pin(async move {
            let patch = kube::api::Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
            operations.patch("op", &Default::default(), &patch).await.unwrap();
            port.perform("k".into(), on("set", "old")).await.unwrap();
            executed()
        })
    }));
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, holdfast_api::Phase::Complete);
    assert_eq!(status.effects[0].state, holdfast_api::EffectState::Done);
    assert_eq!(world.cloud.sends(), 1, "a conflict repeats the write and not the effect");
    assert_eq!(world.get("op").await.metadata.labels.unwrap()["a"], "b");
}

/// What can't be read must not look as if it had never been intended.
#[tokio::test]
async fn an_effect_that_can_not_be_read_makes_the_operation_wait_and_nothing_is_sent() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            port.perform("k".into(), on("set", "old")).await.unwrap();
            Ok(holdfast_effects::Returned::Begin(Err(failure(false, "Busy", ""))))
        })
    }));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.cloud.sends(), 1);
    world.set_status("op", |status| status.effects[0].reply.as_mut().unwrap().status = 70_000).await;
    world.pass_backoff("op").await;
    assert_eq!(daemon.step("op").await, after(300));
    let status = world.status("op").await;
    assert_eq!(status.waiting.unwrap().reason, "JournalUnreadable");
    assert!(status.message.unwrap().contains("status.effects"));
    assert_eq!((world.module.count("begin"), world.cloud.sends()), (1, 1));
    // And a person can end it.
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("Canceled"));
}

/// The same under a callback that runs: the intent is refused.
#[tokio::test]
async fn an_effect_that_becomes_unreadable_under_a_callback_stops_the_next_one() {
    let world = Arc::new(World::new().await);
    world.operation("op", "HostReboot").await;
    let operations = world.operations();
    world.module.then(Arc::new(move |_, port| {
        let operations = operations.clone();
        Box::pin(async move {
            port.perform("k".into(), on("set", "old")).await.unwrap();
            let mut operation = operations.get("op").await.unwrap();
            let status = operation.status.as_mut().unwrap();
            status.effects[0].reply.as_mut().unwrap().status = 70_000;
            operations.replace_status("op", &Default::default(), &operation).await.unwrap();
            assert!(port.perform("l".into(), on("set", "old")).await.is_err());
            Ok(holdfast_effects::Returned::Begin(Err(failure(false, "Busy", ""))))
        })
    }));
    world.daemon().await.step("op").await;
    assert_eq!(world.cloud.sends(), 1);
}
