//! Against the small BMC: manners that the emulator lacks, and answers that get lost. Its ledger says what it did.

use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_api::{MachineOperation, Phase};
use holdfast_tests::{
    bmc::{
        Etag, IfMatch, Location, OnAfterOff, Options, Personality, Power, ResetAnswer, ResetTarget,
        ResetType, ResetTypesIn, Soft,
    },
    proxy::{Fault, Kind},
};
use http::Method;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::world::{is_any_reset, is_reset, message, of, until_true, world};

pub async fn a_write_carries_the_tag_that_was_read_and_after_a_conflict_the_newer_one_n01() -> Result<()> {
    let world = world().await?;
    let strict = Personality { if_match: IfMatch::RequiredOnWrites, ..Personality::default() };
    let rack =
        world.bmc("tags", Options::default().systems(4, Power::Off).personality(strict.clone())).await?;
    rack.bmc.set_personality("2", Personality { etag: Etag::Weak, ..strict.clone() });
    rack.bmc.set_personality("3", Personality { etag: Etag::Absent, ..strict });
    // Somebody else changes system 4 between the read and the first write.
    rack.bmc.change_before_writes("4", 1);
    for (name, system) in [("strong", "1"), ("weak", "2"), ("absent", "3"), ("conflict", "4")] {
        rack.bench.begin(name, system, "HostPowerOn", json!({})).await?;
    }
    rack.bench.all_complete().await?;
    for (system, ledger) in rack.bmc.ledgers() {
        let refused_writes = u32::from(system == "4");
        assert_eq!((ledger.power_ons, ledger.power_offs), (1, 0), "system {system} is switched on once");
        assert_eq!(ledger.accepted, [ResetType::On], "system {system}");
        assert_eq!(ledger.conflicts, refused_writes, "writes of system {system} that did not match");
        assert_eq!(proxied(&rack, &system), 1 + refused_writes as usize, "writes of system {system}");
    }
    Ok(())
}

pub async fn a_power_change_whose_answer_was_lost_is_asked_again_and_happens_once_r2_33() -> Result<()> {
    let world = world().await?;
    let strict = Personality { if_match: IfMatch::RequiredOnWrites, ..Personality::default() };
    let rack = world.bmc("lost", Options::default().systems(3, Power::Off).personality(strict)).await?;
    for (system, kind) in [("1", Kind::DropReply), ("2", Kind::DropBefore), ("3", Kind::Unavailable)] {
        let path = format!("/redfish/v1/Systems/{system}/Actions/**");
        rack.proxy.fault(Fault::new(kind).on_method(Method::POST).on_path(&path).nth(1));
        rack.bench.begin(system, system, "HostPowerOn", json!({})).await?;
    }
    rack.bench.all_complete().await?;
    for (system, ledger) in rack.bmc.ledgers() {
        assert_eq!((ledger.power_ons, ledger.power_offs), (1, 0), "system {system} is switched on once");
        assert!(proxied(&rack, &system) >= 2, "system {system}: the lost one and its repeat");
    }
    Ok(())
}

pub async fn a_change_in_the_background_is_followed_by_its_monitor_and_judged_by_what_is_observed_n09()
-> Result<()> {
    let world = world().await?;
    let rack = world.bmc("tasks", Options::default().systems(3, Power::Off)).await?;
    // Long enough to be asked about meanwhile.
    let slow = Duration::from_secs(25);
    let task = |location, power_delay| Personality {
        reset_answer: ResetAnswer::Task(location),
        power_delay,
        ..Personality::default()
    };
    rack.bmc.set_personality("1", task(Location::Relative, slow));
    rack.bmc.set_personality("2", task(Location::Absolute, slow));
    // The third is done at once as far as the service knows, so that its monitor is gone; the system goes on running.
    rack.bmc.set_power("3", Power::On);
    rack.bmc.set_personality("3", Personality { soft: Soft::Ignored, ..task(Location::Relative, slow) });
    rack.bench.begin("relative", "1", "HostPowerOn", json!({})).await?;
    rack.bench.begin("absolute", "2", "HostPowerOn", json!({})).await?;
    rack.bench.begin("gone", "3", "HostPowerOff", json!({})).await?;

    let monitors = |status: u16| {
        rack.proxy.count(|record| {
            record.path.contains("/TaskMonitors/") && record.status.is_some_and(|it| it == status)
        })
    };
    until_true("a monitor has answered 404", || monitors(404) > 0).await?;
    let all = rack.bench.statuses().await?;
    ensure!(!of(&all, "gone")?.phase.is_terminal(), "a monitor that is gone says nothing of the system");
    // The operating system goes down after all.
    rack.bmc.set_power("3", Power::Off);
    rack.bench.all_complete().await?;
    ensure!(monitors(202) > 0, "a monitor was to be asked while the change was under way");
    let ledgers = rack.bmc.ledgers();
    assert_eq!((ledgers["1"].power_ons, ledgers["2"].power_ons), (1, 1));
    for (system, accepted) in [("1", ResetType::On), ("2", ResetType::On), ("3", ResetType::GracefulShutdown)]
    {
        assert_eq!(ledgers[system].accepted, [accepted], "system {system}");
    }
    Ok(())
}

pub async fn the_action_is_sent_where_the_service_says_that_it_is() -> Result<()> {
    let world = world().await?;
    let vendor = Personality { reset_target: ResetTarget::Vendor, ..Personality::default() };
    let rack = world.bmc("vendor", Options::default().personality(vendor)).await?;
    rack.bench.begin("reboot", "1", "HostReboot", json!({})).await?;
    let all = rack.bench.all_complete().await?;
    // A system that is off is only switched on.
    assert_eq!(of(&all, "reboot")?.effects.len(), 1);
    rack.bench
        .operate("restart", "reboot", "HostReboot", json!({ "parameters": { "restart": "PowerCycle" } }))
        .await?;
    rack.bench.all_complete().await?;

    let ledger = rack.bmc.ledger("1");
    assert_eq!((ledger.power_ons, ledger.power_offs, ledger.restarts), (1, 0, 1));
    assert_eq!(ledger.accepted, [ResetType::On, ResetType::PowerCycle]);
    let elsewhere = |path: &str| !path.ends_with("/Actions/Oem/Vendor.Reset");
    assert_eq!(rack.proxy.count(|record| record.method == "POST" && elsewhere(&record.path)), 0);
    Ok(())
}

pub async fn a_power_on_that_is_refused_for_a_while_after_power_off_is_asked_again_n06() -> Result<()> {
    let world = world().await?;
    let busy = Personality { on_after_off: OnAfterOff::RefusedTimes(1), ..Personality::default() };
    let rack = world.bmc("soon", Options::default().systems(2, Power::On).personality(busy)).await?;
    rack.bench.begin("reboot", "1", "HostReboot", json!({})).await?;
    rack.bench.begin("off", "2", "HostPowerOff", json!({})).await?;
    rack.bench.operate("on", "off", "HostPowerOn", json!({})).await?;
    rack.bench.all_complete().await?;
    for (system, ledger) in rack.bmc.ledgers() {
        assert_eq!((ledger.power_offs, ledger.power_ons), (1, 1), "system {system}");
        assert_eq!(ledger.accepted, [ResetType::GracefulShutdown, ResetType::On], "system {system}");
        assert_eq!(ledger.refused, 1, "system {system}: asked once in vain, and then once more");
    }
    Ok(())
}

pub async fn where_on_is_not_offered_force_on_stands_in_and_where_nothing_is_listed_on_is_sent_n03()
-> Result<()> {
    let world = world().await?;
    let rack = world.bmc("unlisted", Options::default().systems(2, Power::Off)).await?;
    rack.bmc.set_personality("1", Personality::default().without(&[ResetType::On]));
    rack.bmc.set_personality(
        "2",
        Personality { reset_types_in: ResetTypesIn::Nowhere, ..Personality::default() },
    );
    rack.bench.begin("force-on", "1", "HostPowerOn", json!({})).await?;
    rack.bench.begin("on", "2", "HostPowerOn", json!({})).await?;
    let all = rack.bench.all_complete().await?;
    for name in ["force-on", "on"] {
        ensure!(of(&all, name)?.effects.len() == 1, "{name}: {}", message(of(&all, name)?));
    }
    assert_eq!(rack.bmc.ledger("1").accepted, [ResetType::ForceOn]);
    assert_eq!(rack.proxy.effects(|record| is_reset(record, "2", "On")), 1);
    Ok(())
}

pub async fn a_restart_whose_answer_was_lost_is_never_repeated_and_waits_for_a_person_r2_11() -> Result<()> {
    let world = world().await?;
    let rack = world.bmc("restart", Options::default().systems(2, Power::On)).await?;
    // The first restart happens and its answer is lost; the second never gets there. The daemon can't tell them apart.
    for (system, kind) in [("1", Kind::DropReply), ("2", Kind::DropBefore)] {
        let path = format!("/redfish/v1/Systems/{system}/Actions/**");
        rack.proxy.fault(Fault::new(kind).on_method(Method::POST).on_path(&path).nth(1));
        let restart = json!({ "parameters": { "restart": "ForceRestart" } });
        rack.bench.begin(system, system, "HostReboot", restart).await?;
    }
    let all = rack.bench.ended().await?;
    for (name, status) in &all {
        assert_eq!(status.phase, Phase::OutcomeUnknown, "{name}: {status:#?}");
        assert_eq!(proxied(&rack, name), 1, "system {name}");
    }
    // A person looks, and says what happened.
    let operations: Api<MachineOperation> = Api::all(rack.bench.client.clone());
    for (name, outcome) in [("1", "TookEffect"), ("2", "DidNotHappen")] {
        let word =
            Patch::Merge(json!({ "spec": { "resolve": { "effect": "restart", "outcome": outcome } } }));
        operations.patch(&rack.bench.named(name), &PatchParams::default(), &word).await?;
    }
    rack.bench.until_all("complete", |_, status| status.phase == Phase::Complete).await?;
    for (system, ledger) in rack.bmc.ledgers() {
        assert_eq!(ledger.accepted, [ResetType::ForceRestart], "system {system} is restarted once");
    }
    Ok(())
}

/// How many resets of a system came to the proxy, whatever became of them.
fn proxied(rack: &crate::world::Rack, system: &str) -> usize {
    rack.proxy.count(|record| is_any_reset(record, system))
}
