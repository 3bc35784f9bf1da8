//! Reading objects and events through a kubeconfig.

use anyhow::Context;
use holdfast_api::{MachineOperation, SYSTEM_NAMESPACE};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::Path;

pub(super) struct Reader {
    client: Client,
}

impl Reader {
    pub async fn new(kubeconfig: &Path) -> anyhow::Result<Reader> {
        let told = || format!("{} leads to no daemon; has it been started?", kubeconfig.display());
        let kubeconfig = Kubeconfig::read_from(kubeconfig).with_context(told)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Ok(Reader { client: Client::try_from(config.with_context(told)?).with_context(told)? })
    }

    /// An object that must be there.
    pub async fn need<K>(&self, name: &str) -> anyhow::Result<K>
    where
        K: Resource<Scope = kube::core::ClusterResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        self.get(name).await?.with_context(|| format!("there is no {} {name}", K::kind(&())))
    }

    pub async fn get<K>(&self, name: &str) -> anyhow::Result<Option<K>>
    where
        K: Resource<Scope = kube::core::ClusterResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let found = Api::<K>::all(self.client.clone()).get_opt(name).await;
        found.with_context(|| format!("{} {name} could not be read", K::kind(&())))
    }

    /// Events about an object, oldest first.
    pub async fn events<K: Resource<DynamicType = ()>>(&self, about: &K) -> anyhow::Result<Vec<Event>> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let uid = about.meta().uid.clone().unwrap_or_default();
        let about = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let mut events = api.list(&about).await.context("events could not be read")?.items;
        events.sort_by_key(|event| event.last_timestamp.as_ref().map(|at| at.0));
        Ok(events)
    }

    /// Operations on a machine: the open ones, or the last one if none is open.
    pub async fn operations_on(&self, machine: &str) -> anyhow::Result<Vec<MachineOperation>> {
        let api: Api<MachineOperation> = Api::all(self.client.clone());
        let on = ListParams::default().fields(&format!("spec.machineRef.name={machine}"));
        let mut all = api.list(&on).await.context("operations could not be read")?.items;
        all.sort_by_key(|operation| operation.creation_timestamp().map(|at| at.0));
        let ended = |operation: &MachineOperation| {
            operation.status.as_ref().is_some_and(|status| status.phase.is_terminal())
        };
        let last = all.last().cloned();
        all.retain(|operation| !ended(operation));
        Ok(if all.is_empty() { last.into_iter().collect() } else { all })
    }
}
