//! The journal table of the architecture, row by row and replay by replay, against a ledger that shows no twin.

mod kit;

use holdfast_effects::*;
use kit::cloud::Fault;
use kit::*;
use serde_json::json;

/// Every create of the fake cloud with its replay; all of them make one server.
const CREATES: [&str; 4] = ["make-bare", "make-lookup", "make-never", "make-put"];

/// Field case A23.
#[tokio::test]
async fn nothing_journaled_means_intent_then_send_then_outcome() {
    for name in CREATES {
        let house = House::new();
        done(house.perform("create", no_args(name)).await);
        let log = house.journal.log.lock().unwrap().clone();
        assert_eq!(
            log,
            [("create".into(), EffectState::Intended), ("create".into(), EffectState::Done)],
            "{name}"
        );
        let effect = house.effect("create");
        assert_eq!((effect.attempts, effect.epoch, effect.settled_by), (1, 1, Some(SettledBy::Answer)));
        assert_eq!(effect.created.len(), 1, "{name} is owned before the guest hears of it (hole H3)");
    }
}

#[tokio::test]
async fn done_answers_from_the_record_and_sends_nothing() {
    for name in CREATES {
        let house = House::new();
        let first = done(house.perform("create", no_args(name)).await);
        let again = done(house.restarted().perform("create", no_args(name)).await);
        assert_eq!((first, house.cloud.sent(name)), (again, 1), "{name}");
    }
}

#[tokio::test]
async fn a_recorded_reply_is_given_without_the_first_boot_data_of_the_first_time() {
    let house = House::new();
    let (lent, request) = with_data(7);
    let made = done(house.open(lent).perform("create".into(), request).await);
    let later = house.open(context(Phase::Track));
    assert_eq!(done(later.perform("create".into(), no_args("make-token")).await), made);
    let Some(CallOutcome::Done(reply)) = later.recorded("create").unwrap() else { panic!("not done") };
    assert_eq!(serde_json::from_str::<serde_json::Value>(&reply.fields).unwrap(), made);
    assert_eq!(later.recorded("other").unwrap(), None);
}

#[tokio::test]
async fn a_definite_refusal_of_the_first_send_is_rejected_and_may_be_sent_again() {
    for name in CREATES {
        let house = House::new();
        house.cloud.fault(Fault::Refused("quota-exceeded"));
        let failure = failed(house.perform("create", no_args(name)).await);
        assert_eq!((failure.code.as_str(), failure.permanent), ("quota-exceeded", false), "{name}");
        assert_eq!(house.state("create"), Some(EffectState::Rejected));
        done(house.perform("create", no_args(name)).await);
        assert_eq!((house.effect("create").attempts, house.cloud.servers()), (2, 1), "{name}");
    }
}

#[tokio::test]
async fn a_request_of_which_no_byte_left_is_rejected_not_in_doubt() {
    for name in CREATES {
        let house = House::new();
        house.cloud.fault(Fault::NotSent);
        failed(house.perform("create", no_args(name)).await);
        assert_eq!(house.state("create"), Some(EffectState::Rejected), "{name}");
        done(house.perform("create", no_args(name)).await);
    }
}

/// Lost before and after the commit; H5 is the same doubt.
const LOSSES: [Fault; 3] = [Fault::LostBefore, Fault::LostAfter, Fault::Unfit];

#[tokio::test]
async fn a_lost_answer_under_token_or_idempotent_is_sent_again_and_makes_no_twin_h5() {
    for name in ["make-bare", "make-put"] {
        for fault in LOSSES {
            let house = House::new();
            house.cloud.fault(fault.clone());
            assert!(waits(house.perform("create", no_args(name)).await).is_some(), "{name} {fault:?}");
            assert_eq!(house.state("create"), Some(EffectState::Intended));
            done(house.restarted().perform("create", no_args(name)).await);
            assert_eq!(house.cloud.servers(), 1, "{name} {fault:?}");
            let effect = house.effect("create");
            assert_eq!((effect.settled_by, effect.attempts), (Some(SettledBy::Repeat), 2));
        }
    }
}

#[tokio::test]
async fn a_lost_answer_under_never_is_never_sent_again_r2_11() {
    for fault in LOSSES {
        let house = House::new();
        house.cloud.fault(fault);
        assert_eq!(waits(house.perform("create", no_args("make-never")).await), None);
        for _ in 0..3 {
            house.cloud.clock.pass(100_000);
            assert_eq!(waits(house.restarted().perform("create", no_args("make-never")).await), None);
        }
        assert_eq!(house.cloud.sent("make-never"), 1);
    }
}

#[tokio::test]
async fn a_lost_answer_that_took_effect_is_found_by_its_lookup_a01() {
    let house = House::new();
    house.cloud.fault(Fault::LostAfter);
    assert!(waits(house.perform("create", no_args("make-lookup")).await).is_some());
    let reply = done(house.restarted().perform("create", no_args("make-lookup")).await);
    assert_eq!((reply, house.cloud.sent("make-lookup")), (json!({"id": "srv-1"}), 1));
    let effect = house.effect("create");
    assert_eq!(effect.settled_by, Some(SettledBy::Lookup));
    assert_eq!(effect.created, [Owned::new("api/here", "server", "srv-1")]);
}

#[tokio::test]
async fn an_empty_lookup_is_absence_only_after_the_lag_and_a_second_look_a03() {
    let house = House::new();
    house.cloud.fault(Fault::LostBefore);
    waits(house.perform("create", no_args("make-lookup")).await);
    // Long after the send, but looked up for the first time.
    house.cloud.clock.pass(1_000);
    assert!(waits(house.perform("create", no_args("make-lookup")).await).is_some());
    assert_eq!(house.effect("create").absent_since, Some(house.cloud.clock.now()));
    house.cloud.clock.pass(59);
    assert_eq!(waits(house.perform("create", no_args("make-lookup")).await), Some(1_000));
    assert_eq!(house.cloud.sent("make-lookup"), 1);
    house.cloud.clock.pass(1);
    done(house.perform("create", no_args("make-lookup")).await);
    assert_eq!((house.cloud.sent("make-lookup"), house.cloud.servers()), (2, 1));
}

/// Attack A12. After a restart the other clock counts anew: it knows nothing of the time before.
#[tokio::test]
async fn a_clock_that_is_set_forward_makes_no_absence_attack_a12() {
    let house = House::new();
    house.cloud.state.lock().unwrap().lag = 30;
    house.cloud.fault(Fault::LostAfter);
    waits(house.perform("create", no_args("make-lookup")).await);
    house.cloud.state.lock().unwrap().blind = u32::MAX;
    waits(house.perform("create", no_args("make-lookup")).await);
    house.cloud.clock.step(3_600);
    assert_eq!(waits(house.perform("create", no_args("make-lookup")).await), Some(2_000));
    house.cloud.clock.pass(59);
    assert_eq!(waits(house.perform("create", no_args("make-lookup")).await), Some(1_000));
    let later = house.restarted();
    assert_eq!(waits(later.perform("create", no_args("make-lookup")).await), Some(2_000));
    house.cloud.clock.pass(59);
    assert_eq!(waits(later.perform("create", no_args("make-lookup")).await), Some(1_000));
    house.cloud.state.lock().unwrap().blind = 0;
    done(later.perform("create", no_args("make-lookup")).await);
    assert_eq!((house.cloud.sent("make-lookup"), house.cloud.servers()), (1, 1));
}

#[tokio::test]
async fn a_new_thing_that_lists_late_is_not_made_again() {
    let house = House::new();
    house.cloud.state.lock().unwrap().lag = 30;
    house.cloud.fault(Fault::LostAfter);
    waits(house.perform("create", no_args("make-lookup")).await);
    for _ in 0..3 {
        assert!(waits(house.perform("create", no_args("make-lookup")).await).is_some());
        house.cloud.clock.pass(10);
    }
    done(house.perform("create", no_args("make-lookup")).await);
    assert_eq!(house.cloud.servers(), 1);
    assert_eq!(house.effect("create").absent_since, None);
}

/// Field case L08.
#[tokio::test]
async fn several_matches_are_for_a_person() {
    let house = House::new();
    house.cloud.fault(Fault::LostAfter);
    waits(house.perform("create", no_args("make-lookup")).await);
    {
        let mut state = house.cloud.state.lock().unwrap();
        let twin = state.servers[0].clone();
        state.servers.push(twin);
    }
    let failure = failed(house.perform("create", no_args("make-lookup")).await);
    assert_eq!((failure.code.as_str(), failure.permanent), ("multiple-matches", true));
    assert_eq!(house.state("create"), Some(EffectState::Intended));
}

/// Field case L07.
#[tokio::test]
async fn a_neighbour_alone_in_a_list_that_ignores_its_filter_does_not_become_ours_h3() {
    let house = House::new();
    {
        let mut state = house.cloud.state.lock().unwrap();
        state.careless = true;
        state.servers.push(kit::cloud::Server { id: "theirs".into(), name: "neighbour".into(), since: 0 });
    }
    house.cloud.fault(Fault::LostBefore);
    waits(house.perform("create", no_args("make-lookup")).await);
    assert!(waits(house.perform("create", no_args("make-lookup")).await).is_some());
    assert!(house.act().owned().is_empty());
}

/// Field case A21.
#[tokio::test]
async fn a_token_past_its_life_is_looked_up_or_waits_for_a_person() {
    let house = House::new();
    house.cloud.fault(Fault::LostAfter);
    waits(house.perform("bare", no_args("make-bare")).await);
    house.cloud.clock.pass(3600);
    assert_eq!(waits(house.perform("bare", no_args("make-bare")).await), None);
    assert_eq!(house.cloud.sent("make-bare"), 1);

    let house = House::new();
    let (lent, request) = with_data(7);
    house.cloud.fault(Fault::LostAfter);
    waits(house.open(lent.clone()).perform("create".into(), request.clone()).await);
    house.cloud.clock.pass(3600);
    done(house.open(lent).perform("create".into(), request).await);
    assert_eq!((house.cloud.sent("make-token"), house.cloud.servers()), (1, 1));
}

#[tokio::test]
async fn a_repeat_with_other_first_boot_data_is_not_a_repeat_and_is_looked_up() {
    let house = House::new();
    let (lent, request) = with_data(7);
    house.cloud.fault(Fault::LostAfter);
    waits(house.open(lent).perform("create".into(), request).await);
    let (rotated, request) = with_data(8);
    done(house.open(rotated).perform("create".into(), request).await);
    assert_eq!((house.cloud.sent("make-token"), house.cloud.sent("find")), (1, 1));
}

#[tokio::test]
async fn an_idempotent_call_with_other_first_boot_data_is_not_repeated_and_waits_for_a_person() {
    let house = House::new();
    let with = |deposit| {
        let (lent, request) = with_data(deposit);
        (house.open(lent), CallRequest { call: "make-put-data".into(), ..request })
    };
    house.cloud.fault(Fault::LostBefore);
    let (session, request) = with(7);
    assert!(waits(session.perform("create".into(), request).await).is_some());
    let (session, request) = with(8);
    assert_eq!(waits(session.perform("create".into(), request).await), None);
    assert_eq!(house.cloud.sent("make-put-data"), 1);
    let (session, request) = with(7);
    done(session.perform("create".into(), request).await);
}

#[tokio::test]
async fn a_later_step_that_has_no_first_boot_data_settles_by_lookup() {
    let house = House::new();
    let (lent, request) = with_data(7);
    house.cloud.fault(Fault::LostAfter);
    waits(house.open(lent).perform("create".into(), request).await);
    let track = house.open(context(Phase::Track));
    done(track.perform("create".into(), no_args("make-token")).await);
    assert_eq!(house.cloud.servers(), 1);
}

#[tokio::test]
async fn absence_that_cannot_be_mended_now_is_a_definite_rejection() {
    let house = House::new();
    let (lent, request) = with_data(7);
    house.cloud.fault(Fault::LostBefore);
    waits(house.open(lent).perform("create".into(), request).await);
    let track = house.open(context(Phase::Track));
    waits(track.perform("create".into(), no_args("make-token")).await);
    house.cloud.clock.pass(61);
    let failure = failed(track.perform("create".into(), no_args("make-token")).await);
    assert_eq!(failure.reason, "UserDataSlots");
    assert_eq!(house.state("create"), Some(EffectState::Rejected));
}

/// Hole H7: which refusals of a repeat settle the first send.
#[tokio::test]
async fn a_refusal_of_a_repeat_says_nothing_about_the_first_send_h7() {
    let codes = [
        ("invalid-input", true),
        ("quota-exceeded", true),
        ("already-exists", false),
        ("conflict", false),
        ("throttled", false),
        ("unauthenticated", false),
        ("permission-denied", false),
        ("unavailable", false),
    ];
    for (code, settles) in codes {
        for name in ["make-bare", "make-put"] {
            let house = House::new();
            house.cloud.fault(Fault::LostBefore);
            house.cloud.fault(Fault::Refused(code));
            waits(house.perform("create", no_args(name)).await);
            let second = house.perform("create", no_args(name)).await;
            let wanted = if settles { EffectState::Rejected } else { EffectState::Intended };
            assert_eq!(house.state("create"), Some(wanted), "{name} {code}");
            match settles {
                true => assert_eq!(failed(second).code, code),
                false => assert!(waits(second).is_some(), "{name} {code}"),
            }
        }
    }
}

/// Field case A11.
#[tokio::test]
async fn a_repeat_that_finds_the_name_taken_looks_who_took_it_h7() {
    let house = House::new();
    let (lent, request) = with_data(7);
    house.cloud.fault(Fault::LostAfter);
    house.cloud.fault(Fault::Refused("already-exists"));
    waits(house.open(lent.clone()).perform("create".into(), request.clone()).await);
    done(house.open(lent).perform("create".into(), request).await);
    assert_eq!(house.effect("create").settled_by, Some(SettledBy::Lookup));
    assert_eq!(house.cloud.servers(), 1);
}

/// A request may be refused before its token is looked at: what the first send has made would be on no record.
#[tokio::test]
async fn a_repeat_by_token_that_is_refused_is_looked_up_where_that_can_be_h7() {
    let house = House::new();
    let (lent, request) = with_data(7);
    house.cloud.fault(Fault::LostAfter);
    house.cloud.fault(Fault::Refused("invalid-input"));
    waits(house.open(lent.clone()).perform("create".into(), request.clone()).await);
    done(house.open(lent).perform("create".into(), request).await);
    assert_eq!(house.effect("create").settled_by, Some(SettledBy::Lookup));
    assert_eq!(house.cloud.servers(), 1);
}

#[tokio::test]
async fn a_resend_after_absence_that_finds_the_name_taken_is_in_doubt_again() {
    let house = House::new();
    house.cloud.fault(Fault::LostAfter);
    waits(house.perform("create", no_args("make-lookup")).await);
    // Two lists lie.
    house.cloud.state.lock().unwrap().blind = 2;
    waits(house.perform("create", no_args("make-lookup")).await);
    house.cloud.clock.pass(61);
    house.cloud.fault(Fault::Refused("already-exists"));
    done(house.perform("create", no_args("make-lookup")).await);
    assert_eq!((house.cloud.servers(), house.effect("create").settled_by), (1, Some(SettledBy::Lookup)));
}

#[tokio::test]
async fn a_repeat_of_which_no_byte_left_leaves_the_doubt_as_it_is() {
    for unsent in [Fault::NotSent, Fault::RefusedUnsent("invalid-input")] {
        let house = House::new();
        house.cloud.fault(Fault::LostAfter);
        house.cloud.fault(unsent);
        waits(house.perform("create", no_args("make-bare")).await);
        assert!(waits(house.perform("create", no_args("make-bare")).await).is_some());
        assert_eq!(house.state("create"), Some(EffectState::Intended));
        done(house.perform("create", no_args("make-bare")).await);
        assert_eq!(house.cloud.servers(), 1);
    }
}

/// Field case C02.
#[tokio::test]
async fn gone_is_success_for_a_destroy_and_a_refusal_for_an_update() {
    let house = House::new();
    let mut release = context(Phase::Release);
    release.owned = vec![Owned::new("api/here", "server", "was")];
    let session = house.open(release);
    // It may have been made a moment ago; what is not shown for longer than that is gone.
    waits(session.perform("remove".into(), call("remove", json!({"id": "was"}))).await);
    house.cloud.clock.pass(10);
    let outcome = session.perform("remove".into(), call("remove", json!({"id": "was"}))).await;
    assert_eq!(outcome, Ok(CallOutcome::Done(CallReply { status: 404, fields: "{}".into() })));
    assert_eq!(house.state("remove"), Some(EffectState::Done));

    house.cloud.fault(Fault::Gone);
    let failure = failed(house.perform("power", call("power", json!({"id": "old", "state": "On"}))).await);
    assert_eq!((failure.code.as_str(), failure.permanent), ("not-found", true));
    assert_eq!(house.state("power"), Some(EffectState::Rejected));
}

#[tokio::test]
async fn a_success_that_names_nothing_it_made_is_in_doubt_h5() {
    let house = House::new();
    house.cloud.fault(Fault::Nameless);
    assert!(waits(house.perform("create", no_args("make-lookup")).await).is_some());
    let doubt = house.effect("create");
    assert_eq!((doubt.state, doubt.refusal.unwrap().reason.as_str()), (EffectState::Intended, "UnfitReply"));
    done(house.perform("create", no_args("make-lookup")).await);
    assert_eq!((house.cloud.servers(), house.act().owned().len()), (1, 1));
}

#[tokio::test]
async fn a_send_after_a_refusal_or_absence_has_the_whole_time_however_old_its_token_is() {
    for fault in [Fault::Refused("quota-exceeded"), Fault::LostBefore] {
        let house = House::new();
        let (lent, request) = with_data(7);
        house.cloud.fault(fault);
        let _ = house.open(lent.clone()).perform("create".into(), request.clone()).await;
        for _ in 0..3 {
            house.cloud.clock.pass(7200);
            let _ = house.open(lent.clone()).perform("create".into(), request.clone()).await;
        }
        assert_eq!(house.state("create"), Some(EffectState::Done));
        assert!(house.cloud.state.lock().unwrap().shortest_ms > 30_000);
    }
}

#[tokio::test]
async fn a_tokens_life_counts_from_the_first_send_not_from_the_last() {
    let house = House::new();
    for pause in [3000, 700] {
        house.cloud.fault(Fault::LostAfter);
        assert!(waits(house.perform("create", no_args("make-bare")).await).is_some());
        house.cloud.clock.pass(pause);
    }
    assert_eq!(waits(house.perform("create", no_args("make-bare")).await), None);
    assert_eq!((house.cloud.sent("make-bare"), house.cloud.servers()), (2, 1));
}

#[tokio::test]
async fn a_send_after_a_refusal_is_not_cut_short_by_a_token_that_is_about_to_end() {
    let house = House::new();
    house.cloud.fault(Fault::Refused("quota-exceeded"));
    failed(house.perform("create", no_args("make-bare")).await);
    house.cloud.clock.pass(3590);
    done(house.perform("create", no_args("make-bare")).await);
    assert!(house.cloud.state.lock().unwrap().shortest_ms > 30_000);
}

#[tokio::test]
async fn a_repeat_by_token_ends_before_the_token_does() {
    let house = House::new();
    house.cloud.fault(Fault::LostBefore);
    waits(house.perform("create", no_args("make-bare")).await);
    house.cloud.clock.pass(3590);
    done(house.perform("create", no_args("make-bare")).await);
    assert_eq!(house.cloud.state.lock().unwrap().shortest_ms, 10_000);
}
