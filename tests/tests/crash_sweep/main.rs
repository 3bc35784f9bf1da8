//! The crash sweep: the daemon is killed at every durable write and at every HTTP boundary of every kind of operation,
//! over the providers, and started again. Each effect happens exactly once, and every operation ends (R2.9 to R2.13).
//!
//! Effects are counted outside the daemon: by the ledgers of the simulated cloud and of a BMC of our own, by
//! recording proxies before them and before the sushy-tools emulator, and by what the EC2 emulator answers to boto3. `docs/testing.md` says what a point is. What a
//! sweep covered is printed, and is to be exactly what an undisturbed run showed, by name.
//!
//! # A further kind of operation
//!
//! It is a row in the table of its service (`simulated::ROWS`, `redfish::AT_BMC`): a [`scenario::Scenario`] with what
//! sets it going and what its service must find done, once. Both engines, [`writes`] and [`exchanges`], take their
//! points from an undisturbed run of the row; nothing else is to be written down. What is set going by another object
//! than a MachineOperation has a variant of [`scenario::Start`], as [`allocation`] has; that may be asked for twice, and
//! the object's kind has a place in `writes::KINDS`. An operation that the daemon names itself must have a name that
//! begins with its subject's; `life::watch` asks of every operation, whoever made it, that it ends.

mod allocation;
mod ec2;
mod exchanges;
mod life;
mod logout;
mod lookup;
mod losses;
mod redfish;
mod scenario;
mod shop;
mod simulated;
mod tally;
mod writes;

use anyhow::{Result, anyhow, ensure};
use ec2::Ec2;
use exchanges::Side;
use futures::future::{LocalBoxFuture, join_all};
use losses::Loss;
use redfish::Redfish;
use simulated::{Expiring, Faithless, Honest, Ignoring, Simulated};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use tokio::runtime::Runtime;

/// Every sweep is a test of its name. They wait most of their time, for polls and for power changes, so whichever test
/// comes first runs all that were asked for at once; `shop` bounds how many daemons there are.
macro_rules! sweeps {
    ($($(#[$about:meta])* $name:ident => $sweep:expr,)*) => {
        fn all() -> Vec<(&'static str, LocalBoxFuture<'static, Result<()>>)> {
            vec![$((stringify!($name), Box::pin($sweep)),)*]
        }

        $(
            $(#[$about])*
            #[test]
            fn $name() -> Result<()> {
                outcome(stringify!($name))
            }
        )*
    };
}

const ALL: &[Side] = &[Side::Before, Side::After, Side::Late];

sweeps! {
    simulated_operations_have_one_effect_each_whichever_durable_write_the_daemon_dies_at_r2_11 =>
        writes::sweep::<Simulated<Honest>>(),
    redfish_operations_have_one_effect_each_whichever_durable_write_the_daemon_dies_at_r2_11 =>
        writes::sweep::<Redfish<false>>(),
    simulated_operations_have_one_effect_each_whichever_exchange_the_daemon_dies_in_r2_13 =>
        exchanges::sweep::<Simulated<Honest>>(|_| true, ALL),
    redfish_operations_have_one_effect_each_whichever_exchange_the_daemon_dies_in_r2_13 =>
        exchanges::sweep::<Redfish<false>>(|_| true, ALL),
    /// Never late: without ETags, a shutdown that comes in after the operation's end is one more, whoever sends it.
    operations_at_the_emulator_have_one_effect_each_whichever_exchange_the_daemon_dies_in_r2_13 =>
        exchanges::sweep::<Redfish<true>>(|_| true, &[Side::Before, Side::After]),
    hosts_are_made_and_released_once_by_a_cloud_whose_tokens_expire_whichever_exchange_the_daemon_dies_in_r2_11 =>
        exchanges::sweep::<Simulated<Expiring>>(|row| row.name == "allocation", &[Side::Before, Side::After]),
    hosts_are_made_and_released_once_by_a_cloud_that_lags_and_knows_no_tokens_whichever_exchange_the_daemon_dies_in =>
        exchanges::sweep::<Simulated<Ignoring>>(|row| row.name == "allocation", &[Side::Before, Side::After]),
    /// Never late: the emulator honours no client tokens, so that a create which comes in after the operation's end is one
    /// more, whoever sends it.
    instances_of_the_ec2_emulator_are_made_and_released_once_whichever_exchange_is_lost_or_died_in_a01_b07_r2_11 =>
        exchanges::sweep_with::<Ec2>(|_| true, &[Side::Before, Side::After], Loss::ALL, Some(lookup::RUN)),
    a_replacement_whose_token_is_forgotten_is_looked_up_and_made_once_whenever_the_daemon_dies_r2_11 =>
        lookup::sweep(),
    a_daemon_that_dies_in_its_logout_goes_on_in_its_next_life_r2_13 => logout::sweep(),
    /// The control: a sweep that cannot fail shows nothing.
    a_cloud_that_makes_a_twin_of_a_repeat_does_not_pass_the_sweep => control(),
}

async fn control() -> Result<()> {
    let swept = exchanges::sweep::<Simulated<Faithless>>(|row| row.name == "replace", &[Side::After]).await;
    let Err(error) = swept else { return Err(anyhow!("a cloud that forgets its tokens passes the sweep")) };
    ensure!(error.to_string().contains("2 servers were made to stand in"), "it fails otherwise: {error:#}");
    Ok(())
}

fn outcome(name: &'static str) -> Result<()> {
    static OUTCOMES: OnceLock<BTreeMap<&str, Result<(), String>>> = OnceLock::new();
    let outcomes = OUTCOMES.get_or_init(|| run(asked_for));
    let outcome = match outcomes.get(name) {
        Some(outcome) => outcome.clone(),
        // Asked for in a way that `asked_for` does not understand.
        None => run(|other| other == name).remove(name).expect("it was run"),
    };
    outcome.map_err(|failure| anyhow!(failure))
}

/// Whether the command line names a part of this test's name, or none at all.
fn asked_for(name: &str) -> bool {
    let mut parts = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    parts.peek().is_none() || parts.any(|part| name.contains(&part))
}

/// Runs sweeps to their ends, also when some fail.
fn run(wanted: impl Fn(&str) -> bool) -> BTreeMap<&'static str, Result<(), String>> {
    let sweeps = all().into_iter().filter(|(name, _)| wanted(name));
    let sweeps =
        sweeps.map(|(name, sweep)| async move { (name, sweep.await.map_err(|error| format!("{error:#}"))) });
    Runtime::new().expect("a runtime").block_on(join_all(sweeps)).into_iter().collect()
}
