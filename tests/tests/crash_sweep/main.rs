//! The crash sweep: the daemon is killed at every durable write and at every HTTP boundary of every kind of operation,
//! over both providers, and started again. Each effect happens exactly once, and every operation ends (R2.9 to R2.13).
//!
//! Effects are counted outside the daemon: by the ledgers of the simulated cloud and of a BMC of our own, and by
//! recording proxies before them and before the sushy-tools emulator. `docs/testing.md` says what a point is. What a
//! sweep covered is printed, and is to be exactly what an undisturbed run showed, by name.
//!
//! # A further kind of operation
//!
//! It is a row in the table of its service (`simulated::ROWS`, `redfish::AT_BMC`): a [`scenario::Scenario`] with what
//! sets it going and what its service must find done, once. Both engines, [`writes`] and [`exchanges`], take their
//! points from an undisturbed run of the row; nothing else is to be written down. What is set going by another object
//! than a MachineOperation (an allocation that is created, or deleted) gets a variant of [`scenario::Start`], which
//! creates or deletes that object and may be asked to do so twice, and the object's kind a place in `writes::KINDS`.
//! An operation that the daemon names itself must get the same name in every house, or be renamed in
//! `writes::undisturbed`; `life::live` asks of every operation, whoever made it, that it ends.

mod exchanges;
mod life;
mod logout;
mod lookup;
mod redfish;
mod scenario;
mod shop;
mod simulated;
mod tally;
mod writes;

use anyhow::Result;
use exchanges::Side;
use redfish::Redfish;
use simulated::Simulated;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_operations_have_one_effect_each_whichever_durable_write_the_daemon_dies_at_r2_11()
-> Result<()> {
    writes::sweep::<Simulated<true>>().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redfish_operations_have_one_effect_each_whichever_durable_write_the_daemon_dies_at_r2_11()
-> Result<()> {
    writes::sweep::<Redfish<false>>().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_operations_have_one_effect_each_whichever_exchange_the_daemon_dies_in_r2_13() -> Result<()>
{
    exchanges::sweep::<Simulated<true>>(|_| true, &[Side::Before, Side::After, Side::Late]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redfish_operations_have_one_effect_each_whichever_exchange_the_daemon_dies_in_r2_13() -> Result<()> {
    exchanges::sweep::<Redfish<false>>(|_| true, &[Side::Before, Side::After, Side::Late]).await
}

/// Never late: without ETags, a shutdown that comes in after the operation's end is one more, whoever sends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_at_the_emulator_have_one_effect_each_whichever_exchange_the_daemon_dies_in_r2_13()
-> Result<()> {
    exchanges::sweep::<Redfish<true>>(|_| true, &[Side::Before, Side::After]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_whose_token_is_forgotten_is_looked_up_and_made_once_whenever_the_daemon_dies_r2_11()
-> Result<()> {
    lookup::sweep().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_dies_in_its_logout_goes_on_in_its_next_life_r2_13() -> Result<()> {
    logout::sweep().await
}

/// The control: a sweep that cannot fail shows nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_that_makes_a_twin_of_a_repeat_does_not_pass_the_sweep() {
    let swept = exchanges::sweep::<Simulated<false>>(|row| row.name == "replace", &[Side::After]).await;
    let error = swept.expect_err("a cloud that forgets its tokens passes the sweep");
    assert!(error.to_string().contains("2 servers were made to stand in"), "{error:#}");
}
