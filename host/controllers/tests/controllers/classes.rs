//! The class controller: what a provider offers is asked for in time, kept as it was said, and never launched from when
//! it is old (R2.21 to R2.23, R2.28).

use std::sync::Arc;

use holdfast_api::MachineClassStatus;
use holdfast_controllers::Next;
use holdfast_effects::{Callback, Returned};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::support::capacity::*;
use crate::support::modules::*;
use crate::support::*;

fn resolved(status: &MachineClassStatus) -> (String, String) {
    class_condition(status, "Resolved").expect("the class says whether it is resolved")
}

fn seconds(next: Next) -> u64 {
    let Next::After(after) = next else { panic!("{next:?}") };
    after.as_secs()
}

#[tokio::test]
async fn a_class_is_resolved_in_the_providers_order_with_its_configuration_frozen() {
    let (world, _) = World::with_class().await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    let status = world.class_status("c").await;
    assert_eq!(resolved(&status), ("True".into(), "Resolved".into()));
    assert_eq!(class_condition(&status, "ConfigCurrent").unwrap().0, "True");
    let names: Vec<&str> = status.offerings.iter().map(|offering| offering.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((status.available, status.message.as_deref()), (2, Some("2 of 2 offerings are available")));
    assert_eq!(status.config.unwrap()["image"], "img-1");
    assert_eq!(status.valid_until.unwrap().0, world.in_hours(2));
    assert_eq!(status.resolved_by.as_deref(), Some("fake@1"));
    let Callback::ResolveClass { request, lend } = world.module.last() else { panic!("not asked") };
    assert_eq!((request.class_name.as_str(), request.site_name.as_str()), ("c", SITE));
    assert_eq!(request.config, [("image".to_owned(), "img-1".to_owned())]);
    assert!(lend.credentials && !lend.user_data);
}

#[tokio::test]
async fn a_class_is_resolved_again_after_half_of_the_time_left_and_writes_only_what_is_new() {
    let (world, provider) = World::with_class().await;
    let daemon = world.daemon().await;
    // The ConfigMap is compared every five minutes; the provider is asked after half of two hours.
    assert_eq!(seconds(daemon.class_step("c").await), 300);
    let written = daemon.plan.objects_written().len();
    for _ in 0..10 {
        world.pass(300);
        daemon.class_step("c").await;
    }
    assert_eq!((world.module.count("resolve-class"), daemon.plan.objects_written().len()), (1, written));
    world.pass(10 * 60);
    daemon.class_step("c").await;
    assert_eq!(world.module.count("resolve-class"), 2);
    assert_eq!(daemon.plan.objects_written().len(), written, "the same answer is not written");
    provider.offers(vec![offering("a", "z1", world.in_hours(2))]);
    world.pass(60 * 60);
    daemon.class_step("c").await;
    assert_eq!(daemon.plan.objects_written().len(), written + 1);
    assert_eq!(world.class_status("c").await.available, 1);
}

#[tokio::test]
async fn a_restart_does_not_ask_again_before_it_is_time_and_another_revision_does_at_once() {
    let (world, _) = World::with_class().await;
    world.daemon().await.class_step("c").await;
    world.pass(60);
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    assert_eq!(world.module.count("resolve-class"), 1);
    *world.module.revision.lock().unwrap() = "fake@2".to_owned();
    daemon.class_step("c").await;
    assert_eq!(world.module.count("resolve-class"), 2);
    assert_eq!(world.class_status("c").await.resolved_by.as_deref(), Some("fake@2"));
}

/// R2.28.
#[tokio::test]
async fn a_later_edit_of_the_config_map_is_told_and_changes_nothing() {
    let (world, _) = World::with_class().await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    let edit = Patch::Merge(json!({ "data": { "image": "img-2" } }));
    world.config_maps().patch("conf", &PatchParams::default(), &edit).await.unwrap();
    world.pass(70 * 60);
    daemon.class_step("c").await;
    let status = world.class_status("c").await;
    assert_eq!(class_condition(&status, "ConfigCurrent"), Some(("False".into(), "ConfigChanged".into())));
    assert_eq!(status.config.unwrap()["image"], "img-1");
    let Callback::ResolveClass { request, .. } = world.module.last() else { panic!("not asked") };
    assert_eq!(request.config[0].1, "img-1");
    world.config_maps().delete("conf", &DeleteParams::default()).await.unwrap();
    daemon.class_step("c").await;
    let status = world.class_status("c").await;
    assert_eq!(class_condition(&status, "ConfigCurrent"), Some(("Unknown".into(), "ConfigMissing".into())));
    assert_eq!(resolved(&status).0, "True");
}

#[tokio::test]
async fn a_config_map_that_is_missing_or_too_large_is_waited_for_and_says_so() {
    let (world, _) = World::with_class().await;
    world.config_maps().delete("conf", &DeleteParams::default()).await.unwrap();
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    let status = world.class_status("c").await;
    assert_eq!(resolved(&status), ("False".into(), "ConfigNotFound".into()));
    let waiting = status.waiting.unwrap();
    assert!(!waiting.way_out.is_empty() && !waiting.next_action.is_empty());
    let written = daemon.plan.objects_written().len();
    daemon.class_step("c").await;
    assert_eq!(daemon.plan.objects_written().len(), written, "a wait that goes on is written once");

    world.config_map("conf", &[("big", &"x".repeat(16 * 1024))]).await;
    daemon.class_step("c").await;
    assert_eq!(resolved(&world.class_status("c").await).1, "ConfigUnfit");
    world.config_maps().delete("conf", &DeleteParams::default()).await.unwrap();
    world.config_map("conf", &[("big", &"x".repeat(16 * 1024 - 3))]).await;
    daemon.class_step("c").await;
    assert_eq!(resolved(&world.class_status("c").await).0, "True");
    assert_eq!(world.module.count("resolve-class"), 1);
}

#[tokio::test]
async fn a_permanent_error_is_an_invalid_configuration_until_another_revision_is_loaded() {
    let (world, provider) = World::with_class().await;
    let invalid = || Ok(Returned::ResolveClass(Err(refused(true, "invalid-input", "UnknownImage"))));
    world.module.say(invalid());
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    let status = world.class_status("c").await;
    assert_eq!(resolved(&status), ("False".into(), "InvalidConfig".into()));
    assert!(status.message.unwrap().contains("UnknownImage") && status.offerings.is_empty());
    for _ in 0..5 {
        world.pass(24 * 60 * 60);
        daemon.class_step("c").await;
    }
    world.daemon().await.class_step("c").await;
    assert_eq!(world.module.count("resolve-class"), 1);
    provider.offers(vec![offering("a", "z1", world.in_hours(2))]);
    *world.module.revision.lock().unwrap() = "fake@2".to_owned();
    daemon.class_step("c").await;
    assert_eq!(resolved(&world.class_status("c").await).0, "True");
}

#[tokio::test]
async fn a_transient_error_keeps_what_was_offered_until_it_expires_and_is_tried_again_later_and_later() {
    let (world, _) = World::with_class().await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    let away: Script = Arc::new(|_, _| {
        Box::pin(async { Ok(Returned::ResolveClass(Err(refused(false, "unavailable", "Away")))) })
    });
    *world.module.default.lock().unwrap() = Some(away);
    world.pass(65 * 60);
    daemon.class_step("c").await;
    let status = world.class_status("c").await;
    assert_eq!(resolved(&status).0, "True", "two offerings are good for an hour yet");
    assert_eq!(status.reason.as_deref(), Some("ResolveFailed"));
    assert_eq!(status.offerings.len(), 2);
    let first = left(&world, &status.waiting);
    world.pass(first + 1);
    daemon.class_step("c").await;
    assert!(left(&world, &world.class_status("c").await.waiting) > first);
    world.pass(60 * 60);
    daemon.class_step("c").await;
    assert_eq!(resolved(&world.class_status("c").await), ("False".into(), "ResolveFailed".into()));
}

/// R2.22: what can't be believed is not offered.
#[tokio::test]
async fn an_answer_that_is_none_is_no_resolution() {
    let (world, _) = World::with_class().await;
    let twice = offering("a", "z1", world.in_hours(1));
    let mut odd = offering("b", "z1", world.in_hours(1));
    odd.resources[0].1 = "four".to_owned();
    let mut past = offering("c", "z1", world.in_hours(1));
    past.valid_until = world.in_hours(-1).to_string();
    let daemon = world.daemon().await;
    for answer in [
        Ok(Returned::ResolveClass(Ok(vec![twice.clone(), twice]))),
        Ok(Returned::ResolveClass(Ok(vec![odd]))),
        Ok(Returned::ResolveClass(Ok(vec![past]))),
        executed(),
        trap(),
    ] {
        world.module.say(answer);
        daemon.class_step("c").await;
        let status = world.class_status("c").await;
        assert_eq!(resolved(&status), ("False".into(), "ResolveFailed".into()), "{:?}", status.message);
        assert!(status.offerings.is_empty());
        world.pass(400);
    }
    daemon.class_step("c").await;
    assert_eq!(resolved(&world.class_status("c").await).0, "True");
}

#[tokio::test]
async fn a_class_waits_for_credentials_and_for_a_provider_that_allocates() {
    let (world, _) = World::with_class().await;
    world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    let status = world.class_status("c").await;
    assert_eq!(resolved(&status).1, "ProviderAuthUnavailable");
    assert!(status.message.unwrap().contains("AuthSecretNotFound"));
    world.secret("token-secret", "fake", &[("token", b"another horse battery")]).await;
    *world.module.manifest.lock().unwrap() = manifest();
    daemon.class_step("c").await;
    assert_eq!(resolved(&world.class_status("c").await).1, "CapacityNotOffered");
    let module = world.modules.module.lock().unwrap().take();
    daemon.class_step("c").await;
    assert_eq!(resolved(&world.class_status("c").await).1, "ProviderNotRegistered");
    *world.modules.module.lock().unwrap() = module;
    *world.module.manifest.lock().unwrap() = capacity_manifest();
    daemon.class_step("c").await;
    assert_eq!(resolved(&world.class_status("c").await).0, "True");
}

/// R2.21: a class that is resolved makes nothing, whatever its provider tries.
#[tokio::test]
async fn a_provider_that_performs_while_it_resolves_is_stopped() {
    let (world, _) = World::with_class().await;
    world.module.then(Arc::new(|_, port| {
        Box::pin(async move {
            let _ = port.perform("k".into(), plain("make")).await;
            Ok(Returned::ResolveClass(Ok(Vec::new())))
        })
    }));
    world.daemon().await.class_step("c").await;
    assert_eq!(world.cloud.sends(), 0);
}

#[tokio::test]
async fn a_class_of_another_site_is_left_alone() {
    let (mut world, _) = World::with_class().await;
    world.scope.site = Some("elsewhere".to_owned());
    assert_eq!(world.daemon().await.class_step("c").await, Next::Done);
    assert!(world.classes().get("c").await.unwrap().status.is_none());
    assert!(world.module.called().is_empty());
}
