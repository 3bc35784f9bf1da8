//! The story: a machine is powered off, on, rebooted and replaced, as a client of the API would do it.

use super::{say, world::World};
use crate::daemon::Daemon;
use anyhow::{Context, bail, ensure};
use futures::StreamExt;
use holdfast_api::{
    FIRST_BOOT_LABEL, Machine, MachineOperation, PROVIDER_LABEL, Phase, Provider, ProviderCredential,
    ProviderState, SITE_LABEL, SYSTEM_NAMESPACE,
};
use holdfast_simulated_cloud::EffectKind;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::time::{Duration, Instant};

/// A step that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(90);

pub async fn tell(world: &World, daemon: &Daemon) -> anyhow::Result<()> {
    let client = daemon.client();
    drop_in(world, client).await?;
    objects(world, client).await?;
    for (kind, told) in [
        ("HostPowerOff", "Powering the machine off: an immediate operation, executed until it is seen off"),
        ("HostPowerOn", "Powering it on: a long-running operation, begun once and polled to its end"),
        ("HostReboot", "Rebooting it: a reset is sent once and never again"),
        ("HostReplace", "Replacing it with new first-boot data: a create, then the old server is cleaned up"),
    ] {
        say(told);
        operate(client, kind).await?;
    }
    check_ledger(world, client).await
}

async fn drop_in(world: &World, client: &Client) -> anyhow::Result<()> {
    say("Dropping simulated.wasm into the providers folder");
    let path = world.providers_dir().join("simulated.wasm");
    std::fs::write(path.with_extension("partial"), &world.module)?;
    std::fs::rename(path.with_extension("partial"), &path)?;
    let providers: Api<Provider> = Api::all(client.clone());
    let ready = wait_for(&providers, "simulated", "provider", |provider| {
        let status = provider.status.clone().unwrap_or_default();
        match status.state {
            ProviderState::Ready => Some(Ok(status)),
            ProviderState::Refused => {
                Some(Err(status.last_refusal.map_or("refused".to_string(), |refusal| refusal.reason)))
            }
            _ => None,
        }
    })
    .await?;
    println!("    provider simulated {} is {:?}; what it may do:", ready.version, ready.state);
    for sentence in &ready.meaning {
        println!("      - {sentence}");
    }
    Ok(())
}

async fn objects(world: &World, client: &Client) -> anyhow::Result<()> {
    say("Creating a Secret, a ProviderCredential, first-boot data and a Machine");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    create(
        &secrets,
        json!({
            "metadata": { "name": "cloud", "labels": { PROVIDER_LABEL: "simulated" } },
            "type": "holdfast.dev/credential",
            "stringData": { "api-token": world.cloud.api_token() },
        }),
    )
    .await?;
    create(
        &secrets,
        json!({
            "metadata": { "name": "first-boot", "labels": { FIRST_BOOT_LABEL: "true" } },
            "stringData": { "userData": world.user_data },
        }),
    )
    .await?;
    let credentials: Api<ProviderCredential> = Api::all(client.clone());
    create(
        &credentials,
        json!({
            "metadata": { "name": "demo-simulated" },
            "spec": { "siteName": "demo", "provider": "simulated",
                      "auth": { "mode": "ExternalPlugin", "secretRef": { "name": "cloud" } } },
        }),
    )
    .await?;
    let machines: Api<Machine> = Api::all(client.clone());
    create(&machines, json!({
        "metadata": { "name": "node-1", "labels": { SITE_LABEL: "demo" } },
        "spec": {
            "host": { "external": { "provider": "simulated", "providerID": format!("sim://{}", world.server) },
                      "image": "image-2" },
            "userDataRef": { "name": "first-boot" },
        },
    }))
    .await
}

/// Creates an object from JSON; the type and kind are those of `K`.
async fn create<K>(api: &Api<K>, object: serde_json::Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::Serialize
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let object: K = serde_json::from_value(typed::<K>(object)).context("the object has another shape")?;
    let made = api.create(&PostParams::default(), &object).await?;
    println!("    {}/{} created", K::kind(&()).to_lowercase(), made.name_any());
    Ok(())
}

fn typed<K: kube::Resource<DynamicType = ()>>(mut object: serde_json::Value) -> serde_json::Value {
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    object
}

async fn operate(client: &Client, kind: &str) -> anyhow::Result<()> {
    let operations: Api<MachineOperation> = Api::all(client.clone());
    let name = kind.replace("Host", "demo-").to_lowercase();
    let object = json!({
        "metadata": { "name": name },
        "spec": { "machineRef": { "name": "node-1" }, "operationKind": kind, "deadlineSeconds": 80 },
    });
    let object: MachineOperation = serde_json::from_value(typed::<MachineOperation>(object))?;
    let began = Instant::now();
    operations.create(&PostParams::default(), &object).await?;
    let mut shown = Vec::new();
    let ended = wait_for(&operations, &name, kind, |operation| {
        for line in timeline(operation) {
            if !shown.contains(&line) {
                println!("    {:>6.2} s  {line}", began.elapsed().as_secs_f32());
                shown.push(line);
            }
        }
        let status = operation.status.clone().unwrap_or_default();
        status.phase.is_terminal().then_some(Ok(status))
    })
    .await?;
    ensure!(
        ended.phase == Phase::Complete,
        "{kind} ended {}: {} {}",
        ended.phase.as_str(),
        ended.reason.unwrap_or_default(),
        ended.message.unwrap_or_default()
    );
    Ok(())
}

/// What an operation's status says, as lines that appear once each.
fn timeline(operation: &MachineOperation) -> Vec<String> {
    let Some(status) = &operation.status else { return Vec::new() };
    let mut lines = Vec::new();
    for effect in &status.effects {
        let created: Vec<String> = effect.created.iter().map(|it| format!("{} {}", it.kind, it.id)).collect();
        let made = if created.is_empty() { String::new() } else { format!(", made {}", created.join(", ")) };
        lines.push(format!(
            "effect {} ({}, attempt {}): {:?}{made}",
            effect.key, effect.call, effect.attempts, effect.state
        ));
    }
    if let Some(handle) = status.target.as_ref().and_then(|target| target.provider_operation.as_ref()) {
        lines.push(format!("handle {} stored", handle.operation_id));
    }
    let reason = status.reason.as_deref().map_or(String::new(), |reason| format!(" ({reason})"));
    lines.push(format!("phase {}{reason}", status.phase.as_str()));
    lines
}

/// Watches one object until `done` gives an end.
async fn wait_for<K, T>(
    api: &Api<K>,
    name: &str,
    what: &str,
    mut done: impl FnMut(&K) -> Option<Result<T, String>>,
) -> anyhow::Result<T>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let mut changes = Box::pin(watcher::watch_object(api.clone(), name));
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let change = tokio::time::timeout_at(end, changes.next())
            .await
            .with_context(|| format!("{what} {name} did not come to an end within {PATIENCE:?}"))?;
        match change {
            Some(Ok(Some(object))) => match done(&object) {
                Some(Ok(end)) => return Ok(end),
                Some(Err(why)) => bail!("{what} {name}: {why}"),
                None => {}
            },
            Some(Ok(None)) => {}
            Some(Err(error)) => return Err(error).context("the watch broke"),
            None => bail!("the watch ended"),
        }
    }
}

/// The cloud's own books: each effect exactly once, the old server gone, the new one with the data byte for byte.
async fn check_ledger(world: &World, client: &Client) -> anyhow::Result<()> {
    say("Asking the cloud's own ledger what really happened");
    let machines: Api<Machine> = Api::all(client.clone());
    let machine = machines.get("node-1").await?;
    let id = machine.spec.host.external.provider_id.unwrap_or_default();
    let new = id.strip_prefix("sim://").context("the machine has no provider ID of the cloud")?.to_string();
    let ledger = world.cloud.ledger();
    for (kind, server) in [
        (EffectKind::PowerOff, &world.server),
        (EffectKind::PowerOn, &world.server),
        (EffectKind::Reset, &world.server),
        (EffectKind::Replace, &new),
        (EffectKind::Delete, &world.server),
    ] {
        let count = ledger.count(kind, server);
        println!("    {kind:?} of {server}: {count}");
        ensure!(count == 1, "{kind:?} of {server} happened {count} times, not once");
    }
    ensure!(new != world.server, "the machine still names the old server");
    ensure!(
        world.cloud.user_data(&new).as_deref() == Some(world.user_data.as_bytes()),
        "the new server's first-boot data is not what was given"
    );
    println!("    first-boot data of {new}: {} bytes, as given", world.user_data.len());
    Ok(())
}
