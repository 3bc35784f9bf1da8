//! Sessions at the small BMC: one for all operations, logged into with care, never left behind (N08).

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use holdfast_tests::{
    bmc::{Access, Bmc, Options, Power, ResetType, Sessions},
    counterparts::Account,
    house::House,
};
use serde_json::json;

use crate::world::{Bench, put_password, until_true, world};

/// A BMC that takes sessions only, in a table of few slots.
pub fn few_slots(systems: u32) -> Options {
    let sessions = Sessions { slots: 2, ..Sessions::default() };
    let access = Access { basic: false, sessions: Some(sessions), lockout_after: Some(2) };
    Options::default().systems(systems, Power::Off).access(access)
}

pub async fn bench(house: &House, name: &str, bmc: &Bmc, options: &Options) -> Result<Bench> {
    let account = Account { user: options.user.clone(), password: options.password.clone() };
    Bench::new(house.client()?, name, &bmc.origin(), "session", &account).await
}

pub async fn all_operations_at_a_bmc_share_one_session_in_one_of_its_slots_n08() -> Result<()> {
    let world = world().await?;
    let options = few_slots(8);
    let bmc = Bmc::start(&world.ca, options.clone()).await?;
    let bench = bench(&world.house, "sessions", &bmc, &options).await?;
    for number in 1..=8 {
        let (machine, system) = (format!("m{number}"), number.to_string());
        bench.begin(&machine, &system, "HostPowerOn", json!({})).await?;
        bench.operate(&format!("{machine}-off"), &machine, "HostPowerOff", json!({})).await?;
    }
    bench.all_complete().await?;
    let counts = bmc.access_counts();
    assert_eq!((counts.login_attempts, counts.logins), (1, 1), "16 operations log in once: {counts:?}");
    assert_eq!((counts.open_sessions, counts.most_open_sessions), (1, 1), "{counts:?}");

    // A restart of the BMC ends all sessions: one new login for all who meet it.
    bmc.end_all_sessions();
    for number in 1..=8 {
        bench.operate(&format!("m{number}-again"), &format!("m{number}"), "HostPowerOn", json!({})).await?;
    }
    bench.all_complete().await?;
    let counts = bmc.access_counts();
    assert_eq!((counts.login_attempts, counts.logins), (2, 2), "one more login for all: {counts:?}");
    assert_eq!(counts.most_open_sessions, 1, "{counts:?}");
    assert_eq!((counts.wrong_passwords, counts.lockouts, counts.logins_without_slot), (0, 0, 0));
    for (system, ledger) in bmc.ledgers() {
        assert_eq!((ledger.power_ons, ledger.power_offs), (2, 1), "system {system}");
        assert_eq!(ledger.accepted, [ResetType::On, ResetType::GracefulShutdown, ResetType::On]);
    }
    Ok(())
}

pub async fn a_login_with_a_wrong_password_is_tried_once_per_step_and_the_account_is_not_locked() -> Result<()>
{
    let world = world().await?;
    // One attempt of each operation would lock the account. By steps the sixth is more than two minutes away: enough
    // for a person who has the new password at hand.
    let mut options = few_slots(6);
    options.access.lockout_after = Some(6);
    let bmc = Bmc::start(&world.ca, options.clone()).await?;
    let wrong = Options { password: "not the password".into(), ..options.clone() };
    let bench = bench(&world.house, "login", &bmc, &wrong).await?;
    let began = Instant::now();
    for number in 1..=6 {
        bench.begin(&format!("m{number}"), &number.to_string(), "HostPowerOn", json!({})).await?;
    }
    until_true("two attempts to log in", || bmc.access_counts().login_attempts >= 2).await?;
    put_password(&bench, &options.password).await?;
    let all = bench.all_complete().await?;
    ensure!(all.len() == 6, "six operations complete: {}", all.len());
    let (counts, took) = (bmc.access_counts(), began.elapsed());
    // The first attempt, and one more after 5 s, 10 s, 20 s, ...
    let due = |attempt: &u32| Duration::from_secs(5) * (2u32.pow(*attempt) - 1);
    let steps = (0..12).take_while(|attempt| due(attempt) <= took).count();
    assert!((2..=steps).contains(&(counts.wrong_passwords as usize)), "{steps} in {took:?}: {counts:?}");
    assert_eq!(counts.login_attempts, counts.wrong_passwords + counts.logins, "{counts:?}");
    assert_eq!((counts.lockouts, counts.attempts_while_locked), (0, 0), "{counts:?}");
    // A session ends early only when nobody has used it for a minute.
    let most = 1 + took.as_secs() / 60;
    assert!((1..=most).contains(&u64::from(counts.logins)), "one session, {most} at most: {counts:?}");
    assert_eq!(counts.most_open_sessions, 1, "{counts:?}");
    for (system, ledger) in bmc.ledgers() {
        assert_eq!(ledger.accepted, [ResetType::On], "system {system}");
    }
    Ok(())
}
