//! Create, update, patch, delete: concurrency, generations, finalizers, subresources, pages.

mod common;

use common::{Fixture, MACHINES, OPERATIONS, SECRETS, machine, operation, start};
use holdfast_api::{MachineOperation, MachineOperationStatus, Phase};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn made(fixture: &Fixture, name: &str) -> Value {
    fixture.post(MACHINES, machine(name)).await.ok()
}

#[tokio::test]
async fn the_server_sets_its_own_fields_whatever_the_client_says() {
    let fixture = start().await;
    let mut object = machine("m");
    object["metadata"]["uid"] = json!("mine");
    object["metadata"]["generation"] = json!(7);
    object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    object["metadata"]["managedFields"] = json!([{ "manager": "x" }]);
    object["status"] = json!({ "currentOperation": "sneaked in" });
    let object = fixture.post(MACHINES, object).await.ok();
    let meta = &object["metadata"];
    assert_eq!(meta["uid"].as_str().unwrap().len(), 36);
    assert_eq!(meta["generation"], 1);
    assert_ne!(meta["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert!(meta["managedFields"].is_null() && object["status"].is_null());
    assert_eq!(fixture.get(&format!("{MACHINES}/m")).await.ok(), object);
}

#[tokio::test]
async fn the_generation_moves_with_the_spec_alone_and_writes_of_nothing_are_not_writes() {
    let fixture = start().await;
    made(&fixture, "m").await;
    let path = format!("{MACHINES}/m");
    let labelled = fixture.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } })).await.ok();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let changed = fixture.merge(&path, json!({ "spec": { "host": { "image": "i" } } })).await.ok();
    assert_eq!(changed["metadata"]["generation"], 2);
    let same = fixture.merge(&path, json!({ "spec": { "host": { "image": "i" } } })).await.ok();
    assert_eq!(same, changed);
    assert_eq!(fixture.put(&path, changed.clone()).await.ok(), changed);
    let writes = fixture.server.metrics().writes;
    fixture.merge(&format!("{path}/status"), json!({ "status": { "currentOperation": "o" } })).await.ok();
    assert_eq!(fixture.server.metrics().writes, writes + 1);
    assert_eq!(fixture.get(&path).await.ok()["metadata"]["generation"], 2);
}

#[tokio::test]
async fn spec_and_status_are_written_apart() {
    let fixture = start().await;
    let object = made(&fixture, "m").await;
    let path = format!("{MACHINES}/m");
    let mut both = object.clone();
    both["spec"]["host"]["image"] = json!("new");
    both["status"] = json!({ "currentOperation": "o" });
    both["metadata"]["labels"] = json!({ "l": "v" });
    let status = fixture.put(&format!("{path}/status"), both.clone()).await.ok();
    assert_eq!(status["status"]["currentOperation"], "o");
    assert!(status["spec"]["host"]["image"].is_null() && status["metadata"]["labels"].is_null());
    both["metadata"]["resourceVersion"] = status["metadata"]["resourceVersion"].clone();
    both["status"] = json!({});
    let spec = fixture.put(&path, both).await.ok();
    assert_eq!(spec["status"]["currentOperation"], "o");
    assert_eq!(spec["spec"]["host"]["image"], "new");
}

#[tokio::test]
async fn a_stale_version_is_a_conflict_in_the_words_of_kubernetes() {
    let fixture = start().await;
    let object = made(&fixture, "m").await;
    let path = format!("{MACHINES}/m");
    fixture.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } })).await.ok();
    let answer = fixture.put(&path, object.clone()).await;
    assert_eq!((answer.code, answer.body["reason"].as_str()), (409, Some("Conflict")));
    assert_eq!(
        answer.message(),
        "Operation cannot be fulfilled on machines.holdfast.dev \"m\": the object has been modified; please apply \
         your changes to the latest version and try again"
    );
    assert_eq!(answer.body["details"], json!({ "name": "m", "group": "holdfast.dev", "kind": "machines" }));
    let stale =
        json!({ "metadata": { "resourceVersion": object["metadata"]["resourceVersion"], "labels": {} } });
    assert_eq!(fixture.merge(&path, stale).await.code, 409);
    let mut unversioned = object.clone();
    unversioned["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let answer = fixture.put(&path, unversioned).await;
    assert_eq!(answer.code, 422);
    assert!(
        answer
            .message()
            .contains("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
    );
    let mut other = object;
    other["metadata"]["uid"] = json!("another");
    other["metadata"]["resourceVersion"] = fixture.get(&path).await.version().into();
    assert_eq!(fixture.put(&path, other).await.code, 409);
}

#[tokio::test]
async fn of_many_writers_at_one_version_one_wins_and_patches_without_a_version_all_do() {
    let fixture = start().await;
    let object = made(&fixture, "m").await;
    let path = format!("{MACHINES}/m");
    let updates = (0..10).map(|n| {
        let mut object = object.clone();
        object["spec"]["host"]["image"] = json!(n.to_string());
        fixture.put(&path, object)
    });
    let codes: Vec<u16> = futures::future::join_all(updates).await.iter().map(|a| a.code).collect();
    assert_eq!(codes.iter().filter(|c| **c == 200).count(), 1);
    assert_eq!(codes.iter().filter(|c| **c == 409).count(), 9);
    let names: Vec<String> = (0..10).map(|n| format!("l{n}")).collect();
    let patches = names.iter().map(|n| fixture.merge(&path, json!({ "metadata": { "labels": { n: "v" } } })));
    assert!(futures::future::join_all(patches).await.iter().all(|a| a.code == 200));
    assert_eq!(fixture.get(&path).await.ok()["metadata"]["labels"].as_object().unwrap().len(), 10);
}

#[tokio::test]
async fn finalizers_hold_a_deleted_object_until_the_last_is_gone() {
    let fixture = start().await;
    let mut object = machine("m");
    object["metadata"]["finalizers"] = json!(["holdfast.dev/a", "holdfast.dev/b"]);
    fixture.post(MACHINES, object).await.ok();
    let path = format!("{MACHINES}/m");
    let deleted = fixture.delete(&path, json!({ "propagationPolicy": "Background" })).await.ok();
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleted["metadata"]["generation"], 2);
    assert_eq!(fixture.delete(&path, json!({})).await.ok(), deleted, "a second delete changes nothing");
    let add = json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "holdfast.dev/c" }]);
    let answer = fixture.patch(&path, JSON, add).await;
    assert_eq!(answer.code, 422);
    assert!(answer.message().contains("no new finalizers can be added if the object is being deleted"));
    fixture.merge(&path, json!({ "metadata": { "finalizers": ["holdfast.dev/b"] } })).await.ok();
    assert_eq!(fixture.get(&path).await.code, 200);
    let last = fixture.merge(&path, json!({ "metadata": { "finalizers": null } })).await.ok();
    assert_eq!(last["metadata"]["name"], "m");
    assert_eq!(fixture.get(&path).await.code, 404);
}

#[tokio::test]
async fn preconditions_of_a_delete_are_kept() {
    let fixture = start().await;
    let object = made(&fixture, "m").await;
    let path = format!("{MACHINES}/m");
    let answer = fixture.delete(&path, json!({ "preconditions": { "uid": "another" } })).await;
    assert_eq!(answer.code, 409);
    assert!(answer.message().contains("Precondition failed: UID in precondition: another"));
    assert_eq!(fixture.delete(&path, json!({ "preconditions": { "resourceVersion": "1" } })).await.code, 409);
    let status =
        fixture.delete(&path, json!({ "preconditions": { "uid": object["metadata"]["uid"] } })).await.ok();
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"]["uid"], object["metadata"]["uid"]);
    let answer = fixture.delete(&path, json!({})).await;
    assert_eq!((answer.code, answer.message()), (404, "machines.holdfast.dev \"m\" not found"));
}

#[tokio::test]
async fn the_three_patches_do_what_they_say_and_custom_kinds_take_no_strategic_one() {
    let fixture = start().await;
    made(&fixture, "m").await;
    let path = format!("{MACHINES}/m");
    let add = json!([{ "op": "test", "path": "/spec/host/external/provider", "value": "sim" },
                     { "op": "add", "path": "/spec/host/image", "value": "i" }]);
    assert_eq!(fixture.patch(&path, JSON, add).await.ok()["spec"]["host"]["image"], "i");
    let test = json!([{ "op": "test", "path": "/spec/host/image", "value": "other" }]);
    assert_eq!(fixture.patch(&path, JSON, test).await.code, 422);
    assert_eq!(fixture.patch(&path, JSON, json!([{ "op": "twist" }])).await.code, 400);
    let gone = fixture.merge(&path, json!({ "spec": { "host": { "image": null } } })).await.ok();
    assert!(gone["spec"]["host"]["image"].is_null());
    assert_eq!(fixture.patch(&path, STRATEGIC, json!({})).await.code, 415);
    let answer = fixture.patch(&path, "application/apply-patch+yaml", json!({})).await;
    assert_eq!(answer.code, 415);
    assert!(answer.message().contains("server-side apply is not supported"));
    assert_eq!(fixture.merge(&path, json!([1])).await.code, 400);
    assert_eq!(fixture.merge(&format!("{MACHINES}/none"), json!({})).await.code, 404);

    fixture
        .post(SECRETS, json!({ "metadata": { "name": "s" }, "stringData": { "a": "1", "b": "2" } }))
        .await
        .ok();
    let patch = json!({ "stringData": { "c": "3" }, "data": { "a": null } });
    let secret = fixture.patch(&format!("{SECRETS}/s"), STRATEGIC, patch).await.ok();
    assert_eq!(secret["data"], json!({ "b": "Mg==", "c": "Mw==" }));
    assert!(secret["stringData"].is_null());
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_and_stores_nothing() {
    let fixture = start().await;
    let version = fixture.server.metrics().version;
    let object = fixture.post(&format!("{MACHINES}?dryRun=All"), machine("m")).await;
    assert_eq!(object.code, 201);
    assert_eq!(fixture.get(&format!("{MACHINES}/m")).await.code, 404);
    assert_eq!(fixture.server.metrics().version, version);
    made(&fixture, "m").await;
    assert_eq!(fixture.post(&format!("{MACHINES}?dryRun=All"), machine("m")).await.code, 409);
    fixture.delete(&format!("{MACHINES}/m?dryRun=All"), json!({})).await.ok();
    fixture.delete(&format!("{MACHINES}/m"), json!({ "dryRun": ["All"] })).await.ok();
    assert_eq!(fixture.get(&format!("{MACHINES}/m")).await.code, 200);
    assert_eq!(fixture.post(&format!("{MACHINES}?dryRun=Some"), machine("n")).await.code, 400);
}

#[tokio::test]
async fn a_name_is_generated_and_a_taken_one_is_refused() {
    let fixture = start().await;
    let mut object = machine("");
    object["metadata"] = json!({ "generateName": "m-" });
    let names =
        [fixture.post(MACHINES, object.clone()).await.ok(), fixture.post(MACHINES, object).await.ok()];
    let names = names.map(|o| o["metadata"]["name"].as_str().unwrap().to_owned());
    assert!(names.iter().all(|n| n.starts_with("m-") && n.len() == 7));
    assert_ne!(names[0], names[1]);
    let answer = fixture.post(MACHINES, machine(&names[0])).await;
    assert_eq!((answer.code, answer.body["reason"].as_str()), (409, Some("AlreadyExists")));
    assert_eq!(answer.message(), format!("machines.holdfast.dev \"{}\" already exists", names[0]));
}

#[tokio::test]
async fn all_pages_of_a_list_are_of_one_moment() {
    let fixture = start().await;
    for n in 0..5 {
        made(&fixture, &format!("m{n}")).await;
    }
    let first = fixture.get(&format!("{MACHINES}?limit=2")).await.ok();
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    fixture.delete(&format!("{MACHINES}/m3"), json!({})).await.ok();
    let mut names = Vec::new();
    let mut page = first.clone();
    loop {
        names.extend(page["items"].as_array().unwrap().iter().map(|o| o["metadata"]["name"].clone()));
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        let Some(token) = page["metadata"]["continue"].as_str() else { break };
        page = fixture.get(&format!("{MACHINES}?limit=2&continue={token}")).await.ok();
    }
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4"]);
    assert_eq!(fixture.get(&format!("{MACHINES}?limit=2&continue=gone")).await.code, 410);
}

#[tokio::test]
async fn selectors_narrow_lists_and_collections() {
    let fixture = start().await;
    for (name, site) in [("a", "x"), ("b", "y"), ("c", "y")] {
        let mut object = machine(name);
        object["metadata"]["labels"] = json!({ "holdfast.dev/site": site });
        fixture.post(MACHINES, object).await.ok();
    }
    let count = async |query: &str| {
        fixture.get(&format!("{MACHINES}?{query}")).await.ok()["items"].as_array().unwrap().len()
    };
    assert_eq!(count("labelSelector=holdfast.dev%2Fsite%3Dy").await, 2);
    assert_eq!(count("labelSelector=holdfast.dev%2Fsite%20notin%20(y)").await, 1);
    assert_eq!(count("fieldSelector=metadata.name%3Db").await, 1);
    assert_eq!(count("fieldSelector=metadata.name!%3Db").await, 2);
    let answer = fixture.get(&format!("{MACHINES}?fieldSelector=spec.colour%3Dred")).await;
    assert_eq!((answer.code, answer.message()), (400, "field label not supported: spec.colour"));
    fixture.delete(&format!("{MACHINES}?labelSelector=holdfast.dev%2Fsite%3Dy"), json!({})).await.ok();
    assert_eq!(count("").await, 1);
    fixture.post(OPERATIONS, operation("o")).await.ok();
    let selected = fixture.get(&format!("{OPERATIONS}?fieldSelector=spec.machineRef.name%3Dm")).await.ok();
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn namespaces_exist_at_start_and_hold_what_is_in_them() {
    let fixture = start().await;
    for name in ["default", "holdfast-system", "kube-system"] {
        let answer = fixture.delete(&format!("/api/v1/namespaces/{name}"), json!({})).await;
        assert_eq!(answer.code, 403, "{name}");
    }
    let answer =
        fixture.post("/api/v1/namespaces/n/configmaps", json!({ "metadata": { "name": "c" } })).await;
    assert_eq!((answer.code, answer.message()), (404, "namespaces \"n\" not found"));
    fixture.post("/api/v1/namespaces", json!({ "metadata": { "name": "n" } })).await.ok();
    fixture.post("/api/v1/namespaces/n/configmaps", json!({ "metadata": { "name": "c" } })).await.ok();
    assert_eq!(fixture.get("/api/v1/configmaps").await.ok()["items"].as_array().unwrap().len(), 1);
    fixture.delete("/api/v1/namespaces/n", json!({})).await.ok();
    assert_eq!(fixture.get("/api/v1/configmaps").await.ok()["items"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn an_event_is_one_object_in_both_of_its_groups() {
    let fixture = start().await;
    let event = json!({ "metadata": { "name": "e" }, "regarding": { "kind": "Machine", "name": "m" }, "reason": "R",
        "note": "text", "action": "A", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "c", "reportingInstance": "i" });
    fixture.post("/apis/events.k8s.io/v1/namespaces/default/events", event).await.ok();
    let core = fixture.get("/api/v1/namespaces/default/events/e").await.ok();
    assert_eq!(core["involvedObject"]["name"], "m");
    assert_eq!((&core["message"], &core["reportingComponent"]), (&json!("text"), &json!("c")));
    let selected = fixture
        .get("/api/v1/events?fieldSelector=involvedObject.name%3Dm,involvedObject.kind%3DMachine")
        .await;
    assert_eq!(selected.ok()["items"].as_array().unwrap().len(), 1);
    let path = "/apis/events.k8s.io/v1/namespaces/default/events/e";
    let patch = json!({ "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:01.000001Z" } });
    assert_eq!(fixture.merge(path, patch).await.ok()["note"], "text");
    let mut watch = fixture.watch("/apis/events.k8s.io/v1/events?watch=true").await;
    assert_eq!(watch.next().await.unwrap()["object"]["regarding"]["name"], "m");
}

#[tokio::test]
async fn typed_clients_work_in_process() {
    let fixture = start().await;
    let client = fixture.server.client();
    let operations: Api<MachineOperation> = Api::all(client.clone());
    let object: MachineOperation = serde_json::from_value(operation("o")).unwrap();
    let mut object = operations.create(&PostParams::default(), &object).await.unwrap();
    object.status =
        Some(MachineOperationStatus { phase: Phase::InProgress, lease_epoch: Some(3), ..Default::default() });
    let written = operations.replace_status("o", &PostParams::default(), &object).await.unwrap();
    assert_eq!(written.status, object.status);
    let stale = operations.replace_status("o", &PostParams::default(), &object).await;
    assert!(matches!(stale, Err(kube::Error::Api(status)) if status.is_conflict()));
    let patch = Patch::Merge(json!({ "spec": { "cancel": true } }));
    assert!(operations.patch("o", &PatchParams::default(), &patch).await.unwrap().spec.cancel);
    let metadata = operations.get_metadata("o").await.unwrap();
    assert_eq!(metadata.name_any(), "o");
    let leases: Api<Lease> = Api::namespaced(client, "holdfast-system");
    let lease: Lease = serde_json::from_value(json!({ "metadata": { "name": "l" },
        "spec": { "holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.000001Z" } }))
    .unwrap();
    assert_eq!(leases.create(&PostParams::default(), &lease).await.unwrap().spec, lease.spec);
}
