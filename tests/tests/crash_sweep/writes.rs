//! The sweep over durable writes: the daemon dies right before the commit of its n-th write and right after it, for
//! every n that it comes to. In between lies everything that the daemon does outside. The operations run side by side,
//! so that the n-th write is not the same one in every life; what must be met for certain is held to by the other sweep.

use anyhow::{Context, Result, ensure};
use holdfast_api::MachineOperation;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crate::cases::{World, count_repeats};
use crate::life::{End, live};
use crate::prepared::Prepared;
use crate::tally::Tally;

/// Read by a daemon that is built with the feature `crash-points`: `n` aborts after the commit, `n-` before it.
const AT: &str = "HOLDFAST_CRASH_AT_WRITE";
const SIGABRT: i32 = 6;

struct Sweep {
    next: AtomicU64,
    /// The first write that some daemon was done without.
    end: AtomicU64,
    /// Least number of writes of an undisturbed run.
    least: AtomicUsize,
    tally: Tally,
}

pub async fn sweep<W: World>(lines: usize) -> Result<()> {
    let began = Instant::now();
    let sweep = Sweep {
        next: AtomicU64::new(0),
        end: AtomicU64::new(u64::MAX),
        least: AtomicUsize::new(0),
        tally: Tally::default(),
    };
    futures::future::try_join_all((0..lines).map(|_| line::<W>(&sweep))).await?;

    let (points, least) = (sweep.tally.points(), 2 * sweep.least.into_inner());
    ensure!(least > 0, "no daemon came to the end of its work");
    ensure!(
        points >= least,
        "only {points} points were covered, and an undisturbed run alone calls for {least}; a daemon that outlives its \
         point was built without the feature crash-points"
    );
    sweep.tally.tell(&format!("at durable writes over {}", W::PROVIDER), began)
}

/// One house after another point, until there are no more.
async fn line<W: World>(sweep: &Sweep) -> Result<()> {
    let mut world = W::start().await?;
    let mut prepared = Prepared::new(&mut world).await?;
    loop {
        let index = sweep.next.fetch_add(1, Ordering::Relaxed);
        let (write, before) = (index / 2 + 1, index.is_multiple_of(2));
        if write >= sweep.end.load(Ordering::Relaxed) {
            return Ok(());
        }
        let side = if before { "before" } else { "after" };
        let point = format!("the daemon died right {side} durable write {write}");
        die(sweep, &mut world, &mut prepared, write, before).await.context(point)?;
    }
}

async fn die<W: World>(
    sweep: &Sweep,
    world: &mut W,
    prepared: &mut Prepared,
    write: u64,
    before: bool,
) -> Result<()> {
    world.renew().await?;
    prepared.restore()?;
    let house = &mut prepared.house;
    house.env(AT, &if before { format!("{write}-") } else { write.to_string() });
    house.spawn()?;
    let died = match live(house, world, &sweep.tally).await? {
        End::Ended(operations) => {
            sweep.end.fetch_min(write, Ordering::Relaxed);
            let least = operations.iter().map(least_writes).sum();
            sweep.least.fetch_max(least, Ordering::Relaxed);
            // It may yet come to its point, by a renewal of its lease: it is not asked anything more.
            house.kill()?;
            false
        }
        End::Died(status) => {
            ensure!(status.signal() == Some(SIGABRT), "it ended with {status}:\n{}", house.log_tail(30));
            house.until_ended().await?;
            true
        }
    };
    house.unset_env(AT);
    house.spawn()?;
    let ended = live(house, world, &sweep.tally).await?.ended(house)?;
    world.judge(&ended, &house.client()?).await?;
    count_repeats(&ended, &sweep.tally);
    sweep.tally.covered(usize::from(died));
    house.kill()
}

/// Start, intent and outcome of each effect, the stored handle, a result that changes the machine (stored, then
/// applied), and the end: what the contract wants on disk, whatever else is.
fn least_writes(operation: &MachineOperation) -> usize {
    let Some(status) = &operation.status else { return 0 };
    let target = status.target.as_ref();
    let handle = target.is_some_and(|target| target.provider_operation.is_some());
    let result = target.and_then(|target| target.result.as_ref()).is_some_and(|it| it.provider_id.is_some());
    2 + 2 * status.effects.len() + usize::from(handle) + 2 * usize::from(result)
}
