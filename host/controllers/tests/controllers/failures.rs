//! Failures that the host makes (X.2 rule 3, edge case 24): transient under a cap, then permanent with the history.

use std::sync::Arc;

use holdfast_api::Phase;
use holdfast_controllers::Next;
use holdfast_controllers::rooms::HostFailure;
use holdfast_effects::{PollState, Returned};

use crate::support::modules::*;
use crate::support::*;

#[tokio::test]
async fn a_module_that_traps_is_retried_under_a_cap_and_then_fails_with_the_history() {
    let mut world = World::new().await;
    world.settings.host_failure_cap = 3;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    for _ in 0..2 {
        world.module.say(trap());
        assert!(matches!(daemon.step("op").await, Next::After(_)));
        world.pass_backoff("op").await;
    }
    world.module.say(trap());
    assert_eq!(daemon.step("op").await, Next::Done);
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("ModulePanicked")));
    assert!(status.message.unwrap().contains("3 times"));
    assert_eq!(status.target.unwrap().attempts, 3);
}

#[tokio::test]
async fn a_trap_in_a_poll_is_transient_and_an_answer_starts_the_count_over() {
    let mut world = World::new().await;
    world.settings.host_failure_cap = 2;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    for _ in 0..3 {
        world.module.say(trap()).say(poll(PollState::InProgress));
        daemon.step("op").await;
        assert_eq!(world.status("op").await.waiting.unwrap().reason, "PollFailed");
        daemon.step("op").await;
    }
    assert_eq!(world.status("op").await.phase, Phase::InProgress);
}

#[tokio::test]
async fn poll_errors_come_back_with_growing_waits() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    let mut waits = Vec::new();
    for _ in 0..8 {
        world.module.say(Ok(Returned::Poll(Err(failure(false, "Oops", "again")))));
        let Next::After(wait) = daemon.step("op").await else { panic!("given up") };
        waits.push(wait);
    }
    // The last ones are at the cap, where only the jitter differs.
    assert!(waits[..7].is_sorted() && waits[7] > waits[0], "{waits:?}");
    assert!(waits[7] <= std::time::Duration::from_secs(300));
}

/// What the module's own code decides is not tried again.
#[tokio::test]
async fn a_violation_that_a_repeat_cannot_cure_ends_the_operation_at_once() {
    for reason in ["UndeclaredCall", "WrongPhase", "ForeignTarget", "ForeignIdentity"] {
        let world = World::new().await;
        world.operation("op", "HostReboot").await;
        let violation = holdfast_effects::Violation { reason: reason.into(), message: "refused".into() };
        world.module.say(Err(HostFailure::from(violation)));
        assert_eq!(world.daemon().await.step("op").await, Next::Done);
        let status = world.status("op").await;
        assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some(reason)));
    }
}

/// R2.6: a secret in an answer is withheld; nothing of it is stored.
#[tokio::test]
async fn a_secret_in_an_answer_is_withheld_and_the_call_is_retried() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    *world.cloud.canary.lock().unwrap() = Some("hunter2hunter2".into());
    world.module.say(accepted("hunter2hunter2"));
    let daemon = world.daemon().await;
    assert!(matches!(daemon.step("op").await, Next::After(_)));
    let stored = serde_json::to_string(&world.get("op").await).unwrap();
    assert!(!stored.contains("hunter2"), "{stored}");
    assert!(world.target("op").await.provider_operation.is_none());
}

#[tokio::test]
async fn overload_of_the_host_does_not_count_against_the_module() {
    let mut world = World::new().await;
    world.settings.host_failure_cap = 1;
    world.operation("op", "HostReboot").await;
    world.module.say(Err(HostFailure {
        reason: "Overloaded".into(),
        message: "no instance became free".into(),
        permanent: false,
        blameless: true,
    }));
    assert!(matches!(world.daemon().await.step("op").await, Next::After(_)));
    assert_eq!(world.status("op").await.phase, Phase::InProgress);
}

/// A begin that is cut off after its effect: the next begin gets the recorded reply, and sends nothing.
/// Field case A14.
#[tokio::test]
async fn a_begin_that_traps_after_its_effect_is_begun_again_without_a_second_effect_r2_3() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let perform = |answer: Answer| -> Script {
        Arc::new(move |_, port| {
            let answer = answer.clone();
            Box::pin(async move {
                port.perform("k".into(), on("set", "old")).await.unwrap();
                answer
            })
        })
    };
    world.module.then(perform(trap())).then(perform(accepted("h")));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.pass_backoff("op").await;
    daemon.step("op").await;
    assert!(world.target("op").await.provider_operation.is_some());
    assert_eq!(world.cloud.sends(), 1);
}
