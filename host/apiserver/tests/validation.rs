//! What is refused, in which words; what is dropped, and what is filled in.

mod common;

use common::{Fixture, MACHINES, OPERATIONS, SECRETS, machine, operation, start};
use serde_json::{Value, json};

const CREDENTIALS: &str = "/apis/holdfast.dev/v1alpha1/providercredentials";

async fn refused(fixture: &Fixture, path: &str, object: Value) -> (String, Value) {
    let answer = fixture.post(path, object).await;
    assert_eq!((answer.code, answer.body["reason"].as_str()), (422, Some("Invalid")), "{}", answer.body);
    (answer.message().to_owned(), answer.body["details"]["causes"].clone())
}

#[tokio::test]
async fn a_missing_field_a_wrong_type_and_an_unsupported_value_are_named_with_their_paths() {
    let fixture = start().await;
    let mut object = machine("m");
    object["spec"] = json!({});
    let (message, causes) = refused(&fixture, MACHINES, object.clone()).await;
    let needed = "Required value: host must be set, or classRef for a machine whose host is to be allocated";
    assert_eq!(message, format!("Machine.holdfast.dev \"m\" is invalid: spec.host: {needed}"));
    assert_eq!(causes, json!([{ "reason": "FieldValueRequired", "message": needed, "field": "spec.host" }]));

    object["spec"] = json!({ "host": { "external": { "provider": 7, "providerID": true } } });
    let (message, causes) = refused(&fixture, MACHINES, object).await;
    assert!(message.starts_with("Machine.holdfast.dev \"m\" is invalid: [spec.host.external.provider: Invalid value: \"integer\": spec.host.external.provider in body must be of type string: \"integer\", "), "{message}");
    assert_eq!(causes.as_array().unwrap().len(), 2);

    let mut credential = json!({ "metadata": { "name": "c" },
        "spec": { "siteName": "s", "provider": "p", "auth": { "mode": "Magic" } } });
    let (message, _) = refused(&fixture, CREDENTIALS, credential.clone()).await;
    assert!(message.contains(
        "spec.auth.mode: Unsupported value: \"Magic\": supported values: \"WorkloadIdentity\", \"ExternalPlugin\""
    ), "{message}");
    credential["spec"]["auth"]["mode"] = json!("ExternalPlugin");
    let (message, _) = refused(&fixture, CREDENTIALS, credential).await;
    assert!(
        message.contains(
            "spec.auth.secretRef: Required value: secretRef is required when mode is ExternalPlugin"
        )
    );
}

#[tokio::test]
async fn patterns_and_ranges_are_kept() {
    let fixture = start().await;
    let mut object = operation("o");
    object["spec"]["operationKind"] = json!("reboot please");
    object["spec"]["ttlSecondsAfterFinished"] = json!(-1);
    object["spec"]["deadlineSeconds"] = json!(0);
    let (message, _) = refused(&fixture, OPERATIONS, object).await;
    for part in [
        "spec.operationKind: Invalid value: \"reboot please\": spec.operationKind in body should match '^[A-Z][A-Za-z0-9]*$'",
        "spec.ttlSecondsAfterFinished: Invalid value: -1: spec.ttlSecondsAfterFinished in body should be greater than or equal to 0",
        "spec.deadlineSeconds: Invalid value: 0: spec.deadlineSeconds in body should be greater than or equal to 1",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn faults_of_metadata_and_of_the_spec_are_told_together() {
    let fixture = start().await;
    let mut object = operation("Bad_Name");
    object["metadata"]["labels"] = json!({ "site": "no value" });
    object["spec"]["deadlineSeconds"] = json!(0);
    let (_, causes) = refused(&fixture, OPERATIONS, object.clone()).await;
    let fields = |causes: &Value| {
        let all = causes.as_array().unwrap().iter();
        all.map(|cause| cause["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(fields(&causes), ["metadata.name", "metadata.labels", "spec.deadlineSeconds"]);
    object["spec"] = json!({ "operationKind": "HostReboot" });
    let (_, causes) = refused(&fixture, OPERATIONS, object).await;
    assert_eq!(fields(&causes), ["metadata.name", "metadata.labels", "spec.machineRef"], "rules too");
}

#[tokio::test]
async fn the_spec_of_an_operation_is_immutable_but_for_cancel_and_resolve() {
    let fixture = start().await;
    let object = fixture.post(OPERATIONS, operation("o")).await.ok();
    assert_eq!(object["spec"]["cancel"], false, "a default");
    assert_eq!(object["spec"]["parameters"], json!({}), "a default");
    let path = format!("{OPERATIONS}/o");
    for (field, value) in [
        ("operationKind", json!("HostPowerOff")),
        ("machineRef", json!({ "name": "other" })),
        ("parameters", json!({ "a": "b" })),
        ("ttlSecondsAfterFinished", json!(5)),
        ("deadlineSeconds", json!(5)),
    ] {
        let answer = fixture.merge(&path, json!({ "spec": { field: value } })).await;
        assert_eq!(answer.code, 422, "{field}");
        assert!(answer.message().contains(&format!("spec.{field}: Invalid value:")), "{}", answer.message());
        assert!(answer.message().ends_with("field is immutable"));
    }
    let resolve = json!({ "spec": { "resolve": { "effect": "k", "outcome": "TookEffect" } } });
    fixture.merge(&path, resolve).await.ok();
    fixture.merge(&path, json!({ "spec": { "cancel": true } })).await.ok();
    let answer = fixture.merge(&path, json!({ "spec": { "cancel": false } })).await;
    assert!(answer.message().contains("cancel can't be taken back"));
}

#[tokio::test]
async fn an_operation_names_exactly_one_of_machine_and_selector() {
    let fixture = start().await;
    let mut object = operation("o");
    object["spec"]["machineSelector"] = json!({ "matchLabels": { "a": "b" } });
    let (message, _) = refused(&fixture, OPERATIONS, object.clone()).await;
    assert!(message.contains("exactly one of machineRef and machineSelector must be set"));
    object["spec"].as_object_mut().unwrap().remove("machineRef");
    fixture.post(OPERATIONS, object.clone()).await.ok();
    object["spec"].as_object_mut().unwrap().remove("machineSelector");
    object["metadata"]["name"] = json!("p");
    refused(&fixture, OPERATIONS, object).await;
}

/// R2.15: what an operation works with is taken once.
#[tokio::test]
async fn the_frozen_input_of_an_operation_is_written_once() {
    let fixture = start().await;
    fixture.post(OPERATIONS, operation("o")).await.ok();
    let path = format!("{OPERATIONS}/o/status");
    let input = |image: &str| {
        json!({ "status": { "target": { "machineRef": { "name": "m" }, "input": {
        "provider": "p", "hostImage": image, "providerRef": { "object": { "group": "g", "version": "v", "kind": "K",
        "resource": "ks", "name": "n", "uid": "u", "generation": 1 }, "spec": { "any": { "thing": [1, null] } } } } } } })
    };
    let object = fixture.merge(&path, input("a")).await.ok();
    assert_eq!(object["status"]["target"]["input"]["providerRef"]["spec"]["any"]["thing"], json!([1, null]));
    let answer = fixture.merge(&path, input("b")).await;
    assert!(
        answer.message().contains("status.target.input: Invalid value: \"object\": input is written once")
    );
}

#[tokio::test]
async fn an_external_host_needs_an_identity_or_a_reference() {
    let fixture = start().await;
    let mut object = machine("m");
    object["spec"]["host"]["external"] = json!({ "provider": "p" });
    let (message, _) = refused(&fixture, MACHINES, object.clone()).await;
    assert!(message.contains("at least one of providerID and machineRef must be set"));
    object["spec"]["host"]["external"]["machineRef"] =
        json!({ "apiGroup": "holdfast.dev", "kind": "BareMetalMachine", "name": "b" });
    fixture.post(MACHINES, object).await.ok();
}

#[tokio::test]
async fn unknown_and_repeated_fields_are_refused_warned_of_or_ignored() {
    let fixture = start().await;
    let body = r#"{"apiVersion":"holdfast.dev/v1alpha1","kind":"Machine","metadata":{"name":"m","nope":1},
        "spec":{"foo":1,"host":{"image":"a","image":"b","external":{"provider":"p","providerID":"i","bar":{}}}}}"#;
    let send = async |validation: &str| {
        let line = format!("POST {MACHINES}?dryRun=All&fieldValidation={validation}");
        fixture.send(&line, &[("content-type", "application/json")], body).await
    };
    let strict = send("Strict").await;
    assert_eq!((strict.code, strict.body["reason"].as_str()), (400, Some("BadRequest")));
    assert_eq!(
        strict.message(),
        "Machine in version \"v1alpha1\" cannot be handled as a Machine: strict decoding error: \
         unknown field \"metadata.nope\", unknown field \"spec.foo\", unknown field \"spec.host.external.bar\", \
         duplicate field \"spec.host.image\""
    );
    let warned = send("Warn").await;
    assert_eq!(warned.warnings[1], "299 - \"unknown field \\\"spec.foo\\\"\"");
    assert_eq!(warned.warnings.len(), 4);
    let spec = warned.ok()["spec"].clone();
    assert_eq!(spec, json!({ "host": { "image": "b", "external": { "provider": "p", "providerID": "i" } } }));
    assert!(send("Ignore").await.warnings.is_empty());
    assert_eq!(send("Perhaps").await.code, 400);
}

#[tokio::test]
async fn names_labels_and_bodies_follow_the_rules_of_metadata() {
    let fixture = start().await;
    let (message, _) = refused(&fixture, MACHINES, machine("Not_A_Name")).await;
    assert!(
        message.contains("metadata.name: Invalid value: \"Not_A_Name\": a lowercase RFC 1123 subdomain must")
    );
    let mut object = machine("m");
    object["metadata"]["labels"] = json!({ "a b": "c", "ok": "-bad-" });
    let (_, causes) = refused(&fixture, MACHINES, object.clone()).await;
    assert_eq!(causes.as_array().unwrap().len(), 2);
    object["metadata"]["labels"] = json!({ "n": 3 });
    refused(&fixture, MACHINES, object).await;
    let mut other = machine("m");
    other["kind"] = json!("Provider");
    assert_eq!(fixture.post(MACHINES, other).await.code, 400);
    let mut elsewhere = json!({ "metadata": { "name": "s", "namespace": "default" } });
    assert_eq!(fixture.post(SECRETS, elsewhere.clone()).await.code, 400);
    elsewhere["metadata"]["namespace"] = json!("holdfast-system");
    fixture.post(SECRETS, elsewhere).await.ok();
}

#[tokio::test]
async fn the_type_of_a_credential_is_immutable_and_data_must_be_base64() {
    let fixture = start().await;
    let secret =
        json!({ "metadata": { "name": "s" }, "type": "holdfast.dev/credential", "stringData": { "k": "v" } });
    fixture.post(SECRETS, secret).await.ok();
    let answer = fixture.merge(&format!("{SECRETS}/s"), json!({ "type": "Opaque" })).await;
    assert_eq!(answer.code, 422);
    assert!(answer.message().contains("type: Invalid value: \"Opaque\": field is immutable"));
    let plain = json!({ "metadata": { "name": "p" }, "data": { "k": "not base64!" } });
    let answer = fixture.post(SECRETS, plain).await;
    assert_eq!(answer.code, 400);
    assert!(!answer.body.to_string().contains("not base64!"), "never a secret's bytes");
    let frozen = json!({ "metadata": { "name": "f" }, "immutable": true, "stringData": { "k": "v" } });
    fixture.post(SECRETS, frozen).await.ok();
    let answer = fixture.merge(&format!("{SECRETS}/f"), json!({ "stringData": { "k": "w" } })).await;
    assert!(answer.message().contains("field is immutable when `immutable` is set"));
}

#[tokio::test]
async fn what_is_too_large_or_too_deep_is_refused() {
    let fixture = start().await;
    let json_type = [("content-type", "application/json")];
    let answer = fixture.send(&format!("POST {MACHINES}"), &json_type, vec![b' '; (3 << 20) + 1]).await;
    assert_eq!((answer.code, answer.body["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
    let mut object = operation("o");
    object["metadata"]["annotations"] = json!({ "a": "x".repeat(300 << 10) });
    refused(&fixture, OPERATIONS, object).await;
    let mut secret = json!({ "metadata": { "name": "s" }, "data": { "k": "AAAA".repeat(300 << 10) } });
    refused(&fixture, SECRETS, secret.clone()).await;
    secret["data"]["k"] = json!("AAAA".repeat(200 << 10));
    fixture.post(SECRETS, secret).await.ok();
    let deep = format!("{}1{}", "{\"a\":".repeat(120), "}".repeat(120));
    assert_eq!(fixture.send(&format!("POST {MACHINES}"), &json_type, deep).await.code, 400);
    let deeper = "[".repeat(100_000);
    assert_eq!(fixture.send(&format!("POST {MACHINES}"), &json_type, deeper).await.code, 400);
}

#[tokio::test]
async fn no_bytes_of_a_request_make_the_server_panic() {
    let fixture = start().await;
    fixture.post(MACHINES, machine("m")).await.ok();
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "1",
        "\"x\"",
        "{}",
        "{\"metadata\":1}",
        "{\"metadata\":{\"name\":{}}}",
        "{\"metadata\":{\"labels\":[],\"name\":\"x\"}}",
        "{\"spec\":null}",
        "\u{0}\u{1}",
        "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a\"}]",
        "{\"metadata\":{\"finalizers\":[null,1]}}",
        "{\"status\":1}",
        "{\"data\":1,\"stringData\":2,\"metadata\":{\"name\":\"q\"}}",
    ];
    let types = [
        "application/json",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
    ];
    let paths = [
        "/",
        "//",
        "/api",
        "/api/v1",
        "/api/v2",
        "/apis/x",
        "/api/v1/namespaces/a/b/c/d/e",
        "/api/v1/secrets/x",
        "/api/v1/namespaces/%FF/secrets",
        "/api/v1/namespaces/%00/secrets/%2F",
        "/openapi/v3/apis/a/b",
        "/apis/holdfast.dev/v1alpha1/machines/m/scale",
    ];
    for path in paths.iter().copied().chain([
        MACHINES,
        SECRETS,
        &format!("{MACHINES}/m"),
        &format!("{MACHINES}/m/status"),
    ]) {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
            for type_ in types {
                for body in bodies {
                    let line = format!("{method} {path}?limit=1&continue=%");
                    let answer = fixture.send(&line, &[("content-type", type_)], body).await;
                    assert_ne!(answer.code, 500, "{line} {type_} {body}: {}", answer.body);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_secret_whose_data_is_no_map_is_refused_in_a_sentence_that_does_not_repeat_it() {
    let fixture = start().await;
    let odd = [json!("c4n4ry"), json!(["c4n4ry"]), json!(7), json!(true)];
    for odd in &odd {
        for (data, text, field) in
            [(odd.clone(), json!({ "k": "v" }), "data"), (json!({}), odd.clone(), "stringData")]
        {
            let object = json!({ "metadata": { "name": "s" }, "data": data, "stringData": text });
            let answer = fixture.post(SECRETS, object).await;
            assert_eq!(answer.code, 400, "{}", answer.body);
            assert!(
                answer.message().contains(&format!("{field} is not a map of strings")),
                "{}",
                answer.body
            );
            assert!(!answer.message().contains("c4n4ry"));
        }
    }
    fixture
        .post(SECRETS, json!({ "metadata": { "name": "s" }, "data": null, "stringData": { "k": "v" } }))
        .await
        .ok();
    let patch = json!({ "data": "odd", "stringData": { "k": "v" } });
    assert_eq!(fixture.merge(&format!("{SECRETS}/s"), patch).await.code, 400);
}

#[tokio::test]
async fn fields_of_a_wrong_type_are_refused_in_every_kind_and_never_end_the_connection() {
    let fixture = start().await;
    let event = "/api/v1/namespaces/default/events";
    let shown = "/apis/events.k8s.io/v1/namespaces/default/events";
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for path in [MACHINES, OPERATIONS, CREDENTIALS, SECRETS, "/api/v1/namespaces", event, shown, lease] {
        for field in ["metadata", "spec", "status", "data", "involvedObject", "regarding", "series"] {
            for odd in [json!("odd"), json!(["odd"]), json!(7), json!(true)] {
                let mut object = json!({ "metadata": { "name": "odd" } });
                object[field] = odd;
                let code = fixture.post(path, object).await.code;
                assert!((200..500).contains(&code), "{path} {field}: {code}");
            }
        }
        for field in ["labels", "annotations", "finalizers", "ownerReferences", "uid", "generation"] {
            let mut object = json!({ "metadata": { "name": "odd" } });
            object["metadata"][field] = json!("odd");
            let code = fixture.post(path, object).await.code;
            assert!((200..500).contains(&code), "{path} metadata.{field}: {code}");
        }
        for odd in [json!("odd"), json!([]), json!(7), Value::Null] {
            let code = fixture.post(path, odd).await.code;
            assert_eq!(code, 400, "{path}");
        }
    }
}

/// R2.28, and the other rules of capacity that the CRDs carry in CEL.
#[tokio::test]
async fn classes_and_allocations_are_immutable_and_a_machine_has_a_host_or_a_class() {
    const CLASSES: &str = "/apis/holdfast.dev/v1alpha1/machineclasses";
    const ALLOCATIONS: &str = "/apis/holdfast.dev/v1alpha1/machineallocations";
    let fixture = start().await;
    let class = json!({ "metadata": { "name": "c" },
        "spec": { "provider": "p", "siteName": "s", "providerConfigRef": { "name": "conf" } } });
    let allocation = json!({ "metadata": { "name": "a" }, "spec": { "classRef": { "name": "c" } } });
    let machine = json!({ "metadata": { "name": "m" }, "spec": { "classRef": { "name": "c" } } });
    for (path, object, field, value) in [
        (CLASSES, class, "siteName", json!("t")),
        (ALLOCATIONS, allocation.clone(), "machineName", json!("other")),
        (MACHINES, machine, "classRef", json!({ "name": "d" })),
    ] {
        let made = fixture.post(path, object).await;
        assert_eq!(made.code, 201, "{}", made.body);
        let mut changed = made.body.clone();
        changed["spec"][field] = value;
        let name = made.body["metadata"]["name"].as_str().unwrap();
        let answer = fixture.put(&format!("{path}/{name}"), changed).await;
        assert_eq!(answer.code, 422, "{path}: {}", answer.body);
        assert!(answer.message().contains("immutable"), "{}", answer.message());
    }
    let mut odd = allocation;
    odd["metadata"]["name"] = json!("odd");
    odd["spec"]["userData"] = json!({});
    assert!(refused(&fixture, ALLOCATIONS, odd).await.0.contains("exactly one of secretRef and template"));
    let mut release = operation("r");
    release["spec"]["operationKind"] = json!("HostRelease");
    assert!(refused(&fixture, OPERATIONS, release).await.0.contains("allocationRef belongs to"));
}
