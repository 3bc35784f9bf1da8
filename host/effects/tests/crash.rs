//! Faults and crashes in any order: never more than one effect per key, and `never` is never sent twice.

mod kit;

use holdfast_effects::*;
use kit::cloud::{Cloud, Fault, Life};
use kit::*;
use proptest::prelude::*;
use std::sync::Arc;

fn fault() -> impl Strategy<Value = Option<Fault>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(Fault::LostBefore)),
        2 => Just(Some(Fault::LostAfter)),
        1 => Just(Some(Fault::Unfit)),
        1 => Just(Some(Fault::NotSent)),
        1 => Just(Some(Fault::Refused("quota-exceeded"))),
        1 => Just(Some(Fault::Refused("conflict"))),
        1 => Just(Some(Fault::Refused("throttled"))),
    ]
}

/// One life of the daemon: faults of the cloud, the step at which it is killed, seconds until the next.
type Round = (Option<Fault>, Option<u8>, u16, u64);

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    // Seconds up to half an hour, so that a dozen rounds outlive a token.
    prop::collection::vec((fault(), prop::option::of(0u8..14), 0u16..1800, 0u64..2), 1..12)
}

/// Plays the rounds; gives back the cloud and what the journal says.
fn play(name: &'static str, rounds: Vec<Round>) -> (Arc<Cloud>, Disk) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (cloud, disk) = (Cloud::new(), Disk::default());
        cloud.state.lock().unwrap().lag = 20;
        for (n, (fault, killed, pause, deposit)) in rounds.into_iter().enumerate() {
            cloud.state.lock().unwrap().faults = fault.into_iter().collect();
            let life = killed.map_or_else(Life::long, |steps| Life::of(i64::from(steps)));
            let house = House::over(cloud.clone(), disk.clone(), life.clone(), n as i64 + 1);
            let (context, request) = match name {
                "make-token" => with_data(deposit),
                _ => (context(Phase::Act), no_args(name)),
            };
            let session = house.open(context);
            // Twice in one life, as a controller would.
            for _ in 0..2 {
                tokio::select! {
                    _ = session.perform("create".into(), request.clone()) => {}
                    () = life.ended() => break,
                }
            }
            cloud.clock.pass(i64::from(pause));
        }
        (cloud, disk)
    })
}

/// A release of one server that the service hides at first: plays rounds of seconds, until the effect is settled.
fn play_release(rounds: Vec<Round>, hidden: i64) -> (Arc<Cloud>, Disk) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (cloud, disk) = (Cloud::new(), Disk::default());
        cloud.has("s");
        cloud.state.lock().unwrap().hidden = hidden;
        let mut release = context(Phase::Release);
        release.owned = vec![Owned::new("api/here", "server", "s")];
        for (n, (fault, killed, pause, _)) in rounds.into_iter().enumerate() {
            cloud.state.lock().unwrap().faults = fault.into_iter().collect();
            let life = killed.map_or_else(Life::long, |steps| Life::of(i64::from(steps)));
            let house = House::over(cloud.clone(), disk.clone(), life.clone(), n as i64 + 1);
            let request = call("remove", serde_json::json!({"id": "s"}));
            let session = house.open(release.clone());
            tokio::select! {
                _ = session.perform("remove".into(), request) => {}
                () = life.ended() => {}
            }
            cloud.clock.pass(i64::from(pause % 5));
        }
        (cloud, disk)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_key_is_at_most_one_effect_whatever_is_lost_or_killed_a01_a27(rounds in rounds()) {
        for name in ["make-token", "make-bare", "make-lookup", "make-put"] {
            let (cloud, disk) = play(name, rounds.clone());
            prop_assert!(cloud.servers() <= 1, "{name} made {} servers", cloud.servers());
            if let Some(effect) = disk.lock().unwrap().get("create") {
                match effect.state {
                    EffectState::Done => {
                        prop_assert_eq!(cloud.servers(), 1);
                        prop_assert_eq!(effect.created.len(), 1, "owned");
                    }
                    EffectState::Rejected => prop_assert_eq!(cloud.servers(), 0, "a rejection is definite"),
                    EffectState::Intended | EffectState::Abandoned => {}
                }
            }
        }
    }

    #[test]
    fn what_a_release_takes_for_gone_is_gone_whatever_is_hidden_lost_or_killed_a03(
        rounds in rounds(),
        hidden in 0i64..10,
    ) {
        let (cloud, disk) = play_release(rounds, hidden);
        prop_assert!(cloud.happened("remove") <= 1);
        match disk.lock().unwrap().get("remove").map(|effect| effect.state) {
            Some(EffectState::Done) => prop_assert_eq!(cloud.servers(), 0, "leaked"),
            Some(EffectState::Rejected) => prop_assert_eq!(cloud.servers(), 1, "a rejection is definite"),
            _ => {}
        }
    }

    #[test]
    fn a_call_declared_never_happens_at_most_once_r2_11(rounds in rounds()) {
        let (cloud, disk) = play("make-never", rounds);
        prop_assert!(cloud.servers() <= 1);
        if disk.lock().unwrap().get("create").is_some_and(|effect| effect.state == EffectState::Rejected) {
            prop_assert_eq!(cloud.servers(), 0);
        }
    }
}

/// Every boundary of one operation, swept: the daemon dies there once and is started again.
#[tokio::test]
async fn killed_at_each_boundary_the_next_daemon_finishes_with_one_effect() {
    let mut points = 0;
    for name in ["make-bare", "make-lookup", "make-put"] {
        for steps in 0..8 {
            let (cloud, disk, life) = (Cloud::new(), Disk::default(), Life::of(steps));
            let house = House::over(cloud.clone(), disk.clone(), life.clone(), 1);
            let session = house.act();
            tokio::select! {
                _ = session.perform("create".into(), no_args(name)) => {}
                () = life.ended() => points += 1,
            }
            let next = House::over(cloud.clone(), disk, Life::long(), 2);
            for _ in 0..4 {
                if let Ok(CallOutcome::Done(_)) = next.perform("create", no_args(name)).await {
                    break;
                }
                cloud.clock.pass(61);
            }
            assert_eq!(
                (next.state("create"), cloud.servers()),
                (Some(EffectState::Done), 1),
                "{name} at {steps}"
            );
        }
    }
    assert!(points >= 15, "only {points} points were reached");
}
