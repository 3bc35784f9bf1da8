//! Allocated, seen, explained and released.

use anyhow::Result;
use holdfast_api::{AllocationPhase, Machine, MachineAllocation, Phase, SITE_LABEL};
use holdfast_simulated_cloud::EffectKind;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use serde_json::json;

use crate::world::{SITE, SYSTEM, World, create, words};

const TEMPLATE: &str = "#cloud-config\nhostname: {{ machine.name }}.{{ values.domain }}\nplace: {{ machine.site }} \
    {{ machine.zone }} {{ machine.instanceType }}\nwrite_files:\n- content: {{ values.password | tojson }}\n\
    - content: '{{ values.password | b64encode }}'\n- {{ values.password }}";
const PASSWORD: &str = "p\"\\w\u{f6}rd {{ machine.name }}";
const BUILT: &str = "#cloud-config\nhostname: web-1.example.net\nplace: harbour zone-b small\nwrite_files:\n\
    - content: \"p\\\"\\\\w\u{f6}rd {{ machine.name }}\"\n- content: 'cCJcd8O2cmQge3sgbWFjaGluZS5uYW1lIH19'\n\
    - p\"\\w\u{f6}rd {{ machine.name }}";

async fn template(world: &World) -> Result<serde_json::Value> {
    let map = json!({ "metadata": { "name": "first-boot" }, "data": { "template": TEMPLATE } });
    create::<ConfigMap>(Api::namespaced(world.client()?, SYSTEM), map).await?;
    let secret = json!({ "metadata": { "name": "values", "labels": { "holdfast.dev/first-boot-data": "true" } },
        "stringData": { "password": PASSWORD } });
    create::<Secret>(Api::namespaced(world.client()?, SYSTEM), secret).await?;
    let values = json!([
        { "name": "domain", "value": "example.net" },
        { "name": "password", "secretRef": { "name": "values" } },
    ]);
    Ok(json!({ "template": { "configMapRef": { "name": "first-boot" }, "values": values } }))
}

#[tokio::test]
async fn a_host_is_allocated_as_asked_shown_and_explained_and_goes_with_everything_made_for_it_r2_26()
-> Result<()> {
    let world = World::new().await?;
    let config = [("image", "image-7"), ("types", "small,large"), ("volumes", "20,40"), ("nics", "1")];
    world.class("standard", &config).await?;
    let data = template(&world).await?;
    let wanted = json!({ "userData": data, "constraints": { "zones": ["zone-b"] }, "machineLabels": { "tier": "web" } });
    world.allocate("web-1", "standard", wanted).await?;
    let (status, id) = world.allocated("web-1").await?;

    let server = world.cloud.server(&id).expect("the server is there");
    assert_eq!((&server["type"], &server["zone"]), (&json!("small"), &json!("zone-b")));
    assert_eq!((&server["image"], &server["status"]), (&json!("image-7"), &json!("running")));
    assert_eq!(server["labels"]["managed-by"], json!("holdfast"));
    assert_eq!(
        world.cloud.user_data(&id).map(String::from_utf8),
        Some(Ok(BUILT.to_owned())),
        "byte for byte"
    );
    let ledger = world.cloud.ledger();
    assert_eq!((ledger.live.len(), ledger.live_parts.len()), (1, 3), "{ledger:#?}");
    let mut owned: Vec<_> = status.owned_resources.iter().map(|one| one.id.clone()).collect();
    owned.sort();
    let mut there = [ledger.live, ledger.live_parts].concat();
    there.sort();
    assert_eq!(owned, there, "what is owned is what there is");

    let machine = world.machine("web-1").await?;
    assert_eq!(machine.spec.host.external.provider_id, Some(format!("sim://{id}")));
    assert_eq!(machine.spec.host.image.as_deref(), Some("image-7"));
    let labels = machine.metadata.labels.clone().unwrap_or_default();
    assert_eq!((labels[SITE_LABEL].as_str(), labels["tier"].as_str()), (SITE, "web"));
    assert_eq!(machine.status.and_then(|status| status.allocation).as_deref(), Some("web-1"));
    shown(&world, &id)?;

    world.release("web-1").await?;
    let ledger = world.nothing_left().await?;
    assert_eq!((ledger.total(EffectKind::Create), ledger.total(EffectKind::DeleteVolume)), (1, 2));
    let release = world.operation("web-1-release-1").await?.status.unwrap_or_default();
    assert_eq!((release.phase, release.effects.len()), (Phase::Complete, 4), "{release:#?}");
    Ok(())
}

/// What a person sees of it.
fn shown(world: &World, id: &str) -> Result<()> {
    let table = world.house.kubectl_ok(&["get", "machineclass"])?;
    let lines: Vec<String> = table.lines().map(words).collect();
    assert_eq!(lines[0], "NAME PROVIDER SITE OFFERINGS RESOLVED VALID UNTIL REASON AGE", "{table}");
    assert!(lines[1].starts_with("standard simulated harbour 4 True "), "{table}");
    let until = table.split_whitespace().find_map(|word| word.parse::<Timestamp>().ok());
    assert!(until.is_some_and(|until| until > Timestamp::now()), "it says until when: {table}");
    let table = world.house.kubectl_ok(&["get", "machineallocation", "-o", "wide"])?;
    let lines: Vec<String> = table.lines().map(words).collect();
    assert_eq!(lines[0], "NAME CLASS PHASE MACHINE TYPE ZONE REASON AGE HOST MESSAGE", "{table}");
    assert!(lines[1].starts_with("web-1 standard Allocated web-1 small zone-b "), "{table}");
    assert!(lines[1].contains(id), "{table}");

    let told = world.explain("machineallocation/web-1")?;
    for part in [
        "MachineAllocation web-1 from class standard: Allocated",
        "chose offering small-zone-b: small in zone zone-b",
        "planned host web-1 as sim://planned-",
        "machine web-1",
        &format!("host {id}: small in zone zone-b"),
        "call create (create)",
        "call create-volume (create)",
        "happened, by its answer: status 201",
        &format!("made server {id}"),
        "made volume vol-1",
        "made nic nic-1",
        "OfferingChosen",
        "HostConfirmed",
    ] {
        assert!(told.contains(part), "it tells `{part}`:\n{told}");
    }
    let told = world.explain("machineclass/standard")?;
    for part in [
        "MachineClass standard of provider simulated at site harbour",
        "4 of 4 offerings available",
        "large-zone-a: large (cpu 16, memory 65536Mi) in zone zone-a, available, until ",
    ] {
        assert!(told.contains(part), "it tells `{part}`:\n{told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_machine_that_names_a_class_gets_a_host_and_takes_it_along_when_it_is_deleted() -> Result<()> {
    let world = World::new().await?;
    world.class("standard", &[("image", "image-1"), ("volumes", "10")]).await?;
    world.first_boot("first-boot", b"#cloud-config\n").await?;
    let machine = json!({
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "Machine", "metadata": { "name": "web-2" },
        "spec": { "classRef": { "name": "standard" }, "userDataRef": { "name": "first-boot" } },
    });
    create::<Machine>(Api::all(world.client()?), machine).await?;
    let (_, id) = world.allocated("web-2").await?;
    let machine = world.machine("web-2").await?;
    assert_eq!(machine.spec.host.external.provider_id, Some(format!("sim://{id}")));
    assert_eq!(machine.metadata.labels.unwrap_or_default()[SITE_LABEL], SITE);
    assert_eq!(world.cloud.user_data(&id).as_deref(), Some(&b"#cloud-config\n"[..]));
    let told = world.explain("machine/web-2")?;
    assert!(told.contains("web-2-allocate-0: HostAllocate") && told.contains(&id), "{told}");

    world.delete::<Machine>("web-2").await?;
    world.gone::<Machine>("web-2").await?;
    world.gone::<MachineAllocation>("web-2").await?;
    world.nothing_left().await?;
    Ok(())
}

#[tokio::test]
async fn an_allocation_that_is_deleted_while_its_host_is_made_leaves_nothing_r2_27() -> Result<()> {
    let world = World::new().await?;
    world.class("standard", &[("image", "image-1"), ("volumes", "10")]).await?;
    world.cloud.behave(|behaviour| behaviour.action_ms = 1_000_000);
    world.allocate("web-3", "standard", json!({})).await?;
    world
        .until("web-3", |status| {
            status.phase == AllocationPhase::Allocating && status.operation_ref.is_some()
        })
        .await?;
    // Its server never comes up by itself.
    world.operation_waits("web-3-allocate-0", "WaitingProviderOperation").await?;
    world.cloud.behave(|behaviour| behaviour.action_ms = 0);
    world.delete::<MachineAllocation>("web-3").await?;
    world.gone::<MachineAllocation>("web-3").await?;
    world.gone::<Machine>("web-3").await?;
    let ledger = world.nothing_left().await?;
    assert_eq!((ledger.total(EffectKind::Create), ledger.total(EffectKind::CreateVolume)), (1, 1));
    Ok(())
}
