//! The rooms of a daemon, wired as the daemon wires them, over a simulated cloud in the same process.

use anyhow::{Result, bail};
use holdfast_controllers::clock::SystemClock;
use holdfast_controllers::rooms::NoOverlay;
use holdfast_controllers::{Deps, Effects, LeaseSettings, Scope, Settings};
use holdfast_custody::binding::{Binding, Grants};
use holdfast_custody::{Custody, Revision};
use holdfast_manifest::Manifest;
use holdfast_runtime::{Engine, EngineOptions, Policies, ProviderPolicy, Registry, RegistryHooks};
use holdfast_simulated_cloud::Cloud;
use kube::Client;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const SITE: &str = "bench";
/// As in the daemon.
const WORKERS: usize = 64;
/// A module that takes longer to load is refused.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the controllers of a daemon work with.
pub fn deps(client: Client, registry: Registry, custody: Custody) -> Deps {
    Deps {
        client,
        clock: Arc::new(SystemClock),
        modules: Arc::new(registry),
        effects: Effects::new(Arc::new(custody.clone())),
        vault: Arc::new(custody),
        overlay: Arc::new(NoOverlay),
        lease: LeaseSettings { take_over: true, ..LeaseSettings::new("bench") },
        settings: Settings::default(),
        scope: Scope::default(),
        workers: WORKERS,
        drain: Duration::from_secs(20),
    }
}

/// The provider `simulated`, bound to a cloud, once it serves.
pub async fn registry(folder: &Path, module: &[u8], cloud: &Cloud, custody: &Custody) -> Result<Registry> {
    let providers = folder.join("providers");
    std::fs::create_dir(&providers)?;
    std::fs::write(providers.join("simulated.wasm"), module)?;
    let inspected = holdfast_runtime::inspect(module)?;
    let binding = Binding {
        endpoint: "api".to_owned(),
        site: Some(SITE.to_owned()),
        value: None,
        origin: Some(cloud.origin().to_owned()),
        ca_pem: Some(cloud.ca_pem().to_owned()),
        pin_sha256: None,
        ranges: vec!["127.0.0.1/32".parse()?],
        vars: BTreeMap::new(),
        auth: None,
        aliases: Vec::new(),
    };
    let policy = ProviderPolicy {
        sha256: None,
        calls: Some(inspected.manifest.call_set.clone()),
        grants: Grants { bindings: vec![binding], calls: Default::default() },
    };
    let policies = Policies { providers: BTreeMap::from([("simulated".to_owned(), policy)]) };
    let engine = Engine::new(EngineOptions::default())?;
    let registry = Registry::new(engine, providers, Arc::new(Hooks(custody.clone())), policies);
    let begun = Instant::now();
    while registry.get("simulated").is_none() {
        if begun.elapsed() > PATIENCE {
            bail!("the module does not come to serve: {:?}", registry.snapshot());
        }
        registry.rescan().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(registry)
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
