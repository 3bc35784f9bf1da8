//! One emulator, a recording proxy before it, one daemon with the module, and a class.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use holdfast_api::{AllocationPhase, Machine, MachineAllocation, MachineClass, Provider, ProviderState};
use holdfast_manifest::Manifest;
use holdfast_tests::{
    counterparts::{Ec2Ledger, Moto},
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

pub const SITE: &str = "virginia";
pub const SYSTEM: &str = "holdfast-system";

pub struct World {
    pub house: House,
    pub moto: Moto,
    pub proxy: Proxy,
}

impl World {
    /// A daemon that is ready, with the class `small`: t3.micro, in two zones.
    pub async fn new() -> Result<World> {
        let ca = RunCa::new()?;
        let manifest = manifest()?;
        let moto = Moto::start(&ca, &Moto::actions(&manifest)).await?;
        let proxy = Proxy::start(&moto.origin(), moto.ca_pem(), &ca).await?;
        let mut house = House::new()?;
        let endpoint = Endpoint::at("ec2", &proxy.origin(), ca.pem()).with_var("region", Moto::REGION);
        house.grant(Grant::approving(&manifest).endpoint(endpoint));
        let module = tokio::task::spawn_blocking(|| modules::build()?.provider("ec2")).await??;
        house.drop_in("ec2.wasm", &std::fs::read(module)?)?;
        house.start().await?;
        let client = house.client()?;
        until(&client, "ec2", PATIENCE, |provider: &Provider| {
            provider.status.as_ref().is_some_and(|status| status.state == ProviderState::Ready)
        })
        .await?;
        let key = moto.provider();
        let values = [("access-key", key.id.as_bytes()), ("secret-key", key.secret.as_bytes())];
        credential_secret(&client, "aws", "ec2", &values).await?;
        credential(&client, SITE, "ec2", "aws").await?;
        let world = World { house, moto, proxy };
        world.class("small", &[("zones", "us-east-1b,us-east-1c")]).await?;
        Ok(world)
    }

    pub fn client(&self) -> Result<Client> {
        self.house.client()
    }

    /// A class of t3.micro with more config, resolved.
    pub async fn class(&self, name: &str, more: &[(&str, &str)]) -> Result<MachineClass> {
        let client = self.client()?;
        let mut data = json!({ "image": Moto::IMAGE, "instance-types": "t3.micro" });
        for (key, value) in more {
            data[*key] = json!(value);
        }
        let map = json!({ "metadata": { "name": name }, "data": data });
        create::<ConfigMap>(Api::namespaced(client.clone(), SYSTEM), map).await?;
        let class = json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineClass", "metadata": { "name": name },
            "spec": { "provider": "ec2", "siteName": SITE, "providerConfigRef": { "name": name } },
        });
        create::<MachineClass>(Api::all(client.clone()), class).await?;
        until(&client, name, PATIENCE, |class: &MachineClass| {
            class.status.as_ref().is_some_and(|status| !status.offerings.is_empty())
        })
        .await
    }

    /// An allocation from the class `small` with this first-boot data.
    pub async fn allocate(&self, name: &str, data: &[u8]) -> Result<()> {
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

    pub async fn allocated(&self, name: &str) -> Result<(MachineAllocation, Machine)> {
        let client = self.client()?;
        let allocation = until(&client, name, PATIENCE, |allocation: &MachineAllocation| {
            allocation.status.as_ref().is_some_and(|status| status.phase == AllocationPhase::Allocated)
        })
        .await?;
        let machine = Api::<Machine>::all(client).get(name).await?;
        Ok((allocation, machine))
    }

    /// Deletes the allocation and waits until its finalizer is done.
    pub async fn release(&self, name: &str) -> Result<()> {
        let api: Api<MachineAllocation> = Api::all(self.client()?);
        api.delete(name, &DeleteParams::default()).await?;
        let began = std::time::Instant::now();
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

    /// What the emulator has, and what must hold whatever happened: one living instance for each of these names.
    pub async fn ledger(&self, alive: &[&str]) -> Result<Ec2Ledger> {
        let ledger = self.moto.ledger().await?;
        let mut names: Vec<String> =
            ledger.alive().map(|one| one.tags["Name"].as_str().unwrap_or_default().to_owned()).collect();
        names.sort();
        ensure!(names == alive, "alive is to be {alive:?}, and is {ledger:#?}");
        Ok(ledger)
    }

    /// Nothing is left that costs money.
    pub async fn nothing_left(&self) -> Result<()> {
        let ledger = self.ledger(&[]).await?;
        ensure!(ledger.volumes.is_empty() && ledger.nics.is_empty(), "left over: {ledger:#?}");
        Ok(())
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
    let path = holdfast_tests::folders::checkout().join("providers/ec2/provider.toml");
    let text = std::fs::read_to_string(path)?;
    Manifest::parse(&text).map_err(|errors| anyhow::anyhow!("{errors}"))
}

/// The instance of a provider ID `aws:///zone/instance`.
pub fn instance_of(machine: &Machine) -> Result<String> {
    let id = machine.spec.host.external.provider_id.clone().context("no provider ID")?;
    Ok(id.strip_prefix("aws:///us-east-1b/").with_context(|| id.clone())?.to_owned())
}
