//! The rooms of a daemon over a simulated cloud in the same process, and machines to power off.

use super::recorder::{Recorder, Tape};
use super::support::rooms::{self, SITE};
use anyhow::{Context, Result, bail};
use futures::StreamExt;
use holdfast_api::{
    Machine, MachineOperation, PROVIDER_LABEL, Phase, ProviderCredential, SITE_LABEL, SYSTEM_NAMESPACE,
};
use holdfast_apiserver::ApiServer;
use holdfast_apiserver::store::SqliteStore;
use holdfast_controllers::Controllers;
use holdfast_custody::Custody;
use holdfast_simulated_cloud::{Cloud, Options, Seed};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// An operation that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct House {
    pub tape: Arc<Tape>,
    cloud: Cloud,
    api: ApiServer,
    client: Client,
    stop: watch::Sender<bool>,
    controllers: JoinHandle<()>,
    ended: mpsc::UnboundedReceiver<(String, Phase)>,
    machines: usize,
    operations: usize,
}

impl House {
    pub async fn open(folder: &Path, module: &[u8]) -> Result<House> {
        let cloud = Cloud::start(Options { record_limit: 0, ..Options::default() }).await?;
        // An action is done when its answer leaves: the second look of an operation sees it.
        cloud.behave(|behaviour| behaviour.action_ms = 0);
        let custody = Custody::new(holdfast_custody::Options::default())?;
        let registry = rooms::registry(folder, module, &cloud, &custody).await?;
        let store = folder.join("store");
        let tape = Arc::new(Tape::default());
        let recorder = Recorder::new(SqliteStore::open(&store)?, tape.clone());
        let api = ApiServer::open_with(Box::new(recorder), &store, Default::default()).await?;
        let client = api.client();
        let deps = rooms::deps(client.clone(), registry, custody);
        let (stop, stopped) = watch::channel(false);
        let controllers = Controllers::new(deps, &mut prometheus_client::registry::Registry::default());
        let controllers = tokio::spawn(controllers.run(stopped));
        let (tell, ended) = mpsc::unbounded_channel();
        tokio::spawn(watch_operations(Api::all(client.clone()), tell));
        let house = House { tape, cloud, api, client, stop, controllers, ended, machines: 0, operations: 0 };
        house.credentials().await?;
        Ok(house)
    }

    async fn credentials(&self) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "holdfast.dev/credential",
            "metadata": { "name": "cloud", "labels": { PROVIDER_LABEL: "simulated" } },
            "stringData": { "api-token": self.cloud.api_token() } });
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        let credentials: Api<ProviderCredential> = Api::all(self.client.clone());
        let credential = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "ProviderCredential",
            "metadata": { "name": "bench-simulated" },
            "spec": { "siteName": SITE, "provider": "simulated",
                      "auth": { "mode": "ExternalPlugin", "secretRef": { "name": "cloud" } } } });
        credentials.create(&PostParams::default(), &serde_json::from_value(credential)?).await?;
        Ok(())
    }

    /// Further machines that are on, each with a server of its own.
    pub async fn machines(&mut self, count: usize) -> Result<()> {
        let machines: Api<Machine> = Api::all(self.client.clone());
        for n in self.machines..self.machines + count {
            let server = self.cloud.seed_server(Seed::named(&format!("node-{n}")))?;
            let machine = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "Machine",
                "metadata": { "name": format!("node-{n}"), "labels": { SITE_LABEL: SITE } },
                "spec": { "host": { "external": { "provider": "simulated", "providerID": format!("sim://{server}") } } } });
            machines.create(&PostParams::default(), &serde_json::from_value(machine)?).await?;
        }
        self.machines += count;
        Ok(())
    }

    /// Powers so many machines off, each once, with at most `at_once` operations that are not complete. Returns how
    /// long each took, from before its creation until a watch showed it complete, and all of them together.
    pub async fn power_off(&mut self, count: usize, at_once: usize) -> Result<(Vec<u64>, Duration)> {
        let (last, begun) = (self.operations + count, Instant::now());
        let (mut running, mut nanos) = (BTreeMap::new(), Vec::with_capacity(count));
        while nanos.len() < count {
            let room = at_once.min(last - self.operations + running.len()) - running.len();
            let fresh: Vec<String> =
                (self.operations..self.operations + room).map(|n| format!("off-{n}")).collect();
            self.operations += room;
            for name in &fresh {
                running.insert(name.clone(), Instant::now());
            }
            futures::future::try_join_all(fresh.iter().map(|name| self.create(name))).await?;
            let (name, phase) =
                tokio::time::timeout(PATIENCE, self.ended.recv()).await?.context("the watch ended")?;
            if let Some(since) = running.remove(&name) {
                if phase != Phase::Complete {
                    bail!("operation {name} ended {}", phase.as_str());
                }
                nanos.push(since.elapsed().as_nanos() as u64);
            }
        }
        Ok((nanos, begun.elapsed()))
    }

    async fn create(&self, name: &str) -> Result<()> {
        let machine = name.replace("off-", "node-");
        let operation = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineOperation",
            "metadata": { "name": name },
            "spec": { "machineRef": { "name": machine }, "operationKind": "HostPowerOff" } });
        let operations: Api<MachineOperation> = Api::all(self.client.clone());
        operations.create(&PostParams::default(), &serde_json::from_value(operation)?).await?;
        Ok(())
    }

    /// Requests that the cloud has answered so far.
    pub fn requests(&self) -> u64 {
        self.cloud.request_counts().values().sum()
    }

    pub async fn close(self) -> Result<()> {
        self.stop.send_replace(true);
        self.controllers.await?;
        self.api.shutdown().await;
        self.cloud.stop().await;
        Ok(())
    }
}

async fn watch_operations(api: Api<MachineOperation>, tell: mpsc::UnboundedSender<(String, Phase)>) {
    let mut changes = Box::pin(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(change) = changes.next().await {
        let Ok(Event::Apply(operation) | Event::InitApply(operation)) = change else { continue };
        let phase = operation.status.as_ref().map(|status| status.phase).unwrap_or_default();
        if phase.is_terminal() && tell.send((operation.name_any(), phase)).is_err() {
            return;
        }
    }
}
