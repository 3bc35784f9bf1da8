//! Allocated and released, as another client sees it.

use crate::world::{PATIENCE, World, instance_of};
use holdfast_api::{AllocationPhase, EffectState, MachineAllocation, MachineOperation, Phase};
use holdfast_tests::house::{operation, settled, until};
use kube::{Api, api::ListParams};
use serde_json::json;

/// First-boot data that breaks what is careless with bytes.
const DATA: &[u8] = b"#cloud-config\nwrite_files:\n- content: \"\\\"}, &=%25+ \xc3\xbc\"\n\x1f\x8b\x00\xff";

#[tokio::test]
async fn an_instance_is_allocated_as_asked_and_released_with_everything_that_came_with_it() {
    let world = World::new().await.unwrap();
    world.allocate("host-1", DATA).await.unwrap();
    let (allocation, machine) = world.allocated("host-1").await.unwrap();

    let ledger = world.ledger(&["host-1"]).await.unwrap();
    let seen = ledger.alive().next().unwrap();
    assert_eq!(instance_of(&machine).unwrap(), seen.id);
    assert_eq!((seen.instance_type.as_str(), seen.zone.as_str()), ("t3.micro", "us-east-1b"));
    assert_eq!(seen.user_data.as_deref(), Some(DATA), "byte for byte");
    assert_eq!(seen.tags["holdfast"].as_str(), Some(seen.client_token.as_str()), "the token, both ways");

    let status = allocation.status.unwrap();
    let mut owned: Vec<(&str, &str)> =
        status.owned_resources.iter().map(|one| (one.kind.as_str(), one.id.as_str())).collect();
    owned.sort_unstable();
    let expected = [
        ("instance", seen.id.as_str()),
        ("nic", seen.nics[0].as_str()),
        ("volume", seen.volumes[0].as_str()),
    ];
    assert_eq!(owned, expected);

    world.release("host-1").await.unwrap();
    world.nothing_left().await.unwrap();
    let operations = Api::<MachineOperation>::all(world.client().unwrap());
    for operation in operations.list(&ListParams::default()).await.unwrap() {
        for effect in operation.status.unwrap_or_default().effects {
            assert_eq!(effect.state, EffectState::Done, "{effect:#?}");
        }
    }
}

#[tokio::test]
async fn a_class_that_the_region_cannot_serve_says_what_it_can() {
    let world = World::new().await.unwrap();
    let class = world.class("large", &[("zones", "us-east-1a"), ("security-groups", "")]).await.unwrap();
    let offerings = class.status.unwrap().offerings;
    assert_eq!(offerings.len(), 1);
    assert_eq!((offerings[0].zone.as_deref(), offerings[0].available), (Some("us-east-1a"), true));
    assert_eq!(offerings[0].resources["memory"], "1024Mi");
}

#[tokio::test]
async fn first_boot_data_of_16_kib_reaches_the_instance_and_a_byte_more_is_told_before_anything_is_made_j01()
{
    let world = World::new().await.unwrap();
    let edge = vec![b'x'; 16_384];
    world.allocate("host-1", &edge).await.unwrap();
    world.allocated("host-1").await.unwrap();
    let ledger = world.ledger(&["host-1"]).await.unwrap();
    assert_eq!(ledger.alive().next().unwrap().user_data.as_deref(), Some(edge.as_slice()));

    world.allocate("host-2", &[b'x'; 16_385]).await.unwrap();
    let client = world.client().unwrap();
    let failed = until(&client, "host-2", PATIENCE, |allocation: &MachineAllocation| {
        allocation.status.as_ref().is_some_and(|status| status.phase == AllocationPhase::Failed)
    });
    let message = failed.await.unwrap().status.unwrap().message.unwrap_or_default();
    assert!(message.contains("16384 bytes"), "the limit is told: {message}");
    world.ledger(&["host-1"]).await.unwrap();
    for name in ["host-1", "host-2"] {
        world.release(name).await.unwrap();
    }
    world.nothing_left().await.unwrap();
}

#[tokio::test]
async fn an_instance_is_stopped_started_rebooted_and_cycled_and_stays_the_same() {
    let world = World::new().await.unwrap();
    world.allocate("host-1", b"data").await.unwrap();
    world.allocated("host-1").await.unwrap();
    let client = world.client().unwrap();
    let cycle = json!({ "parameters": { "power-cycle": "true", "force": "true" } });
    for (name, kind, more, state) in [
        ("off", "HostPowerOff", json!({}), "stopped"),
        ("on", "HostPowerOn", json!({}), "running"),
        ("reboot", "HostReboot", json!({}), "running"),
        ("cycle", "HostReboot", cycle, "running"),
    ] {
        operation(&client, name, "host-1", kind, more).await.unwrap();
        let ended = settled(&client, name, PATIENCE).await.unwrap();
        assert_eq!(ended.phase, Phase::Complete, "{name}: {ended:#?}");
        assert_eq!(world.ledger(&["host-1"]).await.unwrap().instances[0].state, state, "after {name}");
    }
    world.release("host-1").await.unwrap();
    world.nothing_left().await.unwrap();
}
