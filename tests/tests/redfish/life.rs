//! The life of the module: approved, served, replaced under what runs; each scenario with a daemon of its own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_api::{Phase, Provider, ProviderState};
use holdfast_tests::{
    bmc::{Bmc, Options, Personality, Power, ResetType, Soft},
    counterparts::Account,
    house::{Grant, House, until},
    tls::RunCa,
};
use serde_json::json;

use crate::{
    sessions::{bench, few_slots},
    world::{Bench, PATIENCE, approved, manifest, module, of, until_state, until_true},
};

pub async fn a_module_waits_for_approval_with_its_operations_and_serves_once_the_config_has_the_line()
-> Result<()> {
    let ca = RunCa::new()?;
    let bmc = Bmc::start(&ca, Options::default()).await?;
    let mut house = House::new()?;
    // Everything but the approval of the calls.
    house.grant(Grant { calls: None, ..approved(&ca)? });
    house.start().await?;
    house.drop_in("redfish.wasm", &module()?)?;
    let pending = until_state(&house.client()?, ProviderState::PendingApproval).await?;
    let status = pending.status.context("a provider without a status")?;
    let call_set = manifest()?.call_set;
    ensure!(status.call_set == call_set, "the object names the call set that is to be approved");
    let line = status.add_line.context("the object has no line to add")?;
    ensure!(line.contains(&format!("calls = \"{call_set}\"")), "the line approves it: {line}");
    ensure!(status.meaning.len() > 3, "the meaning stands there in sentences: {:?}", status.meaning);

    let account = Account { user: Options::default().user, password: Options::default().password };
    let bench = Bench::new(house.client()?, "approval", &bmc.origin(), "basic", &account).await?;
    bench.begin("on", "1", "HostPowerOn", json!({})).await?;
    let waiting = bench.until_all("waiting", |_, status| status.waiting.is_some()).await?;
    let wait = of(&waiting, "on")?.waiting.clone().context("no wait")?;
    assert_eq!(wait.reason, "ProviderNotRegistered");
    ensure!(wait.way_out.contains("approve"), "the way out is told: {}", wait.way_out);
    assert_eq!(bmc.access_counts().wrong_passwords, 0);
    assert!(bmc.ledger("1").accepted.is_empty(), "nothing is sent before the approval");

    house.grant(approved(&ca)?);
    house.write_config()?;
    until_state(&house.client()?, ProviderState::Ready).await?;
    bench.all_complete().await?;
    assert_eq!(bmc.ledger("1").accepted, [ResetType::On]);
    house.stop().await
}

pub async fn a_module_file_replaced_under_running_operations_ends_them_well_and_no_session_is_left_n08()
-> Result<()> {
    let ca = RunCa::new()?;
    let deaf = Personality { soft: Soft::Ignored, ..Personality::default() };
    let options = few_slots(2).systems(2, Power::On).personality(deaf);
    let bmc = Bmc::start(&ca, options.clone()).await?;
    let mut house = House::new()?;
    house.grant(approved(&ca)?);
    let first = module()?;
    house.drop_in("redfish.wasm", &first)?;
    house.start().await?;
    let client = house.client()?;
    let old = until_state(&client, ProviderState::Ready).await?.status.context("no status")?;
    let bench = bench(&house, "replaced", &bmc, &options).await?;
    let began = Instant::now();
    // Both are stuck in their middle: the shutdown is accepted and not obeyed.
    bench.begin("off", "1", "HostPowerOff", json!({})).await?;
    bench.begin("reboot", "2", "HostReboot", json!({})).await?;
    bench
        .until_all("in their middle", |_, status| {
            status.waiting.as_ref().is_some_and(|wait| wait.reason == "WaitingProviderOperation")
        })
        .await?;

    // Another file with the same calls: what a rebuild would be.
    house.drop_in("redfish.wasm", &with_a_note(&first))?;
    let new = until(&client, "redfish", PATIENCE, |provider: &Provider| {
        provider.status.as_ref().is_some_and(|status| status.digest != old.digest)
    })
    .await?;
    let new = new.status.context("no status")?;
    assert_eq!((new.state, &new.call_set), (ProviderState::Ready, &old.call_set));
    ensure!(new.last_refusal.is_none(), "the new file is not refused: {:?}", new.last_refusal);
    let running = bench.statuses().await?;
    ensure!(running.values().all(|status| status.phase == Phase::InProgress), "{running:#?}");

    // A broken file does not end what the good one serves.
    house.drop_in("redfish.wasm", &first[..first.len() / 2])?;
    let refused = until(&client, "redfish", PATIENCE, |provider: &Provider| {
        provider.status.as_ref().is_some_and(|status| status.last_refusal.is_some())
    })
    .await?;
    let refused = refused.status.context("no status")?;
    assert_eq!(
        (refused.state, &refused.digest),
        (ProviderState::Ready, &new.digest),
        "the good file serves on"
    );

    // The operating systems go down after all.
    for system in ["1", "2"] {
        bmc.set_power(system, Power::Off);
    }
    let all = bench.all_complete().await?;
    assert_eq!((of(&all, "off")?.effects.len(), of(&all, "reboot")?.effects.len()), (1, 2));
    let ledgers = bmc.ledgers();
    assert_eq!(ledgers["1"].accepted, [ResetType::GracefulShutdown], "not sent again by the new revision");
    assert_eq!(ledgers["2"].accepted, [ResetType::GracefulShutdown, ResetType::On]);
    assert_eq!((bmc.power("1"), bmc.power("2")), (Power::Off, Power::On));

    until_true("the old revision's session is ended", || bmc.access_counts().open_sessions <= 1).await?;
    let (counts, took) = (bmc.access_counts(), began.elapsed());
    // One more only when nobody has used one for a minute.
    let most = 2 + took.as_secs() / 60;
    assert!((2..=most).contains(&u64::from(counts.logins)), "one session per revision: {counts:?}");
    assert!(counts.most_open_sessions <= 2, "{counts:?}");
    let stopping = Instant::now();
    house.stop().await?;
    let (counts, took) = (bmc.access_counts(), stopping.elapsed());
    // Within ten seconds; what takes longer is left behind.
    if took < Duration::from_secs(10) {
        assert_eq!(counts.open_sessions, 0, "a daemon that stops in {took:?} logs out: {counts:?}");
        assert_eq!(counts.logouts, counts.logins, "every session was logged out of: {counts:?}");
    }
    Ok(())
}

/// The same component with one more custom section behind its last one: other bytes, the same code.
fn with_a_note(module: &[u8]) -> Vec<u8> {
    let (name, text) = (b"note", b"built again");
    let length = 1 + name.len() + text.len();
    let mut bytes = module.to_vec();
    bytes.extend([
        0,
        u8::try_from(length).expect("a short note"),
        u8::try_from(name.len()).expect("a short name"),
    ]);
    bytes.extend(name);
    bytes.extend(text);
    bytes
}
