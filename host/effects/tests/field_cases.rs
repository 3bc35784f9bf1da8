//! Cases from the field (docs/field-cases.md) that no other test of the effects shows.

mod kit;

use holdfast_effects::*;
use kit::cloud::{Fault, Life, Server};
use kit::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A04: three answers and never two: there, absent, and nobody knows.
#[tokio::test]
async fn a_lookup_that_fails_is_refused_or_makes_no_sense_is_not_absence_a04() {
    for answer in ["gone", "odd", "unavailable", "throttled", "permission-denied"] {
        let house = House::new();
        house.cloud.fault(Fault::LostAfter);
        waits(house.perform("create", no_args("make-lookup")).await);
        house.cloud.state.lock().unwrap().deaf = [answer; 4].into();
        for _ in 0..4 {
            house.cloud.clock.pass(600);
            waits(house.perform("create", no_args("make-lookup")).await);
            assert_eq!(house.effect("create").absent_since, None, "{answer}");
        }
        done(house.perform("create", no_args("make-lookup")).await);
        assert_eq!((house.cloud.sent("make-lookup"), house.cloud.servers()), (1, 1), "{answer}");
    }
}

/// A17, A18: the name or number is somebody else's by now.
#[tokio::test]
async fn a_name_that_a_stranger_has_is_a_refusal_and_the_stranger_is_not_ours_a17_a18() {
    let house = House::new();
    house.cloud.state.lock().unwrap().servers.push(Server {
        id: "theirs".into(),
        name: "theirs".into(),
        since: 0,
    });
    for name in ["make-bare", "make-lookup", "make-put"] {
        house.cloud.fault(Fault::Refused("already-exists"));
        assert_eq!(failed(house.perform(name, no_args(name)).await).code, "already-exists", "{name}");
        assert_eq!(house.state(name), Some(EffectState::Rejected), "{name}");
    }
    assert!(house.act().owned().is_empty());
    let touch = call("power", json!({ "id": "theirs", "state": "On" }));
    assert_eq!(violated(house.act().perform("p".into(), touch).await).reason, "ForeignTarget");
    assert_eq!(house.cloud.servers(), 1);
}

/// A28: the state comes from a copy that is older than the answer. What was sent is known by the same token.
#[tokio::test]
async fn a_journal_copied_before_the_answer_was_written_makes_no_twin_a28() {
    for name in ["make-bare", "make-lookup", "make-put", "make-never"] {
        let house = House::new();
        house.cloud.fault(Fault::LostAfter);
        waits(house.perform("create", no_args(name)).await);
        let copy: BTreeMap<String, Effect> = house.disk.lock().unwrap().clone();
        if name != "make-never" {
            done(house.restarted().perform("create", no_args(name)).await);
        }
        let elsewhere = House::over(house.cloud.clone(), Arc::new(Mutex::new(copy)), Life::long(), 7);
        let outcome = elsewhere.perform("create", no_args(name)).await;
        match name {
            "make-never" => assert_eq!(waits(outcome), None, "a person looks"),
            _ => drop(done(outcome)),
        }
        assert_eq!(house.cloud.servers(), 1, "{name}");
    }
}

/// A28: the copy is older than the intent. Where the service keeps tokens or names, the same token finds the same thing.
#[tokio::test]
async fn a_journal_copied_before_the_intent_makes_no_twin_where_the_service_keeps_tokens_a28() {
    for name in ["make-bare", "make-put"] {
        let house = House::new();
        let made = done(house.perform("create", no_args(name)).await);
        let elsewhere = House::over(house.cloud.clone(), Disk::default(), Life::long(), 7);
        assert_eq!(done(elsewhere.perform("create", no_args(name)).await), made);
        assert_eq!(house.cloud.servers(), 1, "{name}");
    }
}
