//! Attack A9: what is recorded holds only where it was made. An operator who points a binding elsewhere makes every id
//! "not there", and a lookup finds nothing; neither is believed, and nothing is sent.

mod kit;

use holdfast_effects::*;
use kit::cloud::Fault;
use kit::*;
use serde_json::json;

const EU: &str = "https://api.example/?region=eu";
const US: &str = "https://api.example/?region=us";

/// A house whose binding points to Europe, with one server made there.
async fn made_in_europe() -> (House, Vec<Owned>) {
    let house = House::new();
    house.cloud.points_to(&[EU]);
    done(house.perform("create", no_args("make-bare")).await);
    assert_eq!(house.effect("create").place.as_deref(), Some(EU));
    let owned = house.act().owned();
    assert_eq!(owned[0].place.as_deref(), Some(EU), "ownership says where");
    (house, owned)
}

fn release(house: &House, owned: &[Owned]) -> std::sync::Arc<Session> {
    let mut context = context(Phase::Release);
    context.owned = owned.to_vec();
    house.open(context)
}

fn told<T: std::fmt::Debug>(outcome: Result<T, CallError>) {
    let violation = violated(outcome);
    assert_eq!(violation.reason, MADE_ELSEWHERE);
    for part in
        [EU, US, "nothing was sent", "`origin` and `vars`", "[[provider.endpoint]] `api`", "attack A9"]
    {
        assert!(violation.message.contains(part), "{part}: {}", violation.message);
    }
}

#[tokio::test]
async fn what_was_made_elsewhere_is_neither_asked_for_nor_destroyed_and_no_404_releases_it_attack_a9() {
    let (house, owned) = made_in_europe().await;
    house.cloud.points_to(&[US]);
    house.cloud.state.lock().unwrap().missing.push("srv-1".into());
    let session = release(&house, &owned);
    let before = house.cloud.state.lock().unwrap().sent.len();
    told(session.read(call("server", json!({"id": "srv-1"}))).await);
    told(session.perform("remove".into(), call("remove", json!({"id": "srv-1"}))).await);
    assert_eq!(house.cloud.state.lock().unwrap().sent.len(), before);
    assert!(session.released().is_empty() && house.state("remove").is_none());
    let success = ReleasePollResult {
        state: PollState::Succeeded,
        remaining: Vec::new(),
        reason: String::new(),
        message: String::new(),
        requeue_after_ms: None,
    };
    let refused = session.accept(Returned::PollRelease(Ok(success))).unwrap_err();
    assert_eq!(refused.reason, "UnreleasedResources");

    house.cloud.points_to(&[EU]);
    done(release(&house, &owned).perform("remove".into(), call("remove", json!({"id": "srv-1"}))).await);
    assert_eq!(house.cloud.servers(), 0);
}

#[tokio::test]
async fn a_create_in_doubt_is_neither_repeated_nor_looked_up_elsewhere_attack_a9() {
    for name in ["make-bare", "make-put", "make-lookup"] {
        for fault in [Fault::LostBefore, Fault::LostAfter] {
            let house = House::new();
            house.cloud.points_to(&[EU]);
            house.cloud.fault(fault.clone());
            assert!(waits(house.perform("create", no_args(name)).await).is_some());
            house.cloud.points_to(&[US]);
            let before = house.cloud.state.lock().unwrap().sent.len();
            for _ in 0..3 {
                house.cloud.clock.pass(600);
                told(house.restarted().perform("create", no_args(name)).await);
            }
            assert_eq!(house.cloud.state.lock().unwrap().sent.len(), before, "{name} {fault:?}");
            assert_eq!(house.state("create"), Some(EffectState::Intended));

            house.cloud.points_to(&[EU]);
            for _ in 0..3 {
                if matches!(house.perform("create", no_args(name)).await, Ok(CallOutcome::Done(_))) {
                    break;
                }
                house.cloud.clock.pass(60);
            }
            assert_eq!(house.state("create"), Some(EffectState::Done), "{name} {fault:?}");
            assert_eq!(house.cloud.servers(), 1, "{name} {fault:?}");
        }
    }
}

/// The request can't be built any more (its first-boot data is no longer lent), and the lookup alone would decide.
#[tokio::test]
async fn a_lookup_alone_is_not_believed_elsewhere_either_attack_a9() {
    let house = House::new();
    house.cloud.points_to(&[EU]);
    house.cloud.fault(Fault::LostAfter);
    let (lent, request) = with_data(7);
    waits(house.open(lent).perform("create".into(), request).await);
    house.cloud.clock.pass(7_200);
    house.cloud.points_to(&[US]);
    house.cloud.state.lock().unwrap().blind = 9;
    let finds = house.cloud.sent("find");
    told(house.open(context(Phase::Track)).perform("create".into(), no_args("make-token")).await);
    assert_eq!((house.cloud.sent("find"), house.state("create")), (finds, Some(EffectState::Intended)));
}

#[tokio::test]
async fn an_effect_that_a_refusal_has_settled_may_be_made_anew_wherever_the_binding_points() {
    let house = House::new();
    house.cloud.points_to(&[EU]);
    house.cloud.fault(Fault::Refused("quota-exceeded"));
    failed(house.perform("create", no_args("make-bare")).await);
    house.cloud.points_to(&[US]);
    done(house.perform("create", no_args("make-bare")).await);
    assert_eq!(house.effect("create").place.as_deref(), Some(US));
}

#[tokio::test]
async fn an_alias_is_the_same_place_and_records_without_a_place_keep_working() {
    let (house, mut owned) = made_in_europe().await;
    house.cloud.points_to(&["https://new.example/?region=eu", EU]);
    house.act().perform("p".into(), call("power", json!({"id": "srv-1", "state": "On"}))).await.unwrap();
    house.cloud.points_to(&[US]);
    house.disk.lock().unwrap().clear();
    owned[0].place = None;
    done(release(&house, &owned).perform("remove".into(), call("remove", json!({"id": "srv-1"}))).await);
}

#[tokio::test]
async fn this_machine_is_not_touched_elsewhere_if_it_is_on_record_attack_a9() {
    let (house, mut owned) = made_in_europe().await;
    house.cloud.points_to(&[US]);
    owned[0].id = "old".into();
    let mut machine = context(Phase::Act);
    machine.owned = owned;
    told(house.open(machine).perform("p".into(), call("power", json!({"id": "old", "state": "Off"}))).await);
    // One that nobody made here is the operator's, wherever that is.
    done(house.act().perform("p".into(), call("power", json!({"id": "old", "state": "Off"}))).await);
}
