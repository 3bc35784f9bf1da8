//! The table "Controller" of contract 2, section 2(f), and the edge cases of 2(e) about whose an operation is.

use holdfast_api::*;
use holdfast_controllers::{Next, Scope};
use holdfast_effects::{PollState, Returned};
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::support::modules::*;
use crate::support::*;

async fn failed_with(world: &World, name: &str, reason: &str) {
    let status = world.status(name).await;
    assert_eq!(
        (status.phase, status.reason.as_deref()),
        (Phase::Failed, Some(reason)),
        "{:?}",
        status.message
    );
    assert_eq!(condition(&status, "Completed").unwrap(), ("False".into(), reason.into()));
    assert_eq!(condition(&status, "Failed").unwrap(), ("True".into(), reason.into()));
    assert!(!status.message.unwrap_or_default().is_empty());
    assert!(status.completed_at.is_some());
}

#[tokio::test]
async fn an_operation_with_a_selector_is_left_alone() {
    let world = World::new().await;
    let spec = json!({ "machineSelector": { "matchLabels": { "a": "b" } }, "operationKind": "HostReboot" });
    world.operation_with("op", spec).await;
    assert_eq!(world.daemon().await.step("op").await, Next::Done);
    assert_eq!(world.get("op").await.status, None);
}

#[tokio::test]
async fn a_missing_machine_fails_the_operation_and_it_stays_failed() {
    let world = World::new().await;
    let spec = json!({ "machineRef": { "name": "none" }, "operationKind": "HostReboot" });
    world.operation_with("op", spec).await;
    let daemon = world.daemon().await;
    daemon.step("op").await;
    failed_with(&world, "op", "MachineNotFound").await;
    let version = world.get("op").await.resource_version();
    daemon.step("op").await;
    assert_eq!(world.get("op").await.resource_version(), version);
}

/// R2.20, edge case 19.
#[tokio::test]
async fn a_kind_of_another_executor_is_left_alone() {
    let world = World::new().await;
    world.operation("op", "NodeReboot").await;
    let spec = json!({ "machineRef": { "name": "none" }, "operationKind": "NodeReboot" });
    world.operation_with("nowhere", spec).await;
    let daemon = world.daemon().await;
    for name in ["op", "nowhere"] {
        assert_eq!(daemon.step(name).await, Next::Done);
        assert_eq!(world.get(name).await.status, None);
    }
}

/// R2.20, edge case 20.
/// Field case E12.
#[tokio::test]
async fn a_host_kind_that_the_provider_lacks_fails_visibly() {
    let world = World::new().await;
    world.operation("op", "HostReimage").await;
    world.daemon().await.step("op").await;
    failed_with(&world, "op", "UnsupportedOperation").await;
}

/// X.3: upstream ignores it silently.
#[tokio::test]
async fn a_provider_that_is_not_loaded_is_waited_for_visibly_and_a_node_operation_is_not() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.operation("node", "NodeReboot").await;
    *world.modules.module.lock().unwrap() = None;
    let daemon = world.daemon().await;
    daemon.step("op").await;
    daemon.step("node").await;
    let waiting = world.status("op").await.waiting.unwrap();
    assert_eq!(waiting.reason, "ProviderNotRegistered");
    assert!(!waiting.next_action.is_empty() && !waiting.way_out.is_empty());
    assert_eq!(world.get("node").await.status, None);
    // Its way out, and its next action.
    *world.modules.module.lock().unwrap() = Some(world.module.clone());
    world.module.say(accepted("h"));
    daemon.step("op").await;
    assert_eq!(world.module.called(), ["begin"]);
}

#[tokio::test]
async fn other_sites_and_providers_are_untouched_under_a_scope() {
    for scope in [
        Scope { site: Some("elsewhere".into()), provider: None },
        Scope { site: None, provider: Some("other".into()) },
    ] {
        let mut world = World::new().await;
        world.scope = scope;
        world.operation("op", "HostReboot").await;
        assert_eq!(world.daemon().await.step("op").await, Next::Done);
        assert_eq!(world.get("op").await.status, None);
    }
}

/// R2.13: the start is written before the call; init and InProgress are one write.
#[tokio::test]
async fn init_and_in_progress_are_one_write_outcome_and_handle_another_and_the_end_one_more() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h")).say(poll(PollState::InProgress)).say(poll(PollState::Succeeded));
    let daemon = world.daemon().await;
    for _ in 0..3 {
        daemon.step("op").await;
    }
    let status: Vec<String> =
        daemon.plan.objects_written().into_iter().filter(|w| w.contains("op/status")).collect();
    assert_eq!(status.len(), 3, "start, handle, end: {status:?}");
}

/// Steady state costs nothing.
#[tokio::test]
async fn polls_on_which_nothing_changes_write_nothing_even_if_the_message_differs() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let before = daemon.plan.objects_written().len();
    for percent in 0..10 {
        world.module.say(polled(PollState::InProgress, None, "", &format!("{percent} %")));
        world.pass(15);
        daemon.step("op").await;
    }
    assert_eq!(daemon.plan.objects_written().len(), before);
}

/// Edge case 18.
#[tokio::test]
async fn a_finished_operation_is_deleted_when_its_time_is_over_and_kept_without_a_time_of_completion() {
    let world = World::new().await;
    let spec = json!({ "machineRef": { "name": "m" }, "operationKind": "HostPowerOff", "ttlSecondsAfterFinished": 60 });
    world.operation_with("op", spec).await;
    world.module.say(executed());
    let daemon = world.daemon().await;
    assert_eq!(daemon.step("op").await, after(60));
    world.pass(59);
    assert_eq!(daemon.step("op").await, after(1));
    world.set_status("op", |s| s.completed_at = None).await;
    world.pass(600);
    assert_eq!(daemon.step("op").await, Next::Done);
    let completed = whole_seconds(world.clock_now());
    world.set_status("op", |s| s.completed_at = Some(completed)).await;
    world.pass(60);
    // While the daemon was down.
    assert_eq!(world.daemon().await.step("op").await, Next::Done);
    assert!(world.operations().get_opt("op").await.unwrap().is_none());
}

#[tokio::test]
async fn a_time_to_live_of_zero_deletes_at_once_and_none_keeps() {
    let world = World::new().await;
    let spec = json!({ "machineRef": { "name": "m" }, "operationKind": "HostPowerOff", "ttlSecondsAfterFinished": 0 });
    world.operation_with("op", spec).await;
    world.module.say(executed()).say(executed());
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert!(world.operations().get_opt("op").await.unwrap().is_none());
    world.operation("kept", "HostPowerOff").await;
    assert_eq!(daemon.step("kept").await, Next::Done);
    assert!(world.operations().get_opt("kept").await.unwrap().is_some());
}

/// R2.16, step 8 of the prologue.
#[tokio::test]
async fn a_machine_ref_of_another_kind_or_without_parts_fails_as_invalid_provider_ref() {
    let refs = [
        json!({ "apiGroup": "other.dev", "kind": "BareMetalMachine", "name": "b" }),
        json!({ "apiGroup": "holdfast.dev", "kind": "Other", "name": "b" }),
        json!({ "apiGroup": " ", "kind": "BareMetalMachine", "name": "b" }),
    ];
    for reference in refs {
        let world = World::empty().await;
        world.machine("m", json!({ "provider": "fake", "machineRef": reference })).await;
        world.operation("op", "HostReboot").await;
        world.daemon().await.step("op").await;
        failed_with(&world, "op", "InvalidProviderRef").await;
    }
    let world = World::empty().await;
    world.machine("m", json!({ "provider": "fake", "providerID": "" })).await;
    world.operation("op", "HostReboot").await;
    world.daemon().await.step("op").await;
    failed_with(&world, "op", "InvalidProviderRef").await;
}

#[tokio::test]
async fn a_host_whose_provider_is_blank_is_invalid() {
    let world = World::empty().await;
    world.machine("m", json!({ "provider": " ", "providerID": "x" })).await;
    world.operation("op", "HostReboot").await;
    world.daemon().await.step("op").await;
    failed_with(&world, "op", "InvalidHost").await;
}

/// What upstream doesn't handle once a handle exists: the kind is gone from the provider, the machine is gone.
#[tokio::test]
async fn a_revision_without_the_kind_or_the_token_version_is_waited_out_with_the_handle_kept() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.target("op").await.provider_operation.unwrap().state_version, "2");

    let mut newer = (*manifest()).clone();
    newer.provider.reads = [3].into();
    *world.module.manifest.lock().unwrap() = std::sync::Arc::new(newer);
    daemon.step("op").await;
    assert_eq!(world.status("op").await.waiting.unwrap().reason, "ResumeTokenUnreadable");

    let mut without = (*manifest()).clone();
    without.operations.remove("HostReboot");
    *world.module.manifest.lock().unwrap() = std::sync::Arc::new(without);
    daemon.step("op").await;
    assert_eq!(world.status("op").await.waiting.unwrap().reason, "OperationNotOffered");
    assert_eq!(world.module.count("poll"), 0);

    *world.module.manifest.lock().unwrap() = manifest();
    world.module.say(poll(PollState::Succeeded));
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}

/// Edge case 15, and the machine that is deleted under an accepted operation: the provider is asked to stop and
/// followed to its end with what was frozen.
#[tokio::test]
async fn a_machine_made_anew_under_the_same_name_is_another_machine() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    world.machines().delete("m", &DeleteParams::default()).await.unwrap();
    world.machine("m", json!({ "provider": "fake", "providerID": "fake://stranger" })).await;
    world
        .module
        .say(Ok(Returned::Cancel(Ok(()))))
        .say(poll(PollState::InProgress))
        .say(poll(PollState::Succeeded));
    daemon.step("op").await;
    assert_eq!(world.module.called(), ["begin", "cancel", "poll"]);
    assert!(world.requests().iter().all(|r| r.machine.provider_id.as_deref() == Some("fake://old")));
    daemon.step("op").await;
    failed_with(&world, "op", "MachineNotFound").await;
    assert_eq!(world.provider_id().await.as_deref(), Some("fake://stranger"));
}

#[tokio::test]
async fn the_request_carries_what_was_frozen_and_what_is_live() {
    let world = World::for_replace().await;
    let spec = json!({ "machineRef": { "name": "m" }, "operationKind": "HostReplace", "parameters": { "a": "b" },
        "deadlineSeconds": 3600 });
    let made = world.operation_with("op", spec).await;
    world.module.say(accepted("h")).say(poll(PollState::InProgress));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    // R2.15: later edits don't reach it.
    world.patch_machine(json!({ "spec": { "host": { "image": "img-2" } } })).await;
    daemon.step("op").await;
    let requests = world.requests();
    let request = &requests[1];
    assert_eq!(
        (request.uid.clone(), request.kind.as_str(), request.site.as_str()),
        (uid(&made), "HostReplace", SITE)
    );
    assert_eq!(request.parameters, [("a".to_owned(), "b".to_owned())]);
    assert_eq!(request.machine.host_image.as_deref(), Some("img-1"));
    assert_eq!(request.machine.generation, 1);
    assert!(requests[0].accepted_at.is_none() && request.accepted_at.is_some() && request.deadline.is_some());
}

#[tokio::test]
async fn events_tell_the_story_and_the_machine_names_its_operation_while_it_runs() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h")).say(poll(PollState::Succeeded));
    let mut daemon = world.daemon().await;
    daemon.step("op").await;
    let machine = world.machines().get("m").await.unwrap();
    assert_eq!(machine.status.unwrap().current_operation.as_deref(), Some("op"));
    daemon.step("op").await;
    let machine = world.machines().get("m").await.unwrap();
    assert_eq!(machine.status.unwrap().current_operation, None);
    daemon.controllers.flush_events().await;
    let mut reasons = world.events().await;
    reasons.sort();
    assert_eq!(reasons, ["Begun", "Started", "Succeeded"]);
}

#[tokio::test]
async fn provider_objects_follow_the_reports_and_are_not_written_twice() {
    use holdfast_controllers::rooms::ModuleReport;
    let world = World::empty().await;
    let report = |name: &str, state| ModuleReport {
        name: name.to_owned(),
        status: ProviderStatus { file: format!("{name}.wasm"), state, ..ProviderStatus::default() },
    };
    *world.modules.reports.lock().unwrap() =
        vec![report("a", ProviderState::Ready), report("b", ProviderState::PendingApproval)];
    let daemon = world.daemon().await;
    daemon.controllers.publish_providers().await.unwrap();
    let api: Api<Provider> = Api::all(world.client.clone());
    let a = api.get("a").await.unwrap();
    assert!(conditions::is_true(&a.status.unwrap().conditions, "Ready"));
    assert!(!conditions::is_true(&api.get("b").await.unwrap().status.unwrap().conditions, "Ready"));
    let written = daemon.plan.objects_written().len();
    daemon.controllers.publish_providers().await.unwrap();
    assert_eq!(daemon.plan.objects_written().len(), written, "no write without a change");
    *world.modules.reports.lock().unwrap() = vec![report("b", ProviderState::Ready)];
    daemon.controllers.publish_providers().await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
    assert!(conditions::is_true(&api.get("b").await.unwrap().status.unwrap().conditions, "Ready"));
}

/// One controller at a time: another daemon's lease shuts the fence, and nothing is written.
#[tokio::test]
async fn a_daemon_whose_lease_was_taken_over_writes_nothing_and_calls_nobody() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let mut first = world.daemon().await;
    world.pass(1);
    let second = world.daemon().await;
    assert!(!first.controllers.take_lease().await.unwrap(), "the lease is the second's");
    first.failing_step("op").await;
    assert!(world.module.called().is_empty());
    world.module.say(accepted("h"));
    second.step("op").await;
    let epoch = world.status("op").await.lease_epoch.unwrap();
    assert_eq!(epoch, 2);
}

#[tokio::test]
async fn an_operation_whose_daemon_did_not_know_yet_that_it_lost_the_lease_is_fenced_by_the_epoch() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h")).say(poll(PollState::InProgress));
    let first = world.daemon().await;
    first.step("op").await;
    world.pass(1);
    world.daemon().await.step("op").await;
    first.failing_step("op").await;
    assert_eq!(world.module.called(), ["begin", "poll"]);
}

#[tokio::test]
async fn a_terminal_operation_that_kept_its_finalizer_loses_it() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let mut operation = world.get("op").await;
    operation.finalizers_mut().push(OPERATION_FINALIZER.to_owned());
    world.operations().replace("op", &PostParams::default(), &operation).await.unwrap();
    world.set_status("op", |s| s.phase = Phase::Failed).await;
    world.daemon().await.step("op").await;
    assert!(world.get("op").await.finalizers().is_empty());
}

/// Labels come from enums and manifests only.
#[tokio::test]
async fn counters_tell_phases_by_kind_and_waits_by_reason() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    world.operation("odd", "HostWhatever").await;
    world.module.say(accepted("h")).say(poll(PollState::Succeeded));
    let mut registry = prometheus_client::registry::Registry::with_prefix("holdfast");
    let mut controllers =
        holdfast_controllers::Controllers::new(world.deps(world.client.clone()), &mut registry);
    controllers.take_lease().await.unwrap();
    controllers.refresh().await.unwrap();
    for name in ["odd", "op", "op"] {
        controllers.reconcile(name).await.unwrap();
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "holdfast_operation_phases_total{kind=\"HostReboot\",phase=\"Complete\"} 1",
        "holdfast_operation_phases_total{kind=\"other\",phase=\"Failed\"} 1",
        "holdfast_callback_duration_seconds_count{provider=\"fake\",callback=\"poll\"} 1",
        "holdfast_operation_waits_total{reason=\"WaitingProviderOperation\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("HostWhatever"));
}
