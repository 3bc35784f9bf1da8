//! Ways out: resolve, cancel, deadline, deletion. No state lasts for ever unseen (architecture, Errors, waits, limits).

use std::sync::Arc;

use holdfast_api::{EffectState, Phase, SettledBy};
use holdfast_controllers::Next;
use holdfast_effects::{PollState, Returned};
use kube::ResourceExt as _;
use serde_json::json;

use crate::support::faults::{GiveUp, Plan};
use crate::support::modules::*;
use crate::support::*;

fn kicking(answer: Answer) -> Script {
    Arc::new(move |_, port| {
        let answer = answer.clone();
        Box::pin(async move {
            let _ = port.perform("k".into(), on("kick", "old")).await;
            answer
        })
    })
}

fn lost() -> Answer {
    Ok(Returned::Begin(Err(failure(false, "Lost", "the answer was lost"))))
}

/// An operation in OutcomeUnknown: the answer to a call that may never be repeated was lost.
async fn unknown() -> (World, Daemon) {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.cloud.lose_next();
    world.module.then(kicking(lost()));
    let daemon = world.daemon().await;
    assert_eq!(daemon.step("op").await, after(300));
    assert_eq!(world.status("op").await.phase, Phase::OutcomeUnknown);
    (world, daemon)
}

async fn resolve(world: &World, effect: &str, outcome: &str) {
    world
        .patch_operation("op", json!({ "spec": { "resolve": { "effect": effect, "outcome": outcome } } }))
        .await;
}

/// Field case A22.
#[tokio::test]
async fn took_effect_settles_the_effect_and_the_operation_goes_on_without_sending_again() {
    let (world, daemon) = unknown().await;
    resolve(&world, "k", "TookEffect").await;
    world.module.then(kicking(accepted("h"))).say(poll(PollState::Succeeded));
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::InProgress);
    let effect = &status.effects[0];
    assert_eq!((effect.state, effect.settled_by), (EffectState::Done, Some(SettledBy::Operator)));
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
    assert_eq!(world.cloud.sends(), 1);
}

/// Field case A22.
#[tokio::test]
async fn did_not_happen_lets_it_be_sent_again() {
    let (world, daemon) = unknown().await;
    resolve(&world, "k", "DidNotHappen").await;
    world.module.then(kicking(accepted("h")));
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.effects[0].state), (Phase::InProgress, EffectState::Done));
    assert_eq!(world.cloud.sends(), 2);
}

/// One word, one doubt: what was said of the first send says nothing of the second.
#[tokio::test]
async fn a_used_word_is_taken_out_and_does_not_answer_the_next_doubt() {
    let (world, daemon) = unknown().await;
    resolve(&world, "k", "DidNotHappen").await;
    world.cloud.lose_next();
    world.module.then(kicking(lost()));
    daemon.step("op").await;
    assert_eq!(world.get("op").await.spec.resolve, None);
    for _ in 0..3 {
        daemon.step("op").await;
        world.pass(600);
    }
    let status = world.status("op").await;
    assert_eq!((status.phase, status.effects[0].state), (Phase::OutcomeUnknown, EffectState::Intended));
    assert_eq!(world.cloud.sends(), 2);
    // Said again, it counts again.
    resolve(&world, "k", "DidNotHappen").await;
    world.module.then(kicking(accepted("h")));
    daemon.step("op").await;
    assert_eq!((world.cloud.sends(), world.status("op").await.phase), (3, Phase::InProgress));
}

/// The daemon dies at every write between a person's word and the second doubt.
#[tokio::test]
async fn a_crash_at_any_write_does_not_let_one_word_answer_two_doubts() {
    let mut write = 0;
    loop {
        let mut died = false;
        for lands in [false, true] {
            let (world, daemon) = unknown().await;
            drop(daemon);
            world.pass(1);
            resolve(&world, "k", "DidNotHappen").await;
            *world.module.default.lock().unwrap() = Some(kicking(lost()));
            for _ in 0..4 {
                world.cloud.lose_next();
            }
            let plan = Plan::at(write, lands);
            let daemon = world.daemon_under(plan.clone()).await;
            for _ in 0..3 {
                tokio::select! {
                    _ = daemon.step("op") => world.pass(600),
                    () = plan.death() => break,
                }
            }
            drop(daemon);
            world.pass(1);
            let daemon = world.daemon().await;
            for _ in 0..4 {
                daemon.step("op").await;
                world.pass(600);
            }
            assert!(world.cloud.sends() <= 2, "{write} {lands}: sent {} times", world.cloud.sends());
            let operation = world.get("op").await;
            assert_eq!(operation.spec.resolve, None, "{write} {lands}");
            assert_eq!(operation.status.unwrap().phase, Phase::OutcomeUnknown, "{write} {lands}");
            died |= plan.is_dead();
        }
        if !died {
            break;
        }
        write += 1;
    }
    assert!(write >= 4, "only {write} durable writes were found");
}

#[tokio::test]
async fn a_word_that_was_said_before_the_doubt_does_not_answer_it() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    resolve(&world, "k", "DidNotHappen").await;
    world.cloud.lose_next();
    world.module.then(kicking(lost()));
    let mut daemon = world.daemon().await;
    for _ in 0..3 {
        daemon.step("op").await;
        world.pass(600);
    }
    assert_eq!(world.status("op").await.phase, Phase::OutcomeUnknown);
    assert_eq!((world.cloud.sends(), world.get("op").await.spec.resolve), (1, None));
    daemon.controllers.flush_events().await;
    assert!(world.events().await.contains(&"NotResolved".to_owned()));
}

#[tokio::test]
async fn abandon_fails_the_operation_and_frees_the_machine() {
    let (world, daemon) = unknown().await;
    world.operation("next", "HostPowerOff").await;
    daemon.step("next").await;
    assert_eq!(
        world.status("next").await.phase,
        Phase::Pending,
        "unknown blocks the machine until a person resolves it"
    );
    resolve(&world, "k", "Abandon").await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Abandoned")));
    assert_eq!(status.effects[0].state, EffectState::Abandoned);
    world.module.say(executed());
    daemon.step("next").await;
    assert_eq!(world.status("next").await.phase, Phase::Complete);
}

#[tokio::test]
async fn a_word_on_an_effect_that_is_not_there_changes_nothing_and_is_told() {
    let (world, mut daemon) = unknown().await;
    resolve(&world, "typo", "TookEffect").await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::OutcomeUnknown);
    daemon.step("op").await;
    daemon.controllers.flush_events().await;
    let told = world.events().await.into_iter().filter(|reason| reason == "NotResolved").count();
    assert_eq!(told, 1);
}

#[tokio::test]
async fn cancel_after_the_outcome_became_unknown_gives_it_up() {
    let (world, daemon) = unknown().await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Canceled")));
    assert_eq!(status.effects[0].state, EffectState::Abandoned);
}

#[tokio::test]
async fn cancel_before_begin_fails_at_once_and_calls_nobody() {
    let world = World::new().await;
    world.operation("first", "HostReboot").await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("Canceled"));
    assert!(world.module.called().is_empty());
}

/// R2.38: asked to stop is not stopped.
#[tokio::test]
async fn cancel_with_a_handle_asks_the_provider_once_and_polls_on() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    world.module.say(Ok(Returned::Cancel(Err(failure(false, "Busy", ""))))).say(poll(PollState::InProgress));
    daemon.step("op").await;
    world.module.say(Ok(Returned::Cancel(Ok(())))).say(poll(PollState::InProgress));
    daemon.step("op").await;
    world.module.say(poll(PollState::InProgress)).say(polled(
        PollState::Canceled,
        None,
        "Stopped",
        "it stopped",
    ));
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::InProgress);
    daemon.step("op").await;
    assert_eq!(world.module.count("cancel"), 2);
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Canceled")));
}

#[tokio::test]
async fn a_cancelled_operation_that_succeeds_all_the_same_is_complete() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    let mut cannot = failure(true, "TooLate", "past the point of no return");
    cannot.code = "unsupported".into();
    world.module.say(Ok(Returned::Cancel(Err(cannot)))).say(poll(PollState::Succeeded));
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}

/// R2.38, and I9: what never stops is followed for long, rarer and rarer, and not for ever.
#[tokio::test]
async fn a_cancelled_operation_that_never_stops_ends_in_time_and_says_what_is_not_known() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    world.module.say(Ok(Returned::Cancel(Ok(()))));
    let (mut passed, mut polls) = (0, 0);
    while world.status("op").await.phase == Phase::InProgress {
        assert!(polls < 100, "still followed after {passed} s");
        polls += 1;
        world.module.say(poll(PollState::InProgress));
        let Next::After(wait) = daemon.step("op").await else { continue };
        let waiting = world.status("op").await.waiting;
        assert!(waiting.is_none_or(|waiting| waiting.way_out.contains("by itself")), "the way out is true");
        passed += wait.as_secs().max(1);
        world.pass(wait.as_secs().max(1));
    }
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Canceled")));
    assert!(status.message.unwrap().contains("what it still does is not known"));
    assert!((4500..4600).contains(&passed), "followed for 75 minutes, and not {passed} s");
    assert!((20..80).contains(&polls), "{polls} polls");
}

/// R2.38: nobody has said that it is to end whatever became of it; a person is asked, who may cancel.
#[tokio::test]
async fn a_deadline_of_an_operation_that_never_stops_leaves_the_outcome_to_a_person() {
    let world = World::new().await;
    let spec = json!({ "machineRef": { "name": "m" }, "operationKind": "HostReboot", "deadlineSeconds": 10 });
    world.operation_with("op", spec).await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    world.pass(11);
    world.module.say(Ok(Returned::Cancel(Ok(())))).say(poll(PollState::InProgress));
    daemon.step("op").await;
    world.pass(75 * 60);
    world.module.say(poll(PollState::InProgress));
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!(
        (status.phase, status.waiting.unwrap().reason.as_str()),
        (Phase::OutcomeUnknown, "OutcomeUnknown")
    );
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Canceled")));
}

#[tokio::test]
async fn a_deadline_asks_to_stop_and_ends_with_its_own_reason() {
    let world = World::new().await;
    let spec = json!({ "machineRef": { "name": "m" }, "operationKind": "HostReboot", "deadlineSeconds": 10 });
    world.operation_with("op", spec).await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h"));
    assert_eq!(daemon.step("op").await, after(15));
    world.pass(4);
    world.module.say(poll(PollState::InProgress));
    assert_eq!(daemon.step("op").await, after(6), "looked at again at the deadline");
    world.pass(6);
    world.module.say(Ok(Returned::Cancel(Ok(())))).say(poll(PollState::Canceled));
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("DeadlineExceeded")));
}

#[tokio::test]
async fn a_deadline_with_an_effect_in_doubt_is_no_proof_and_becomes_outcome_unknown() {
    let world = World::new().await;
    let spec = json!({ "machineRef": { "name": "m" }, "operationKind": "HostReboot", "deadlineSeconds": 10 });
    world.operation_with("op", spec).await;
    world.cloud.lose_next();
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            let _ = port.perform("k".into(), on("set", "old")).await;
            lost()
        })
    }));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.waiting.unwrap().reason, "EffectInDoubt");
    world.pass(11);
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::OutcomeUnknown);
    assert_eq!(world.module.count("begin"), 1);
    resolve(&world, "k", "DidNotHappen").await;
    daemon.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("DeadlineExceeded"));
}

#[tokio::test]
async fn deleting_a_running_operation_cancels_it_and_it_goes_when_it_has_ended() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    assert_eq!(world.get("op").await.finalizers(), [holdfast_api::OPERATION_FINALIZER]);
    world.delete_operation("op").await;
    world.module.say(Ok(Returned::Cancel(Ok(())))).say(poll(PollState::InProgress));
    daemon.step("op").await;
    assert!(world.operations().get_opt("op").await.unwrap().is_some());
    world.module.say(poll(PollState::Canceled));
    daemon.step("op").await;
    assert!(world.operations().get_opt("op").await.unwrap().is_none());
}

#[tokio::test]
async fn a_deleted_operation_with_an_effect_in_doubt_stays_until_a_person_resolves_it() {
    let (world, daemon) = unknown().await;
    world.delete_operation("op").await;
    daemon.step("op").await;
    assert!(world.operations().get_opt("op").await.unwrap().is_some());
    resolve(&world, "k", "DidNotHappen").await;
    daemon.step("op").await;
    assert!(world.operations().get_opt("op").await.unwrap().is_none());
    assert_eq!(world.module.count("begin"), 1);
}

/// The fence: a cancel that arrives while a begin runs stops the next effect before it is sent.
#[tokio::test]
async fn a_cancel_that_arrives_during_a_callback_stops_its_next_effect() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let operations = world.operations();
    world.module.then(Arc::new(move |_, port| {
        let operations = operations.clone();
        Box::pin(async move {
            let patch = kube::api::Patch::Merge(json!({ "spec": { "cancel": true } }));
            operations.patch("op", &Default::default(), &patch).await.unwrap();
            let outcome = port.perform("k".into(), on("set", "old")).await;
            assert!(outcome.is_err(), "{outcome:?}");
            Ok(Returned::Begin(Err(failure(false, "Fenced", ""))))
        })
    }));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("op").await;
    assert_eq!(world.cloud.sends(), 0);
    assert_eq!(world.status("op").await.reason.as_deref(), Some("Canceled"));
}

/// The step's own writes meet the change and read on over it: the fence of the first intent can't see it any more.
#[tokio::test]
async fn a_cancel_or_deletion_that_arrives_between_the_start_and_the_call_sends_nothing() {
    for kind in ["HostReboot", "HostPowerOff"] {
        for (before, how) in
            [("/op", GiveUp::Cancel), ("/op/status", GiveUp::Cancel), ("/op/status", GiveUp::Delete)]
        {
            let world = World::new().await;
            world.operation("op", kind).await;
            let daemon = world.daemon().await;
            *daemon.plan.give_up_before.lock().unwrap() = Some((before, how));
            daemon.failing_step("op").await;
            assert!(world.module.called().is_empty(), "{kind} {before} {how:?}");
            daemon.step("op").await;
            let left = world.operations().get_opt("op").await.unwrap();
            match how {
                GiveUp::Cancel => {
                    assert_eq!(left.unwrap().status.unwrap().reason.as_deref(), Some("Canceled"))
                }
                GiveUp::Delete => assert!(left.is_none()),
            }
            assert_eq!((world.module.called().len(), world.cloud.sends()), (0, 0));
        }
    }
}

#[tokio::test]
async fn a_cancel_that_arrives_while_a_repeat_is_prepared_sends_nothing() {
    let world = World::new().await;
    world.operation("op", "HostPowerOff").await;
    let daemon = world.daemon().await;
    world.module.say(Ok(Returned::Execute(Err(failure(false, "Busy", "")))));
    daemon.step("op").await;
    world.pass_backoff("op").await;
    *daemon.plan.give_up_before.lock().unwrap() = Some(("/op/status", GiveUp::Cancel));
    daemon.failing_step("op").await;
    daemon.step("op").await;
    assert_eq!((world.module.count("execute"), world.cloud.sends()), (1, 0));
    assert_eq!(world.status("op").await.reason.as_deref(), Some("Canceled"));
}

#[tokio::test]
async fn every_wait_says_what_happens_next_and_how_to_end_it() {
    let (world, _) = unknown().await;
    let status = world.status("op").await;
    let waiting = status.waiting.unwrap();
    assert!(waiting.next_action.contains("person") && waiting.way_out.contains("spec.cancel"));
    assert!(status.message.unwrap().contains('k'));
}

/// A provider that is gone takes no way out from a person.
/// Field case D04.
#[tokio::test]
async fn an_unknown_outcome_can_be_settled_without_the_provider() {
    for (outcome, reason) in [("Abandon", "Abandoned"), ("cancel", "Canceled")] {
        let (world, daemon) = unknown().await;
        *world.modules.module.lock().unwrap() = None;
        if outcome == "cancel" {
            world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
        } else {
            resolve(&world, "k", outcome).await;
        }
        daemon.step("op").await;
        assert_eq!(world.status("op").await.reason.as_deref(), Some(reason));
    }
}

/// R2.38: the request that is on the wire when everybody has gone is settled all the same.
#[tokio::test]
async fn the_outcome_of_an_exchange_is_recorded_though_guest_and_operation_were_given_up() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.cloud.gate.send_replace(false);
    let cloud = world.cloud.clone();
    world.module.then(Arc::new(move |_, port| {
        let cloud = cloud.clone();
        Box::pin(async move {
            let sent = async {
                while cloud.sends() == 0 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                _ = port.perform("k".into(), on("set", "old")) => panic!("the answer is held back"),
                () = sent => trap(),
            }
        })
    }));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.effects[0].state), (Phase::OutcomeUnknown, EffectState::Intended));
    world.cloud.gate.send_replace(true);
    while world.status("op").await.effects[0].state == EffectState::Intended {
        tokio::task::yield_now().await;
    }
    let status = world.status("op").await;
    let effect = &status.effects[0];
    assert_eq!((effect.state, effect.settled_by), (EffectState::Done, Some(SettledBy::Answer)));
    assert_eq!(world.cloud.sends(), 1);
    // Nothing is in doubt any more: the cancel is obeyed without a person.
    daemon.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("Canceled"));
}
