//! The sweep over HTTP boundaries. An undisturbed daemon shows the turns of each scenario (equal requests one after the
//! other are one); then an operation of its own is held in the first exchange of each turn, all of them at a time in
//! one house, and the daemon gets SIGKILL there.

use anyhow::{Context, Result, bail, ensure};
use holdfast_tests::house::House;
use holdfast_tests::proxy::{Gate, Record};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::allocation;
use crate::life::{GLANCE, PATIENCE, ends, live, prepare, set_going, watch};
use crate::lookup::{self, Lost, die_twice};
use crate::losses::{Loss, lose};
use crate::scenario::{Scenario, Service, Subject};
use crate::shop::{Shop, turn};
use crate::tally::Tally;

/// Where exchanges are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The service never hears of them.
    Before,
    /// The service has done them; the answers are lost.
    After,
    /// The service hears of them only after everything has ended without them. Only changes, and not for a call
    /// declared `never`: nobody could have told a person that it was still on its way.
    Late,
}

/// A turn of a scenario: its number from 1, and its name.
pub type Turn<W> = (&'static Scenario<W>, usize, String);

pub async fn sweep<S: Service>(rows: impl Fn(&Scenario<S::World>) -> bool, sides: &[Side]) -> Result<()> {
    sweep_with::<S>(rows, sides, &[], None).await
}

/// The same, and each of these losses happens to the first exchange of each turn too, without a death; and what is looked
/// up once it is lost is died over twice.
pub async fn sweep_with<S: Service>(
    rows: impl Fn(&Scenario<S::World>) -> bool,
    sides: &[Side],
    losses: &[Loss],
    lookup: Option<Lost>,
) -> Result<()> {
    let (began, tally, shop) = (Instant::now(), Tally::default(), Shop::<S>::open().await?);
    let rows: Vec<_> = shop.service.scenarios().iter().filter(|row| rows(row)).collect();
    let turns = undisturbed(&shop, &rows, &tally).await?;
    let deaths = futures::future::try_join_all(sides.iter().map(|side| die(&shop, *side, &turns, &tally)));
    let lost = futures::future::try_join_all(losses.iter().map(|loss| lose(&shop, *loss, &turns, &tally)));
    let twice = async {
        match lookup {
            Some(lost) => die_twice(&shop, lost, &tally).await,
            None => Ok(()),
        }
    };
    futures::future::try_join3(deaths, lost, twice).await?;

    let died = sides.iter().flat_map(|side| held_at(*side, &turns)).map(|(side, turn)| point(side, turn));
    let lost = losses.iter().flat_map(|loss| turns.iter().map(|turn| point(*loss, turn)));
    let twice = lookup.into_iter().flat_map(lookup::points);
    let wanted: BTreeSet<String> = died.chain(lost).chain(twice).collect();
    ensure!(
        tally.points() == wanted,
        "an undisturbed run has the boundaries {wanted:#?}, and daemons died, or exchanges were lost, at {:#?}",
        tally.points()
    );
    shop.service.judge_rest().await?;
    tally.tell::<S>("HTTP boundaries", began)?;
    tally.wants(rows)
}

/// The turns of each scenario.
async fn undisturbed<S: Service>(
    shop: &Shop<S>,
    rows: &[&'static Scenario<S::World>],
    tally: &Tally,
) -> Result<Vec<Turn<S::World>>> {
    let _turn = turn().await?;
    let subjects = shop.subjects(rows.iter().map(|row| (row.name.to_owned(), *row))).await?;
    let mut house = shop.house(&subjects)?;
    house.start().await?;
    prepare(&mut house, &shop.service, &subjects).await?;
    set_going(&house, &subjects).await?;
    watch(&mut house, &shop.service, &subjects, tally).await?.ended(&house)?;
    let mut turns = Vec::new();
    shop.service.judge_all(&subjects, &house.client()?).await?;
    for subject in &subjects {
        let mut names = turns_of(&subject.records());
        names.truncate(subject.scenario.turns);
        if S::FIRSTS {
            let mut seen = BTreeSet::new();
            names.retain(|name| seen.insert(name.clone()));
        }
        turns.extend(names.into_iter().zip(1..).map(|(name, number)| (subject.scenario, number, name)));
    }
    house.kill()?;
    Ok(turns)
}

/// What was asked, as names, equal ones in a row once.
fn turns_of(records: &[Record]) -> Vec<String> {
    let mut names: Vec<(&Record, String)> = Vec::new();
    for record in records {
        let repeats = |last: &Record| last.method == record.method && last.place() == record.place();
        if !names.last().is_some_and(|(last, _)| repeats(last)) {
            names.push((record, name_of(record)));
        }
    }
    names.into_iter().map(|(_, name)| name).collect()
}

/// Method and place; a part of the path with a number in it is an id, unless it is the version.
pub fn name_of(record: &Record) -> String {
    let path = record.place();
    let is_id = |part: &str| part != "v1" && part.contains(|letter: char| letter.is_ascii_digit());
    let parts: Vec<&str> = path.split('/').map(|part| if is_id(part) { "*" } else { part }).collect();
    format!("{} {}", record.method, parts.join("/"))
}

fn held_at<W>(side: Side, turns: &[Turn<W>]) -> Vec<(Side, &Turn<W>)> {
    let late =
        |(row, _, name): &Turn<W>| !name.starts_with("GET") && !row.never && !name.contains("SessionService");
    turns.iter().filter(|turn| side != Side::Late || late(turn)).map(|turn| (side, turn)).collect()
}

pub fn point<W>(side: impl Debug, (row, number, name): &Turn<W>) -> String {
    format!("{}: {side:?} {number}. {name}", row.name)
}

async fn die<S: Service>(shop: &Shop<S>, side: Side, turns: &[Turn<S::World>], tally: &Tally) -> Result<()> {
    let _turn = turn().await?;
    let (gate, held) = (Gate::closed(), held_at(side, turns));
    let named = |(_, (row, number, _)): &(Side, &Turn<S::World>)| {
        (format!("{}-{number}", row.name), *row as &'static Scenario<S::World>)
    };
    let subjects = shop.subjects(held.iter().map(named)).await?;
    let mut house = shop.house(&subjects)?;
    house.start().await?;
    prepare(&mut house, &shop.service, &subjects).await?;
    for (subject, (_, (_, number, name))) in subjects.iter().zip(&held) {
        match S::FIRSTS {
            true => subject.hold_first(side, name, &gate)?,
            false => subject.hold(side, *number, &gate),
        }
    }
    set_going(&house, &subjects).await?;
    until_held(&mut house, &subjects, &gate).await?;
    house.kill()?;
    for (subject, (_, (row, number, name))) in subjects.iter().zip(&held) {
        subject.proxy.clear_faults();
        let under_way: Vec<String> = open(subject).iter().map(name_of).collect();
        ensure!(under_way == [name.clone()], "{}: {under_way:?} was held as turn {number} {name}", row.name);
    }

    if side != Side::Late {
        gate.refuse();
        quiet(&subjects).await?;
    }
    tokio::time::sleep(S::REST).await;
    let ended = live(&mut house, &shop.service, &subjects, tally).await?;
    shop.service.judge_all(&subjects, &house.client()?).await?;
    if side == Side::Late {
        gate.open();
        quiet(&subjects).await?;
        shop.service.judge_all(&subjects, &house.client()?).await?;
    }
    tally.repeats(&ended);
    held.iter().for_each(|(side, turn)| tally.covered(point(*side, turn)));
    house.kill()
}

/// Waits until one exchange of each subject is held.
pub async fn until_held<W>(house: &mut House, subjects: &[Subject<W>], gate: &Gate) -> Result<()> {
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        tokio::select! {
            () = gate.until_arrived(subjects.len() as u64) => return Ok(()),
            ended = ends(house, GLANCE) => if let Some(status) = ended? {
                bail!("the daemon ended with {status} while exchanges were to be held:\n{}", house.log_tail(30));
            }
        }
        allocation::push(house, subjects).await;
    }
    let others = subjects.iter().filter(|subject| open(subject).is_empty());
    let others: Vec<_> = others.map(|subject| (&subject.name, turns_of(&subject.records()))).collect();
    bail!("an exchange of each was to be held; the others have: {others:#?}\n{}", house.log_tail(30))
}

/// Waits until nothing is under way any more at any proxy.
pub async fn quiet<W>(subjects: &[Subject<W>]) -> Result<()> {
    let quiet = async {
        while subjects.iter().any(|subject| !open(subject).is_empty()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, quiet).await.context("released exchanges did not end")
}

fn open<World>(subject: &Subject<World>) -> Vec<Record> {
    subject.records().into_iter().filter(|record| record.seen.is_none()).collect()
}
