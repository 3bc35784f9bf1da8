//! The rooms of a daemon over a simulated cloud in the same process, one class, and many allocations from it.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{Stream, StreamExt, TryStreamExt};
use holdfast_api::{
    AllocationPhase, FIRST_BOOT_LABEL, Machine, MachineAllocation, MachineClass, PROVIDER_LABEL,
    ProviderCredential, SYSTEM_NAMESPACE,
};
use holdfast_apiserver::ApiServer;
use holdfast_apiserver::store::SqliteStore;
use holdfast_controllers::{Controllers, LeaseSettings};
use holdfast_custody::Custody;
use holdfast_simulated_cloud::{Cloud, EffectKind, Options};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::clock::QuickClock;
use super::counter::{Counter, Tally, Written};
use super::support::rooms::{self, SITE};

/// All allocations take one step before the first takes its next: on a busy machine, that is long for thousands.
const PATIENCE: Duration = Duration::from_secs(900);
/// Requests to the API that the person has under way at once.
const AT_ONCE: usize = 64;
const CLASS: &str = "standard";
const TEMPLATE: &str = "#cloud-config\nhostname: {{ machine.name }}.{{ values.domain }}\nzone: {{ machine.zone }}\n\
    chpasswd: { list: [ {{ values.password | tojson }} ] }\n";

/// What a host gets at its first boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstBoot {
    /// A template in a ConfigMap, with a value out of a Secret.
    Template,
    /// The bytes of a Secret.
    Whole,
}

impl FirstBoot {
    pub fn word(self) -> &'static str {
        match self {
            FirstBoot::Template => "template",
            FirstBoot::Whole => "whole Secret",
        }
    }

    fn source(self) -> Value {
        match self {
            FirstBoot::Whole => json!({ "secretRef": { "name": "whole" } }),
            FirstBoot::Template => {
                let values = json!([{ "name": "domain", "value": "example.net" },
                    { "name": "password", "secretRef": { "name": "values" } }]);
                json!({ "template": { "configMapRef": { "name": "first-boot" }, "values": values } })
            }
        }
    }
}

type Changes = std::pin::Pin<Box<dyn Stream<Item = watcher::Result<Event<MachineAllocation>>> + Send>>;

pub struct House {
    pub clock: Arc<QuickClock>,
    tally: Arc<Tally>,
    store: PathBuf,
    cloud: Cloud,
    api: ApiServer,
    client: Client,
    stop: watch::Sender<bool>,
    controllers: JoinHandle<()>,
    changes: Changes,
    /// How often the watch above had to list anew.
    listings: usize,
    names: HashSet<String>,
}

impl House {
    pub async fn open(folder: &Path, module: &[u8]) -> Result<House> {
        let cloud = Cloud::start(Options { record_limit: 0, ..Options::default() }).await?;
        let custody = Custody::new(holdfast_custody::Options::default())?;
        let registry = rooms::registry(folder, module, &cloud, &custody).await?;
        let store = folder.join("store");
        let (tally, clock) = (Arc::new(Tally::default()), Arc::new(QuickClock::default()));
        let counter = Counter { store: SqliteStore::open(&store)?, tally: tally.clone() };
        let api = ApiServer::open_with(Box::new(counter), &store, Default::default()).await?;
        let client = api.client();
        let mut deps = rooms::deps(client.clone(), registry, custody);
        deps.clock = clock.clone();
        // So long that it holds also while an hour passes in seconds.
        deps.lease = LeaseSettings { duration: Duration::from_secs(3600), ..deps.lease };
        let (stop, stopped) = watch::channel(false);
        let controllers = Controllers::new(deps, &mut prometheus_client::registry::Registry::default());
        let controllers = tokio::spawn(controllers.run(stopped));
        let api_of_allocations = Api::<MachineAllocation>::all(client.clone());
        let changes = watcher(api_of_allocations, watcher::Config::default()).default_backoff().boxed();
        let (listings, names) = (0, HashSet::new());
        let mut house =
            House { clock, tally, store, cloud, api, client, stop, controllers, changes, listings, names };
        house.prepare().await?;
        Ok(house)
    }

    async fn prepare(&mut self) -> Result<()> {
        let secrets = || Api::<Secret>::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let maps = || Api::<ConfigMap>::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let token = json!({ "type": "holdfast.dev/credential",
            "metadata": { "name": "cloud", "labels": { PROVIDER_LABEL: "simulated" } },
            "stringData": { "api-token": self.cloud.api_token() } });
        create(secrets(), token).await?;
        let credential = json!({ "metadata": { "name": "bench-simulated" },
            "spec": { "siteName": SITE, "provider": "simulated",
                      "auth": { "mode": "ExternalPlugin", "secretRef": { "name": "cloud" } } } });
        create(Api::<ProviderCredential>::all(self.client.clone()), object("ProviderCredential", credential))
            .await?;
        let values = json!({ "metadata": { "name": "values", "labels": { FIRST_BOOT_LABEL: "true" } },
            "stringData": { "password": "p\"4ss-w0rd of the bench" } });
        create(secrets(), values).await?;
        let whole = json!({ "metadata": { "name": "whole", "labels": { FIRST_BOOT_LABEL: "true" } },
            "stringData": { "userData": format!("#cloud-config\n# {}\n", "0123456789abcdef".repeat(64)) } });
        create(secrets(), whole).await?;
        create(maps(), json!({ "metadata": { "name": "first-boot" }, "data": { "template": TEMPLATE } }))
            .await?;
        create(maps(), json!({ "metadata": { "name": CLASS }, "data": { "image": "image-1" } })).await?;
        let class = json!({ "metadata": { "name": CLASS },
            "spec": { "provider": "simulated", "siteName": SITE, "providerConfigRef": { "name": CLASS } } });
        let classes = Api::<MachineClass>::all(self.client.clone());
        create(classes, object("MachineClass", class)).await
    }

    /// Makes so many allocations and waits until each has its host. Returns how long it took from before the first.
    pub async fn allocate(&mut self, first: usize, count: usize, data: FirstBoot) -> Result<Duration> {
        let begun = Instant::now();
        let api = Api::<MachineAllocation>::all(self.client.clone());
        let maker = tokio::spawn(async move {
            let all = (first..first + count).map(|n| {
                let spec = json!({ "classRef": { "name": CLASS }, "userData": data.source() });
                let one = json!({ "metadata": { "name": format!("node-{n}") }, "spec": spec });
                create(api.clone(), object("MachineAllocation", one))
            });
            futures::stream::iter(all).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await
        });
        let mut left: HashSet<String> = (first..first + count).map(|n| format!("node-{n}")).collect();
        self.names.extend(left.iter().cloned());
        while !left.is_empty() {
            let change = self.change().await;
            let allocation = match self.or_tell(change, &left).await? {
                Event::Apply(allocation) | Event::InitApply(allocation) => allocation,
                _ => continue,
            };
            match allocation.status.as_ref().map(|status| status.phase) {
                Some(AllocationPhase::Allocated) => drop(left.remove(&allocation.name_any())),
                Some(AllocationPhase::Failed) => bail!("no host: {:#?}", allocation.status),
                _ => {}
            }
        }
        maker.await??;
        Ok(begun.elapsed())
    }

    /// Deletes all allocations and waits until they are gone.
    pub async fn release(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut left = std::mem::take(&mut self.names);
        let (api, names) = (Api::<MachineAllocation>::all(self.client.clone()), left.clone());
        let deleter = tokio::spawn(async move {
            let all = names.into_iter().map(|name| {
                let api = api.clone();
                async move { api.delete(&name, &DeleteParams::default()).await.map(drop) }
            });
            futures::stream::iter(all).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await
        });
        let mut listed = HashSet::new();
        while !left.is_empty() {
            let change = self.change().await;
            match self.or_tell(change, &left).await? {
                Event::Delete(allocation) => drop(left.remove(&allocation.name_any())),
                Event::Init => listed.clear(),
                Event::InitApply(allocation) => drop(listed.insert(allocation.name_any())),
                // What was missed is what is not there any more.
                Event::InitDone => left.retain(|name| listed.contains(name)),
                Event::Apply(_) => {}
            }
        }
        deleter.await??;
        Ok(begun.elapsed())
    }

    async fn change(&mut self) -> Result<Event<MachineAllocation>> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.changes.next()).await;
            let next = next.context("nothing changes any more")?.context("the watch ended")?;
            // A watch that fell behind lists anew.
            let Ok(event) = next else { continue };
            self.listings += usize::from(matches!(event, Event::Init));
            return Ok(event);
        }
    }

    /// If nothing changes any more, what one of those that are left says.
    async fn or_tell<T>(&self, change: Result<T>, left: &HashSet<String>) -> Result<T> {
        if change.is_err()
            && let Some(name) = left.iter().next()
        {
            let one = Api::<MachineAllocation>::all(self.client.clone()).get_opt(name).await;
            return change.with_context(|| format!("{} are left, such as {one:#?}", left.len()));
        }
        change
    }

    pub fn written(&self) -> Written {
        self.tally.now()
    }

    pub fn listings(&self) -> usize {
        self.listings
    }

    /// Requests that the cloud has answered so far, by route.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        self.cloud.request_counts()
    }

    /// Bytes of the files of the store.
    pub fn store_size(&self) -> Result<u64> {
        let mut size = 0;
        for entry in std::fs::read_dir(&self.store)? {
            size += entry?.metadata()?.len();
        }
        Ok(size)
    }

    /// Waits until nothing is written but the lease for a second.
    pub async fn settled(&self) {
        let busy = |written: Written| {
            written.writes.iter().filter(|(kind, _)| !kind.contains("lease")).map(|(_, n)| *n).sum::<usize>()
        };
        let mut before = busy(self.written());
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = busy(self.written());
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// By the cloud's own ledger: so many hosts were made with first-boot data, each once, and all are gone.
    pub async fn nothing_left(&self, hosts: usize) -> Result<()> {
        let ledger = self.cloud.ledger();
        let (made, deleted) = (ledger.total(EffectKind::Create), ledger.total(EffectKind::Delete));
        ensure!((made, deleted) == (hosts, hosts), "of {hosts} hosts {made} were made and {deleted} deleted");
        ensure!(ledger.live.is_empty() && ledger.live_parts.is_empty(), "left over: {:?}", ledger.live);
        ensure!(ledger.twins().is_empty(), "made twice: {:?}", ledger.twins());
        let empty = ledger.creates().into_iter().filter(|effect| effect.user_data_sha256.is_none()).count();
        ensure!(empty == 0, "{empty} hosts have no first-boot data");
        let machines = Api::<Machine>::all(self.client.clone()).list_metadata(&Default::default()).await?;
        ensure!(machines.items.is_empty(), "{} Machines are left", machines.items.len());
        Ok(())
    }

    pub async fn close(self) -> Result<()> {
        self.stop.send_replace(true);
        self.controllers.await?;
        self.api.shutdown().await;
        self.cloud.stop().await;
        Ok(())
    }
}

fn object(kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = "holdfast.dev/v1alpha1".into();
    object["kind"] = kind.into();
    object
}

async fn create<K>(api: Api<K>, object: Value) -> Result<()>
where
    K: kube::Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}
