//! The fence, the store's failures, and callers that go away.

mod kit;

use holdfast_effects::*;
use kit::cloud::Fault;
use kit::*;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn a_fenced_intent_sends_nothing() {
    let house = House::new();
    house.journal.intends.lock().unwrap().push_back(Write::Fenced);
    let failure = failed(house.perform("create", no_args("make-bare")).await);
    assert_eq!((failure.reason.as_str(), failure.permanent), ("Fenced", false));
    assert_eq!((house.cloud.sent("make-bare"), house.state("create")), (0, None));
}

#[tokio::test]
async fn an_intent_that_the_store_did_not_take_sends_nothing() {
    let house = House::new();
    house.journal.intends.lock().unwrap().push_back(Write::Fails);
    assert_eq!(failed(house.perform("create", no_args("make-never")).await).reason, "JournalUnavailable");
    assert_eq!(house.cloud.sent("make-never"), 0);
    done(house.perform("create", no_args("make-never")).await);
}

#[tokio::test]
async fn an_intent_that_landed_unheard_is_known_not_to_have_been_sent_by_the_daemon_that_wrote_it() {
    let house = House::new();
    house.journal.intends.lock().unwrap().push_back(Write::LandsUnheard);
    assert_eq!(failed(house.perform("create", no_args("make-never")).await).reason, "JournalUnavailable");
    assert_eq!(house.state("create"), Some(EffectState::Intended));
    done(house.perform("create", no_args("make-never")).await);
    assert_eq!(house.cloud.servers(), 1);
}

#[tokio::test]
async fn after_a_crash_an_intent_that_landed_unheard_is_in_doubt() {
    let house = House::new();
    house.journal.intends.lock().unwrap().push_back(Write::LandsUnheard);
    failed(house.perform("create", no_args("make-never")).await);
    assert_eq!(waits(house.restarted().perform("create", no_args("make-never")).await), None);
    assert_eq!(house.cloud.sent("make-never"), 0);
}

/// Field case A02.
#[tokio::test(start_paused = true)]
async fn an_outcome_is_offered_to_the_store_again_before_the_guest_hears_of_it() {
    let house = House::new();
    house.journal.settles.lock().unwrap().extend([Write::Fails, Write::Fails]);
    done(house.perform("create", no_args("make-never")).await);
    assert_eq!(house.state("create"), Some(EffectState::Done));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_the_store_will_not_take_is_kept_and_written_at_the_next_turn() {
    let house = House::new();
    house.journal.settles.lock().unwrap().extend([Write::Fails; 4]);
    assert_eq!(failed(house.perform("create", no_args("make-never")).await).reason, "JournalUnavailable");
    assert_eq!(house.state("create"), Some(EffectState::Intended));
    assert_eq!(failed(house.perform("create", no_args("make-never")).await).reason, "JournalUnavailable");
    assert_eq!(done(house.perform("create", no_args("make-never")).await), json!({"id": "srv-1"}));
    assert_eq!((house.state("create"), house.cloud.sent("make-never")), (Some(EffectState::Done), 1));
}

#[tokio::test]
async fn a_kept_outcome_is_not_written_over_what_another_daemon_found() {
    let house = House::new();
    house.journal.settles.lock().unwrap().push_back(Write::Fenced);
    assert_eq!(failed(house.perform("create", no_args("make-bare")).await).reason, "Fenced");
    let other = house.restarted();
    done(other.perform("create", no_args("make-bare")).await);
    assert_eq!(house.effect("create").epoch, 2);
    done(house.perform("create", no_args("make-bare")).await);
    assert_eq!((house.effect("create").epoch, house.effect("create").attempts), (2, 2));
    assert_eq!(house.cloud.servers(), 1);
}

#[tokio::test]
async fn a_caller_that_is_dropped_does_not_abort_what_is_on_the_wire_attack_82() {
    let house = House::new();
    house.cloud.fault(Fault::Held);
    let session = house.act();
    let caller = {
        let session = session.clone();
        tokio::spawn(async move { session.perform("create".into(), no_args("make-never")).await })
    };
    house.cloud.held.notified().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    house.cloud.go.notify_one();
    house.effects.drain().await;
    assert_eq!((house.state("create"), house.cloud.servers()), (Some(EffectState::Done), 1));
}

#[tokio::test]
async fn an_attempt_that_is_still_on_the_wire_is_awaited_and_not_repeated() {
    let house = Arc::new(House::new());
    house.cloud.fault(Fault::Held);
    let first = {
        let house = house.clone();
        tokio::spawn(async move { house.perform("create", no_args("make-never")).await })
    };
    house.cloud.held.notified().await;
    first.abort();
    let second = {
        let house = house.clone();
        tokio::spawn(async move { house.perform("create", no_args("make-never")).await })
    };
    tokio::task::yield_now().await;
    house.cloud.go.notify_one();
    assert_eq!(done(second.await.unwrap()), json!({"id": "srv-1"}));
    assert_eq!(house.cloud.sent("make-never"), 1);
}

#[tokio::test]
async fn two_performs_of_one_key_are_one_effect() {
    let house = House::new();
    let session = house.act();
    let one = session.perform("create".into(), no_args("make-lookup"));
    let other = session.perform("create".into(), no_args("make-lookup"));
    let (one, other) = tokio::join!(one, other);
    assert_eq!(done(one), done(other));
    assert_eq!((house.cloud.servers(), house.cloud.sent("make-lookup")), (1, 1));
}

#[tokio::test]
async fn a_caller_that_left_before_the_intent_sends_nothing_new() {
    let house = House::new();
    house.cloud.fault(Fault::Held);
    let session = house.act();
    let mut first = Box::pin(session.perform("create".into(), no_args("make-bare")));
    tokio::select! {
        _ = &mut first => panic!("held"),
        () = house.cloud.held.notified() => {}
    }
    {
        let mut waiting = Box::pin(session.perform("create".into(), no_args("make-bare")));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("the first has the turn"),
            () = tokio::task::yield_now() => {}
        }
    }
    house.cloud.go.notify_one();
    done(first.await);
    house.effects.drain().await;
    assert_eq!(house.cloud.sent("make-bare"), 1);
}

#[tokio::test]
async fn a_caller_that_left_while_the_host_looked_things_up_sends_nothing_new() {
    let house = House::new();
    house.cloud.fault(Fault::LostBefore);
    waits(house.perform("create", no_args("make-lookup")).await);
    waits(house.perform("create", no_args("make-lookup")).await);
    house.cloud.clock.pass(61);
    house.cloud.state.lock().unwrap().hold_finds = true;
    let session = house.act();
    let mut caller = Box::pin(session.perform("create".into(), no_args("make-lookup")));
    tokio::select! {
        _ = &mut caller => panic!("held"),
        () = house.cloud.held.notified() => {}
    }
    drop(caller);
    house.cloud.state.lock().unwrap().hold_finds = false;
    house.cloud.go.notify_one();
    house.effects.drain().await;
    assert_eq!(house.cloud.sent("make-lookup"), 1);
    done(house.perform("create", no_args("make-lookup")).await);
    assert_eq!(house.cloud.servers(), 1);
}

#[tokio::test]
async fn a_kept_outcome_of_an_older_attempt_is_not_written_over_a_newer_doubt() {
    let house = House::new();
    house.journal.settles.lock().unwrap().push_back(Write::Fenced);
    failed(house.perform("create", no_args("make-bare")).await);
    let other = house.restarted();
    house.cloud.fault(Fault::LostAfter);
    waits(other.perform("create", no_args("make-bare")).await);
    done(house.perform("create", no_args("make-bare")).await);
    assert_eq!((house.effect("create").attempts, house.cloud.servers()), (3, 1));
}

#[tokio::test]
async fn nothing_is_performed_without_a_journal_or_after_the_deadline() {
    let house = House::new();
    let session = house.effects.open(context(Phase::Act), house.manifest.clone(), None);
    assert_eq!(failed(session.perform("k".into(), no_args("make-bare")).await).reason, "NoJournal");
    let mut late = context(Phase::Act);
    late.deadline = late.now;
    let session = house.open(late);
    assert_eq!(failed(session.perform("k".into(), no_args("make-bare")).await).reason, "DeadlinePassed");
    assert_eq!(house.cloud.sent("make-bare"), 0);
}

/// What the daemon remembers of an attempt that was never sent must not outlive the attempt that was.
#[tokio::test]
async fn an_attempt_that_was_not_sent_says_nothing_about_the_next_one_r2_11() {
    let house = House::new();
    house.journal.intends.lock().unwrap().push_back(Write::Fails);
    failed(house.perform("create", no_args("make-never")).await);
    house.cloud.fault(Fault::LostAfter);
    assert_eq!(waits(house.perform("create", no_args("make-never")).await), None);
    assert_eq!(waits(house.perform("create", no_args("make-never")).await), None, "still for a person");
    assert_eq!((house.cloud.sent("make-never"), house.cloud.servers()), (1, 1), "no twin");
}
