//! Allocations as a person makes and deletes them: set going by a MachineAllocation, and over when it and its Machine are
//! gone. A daemon may die at any moment of it, so everything here may be asked for twice.

use anyhow::{Context, Result, ensure};
use holdfast_api::{AllocationPhase, Machine, MachineAllocation, MachineClass, MachineOperation};
use holdfast_tests::house::{House, until};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

use crate::life::PATIENCE;
use crate::scenario::{Start, Subject, there};

const SYSTEM: &str = "holdfast-system";
/// Name of the Secret with first-boot data.
pub const FIRST_BOOT: &str = "first-boot";
pub const FIRST_BOOT_DATA: &str = "#cloud-config\nhostname: swept\n";

/// The Secret with first-boot data, unless it is there.
pub async fn first_boot(client: &Client) -> Result<()> {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": FIRST_BOOT, "labels": { "holdfast.dev/first-boot-data": "true" } },
        "stringData": { "userData": FIRST_BOOT_DATA },
    }))?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
    there(secrets.create(&PostParams::default(), &secret).await.map(drop).map_err(Into::into))
}

/// A class of its own for a subject, resolved: its site is its own too. `config` is the same for all subjects of a house.
pub async fn class(client: &Client, name: &str, site: &str, provider: &str, config: Value) -> Result<()> {
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "class" }, "data": config }))?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM);
    there(maps.create(&PostParams::default(), &map).await.map(drop).map_err(Into::into))?;
    let class: MachineClass = serde_json::from_value(json!({
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineClass", "metadata": { "name": name },
        "spec": { "provider": provider, "siteName": site, "providerConfigRef": { "name": "class" } },
    }))?;
    let classes: Api<MachineClass> = Api::all(client.clone());
    there(classes.create(&PostParams::default(), &class).await.map(drop).map_err(Into::into))
}

/// Waits until the classes are resolved, so that no allocation has to wait for that and writes it down.
pub async fn until_resolved<W>(client: &Client, subjects: &[Subject<W>]) -> Result<()> {
    for subject in subjects.iter().filter(|subject| is_allocation(subject)) {
        until(client, &subject.name, PATIENCE, |class: &MachineClass| {
            class.status.as_ref().is_some_and(|status| status.available > 0)
        })
        .await?;
    }
    Ok(())
}

pub fn is_allocation<W>(subject: &Subject<W>) -> bool {
    matches!(subject.scenario.start, Start::Allocation)
}

pub async fn create<W>(subject: &Subject<W>, client: &Client) -> Result<()> {
    if subject.leaves.load(Ordering::Relaxed) {
        return Ok(());
    }
    let allocation: MachineAllocation = serde_json::from_value(json!({
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation", "metadata": { "name": subject.name },
        "spec": { "classRef": { "name": subject.name }, "userData": { "secretRef": { "name": FIRST_BOOT } } },
    }))?;
    let api: Api<MachineAllocation> = Api::all(client.clone());
    there(api.create(&PostParams::default(), &allocation).await.map(drop).map_err(Into::into))
}

/// Deletes what has come to a host. Nothing is an error: a daemon that dies meanwhile is seen elsewhere.
pub async fn push<W>(house: &House, subjects: &[Subject<W>]) {
    if !subjects.iter().any(is_allocation) {
        return;
    }
    let Ok(client) = house.client() else { return };
    let api: Api<MachineAllocation> = Api::all(client);
    let Ok(list) = api.list(&ListParams::default()).await else { return };
    for allocation in list {
        let mut named = subjects.iter().filter(|it| is_allocation(it) && it.name == allocation.name_any());
        let Some(subject) = named.next() else { continue };
        let there = allocation.status.is_some_and(|status| status.phase == AllocationPhase::Allocated);
        if there && allocation.metadata.deletion_timestamp.is_none() {
            // Before it is asked for: the answer may be lost, and the allocation gone.
            subject.leaves.store(true, Ordering::Relaxed);
            let _ = api.delete(&subject.name, &DeleteParams::default()).await;
        }
    }
}

/// Whether nothing of an allocation is left but its operations.
pub async fn is_gone<W>(subject: &Subject<W>, client: &Client) -> Result<bool> {
    let (allocations, machines): (Api<MachineAllocation>, Api<Machine>) =
        (Api::all(client.clone()), Api::all(client.clone()));
    Ok(subject.leaves.load(Ordering::Relaxed)
        && allocations.get_opt(&subject.name).await?.is_none()
        && machines.get_opt(&subject.name).await?.is_none())
}

/// The ids of what the operations of an allocation have recorded as made, each once.
pub async fn made<W>(subject: &Subject<W>, client: &Client) -> Result<Vec<String>> {
    let operations: Api<MachineOperation> = Api::all(client.clone());
    let list = operations.list(&ListParams::default()).await.context("listing operations")?;
    let ours = list.items.into_iter().filter(|operation| subject.has(operation));
    let effects = ours.filter_map(|operation| operation.status).flat_map(|status| status.effects);
    let mut ids: Vec<String> = effects.flat_map(|effect| effect.created).map(|made| made.id).collect();
    ids.sort();
    let kinds: Vec<&str> = ids.iter().filter_map(|id| id.split('-').next()).collect();
    ensure!(kinds == ["nic", "srv", "vol"], "{} is to be made of three things: {ids:?}", subject.name);
    Ok(ids)
}
