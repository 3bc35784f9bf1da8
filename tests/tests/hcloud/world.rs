//! One emulator, a recording proxy before it, one daemon with the module, and a class.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use holdfast_api::{AllocationPhase, Machine, MachineAllocation, MachineClass, Provider, ProviderState};
use holdfast_manifest::Manifest;
use holdfast_tests::{
    counterparts::{Cloudalone, HcloudServer},
    house::{Endpoint, Grant, House, credential, credential_secret, until},
    modules,
    proxy::Proxy,
    tls::RunCa,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Longest wait for anything: far more than an idle machine needs, so that a loaded one passes too.
pub const PATIENCE: Duration = Duration::from_secs(120);

const SITE: &str = "falkenstein";
const SYSTEM: &str = "holdfast-system";
const TOKEN: &str = "a-token-of-the-hetzner-emulator";

pub struct World {
    pub house: House,
    pub cloud: Cloudalone,
    pub proxy: Proxy,
}

impl World {
    /// A daemon that is ready, with the class `small`.
    pub async fn new() -> Result<World> {
        let ca = RunCa::new()?;
        let cloud = Cloudalone::start(&ca, TOKEN).await?;
        let proxy = Proxy::start(&cloud.origin(), cloud.ca_pem(), &ca).await?;
        let mut house = House::new()?;
        let endpoint = Endpoint::at("api", &proxy.origin(), ca.pem());
        house.grant(Grant::approving(&manifest()?).endpoint(endpoint));
        let module = tokio::task::spawn_blocking(|| modules::build()?.provider("hcloud")).await??;
        house.drop_in("hcloud.wasm", &std::fs::read(module)?)?;
        house.start().await?;
        let client = house.client()?;
        until(&client, "hcloud", PATIENCE, |provider: &Provider| {
            provider.status.as_ref().is_some_and(|status| status.state == ProviderState::Ready)
        })
        .await?;
        credential_secret(&client, "hetzner", "hcloud", &[("api-token", TOKEN.as_bytes())]).await?;
        credential(&client, SITE, "hcloud", "hetzner").await?;
        let world = World { house, cloud, proxy };
        world.class().await?;
        Ok(world)
    }

    pub fn client(&self) -> Result<Client> {
        self.house.client()
    }

    async fn class(&self) -> Result<()> {
        let client = self.client()?;
        let data = json!({
            "image": Cloudalone::IMAGE, "server-types": Cloudalone::TYPE, "locations": Cloudalone::LOCATION,
        });
        let map = json!({ "metadata": { "name": "small" }, "data": data });
        create::<ConfigMap>(Api::namespaced(client.clone(), SYSTEM), map).await?;
        let class = json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineClass", "metadata": { "name": "small" },
            "spec": { "provider": "hcloud", "siteName": SITE, "providerConfigRef": { "name": "small" } },
        });
        create::<MachineClass>(Api::all(client.clone()), class).await?;
        until(&client, "small", PATIENCE, |class: &MachineClass| {
            class.status.as_ref().is_some_and(|status| status.available == 1)
        })
        .await?;
        Ok(())
    }

    /// An allocation from the class `small` with this first-boot data.
    pub async fn allocate(&self, name: &str, data: &str) -> Result<()> {
        let client = self.client()?;
        let secret = json!({ "metadata": { "name": name, "labels": { "holdfast.dev/first-boot-data": "true" } },
            "data": { "userData": STANDARD.encode(data) } });
        create::<Secret>(Api::namespaced(client.clone(), SYSTEM), secret).await?;
        let allocation = json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation", "metadata": { "name": name },
            "spec": { "classRef": { "name": "small" }, "userData": { "secretRef": { "name": name } } },
        });
        create::<MachineAllocation>(Api::all(client), allocation).await
    }

    /// The server's id once the allocation has its host.
    pub async fn allocated(&self, name: &str) -> Result<String> {
        let client = self.client()?;
        until(&client, name, PATIENCE, |allocation: &MachineAllocation| {
            allocation.status.as_ref().is_some_and(|status| status.phase == AllocationPhase::Allocated)
        })
        .await?;
        let machine = Api::<Machine>::all(client).get(name).await?;
        let id = machine.spec.host.external.provider_id.context("no provider ID")?;
        Ok(id.strip_prefix("hcloud://").with_context(|| id.clone())?.to_owned())
    }

    /// Deletes the allocation and waits until its finalizer is done.
    pub async fn release(&self, name: &str) -> Result<()> {
        let api: Api<MachineAllocation> = Api::all(self.client()?);
        api.delete(name, &DeleteParams::default()).await?;
        let began = Instant::now();
        loop {
            match api.get_opt(name).await {
                Ok(None) => return Ok(()),
                Ok(Some(left)) if began.elapsed() > PATIENCE => {
                    bail!("{name} is not released: {:#?}", left.status)
                }
                Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// The one server that there is to be.
    pub async fn only_server(&self) -> Result<HcloudServer> {
        let mut servers = self.cloud.servers().await?;
        ensure!(servers.len() == 1, "one server is to be there: {servers:#?}");
        servers.pop().context("a server")
    }

    /// Creates that the emulator was sent.
    pub fn creates(&self) -> usize {
        self.proxy.count(|record| record.is("POST", "/v1/servers"))
    }
}

async fn create<K>(api: Api<K>, object: Value) -> Result<()>
where
    K: kube::Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

fn manifest() -> Result<Manifest> {
    let path = holdfast_tests::folders::checkout().join("providers/hcloud/provider.toml");
    let text = std::fs::read_to_string(path)?;
    Manifest::parse(&text).map_err(|errors| anyhow::anyhow!("{errors}"))
}
