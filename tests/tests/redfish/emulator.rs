//! Against the sushy-tools emulator, over TLS with basic authentication.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use holdfast_api::Phase;
use holdfast_tests::{
    counterparts::{Account, FakeSystem, Power, Sushy},
    proxy::{Proxy, Record},
};
use serde_json::json;

use crate::world::{
    Bench, PATIENCE, SYSTEMS, account, is_any_reset, is_reset, message, of, put_password, until_true, world,
};

/// System `number` of those that start off (or on).
fn off(number: u32) -> FakeSystem {
    FakeSystem::numbered(number, Power::Off)
}

fn on(number: u32) -> FakeSystem {
    FakeSystem::numbered(SYSTEMS / 2 + number, Power::On)
}

pub async fn off_on_and_reboot_of_many_systems_at_once_are_complete_once_the_emulator_itself_says_so_r2_34()
-> Result<()> {
    let world = world().await?;
    let sushy = world.sushy().await?;
    let proxy = Proxy::start(&sushy.origin(), sushy.ca_pem(), &world.ca).await?;
    let bench = Bench::new(world.house.client()?, "many", &proxy.origin(), "basic", &account()).await?;
    let force = json!({ "parameters": { "force": "true" } });
    // Name, system, kind, parameters, what is to reach the emulator, the power at the end.
    let work = [
        ("soft-1", on(1), "HostPowerOff", json!({}), vec!["GracefulShutdown"], Power::Off),
        ("soft-2", on(2), "HostPowerOff", json!({}), vec!["GracefulShutdown"], Power::Off),
        ("hard-1", on(3), "HostPowerOff", force.clone(), vec!["ForceOff"], Power::Off),
        ("hard-2", on(4), "HostPowerOff", force.clone(), vec!["ForceOff"], Power::Off),
        ("on-1", off(1), "HostPowerOn", json!({}), vec!["On"], Power::On),
        ("on-2", off(2), "HostPowerOn", json!({}), vec!["On"], Power::On),
        ("reboot-1", on(5), "HostReboot", json!({}), vec!["GracefulShutdown", "On"], Power::On),
        ("reboot-2", on(6), "HostReboot", force, vec!["ForceOff", "On"], Power::On),
        ("on-already", on(7), "HostPowerOn", json!({}), vec![], Power::On),
    ];
    for (name, system, kind, more, _, _) in &work {
        bench.begin(name, &system.id, kind, more.clone()).await?;
    }
    let all = bench.all_complete().await?;

    for (name, system, _, _, sent, power) in &work {
        assert_eq!(sushy.power_state(&system.id).await?, *power, "{name}: asked of the emulator itself");
        assert_eq!(of(&all, name)?.effects.len(), sent.len(), "{name}: one entry of the journal per effect");
        let resets = proxy.count(|record| is_any_reset(record, &system.id));
        assert_eq!(resets, sent.len(), "{name}: no other reset is to reach the emulator");
        for reset in sent {
            let effects = proxy.effects(|record| is_reset(record, &system.id, reset));
            assert_eq!(effects, 1, "{name}: {reset} is to take effect exactly once");
        }
    }
    let basic = |record: &Record| record.authentication.as_deref() == Some("Basic");
    assert_eq!(proxy.count(|record| !basic(record)), 0, "every request has basic authentication");
    Ok(())
}

pub async fn a_system_that_the_service_does_not_know_is_not_found_and_fails_for_good() -> Result<()> {
    let world = world().await?;
    let sushy = world.sushy().await?;
    let proxy = Proxy::start(&sushy.origin(), sushy.ca_pem(), &world.ca).await?;
    let bench = Bench::new(world.house.client()?, "unknown", &proxy.origin(), "basic", &account()).await?;
    let nobody = FakeSystem::numbered(SYSTEMS + 100, Power::Off);
    bench.begin("on", &nobody.id, "HostPowerOn", json!({})).await?;

    let all = bench.ended().await?;
    let status = of(&all, "on")?;
    assert_eq!(status.phase, Phase::Failed);
    assert_eq!(status.reason.as_deref(), Some("NotFound"), "{}", message(status));
    assert!(status.effects.is_empty(), "nothing was to be changed: {:?}", status.effects);
    let requests = proxy.records();
    assert_eq!(requests.len(), 1, "it is asked once and not again: {requests:#?}");
    Ok(())
}

pub async fn a_wrong_password_is_tried_once_per_step_by_all_operations_together_until_it_is_mended()
-> Result<()> {
    let world = world().await?;
    let sushy = world.sushy().await?;
    let proxy = Proxy::start(&sushy.origin(), sushy.ca_pem(), &world.ca).await?;
    let wrong = Account { password: "not the password".into(), ..account() };
    let bench = Bench::new(world.house.client()?, "wrong", &proxy.origin(), "basic", &wrong).await?;
    let systems: Vec<FakeSystem> = (11..=16).map(off).collect();
    for system in &systems {
        bench.begin(&system.name, &system.id, "HostPowerOn", json!({})).await?;
    }

    let refused = |record: &Record| record.status.is_some_and(|status| status == 401);
    until_true("two attempts with the wrong password", || proxy.count(refused) >= 2).await?;
    let told = |text: &str| text.contains("Unauthenticated") || text.contains("AuthenticationHeldBack");
    let held = bench
        .until_all("waiting for the credentials to be mended", |_, status| {
            status.waiting.is_some() && told(message(status))
        })
        .await?;
    // Until another makes the next attempt.
    let began = Instant::now();
    while !bench.statuses().await?.values().any(|status| message(status).starts_with("Unauthenticated: ")) {
        ensure!(began.elapsed() < PATIENCE, "who made the attempt is to say what the service said");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for (name, status) in &held {
        assert_eq!(status.phase, Phase::InProgress, "{name} waits, and has not failed");
        assert!(status.effects.is_empty(), "{name} has changed nothing");
    }

    let attempts: Vec<SystemTime> = proxy.records().iter().map(|record| record.at).collect();
    // Steps of 5 s that double. The clock that the proxy reads may be set back a little meanwhile.
    for (step, pair) in attempts.windows(2).enumerate() {
        let least = Duration::from_secs(5 << step).mul_f64(0.95);
        let gap = pair[1].duration_since(pair[0])?;
        assert!(gap >= least, "attempt {} came {gap:?} after the one before, not {least:?}", step + 2);
    }
    let answered = |record: &Record| record.status.is_some_and(|status| status != 401);
    assert_eq!(proxy.count(answered), 0, "only attempts have reached the service");

    put_password(&bench, &account().password).await?;
    let before = proxy.count(refused);
    bench.all_complete().await?;
    let after = proxy.count(refused);
    assert!(after <= before + 1, "the right password is refused by nobody: {before} then {after}");
    for system in &systems {
        assert_eq!(sushy.power_state(&system.id).await?, Power::On, "asked of the emulator itself");
        assert_eq!(proxy.effects(|record| is_reset(record, &system.id, "On")), 1, "{}", system.name);
    }
    Ok(())
}

pub async fn operations_outlive_an_emulator_that_is_killed_under_them_and_comes_back() -> Result<()> {
    let world = world().await?;
    let systems: Vec<FakeSystem> = (1..=4).map(|number| FakeSystem::numbered(number, Power::On)).collect();
    let mut sushy = Sushy::start(&world.ca, &systems, &account()).await?;
    let proxy = Proxy::start(&sushy.origin(), sushy.ca_pem(), &world.ca).await?;
    let bench = Bench::new(world.house.client()?, "killed", &proxy.origin(), "basic", &account()).await?;
    let (reboots, offs) = systems.split_at(1);
    for system in reboots {
        bench.begin(&system.name, &system.id, "HostReboot", json!({})).await?;
    }
    for system in offs {
        bench.begin(&system.name, &system.id, "HostPowerOff", json!({})).await?;
    }
    until_true("the emulator has accepted a change of each system", || {
        systems.iter().all(|system| proxy.effects(|record| is_any_reset(record, &system.id)) > 0)
    })
    .await?;
    sushy.kill()?;
    bench
        .until_all("told that the emulator does not answer, or done just before", |_, status| {
            status.phase.is_terminal() || message(status).contains("Unreachable")
        })
        .await?;
    let waiting = bench.statuses().await?.values().filter(|status| !status.phase.is_terminal()).count();
    ensure!(waiting > 0, "the emulator died under no operation");

    sushy.restart().await?;
    bench.all_complete().await?;
    for system in offs {
        assert_eq!(sushy.power_state(&system.id).await?, Power::Off, "asked of the emulator itself");
        assert_eq!(proxy.effects(|record| is_any_reset(record, &system.id)), 1, "{}", system.name);
    }
    for system in reboots {
        assert_eq!(sushy.power_state(&system.id).await?, Power::On, "asked of the emulator itself");
        for reset in ["GracefulShutdown", "On"] {
            assert_eq!(proxy.effects(|record| is_reset(record, &system.id, reset)), 1, "{reset}");
        }
    }
    Ok(())
}
