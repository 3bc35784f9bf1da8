//! Long-running operations: the table "Resumable" of contract 2, section 2(f), row by row.

use std::time::Duration;

use crate::support::modules::*;
use crate::support::*;
use holdfast_api::Phase;
use holdfast_controllers::Next;
use holdfast_effects::{Callback, PollState, Returned};
use serde_json::json;

#[tokio::test]
async fn row_1_begun_once_polled_twice_with_the_same_handle_and_complete() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h1")).say(poll(PollState::InProgress)).say(poll(PollState::Succeeded));
    assert_eq!(daemon.step("op").await, after(15));
    assert_eq!(daemon.step("op").await, after(15));
    assert_eq!(daemon.step("op").await, Next::Done);
    assert_eq!(world.module.called(), ["begin", "poll", "poll"]);
    let handles: Vec<String> = world
        .module
        .calls
        .lock()
        .unwrap()
        .iter()
        .filter_map(|call| match call {
            Callback::Poll { operation, .. } => Some(operation.operation_id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(handles, ["h1", "h1"]);
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete);
    assert_eq!(condition(&status, "Completed").unwrap(), ("True".into(), "Succeeded".into()));
    assert_eq!(status.observed_machine_generation, Some(1));
    assert!(status.completed_at.is_some() && status.waiting.is_none());
    assert!(world.get("op").await.metadata.finalizers.unwrap_or_default().is_empty());
}

#[tokio::test]
async fn row_2_a_provider_id_that_changed_between_begin_and_poll_reaches_the_poll() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h1")).say(poll(PollState::InProgress));
    daemon.step("op").await;
    world
        .patch_machine(json!({ "spec": { "host": { "external": { "providerID": "fake://edited" } } } }))
        .await;
    daemon.step("op").await;
    let seen: Vec<_> = world.requests().into_iter().map(|r| r.machine.provider_id.unwrap()).collect();
    assert_eq!(seen, ["fake://old", "fake://edited"]);
    let input = world.target("op").await.input.unwrap();
    assert_eq!(input.provider_id.as_deref(), Some("fake://old"), "the frozen identity stays (hole H8)");
}

#[tokio::test]
async fn row_3_a_handle_of_another_provider_is_not_polled_r2_17() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h1"));
    daemon.step("op").await;
    world
        .set_status("op", |s| {
            s.target.as_mut().unwrap().provider_operation.as_mut().unwrap().provider = "other".into();
        })
        .await;
    assert_eq!(daemon.step("op").await, Next::Done);
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("ProviderOperationMismatch")));
    assert_eq!(world.module.count("poll"), 0);
}

#[tokio::test]
async fn row_4_first_boot_data_is_lent_to_begin_and_never_to_a_poll_r2_14() {
    let world = World::for_replace().await;
    world.operation("op", "HostReplace").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h1")).say(poll(PollState::InProgress));
    daemon.step("op").await;
    daemon.step("op").await;
    let lends: Vec<bool> = world
        .module
        .calls
        .lock()
        .unwrap()
        .iter()
        .map(|call| match call {
            Callback::Begin { lend, .. } | Callback::Poll { lend, .. } => lend.user_data,
            _ => unreachable!(),
        })
        .collect();
    assert_eq!(lends, [true, false]);
    assert_eq!(*world.vault.user_data_ever.lock().unwrap(), [b"#cloud-config\n".to_vec()]);
    assert!(world.vault.user_data.lock().unwrap().is_empty(), "revoked after begin");
}

/// Field case A28.
#[tokio::test]
async fn row_5_a_fresh_controller_with_a_handle_polls_and_does_not_begin() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h1")).say(poll(PollState::InProgress));
    world.daemon().await.step("op").await;
    world.daemon().await.step("op").await;
    assert_eq!(world.module.called(), ["begin", "poll"]);
}

#[tokio::test]
async fn row_6_a_begin_that_fails_once_is_repeated_with_the_same_uid_and_counted() {
    let world = World::new().await;
    let operation = world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(Ok(Returned::Begin(Err(failure(false, "Busy", "try again"))))).say(accepted("h1"));
    let Next::After(wait) = daemon.step("op").await else { panic!("not retried") };
    assert!(wait >= Duration::from_secs(4) && wait <= Duration::from_secs(5), "{wait:?}");
    let waiting = world.status("op").await.waiting.unwrap();
    assert_eq!(waiting.reason, "BeginFailed");
    assert!(waiting.until.is_some() && !waiting.next_action.is_empty() && !waiting.way_out.is_empty());
    // Not before its time.
    daemon.step("op").await;
    assert_eq!(world.module.count("begin"), 1);
    world.pass_backoff("op").await;
    daemon.step("op").await;
    let uids: Vec<_> = world.requests().into_iter().map(|r| r.uid).collect();
    assert_eq!(uids, [uid(&operation), uid(&operation)]);
    let target = world.target("op").await;
    assert_eq!(target.attempts, 2);
    assert_eq!(target.provider_operation.unwrap().operation_id, "h1");
}

/// Field case A14.
#[tokio::test]
async fn row_7_a_handle_that_was_not_written_is_asked_for_again() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    let plan = daemon.plan.clone();
    let break_store: Script = std::sync::Arc::new(move |_, _| {
        *plan.flaky.lock().unwrap() = Some(("op/status".into(), 1));
        Box::pin(async { accepted("h1") })
    });
    world.module.then(break_store).say(accepted("h1"));
    daemon.failing_step("op").await;
    assert_eq!(world.target("op").await.provider_operation, None);
    daemon.step("op").await;
    assert_eq!(world.module.count("begin"), 2);
    assert_eq!(world.target("op").await.provider_operation.unwrap().operation_id, "h1");
}

#[tokio::test]
async fn row_8_a_blank_operation_id_is_a_transient_failure_r2_5() {
    for blank in ["", " \t\n"] {
        let world = World::new().await;
        world.operation("op", "HostReboot").await;
        let daemon = world.daemon().await;
        world.module.say(accepted(blank)).say(accepted("h1"));
        daemon.step("op").await;
        assert_eq!(world.target("op").await.provider_operation, None);
        world.pass_backoff("op").await;
        daemon.step("op").await;
        let target = world.target("op").await;
        assert_eq!((target.attempts, target.provider_operation.is_some()), (2, true));
    }
}

#[tokio::test]
async fn row_9_a_permanent_begin_error_fails_at_once_with_its_reason() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(Ok(Returned::Begin(Err(failure(true, "NoSuchServer", "there is none")))));
    assert_eq!(world.daemon().await.step("op").await, Next::Done);
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("NoSuchServer")));
    assert_eq!(status.target.unwrap().attempts, 1);
}

#[tokio::test]
async fn edge_case_5_a_permanent_error_without_a_reason_gets_the_default_one() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(Ok(Returned::Begin(Err(failure(true, "", "")))));
    world.daemon().await.step("op").await;
    let reason = world.status("op").await.reason.unwrap();
    assert!(!reason.is_empty() && reason.starts_with(|c: char| c.is_ascii_alphabetic()), "{reason}");
}

#[tokio::test]
async fn row_10_a_reason_that_is_a_sentence_and_a_message_of_forty_kilobytes_are_made_to_fit() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let long = "\u{1F980}".repeat(10 * 1024);
    world.module.say(Ok(Returned::Begin(Err(failure(true, "503 HTTP failure!", &long)))));
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Failed);
    let reason = status.reason.unwrap();
    assert!(reason.starts_with(|c: char| c.is_ascii_alphabetic()) && reason.contains("503"), "{reason}");
    assert!(status.message.unwrap().len() <= 32768);
}

#[tokio::test]
async fn row_11_a_failure_that_was_written_is_not_begun_again() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(Ok(Returned::Begin(Err(failure(true, "No", "no")))));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("op").await;
    world.daemon().await.step("op").await;
    assert_eq!(world.module.count("begin"), 1);
    assert_eq!(world.status("op").await.phase, Phase::Failed);
}

/// Field case A16.
#[tokio::test]
async fn row_15_a_poll_two_hours_after_acceptance_is_stalled_and_goes_on_r2_19() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h1")).say(poll(PollState::InProgress)).say(poll(PollState::Succeeded));
    daemon.step("op").await;
    world.pass(2 * 3600);
    assert_eq!(daemon.step("op").await, after(300));
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::InProgress);
    assert_eq!(condition(&status, "ProviderOperationStalled").unwrap().0, "True");
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}

#[tokio::test]
async fn row_16_the_stall_is_counted_from_acceptance_and_not_from_the_start() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(Ok(Returned::Begin(Err(failure(false, "Busy", "")))));
    daemon.step("op").await;
    world.pass(3 * 3600);
    world.module.say(accepted("h1")).say(poll(PollState::InProgress));
    daemon.step("op").await;
    assert_eq!(daemon.step("op").await, after(15));
    let status = world.status("op").await;
    assert_eq!(
        condition(&status, "ProviderOperationStalled").unwrap(),
        ("False".into(), "WithinExpectedDuration".into())
    );
}

#[tokio::test]
async fn row_17_a_poll_error_one_minute_in_is_no_stall_and_comes_back_after_the_poll_interval() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h1")).say(Ok(Returned::Poll(Err(failure(false, "Oops", "again")))));
    daemon.step("op").await;
    world.pass(60);
    assert_eq!(daemon.step("op").await, after(15));
    let status = world.status("op").await;
    assert_eq!(status.waiting.as_ref().unwrap().reason, "PollFailed");
    assert_eq!(condition(&status, "ProviderOperationStalled").unwrap().0, "False");
}

#[tokio::test]
async fn row_18_a_permanent_poll_error_fails_and_the_handle_stays_r2_8() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h1")).say(Ok(Returned::Poll(Err(failure(true, "Gone", "gone")))));
    daemon.step("op").await;
    assert_eq!(daemon.step("op").await, Next::Done);
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Gone")));
    assert_eq!(status.target.unwrap().provider_operation.unwrap().operation_id, "h1");
}

/// A provider whose work may have no end by itself (a shutdown that is ignored) learns that nobody waits any longer.
#[tokio::test]
async fn a_cancelled_operation_is_polled_with_a_deadline_that_has_passed() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h")).say(poll(PollState::InProgress));
    daemon.step("op").await;
    daemon.step("op").await;
    world.patch_operation("op", json!({ "spec": { "cancel": true } })).await;
    world.module.say(Ok(Returned::Cancel(Ok(())))).say(poll(PollState::Canceled));
    daemon.step("op").await;
    let deadlines: Vec<Option<String>> =
        world.requests().into_iter().map(|request| request.deadline).collect();
    let cancelled = Some(world.clock_now().to_string());
    assert_eq!(deadlines, [None, None, cancelled.clone(), cancelled]);
}
