//! Two versions of a class: what was begun with one stays with it.

use anyhow::Result;
use holdfast_api::MachineClass;
use holdfast_simulated_cloud::{Moment, Rule};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::world::{PATIENCE, SYSTEM, World};
use holdfast_tests::house::until;

#[tokio::test]
async fn hosts_stay_with_the_class_that_they_were_begun_with_when_it_is_made_anew_r2_28() -> Result<()> {
    let mut world = World::new().await?;
    // The class is looked at again after half of it.
    world.cloud.behave(|behaviour| behaviour.offers_valid_s = 60);
    let first = world.class("standard", &[("image", "image-1"), ("volumes", "10")]).await?;
    world.cloud.set_faults(vec![Rule::on("POST", "/v1/servers").nth(1).holds(Moment::After)]);
    world.allocate("old", "standard", json!({})).await?;
    world.cloud.held(1).await;

    // An edit is shown, and changes nothing.
    let maps: Api<ConfigMap> = Api::namespaced(world.client()?, SYSTEM);
    let edit = json!({ "data": { "image": "image-2", "volumes": null } });
    maps.patch("standard", &PatchParams::default(), &Patch::Merge(edit)).await?;
    let class = until(&world.client()?, "standard", PATIENCE, |class: &MachineClass| {
        let conditions = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        conditions
            .iter()
            .any(|it| it.type_ == "ConfigCurrent" && it.status == "False" && it.reason == "ConfigChanged")
    })
    .await?;
    assert_eq!(class.status.unwrap_or_default().config.unwrap_or_default()["image"], "image-1");

    world.delete::<MachineClass>("standard").await?;
    world.gone::<MachineClass>("standard").await?;
    let second = world.class_of("standard").await?;
    assert_ne!(first.uid(), second.uid());
    world.allocate("new", "standard", json!({})).await?;
    let (new, new_id) = world.allocated("new").await?;
    world.cloud.release();
    let (old, old_id) = world.allocated("old").await?;
    assert_eq!((old.class_uid, new.class_uid), (first.uid(), second.uid()));
    assert_eq!((old.owned_resources.len(), new.owned_resources.len()), (2, 1), "each as its class said");
    for (name, id, image) in [("old", &old_id, "image-1"), ("new", &new_id, "image-2")] {
        assert_eq!(world.cloud.server(id).expect("it is there")["image"], json!(image));
        assert_eq!(world.machine(name).await?.spec.host.image.as_deref(), Some(image));
    }

    // What is owned is released also without any class, and after a restart.
    world.delete::<MachineClass>("standard").await?;
    world.house.kill()?;
    world.house.start().await?;
    for name in ["old", "new"] {
        world.release(name).await?;
    }
    world.nothing_left().await?;
    Ok(())
}
