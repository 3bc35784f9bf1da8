//! A change of which nobody knows what became of it is looked up by a declared call, and the daemon dies in that call too.

use anyhow::{Context, Result, ensure};
use holdfast_api::MachineOperation;
use holdfast_tests::house::House;
use holdfast_tests::proxy::Gate;
use std::time::{Duration, Instant};

use crate::exchanges::{Side, name_of, quiet, until_held};
use crate::life::{begin, live};
use crate::scenario::{Service, Subject};
use crate::shop::{Shop, turn};
use crate::simulated::{Expiring, LIFE, Simulated};
use crate::tally::Tally;

/// A change that is looked up once its answer is lost.
#[derive(Clone, Copy)]
pub struct Lost {
    row: &'static str,
    /// The first exchange of the row.
    change: &'static str,
    find: &'static str,
    /// How long the service takes to forget the change's token.
    life: Duration,
}

/// Of the simulated cloud, whose tokens expire: the module's manifest gives a token 9 s instead of 1 h.
const REPLACE: Lost =
    Lost { row: "replace", change: "POST /v1/servers/*/replace", find: "GET /v1/servers", life: LIFE };

/// Of the EC2 emulator, which honours no tokens.
pub const RUN: Lost = Lost {
    row: "allocation",
    change: "POST /#RunInstances",
    find: "POST /#DescribeInstances(tag:holdfast)",
    life: Duration::ZERO,
};

/// Where the change is lost, and where its lookup is.
const POINTS: [(Side, Option<Side>); 6] = [
    (Side::Before, None),
    (Side::Before, Some(Side::Before)),
    (Side::Before, Some(Side::After)),
    (Side::After, None),
    (Side::After, Some(Side::Before)),
    (Side::After, Some(Side::After)),
];

pub async fn sweep() -> Result<()> {
    let (began, tally, shop) = (Instant::now(), Tally::default(), Shop::<Simulated<Expiring>>::open().await?);
    die_twice(&shop, REPLACE, &tally).await?;
    shop.service.judge_rest().await?;
    tally.tell::<Simulated<Expiring>>("HTTP boundaries with a lookup", began)
}

/// The names of what [`die_twice`] covers.
pub fn points(lost: Lost) -> Vec<String> {
    let named = |(change, find)| format!("{change:?} {}, {find:?} {}", lost.change, lost.find);
    POINTS.into_iter().map(named).collect()
}

pub async fn die_twice<S: Service>(shop: &Shop<S>, lost: Lost, tally: &Tally) -> Result<()> {
    let _turn = turn().await?;
    let row = shop.service.scenarios().iter().find(|row| row.name == lost.row);
    let row = row.with_context(|| format!("no row {}", lost.row))?;
    let named = POINTS.iter().enumerate().map(|(number, _)| (format!("lookup-{number}"), row));
    let subjects = shop.subjects(named).await?;
    let mut house = shop.house(&subjects)?;

    let gate = Gate::closed();
    subjects.iter().zip(POINTS).for_each(|(subject, (side, _))| subject.hold(side, 1, &gate));
    house.start().await?;
    begin(&mut house, &shop.service, &subjects).await?;
    until_held(&mut house, &subjects, &gate).await?;
    end(&mut house, &subjects, &gate).await?;
    // What is waited for is that time itself: every token is past its life after it, and the cloud knows none.
    tokio::time::sleep(lost.life).await;

    let gate = Gate::closed();
    let (mut again, mut once) = (Vec::new(), Vec::new());
    for (subject, (_, side)) in subjects.into_iter().zip(POINTS) {
        match side {
            Some(side) => {
                subject.hold(side, 1, &gate);
                again.push(subject);
            }
            None => once.push(subject),
        }
    }
    house.spawn()?;
    until_held(&mut house, &again, &gate).await?;
    end(&mut house, &again, &gate).await?;

    let subjects: Vec<_> = again.into_iter().chain(once).collect();
    let ended: Vec<MachineOperation> = live(&mut house, &shop.service, &subjects, tally).await?;
    shop.service.judge_all(&subjects, &house.client()?).await?;
    for subject in &subjects {
        judge(subject, lost)?;
    }
    ensure!(ended.len() == POINTS.len() * row.start.kinds().len(), "{} operations were begun", ended.len());
    points(lost).into_iter().for_each(|point| tally.covered(point));
    house.kill()
}

/// SIGKILL; what is held ends without having gone on.
async fn end<W>(house: &mut House, subjects: &[Subject<W>], gate: &Gate) -> Result<()> {
    house.kill()?;
    subjects.iter().for_each(|subject| subject.proxy.clear_faults());
    gate.refuse();
    quiet(subjects).await
}

fn judge<W>(subject: &Subject<W>, lost: Lost) -> Result<()> {
    let names: Vec<String> = subject.proxy.records().iter().map(name_of).collect();
    let found = names.iter().filter(|name| *name == lost.find).count();
    ensure!(found > 0, "{} was to be looked up: {names:?}", subject.name);
    let arrived = subject.proxy.effects(|record| name_of(record) == lost.change);
    ensure!(arrived == 1, "{} arrived {arrived} times: {names:?}", subject.name);
    Ok(())
}
