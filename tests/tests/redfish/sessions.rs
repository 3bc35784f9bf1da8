//! Sessions at the small BMC: one for all operations, logged into with care, never left behind (N08).

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
    assert_eq!((counts.open_sessions, counts.most_open_sessions), (1, 1), "{counts:?}");
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
    // The third attempt in a row would lock the account.
    let mut options = few_slots(6);
    options.access.lockout_after = Some(3);
    let bmc = Bmc::start(&world.ca, options.clone()).await?;
    let wrong = Options { password: "not the password".into(), ..options.clone() };
    let bench = bench(&world.house, "login", &bmc, &wrong).await?;
    for number in 1..=6 {
        bench.begin(&format!("m{number}"), &number.to_string(), "HostPowerOn", json!({})).await?;
    }
    until_true("two attempts to log in", || bmc.access_counts().login_attempts >= 2).await?;
    // The third step is 10 s away: enough for a person who has the new password at hand.
    put_password(&bench, &options.password).await?;
    let all = bench.all_complete().await?;
    ensure!(all.len() == 6, "six operations complete: {}", all.len());
    let counts = bmc.access_counts();
    assert_eq!((counts.wrong_passwords, counts.login_attempts), (2, 3), "{counts:?}");
    assert_eq!((counts.lockouts, counts.attempts_while_locked, counts.logins), (0, 0, 1), "{counts:?}");
    for (system, ledger) in bmc.ledgers() {
        assert_eq!(ledger.accepted, [ResetType::On], "system {system}");
    }
    Ok(())
}
