//! One attack of the hostile guest as an operation on a machine of its own.

use anyhow::{Result, ensure};
use holdfast_api::{MachineOperation, MachineOperationStatus, Phase};
use holdfast_tests::house::{cloud_machine, operation, until};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};

use crate::world::{PATIENCE, SITE, World};

/// A machine of the hostile provider, with the server that it is.
#[derive(Clone)]
pub struct Victim {
    pub machine: String,
    pub server: String,
}

pub struct Attack<'w> {
    world: &'w World,
    name: String,
    attack: String,
    kind: &'static str,
    parameters: Map<String, Value>,
}

impl World {
    /// An attack by the name that the guest knows it by.
    pub fn attack(&self, attack: &str) -> Attack<'_> {
        let (name, attack) = (attack.to_owned(), attack.to_owned());
        Attack { world: self, name, attack, kind: "HostPowerOff", parameters: Map::new() }
    }

    pub async fn victim(&self, name: &str) -> Result<Victim> {
        let victim = Victim { machine: format!("victim-{name}"), server: self.server(name)? };
        let id = format!("hostile://{}", victim.server);
        cloud_machine(&self.client()?, &victim.machine, SITE, "hostile", &id).await?;
        Ok(victim)
    }
}

impl<'w> Attack<'w> {
    /// The same attack under another name of the operation.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// Over several callbacks.
    pub fn long_running(mut self) -> Self {
        self.kind = "HostReboot";
        self
    }

    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.parameters.insert(key.to_owned(), value.into());
        self
    }

    /// Makes the operation and does not wait.
    pub async fn launch(mut self, on: &Victim) -> Result<Launched<'w>> {
        self.parameters.insert("attack".to_owned(), self.attack.clone().into());
        let more = json!({ "parameters": self.parameters });
        operation(&self.world.client()?, &self.name, &on.machine, self.kind, more).await?;
        Ok(Launched { world: self.world, name: self.name, kind: self.kind })
    }

    /// On a machine of its own, to its refusal, and the daemon stands.
    pub async fn stopped(self, sentence: &str) -> Result<(Victim, MachineOperationStatus)> {
        let (world, name) = (self.world, self.name.clone());
        let victim = world.victim(&name).await?;
        let status = self.launch(&victim).await?.stopped(sentence).await?;
        world.stands(&name).await?;
        Ok((victim, status))
    }
}

pub struct Launched<'w> {
    world: &'w World,
    name: String,
    kind: &'static str,
}

impl Launched<'_> {
    /// Waits until the operation says the sentence, and gives it up if it would go on trying.
    pub async fn stopped(self, sentence: &str) -> Result<MachineOperationStatus> {
        let seen = self.until(|status| said(status).contains(sentence)).await?;
        ensure!(
            said(&seen).contains(sentence),
            "{} was to end in \"{sentence}\" and is {:?}: {}",
            self.name,
            seen.phase,
            said(&seen)
        );
        ensure!(seen.phase != Phase::Complete, "{} succeeded", self.name);
        if !over(&seen) {
            self.give_up().await?;
        }
        Ok(seen)
    }

    pub async fn completes(self) -> Result<MachineOperationStatus> {
        let seen = self.until(|_| false).await?;
        ensure!(seen.phase == Phase::Complete, "{} is {:?}: {}", self.name, seen.phase, said(&seen));
        Ok(seen)
    }

    async fn until(
        &self,
        wanted: impl Fn(&MachineOperationStatus) -> bool,
    ) -> Result<MachineOperationStatus> {
        let is = |operation: &MachineOperation| {
            operation.status.as_ref().is_some_and(|status| over(status) || wanted(status))
        };
        let operation: MachineOperation = until(&self.world.client()?, &self.name, PATIENCE, is).await?;
        self.world.tells_no_secret(&self.name, &serde_json::to_string(&operation)?)?;
        Ok(operation.status.unwrap_or_default())
    }

    /// An operator's way out. What was accepted is followed to its end and may take its time.
    async fn give_up(&self) -> Result<()> {
        let api: Api<MachineOperation> = Api::all(self.world.client()?);
        let cancel = Patch::Merge(json!({ "spec": { "cancel": true } }));
        api.patch(&self.name, &PatchParams::default(), &cancel).await?;
        if self.kind == "HostPowerOff" {
            let seen = self.until(|_| false).await?;
            ensure!(seen.phase == Phase::Failed, "{} was cancelled and is {:?}", self.name, seen.phase);
        }
        Ok(())
    }
}

pub fn said(status: &MachineOperationStatus) -> &str {
    status.message.as_deref().unwrap_or_default()
}

fn over(status: &MachineOperationStatus) -> bool {
    matches!(status.phase, Phase::Complete | Phase::Failed | Phase::OutcomeUnknown)
}
