//! Credentials that change or go while something is under way.

use anyhow::Result;
use holdfast_api::{AllocationPhase, MachineAllocation};
use holdfast_simulated_cloud::{AuthChange, Moment, Rule};
use holdfast_tests::house::credential_secret;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{SYSTEM, TOKEN, World};

const OTHER: &str = "another-token-of-the-capacity-tests";

#[tokio::test]
async fn a_host_is_made_once_although_its_credentials_are_rotated_in_mid_operation() -> Result<()> {
    let world = World::new().await?;
    world.class("standard", &[("image", "image-1"), ("volumes", "10")]).await?;
    world.cloud.set_faults(vec![Rule::on("POST", "/v1/servers").nth(1).holds(Moment::After)]);
    world.allocate("web-1", "standard", json!({})).await?;
    world.cloud.held(1).await;
    let change =
        AuthChange { token: Some(OTHER.to_owned()), end_others_in_ms: Some(0), ..AuthChange::default() };
    world.cloud.auth(change);
    let secrets: Api<Secret> = Api::namespaced(world.client()?, SYSTEM);
    let patch = json!({ "stringData": { "api-token": OTHER } });
    secrets.patch("cloud", &PatchParams::default(), &Patch::Merge(patch)).await?;
    world.cloud.release();
    let (status, _) = world.allocated("web-1").await?;
    assert_eq!((status.attempt, status.owned_resources.len()), (0, 2), "{status:#?}");
    world.release("web-1").await?;
    assert_eq!(world.nothing_left().await?.creates().len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_release_waits_for_credentials_that_were_deleted_and_says_how_it_goes_on() -> Result<()> {
    let world = World::new().await?;
    world.class("standard", &[("image", "image-1"), ("nics", "1")]).await?;
    world.allocate("web-1", "standard", json!({})).await?;
    world.allocated("web-1").await?;
    let secrets: Api<Secret> = Api::namespaced(world.client()?, SYSTEM);
    secrets.delete("cloud", &DeleteParams::default()).await?;
    world.delete::<MachineAllocation>("web-1").await?;
    let status = world
        .until("web-1", |status| {
            status.waiting.as_ref().is_some_and(|it| it.reason == "ProviderAuthUnavailable")
        })
        .await?;
    let waiting = status.waiting.clone().expect("it waits");
    assert!(waiting.way_out.contains("mend the ProviderCredential or its Secret"), "{waiting:?}");
    assert_eq!(status.releases, 1, "one operation waits, and is not made again and again");
    assert_eq!(status.phase, AllocationPhase::Releasing);
    assert_eq!(status.owned_resources.len(), 2, "what is owned stays on record: {status:#?}");
    let told = world.explain("machineallocation/web-1")?;
    for part in [
        "Releasing (ProviderAuthUnavailable)",
        "is being deleted",
        "there is no secret holdfast-system/cloud",
        "mend the ProviderCredential",
    ] {
        assert!(told.contains(part), "it tells `{part}`:\n{told}");
    }
    assert_eq!(world.cloud.ledger().live.len(), 1, "nothing was released behind anybody's back");

    credential_secret(&world.client()?, "cloud", "simulated", &[("api-token", TOKEN.as_bytes())]).await?;
    world.gone::<MachineAllocation>("web-1").await?;
    world.nothing_left().await?;
    Ok(())
}
