//! Keys, tokens, and what a person resolves.

mod kit;

use holdfast_effects::*;
use kit::cloud::Fault;
use kit::*;
use serde_json::json;

#[tokio::test]
async fn an_abandoned_effect_is_never_sent_again() {
    let house = House::new();
    house.cloud.fault(Fault::LostBefore);
    waits(house.perform("create", no_args("make-never")).await);
    let given_up = Effects::resolve(&house.effect("create"), Resolution::Abandon).unwrap();
    house.disk.lock().unwrap().insert("create".into(), given_up);
    assert_eq!(failed(house.perform("create", no_args("make-never")).await).reason, "EffectAbandoned");
    assert_eq!(house.cloud.sent("make-never"), 1);
}

#[tokio::test]
async fn a_person_resolves_what_nothing_else_can() {
    let house = House::new();
    let kick = || call("kick", json!({"id": "old"}));
    house.cloud.fault(Fault::LostAfter);
    assert_eq!(waits(house.perform("kick", kick()).await), None);
    let doubt = house.effect("kick");
    let took = Effects::resolve(&doubt, Resolution::TookEffect).unwrap();
    assert_eq!((took.state, took.settled_by), (EffectState::Done, Some(SettledBy::Operator)));
    assert_eq!(Effects::resolve(&took, Resolution::TookEffect), Ok(took.clone()));
    assert!(matches!(Effects::resolve(&took, Resolution::Abandon), Err(ResolveError::NotInDoubt { .. })));
    house.disk.lock().unwrap().insert("kick".into(), took);
    done(house.perform("kick", kick()).await);
    assert_eq!(house.cloud.sent("kick"), 1);

    let not = Effects::resolve(&doubt, Resolution::DidNotHappen).unwrap();
    house.disk.lock().unwrap().insert("kick".into(), not);
    done(house.perform("kick", kick()).await);
    assert_eq!(house.cloud.sent("kick"), 2);
}

#[tokio::test]
async fn a_create_whose_identity_would_be_lost_is_not_taken_by_hand() {
    let house = House::new();
    house.cloud.fault(Fault::LostAfter);
    waits(house.perform("create", no_args("make-never")).await);
    let refused = Effects::resolve(&house.effect("create"), Resolution::TookEffect);
    assert!(matches!(refused, Err(ResolveError::IdentityUnknown { .. })));
}

#[tokio::test]
async fn one_key_names_one_call_and_an_operation_has_at_most_32_effects() {
    let house = House::new();
    done(house.perform("k0", no_args("make-bare")).await);
    assert_eq!(failed(house.perform("k0", no_args("make-put")).await).reason, "KeyReused");
    for n in 1..32 {
        done(house.perform(&format!("k{n}"), no_args("make-bare")).await);
    }
    assert_eq!(failed(house.perform("k32", no_args("make-bare")).await).reason, "TooManyEffects");
    done(house.perform("k31", no_args("make-bare")).await);
    assert_eq!(house.cloud.servers(), 32);
}

#[tokio::test]
async fn keys_have_a_grammar_and_tokens_are_130_bits_of_owner_and_key() {
    let house = House::new();
    let session = house.act();
    for bad in ["", "Up", "a_b", "ä", &"k".repeat(65)] {
        assert_eq!(session.token(bad).unwrap_err().reason, "BadKey");
        assert_eq!(violated(session.perform(bad.into(), no_args("make-bare")).await).reason, "BadKey");
    }
    let token = session.token("create").unwrap();
    assert_eq!(token.len(), 28);
    assert!(token.starts_with("hf") && token[2..].bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7')));
    assert_eq!(house.restarted().act().token("create").unwrap(), token);
    assert_ne!(session.token("creat").unwrap(), token);
    let mut other = context(Phase::Act);
    other.owner.uid = "op-2".into();
    assert_ne!(house.open(other).token("create").unwrap(), token);
}
