//! The rooms of a daemon in this process, wired as the daemon wires them, with a look into every guest's memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_apiserver::ApiServer;
use holdfast_controllers::clock::SystemClock;
use holdfast_controllers::rooms::NoOverlay;
use holdfast_controllers::{Controllers, Deps, Effects, LeaseSettings, Scope, Settings};
use holdfast_custody::binding::{Binding, Grants};
use holdfast_custody::{Custody, Defences, Revision};
use holdfast_manifest::Manifest;
use holdfast_runtime::{
    Engine, EngineOptions, MemoryWitness, Policies, ProviderPolicy, Registry, RegistryHooks,
};
use holdfast_simulated_cloud::{AuthChange, Cloud, Options};
use kube::Client;
use ring::digest::{SHA256, digest};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::canary::{self, Look};

/// The module compiles without optimisation of the compiler's callers; a loaded machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rooms {
    pub cloud: Cloud,
    pub client: Client,
    pub witness: Arc<Witness>,
    custody: Custody,
    api: ApiServer,
    folder: tempfile::TempDir,
    stop: watch::Sender<bool>,
    controllers: JoinHandle<()>,
}

impl Rooms {
    pub async fn open(defences: Defences) -> Rooms {
        let folder = tempfile::tempdir().unwrap();
        let cloud =
            Cloud::start(Options { api_token: canary::PLAIN.into(), ..Options::default() }).await.unwrap();
        cloud.auth(AuthChange { token: Some(canary::HOSTILE.into()), ..AuthChange::default() });
        cloud.auth(AuthChange { token: Some(canary::REPEATING.into()), ..AuthChange::default() });
        let custody = Custody::new(holdfast_custody::Options { defences, ..Default::default() }).unwrap();
        let witness = Arc::new(Witness::new());
        let registry = registry(folder.path(), &cloud, &custody, witness.clone()).await;
        let api = ApiServer::open(folder.path().join("store"), Default::default()).await.unwrap();
        let client = api.client();
        let deps = Deps {
            client: client.clone(),
            clock: Arc::new(SystemClock),
            modules: Arc::new(registry),
            effects: Effects::new(Arc::new(custody.clone())),
            vault: Arc::new(custody.clone()),
            overlay: Arc::new(NoOverlay),
            lease: LeaseSettings { take_over: true, ..LeaseSettings::new("canaries") },
            settings: Settings::default(),
            scope: Scope::default(),
            workers: 64,
            drain: Duration::from_secs(20),
        };
        let (stop, stopped) = watch::channel(false);
        let controllers = Controllers::new(deps, &mut prometheus_client::registry::Registry::default());
        let controllers = tokio::spawn(controllers.run(stopped));
        Rooms { cloud, client, witness, custody, api, folder, stop, controllers }
    }

    /// Closes everything; gives what was seen in guest memory, in objects and in the files of the store.
    pub async fn close(self) -> BTreeSet<String> {
        let look = Look::for_all();
        let mut seen = BTreeSet::new();
        for path in ["machineoperations", "machines", "providers"] {
            let path = format!("/apis/holdfast.dev/v1alpha1/{path}");
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            let text = self.client.request_text(request).await.unwrap();
            seen.extend(look.sightings("objects", text.as_bytes()));
        }
        let request = http::Request::get("/api/v1/events").body(Vec::new()).unwrap();
        let text = self.client.request_text(request).await.unwrap();
        seen.extend(look.sightings("events", text.as_bytes()));
        self.stop.send_replace(true);
        self.controllers.await.unwrap();
        let spliced: Vec<_> = self.custody.evidence().into_iter().filter(|line| line.spliced > 0).collect();
        assert!(!spliced.is_empty(), "no secret was used");
        self.custody.shutdown().await;
        self.api.shutdown().await;
        self.cloud.stop().await;
        for entry in std::fs::read_dir(self.folder.path().join("store")).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            seen.extend(look.sightings("the store", &bytes));
        }
        assert!(self.witness.guests.load(Ordering::Relaxed) > 0, "no guest's memory was looked at");
        assert!(
            self.witness.controls.load(Ordering::Relaxed) > 0,
            "what a guest does hold was not seen in it"
        );
        seen.extend(self.witness.seen.lock().unwrap().iter().cloned());
        seen
    }
}

/// Looks at the whole linear memory of every guest when it ends.
pub struct Witness {
    look: Look,
    seen: Mutex<BTreeSet<String>>,
    /// Digests of pieces that were looked at and held nothing: most of a memory is the same in every guest.
    clean: Mutex<HashSet<Vec<u8>>>,
    pub guests: AtomicUsize,
    /// Pieces that hold the name of a server: it belongs there, and shows that the look is real.
    pub controls: AtomicUsize,
}

/// A piece of memory; pieces overlap by half, and no form is longer than that.
const PIECE: usize = 8192;

impl Witness {
    fn new() -> Witness {
        Witness {
            look: Look::for_all(),
            seen: Mutex::default(),
            clean: Mutex::default(),
            guests: AtomicUsize::new(0),
            controls: AtomicUsize::new(0),
        }
    }

    fn piece(&self, piece: &[u8]) {
        let digest = digest(&SHA256, piece).as_ref().to_vec();
        if self.clean.lock().unwrap().contains(&digest) {
            return;
        }
        if piece.windows(4).any(|window| window == b"srv-") {
            self.controls.fetch_add(1, Ordering::Relaxed);
        }
        let seen = self.look.sightings("guest memory", piece);
        if seen.is_empty() {
            self.clean.lock().unwrap().insert(digest);
        }
        self.seen.lock().unwrap().extend(seen);
    }
}

impl MemoryWitness for Witness {
    fn memory(&self, bytes: &[u8]) {
        self.guests.fetch_add(1, Ordering::Relaxed);
        let starts = (0..bytes.len()).step_by(PIECE / 2);
        let pieces = starts.map(|start| &bytes[start..bytes.len().min(start + PIECE)]);
        pieces.filter(|piece| **piece != [0; PIECE][..piece.len()]).for_each(|piece| self.piece(piece));
    }
}

async fn registry(folder: &Path, cloud: &Cloud, custody: &Custody, witness: Arc<Witness>) -> Registry {
    let module = tokio::task::spawn_blocking(|| {
        holdfast_tests::modules::build().unwrap().provider("simulated").unwrap()
    });
    let module = std::fs::read(module.await.unwrap()).unwrap();
    let providers = folder.join("providers");
    std::fs::create_dir(&providers).unwrap();
    std::fs::write(providers.join("simulated.wasm"), &module).unwrap();
    let binding = Binding {
        endpoint: "api".to_owned(),
        site: None,
        value: None,
        origin: Some(cloud.origin().to_owned()),
        ca_pem: Some(cloud.ca_pem().to_owned()),
        pin_sha256: None,
        ranges: vec!["127.0.0.1/32".parse().unwrap()],
        vars: BTreeMap::new(),
        auth: None,
        aliases: Vec::new(),
    };
    let policy = ProviderPolicy {
        sha256: None,
        calls: Some(holdfast_runtime::inspect(&module).unwrap().manifest.call_set.clone()),
        grants: Grants { bindings: vec![binding], calls: Default::default() },
    };
    let policies = Policies { providers: BTreeMap::from([("simulated".to_owned(), policy)]) };
    let engine = Engine::new(EngineOptions { witness: Some(witness), ..EngineOptions::default() }).unwrap();
    let registry = Registry::new(engine, providers, Arc::new(Hooks(custody.clone())), policies);
    let begun = Instant::now();
    while registry.get("simulated").is_none() {
        assert!(begun.elapsed() < PATIENCE, "the module does not come to serve: {:?}", registry.snapshot());
        registry.rescan().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    registry
}

struct Hooks(Custody);

impl RegistryHooks for Hooks {
    fn register(&self, id: Revision, manifest: Arc<Manifest>, grants: Grants) -> Result<Vec<String>, String> {
        let registered = self.0.register(id, manifest, grants);
        registered.map(|registered| registered.unbound).map_err(|error| error.to_string())
    }

    fn unregister(&self, id: Revision) {
        self.0.unregister(&id);
    }
}
