//! Offerings that expire, and offerings without capacity.

use std::time::Duration;

use anyhow::Result;
use holdfast_api::{AllocationPhase, MachineAllocation, Phase};
use holdfast_simulated_cloud::{Behaviour, Capacity, Moment, Options, Rule};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::world::{World, module};

/// For so many seconds offerings hold. One must be chosen 10 s before its end.
const HOLDS: u64 = 30;

async fn hasty() -> Result<World> {
    let behaviour = Behaviour { offers_valid_s: HOLDS, ..Behaviour::default() };
    World::with(Options { behaviour, ..Options::default() }, "info", module().await?).await
}

#[tokio::test]
async fn a_host_whose_offering_expires_in_mid_begin_is_finished_and_made_once_r2_23() -> Result<()> {
    let world = hasty().await?;
    world.class("standard", &[("image", "image-1"), ("volumes", "10")]).await?;
    world.cloud.set_faults(vec![Rule::on("POST", "/v1/servers").nth(1).holds(Moment::After)]);
    world.allocate("web-1", "standard", json!({})).await?;
    world.cloud.held(1).await;
    let chosen = world.until("web-1", |status| status.offering.is_some()).await?;
    let until = chosen.offering.expect("chosen").valid_until.0;
    // What is waited for is that time itself.
    let left = until.duration_since(Timestamp::now()).as_secs() + 2;
    tokio::time::sleep(Duration::from_secs(u64::try_from(left).unwrap_or(0))).await;
    world.cloud.release();
    let (status, _) = world.allocated("web-1").await?;
    assert_eq!(status.attempt, 0, "what was begun is finished: {status:#?}");
    assert_eq!(status.owned_resources.len(), 2, "the volume came after the offering's end: {status:#?}");
    assert!(world.journal().await?.iter().any(|it| it.call == "create-volume" && it.intended_at.0 > until));
    world.release("web-1").await?;
    assert_eq!(world.nothing_left().await?.creates().len(), 1);
    Ok(())
}

#[tokio::test]
async fn nothing_is_launched_from_an_offering_that_expired_before_anything_was_sent_r2_23() -> Result<()> {
    let mut world = hasty().await?;
    world.class("standard", &[("image", "image-1")]).await?;
    world.house.kill()?;
    world.house.env("HOLDFAST_CRASH_AT_WRITE", "after create MachineOperation/web-1-allocate-0");
    world.house.start().await?;
    world.allocate("web-1", "standard", json!({})).await?;
    world.house.until_ended().await?;
    // What is waited for is that time itself.
    tokio::time::sleep(Duration::from_secs(HOLDS + 1)).await;
    world.house.unset_env("HOLDFAST_CRASH_AT_WRITE");
    world.house.start().await?;
    let (status, _) = world.allocated("web-1").await?;
    let first = world.operation("web-1-allocate-0").await?.status.unwrap_or_default();
    assert_eq!(
        (first.phase, first.reason.as_deref()),
        (Phase::Failed, Some("OfferingExpired")),
        "{first:#?}"
    );
    assert!(first.effects.is_empty(), "{first:#?}");
    assert!(first.message.unwrap_or_default().contains("nothing was launched from it"));
    assert_eq!(status.attempt, 1, "chosen again: {status:#?}");
    world.release("web-1").await?;
    assert_eq!(world.nothing_left().await?.creates().len(), 1);
    Ok(())
}

#[tokio::test]
async fn the_next_offering_is_taken_when_a_zone_is_full_and_without_any_the_allocation_waits_r2_22()
-> Result<()> {
    let world = World::new().await?;
    world.class("standard", &[("image", "image-1"), ("types", "small"), ("volumes", "10")]).await?;
    let full = |zone: &str| Capacity { zone: Some(zone.into()), max: 0, ..Capacity::default() };
    world.cloud.behave(|behaviour| behaviour.limits.capacity = vec![full("zone-a")]);
    world.allocate("web-1", "standard", json!({})).await?;
    let (status, id) = world.allocated("web-1").await?;
    assert_eq!(world.cloud.server(&id).expect("it is there")["zone"], json!("zone-b"));
    let tried: Vec<_> = status.exhausted.iter().map(|it| (it.name.as_str(), it.zone.as_deref())).collect();
    assert_eq!((status.attempt, tried), (1, vec![("small-zone-a", Some("zone-a"))]));
    let told = world.explain("machineallocation/web-1")?;
    assert!(told.contains("offering small-zone-a in zone zone-a had no capacity at "), "{told}");

    // zone-a is remembered, zone-b is found to be full too.
    world.cloud.behave(|behaviour| behaviour.limits.capacity = vec![full("zone-a"), full("zone-b")]);
    world.allocate("web-2", "standard", json!({})).await?;
    let status = world
        .until("web-2", |status| {
            status.phase == AllocationPhase::Pending
                && status.waiting.as_ref().is_some_and(|it| it.reason == "NoOfferingAvailable")
        })
        .await?;
    let message = status.message.clone().unwrap_or_default();
    assert!(message.contains("2 had no capacity lately"), "{message}");
    let waiting = status.waiting.clone().expect("it waits");
    assert!(waiting.until.is_some() && waiting.way_out.contains("delete the allocation"), "{waiting:?}");
    assert!(status.owned_resources.is_empty(), "{status:#?}");
    let told = world.explain("machineallocation/web-2")?;
    assert!(told.contains("Pending (NoOfferingAvailable)") && told.contains(&message), "{told}");
    world.delete::<MachineAllocation>("web-2").await?;
    world.gone::<MachineAllocation>("web-2").await?;
    world.release("web-1").await?;
    assert_eq!(world.nothing_left().await?.creates().len(), 1);
    Ok(())
}
