//! The definitions as a cluster would see them.

use serde_json::{Value, json};

use super::*;

fn definitions() -> Vec<Value> {
    crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect()
}

/// Calls `visit` with every schema in a schema, and its path.
fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    if let Some(properties) = schema["properties"].as_object() {
        for (name, child) in properties {
            walk(child, &format!("{path}.{name}"), visit);
        }
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            walk(&schema[key], &format!("{path}[]"), visit);
        }
    }
}

fn every_schema(mut visit: impl FnMut(&str, &Value)) {
    for crd in definitions() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        walk(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &kind, &mut visit);
    }
}

#[test]
fn every_kind_is_cluster_scoped_has_a_status_a_short_name_and_an_age() {
    for crd in definitions() {
        let kind = &crd["spec"]["names"]["kind"];
        assert_eq!(crd["spec"]["group"], GROUP);
        assert_eq!(crd["spec"]["scope"], "Cluster", "{kind}");
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["name"], VERSION);
        assert!(version["subresources"]["status"].is_object(), "{kind}");
        assert_eq!(crd["spec"]["names"]["shortNames"].as_array().unwrap().len(), 1, "{kind}");
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        assert!(columns.iter().any(|c| c["name"] == "Age" && c["type"] == "date"), "{kind}");
    }
}

#[test]
fn every_field_has_a_description_for_kubectl_explain() {
    every_schema(|path, schema| {
        if path.contains(".metadata") || path.ends_with("[]") || !path.contains('.') {
            return;
        }
        if path.contains(".machineSelector") || path.contains(".conditions") {
            return;
        }
        assert!(schema["description"].as_str().is_some_and(|d| !d.is_empty()), "{path} says nothing");
    });
}

#[test]
fn every_schema_is_structural() {
    every_schema(|path, schema| {
        let typed = schema["type"].is_string();
        let free = schema["x-kubernetes-preserve-unknown-fields"] == json!(true);
        assert!(typed || free, "{path} has neither a type nor preserve-unknown-fields: {schema}");
        for word in ["anyOf", "oneOf", "allOf", "not", "$ref"] {
            assert!(schema.get(word).is_none(), "{path} uses {word}: {schema}");
        }
        if let Some(format) = schema["format"].as_str() {
            assert!(["int32", "int64", "date-time"].contains(&format), "{path} has format {format}");
        }
    });
}

#[test]
fn json_of_any_shape_survives_in_a_snapshot_and_in_a_reply() {
    let status = json!({
        "phase": "InProgress",
        "target": { "machineRef": { "name": "m" }, "machineUID": "u", "input": {
            "provider": "p", "site": "s", "machineGeneration": 3, "providerRef": {
                "object": { "group": "g", "version": "v1", "kind": "K", "resource": "ks", "name": "n", "uid": "u", "generation": 1 },
                "spec": { "any": [1, "two", null] }, "status": { "more": true } } },
            "attempts": 0, "resultApplied": false },
        "effects": [{ "key": "k", "call": "c", "effect": "create", "binding": "b", "fingerprint": "f", "token": "t",
            "attempts": 1, "epoch": 7, "state": "Done", "intendedAt": "2026-01-01T00:00:00Z",
            "firstIntendedAt": "2026-01-01T00:00:00Z", "settledAt": "2026-01-01T00:00:01Z", "settledBy": "Answer",
            "reply": { "status": 201, "fields": { "id": "i-1", "n": 4 } },
            "created": [{ "binding": "b", "kind": "instance", "id": "i-1" }] }]
    });
    let typed: MachineOperationStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), status);
}

#[test]
fn a_time_is_the_same_after_a_trip_through_the_store() {
    let at = now();
    let back: Time = serde_json::from_value(serde_json::to_value(&at).unwrap()).unwrap();
    assert_eq!(at, back);
}

#[test]
fn the_spec_of_an_operation_says_its_rules_in_the_definition() {
    let crd = serde_json::to_value(<MachineOperation as kube::CustomResourceExt>::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let rules = spec["x-kubernetes-validations"].as_array().unwrap();
    assert!(rules.iter().any(|r| r["message"] == "operationKind is immutable"));
    assert_eq!(spec["properties"]["cancel"]["default"], json!(false));
    assert_eq!(spec["properties"]["ttlSecondsAfterFinished"]["minimum"].as_f64(), Some(0.0));
    assert_eq!(spec["properties"]["deadlineSeconds"]["minimum"].as_f64(), Some(1.0));
    assert_eq!(spec["required"], json!(["operationKind"]));
}

#[test]
#[allow(non_snake_case)]
fn the_names_of_identities_end_in_ID() {
    let machine: MachineSpec =
        serde_json::from_value(json!({ "host": { "external": { "provider": "p", "providerID": "x" } } }))
            .unwrap();
    assert_eq!(machine.host.external.provider_id.as_deref(), Some("x"));
    let bmm: BareMetalMachineSpec = serde_json::from_value(
        json!({ "bmc": { "address": "h", "auth": "basic", "credentialsRef": { "name": "s" } }, "systemID": "1" }),
    )
    .unwrap();
    assert_eq!(bmm.bmc.auth, Some(BmcAuth::Basic));
}
