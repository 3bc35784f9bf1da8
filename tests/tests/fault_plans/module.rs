//! The simulated provider, compiled once for all plans, under manifests that differ in how a lost create goes on.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll};

use holdfast_controllers::rooms::{HostFailure, ModuleReport, Modules, ProviderModule};
use holdfast_custody::Revision;
use holdfast_effects::{Callback, Port, Returned};
use holdfast_manifest::Manifest;
use holdfast_runtime::{Engine, EngineOptions, Module};
use jiff::Timestamp;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::plan::Replays;

/// Where clouds and guests run: real time, while the daemons' time is moved by hand.
pub static REAL: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
});

static MODULE: LazyLock<Arc<Module>> = LazyLock::new(|| {
    let file = holdfast_tests::modules::build().and_then(|modules| modules.provider("simulated"));
    let bytes = std::fs::read(file.expect("the simulated provider is built")).expect("it can be read");
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    engine.load(&bytes).expect("the simulated provider loads")
});

/// The manifest as it is, or with a lookup in place of the token's promise.
pub fn manifest(replays: Replays) -> Arc<Manifest> {
    static TEXTS: LazyLock<[Arc<Manifest>; 2]> = LazyLock::new(|| {
        let path = holdfast_tests::folders::checkout().join("providers/simulated/provider.toml");
        let text = std::fs::read_to_string(path).expect("the manifest can be read");
        let lookup = text.replace("replay = \"token\"\ntoken-life = \"1h\"\n", "replay = \"lookup\"\n");
        assert!(text != lookup && !lookup.contains("\"token\"\ntoken-life"), "every token became a lookup");
        [text, lookup].map(|text| Arc::new(Manifest::parse(&text).unwrap_or_else(|error| panic!("{error}"))))
    });
    TEXTS[replays as usize].clone()
}

/// The modules of one life: one, or none while it is away.
pub struct OneModule {
    manifest: Arc<Manifest>,
    pub revision: Mutex<Option<u32>>,
    changes: watch::Sender<u64>,
}

impl OneModule {
    pub fn new(manifest: Arc<Manifest>) -> Arc<OneModule> {
        // The first plan waits for the module, and not the first callback.
        LazyLock::force(&MODULE);
        Arc::new(OneModule { manifest, revision: Mutex::new(Some(1)), changes: watch::Sender::new(0) })
    }

    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Another revision serves from now on, or none.
    pub fn swap(&self, revision: Option<u32>) {
        *self.revision.lock().unwrap() = revision;
        self.changes.send_modify(|changes| *changes += 1);
    }
}

pub fn revision(number: u32) -> Revision {
    Revision(format!("simulated@{number:064x}"))
}

impl Modules for OneModule {
    fn get(&self, provider: &str) -> Option<Arc<dyn ProviderModule>> {
        let number = (*self.revision.lock().unwrap()).filter(|_| provider == "simulated")?;
        Some(Arc::new(Loaded { revision: revision(number), manifest: self.manifest.clone() }))
    }

    fn reports(&self) -> Vec<ModuleReport> {
        Vec::new()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

struct Loaded {
    revision: Revision,
    manifest: Arc<Manifest>,
}

#[async_trait::async_trait]
impl ProviderModule for Loaded {
    fn revision(&self) -> Revision {
        self.revision.clone()
    }

    fn manifest(&self) -> Arc<Manifest> {
        self.manifest.clone()
    }

    /// The guest's time is real: it may not be cut off because the daemon's time was moved.
    async fn call(
        &self,
        callback: Callback,
        port: Arc<dyn Port>,
        _: Timestamp,
    ) -> Result<Returned, HostFailure> {
        let task = REAL.spawn(async move { MODULE.call(callback, port, Timestamp::MAX).await });
        Aborted(task).await.map_err(HostFailure::from)
    }
}

/// A task that ends with whoever waits for it.
struct Aborted<T>(JoinHandle<T>);

impl<T> Future for Aborted<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context).map(|joined| joined.expect("the guest's task ends"))
    }
}

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
