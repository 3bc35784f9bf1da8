//! From the claim to the host.

use holdfast_api::*;
use holdfast_effects::Callback;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use crate::support::capacity::*;
use crate::support::*;

#[tokio::test]
async fn an_allocation_becomes_a_machine_with_a_host_and_says_where_everything_is() {
    let (world, _) = World::with_class().await;
    world.allocation("web", json!({ "machineLabels": { "role": "web" } })).await;
    let mut daemon = world.daemon().await;
    daemon.settle(&world).await;
    world.pass(15);
    daemon.settle(&world).await;
    let status = world.claim("web").await;
    assert_eq!(status.phase, AllocationPhase::Allocated, "{status:?}");
    assert_eq!(claim_condition(&status, "Allocated").unwrap().0, "True");
    assert_eq!(status.result.unwrap().provider_resource_id, "new");
    assert_eq!(status.provider_id.as_deref(), Some("fake://new"));
    assert_eq!(status.plan.unwrap().provider_id, "fake://planned-web-a");
    assert_eq!(status.config["image"], "img-1");
    assert_eq!(status.owned_resources.len(), 1);
    assert!(status.waiting.is_none() && status.allocated_at.is_some() && status.operation_ended);

    let machine = world.machines().get("web").await.unwrap();
    assert_eq!(status.machine_uid, machine.uid());
    assert_eq!(machine.spec.host.external.provider_id.as_deref(), Some("fake://new"));
    assert_eq!(machine.spec.host.image.as_deref(), Some("img-1"));
    assert_eq!(machine.labels()[SITE_LABEL], SITE);
    assert_eq!(machine.labels()["role"], "web");
    assert_eq!(machine.status.unwrap().allocation.as_deref(), Some("web"));

    let operation = world.get("web-allocate-0").await;
    assert!(operation.finalizers().is_empty(), "its end was taken over");
    assert_eq!(operation.status.unwrap().phase, Phase::Complete);
    daemon.controllers.flush_events().await;
    let events = world.events().await;
    for reason in ["OfferingChosen", "MachineMade", "AllocateBegun", "HostConfirmed"] {
        assert!(events.iter().any(|event| event == reason), "{reason} is not among {events:?}");
    }
}

/// R2.24: the Machine is there, with the planned identity, before anything is sent.
#[tokio::test]
async fn the_machine_is_made_with_the_planned_identity_before_the_host() {
    let (world, _) = World::with_class().await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    daemon.claim_step("web").await;
    assert_eq!(world.cloud.sends(), 0);
    let machine = world.machines().get("web").await.unwrap();
    assert_eq!(machine.spec.host.external.provider_id.as_deref(), Some("fake://planned-web-a"));
    let status = world.claim("web").await;
    let operation = world.get("web-allocate-0").await;
    let reference = status.operation_ref.unwrap();
    assert_eq!((reference.name.as_str(), reference.uid), ("web-allocate-0", operation.uid()));
    assert_eq!(status.waiting.unwrap().reason, "HostAllocate");
    let Callback::PlanAllocation { request } = world.module.last() else { panic!("not planned") };
    assert_eq!((request.host_name.as_str(), request.offering.name.as_str()), ("web", "a"));
}

/// Steady state: no write, no call.
/// Field cases G06 and G07.
#[tokio::test]
async fn an_idle_allocation_costs_no_write_and_no_call() {
    let (world, _) = World::with_class().await;
    for name in ["one", "two", "three"] {
        world.allocation(name, json!({})).await;
    }
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 30).await;
    assert_eq!(world.claim("three").await.phase, AllocationPhase::Allocated);
    let (written, called) = (daemon.plan.objects_written().len(), world.module.called().len());
    for _ in 0..20 {
        for name in ["one", "two", "three"] {
            daemon.claim_step(name).await;
            daemon.machine_step(name).await;
        }
    }
    assert_eq!((daemon.plan.objects_written().len(), world.module.called().len()), (written, called));
}

/// Field case E04.
#[tokio::test]
async fn a_claim_waits_for_its_class_and_says_what_for() {
    let (world, provider) = World::for_capacity().await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    let reason = |status: MachineAllocationStatus| status.waiting.map(|waiting| waiting.reason);
    daemon.claim_step("web").await;
    assert_eq!(reason(world.claim("web").await).as_deref(), Some("ClassNotFound"));
    world.class("c").await;
    daemon.claim_step("web").await;
    assert_eq!(reason(world.claim("web").await).as_deref(), Some("ClassNotResolved"));
    provider.offers(Vec::new());
    daemon.class_step("c").await;
    daemon.claim_step("web").await;
    assert_eq!(reason(world.claim("web").await).as_deref(), Some("NoOfferings"));
    let written = daemon.plan.objects_written().len();
    daemon.claim_step("web").await;
    assert_eq!(daemon.plan.objects_written().len(), written);
    assert!(world.machines().get_opt("web").await.unwrap().is_none());
}

#[tokio::test]
async fn constraints_choose_and_one_that_can_not_be_read_fails() {
    let (world, _) = World::with_class().await;
    world
        .allocation("east", json!({ "constraints": { "zones": ["z2"], "resources": { "cpu": "4000m" } } }))
        .await;
    world.allocation("huge", json!({ "constraints": { "resources": { "cpu": "10" } } })).await;
    world.allocation("odd", json!({ "constraints": { "resources": { "cpu": "four" } } })).await;
    let daemon = world.daemon().await;
    daemon.settle(&world).await;
    assert_eq!(world.claim("east").await.offering.unwrap().name, "b");
    let huge = world.claim("huge").await;
    assert_eq!(
        (huge.phase, huge.waiting.unwrap().reason.as_str()),
        (AllocationPhase::Pending, "NoOfferingFits")
    );
    assert!(huge.message.unwrap().contains("2 have too few resources"));
    let odd = world.claim("odd").await;
    assert_eq!((odd.phase, odd.reason.as_deref()), (AllocationPhase::Failed, Some("InvalidConstraints")));
}

/// R2.23; must-show 7: an expiring offering in mid-begin.
/// Field case F17.
#[tokio::test]
async fn an_offering_that_expires_before_the_launch_is_chosen_anew_and_nothing_is_sent_from_it() {
    let (world, provider) = World::with_class().await;
    world.allocation("web", json!({})).await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    daemon.claim_step("web").await;
    // The operation is there, and nobody has looked at it for hours.
    world.pass(3 * 60 * 60);
    provider.offers(vec![offering("later", "z1", world.in_hours(2))]);
    daemon.settle_within(&world, 45).await;
    let status = world.claim("web").await;
    assert_eq!(status.phase, AllocationPhase::Allocated, "{status:?}");
    assert_eq!((status.attempt, status.offering.unwrap().name.as_str()), (1, "later"));
    assert_eq!(world.status("web-allocate-0").await.reason.as_deref(), Some("OfferingExpired"));
    assert_eq!(world.sent("make"), 1);
    let machine = world.machines().get("web").await.unwrap();
    assert_eq!(machine.spec.host.external.provider_id.as_deref(), Some("fake://new"));
}

/// Must-show 7: two class versions. What is not launched goes with the new one; what is launched keeps its own.
#[tokio::test]
async fn a_class_made_anew_is_another_class_for_what_is_not_launched_and_none_for_what_is() {
    let (world, provider) = World::with_class().await;
    world.allocation("old", json!({})).await;
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let before = world.claim("old").await;
    assert_eq!(before.phase, AllocationPhase::Allocated);

    // `new` has chosen and planned, and its daemon died before the launch.
    world.allocation("new", json!({})).await;
    let plan = crate::support::faults::Plan::at(2, false);
    let dying = world.daemon_under(plan.clone()).await;
    tokio::select! { _ = dying.claim_step("new") => panic!("it should have died"), () = plan.death() => {} }
    assert!(world.claim("new").await.plan.is_some());
    assert!(world.claim("new").await.operation_ref.is_none());

    world.classes().delete("c", &DeleteParams::default()).await.unwrap();
    world.config_maps().delete("conf", &DeleteParams::default()).await.unwrap();
    world.config_map("conf", &[("image", "img-2")]).await;
    let again = world.class("c").await;
    provider.offers(vec![offering("fresh", "z3", world.in_hours(2))]);
    world.pass(1);
    let daemon = world.daemon().await;
    daemon.settle_within(&world, 15).await;
    let new = world.claim("new").await;
    assert_eq!((new.phase, new.class_uid.clone()), (AllocationPhase::Allocated, again.uid()));
    assert_eq!((new.offering.unwrap().name.as_str(), new.config["image"].as_str()), ("fresh", "img-2"));
    assert_eq!(world.claim("old").await, before);
}

#[tokio::test]
async fn a_plan_that_fails_for_ever_ends_the_claim_and_one_that_may_pass_is_asked_for_again() {
    use crate::support::modules::trap;
    use holdfast_effects::Returned;
    let (world, _) = World::with_class().await;
    let daemon = world.daemon().await;
    daemon.class_step("c").await;
    world.allocation("never", json!({})).await;
    world.module.say(Ok(Returned::PlanAllocation(Err(refused(true, "invalid-input", "NoSuchImage")))));
    daemon.claim_step("never").await;
    let status = world.claim("never").await;
    assert_eq!((status.phase, status.reason.as_deref()), (AllocationPhase::Failed, Some("NoSuchImage")));

    world.allocation("later", json!({})).await;
    world.module.say(trap());
    daemon.claim_step("later").await;
    let status = world.claim("later").await;
    assert_eq!(status.waiting.clone().unwrap().reason, "PlanFailed");
    world.pass(left(&world, &status.waiting) + 1);
    daemon.settle_within(&world, 15).await;
    assert_eq!(world.claim("later").await.phase, AllocationPhase::Allocated);

    // 2(e) 24: what is pure and traps will trap again.
    world.allocation("trap", json!({})).await;
    for _ in 0..5 {
        world.module.say(trap());
        daemon.claim_step("trap").await;
        world.pass(400);
    }
    assert_eq!(world.claim("trap").await.phase, AllocationPhase::Failed);
}
