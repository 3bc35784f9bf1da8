//! Allocated, powered and released, as the official client sees it.

use crate::world::{PATIENCE, World};
use holdfast_api::Phase;
use holdfast_tests::{
    counterparts::Cloudalone,
    house::{operation, settled},
};
use serde_json::json;

/// First-boot data that breaks what is careless with JSON.
const DATA: &str = "#cloud-config\nwrite_files:\n- content: \"\\\"}, \\u0000 ü {{}}\"\n";

#[tokio::test]
async fn a_server_is_allocated_as_asked_rebooted_and_released() {
    let world = World::new().await.unwrap();
    world.allocate("host-1", DATA).await.unwrap();
    let id = world.allocated("host-1").await.unwrap();

    let seen = world.only_server().await.unwrap();
    assert_eq!((seen.id.as_str(), seen.status.as_str()), (id.as_str(), "running"));
    assert_eq!(seen.server_type, Cloudalone::TYPE);
    assert_eq!(seen.image.as_deref(), Some(Cloudalone::IMAGE));
    assert!(seen.name.starts_with("hf") && seen.name.len() == 28, "the name is the token: {}", seen.name);
    assert_eq!(world.cloud.user_data(&seen.name).await.unwrap().as_deref(), Some(DATA), "byte for byte");

    let client = world.client().unwrap();
    for (name, kind, status) in [
        ("reboot", "HostReboot", "running"),
        ("off", "HostPowerOff", "off"),
        ("on", "HostPowerOn", "running"),
    ] {
        operation(&client, name, "host-1", kind, json!({})).await.unwrap();
        let ended = settled(&client, name, PATIENCE).await.unwrap();
        assert_eq!(ended.phase, Phase::Complete, "{kind}: {ended:#?}");
        assert_eq!(world.only_server().await.unwrap().status, status, "after {kind}");
    }
    let asked = |action: &str| {
        let path = format!("/v1/servers/{id}/actions/{action}");
        world.proxy.count(|record| record.is("POST", &path))
    };
    assert_eq!(
        (asked("shutdown"), asked("poweron"), asked("poweroff")),
        (2, 2, 0),
        "off and on, never by force"
    );

    world.release("host-1").await.unwrap();
    assert!(world.cloud.servers().await.unwrap().is_empty());
}
