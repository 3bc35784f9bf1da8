//! Graceful never becomes forced by itself (R2.35): what the service does not offer is refused, and what the operating
//! system ignores is told, with a way out.

use anyhow::{Context, Result, ensure};
use holdfast_api::{MachineOperation, Phase};
use holdfast_tests::bmc::{Options, Personality, Power, ResetType, ResetTypesIn, Soft};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::world::{message, of, until_true, world};

pub async fn a_service_without_graceful_shutdown_is_refused_and_forced_only_when_asked_to_r2_35() -> Result<()>
{
    let world = world().await?;
    let hard = Personality::default().without(&[ResetType::GracefulShutdown]);
    let rack =
        world.bmc("offered", Options::default().systems(3, Power::On).personality(hard.clone())).await?;
    // What the service offers stands where it is not looked for: the service itself refuses.
    rack.bmc.set_personality("3", Personality { reset_types_in: ResetTypesIn::ActionInfo, ..hard });
    rack.bench.begin("off", "1", "HostPowerOff", json!({})).await?;
    rack.bench.begin("reboot", "2", "HostReboot", json!({})).await?;
    rack.bench.begin("unlisted", "3", "HostPowerOff", json!({})).await?;
    let all = rack.bench.ended().await?;
    for (name, reason, refused) in [
        ("off", "ResetTypeNotOffered", 0),
        ("reboot", "ResetTypeNotOffered", 0),
        ("unlisted", "InvalidInput", 1),
    ] {
        let status = of(&all, name)?;
        assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some(reason)), "{status:#?}");
        assert_eq!(status.effects.len(), refused, "{name}: {:#?}", status.effects);
    }
    ensure!(
        message(of(&all, "off")?).contains("does not offer GracefulShutdown"),
        "the message says what is missing: {}",
        message(of(&all, "off")?)
    );
    for (system, ledger) in rack.bmc.ledgers() {
        assert!(ledger.accepted.is_empty(), "system {system} is not touched: {ledger:?}");
        assert_eq!(rack.bmc.power(&system), Power::On);
    }

    let force = json!({ "parameters": { "force": "true" } });
    rack.bench.operate("forced", "off", "HostPowerOff", force).await?;
    let all = rack.bench.ended().await?;
    assert_eq!(of(&all, "forced")?.phase, Phase::Complete, "{}", message(of(&all, "forced")?));
    assert_eq!(rack.bmc.ledger("1").accepted, [ResetType::ForceOff]);
    Ok(())
}

pub async fn a_soft_off_that_is_ignored_is_told_and_deadline_and_cancel_end_it_unforced_n16() -> Result<()> {
    let world = world().await?;
    let deaf = Personality { soft: Soft::Ignored, ..Personality::default() };
    let rack = world.bmc("ignored", Options::default().systems(3, Power::On).personality(deaf)).await?;
    rack.bench.begin("deadline", "1", "HostPowerOff", json!({ "deadlineSeconds": 30 })).await?;
    rack.bench.begin("cancel", "2", "HostPowerOff", json!({})).await?;
    rack.bench.begin("reboot", "3", "HostReboot", json!({ "deadlineSeconds": 30 })).await?;
    until_true("polls that see it on all the same", || {
        rack.proxy.count(|record| record.is("GET", "/Systems/2")) >= 3
    })
    .await?;
    let all = rack.bench.statuses().await?;
    let status = of(&all, "cancel")?;
    let wait = status.waiting.as_ref().context("it is told that it waits")?;
    ensure!(wait.reason == "WaitingProviderOperation" && wait.way_out.contains("spec.cancel"), "{wait:?}");
    assert_eq!(message(status), "GracefulShutdown, then observed off", "for what, and by which means (N04)");
    let operations: Api<MachineOperation> = Api::all(rack.bench.client.clone());
    let cancel = Patch::Merge(json!({ "spec": { "cancel": true } }));
    operations.patch(&rack.bench.named("cancel"), &PatchParams::default(), &cancel).await?;

    let all = rack.bench.ended().await?;
    for (name, reason) in
        [("deadline", "DeadlineExceeded"), ("cancel", "Canceled"), ("reboot", "DeadlineExceeded")]
    {
        let status = of(&all, name)?;
        assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some(reason)), "{status:#?}");
        // R2.38: a timeout is no proof that the shutdown will not come.
        ensure!(
            message(status).contains("the system is on") && message(status).contains("may still"),
            "{name} says what is true of the system: {}",
            message(status)
        );
    }
    for (system, ledger) in rack.bmc.ledgers() {
        assert_eq!(ledger.accepted, [ResetType::GracefulShutdown], "system {system}: asked once, not forced");
        assert_eq!(rack.bmc.power(&system), Power::On);
    }

    // The machine is free again, and a person may decide to force it.
    let force = json!({ "parameters": { "force": "true" } });
    rack.bench.operate("forced", "cancel", "HostPowerOff", force).await?;
    let all = rack.bench.ended().await?;
    assert_eq!(of(&all, "forced")?.phase, Phase::Complete, "{}", message(of(&all, "forced")?));
    assert_eq!((rack.bmc.power("2"), rack.bmc.ledger("2").power_offs), (Power::Off, 1));
    Ok(())
}
