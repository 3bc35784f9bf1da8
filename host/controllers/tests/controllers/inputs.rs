//! The table "Inputs" of contract 2, section 2(f), as far as the kinds exist here.

use holdfast_api::*;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::modules::*;
use crate::support::*;

async fn bare_metal(world: &World) -> Api<BareMetalMachine> {
    let bmm = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "BareMetalMachine", "metadata": { "name": "b" },
        "spec": { "bmc": { "address": "https://bmc.example", "credentialsRef": { "name": "bmc-1" } }, "systemID": "1" } });
    let api: Api<BareMetalMachine> = Api::all(world.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(bmm).unwrap()).await.unwrap();
    api
}

async fn referring(external: Value) -> World {
    let world = World::empty().await;
    world.credential("cred", SITE, "token-secret").await;
    world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
    world.machine("m", external).await;
    world
}

fn reference() -> Value {
    json!({ "apiGroup": "holdfast.dev", "kind": "BareMetalMachine", "name": "b" })
}

#[tokio::test]
async fn an_id_a_reference_or_both_make_a_host() {
    for external in [
        json!({ "provider": "fake", "providerID": "fake://old" }),
        json!({ "provider": "fake", "machineRef": reference() }),
        json!({ "provider": "fake", "providerID": "fake://old", "machineRef": reference() }),
    ] {
        let world = referring(external).await;
        bare_metal(&world).await;
        world.operation("op", "HostReboot").await;
        world.module.say(accepted("h"));
        world.daemon().await.step("op").await;
        assert_eq!(world.module.called(), ["begin"]);
    }
}

/// R2.15; and the reference to the BMC's secret stays with the host.
#[tokio::test]
async fn the_machine_object_is_frozen_with_uid_and_generation_and_shown_without_secret_references() {
    let world = referring(json!({ "provider": "fake", "machineRef": reference() })).await;
    let api = bare_metal(&world).await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h")).say(poll(holdfast_effects::PollState::InProgress));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let edit = json!({ "spec": { "systemID": "2" }, "metadata": { "labels": { "rack": "8" } } });
    api.patch("b", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    daemon.step("op").await;
    for request in world.requests() {
        let shown = request.machine.provider_ref.unwrap();
        assert!(!shown.object.uid.is_empty() && shown.object.generation == 1);
        assert_eq!(shown.object.resource, "baremetalmachines");
        assert!(shown.object.creation_timestamp.ends_with('Z') && shown.object.labels.is_empty());
        let spec: Value = serde_json::from_str(&shown.spec).unwrap();
        assert_eq!(spec, json!({ "bmc": { "address": "https://bmc.example" }, "systemID": "1" }));
        assert_eq!(request.machine.provider_id, None, "an empty providerID is fine with a machineRef");
    }
}

#[tokio::test]
async fn a_machine_object_that_is_not_there_fails_as_request_build_failed() {
    let world = referring(json!({ "provider": "fake", "machineRef": reference() })).await;
    world.operation("op", "HostReboot").await;
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("RequestBuildFailed"));
}

#[tokio::test]
async fn an_image_of_blanks_keeps_what_is_there_and_others_are_trimmed() {
    for (image, expected) in [(json!(" img-1\n"), Some("img-1")), (json!("  "), None), (Value::Null, None)] {
        let world = referring(json!({ "provider": "fake", "providerID": "fake://old" })).await;
        world.patch_machine(json!({ "spec": { "host": { "image": image } } })).await;
        world.operation("op", "HostReboot").await;
        world.module.say(accepted("h"));
        world.daemon().await.step("op").await;
        assert_eq!(world.requests()[0].machine.host_image.as_deref(), expected);
    }
}

#[tokio::test]
async fn first_boot_data_is_taken_whole_from_the_named_key_and_namespace() {
    let world = World::for_replace().await;
    let mut secret = k8s_openapi::api::core::v1::Secret::default();
    secret.metadata.name = Some("elsewhere".into());
    secret.metadata.labels = Some([("holdfast.dev/first-boot-data".to_owned(), "true".to_owned())].into());
    secret.string_data = Some([("seed".to_owned(), " a\nb ".to_owned())].into());
    let api: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(world.client.clone(), "default");
    api.create(&PostParams::default(), &secret).await.unwrap();
    let reference = json!({ "namespace": "default", "name": "elsewhere", "key": "seed" });
    world.patch_machine(json!({ "spec": { "userDataRef": reference } })).await;
    world.operation("op", "HostReplace").await;
    world.module.say(accepted("h"));
    world.daemon().await.step("op").await;
    assert_eq!(*world.vault.user_data_ever.lock().unwrap(), [b" a\nb ".to_vec()]);
    let stored = serde_json::to_string(&world.get("op").await).unwrap();
    assert!(!stored.contains("a\\nb"), "first-boot data is never stored: {stored}");
}
