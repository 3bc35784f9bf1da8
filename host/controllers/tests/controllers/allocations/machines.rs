//! Machines with a class, Machines of other hands, and Machines that vanish.

use holdfast_api::*;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::support::*;

async fn class_machine(world: &World, name: &str) -> Machine {
    world.machine_with(name, json!({}), json!({ "classRef": { "name": "c" } })).await
}

#[tokio::test]
async fn a_machine_with_a_class_gets_an_allocation_and_a_host_and_goes_with_both() {
    let (world, _) = World::with_class().await;
    let machine = class_machine(&world, "m").await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let allocation = world.allocations().get("m").await.unwrap();
    assert_eq!(allocation.annotations()["holdfast.dev/machine"], "m");
    assert_eq!(allocation.annotations()["holdfast.dev/machine-uid"], machine.uid().unwrap());
    assert_eq!(allocation.status.unwrap().phase, AllocationPhase::Allocated);
    let now = world.machines().get("m").await.unwrap();
    assert_eq!(now.uid(), machine.uid());
    assert_eq!(now.spec.host.external.provider_id.as_deref(), Some("fake://new"));
    assert_eq!((now.spec.host.external.provider.as_str(), now.labels()[SITE_LABEL].as_str()), ("fake", SITE));
    let written = daemon.plan.objects_written().len();
    daemon.settle(&world).await;
    assert_eq!(daemon.plan.objects_written().len(), written);

    world.machines().delete("m", &DeleteParams::default()).await.unwrap();
    daemon.settle_within(&world, 30).await;
    assert!(world.machines().get_opt("m").await.unwrap().is_none());
    assert!(world.allocations().get_opt("m").await.unwrap().is_none());
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
}

#[tokio::test]
async fn a_machine_that_is_deleted_before_it_has_a_host_goes_without_a_call() {
    let (world, _) = World::for_capacity().await;
    class_machine(&world, "m").await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    assert_eq!(world.claim("m").await.waiting.unwrap().reason, "ClassNotFound");
    world.machines().delete("m", &DeleteParams::default()).await.unwrap();
    daemon.settle(&world).await;
    assert!(world.machines().get_opt("m").await.unwrap().is_none());
    assert!(world.allocations().get_opt("m").await.unwrap().is_none());
    assert!(world.module.called().is_empty());
}

#[tokio::test]
async fn a_machine_made_for_an_allocation_takes_the_allocation_with_it() {
    let (world, _) = World::with_class().await;
    world.allocation("web", json!({ "machineName": "host-1" })).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    world.machines().delete("host-1", &DeleteParams::default()).await.unwrap();
    daemon.settle_within(&world, 30).await;
    assert!(world.machines().get_opt("host-1").await.unwrap().is_none());
    assert!(world.allocations().get_opt("web").await.unwrap().is_none());
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
}

#[tokio::test]
async fn a_deleted_allocation_of_a_machine_with_a_class_is_made_anew() {
    let (world, _) = World::with_class().await;
    class_machine(&world, "m").await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let first = world.allocations().get("m").await.unwrap().uid();
    world.delete_claim("m").await;
    daemon.settle_within(&world, 60).await;
    let second = world.allocations().get("m").await.unwrap();
    assert_ne!(second.uid(), first);
    assert_eq!(second.status.unwrap().phase, AllocationPhase::Allocated);
    assert_eq!((world.sent("make"), world.sent("drop")), (2, 1));
}

/// A Machine of other hands is never written to, and nothing is sent.
#[tokio::test]
async fn a_machine_that_has_the_name_already_is_left_alone_and_the_claim_says_so() {
    let (world, _) = World::with_class().await;
    let theirs = world.machine("web", json!({ "provider": "fake", "providerID": "fake://theirs" })).await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    let status = world.claim("web").await;
    assert_eq!(status.waiting.unwrap().reason, "MachineNotOurs");
    assert_eq!(world.machines().get("web").await.unwrap(), theirs);
    assert!(world.operation_names().await.is_empty() && world.cloud.sends() == 0);
    world.machines().delete("web", &DeleteParams::default()).await.unwrap();
    daemon.settle_within(&world, 15).await;
    assert_eq!(world.claim("web").await.phase, AllocationPhase::Allocated);
}

#[tokio::test]
async fn an_allocation_that_has_the_name_of_a_machine_with_a_class_is_left_alone() {
    let (world, _) = World::with_class().await;
    world.allocation("m", json!({ "machineName": "other" })).await;
    class_machine(&world, "m").await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let machine = world.machines().get("m").await.unwrap();
    let told = conditions::find(&machine.status.unwrap().conditions, "HasAllocation").cloned().unwrap();
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("False", "AllocationNotOurs"));
    assert_eq!(world.claim("m").await.machine_ref.unwrap().name, "other");
}

/// Who may make allocations and nothing else could move another one's machine, and release its host, by writing its uid.
#[tokio::test]
async fn an_allocation_that_bears_the_uid_of_a_machine_of_another_one_gets_neither_machine_nor_host() {
    let (world, _) = World::with_class().await;
    let machine = class_machine(&world, "m").await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let before = world.machines().get("m").await.unwrap();
    let claim = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation",
        "metadata": { "name": "claim", "annotations": { "holdfast.dev/machine-uid": machine.uid() } },
        "spec": { "classRef": { "name": "c" }, "machineName": "m" } });
    let claim = serde_json::from_value(claim).unwrap();
    world.allocations().create(&PostParams::default(), &claim).await.unwrap();
    daemon.settle_within(&world, 15).await;
    assert_eq!(world.claim("claim").await.waiting.unwrap().reason, "MachineNotOurs");
    assert_eq!(world.machines().get("m").await.unwrap(), before);
    world.delete_claim("claim").await;
    daemon.settle_within(&world, 30).await;
    assert!(world.allocations().get_opt("claim").await.unwrap().is_none());
    assert_eq!(world.claim("m").await.phase, AllocationPhase::Allocated);
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 0));
}

/// Edge case 15: a Machine whose finalizer was torn off and that was made anew is another Machine.
#[tokio::test]
async fn a_machine_made_anew_under_the_name_is_another_one_and_the_release_does_not_touch_it() {
    let (world, _) = World::with_class().await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    world.patch_any_machine("web", json!({ "metadata": { "finalizers": null } })).await;
    world.machines().delete("web", &DeleteParams::default()).await.unwrap();
    let theirs = world.machine("web", json!({ "provider": "fake", "providerID": "fake://theirs" })).await;
    daemon.settle(&world).await;
    let status = world.claim("web").await;
    assert_eq!(
        (status.phase, status.waiting.unwrap().reason.as_str()),
        (AllocationPhase::Allocated, "MachineNotOurs")
    );
    world.delete_claim("web").await;
    daemon.settle_within(&world, 30).await;
    assert!(world.allocations().get_opt("web").await.unwrap().is_none());
    assert_eq!(world.sent("drop"), 1);
    let now = world.machines().get("web").await.unwrap();
    assert_eq!((now.uid(), now.spec), (theirs.uid(), theirs.spec));
}

#[tokio::test]
async fn a_machine_that_vanished_is_made_again_with_the_hosts_identity() {
    let (world, _) = World::with_class().await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    world.patch_any_machine("web", json!({ "metadata": { "finalizers": null } })).await;
    world.machines().delete("web", &DeleteParams::default()).await.unwrap();
    daemon.settle(&world).await;
    let machine = world.machines().get("web").await.unwrap();
    assert_eq!(machine.spec.host.external.provider_id.as_deref(), Some("fake://new"));
    let status = world.claim("web").await;
    assert_eq!((status.phase, status.machine_uid), (AllocationPhase::Allocated, machine.uid()));
    assert_eq!(world.sent("make"), 1);
}

/// A Machine with a class that vanished by force, and one of its name: the earlier one's allocation is released first.
#[tokio::test]
async fn an_earlier_machines_allocation_is_released_before_a_machine_of_its_name_gets_one() {
    let (world, _) = World::with_class().await;
    class_machine(&world, "m").await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let first = world.allocations().get("m").await.unwrap().uid();
    world.patch_any_machine("m", json!({ "metadata": { "finalizers": null } })).await;
    world.machines().delete("m", &DeleteParams::default()).await.unwrap();
    let second = class_machine(&world, "m").await;
    daemon.settle_within(&world, 60).await;
    let allocation = world.allocations().get("m").await.unwrap();
    assert_ne!(allocation.uid(), first);
    assert_eq!(allocation.annotations()["holdfast.dev/machine-uid"], second.uid().unwrap());
    assert_eq!(allocation.status.unwrap().phase, AllocationPhase::Allocated);
    assert_eq!((world.sent("make"), world.sent("drop")), (2, 1));
}

#[tokio::test]
async fn a_machine_of_another_site_than_its_class_waits_for_its_label() {
    let (world, _) = World::with_class().await;
    world.machine_with("m", json!({ SITE_LABEL: "elsewhere" }), json!({ "classRef": { "name": "c" } })).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    assert_eq!(world.claim("m").await.waiting.unwrap().reason, "OtherSite");
    assert_eq!(world.cloud.sends(), 0);
    world.patch_any_machine("m", json!({ "metadata": { "labels": { SITE_LABEL: SITE } } })).await;
    daemon.settle_within(&world, 15).await;
    assert_eq!(world.claim("m").await.phase, AllocationPhase::Allocated);
    let _ = PostParams::default();
}
