//! The sweep over durable writes. An undisturbed daemon with one operation lists the writes of each scenario by name;
//! then a daemon dies right before the commit of each, and one right after it and before anybody hears of it, each with
//! an operation of its own. Nothing else runs in that daemon, so that a write is the same one in every life.

use anyhow::{Context, Result, bail, ensure};
use holdfast_tests::house::House;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::life::{DYING, End, begin, ends, live, watch};
use crate::scenario::{Scenario, Service, Subject};
use crate::shop::{Shop, turn};
use crate::tally::Tally;

/// Read by a daemon that is built with the feature `crash-points`.
const AT: &str = "HOLDFAST_CRASH_AT_WRITE";
const LIST: &str = "HOLDFAST_CRASH_WRITES";
const SIGABRT: i32 = 6;

/// Houses at a time.
const LINES: usize = 3;

/// Objects of these kinds are an operation's; leases and the like are written when their time comes.
const KINDS: [&str; 3] = ["MachineOperation", "Machine", "MachineAllocation"];

/// What machine and operation are called in the undisturbed run; the others have a number after it.
const NAME: &str = "swept";

type Point<S> = (&'static Scenario<<S as Service>::World>, String);

pub async fn sweep<S: Service>() -> Result<()> {
    let (began, tally, shop) = (Instant::now(), Tally::default(), Shop::<S>::open().await?);
    let rows = shop.service.scenarios().iter().filter(|row| row.writes);
    let lists = rows.map(|row| undisturbed(&shop, row, &tally));
    let lists = futures::future::try_join_all(lists).await?;

    let points: Vec<Point<S>> = lists
        .iter()
        .flat_map(|(row, writes)| writes.iter().map(move |write| (*row, write)))
        .flat_map(|(row, write)| sides_of(write).iter().map(move |side| (row, format!("{side} {write}"))))
        .collect();
    let next = AtomicUsize::new(0);
    futures::future::try_join_all((0..LINES).map(|_| line(&shop, &points, &next, &tally))).await?;

    let wanted: BTreeSet<String> = points.iter().map(|(row, at)| point(row, at)).collect();
    ensure!(
        tally.points() == wanted && wanted.len() == points.len(),
        "an undisturbed run has the writes {wanted:#?}, and daemons died at {:#?}",
        tally.points()
    );
    shop.service.judge_rest().await?;
    tally.tell::<S>("durable writes", began)?;
    tally.wants(shop.service.scenarios().iter().filter(|row| row.writes))
}

/// On which sides of a write a daemon dies. Right before it, the same is on disk as right after the one before it; what
/// is more is that an exchange was had meanwhile, which this write is about.
fn sides_of(write: &str) -> &'static [&'static str] {
    let tells_outcome = ["state=Done", "state=Rejected"].iter().any(|word| write.contains(word));
    if tells_outcome { &["before", "after"] } else { &["after"] }
}

fn point<W>(row: &Scenario<W>, at: &str) -> String {
    format!("{}: {at}", row.name)
}

/// The names of all writes of an operation, from its creation on.
async fn undisturbed<S: Service>(
    shop: &Shop<S>,
    row: &'static Scenario<S::World>,
    tally: &Tally,
) -> Result<(&'static Scenario<S::World>, Vec<String>)> {
    let _turn = turn().await?;
    let subjects = shop.subjects([(NAME.to_owned(), row)]).await?;
    let mut house = shop.house(&subjects)?;
    let list = house.folder().join("writes");
    house.env(LIST, &list.to_string_lossy());
    live(&mut house, &shop.service, &subjects, tally).await?;
    shop.service.judge(&subjects[0], &house.client()?).await?;
    house.kill()?;

    let text =
        fs::read_to_string(list).context("a daemon without the feature crash-points lists no writes")?;
    let mut writes: Vec<String> = text.lines().filter(|line| is_swept(line)).map(str::to_owned).collect();
    let start = writes.iter().position(|write| !write.starts_with("create Machine/"));
    writes.drain(..start.unwrap_or_default());
    // Start, intent and outcome, end: the least that the contract wants on disk.
    ensure!(writes.len() >= 4, "{} is to have more writes than {writes:#?}", row.name);
    Ok((row, writes))
}

fn is_swept(write: &str) -> bool {
    let object = write.split(' ').nth(1).and_then(|object| object.split_once('/'));
    object.is_some_and(|(kind, _)| KINDS.contains(&kind))
}

/// A subject, and where the daemon is to die.
struct Victim<S: Service> {
    subject: Subject<S::World>,
    at: String,
    point: String,
}

/// One house after another point: a life of its daemon first ends what the one before it left undone, and then dies at
/// the point of an operation of its own.
async fn line<S: Service>(
    shop: &Shop<S>,
    points: &[Point<S>],
    next: &AtomicUsize,
    tally: &Tally,
) -> Result<()> {
    let _turn = turn().await?;
    let (mut house, mut left) = (shop.house(&[])?, None::<Victim<S>>);
    loop {
        let victim = match points.get(next.fetch_add(1, Ordering::Relaxed)) {
            Some(point) => Some(victim(shop, point).await?),
            None => None,
        };
        if victim.is_none() && left.is_none() {
            return Ok(());
        }
        shop.bind(&mut house, left.iter().chain(&victim).map(|it| &it.subject));
        match &victim {
            Some(victim) => house.env(AT, &victim.at),
            None => house.unset_env(AT),
        };
        house.start().await?;
        if let Some(left) = &left {
            let context = || format!("the daemon died at {}", left.point);
            end(shop, &mut house, left, tally).await.with_context(context)?;
            tally.covered(left.point.clone());
        }
        match &victim {
            Some(victim) => {
                let context = || format!("the daemon was to die at {}", victim.point);
                die(shop, &mut house, victim, tally).await.with_context(context)?;
            }
            None => house.kill()?,
        }
        left = victim;
    }
}

async fn victim<S: Service>(shop: &Shop<S>, (row, at): &Point<S>) -> Result<Victim<S>> {
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    let name = format!("{NAME}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let subject = shop.service.subject(&name, row).await?;
    let own = at.replacen(&format!("/{NAME}"), &format!("/{name}"), 1);
    Ok(Victim { subject, at: own, point: point(row, at) })
}

async fn die<S: Service>(shop: &Shop<S>, house: &mut House, victim: &Victim<S>, tally: &Tally) -> Result<()> {
    let subjects = std::slice::from_ref(&victim.subject);
    let status = match begin(house, &shop.service, subjects).await {
        // It may have died while the operation was created.
        Err(error) => ends(house, DYING).await?.ok_or(error)?,
        Ok(()) => match watch(house, &shop.service, subjects, tally).await? {
            End::Ended(_) => bail!("it came to the end of its work without that write"),
            End::Died(status) => status,
        },
    };
    ensure!(status.signal() == Some(SIGABRT), "it ended with {status}:\n{}", house.log_tail(30));
    house.until_ended().await.map(drop)
}

async fn end<S: Service>(shop: &Shop<S>, house: &mut House, left: &Victim<S>, tally: &Tally) -> Result<()> {
    let subjects = std::slice::from_ref(&left.subject);
    begin(house, &shop.service, subjects).await?;
    let ended = watch(house, &shop.service, subjects, tally).await?.ended(house)?;
    shop.service.judge(&left.subject, &house.client()?).await?;
    tally.repeats(&ended);
    Ok(())
}
