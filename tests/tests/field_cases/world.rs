//! One daemon, and for each case a site with a cloud of its own, so that no case meets another's faults.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::future::{BoxFuture, join_all};
use holdfast_api::{AllocationPhase, MachineAllocation, MachineClass, Provider, ProviderState};
use holdfast_manifest::Manifest;
use holdfast_simulated_cloud::{Cloud, Options};
use holdfast_tests::house::{Endpoint, Grant, House, credential_secret, until};
use holdfast_tests::{folders, modules};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Longest wait for anything: far more than an idle machine needs, so that a loaded one passes too.
pub const PATIENCE: Duration = Duration::from_secs(120);
pub const SYSTEM: &str = "holdfast-system";

pub type Case = fn(Site) -> BoxFuture<'static, Result<()>>;

/// What a case has to itself. Its site, class, allocation and Secrets bear one name.
pub struct Site {
    pub name: String,
    pub client: Client,
    pub cloud: Cloud,
}

/// Runs all cases at once against one daemon.
pub async fn run(cases: Vec<(&'static str, Case)>) -> BTreeMap<&'static str, Result<(), String>> {
    let names: Vec<&'static str> = cases.iter().map(|(name, _)| *name).collect();
    match begin(&names).await {
        Err(error) => {
            let told = format!("the daemon was not put up: {error:#}");
            names.into_iter().map(|name| (name, Err(told.clone()))).collect()
        }
        Ok((house, sites)) => {
            let running = cases.into_iter().zip(sites).map(|((name, case), site)| async move {
                (name, case(site).await.map_err(|error| format!("{error:#}")))
            });
            let mut outcomes: BTreeMap<_, _> = join_all(running).await.into_iter().collect();
            for failure in outcomes.values_mut().filter_map(|outcome| outcome.as_mut().err()) {
                failure.push_str(&format!("\nthe daemon's last words:\n{}", house.log_tail(12)));
            }
            outcomes
        }
    }
}

async fn begin(names: &[&str]) -> Result<(House, Vec<Site>)> {
    let module = tokio::task::spawn_blocking(|| modules::build()?.provider("simulated")).await??;
    let text = std::fs::read_to_string(folders::checkout().join("providers/simulated/provider.toml"))?;
    let manifest = Manifest::parse(&text).map_err(|errors| anyhow::anyhow!("{errors}"))?;
    let mut clouds = Vec::new();
    let mut grant = Grant::approving(&manifest);
    for number in 0..names.len() {
        let cloud = Cloud::start(Options::default()).await?;
        let site = Some(format!("site-{number}"));
        grant = grant.endpoint(Endpoint { site, ..Endpoint::at("api", cloud.origin(), cloud.ca_pem()) });
        clouds.push(cloud);
    }
    let mut house = House::new()?;
    house.log_filter("info").grant(grant);
    house.drop_in("simulated.wasm", &std::fs::read(module)?)?;
    house.start().await?;
    let client = house.client()?;
    until(&client, "simulated", PATIENCE, |provider: &Provider| {
        provider.status.as_ref().is_some_and(|status| status.state == ProviderState::Ready)
    })
    .await?;
    let mut sites = Vec::new();
    for (number, cloud) in clouds.into_iter().enumerate() {
        let name = format!("site-{number}");
        let token = cloud.api_token().as_bytes().to_vec();
        credential_secret(&client, &name, "simulated", &[("api-token", &token)]).await?;
        holdfast_tests::house::credential(&client, &name, "simulated", &name).await?;
        sites.push(Site { name, client: client.clone(), cloud });
    }
    Ok((house, sites))
}

impl Site {
    /// The site's class, of small servers in both zones, with more config.
    pub async fn class(&self, more: Value) -> Result<()> {
        let mut data = json!({ "image": "image-1", "types": "small" });
        for (key, value) in more.as_object().into_iter().flatten() {
            data[key] = value.clone();
        }
        let map = json!({ "metadata": { "name": self.name }, "data": data });
        create::<ConfigMap>(Api::namespaced(self.client.clone(), SYSTEM), map).await?;
        let class = json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineClass", "metadata": { "name": self.name },
            "spec": { "provider": "simulated", "siteName": self.name, "providerConfigRef": { "name": self.name } },
        });
        create::<MachineClass>(Api::all(self.client.clone()), class).await
    }

    /// The site's allocation.
    pub async fn allocate(&self, more: Value) -> Result<()> {
        let mut spec = json!({ "classRef": { "name": self.name } });
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let allocation = json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation",
            "metadata": { "name": self.name }, "spec": spec,
        });
        create::<MachineAllocation>(Api::all(self.client.clone()), allocation).await
    }

    pub async fn until(&self, wanted: impl Fn(&MachineAllocation) -> bool) -> Result<MachineAllocation> {
        until(&self.client, &self.name, PATIENCE, wanted).await
    }

    /// Waits until the host is there.
    pub async fn allocated(&self) -> Result<MachineAllocation> {
        let phase = |allocation: &MachineAllocation| Some(allocation.status.as_ref()?.phase);
        self.until(|allocation| phase(allocation) == Some(AllocationPhase::Allocated)).await
    }

    /// The one server that was ever made here, still alive.
    pub fn only_server(&self) -> Result<String> {
        let ledger = self.cloud.ledger();
        ensure!(ledger.twins().is_empty(), "twins: {:?}", ledger.twins());
        ensure!(ledger.creates().len() == 1, "one server is made, and these were: {:?}", ledger.creates());
        ensure!(ledger.live.len() == 1, "one server is alive, and these are: {:?}", ledger.live);
        Ok(ledger.live[0].clone())
    }

    /// Deletes the allocation, waits until it is gone, and looks that it left nothing.
    pub async fn release(&self) -> Result<()> {
        self.gone().await?;
        self.nothing_left()
    }

    /// Somebody with the account's token, beside the daemon.
    pub fn person(&self) -> Result<holdfast_tests::client::Client> {
        let client = holdfast_tests::client::Client::new(self.cloud.origin(), self.cloud.ca_pem())?;
        Ok(client.with_header("authorization", &format!("Bearer {}", self.cloud.api_token())))
    }

    /// Deletes the allocation and waits until it is gone.
    pub async fn gone(&self) -> Result<()> {
        let api: Api<MachineAllocation> = Api::all(self.client.clone());
        api.delete(&self.name, &DeleteParams::default()).await?;
        let began = Instant::now();
        while let Some(left) = api.get_opt(&self.name).await? {
            if began.elapsed() > PATIENCE {
                bail!("{} is not released: {:#?}", self.name, left.status);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    pub fn nothing_left(&self) -> Result<()> {
        let ledger = self.cloud.ledger();
        ensure!(ledger.live.is_empty(), "servers are left over: {:?}", ledger.live);
        ensure!(ledger.live_parts.is_empty(), "parts are left over: {:?}", ledger.live_parts);
        Ok(())
    }

    /// A Secret with first-boot data, under the site's name.
    pub async fn first_boot_data(&self, data: &[u8]) -> Result<Value> {
        let name = format!("{}-data", self.name);
        let secret = json!({ "metadata": { "name": name, "labels": { "holdfast.dev/first-boot-data": "true" } },
            "data": { "userData": STANDARD.encode(data) } });
        create::<Secret>(Api::namespaced(self.client.clone(), SYSTEM), secret).await?;
        Ok(json!({ "userData": { "secretRef": { "name": name } } }))
    }

    /// How many requests of this method, under this path, were answered well.
    pub fn answered(&self, method: &str, under: &str) -> usize {
        let requests = self.cloud.requests();
        let well = requests.iter().filter(|one| one.status == Some(200) && one.method == method);
        well.filter(|one| one.target.starts_with(under)).count()
    }

    /// How often a request of this method and path came.
    pub fn asked(&self, method: &str, path: &str) -> usize {
        let of = |target: &str| target.split('?').next() == Some(path);
        self.cloud.requests().iter().filter(|one| one.method == method && of(&one.target)).count()
    }
}

pub fn status(allocation: &MachineAllocation) -> Result<&holdfast_api::MachineAllocationStatus> {
    allocation.status.as_ref().context("the allocation has no status")
}

async fn create<K>(api: Api<K>, object: Value) -> Result<()>
where
    K: kube::Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}
