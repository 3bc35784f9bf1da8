//! Targets and ownership: holes H3, H4 and H8 while acting, sealed and carried values.

mod kit;

use holdfast_effects::*;
use kit::cloud::Fault;
use kit::*;
use serde_json::json;

fn owned(binding: &str, kind: &str, id: &str) -> Owned {
    Owned::new(binding, kind, id)
}

async fn power(session: &Session, id: &str) -> Result<CallOutcome, CallError> {
    let key: String = id.bytes().map(|byte| format!("{byte:02x}")).collect();
    session.perform(format!("p-{key}"), call("power", json!({"id": id, "state": "On"}))).await
}

/// Field cases B26 and L07.
#[tokio::test]
async fn an_update_reaches_this_machine_and_what_is_owned_and_no_neighbour_h4() {
    let house = House::new();
    let mut mine = context(Phase::Act);
    mine.owned = vec![
        owned("api/here", "server", "made"),
        owned("api/there", "server", "elsewhere"),
        owned("api/here", "disk", "disk-1"),
    ];
    let session = house.open(mine);
    done(power(&session, "old").await);
    done(power(&session, "made").await);
    // A neighbour; an id of another binding; an id of another kind; nearly this machine.
    for foreign in ["neighbour", "elsewhere", "disk-1", "Old", "old/", ""] {
        let violation = violated(power(&session, foreign).await);
        assert_eq!(violation.reason, "ForeignTarget", "{foreign}");
    }
    assert_eq!(house.cloud.sent("power"), 2);
}

#[tokio::test]
async fn a_read_with_a_target_reaches_no_neighbour_either() {
    let house = House::new();
    let session = house.act();
    session.read(call("server", json!({"id": "old"}))).await.unwrap();
    assert_eq!(
        violated(session.read(call("server", json!({"id": "neighbour"}))).await).reason,
        "ForeignTarget"
    );
}

#[tokio::test]
async fn the_old_identity_may_still_be_read_and_not_updated_once_a_new_one_is_applied() {
    let house = House::new();
    let mut applied = context(Phase::Track);
    applied.provider_id = Some("fake://new".into());
    let session = house.open(applied);
    session.read(call("server", json!({"id": "old"}))).await.unwrap();
    assert_eq!(violated(power(&session, "old").await).reason, "ForeignTarget");
    done(power(&session, "new").await);
}

#[tokio::test]
async fn a_machine_without_a_provider_id_is_named_by_its_machine_object() {
    let house = House::new();
    let mut metal = context(Phase::Act);
    metal.machine_object = Some(json!({"spec": {"systemID": "System.1"}}));
    // With a provider ID the object says nothing.
    assert_eq!(violated(power(&house.open(metal.clone()), "System.1").await).reason, "ForeignTarget");
    metal.provider_id = None;
    let session = house.open(metal);
    assert_eq!(violated(power(&session, "System.2").await).reason, "ForeignTarget");
    done(power(&session, "System.1").await);
}

#[tokio::test]
async fn a_planned_locator_counts_only_once_it_is_owned_h8() {
    let house = House::new();
    let mut planned = context(Phase::Act);
    planned.owner = Owner { kind: OwnerKind::Allocation, uid: "alloc-1".into() };
    assert_eq!(violated(power(&house.open(planned.clone()), "old").await).reason, "ForeignTarget");
    planned.owned = vec![owned("api/here", "server", "old")];
    done(power(&house.open(planned), "old").await);
}

#[tokio::test]
async fn a_release_touches_only_what_is_recorded_as_owned_r2_26() {
    let house = House::new();
    house.cloud.has("made");
    let mut release = context(Phase::Release);
    release.owned = vec![owned("api/here", "server", "made"), owned("api/there", "server", "elsewhere")];
    let session = house.open(release);
    for foreign in ["old", "neighbour", "elsewhere"] {
        let outcome = session.perform("r".into(), call("remove", json!({"id": foreign}))).await;
        assert_eq!(violated(outcome).reason, "ForeignTarget", "{foreign}");
        assert_eq!(violated(power(&session, foreign).await).reason, "ForeignTarget", "{foreign}");
    }
    done(session.perform("r".into(), call("remove", json!({"id": "made"}))).await);
    assert_eq!(house.cloud.sent("remove"), 1);
}

#[tokio::test]
async fn a_cleanup_removes_the_identity_of_the_result_and_never_the_machine_as_it_is_2e13() {
    let house = House::new();
    let mut cleanup = context(Phase::Cleanup);
    cleanup.provider_id = Some("fake://new".into());
    cleanup.cleanup_provider_id = Some("fake://old".into());
    cleanup.owned = vec![owned("api/here", "server", "new")];
    let session = house.open(cleanup.clone());
    for foreign in ["new", "neighbour"] {
        let outcome = session.perform("c".into(), call("remove", json!({"id": foreign}))).await;
        assert_eq!(violated(outcome).reason, "ForeignTarget", "{foreign}");
    }
    session.perform("c".into(), call("remove", json!({"id": "old"}))).await.unwrap();
    session.read(call("server", json!({"id": "old"}))).await.unwrap();

    cleanup.cleanup_provider_id = Some("fake://new".into());
    let outcome = house.open(cleanup).perform("d".into(), call("remove", json!({"id": "new"}))).await;
    assert_eq!(violated(outcome).reason, "ForeignTarget");
}

#[tokio::test]
async fn sealed_values_pass_through_as_they_are() {
    let house = House::new();
    let session = house.act();
    let reply = session.read(call("server", json!({"id": "old"}))).await.unwrap();
    let fields: serde_json::Value = serde_json::from_str(&reply.fields).unwrap();
    let args = json!({"id": "old", "state": "On", "etag": fields["etag"]});
    done(session.perform("p".into(), call("power", args)).await);
    // Kept in a resume token and carried by a later callback: custody judges the seal.
    let later = house.open(context(Phase::Track));
    done(later.perform("s".into(), call("stop", json!({"target": fields["stop"]}))).await);
}

#[tokio::test]
async fn a_sealed_target_destroys_only_where_the_thing_it_came_from_may_be_destroyed() {
    let house = House::new();
    house.cloud.has("made");
    let mut release = context(Phase::Release);
    release.owned = vec![owned("api/here", "server", "made")];
    let session = house.open(release);
    let stop = async |id: &str| {
        let reply = session.read(call("server", json!({"id": id}))).await.unwrap();
        serde_json::from_str::<serde_json::Value>(&reply.fields).unwrap()["stop"].clone()
    };
    let (made, old) = (stop("made").await, stop("old").await);
    for target in [old, json!("from-an-earlier-callback")] {
        let outcome = session.perform("x".into(), call("purge", json!({"target": target}))).await;
        assert_eq!(violated(outcome).reason, "ForeignTarget");
    }
    session.perform("x".into(), call("purge", json!({"target": made}))).await.unwrap();
}

#[tokio::test]
async fn a_carried_value_must_be_one_that_the_call_returned_to_this_operation() {
    let house = House::new();
    let session = house.act();
    let action = call("action", json!({"action": "action-old"}));
    assert_eq!(failed(session.read(action.clone()).await).reason, "ForeignValue");
    done(power(&session, "old").await);
    session.read(action.clone()).await.unwrap();
    // From the journal, in a later callback.
    house.open(context(Phase::Track)).read(action).await.unwrap();
    let foreign = call("action", json!({"action": "action-neighbour"}));
    assert_eq!(failed(session.read(foreign).await).reason, "ForeignValue");
}

#[tokio::test]
async fn a_name_that_the_host_derived_is_owned_as_it_was_written_h3() {
    let house = House::new();
    let session = house.act();
    done(session.perform("create".into(), no_args("make-put")).await);
    let name = format!("hf-{}", session.token("create").unwrap());
    assert_eq!(session.owned(), [owned("api/here", "server", &name)]);
}

#[tokio::test]
async fn a_read_completes_a_create_when_its_state_says_so_and_for_the_recorded_job_alone() {
    let house = House::new();
    let session = house.act();
    let job =
        done(session.perform("create".into(), no_args("make-job")).await)["job"].as_str().unwrap().to_owned();
    assert!(session.owned().is_empty());
    assert_eq!(failed(session.read(call("job", json!({"job": "another"}))).await).reason, "ForeignValue");
    session.read(call("job", json!({"job": job}))).await.unwrap();
    assert!(session.owned().is_empty(), "it is still running");
    house.cloud.state.lock().unwrap().jobs.insert(job.clone(), "success");
    house.journal.settles.lock().unwrap().push_back(Write::Fails);
    let withheld = failed(session.read(call("job", json!({"job": job}))).await);
    assert_eq!(withheld.reason, "JournalUnavailable");
    session.read(call("job", json!({"job": job}))).await.unwrap();
    assert_eq!(house.effect("create").created, [owned("api/here", "server", &job)]);
}

#[tokio::test]
async fn the_job_of_one_create_does_not_complete_another_h3() {
    let house = House::new();
    let session = house.act();
    let job = done(session.perform("one".into(), no_args("make-job")).await)["job"].clone();
    done(session.perform("two".into(), no_args("make-job")).await);
    house.cloud.state.lock().unwrap().jobs.insert(job.as_str().unwrap().to_owned(), "success");
    session.read(call("job", json!({"job": job}))).await.unwrap();
    assert_eq!((house.effect("one").created.len(), house.effect("two").created.len()), (1, 0));
}

#[tokio::test]
async fn a_child_is_adopted_only_where_the_same_item_bears_the_token_h3() {
    let house = House::new();
    let session = house.act();
    done(session.perform("create".into(), no_args("make-bare")).await);
    let token = session.token("create").unwrap();
    house.cloud.state.lock().unwrap().disks = json!([
        {"id": "disk-1", "mark": token},
        {"id": "disk-2", "mark": "neighbour"},
        {"id": "disk-3", "mark": session.token("other").unwrap()},
    ]);
    session.read(no_args("disks")).await.unwrap();
    let disks: Vec<Owned> = session.owned().into_iter().filter(|owned| owned.kind == "disk").collect();
    assert_eq!(disks, [owned("api/here", "disk", "disk-1")]);
}

/// A key is one effect. Another thing to destroy under the same key would settle the first by an answer that says
/// nothing about it.
#[tokio::test]
async fn an_idempotent_destroy_in_doubt_is_not_repeated_on_another_thing() {
    let house = House::new();
    house.cloud.has("a");
    let mut release = context(Phase::Release);
    release.owned = vec![owned("api/here", "server", "a"), owned("api/here", "server", "b")];
    let session = house.open(release);
    house.cloud.fault(Fault::LostBefore);
    assert!(waits(session.perform("r".into(), call("remove", json!({"id": "a"}))).await).is_some());
    assert_eq!(waits(session.perform("r".into(), call("remove", json!({"id": "b"}))).await), None);
    assert_eq!(house.cloud.sent("remove"), 1, "nothing was sent for the other");
    done(session.perform("r".into(), call("remove", json!({"id": "a"}))).await);
}
