//! The daemon as a whole: rooms opened in order, wired, served, and closed in the reverse order.

mod bridge;
mod budget_metrics;
mod overlay;
mod reload;
mod store_metrics;

use crate::config::Config;
use crate::{keys, observe, policies};
use anyhow::Context;
use bridge::Hooks;
use budget_metrics::BudgetMetrics;
use holdfast_apiserver::ApiServer;
use holdfast_controllers::clock::SystemClock;
use holdfast_controllers::{Controllers, Deps, Effects, LeaseSettings, Scope, Settings};
use holdfast_custody::Custody;
use holdfast_runtime::{Engine, EngineOptions, MemoryWitness, Registry};
use overlay::Overlays;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store_metrics::StoreMetrics;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Operations that are driven at a time; more wait in the queue.
const WORKERS: usize = 64;

/// What a caller may ask of a daemon beside its configuration.
#[derive(Default)]
pub struct Options {
    /// Sees the whole linear memory of every guest when it ends. Slow: for evidence.
    pub witness: Option<Arc<dyn MemoryWitness>>,
    /// Read this file again when it, or a secret or CA file that it names, changes.
    pub watch_config: Option<PathBuf>,
}

/// A running daemon.
pub struct Daemon {
    api: ApiServer,
    client: kube::Client,
    custody: Custody,
    kubeconfig: PathBuf,
    api_address: SocketAddr,
    ready: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    /// In the order in which they are waited for.
    tasks: Vec<JoinHandle<()>>,
    drain: Duration,
}

/// Opens the state directory, loads what is in the providers folder and serves. Returns once the API answers.
pub async fn start(config: Config, options: Options) -> anyhow::Result<Daemon> {
    let follower = options.watch_config.map(|path| reload::Follower::new(path, &config));
    keys::state_dir(&config.state_dir)?;
    let master = keys::master(&config.state_dir, config.state_dir.join("store").exists())?;
    let custody = Custody::new(holdfast_custody::Options { master_key: master, ..Default::default() })?;
    let effects = Effects::new(Arc::new(custody.clone()));
    let engine = engine(&config, options.witness)?;
    let overlays = Arc::new(Overlays::new(&config)?);
    let hooks = Arc::new(Hooks(custody.clone()));
    let registry = Registry::new(engine, config.providers_dir.clone(), hooks, policies::policies(&config)?);

    let api = ApiServer::open(config.state_dir.join("store"), Default::default()).await?;
    let listener = bind(config.api.listen).await?;
    let api_address = listener.local_addr()?;
    let kubeconfig = config.kubeconfig();
    api.write_kubeconfig(&kubeconfig, api_address)?;

    let mut metrics = prometheus_client::registry::Registry::with_prefix("holdfast");
    metrics.register_collector(Box::new(StoreMetrics::new(api.clone())));
    metrics.register_collector(Box::new(BudgetMetrics::new(custody.clone())));
    let deps = deps(&config, &api, &custody, effects, &registry, overlays.clone());
    let controllers = Controllers::new(deps, &mut metrics);

    let (stop, stopped) = watch::channel(false);
    let ready = Arc::new(AtomicBool::new(false));
    let store = api.clone();
    let store_failed = Box::new(move || store.store_failed());
    let observed = Arc::new(observe::Observed { registry: metrics, ready: ready.clone(), store_failed });
    let observer = bind(config.observe.listen).await?;
    tracing::info!(address = %observer.local_addr()?, "metrics and health");
    let mut tasks = vec![tokio::spawn(controllers.run(stopped.clone()))];
    tasks.push(tokio::spawn(watch_folder(registry.clone(), stopped.clone())));
    if let Some(follower) = follower {
        tasks.push(tokio::spawn(follower.run(registry, overlays, stopped.clone())));
    }
    tokio::spawn(observe::serve(observer, observed));
    let serving = api.clone();
    tasks.push(tokio::spawn(async move { serving.serve(listener).await }));
    ready.store(true, Ordering::Release);
    let drain = Duration::from_secs(config.limits.drain_seconds);
    Ok(Daemon { client: api.client(), api, custody, kubeconfig, api_address, ready, stop, tasks, drain })
}

impl Daemon {
    /// A client in this process.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    pub fn custody(&self) -> &Custody {
        &self.custody
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub fn api_address(&self) -> SocketAddr {
        self.api_address
    }

    /// Takes no new work, waits for what is on the wire, logs out of sessions, closes the store.
    pub async fn stop(mut self) {
        self.ready.store(false, Ordering::Release);
        self.stop.send_replace(true);
        let controllers = self.tasks.remove(0);
        // The controllers bound their own drain twice (callbacks, then exchanges); this is the last resort.
        if tokio::time::timeout(self.drain * 3, controllers).await.is_err() {
            tracing::warn!("the drain took too long and was cut short; the journal holds every intent");
        }
        self.custody.shutdown().await;
        self.api.shutdown().await;
        for task in self.tasks {
            if tokio::time::timeout(Duration::from_secs(5), task).await.is_err() {
                tracing::warn!("a task did not end in time");
            }
        }
    }
}

fn engine(config: &Config, witness: Option<Arc<dyn MemoryWitness>>) -> anyhow::Result<Engine> {
    let limits = &config.limits;
    Ok(Engine::new(EngineOptions {
        concurrent_calls: limits.concurrent_calls,
        memory_limit: (limits.guest_memory_mib as usize) << 20,
        call_timeout: Duration::from_secs(limits.call_seconds),
        guest_threads: limits.guest_threads,
        witness,
        ..EngineOptions::default()
    })?)
}

fn deps(
    config: &Config,
    api: &ApiServer,
    custody: &Custody,
    effects: Effects,
    registry: &Registry,
    overlays: Arc<Overlays>,
) -> Deps {
    let limits = &config.limits;
    let seconds = Duration::from_secs(limits.call_seconds);
    let identity = format!("holdfast-{}", std::process::id());
    Deps {
        client: api.client(),
        clock: Arc::new(SystemClock),
        modules: Arc::new(registry.clone()),
        effects,
        vault: Arc::new(custody.clone()),
        overlay: overlays,
        // The store's exclusive lock keeps every other daemon out.
        lease: LeaseSettings { take_over: true, ..LeaseSettings::new(identity) },
        settings: Settings {
            act_timeout: seconds,
            poll_timeout: seconds,
            sweep_interval: Duration::from_secs(config.orphans.sweep_interval_seconds),
            orphan_age: Duration::from_secs(config.orphans.minimum_age_seconds),
            orphan_releases_per_hour: config.orphans.releases_per_hour,
            ..Settings::default()
        },
        scope: Scope::default(),
        workers: WORKERS,
        drain: Duration::from_secs(limits.drain_seconds),
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{address} cannot be listened on"))
}

async fn watch_folder(registry: Registry, mut stopped: watch::Receiver<bool>) {
    registry
        .run(async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        })
        .await;
}
