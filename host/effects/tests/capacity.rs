//! Allocations: whose tokens, what a result may claim, and what shows that a release is over.

mod kit;

use holdfast_effects::*;
use holdfast_manifest::Manifest;
use kit::cloud::{Fault, SECRET};
use kit::*;
use serde_json::json;
use std::sync::Arc;

fn owned(id: &str) -> Owned {
    Owned::new("api/here", "server", id)
}

fn named(kind: &str, id: &str) -> OwnedResource {
    OwnedResource { kind: kind.into(), id: id.into(), zone: None }
}

/// A callback of an allocation whose machine has a planned locator.
fn allocation(phase: Phase) -> Context {
    let mut context = context(phase);
    context.owner = Owner { kind: OwnerKind::Allocation, uid: "claim-1".into() };
    context.provider_id = Some("fake://planned".into());
    context.frozen_provider_id = context.provider_id.clone();
    context.offering = Some(Offering { instance_type: "s".into(), zone: Some("z1".into()) });
    context
}

fn allocated(id: &str, provider_id: Option<&str>) -> AllocatePollResult {
    AllocatePollResult {
        state: PollState::Succeeded,
        result: Some(AllocationResult {
            provider_resource_id: id.into(),
            provider_id: provider_id.map(str::to_owned),
            instance_type: "s".into(),
            zone: Some(String::new()),
            image: None,
        }),
        owned_resources: Vec::new(),
        reason: String::new(),
        message: String::new(),
        requeue_after_ms: Some(0),
    }
}

fn released(state: PollState, remaining: Vec<OwnedResource>) -> Returned {
    Returned::PollRelease(Ok(ReleasePollResult {
        state,
        remaining,
        reason: String::new(),
        message: String::new(),
        requeue_after_ms: None,
    }))
}

fn refused(session: &Session, poll: AllocatePollResult) -> String {
    session.accept(Returned::PollAllocate(Ok(poll))).unwrap_err().reason
}

/// Field case B06.
#[tokio::test]
async fn a_token_belongs_to_allocation_attempt_and_key_r2_4() {
    let house = House::new();
    let token = |uid: &str, operation: &str, attempt, kind| {
        let mut context = allocation(Phase::Act);
        context.owner = Owner { kind, uid: uid.into() };
        context.operation_uid = operation.into();
        context.attempt = attempt;
        house.open(context).token("create").unwrap()
    };
    use OwnerKind::{Allocation, Operation};
    let first = token("claim-1", "op-1", 0, Allocation);
    // Nothing may ever change these: they are what a service knows our earlier sends by.
    let known =
        [house.act().token("create").unwrap(), first.clone(), token("claim-1", "op-1", 1, Allocation)];
    assert_eq!(
        known,
        ["hfgnhflabbohbustd65st3k6wkv7", "hfr2kdjkp5xdphpez45qwey5cxhj", "hfwzrk6ein32ahpe3rfk7rcowp6e"]
    );
    assert_eq!(first, token("claim-1", "op-2", 0, Allocation), "the operation is not part of it");
    assert_ne!(first, token("claim-2", "op-1", 0, Allocation));
    assert_ne!(token("claim-1", "op-1", 1, Allocation), token("claim-1", "op-1", 2, Allocation));
    assert_eq!(
        token("op-1", "op-1", 0, Operation),
        token("op-1", "op-1", 7, Operation),
        "only offerings count"
    );
}

/// Custody seals for the owner; what a service said to one operation is no argument of another.
#[tokio::test]
async fn values_are_sealed_for_the_allocation_and_observed_by_one_operation_h8() {
    let house = House::new();
    let mut allocate = allocation(Phase::Act);
    allocate.owned = vec![owned("mine")];
    let mut release = Context { phase: Phase::Release, operation_uid: "op-2".into(), ..allocate.clone() };
    release.owned = allocate.owned.clone();
    let power = call("power", json!({"id": "mine", "state": "On"}));
    let action = done(house.open(allocate.clone()).perform("p".into(), power).await)["action"].clone();
    let look = call("action", json!({"action": action}));
    house.open(allocate).read(look.clone()).await.unwrap();
    let elsewhere = house.effects.open(release.clone(), house.manifest.clone(), None);
    assert_eq!(failed(elsewhere.read(look).await).reason, "ForeignValue");
    house.open(release).read(call("server", json!({"id": "mine"}))).await.unwrap();
    let owners = house.cloud.state.lock().unwrap().owners.clone();
    assert_eq!(owners.into_iter().collect::<Vec<_>>(), ["claim-1"]);
}

#[tokio::test]
async fn a_planned_locator_gives_no_right_until_it_is_owned_h8() {
    let house = House::new();
    let power = |id: &str| call("power", json!({"id": id, "state": "On"}));
    let session = house.open(allocation(Phase::Act));
    for id in ["planned", "neighbour"] {
        assert_eq!(violated(session.perform("p".into(), power(id)).await).reason, "ForeignTarget");
        assert_eq!(violated(session.read(call("server", json!({"id": id}))).await).reason, "ForeignTarget");
    }
    done(session.perform("create".into(), no_args("make-bare")).await);
    done(session.perform("p".into(), power("srv-1")).await);
}

/// Field case E13.
#[tokio::test]
async fn a_host_is_one_that_an_effect_of_the_allocation_made_h8() {
    let house = House::new();
    let session = house.open(allocation(Phase::Track));
    let neighbour = allocated("neighbour", None);
    assert_eq!(refused(&session, neighbour), "ForeignIdentity");
    done(session.perform("create".into(), no_args("make-bare")).await);
    let accept = |poll| session.accept(Returned::PollAllocate(Ok(poll)));
    let Returned::PollAllocate(Ok(poll)) = accept(allocated("srv-1", Some("fake://srv-1"))).unwrap() else {
        panic!()
    };
    let result = poll.result.unwrap();
    assert_eq!((result.provider_id.as_deref(), result.zone), (Some("fake://srv-1"), None));
    assert_eq!(poll.requeue_after_ms, None);
    // The planned locator that would stay, a neighbour, no fit at all, and no result.
    for wrong in [
        allocated("srv-1", None),
        allocated("srv-1", Some("fake://neighbour")),
        allocated("srv-1", Some("elsewhere")),
        allocated("neighbour", Some("fake://srv-1")),
    ] {
        assert_eq!(refused(&session, wrong), "ForeignIdentity");
    }
    assert_eq!(refused(&session, AllocatePollResult { result: None, ..allocated("", None) }), "NoResult");
    // The same answer again, once the machine has its new identity (R2.9).
    let mut applied = allocation(Phase::Track);
    applied.provider_id = Some("fake://srv-1".into());
    let again =
        house.open(applied).accept(Returned::PollAllocate(Ok(allocated("srv-1", Some("fake://srv-1")))));
    assert!(again.is_ok(), "{again:?}");
}

#[tokio::test]
async fn a_zone_of_the_plan_may_stand_in_the_locator_and_a_resource_may_not_h8() {
    let zoned = include_str!("kit/provider.toml").replace("fake://{server}", "fake://{zone}/{server}");
    let mut house = House::new();
    house.manifest = Arc::new(Manifest::parse(&zoned).unwrap());
    let mut track = allocation(Phase::Track);
    track.frozen_provider_id = Some("fake://z1/neighbour".into());
    let session = house.open(track);
    done(session.perform("create".into(), no_args("make-bare")).await);
    session.accept(Returned::PollAllocate(Ok(allocated("srv-1", Some("fake://z1/srv-1"))))).unwrap();
    for foreign in ["fake://z1/neighbour", "fake://z2/srv-1"] {
        assert_eq!(refused(&session, allocated("srv-1", Some(foreign))), "ForeignIdentity", "{foreign}");
    }
    assert_eq!(
        refused(&session, allocated("srv-1", None)),
        "ForeignIdentity",
        "the plan's neighbour would stay"
    );
}

#[tokio::test]
async fn a_result_names_only_resources_that_the_host_recorded_h3() {
    let house = House::new();
    let mut track = allocation(Phase::Track);
    track.owned = vec![owned("mine")];
    let session = house.open(track);
    let poll =
        |state, owned_resources| AllocatePollResult { state, owned_resources, ..allocated("mine", None) };
    for state in
        [PollState::InProgress, PollState::Failed, PollState::Canceled, PollState::Other("odd".into())]
    {
        for foreign in [named("server", "neighbour"), named("disk", "mine")] {
            let claims = vec![named("server", "mine"), foreign];
            assert_eq!(refused(&session, poll(state.clone(), claims)), "UnownedResource");
        }
        let Returned::PollAllocate(Ok(kept)) =
            session.accept(Returned::PollAllocate(Ok(poll(state, vec![named("server", "mine")])))).unwrap()
        else {
            panic!()
        };
        assert_eq!((kept.result, kept.owned_resources.len()), (None, 1), "only a success has a result");
    }
    let many = vec![named("server", "mine"); 129];
    assert_eq!(refused(&session, poll(PollState::InProgress, many)), "TooManyResources");
    let remains = released(PollState::InProgress, vec![named("server", "neighbour")]);
    assert_eq!(session.accept(remains).unwrap_err().reason, "UnownedResource");
}

#[tokio::test]
async fn an_allocation_over_an_effect_in_doubt_is_refused() {
    let house = House::new();
    let session = house.open(allocation(Phase::Track));
    done(session.perform("create".into(), no_args("make-bare")).await);
    house.cloud.fault(Fault::LostAfter);
    waits(session.perform("disk".into(), no_args("make-never")).await);
    assert_eq!(refused(&session, allocated("srv-1", Some("fake://srv-1"))), "UnsettledEffect");
    let failed = AllocatePollResult { state: PollState::Failed, ..allocated("srv-1", None) };
    session.accept(Returned::PollAllocate(Ok(failed))).unwrap();
}

fn release(house: &House) -> Arc<Session> {
    let mut context = allocation(Phase::Release);
    context.owned = vec![owned("a"), owned("b")];
    house.open(context)
}

fn over(session: &Session) -> Result<Returned, Violation> {
    session.accept(released(PollState::Succeeded, Vec::new()))
}

#[tokio::test]
async fn a_release_is_over_when_all_that_is_owned_was_destroyed_or_seen_gone_r2_26() {
    let house = House::new();
    house.cloud.has("a");
    let remove = |id: &str| call("remove", json!({"id": id}));
    let session = release(&house);
    let violation = over(&session).unwrap_err();
    assert_eq!(violation.reason, "UnreleasedResources");
    assert!(violation.message.contains("`a`"), "{}", violation.message);
    house.cloud.state.lock().unwrap().missing = vec!["b".into()];
    // Looking at what is there shows nothing.
    session.read(call("server", json!({"id": "a"}))).await.unwrap();
    assert_eq!(failed(session.read(call("server", json!({"id": "b"}))).await).code, "not-found");
    assert_eq!(session.released(), vec![owned("b")]);
    assert_eq!(over(&session).unwrap_err().reason, "UnreleasedResources");
    done(session.perform("remove-a".into(), remove("a")).await);
    assert_eq!(session.released(), vec![owned("a"), owned("b")]);
    over(&session).unwrap();
    let still = session.accept(released(PollState::Succeeded, vec![named("server", "a")]));
    assert_eq!(still.unwrap_err().reason, "UnreleasedResources", "the guest says that it is there");
    // What was destroyed stays in the journal; what was seen gone is looked at again.
    let next = release(&house);
    assert_eq!(next.released(), vec![owned("a")]);
    assert_eq!(over(&next).unwrap_err().reason, "UnreleasedResources");
}

/// Field case B09.
#[tokio::test]
async fn a_destroy_that_is_refused_or_in_doubt_shows_nothing_r2_26() {
    let house = House::new();
    let session = release(&house);
    house.cloud.fault(Fault::Refused("conflict"));
    failed(session.perform("remove-a".into(), call("remove", json!({"id": "a"}))).await);
    house.cloud.fault(Fault::LostAfter);
    waits(session.perform("remove-b".into(), call("remove", json!({"id": "b"}))).await);
    assert!(session.released().is_empty());
    assert_eq!(over(&session).unwrap_err().reason, "UnsettledEffect");
}

/// Field case B14.
#[tokio::test]
async fn what_was_made_a_moment_ago_and_is_not_shown_yet_is_not_taken_for_released_a03() {
    let house = House::new();
    let remove = |id: &str| call("remove", json!({"id": id}));
    let session = release(&house);
    // Nothing is there, as far as the service says.
    assert_eq!(waits(session.perform("remove-a".into(), remove("a")).await), Some(2_000));
    assert!(session.released().is_empty());
    house.cloud.clock.pass(9);
    assert_eq!(waits(session.perform("remove-b".into(), remove("b")).await), Some(1_000));
    house.cloud.has("a");
    done(session.perform("remove-a".into(), remove("a")).await);
    assert_eq!(house.cloud.happened("remove"), 1, "it appeared, and was removed");
    house.cloud.clock.pass(1);
    // Counted from the release's first effect, so that several things do not wait one after the other.
    done(house.restarted().open(session.context().clone()).perform("remove-b".into(), remove("b")).await);
    over(&session).unwrap();
}

#[tokio::test]
async fn what_was_seen_and_then_is_not_there_is_gone_at_once_c03() {
    let house = House::new();
    let session = release(&house);
    session.read(call("server", json!({"id": "a"}))).await.unwrap();
    done(session.perform("remove-a".into(), call("remove", json!({"id": "a"}))).await);
    assert_eq!(session.released(), vec![owned("a")]);
}

#[tokio::test]
async fn a_release_reaches_nothing_but_what_is_recorded_r2_26() {
    let house = House::new();
    let session = release(&house);
    for id in ["planned", "neighbour"] {
        let remove = call("remove", json!({"id": id}));
        assert_eq!(violated(session.perform("x".into(), remove).await).reason, "ForeignTarget");
    }
    assert_eq!(violated(session.perform("x".into(), no_args("make-bare")).await).reason, "WrongPhase");
    assert_eq!(house.cloud.sent("remove"), 0);
}

#[tokio::test]
async fn a_release_of_nothing_is_over_at_once() {
    let house = House::new();
    let session = house.open(allocation(Phase::Release));
    over(&session).unwrap();
}

#[tokio::test]
async fn an_update_with_a_newer_etag_is_a_repeat_and_another_wish_is_not() {
    let house = House::new();
    let session = house.act();
    let power = |state: &str, etag: &str| call("power", json!({"id": "old", "state": state, "etag": etag}));
    house.cloud.fault(Fault::LostAfter);
    waits(session.perform("power".into(), power("On", "sealed-1")).await);
    assert_eq!(waits(session.perform("power".into(), power("Off", "sealed-1")).await), None, "another wish");
    assert_eq!(house.cloud.sent("power"), 1);
    done(session.perform("power".into(), power("On", "sealed-2")).await);
    assert_eq!(house.cloud.happened("power"), 1);
}

#[tokio::test]
async fn the_journal_says_what_an_update_or_destroy_is_aimed_at() {
    let house = House::new();
    done(house.perform("power", call("power", json!({"id": "old", "state": "On"}))).await);
    done(house.perform("create", no_args("make-bare")).await);
    assert_eq!(house.effect("power").targets, vec![owned("old")]);
    assert!(house.effect("create").targets.is_empty());
    // A record of an older version has neither, and is read.
    let mut old = serde_json::to_value(house.effect("power")).unwrap();
    old.as_object_mut().unwrap().retain(|name, _| name != "aim" && name != "targets");
    let read: Effect = serde_json::from_value(old).unwrap();
    assert_eq!((read.aim.as_str(), read.targets.len()), ("", 0));
}

#[tokio::test]
async fn a_secret_in_a_result_of_an_allocation_ends_the_guest_r2_6() {
    let house = House::new();
    let session = house.open(allocation(Phase::Track));
    let s = || format!("x{SECRET}y");
    let in_progress = || AllocatePollResult { state: PollState::InProgress, ..allocated("", None) };
    let leaks = [
        allocated(&s(), None),
        allocated("srv-1", Some(&s())),
        AllocatePollResult { owned_resources: vec![named("server", &s())], ..in_progress() },
        AllocatePollResult { message: s(), ..in_progress() },
        AllocatePollResult { reason: s(), ..in_progress() },
        AllocatePollResult { state: PollState::Other(s()), ..in_progress() },
    ];
    for (n, leak) in leaks.into_iter().enumerate() {
        assert_eq!(refused(&session, leak), "SecretInOutput", "{n}");
    }
}
