//! One cloud, one daemon with the provider `simulated`, and the objects that a person makes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use holdfast_api::{
    AllocationPhase, Effect, EffectState, Machine, MachineAllocation, MachineAllocationStatus, MachineClass,
    MachineOperation, Provider, ProviderState,
};
use holdfast_simulated_cloud::{Cloud, Ledger, Options};
use holdfast_tests::house::{self, Endpoint, Grant, House, credential, credential_secret, until};
use holdfast_tests::modules;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Longest wait for anything: far more than an idle machine needs, so that a loaded one passes too.
pub const PATIENCE: Duration = Duration::from_secs(300);

pub const SITE: &str = "harbour";
pub const SYSTEM: &str = "holdfast-system";
pub const TOKEN: &str = "token-of-the-capacity-tests";

pub struct World {
    pub house: House,
    pub cloud: Cloud,
}

impl World {
    /// A daemon that is ready and has credentials.
    pub async fn new() -> Result<World> {
        World::with(Options::default(), "info", module().await?).await
    }

    /// The same with another cloud, log filter or module.
    pub async fn with(options: Options, log: &str, module: Vec<u8>) -> Result<World> {
        World::with_tables(options, log, module, "").await
    }

    /// The same with more in the configuration.
    pub async fn with_tables(options: Options, log: &str, module: Vec<u8>, tables: &str) -> Result<World> {
        let cloud = Cloud::start(Options { api_token: TOKEN.to_owned(), ..options }).await?;
        let mut house = House::new()?;
        let manifest = holdfast_runtime::inspect(&module).context("reading the module's manifest")?.manifest;
        let endpoint = Endpoint::at("api", cloud.origin(), cloud.ca_pem());
        house.secrets(tables).log_filter(log).grant(Grant::approving(&manifest).endpoint(endpoint));
        house.drop_in("simulated.wasm", &module)?;
        house.start().await?;
        let world = World { house, cloud };
        world.ready().await?;
        world.token(TOKEN).await?;
        credential(&world.client()?, SITE, "simulated", "cloud").await?;
        Ok(world)
    }

    pub fn client(&self) -> Result<Client> {
        self.house.client()
    }

    /// Waits until the provider is ready.
    pub async fn ready(&self) -> Result<Provider> {
        until(&self.client()?, "simulated", PATIENCE, |provider: &Provider| {
            provider.status.as_ref().is_some_and(|status| status.state == ProviderState::Ready)
        })
        .await
    }

    /// The Secret with the cloud's token.
    pub async fn token(&self, token: &str) -> Result<()> {
        credential_secret(&self.client()?, "cloud", "simulated", &[("api-token", token.as_bytes())]).await
    }

    /// A class with this config, resolved.
    pub async fn class(&self, name: &str, config: &[(&str, &str)]) -> Result<MachineClass> {
        self.config(name, config).await?;
        self.class_of(name).await
    }

    pub async fn config(&self, name: &str, config: &[(&str, &str)]) -> Result<()> {
        let data: serde_json::Map<String, Value> =
            config.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let map = json!({ "metadata": { "name": name }, "data": data });
        create::<ConfigMap>(Api::namespaced(self.client()?, SYSTEM), map).await
    }

    /// A class over a ConfigMap of its name, resolved.
    pub async fn class_of(&self, name: &str) -> Result<MachineClass> {
        let client = self.client()?;
        let class = json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineClass", "metadata": { "name": name },
            "spec": { "provider": "simulated", "siteName": SITE, "providerConfigRef": { "name": name } },
        });
        create::<MachineClass>(Api::all(client.clone()), class).await?;
        until(&client, name, PATIENCE, |class: &MachineClass| {
            class.status.as_ref().is_some_and(|status| !status.offerings.is_empty())
        })
        .await
    }

    /// A Secret of this name with first-boot data.
    pub async fn first_boot(&self, name: &str, data: &[u8]) -> Result<()> {
        let secret = json!({ "metadata": { "name": name, "labels": { "holdfast.dev/first-boot-data": "true" } },
            "data": { "userData": STANDARD.encode(data) } });
        create::<Secret>(Api::namespaced(self.client()?, SYSTEM), secret).await
    }

    /// An allocation from a class; `more` is merged into its spec.
    pub async fn allocate(&self, name: &str, class: &str, more: Value) -> Result<()> {
        let mut spec = json!({ "classRef": { "name": class } });
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let allocation = json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation", "metadata": { "name": name },
            "spec": spec,
        });
        create::<MachineAllocation>(Api::all(self.client()?), allocation).await
    }

    /// Waits until the status of an allocation is as wanted.
    pub async fn until(
        &self,
        name: &str,
        wanted: impl Fn(&MachineAllocationStatus) -> bool,
    ) -> Result<MachineAllocationStatus> {
        let allocation = until(&self.client()?, name, PATIENCE, |allocation: &MachineAllocation| {
            allocation.status.as_ref().is_some_and(&wanted)
        })
        .await?;
        allocation.status.context("it has a status")
    }

    /// Waits until there is a host; the ledger's id of its server.
    pub async fn allocated(&self, name: &str) -> Result<(MachineAllocationStatus, String)> {
        let status = self
            .until(name, |status| {
                matches!(status.phase, AllocationPhase::Allocated | AllocationPhase::Failed)
            })
            .await?;
        ensure!(status.phase == AllocationPhase::Allocated, "{name} is to be allocated: {status:#?}");
        let server = status.result.clone().context("a host")?.provider_resource_id;
        Ok((status, server))
    }

    /// Waits until an operation waits for this reason; its way out.
    pub async fn operation_waits(&self, name: &str, reason: &str) -> Result<String> {
        let operation = until(&self.client()?, name, PATIENCE, |operation: &MachineOperation| {
            let waiting = operation.status.as_ref().and_then(|status| status.waiting.as_ref());
            waiting.is_some_and(|waiting| waiting.reason == reason)
        })
        .await?;
        let waiting = operation.status.and_then(|status| status.waiting);
        Ok(waiting.map(|waiting| waiting.way_out).unwrap_or_default())
    }

    pub async fn machine(&self, name: &str) -> Result<Machine> {
        Ok(Api::<Machine>::all(self.client()?).get(name).await?)
    }

    pub async fn operation(&self, name: &str) -> Result<MachineOperation> {
        Ok(Api::<MachineOperation>::all(self.client()?).get(name).await?)
    }

    pub async fn delete<K>(&self, name: &str) -> Result<()>
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        Api::<K>::all(self.client()?).delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until an object is gone.
    pub async fn gone<K>(&self, name: &str) -> Result<()>
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let (api, began) = (Api::<K>::all(self.client()?), Instant::now());
        loop {
            match api.get_opt(name).await {
                Ok(None) => return Ok(()),
                Ok(Some(left)) if began.elapsed() > PATIENCE => bail!("{name} is still there: {left:#?}"),
                Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Deletes an allocation and waits until it and its Machine are gone.
    pub async fn release(&self, name: &str) -> Result<()> {
        self.delete::<MachineAllocation>(name).await?;
        self.gone::<MachineAllocation>(name).await?;
        self.gone::<Machine>(name).await
    }

    /// What `holdfast explain` says of an object.
    pub fn explain(&self, object: &str) -> Result<String> {
        let mut command = std::process::Command::new(house::binary()?);
        command.args(["explain", object, "--kubeconfig"]).arg(self.house.kubeconfig());
        let output = command.output()?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "holdfast explain {object}: {told}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The effects of every operation there is.
    pub async fn journal(&self) -> Result<Vec<Effect>> {
        let operations = Api::<MachineOperation>::all(self.client()?).list(&ListParams::default()).await?;
        Ok(operations.into_iter().flat_map(|it| it.status.unwrap_or_default().effects).collect())
    }

    /// By the cloud's ledger: nothing is left that costs money, nothing was made twice, nothing that is not ours was
    /// touched, and the journal knows of each thing that was made and deleted.
    pub async fn nothing_left(&self) -> Result<Ledger> {
        let (ledger, journal) = (self.cloud.ledger(), self.journal().await?);
        ensure!(ledger.live.is_empty() && ledger.live_parts.is_empty(), "left over: {ledger:#?}");
        ensure!(ledger.twins().is_empty(), "twins: {:?}", ledger.twins());
        for effect in &ledger.effects {
            let id = &effect.server;
            let known = if effect.kind.makes() {
                let made = |effect: &&Effect| effect.created.iter().any(|made| made.id == *id);
                journal.iter().filter(made).count()
            } else {
                journal.iter().filter(|effect| effect.key == format!("delete-{id}")).count()
            };
            ensure!(known == 1, "{:?} of {id} is in the journal {known} times: {journal:#?}", effect.kind);
        }
        let open: Vec<_> = journal.iter().filter(|it| it.state == EffectState::Intended).collect();
        ensure!(open.is_empty(), "in doubt: {open:#?}");
        Ok(ledger)
    }
}

/// The provider as it is shipped.
pub async fn module() -> Result<Vec<u8>> {
    let path = tokio::task::spawn_blocking(|| modules::build()?.provider("simulated")).await??;
    Ok(std::fs::read(path)?)
}

pub async fn create<K>(api: Api<K>, object: Value) -> Result<()>
where
    K: kube::Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// The words of a text, whatever their padding.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
