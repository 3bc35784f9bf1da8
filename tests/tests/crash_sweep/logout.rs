//! The last exchange of all: a daemon that is told to stop ends its session at a BMC, and dies in that.

use anyhow::{Context, Result, ensure};
use holdfast_tests::house::{operation, settled};
use holdfast_tests::proxy::{Fault, Gate, Kind};
use http::Method;
use serde_json::Value;
use std::time::Instant;

use crate::exchanges::{Side, quiet, until_held};
use crate::life::{PATIENCE, live};
use crate::redfish::Redfish;
use crate::scenario::Service;
use crate::shop::{Shop, turn};
use crate::tally::Tally;

type Own = Redfish<false>;

pub async fn sweep() -> Result<()> {
    let (began, tally, shop) = (Instant::now(), Tally::default(), Shop::<Own>::open().await?);
    for side in [Side::Before, Side::After] {
        die(&shop, side, &tally).await.with_context(|| format!("held {side:?}"))?;
        tally.covered(format!("logout {side:?}"));
    }
    shop.service.judge_rest().await?;
    tally.tell::<Own>("the logout of a daemon that stops", began)
}

async fn die(shop: &Shop<Own>, side: Side, tally: &Tally) -> Result<()> {
    let _turn = turn().await?;
    let subjects = shop.subjects([("session".to_owned(), Own::by_session())]).await?;
    let (subject, bmc, gate) = (&subjects[0], shop.service.bmc()?, Gate::closed());
    let open = || bmc.access_counts().open_sessions;
    let before = open();
    let mut house = shop.house(&subjects)?;
    live(&mut house, &shop.service, &subjects, tally).await?;
    ensure!(open() == before + 1, "the operation was to open a session");

    let kind = if side == Side::Before { Kind::HoldBefore } else { Kind::HoldReply };
    subject.proxy.fault(Fault::new(kind(gate.clone())).on_method(Method::DELETE));
    house.terminate()?;
    until_held(&mut house, &subjects, &gate).await?;
    house.kill()?;
    subject.proxy.clear_faults();
    gate.refuse();
    quiet(&subjects).await?;
    // A session whose end was never heard of is left to the BMC, which ends it when it was idle for long enough.
    let left = usize::from(side == Side::Before);
    ensure!(open() == before + left, "{} sessions are open", open());

    house.start().await?;
    let client = house.client()?;
    operation(&client, "on-again", &subject.name, "HostPowerOn", Value::Null).await?;
    let status = settled(&client, "on-again", PATIENCE).await?;
    ensure!(status.phase == holdfast_api::Phase::Complete, "the next life was to go on: {status:#?}");
    house.stop().await?;
    ensure!(open() == before + left, "a daemon that stops ends its session");
    let ledger = bmc.ledger(&subject.target);
    let done = (ledger.power_ons, ledger.power_offs, ledger.restarts);
    ensure!(done == (1, 1, 0), "one power off and one power on were asked for: {ledger:#?}");
    Ok(())
}
