//! A module that is replaced, or taken away, while something is under way.

use anyhow::Result;
use holdfast_api::{MachineClass, Provider};
use holdfast_simulated_cloud::{Moment, Rule};
use holdfast_tests::house::until;
use holdfast_tests::modules::edited;
use serde_json::json;
use std::fs;

use crate::world::{PATIENCE, World, module};

#[tokio::test]
async fn a_host_is_made_once_although_its_module_is_replaced_in_mid_operation() -> Result<()> {
    let world = World::new().await?;
    world.class("standard", &[("image", "image-1"), ("volumes", "10")]).await?;
    let before = world.ready().await?.status.unwrap_or_default();
    world.cloud.set_faults(vec![Rule::on("POST", "/v1/servers").nth(1).holds(Moment::After)]);
    world.allocate("web-1", "standard", json!({})).await?;
    world.cloud.held(1).await;
    let mut next = module().await?;
    edited(&mut next, "the host is being made", "the next one makes it.")?;
    world.house.drop_in("simulated.wasm", &next)?;
    until(&world.client()?, "simulated", PATIENCE, |provider: &Provider| {
        provider.status.as_ref().is_some_and(|status| status.digest != before.digest)
    })
    .await?;
    world.cloud.release();
    let (status, _) = world.allocated("web-1").await?;
    assert_eq!((status.attempt, status.owned_resources.len()), (0, 2), "{status:#?}");
    let digest = world.ready().await?.status.unwrap_or_default().digest;
    until(&world.client()?, "standard", PATIENCE, |class: &MachineClass| {
        let by = class.status.as_ref().and_then(|status| status.resolved_by.clone());
        by.is_some_and(|by| !digest.is_empty() && by.contains(&digest))
    })
    .await?;
    world.release("web-1").await?;
    assert_eq!(world.nothing_left().await?.creates().len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_host_waits_for_a_module_that_was_taken_away_in_mid_operation_and_is_made_once() -> Result<()> {
    let mut world = World::new().await?;
    world.class("standard", &[("image", "image-1"), ("volumes", "10")]).await?;
    world.cloud.set_faults(vec![Rule::on("POST", "/v1/servers").nth(1).holds(Moment::After)]);
    world.allocate("web-1", "standard", json!({})).await?;
    world.cloud.held(1).await;
    world.house.kill()?;
    fs::remove_file(world.house.providers_dir().join("simulated.wasm"))?;
    world.cloud.abandon();
    world.house.start().await?;
    let out = world.operation_waits("web-1-allocate-0", "ProviderNotRegistered").await?;
    assert!(out.contains("put the provider's module into the providers folder"), "{out}");
    let told = world.explain("machineallocation/web-1")?;
    for part in ["Allocating", "ProviderNotRegistered", "in doubt: nobody knows yet what became of it"] {
        assert!(told.contains(part), "it tells `{part}`:\n{told}");
    }
    world.house.drop_in("simulated.wasm", &module().await?)?;
    let (status, _) = world.allocated("web-1").await?;
    assert_eq!((status.attempt, status.owned_resources.len()), (0, 2), "{status:#?}");
    world.release("web-1").await?;
    assert_eq!(world.nothing_left().await?.creates().len(), 1);
    Ok(())
}
