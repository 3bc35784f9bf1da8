//! Immediate operations (2(b).2): executed once, unless they may be repeated; where we differ from upstream, X.3.

use std::sync::Arc;

use holdfast_api::{EffectState, Phase};
use holdfast_controllers::Next;
use holdfast_effects::Returned;
use serde_json::json;

use crate::support::faults::Plan;
use crate::support::modules::*;
use crate::support::*;

/// Performs one effect and then answers so.
fn performing(call: &'static str, answer: Answer) -> Script {
    Arc::new(move |_, port| {
        let answer = answer.clone();
        Box::pin(async move {
            let _ = port.perform("k".into(), on(call, "old")).await;
            answer
        })
    })
}

#[tokio::test]
async fn an_immediate_operation_completes_in_one_step_and_records_the_generation() {
    let world = World::new().await;
    world.operation("op", "HostPowerOff").await;
    world.module.then(performing("set", executed()));
    let daemon = world.daemon().await;
    assert_eq!(daemon.step("op").await, Next::Done);
    let status = world.status("op").await;
    assert_eq!((status.phase, status.observed_machine_generation), (Phase::Complete, Some(1)));
    assert_eq!(status.effects[0].state, EffectState::Done);
    assert_eq!(status.target.unwrap().attempts, 1);
    assert_eq!(world.cloud.sends(), 1);
}

/// R2.13.
#[tokio::test]
async fn in_progress_is_written_before_execute_is_called() {
    let world = World::new().await;
    world.operation("op", "HostPowerOff").await;
    let operations = world.operations();
    world.module.then(Arc::new(move |_, _| {
        let operations = operations.clone();
        Box::pin(async move {
            let status = operations.get("op").await.unwrap().status.unwrap();
            assert_eq!(status.phase, Phase::InProgress);
            assert!(status.target.unwrap().input.is_some());
            executed()
        })
    }));
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}

/// Dies while `execute` runs, after an effect was sent or before any.
async fn died_in_execute(world: &World, effect: bool) {
    let plan = Plan::never();
    let daemon = world.daemon_under(plan.clone()).await;
    world.module.then(Arc::new(move |_, port| {
        Box::pin(async move {
            if effect {
                let _ = port.perform("k".into(), on("set", "old")).await;
            }
            std::future::pending().await
        })
    }));
    daemon.controllers.refresh().await.unwrap();
    let cloud = world.cloud.clone();
    let module = world.module.clone();
    let operations = world.operations();
    let far_enough = async {
        loop {
            let called = module.count("execute") == 1;
            let settled =
                operations.get("op").await.unwrap().status.is_some_and(|status| {
                    status.effects.iter().any(|effect| effect.state == EffectState::Done)
                });
            if called && (!effect || (cloud.sends() == 1 && settled)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = daemon.controllers.reconcile("op") => panic!("it never answers"),
        () = far_enough => {}
    }
}

/// R2.11, and the row "3" of the crash table: upstream is stuck there for ever.
#[tokio::test]
async fn not_replay_safe_and_found_in_progress_with_an_effect_becomes_outcome_unknown() {
    let world = World::new().await;
    world.operation("op", "HostPowerOn").await;
    died_in_execute(&world, true).await;
    // Its auth isn't resolved, since it won't run.
    world.secrets().delete("token-secret", &Default::default()).await.unwrap();
    let daemon = world.daemon().await;
    assert_eq!(daemon.step("op").await, Next::Done);
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::OutcomeUnknown);
    assert_eq!(condition(&status, "OutcomeUnknown").unwrap().0, "True");
    assert!(status.waiting.unwrap().way_out.contains("spec.resolve"));
    assert_eq!(world.module.called(), ["execute"]);
}

/// Our decision: without an intent in the journal nothing was ever sent, so that running is a first run.
#[tokio::test]
async fn not_replay_safe_and_found_in_progress_without_any_effect_is_executed() {
    let world = World::new().await;
    world.operation("op", "HostPowerOn").await;
    died_in_execute(&world, false).await;
    world.module.then(performing("set", executed()));
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
    assert_eq!((world.module.count("execute"), world.cloud.sends()), (2, 1));
}

/// R2.11, R2.12: the journal gives back what was done.
#[tokio::test]
async fn replay_safe_is_executed_again_and_its_effect_is_not() {
    let world = World::new().await;
    world.operation("op", "HostPowerOff").await;
    died_in_execute(&world, true).await;
    world.module.then(performing("set", executed()));
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
    assert_eq!((world.module.count("execute"), world.cloud.sends()), (2, 1));
}

/// X.3: upstream fails on any error at once.
#[tokio::test]
async fn a_transient_error_is_retried_with_growing_waits_and_a_permanent_one_fails() {
    let world = World::new().await;
    world.operation("op", "HostPowerOn").await;
    let daemon = world.daemon().await;
    let mut last = std::time::Duration::ZERO;
    for _ in 0..4 {
        world.module.say(Ok(Returned::Execute(Err(failure(false, "Busy", "later")))));
        let Next::After(wait) = daemon.step("op").await else { panic!("given up") };
        assert!(wait > last);
        last = wait;
        world.pass_backoff("op").await;
    }
    assert_eq!(world.target("op").await.attempts, 4);
    world.module.say(Ok(Returned::Execute(Err(failure(true, "Broken", "for good")))));
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Broken")));
}

#[tokio::test]
async fn a_retry_after_that_is_later_than_the_backoff_is_honoured() {
    let world = World::new().await;
    world.operation("op", "HostPowerOn").await;
    let mut busy = failure(false, "Throttled", "later");
    busy.retry_after_ms = Some(90_000);
    world.module.say(Ok(Returned::Execute(Err(busy))));
    assert_eq!(world.daemon().await.step("op").await, after(90));
}

/// Edge case 24 for execute: the same as a lost reply.
#[tokio::test]
async fn a_trap_after_an_effect_is_unknown_unless_replay_safe_and_before_one_it_is_retried() {
    for (kind, effect, phase) in [
        ("HostPowerOn", true, Phase::OutcomeUnknown),
        ("HostPowerOn", false, Phase::InProgress),
        ("HostPowerOff", true, Phase::InProgress),
    ] {
        let world = World::new().await;
        world.operation("op", kind).await;
        if effect {
            world.module.then(performing("set", trap()));
        } else {
            world.module.say(trap());
        }
        world.daemon().await.step("op").await;
        assert_eq!(world.status("op").await.phase, phase, "{kind} {effect}");
    }
}

/// `replay = "never"` and the answer lost: only a person can settle it.
#[tokio::test]
async fn an_effect_that_may_never_be_repeated_waits_for_a_person() {
    let world = World::new().await;
    world.operation("op", "HostPowerOn").await;
    world.cloud.lose_next();
    world.module.then(performing("kick", Ok(Returned::Execute(Err(failure(false, "Lost", "lost"))))));
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::OutcomeUnknown);
    assert_eq!(status.effects[0].state, EffectState::Intended);
    assert_eq!(world.cloud.sends(), 1);
}

/// An effect that may be repeated is settled by the next call, even where the operation isn't replay-safe: the guest
/// has answered, and the host decides what may be sent again.
#[tokio::test]
async fn an_effect_in_doubt_that_may_be_repeated_is_settled_by_the_next_call() {
    let world = World::new().await;
    world.operation("op", "HostPowerOn").await;
    world.cloud.lose_next();
    let daemon = world.daemon().await;
    world.module.then(performing("set", Ok(Returned::Execute(Err(failure(false, "InDoubt", "lost"))))));
    daemon.step("op").await;
    assert_eq!(world.status("op").await.waiting.unwrap().reason, "EffectInDoubt");
    world.pass_backoff("op").await;
    world.module.then(performing("set", executed()));
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.effects[0].state), (Phase::Complete, EffectState::Done));
    assert_eq!(world.cloud.effects().len(), 1);
}

/// X.3: transient trouble with first-boot data is waited out; upstream fails.
#[tokio::test]
async fn missing_first_boot_data_is_waited_for_and_a_missing_reference_fails() {
    let world = World::for_replace().await;
    world.secrets().delete("boot", &Default::default()).await.unwrap();
    world.operation("op", "HostReplace").await;
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.waiting.unwrap().reason, "InputUnavailable");
    world.secret_of_type("boot", "Opaque", "", &[("userData", b"x")]).await;
    world.pass_backoff("op").await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    assert!(world.target("op").await.provider_operation.is_some());

    let world = World::new().await;
    world.operation("op", "HostReplace").await;
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("BootstrapDataMissing"));
    assert!(world.module.called().is_empty());
}

#[tokio::test]
async fn every_retry_of_a_wait_keeps_its_since() {
    let world = World::new().await;
    world.operation("op", "HostPowerOn").await;
    let daemon = world.daemon().await;
    world.module.say(Ok(Returned::Execute(Err(failure(false, "Busy", "")))));
    daemon.step("op").await;
    let since = world.status("op").await.waiting.unwrap().since;
    let shown = serde_json::to_value(world.get("op").await).unwrap();
    assert!(shown["status"]["waiting"]["since"].is_string(), "{}", json!(shown["status"]));
    assert_eq!(since.0, world.clock_now());
}

/// The execution answered, and its second effect was refused by the fence: it is known how far it came.
#[tokio::test]
async fn a_fenced_execution_is_not_taken_for_one_that_was_cut_off() {
    let world = World::new().await;
    world.operation("op", "HostPowerOn").await;
    world.module.then(performing("set", Ok(Returned::Execute(Err(failure(false, "Busy", "later"))))));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.pass_backoff("op").await;
    let operations = world.operations();
    world.module.then(Arc::new(move |_, port| {
        let operations = operations.clone();
        Box::pin(async move {
            let word = json!({ "spec": { "resolve": { "effect": "k", "outcome": "TookEffect" } } });
            let patch = kube::api::Patch::Merge(word);
            operations.patch("op", &Default::default(), &patch).await.unwrap();
            assert!(port.perform("other".into(), on("kick", "old")).await.is_err());
            Ok(Returned::Execute(Err(failure(false, "Fenced", "later"))))
        })
    }));
    assert_eq!(daemon.step("op").await, after(1));
    assert_eq!(world.status("op").await.target.unwrap().stage.as_deref(), Some("WaitingRetry"));
    world.module.then(performing("set", executed()));
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "{:?} {:?}", status.reason, status.message);
    assert_eq!(world.cloud.sends(), 1);
}
