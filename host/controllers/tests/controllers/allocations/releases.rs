//! Releases: what is recorded, all of it, and nothing else.

use holdfast_api::*;
use kube::api::DeleteParams;
use serde_json::json;

use crate::support::capacity::*;
use crate::support::modules::*;
use crate::support::*;

async fn allocated_claim() -> (World, std::sync::Arc<Service>, Daemon) {
    let (world, provider) = World::with_class().await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    assert_eq!(world.claim("web").await.phase, AllocationPhase::Allocated);
    (world, provider, daemon)
}

async fn is_gone(world: &World, name: &str) -> bool {
    world.allocations().get_opt(name).await.unwrap().is_none()
        && world.machines().get_opt(name).await.unwrap().is_none()
}

#[tokio::test]
async fn a_deleted_allocation_takes_its_host_and_its_machine_with_it() {
    let (world, _, daemon) = allocated_claim().await;
    world.delete_claim("web").await;
    daemon.settle_within(&world, 30).await;
    assert!(is_gone(&world, "web").await);
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
    let release = world.status("web-release-1").await;
    assert_eq!(release.phase, Phase::Complete);
    assert_eq!(release.target.unwrap().input.unwrap().allocation.unwrap().owned_resources.len(), 1);
    assert_eq!(world.operation_names().await, ["web-allocate-0", "web-release-1"], "the journal stays");
}

/// 2(e) 23: an empty list succeeds without calls.
/// Field case C01.
#[tokio::test]
async fn an_allocation_that_owns_nothing_is_deleted_without_a_call() {
    let (world, provider) = World::with_class().await;
    let daemon = world.daemon().await;
    world.allocation("waits", json!({ "constraints": { "zones": ["z9"] } })).await;
    provider.next_launch(Launch::Refused("internal"));
    world.allocation("failed", json!({})).await;
    daemon.settle(&world).await;
    assert_eq!(world.claim("failed").await.phase, AllocationPhase::Failed);
    for name in ["waits", "failed"] {
        world.delete_claim(name).await;
    }
    daemon.settle(&world).await;
    assert!(is_gone(&world, "waits").await && is_gone(&world, "failed").await);
    assert_eq!((world.module.count("begin-release"), world.cloud.sends()), (0, 0));
}

/// Field cases A32 and B04.
#[tokio::test]
async fn a_deletion_during_the_launch_stops_it_and_releases_what_it_made() {
    let (world, provider) = World::with_class().await;
    provider.next_launch(Launch::Endless);
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    assert_eq!(world.sent("make"), 1);
    world.delete_claim("web").await;
    daemon.claim_step("web").await;
    let status = world.claim("web").await;
    assert_eq!(
        (status.phase, status.waiting.unwrap().reason.as_str()),
        (AllocationPhase::Releasing, "Cancelling")
    );
    assert!(world.get("web-allocate-0").await.spec.cancel);
    daemon.settle_within(&world, 60).await;
    assert!(is_gone(&world, "web").await);
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
}

/// Field case B13.
#[tokio::test]
async fn a_host_that_comes_although_the_allocation_was_deleted_is_released() {
    let (world, _) = World::with_class().await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    daemon.claim_step("web").await;
    daemon.step("web-allocate-0").await;
    world.pass(15);
    daemon.step("web-allocate-0").await;
    assert_eq!(world.status("web-allocate-0").await.phase, Phase::Complete);
    world.delete_claim("web").await;
    daemon.settle_within(&world, 30).await;
    assert!(is_gone(&world, "web").await);
    assert_eq!((world.sent("make"), world.sent("drop")), (1, 1));
}

/// Field case B22.
#[tokio::test]
async fn a_release_that_fails_is_begun_again_with_what_is_left_under_a_new_name() {
    let (world, provider, daemon) = allocated_claim().await;
    provider.releases.lock().unwrap().extend(["Locked", "Locked"]);
    world.delete_claim("web").await;
    daemon.settle(&world).await;
    let status = world.claim("web").await;
    assert_eq!((status.phase, status.owned_resources.len()), (AllocationPhase::Releasing, 1));
    assert_eq!(claim_condition(&status, "Released").unwrap(), ("False".into(), "ReleaseFailed".into()));
    let waiting = status.waiting.clone().unwrap();
    assert_eq!(waiting.reason, "ReleaseFailed");
    assert!(status.message.unwrap().contains("Locked"));
    let first = left(&world, &status.waiting);
    world.pass(first + 1);
    daemon.settle(&world).await;
    let status = world.claim("web").await;
    assert!(left(&world, &status.waiting) > first, "it waits longer and longer");
    world.pass(60);
    daemon.settle_within(&world, 30).await;
    assert!(is_gone(&world, "web").await);
    assert_eq!(
        world.operation_names().await,
        ["web-allocate-0", "web-release-1", "web-release-2", "web-release-3"]
    );
    assert_eq!(world.sent("drop"), 1);
}

/// Must-show 7: credentials deleted before the release.
/// Field case C13.
#[tokio::test]
async fn a_release_without_credentials_waits_says_so_and_goes_on_when_they_are_back() {
    let (world, _, daemon) = allocated_claim().await;
    world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
    world.delete_claim("web").await;
    daemon.settle(&world).await;
    let status = world.claim("web").await;
    assert_eq!((status.phase, status.owned_resources.len()), (AllocationPhase::Releasing, 1));
    assert!(status.message.clone().unwrap().contains("AuthSecretNotFound"), "{:?}", status.message);
    let waiting = status.waiting.unwrap();
    assert_eq!(waiting.reason, "ProviderAuthUnavailable");
    assert!(waiting.way_out.contains("Secret"), "{waiting:?}");
    let release = world.status("web-release-1").await;
    assert_eq!((release.phase, release.started_at), (Phase::Pending, None), "it has not begun");
    for _ in 0..5 {
        world.pass(301);
        daemon.settle(&world).await;
    }
    world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
    daemon.settle_within(&world, 30).await;
    assert!(is_gone(&world, "web").await);
    assert_eq!(world.sent("drop"), 1);
    assert_eq!(
        world.operation_names().await,
        ["web-allocate-0", "web-release-1"],
        "one release, however long"
    );
}

/// Must-show 7: the module replaced in mid-operation, and gone before the release.
#[tokio::test]
async fn another_revision_goes_on_with_a_launch_and_a_provider_that_is_gone_is_waited_for() {
    let (world, _) = World::with_class().await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    assert_eq!(world.module.count("begin-allocate"), 1);
    *world.module.revision.lock().unwrap() = "fake@2".to_owned();
    daemon.settle_within(&world, 15).await;
    assert_eq!(world.claim("web").await.phase, AllocationPhase::Allocated);
    assert_eq!(world.module.count("begin-allocate"), 1);
    let module = world.modules.module.lock().unwrap().take();
    world.delete_claim("web").await;
    daemon.settle(&world).await;
    assert_eq!(world.status("web-release-1").await.waiting.unwrap().reason, "ProviderNotRegistered");
    *world.modules.module.lock().unwrap() = module;
    world.pass(300);
    daemon.settle_within(&world, 30).await;
    assert!(is_gone(&world, "web").await);
}

/// R2.26: a record that was tampered with destroys nothing foreign; what is foreign to the record is not reached.
/// Field case F13.
#[tokio::test]
async fn only_what_is_recorded_is_released_and_a_class_that_is_gone_does_not_matter() {
    let (world, _, daemon) = allocated_claim().await;
    world.classes().delete("c", &DeleteParams::default()).await.unwrap();
    world.config_maps().delete("conf", &DeleteParams::default()).await.unwrap();
    // A provider that tries more than it was given.
    let greedy: Script = std::sync::Arc::new(|callback, port| {
        Box::pin(async move {
            match callback {
                holdfast_effects::Callback::BeginRelease { .. } => {
                    let foreign = port.perform("f".into(), on("drop", "foreign")).await;
                    assert!(foreign.is_err(), "{foreign:?}");
                    release_begun("r")
                }
                _ => release_polled(holdfast_effects::PollState::Succeeded, "", ""),
            }
        })
    });
    *world.module.default.lock().unwrap() = Some(greedy);
    world.delete_claim("web").await;
    daemon.settle_within(&world, 30).await;
    assert_eq!(world.sent("drop"), 0);
    let status = world.claim("web").await;
    assert_eq!((status.phase, status.owned_resources.len()), (AllocationPhase::Releasing, 1), "{status:?}");
}

/// What a later operation on the machine has made for it goes with it.
#[tokio::test]
async fn resources_that_the_machine_owns_are_released_with_the_allocation() {
    let (world, _, daemon) = allocated_claim().await;
    let mut machine = world.machines().get("web").await.unwrap();
    let mut more = world.claim("web").await.owned_resources[0].clone();
    more.id = "disk".to_owned();
    machine.status.get_or_insert_default().owned_resources.push(more);
    world.machines().replace_status("web", &Default::default(), &machine).await.unwrap();
    world.delete_claim("web").await;
    daemon.settle_within(&world, 30).await;
    assert!(is_gone(&world, "web").await);
    assert_eq!(world.sent("drop"), 2);
}

/// Attack A9: an operator points the binding to another region. What the service there does not have is not released.
#[tokio::test]
async fn a_binding_that_points_elsewhere_releases_nothing_until_it_is_set_back_attack_a9() {
    const EU: &str = "https://api.example/?region=eu";
    const US: &str = "https://api.example/?region=us";
    let (world, _) = World::with_class().await;
    world.cloud.points_to(EU);
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let made = world.claim("web").await.owned_resources;
    assert!(!made.is_empty() && made.iter().all(|one| one.place.as_deref() == Some(EU)), "{made:?}");
    world.cloud.points_to(US);
    let sends = world.cloud.sends();
    world.delete_claim("web").await;
    for _ in 0..40 {
        daemon.settle(&world).await;
        world.pass(600);
    }
    assert_eq!(world.cloud.sends(), sends, "nothing is asked and nothing is sent");
    assert_eq!(world.claim("web").await.owned_resources, made);
    let release = world.status("web-release-1").await;
    assert!(!release.phase.is_terminal(), "it waits, however often it has tried: {:?}", release.message);
    let message = release.message.unwrap();
    for part in ["MadeElsewhere", EU, US, "[[provider.endpoint]] `api`"] {
        assert!(message.contains(part), "{message}");
    }
    world.cloud.points_to(EU);
    world.pass(600);
    daemon.settle_within(&world, 30).await;
    assert!(is_gone(&world, "web").await);
    assert_eq!(world.sent("drop"), 1);
}
