//! The crash sweep: the daemon is killed at every durable write and at every HTTP boundary of every kind of operation,
//! over both providers, and started again. Each effect happens exactly once, and every operation ends (R2.9 to R2.13).
//!
//! Effects are counted outside the daemon: by the ledger of the simulated cloud, and by that of a BMC behind a recording
//! proxy. `docs/testing.md` says what a point is. What a sweep covered is printed, and less than what an undisturbed run
//! calls for is a failure.

mod boundaries;
mod cases;
mod life;
mod prepared;
mod redfish;
mod simulated;
mod tally;
mod writes;

use anyhow::Result;
use boundaries::Side;
use simulated::SimulatedWorld;

/// Houses that are swept at a time, for each provider: most of a point is waiting for polls.
const LINES: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_operations_have_one_effect_each_whichever_durable_write_the_daemon_dies_at_r2_11()
-> Result<()> {
    writes::sweep::<SimulatedWorld<true>>(LINES).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redfish_operations_have_one_effect_each_whichever_durable_write_the_daemon_dies_at_r2_11()
-> Result<()> {
    writes::sweep::<redfish::RedfishWorld>(LINES).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_operations_have_one_effect_each_whichever_exchange_the_daemon_dies_in_r2_13() -> Result<()>
{
    boundaries::sweep::<SimulatedWorld<true>>(&[Side::Before, Side::After, Side::Late]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redfish_operations_have_one_effect_each_whichever_exchange_the_daemon_dies_in_r2_13() -> Result<()> {
    boundaries::sweep::<redfish::RedfishWorld>(&[Side::Before, Side::After, Side::Late]).await
}

/// The control: a sweep that cannot fail shows nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_that_makes_a_twin_of_a_repeat_does_not_pass_the_sweep() {
    let error = boundaries::sweep::<SimulatedWorld<false>>(&[Side::After]).await.unwrap_err();
    assert!(error.to_string().contains("2 servers were made to stand in"), "{error:#}");
}
