//! Thousands of machines allocated from a class and released again, and what they cost while nothing happens.
//!
//! The whole house and the cloud run in one process on the same processors. Each size has a house of its own; what is
//! compared is the cost of one machine from size to size. `HOLDFAST_BENCH_MACHINES` bounds the sizes.

mod clock;
mod counter;
mod house;
mod report;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use counter::Written;
use house::{FirstBoot, House};
use support::figures::preamble;
use support::job;
use support::process::{forget_peak, memory, processor_time};

/// Machines, and what they boot with.
const RUNS: [(usize, FirstBoot); 4] = [
    (100, FirstBoot::Template),
    (1_000, FirstBoot::Template),
    (1_000, FirstBoot::Whole),
    (10_000, FirstBoot::Template),
];
/// Machines that are there before the others are counted, so that connections and caches are.
const WARM_UP: usize = 10;
/// How long nothing happens.
const IDLE: Duration = Duration::from_secs(20);
/// How much faster the controllers' clock goes for as long again: an hour.
const TIMES: u32 = 180;

/// What one phase came to.
pub struct Cost {
    /// Of how many machines.
    pub machines: usize,
    pub took: Duration,
    pub cpu: f64,
    pub written: Written,
    pub requests: BTreeMap<String, u64>,
}

/// What one size came to.
pub struct Run {
    pub machines: usize,
    pub first_boot: FirstBoot,
    pub allocate: Cost,
    pub idle: Cost,
    pub hour: Cost,
    pub release: Cost,
    /// KiB: before, at the most, and with all machines allocated.
    pub before: u64,
    pub peak: u64,
    pub allocated: u64,
    /// Bytes of the store: before, with all machines allocated, and when all are released.
    pub store: [u64; 3],
    /// How often a watch of all allocations had to list anew.
    pub listings: usize,
}

fn main() -> Result<()> {
    let module = job::module()?;
    let most = std::env::var("HOLDFAST_BENCH_MACHINES").ok().and_then(|text| text.parse().ok());
    preamble("scale");
    let mut runs = Vec::new();
    for (machines, first_boot) in RUNS {
        if most.is_some_and(|most: usize| machines > most) {
            continue;
        }
        // Beside the build and not in /tmp, which may be no disk.
        let folder = tempfile::tempdir_in(holdfast_tests::folders::target())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let run = runtime.block_on(one(House::open(folder.path(), &module), machines, first_boot))?;
        report::progress(&run);
        runs.push(run);
    }
    report::tables(&runs);
    Ok(())
}

async fn one(
    house: impl Future<Output = Result<House>>,
    machines: usize,
    first_boot: FirstBoot,
) -> Result<Run> {
    let mut house = house.await?;
    house.allocate(0, WARM_UP, first_boot).await?;
    house.settled().await;
    let (before, empty) = (memory()?.0, house.store_size()?);
    forget_peak()?;

    let start = Start::of(&house)?;
    let took = house.allocate(WARM_UP, machines, first_boot).await?;
    let cpu = processor_time()? - start.cpu;
    // Late writes are this phase's too; its time is over.
    house.settled().await;
    let allocate = Cost { cpu, ..start.cost(&house, machines, took)? };
    let ((allocated, _), full) = (memory()?, house.store_size()?);

    let start = Start::of(&house)?;
    tokio::time::sleep(IDLE).await;
    let idle = start.cost(&house, machines, IDLE)?;
    let start = Start::of(&house)?;
    house.clock.go(TIMES);
    tokio::time::sleep(IDLE).await;
    house.clock.go(1);
    let hour = start.cost(&house, machines, IDLE * TIMES)?;

    let start = Start::of(&house)?;
    let took = house.release().await?;
    let cpu = processor_time()? - start.cpu;
    house.settled().await;
    let release = Cost { cpu, ..start.cost(&house, WARM_UP + machines, took)? };
    house.nothing_left(WARM_UP + machines).await?;
    let (peak, store) = (memory()?.1, [empty, full, house.store_size()?]);
    let listings = house.listings();
    house.close().await?;
    Ok(Run { machines, first_boot, allocate, idle, hour, release, before, peak, allocated, store, listings })
}

/// Where the counters stood when a phase began.
struct Start {
    cpu: f64,
    written: Written,
    requests: BTreeMap<String, u64>,
}

impl Start {
    fn of(house: &House) -> Result<Start> {
        Ok(Start { cpu: processor_time()?, written: house.written(), requests: house.requests() })
    }

    fn cost(&self, house: &House, machines: usize, took: Duration) -> Result<Cost> {
        let requests = house.requests().into_iter().filter_map(|(route, now)| {
            let count = now - self.requests.get(&route).copied().unwrap_or_default();
            (count > 0).then_some((route, count))
        });
        Ok(Cost {
            machines,
            took,
            cpu: processor_time()? - self.cpu,
            written: &house.written() - &self.written,
            requests: requests.collect(),
        })
    }
}
