//! The sweep over durable writes. An undisturbed daemon with one operation, or one allocation, lists the writes of each
//! scenario by name; then a daemon dies right after each of them and before anybody hears of it, and where a write is
//! about what came of an exchange also right before it, each with a subject of its own. Nothing else runs in that daemon,
//! so that a write is the same one in every life.

use anyhow::{Context, Result, ensure};
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

/// Lives that a point may take.
const TRIES: usize = 4;

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

    let points: Vec<Point<S>> =
        lists.iter().flat_map(|(row, points)| points.iter().map(move |at| (*row, at.clone()))).collect();
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

fn point<W>(row: &Scenario<W>, at: &str) -> String {
    format!("{}: {at}", row.name)
}

/// The points of a scenario: right after each write of its own, from its creation on. Right before one, the same is on
/// disk as right after the one before it, unless a Secret was written in between; what may be more is that an exchange was
/// had, which then this write is about.
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
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|write| is_swept(write) && !write.starts_with("create Machine/"));
    let mut points = Vec::new();
    for (number, write) in lines.iter().enumerate().skip(start.unwrap_or(lines.len())) {
        if is_letting_go(&lines[..number], write) {
            continue;
        }
        let outcome = ["state=Done", "state=Rejected"].iter().any(|word| write.contains(word));
        let last = lines[..number].iter().rev().find(|last| !last.contains(" Lease/"));
        if is_swept(write) && (outcome || last.is_some_and(|last| last.contains(" Secret/"))) {
            points.push(format!("before {write}"));
        }
        if is_swept(write) {
            points.push(format!("after {write}"));
        }
    }
    // Start, intent and outcome, end: the least that the contract wants on disk.
    ensure!(points.len() > 4, "{} is to have more writes than {points:#?}", row.name);
    Ok((row, points))
}

fn is_swept(write: &str) -> bool {
    let object = write.split(' ').nth(1).and_then(|object| object.split_once('/'));
    object.is_some_and(|(kind, _)| KINDS.contains(&kind))
}

/// Whether an operation that has ended loses a finalizer: which of several goes first is a matter of time.
fn is_letting_go(earlier: &[&str], write: &str) -> bool {
    let Some((object, what)) = write.split_once(": ") else { return false };
    let ended = earlier.iter().any(|it| it.starts_with(object) && it.contains("status.phase=Complete"));
    object.contains(" MachineOperation/") && what.starts_with("metadata.finalizers") && ended
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
    let (mut house, mut left, mut missed) = (shop.house(&[])?, None::<Victim<S>>, None);
    loop {
        let point = match missed {
            Some((point, _)) => Some(point),
            None => points.get(next.fetch_add(1, Ordering::Relaxed)),
        };
        let victim = match point {
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
                let died = die(shop, &mut house, victim, tally).await.with_context(context)?;
                let times = missed.map_or(0, |(_, times)| times) + 1;
                ensure!(died || times < TRIES, "{times} daemons came to their end without {}", victim.point);
                missed = point.filter(|_| !died).map(|point| (point, times));
            }
            None => house.kill()?,
        }
        left = victim.filter(|_| missed.is_none());
    }
}

async fn victim<S: Service>(shop: &Shop<S>, (row, at): &Point<S>) -> Result<Victim<S>> {
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    let name = format!("{NAME}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let subject = shop.service.subject(&name, row).await?;
    let own = at.replacen(&format!("/{NAME}"), &format!("/{name}"), 1);
    Ok(Victim { subject, at: own, point: point(row, at) })
}

/// False: it came to the end of its work without that write. On a loaded machine a wait more or less is written down.
async fn die<S: Service>(
    shop: &Shop<S>,
    house: &mut House,
    victim: &Victim<S>,
    tally: &Tally,
) -> Result<bool> {
    let subjects = std::slice::from_ref(&victim.subject);
    let status = match begin(house, &shop.service, subjects).await {
        // It may have died while the operation was created.
        Err(error) => ends(house, DYING).await?.ok_or(error)?,
        Ok(()) => match watch(house, &shop.service, subjects, tally).await? {
            End::Ended(_) => {
                shop.service.judge(&victim.subject, &house.client()?).await?;
                return house.kill().map(|()| false);
            }
            End::Died(status) => status,
        },
    };
    ensure!(status.signal() == Some(SIGABRT), "it ended with {status}:\n{}", house.log_tail(30));
    house.until_ended().await.map(|_| true)
}

async fn end<S: Service>(shop: &Shop<S>, house: &mut House, left: &Victim<S>, tally: &Tally) -> Result<()> {
    let subjects = std::slice::from_ref(&left.subject);
    begin(house, &shop.service, subjects).await?;
    let ended = watch(house, &shop.service, subjects, tally).await?.ended(house)?;
    shop.service.judge(&left.subject, &house.client()?).await?;
    tally.repeats(&ended);
    Ok(())
}
