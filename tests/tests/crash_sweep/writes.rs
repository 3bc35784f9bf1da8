//! The sweep over durable writes. An undisturbed daemon with one operation lists the writes of each scenario by name;
//! then a daemon dies right before the commit of each, and one right after it and before anybody hears of it, each with
//! an operation of its own in a house of its own.

use anyhow::{Context, Result, ensure};
use futures::stream::{self, TryStreamExt};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Instant;

use crate::life::{End, live};
use crate::scenario::{Scenario, Service};
use crate::shop::{Shop, turn};
use crate::tally::Tally;

/// Read by a daemon that is built with the feature `crash-points`.
const AT: &str = "HOLDFAST_CRASH_AT_WRITE";
const LIST: &str = "HOLDFAST_CRASH_WRITES";
const SIGABRT: i32 = 6;

/// Objects of these kinds are an operation's; leases and the like are written when their time comes.
const KINDS: [&str; 2] = ["MachineOperation", "Machine"];

/// Machine and operation bear one name in every house, so that its writes do too.
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
        .flat_map(|(row, write)| ["before", "after"].map(|side| (row, format!("{side} {write}"))))
        .collect();
    let lives = stream::iter(points.iter().map(Ok));
    lives.try_for_each_concurrent(None, |point| die(&shop, point, &tally)).await?;

    let wanted: BTreeSet<String> = points.iter().map(|(row, at)| format!("{}: {at}", row.name)).collect();
    ensure!(
        tally.points() == wanted && wanted.len() == points.len(),
        "an undisturbed run has the writes {wanted:#?}, and daemons died at {:#?}",
        tally.points()
    );
    shop.service.judge_rest().await?;
    tally.tell::<S>("durable writes", began)?;
    tally.wants(shop.service.scenarios().iter().filter(|row| row.writes))
}

/// The names of all writes of an operation, from its creation on.
async fn undisturbed<'a, S: Service>(
    shop: &Shop<S>,
    row: &'static Scenario<S::World>,
    tally: &Tally,
) -> Result<(&'static Scenario<S::World>, Vec<String>)> {
    let _turn = turn().await?;
    let subjects = shop.subjects([(NAME.to_owned(), row)]).await?;
    let mut house = shop.house(&subjects)?;
    let list = house.folder().join("writes");
    house.env(LIST, &list.to_string_lossy());
    live(&mut house, &shop.service, &subjects, tally).await?.ended(&house)?;
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

async fn die<S: Service>(shop: &Shop<S>, (row, at): &Point<S>, tally: &Tally) -> Result<()> {
    let _turn = turn().await?;
    let point = format!("{}: {at}", row.name);
    die_at(shop, row, at, tally).await.with_context(|| format!("the daemon was to die at {point}"))?;
    tally.covered(point);
    Ok(())
}

async fn die_at<S: Service>(
    shop: &Shop<S>,
    row: &'static Scenario<S::World>,
    at: &str,
    tally: &Tally,
) -> Result<()> {
    let subjects = shop.subjects([(NAME.to_owned(), row)]).await?;
    let mut house = shop.house(&subjects)?;
    house.env(AT, at);
    match live(&mut house, &shop.service, &subjects, tally).await? {
        End::Ended(_) => anyhow::bail!("it came to the end of its work without that write"),
        End::Died(status) => {
            ensure!(status.signal() == Some(SIGABRT), "it ended with {status}:\n{}", house.log_tail(30));
            house.until_ended().await?;
        }
    }
    house.unset_env(AT);
    let ended = live(&mut house, &shop.service, &subjects, tally).await?.ended(&house)?;
    shop.service.judge(&subjects[0], &house.client()?).await?;
    tally.repeats(&ended);
    house.kill()
}
