//! Orphans: what is in the account under our marker and on nobody's record. Told, left alone, and released when a person
//! names it. Field case B11.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_api::class::SweepReport;
use holdfast_api::{
    AllocationPhase, Machine, MachineAllocation, MachineAllocationStatus, MachineClass, MachineClassStatus,
    MachineOperation,
};
use holdfast_simulated_cloud::{EffectKind, Options, Seed};
use holdfast_tests::house::until;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{PATIENCE, World, create, module};

/// Swept by itself once in an hour, and told after a second.
const AGED: &str =
    "[limits]\ncall-seconds = 600\n\n[orphans]\nsweep-interval-seconds = 3600\nminimum-age-seconds = 1\n";

async fn world() -> Result<World> {
    let world = World::with_tables(Options::default(), "info", module().await?, AGED).await?;
    world.class("standard", &[("image", "image-1"), ("volumes", "10"), ("nics", "1")]).await?;
    Ok(world)
}

/// A server under our marker that nobody here has made.
fn lost(world: &World, name: &str) -> Result<String> {
    let seed =
        Seed { label: Some(format!("hf{name}")), manager: Some("holdfast".into()), ..Seed::named(name) };
    Ok(world.cloud.seed_server(seed)?)
}

/// Asks for a sweep and waits for its end.
async fn sweep(world: &World, value: &str) -> Result<(SweepReport, MachineClassStatus)> {
    let annotation = format!("holdfast.dev/sweep={value}");
    world.house.kubectl_ok(&["annotate", "--overwrite", "machineclass", "standard", &annotation])?;
    let class = until(&world.client()?, "standard", PATIENCE, |class: &MachineClass| {
        let sweep = class.status.as_ref().and_then(|status| status.sweep.as_ref());
        sweep.is_some_and(|sweep| sweep.request == value)
    })
    .await?;
    let status = class.status.context("a status")?;
    Ok((status.sweep.clone().context("a sweep")?, status))
}

/// Sweeps until the report says so: a listing may be cut off by something else.
async fn sweeps_until(world: &World, name: &str, says: &str) -> Result<MachineClassStatus> {
    for round in 0.. {
        let (report, status) = sweep(world, &format!("{name}-{round}")).await?;
        if report.message.contains(says) {
            return Ok(status);
        }
        let listed = report.message.contains("listed under") || report.message.contains("max-pages");
        ensure!(!listed && round < 20, "it is to say `{says}`: {report:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    unreachable!()
}

/// Sweeps until the class tells of so many orphans: their ids.
async fn told(world: &World, count: usize) -> Result<Vec<String>> {
    for round in 0.. {
        let (report, status) = sweep(world, &format!("told-{round}")).await?;
        if status.orphans.len() == count {
            return Ok(status.orphans.into_iter().map(|one| one.id).collect());
        }
        ensure!(round < 120, "{count} orphans are to be told: {report:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    unreachable!()
}

/// A request to release an orphan, and how it ends.
async fn release(world: &World, name: &str, kind: &str, id: &str) -> Result<MachineAllocationStatus> {
    world.allocate(name, "standard", json!({ "releaseOrphan": { "kind": kind, "id": id } })).await?;
    world
        .until(name, |status| matches!(status.phase, AllocationPhase::Released | AllocationPhase::Failed))
        .await
}

fn ended(status: &MachineAllocationStatus) -> (AllocationPhase, &str) {
    (status.phase, status.reason.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn an_orphan_is_told_left_alone_and_released_when_a_person_names_it_beside_what_stays_b11() -> Result<()>
{
    let world = world().await?;
    world.allocate("web-1", "standard", json!({})).await?;
    let (owned, ours) = world.allocated("web-1").await?;
    let stranger = world.cloud.seed_server(Seed::named("stranger"))?;
    let orphan = lost(&world, "lost")?;
    assert_eq!(told(&world, 1).await?, std::slice::from_ref(&orphan));
    let explained = world.explain("machineclass/standard")?;
    assert!(explained.contains(&format!("server {orphan}, seen since")), "{explained}");
    assert!(explained.contains("4 listed under our marker, 1 of them on nobody's record"), "{explained}");
    for value in ["again", "and-again"] {
        sweep(&world, value).await?;
    }
    assert!(world.cloud.server(&orphan).is_some(), "nothing is released by itself");

    for (name, id) in [("ours", &ours), ("not-ours", &stranger)] {
        let status = release(&world, name, "server", id).await?;
        assert_eq!(ended(&status), (AllocationPhase::Failed, "NotReported"), "{status:#?}");
    }
    let wild = json!({ "releaseOrphan": { "kind": "server", "id": "*" } });
    assert!(world.allocate("no-such", "standard", wild).await.is_err(), "there are no wildcards");
    // Somebody takes it on record after it was told.
    let host = json!({ "external": { "provider": "simulated", "providerID": format!("sim://{orphan}") } });
    let machine = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "Machine",
        "metadata": { "name": "by-hand" }, "spec": { "host": host } });
    create::<Machine>(Api::all(world.client()?), machine).await?;
    let status = release(&world, "taken", "server", &orphan).await?;
    assert_eq!(ended(&status), (AllocationPhase::Failed, "OnRecord"), "{status:#?}");
    world.delete::<Machine>("by-hand").await?;
    assert_eq!(world.cloud.ledger().total(EffectKind::Delete), 0);

    let status = release(&world, "away", "server", &orphan).await?;
    assert_eq!(ended(&status), (AllocationPhase::Released, "OrphanReleased"), "{status:#?}");
    let input = world.operation("away-release-1").await?.status.and_then(|status| status.target?.input);
    let owned_once = input.and_then(|input| input.allocation).context("a frozen input")?.owned_resources;
    let [one] = owned_once.as_slice() else { panic!("one thing: {owned_once:#?}") };
    assert!(one.place.as_ref().is_some_and(|place| place.starts_with(world.cloud.origin())), "{one:?}");
    assert!(one.incarnation.is_some(), "it is known by when it was made, too (A29): {one:?}");
    let ledger = world.cloud.ledger();
    assert_eq!((ledger.total(EffectKind::Delete), ledger.count(EffectKind::Delete, &orphan)), (1, 1));
    assert!(world.cloud.server(&stranger).is_some() && world.cloud.server(&ours).is_some());
    assert_eq!(world.allocated("web-1").await?.0.owned_resources, owned.owned_resources);
    seen(&world, &orphan).await?;
    Ok(())
}

/// What a person sees of it.
async fn seen(world: &World, orphan: &str) -> Result<()> {
    let table = world.house.kubectl_ok(&["get", "machineallocation", "away", "-o", "wide"])?;
    assert!(table.contains("Released") && table.contains(&format!("server {orphan} is gone")), "{table}");
    let told = world.explain("machineallocation/away")?;
    for part in [
        format!("took over the orphan server {orphan} at "),
        "bears the token hflost".to_owned(),
        "call delete (destroy)".to_owned(),
        "OrphanTaken".to_owned(),
        "OrphanReleased".to_owned(),
    ] {
        assert!(told.contains(&part), "it tells `{part}`:\n{told}");
    }
    until(&world.client()?, "standard", PATIENCE, |class: &MachineClass| {
        class.status.as_ref().is_some_and(|status| status.orphans.is_empty())
    })
    .await
    .context("the class tells of it no more")?;
    let metrics = world.house.observe("/metrics")?.1;
    let of = |name: &str| {
        let head = format!("holdfast_{name}{{");
        let line =
            metrics.lines().find(|line| line.starts_with(&head) && line.contains(world.cloud.origin()));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .with_context(|| format!("{name}:\n{metrics}"))
    };
    assert!(of("budget_sent_total")? >= 1.0 && of("budget_limit")? >= 1.0, "{metrics}");
    assert_eq!((of("budget_waiting")?, of("budget_breaker_open")?), (0.0, 0.0), "{metrics}");
    Ok(())
}

/// Somebody takes an allocation and its Machine away by force: the host and its parts are nobody's.
#[tokio::test]
async fn what_an_allocation_left_whose_record_was_removed_is_released_piece_by_piece_b11() -> Result<()> {
    let world = world().await?;
    world.allocate("web-1", "standard", json!({})).await?;
    let (status, _) = world.allocated("web-1").await?;
    let client = world.client()?;
    // Until its end is taken over, the operation has them on record.
    until(&client, "web-1-allocate-0", PATIENCE, |operation: &MachineOperation| {
        operation.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
    })
    .await?;
    tear_out(Api::<MachineAllocation>::all(client.clone()), "web-1").await?;
    tear_out(Api::<Machine>::all(client), "web-1").await?;
    let mut orphans = told(&world, 3).await?;
    let mut owned: Vec<String> = status.owned_resources.iter().map(|one| one.id.clone()).collect();
    orphans.sort();
    owned.sort();
    assert_eq!(orphans, owned);
    for (number, one) in status.owned_resources.iter().enumerate() {
        let name = format!("away-{number}");
        world
            .allocate(&name, "standard", json!({ "releaseOrphan": { "kind": one.kind, "id": one.id } }))
            .await?;
    }
    for number in 0..3 {
        let over = |status: &MachineAllocationStatus| {
            matches!(status.phase, AllocationPhase::Released | AllocationPhase::Failed)
        };
        let status = world.until(&format!("away-{number}"), over).await?;
        assert_eq!(ended(&status), (AllocationPhase::Released, "OrphanReleased"), "{status:#?}");
    }
    world.nothing_left().await?;
    assert!(told(&world, 0).await?.is_empty());
    Ok(())
}

async fn tear_out<K>(api: Api<K>, name: &str) -> Result<()>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch(name, &PatchParams::default(), &free).await?;
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Field cases B17 and L04: more than ten thousand are listed, all of them.
#[tokio::test]
async fn a_fleet_of_more_than_ten_thousand_is_listed_whole_b17() -> Result<()> {
    let world = world().await?;
    for number in 0..10_050 {
        lost(&world, &format!("s{number}"))?;
    }
    sweeps_until(&world, "fleet", "10050 listed under our marker, 10050 of them").await?;
    Ok(())
}

/// Field case B17: all pages or none.
#[tokio::test]
async fn one_page_too_many_and_nothing_is_known_b17() -> Result<()> {
    let world = world().await?;
    // The last full page names one that is empty.
    world.cloud.behave(|behaviour| behaviour.paging.force_size = Some(1));
    for number in 0..199 {
        lost(&world, &format!("s{number}"))?;
    }
    sweeps_until(&world, "edge", "199 listed under our marker").await?;
    lost(&world, "one-more")?;
    let status = sweeps_until(&world, "beyond", "there are more pages than `max-pages`").await?;
    assert!(status.orphans.len() <= 100, "what was told stays");
    Ok(())
}
