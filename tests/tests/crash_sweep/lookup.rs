//! A replacement whose token the cloud has forgotten: what became of it is looked up by a declared call, and the daemon
//! dies in that call too. The module's manifest gives a token 9 s instead of 1 h; nothing else is changed.

use anyhow::{Result, ensure};
use holdfast_api::MachineOperation;
use holdfast_tests::house::House;
use holdfast_tests::proxy::Gate;
use std::time::Instant;

use crate::exchanges::{Side, name_of, quiet, until_held};
use crate::life::{begin, live};
use crate::scenario::{Service, Subject};
use crate::shop::{Shop, turn};
use crate::simulated::{Expiring, LIFE, Server, Simulated};
use crate::tally::Tally;

const REPLACE: &str = "POST /v1/servers/*/replace";
const FIND: &str = "GET /v1/servers";

/// Where the replacement is lost, and where its lookup is.
const POINTS: [(Side, Option<Side>); 6] = [
    (Side::Before, None),
    (Side::Before, Some(Side::Before)),
    (Side::Before, Some(Side::After)),
    (Side::After, None),
    (Side::After, Some(Side::Before)),
    (Side::After, Some(Side::After)),
];

type Cloud = Simulated<Expiring>;

pub async fn sweep() -> Result<()> {
    let (began, tally, shop) = (Instant::now(), Tally::default(), Shop::<Cloud>::open().await?);
    let _turn = turn().await?;
    let row = Cloud::row("replace")?;
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
    tokio::time::sleep(LIFE).await;

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
    let ended = live(&mut house, &shop.service, &subjects, &tally).await?;
    for subject in &subjects {
        judge(&shop, subject, &ended, &house).await?;
    }
    for (replace, find) in POINTS {
        tally.covered(format!("{replace:?} {REPLACE}, {find:?} {FIND}"));
    }
    shop.service.judge_rest().await?;
    tally.tell::<Cloud>("HTTP boundaries with a lookup", began)?;
    house.kill()
}

/// SIGKILL; what is held ends without having gone on.
async fn end(house: &mut House, subjects: &[Subject<Server>], gate: &Gate) -> Result<()> {
    house.kill()?;
    subjects.iter().for_each(|subject| subject.proxy.clear_faults());
    gate.refuse();
    quiet(subjects).await
}

async fn judge(
    shop: &Shop<Cloud>,
    subject: &Subject<Server>,
    ended: &[MachineOperation],
    house: &House,
) -> Result<()> {
    shop.service.judge(subject, &house.client()?).await?;
    let names: Vec<String> = subject.proxy.records().iter().map(name_of).collect();
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    ensure!(count(FIND) > 0, "{} was to be looked up: {names:?}", subject.name);
    let arrived = subject.proxy.effects(|record| name_of(record) == REPLACE);
    ensure!(arrived == 1, "{} arrived {arrived} times: {names:?}", subject.name);
    ensure!(ended.len() == POINTS.len(), "{} operations were begun", ended.len());
    Ok(())
}
