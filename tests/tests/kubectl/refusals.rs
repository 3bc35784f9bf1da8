//! What is refused, in words that name the field.

use crate::world::{operation, world};

#[test]
fn applying_a_bad_object_names_every_field_that_is_wrong() {
    let world = world();
    let apply = ["apply", "-f", "-"];
    let unknown =
        world.refused(&apply, &format!("{}  colour: red\n", operation("bad", "plain", "HostReboot", "")));
    assert!(unknown.contains("unknown field \"spec.colour\""), "an unknown field: {unknown}");

    let credential = "apiVersion: holdfast.dev/v1alpha1\nkind: ProviderCredential\nmetadata: {name: bad}\n\
                      spec: {siteName: lab, provider: other, auth: {mode: Magic}}\n";
    let wrong = world.refused(&apply, credential);
    assert!(
        wrong.contains("spec.auth.mode: Unsupported value: \"Magic\": supported values: \"WorkloadIdentity\", \"ExternalPlugin\""),
        "a wrong enum: {wrong}"
    );

    let missing = "apiVersion: holdfast.dev/v1alpha1\nkind: MachineOperation\nmetadata: {name: bad}\n\
                   spec: {machineRef: {name: plain}}\n";
    let missing = world.refused(&apply, missing);
    assert!(missing.contains("spec.operationKind: Required value"), "a missing field: {missing}");

    let several = "apiVersion: holdfast.dev/v1alpha1\nkind: MachineOperation\nmetadata: {name: Bad_Name}\n\
                   spec: {operationKind: reboot please, deadlineSeconds: 0}\n";
    let several = world.refused(&apply, several);
    for field in ["metadata.name", "spec.operationKind", "spec.deadlineSeconds"] {
        assert!(several.contains(&format!("{field}: Invalid value")), "{field} is named: {several}");
    }
    assert!(
        world
            .refused(&["get", "mop", "bad"], "")
            .contains("machineoperations.holdfast.dev \"bad\" not found")
    );
}

#[test]
fn a_replace_from_a_stale_resource_version_is_a_conflict() {
    let world = world();
    world.ok(&["create", "configmap", "contended", "--from-literal=a=1"]);
    let stale = world.ok(&["get", "cm", "contended", "-o", "json"]);
    world.ok(&["label", "cm", "contended", "moved=on"]);
    let conflict = world.refused(&["replace", "-f", "-"], &stale);
    assert!(
        conflict.contains(
            "Operation cannot be fulfilled on configmaps \"contended\": the object has been modified"
        ),
        "{conflict}"
    );
    let fresh = world.ok(&["get", "cm", "contended", "-o", "json"]);
    world.fed(&["replace", "-f", "-"], &fresh.replace("\"a\": \"1\"", "\"a\": \"2\""));
    assert_eq!(world.ok(&["get", "cm", "contended", "-o", "jsonpath={.data.a}"]), "2");
}

#[test]
fn what_is_there_is_not_made_twice_and_what_is_frozen_stays() {
    let world = world();
    let again = world.refused(&["create", "-f", "-"], &operation("first-off", "plain", "HostPowerOff", ""));
    assert!(again.contains("machineoperations.holdfast.dev \"first-off\" already exists"), "{again}");
    let patch = r#"{"spec":{"operationKind":"HostReboot"}}"#;
    let frozen = world.refused(&["patch", "mop", "first-off", "--type=merge", "-p", patch], "");
    assert!(frozen.contains("spec.operationKind: Invalid value") && frozen.contains("immutable"), "{frozen}");
    let fixed = world.refused(&["delete", "namespace", "holdfast-system"], "");
    assert!(fixed.contains("this namespace may not be deleted"), "{fixed}");
}

#[test]
fn without_the_token_nothing_is_told_and_a_wrong_one_is_401() {
    let world = world();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = world.house.https().unwrap();
    for path in
        ["/api", "/apis/holdfast.dev/v1alpha1/machines", "/api/v1/secrets", "/openapi/v3", "/no/such/path"]
    {
        let anonymous = runtime.block_on(client.clone().anonymous().get(path)).unwrap();
        assert_eq!(anonymous.status, 401, "{path} without a token");
        assert_eq!(anonymous.json()["reason"], "Unauthorized", "{path}");
        let wrong = client.clone().with_header("authorization", "Bearer not-the-token");
        let wrong = runtime.block_on(wrong.get(path)).unwrap();
        assert_eq!(wrong.status, 401, "{path} with a wrong token");
    }
    let kubeconfig = std::fs::read_to_string(world.house.kubeconfig()).unwrap();
    let token = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("token: ")).expect("a token");
    let bad = world.house.folder().join("bad.kubeconfig");
    std::fs::write(&bad, kubeconfig.replace(token, "not-the-token")).unwrap();
    let told = world.refused(&["--kubeconfig", bad.to_str().unwrap(), "get", "machines"], "");
    assert!(told.contains("You must be logged in to the server"), "{told}");
    assert_eq!(world.house.log().matches(token).count(), 0, "the token is logged nowhere");
}
