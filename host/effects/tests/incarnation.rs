//! Field case A29: a service that gives ids out again. What is destroyed is what was made, never a stranger that bears its
//! number now; and a stranger there is evidence that what was made is gone.

mod kit;

use holdfast_effects::*;
use kit::cloud::Fault;
use kit::*;
use serde_json::json;
use std::sync::Arc;

async fn made() -> (House, Vec<Owned>) {
    let house = House::new();
    done(house.perform("create", no_args("make-vm")).await);
    let owned = house.act().owned();
    assert_eq!(owned.len(), 1);
    let born = house.cloud.clock.now().as_second().to_string();
    assert_eq!(owned[0].incarnation, Some(born), "recorded with what was made");
    house.cloud.clock.pass(60);
    (house, owned)
}

fn release(house: &House, owned: &[Owned]) -> Arc<Session> {
    let mut context = context(Phase::Release);
    context.owned = owned.to_vec();
    context.operation_uid = "op-2".into();
    house.disk.lock().unwrap().clear();
    house.open(context)
}

async fn drop_it(session: &Session) -> Result<CallOutcome, CallError> {
    session.perform("drop".into(), call("drop-vm", json!({"id": "srv-1"}))).await
}

fn succeeds(session: &Session) -> bool {
    let success = ReleasePollResult {
        state: PollState::Succeeded,
        remaining: Vec::new(),
        reason: String::new(),
        message: String::new(),
        requeue_after_ms: None,
    };
    session.accept(Returned::PollRelease(Ok(success))).is_ok()
}

#[tokio::test]
async fn what_was_made_is_looked_at_and_destroyed_a29() {
    let (house, owned) = made().await;
    let session = release(&house, &owned);
    done(drop_it(&session).await);
    assert_eq!((house.cloud.sent("vm"), house.cloud.sent("drop-vm"), house.cloud.servers()), (1, 1, 0));
    assert_eq!(session.released().len(), 1);
}

#[tokio::test]
async fn a_stranger_that_bears_the_id_is_not_destroyed_and_what_was_made_is_gone_a29() {
    let (house, owned) = made().await;
    house.cloud.given_again("srv-1");
    let session = release(&house, &owned);
    let outcome = drop_it(&session).await;
    assert_eq!(outcome, Ok(CallOutcome::Done(CallReply { status: 404, fields: "{}".into() })));
    assert_eq!((house.cloud.sent("drop-vm"), house.cloud.servers()), (0, 1), "nothing was sent");
    let effect = house.effect("drop");
    assert_eq!((effect.state, effect.settled_by), (EffectState::Done, Some(SettledBy::Lookup)));
    assert_eq!(effect.attempts, 0, "the journal says that nothing left");
    assert!(succeeds(&session), "the release is over");
    assert_eq!(session.released(), owned);
    // Asked again, also after a restart, it is answered from the journal.
    done(drop_it(&session).await);
    assert_eq!(house.cloud.sent("drop-vm"), 0);
}

#[tokio::test]
async fn a_read_that_meets_a_stranger_says_not_found_and_releases_a29() {
    let (house, owned) = made().await;
    house.cloud.given_again("srv-1");
    let session = release(&house, &owned);
    let failure = failed(session.read(call("vm", json!({"id": "srv-1"}))).await);
    assert_eq!((failure.code.as_str(), failure.reason.as_str()), ("not-found", "GivenOutAgain"));
    assert!(succeeds(&session));
    let (house, owned) = made().await;
    let session = release(&house, &owned);
    session.read(call("vm", json!({"id": "srv-1"}))).await.unwrap();
    assert!(!succeeds(&session), "ours is there yet");
}

#[tokio::test]
async fn what_can_not_be_seen_is_not_destroyed_a29() {
    for trouble in ["unavailable", "throttled", "invalid-input", "odd"] {
        let (house, owned) = made().await;
        house.cloud.state.lock().unwrap().deaf.push_back(trouble);
        let session = release(&house, &owned);
        let failure = failed(drop_it(&session).await);
        assert!(!failure.permanent && failure.message.contains("A29"), "{trouble}: {failure:?}");
        assert_eq!((house.cloud.sent("drop-vm"), house.state("drop")), (0, None), "{trouble}");
        assert!(!succeeds(&session));
        done(drop_it(&session).await);
        assert_eq!(house.cloud.servers(), 0, "{trouble}");
    }
}

/// The first destroy worked and its answer was lost; meanwhile the id was given away.
#[tokio::test]
async fn a_repeat_of_a_destroy_in_doubt_spares_the_stranger_too_a29() {
    let (house, owned) = made().await;
    let session = release(&house, &owned);
    house.cloud.fault(Fault::LostAfter);
    assert!(waits(drop_it(&session).await).is_some());
    house.cloud.given_again("srv-1");
    done(drop_it(&session).await);
    assert_eq!((house.cloud.sent("drop-vm"), house.cloud.servers()), (1, 1));
    assert_eq!((house.effect("drop").state, house.effect("drop").attempts), (EffectState::Done, 1));
}

#[tokio::test]
async fn what_is_gone_already_is_destroyed_as_ever_a29() {
    let (house, owned) = made().await;
    house.cloud.state.lock().unwrap().servers.clear();
    let session = release(&house, &owned);
    done(drop_it(&session).await);
    assert!(succeeds(&session));
}

#[tokio::test]
async fn records_without_an_incarnation_keep_working() {
    let (house, mut owned) = made().await;
    owned[0].incarnation = None;
    let session = release(&house, &owned);
    done(drop_it(&session).await);
    assert_eq!((house.cloud.sent("vm"), house.cloud.servers()), (0, 0));
}

/// The same number came to us twice: both are on record, and the one that is there is ours.
#[tokio::test]
async fn a_number_that_was_ours_twice_is_destroyed_as_the_one_that_is_there_a29() {
    let (house, mut owned) = made().await;
    house.cloud.given_again("srv-1");
    let again = house.cloud.clock.now().as_second().to_string();
    owned.push(Owned { incarnation: Some(again), ..owned[0].clone() });
    let session = release(&house, &owned);
    done(drop_it(&session).await);
    assert_eq!((house.cloud.sent("drop-vm"), house.cloud.servers()), (1, 0));
    assert_eq!(session.released().len(), 2);
}

#[tokio::test]
async fn a_caller_that_left_during_the_look_destroys_nothing_a29() {
    let (house, owned) = made().await;
    let session = release(&house, &owned);
    house.cloud.state.lock().unwrap().hold_finds = true;
    {
        let mut caller = Box::pin(drop_it(&session));
        tokio::select! {
            _ = &mut caller => panic!("held"),
            () = house.cloud.held.notified() => {}
        }
    }
    house.cloud.state.lock().unwrap().hold_finds = false;
    house.cloud.go.notify_one();
    house.effects.drain().await;
    assert_eq!((house.cloud.sent("drop-vm"), house.state("drop")), (0, None));
}
