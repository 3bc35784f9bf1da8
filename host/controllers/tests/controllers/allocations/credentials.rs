//! Operations of allocations without credentials: they wait, unstarted, and a person or a deadline still ends them.

use holdfast_api::*;
use kube::api::DeleteParams;
use serde_json::json;

use crate::support::*;

/// An allocation whose secret went after its class was resolved.
async fn claim_without_secret(more: serde_json::Value) -> (World, Daemon) {
    let (world, _) = World::with_class().await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
    world.allocation("web", more).await;
    daemon.settle(&world).await;
    (world, daemon)
}

#[tokio::test]
async fn a_launch_without_credentials_waits_unstarted_and_is_the_one_that_goes_on_when_they_are_back() {
    let (world, daemon) = claim_without_secret(json!({})).await;
    let launch = world.status("web-allocate-0").await;
    assert_eq!((launch.phase, launch.started_at), (Phase::Pending, None), "{:?}", launch.reason);
    let waiting = launch.waiting.unwrap();
    assert_eq!(waiting.reason, "ProviderAuthUnavailable");
    assert!(waiting.way_out.contains("delete the allocation"), "{waiting:?}");
    let claim = world.claim("web").await;
    assert_eq!(claim.waiting.unwrap().reason, "ProviderAuthUnavailable", "the allocation says so itself");
    let message = claim.message.unwrap();
    assert!(message.contains("web-allocate-0") && message.contains("AuthSecretNotFound"), "{message}");
    let written = daemon.plan.objects_written().len();
    daemon.settle(&world).await;
    assert_eq!(daemon.plan.objects_written().len(), written, "a wait that goes on is written once");
    world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
    daemon.settle_within(&world, 30).await;
    assert_eq!(world.claim("web").await.phase, AllocationPhase::Allocated);
    assert_eq!(world.operation_names().await, ["web-allocate-0"]);
}

#[tokio::test]
async fn a_launch_that_waits_for_credentials_ends_at_once_with_its_allocation() {
    let (world, daemon) = claim_without_secret(json!({})).await;
    world.delete_claim("web").await;
    daemon.settle(&world).await;
    assert!(world.allocations().get_opt("web").await.unwrap().is_none());
    let launch = world.status("web-allocate-0").await;
    assert_eq!((launch.phase, launch.reason.as_deref()), (Phase::Failed, Some("Canceled")));
    assert!(world.machines().get_opt("web").await.unwrap().is_none());
    assert_eq!(world.module.count("begin-allocate"), 0);
}

#[tokio::test]
async fn a_launch_that_waits_for_credentials_is_given_up_at_the_allocations_deadline() {
    let (world, daemon) = claim_without_secret(json!({ "deadlineSeconds": 600 })).await;
    world.pass(599);
    daemon.settle(&world).await;
    assert_eq!(world.claim("web").await.phase, AllocationPhase::Allocating);
    world.pass(2);
    daemon.settle(&world).await;
    let status = world.claim("web").await;
    assert_eq!((status.phase, status.reason.as_deref()), (AllocationPhase::Failed, Some("DeadlineExceeded")));
    assert_eq!(world.operation_names().await, ["web-allocate-0"]);
}

#[tokio::test]
async fn an_operation_that_waits_for_credentials_is_cancelled_by_hand() {
    let (world, daemon) = claim_without_secret(json!({})).await;
    world.patch_operation("web-allocate-0", json!({ "spec": { "cancel": true } })).await;
    daemon.step("web-allocate-0").await;
    assert_eq!(world.status("web-allocate-0").await.reason.as_deref(), Some("Canceled"));
    daemon.settle(&world).await;
    assert_eq!(world.claim("web").await.phase, AllocationPhase::Failed);
}

/// R2.23: what waits does not launch from what is old.
#[tokio::test]
async fn a_launch_that_waits_for_credentials_until_its_offering_has_expired_launches_nothing_from_it() {
    let (world, daemon) = claim_without_secret(json!({})).await;
    world.pass(2 * 60 * 60);
    world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
    daemon.step("web-allocate-0").await;
    assert_eq!(world.status("web-allocate-0").await.reason.as_deref(), Some("OfferingExpired"));
}
