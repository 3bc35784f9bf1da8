//! A module that makes hosts honestly and means harm with what it says and asks of them: it claims what it did not make, in
//! results, in resources and in its own state, and releases what is not its own. By the cloud's ledger nothing foreign is
//! touched, what is owned stays on record until it is gone, and the status says why.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use holdfast_api::{AllocationPhase, Machine, MachineAllocation, MachineAllocationStatus, MachineOperation};
use holdfast_simulated_cloud::{EffectKind, Seed};
use holdfast_tests::client::Client as Plain;
use holdfast_tests::house::until;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::world::{PATIENCE, SITE, World, run};

/// An allocation of the hostile module, by the attack's name and whose server it is about.
struct Claim<'w> {
    world: &'w World,
    name: String,
}

impl World {
    /// A class with this attack on this server, and a claim on it.
    async fn claim(&self, name: &str, attack: &str, foreign: &str) -> Result<Claim<'_>> {
        let client = self.client()?;
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": { "name": name }, "data": { "attack": attack, "foreign": foreign },
        }))?;
        Api::namespaced(client.clone(), "holdfast-system").create(&PostParams::default(), &map).await?;
        let class: holdfast_api::MachineClass = serde_json::from_value(json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineClass", "metadata": { "name": name },
            "spec": { "provider": "landlord", "siteName": SITE, "providerConfigRef": { "name": name } },
        }))?;
        Api::all(client.clone()).create(&PostParams::default(), &class).await?;
        let allocation: MachineAllocation = serde_json::from_value(json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation", "metadata": { "name": name },
            "spec": { "classRef": { "name": name } },
        }))?;
        Api::all(client).create(&PostParams::default(), &allocation).await?;
        Ok(Claim { world: self, name: name.to_owned() })
    }

    /// A server of somebody else, which looks like one of ours.
    fn stranger(&self, name: &str) -> Result<String> {
        let (label, manager) = (Some("token-of-another".to_owned()), Some("holdfast".to_owned()));
        Ok(self.cloud.seed_server(Seed { label, manager, ..Seed::named(name) })?)
    }
}

impl Claim<'_> {
    /// Waits until there is a host; its server.
    async fn allocated(&self) -> Result<String> {
        let status = self.until(|status| status.phase == AllocationPhase::Allocated).await?;
        Ok(status.result.context("a host has a result")?.provider_resource_id)
    }

    async fn until(
        &self,
        wanted: impl Fn(&MachineAllocationStatus) -> bool,
    ) -> Result<MachineAllocationStatus> {
        let is = |claim: &MachineAllocation| claim.status.as_ref().is_some_and(&wanted);
        let claim: MachineAllocation = until(&self.world.client()?, &self.name, PATIENCE, is).await?;
        Ok(claim.status.unwrap_or_default())
    }

    /// Waits until an operation of the claim says the sentence.
    async fn refused(&self, sentence: &str) -> Result<()> {
        let began = Instant::now();
        loop {
            let list = self.operations().await?.into_iter();
            let said: Vec<String> = list
                .map(|it| format!("{}: {:?}", it.name_any(), it.status.and_then(|status| status.message)))
                .collect();
            if said.iter().any(|said| said.contains(sentence)) {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "{} was to say \"{sentence}\": {said:#?}", self.name);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn status(&self) -> Result<MachineAllocationStatus> {
        let claim = Api::<MachineAllocation>::all(self.world.client()?).get(&self.name).await?;
        Ok(claim.status.unwrap_or_default())
    }

    /// Ids that the claim owns by the host's record.
    async fn recorded(&self) -> Result<Vec<String>> {
        Ok(self.status().await?.owned_resources.into_iter().map(|one| one.id).collect())
    }

    /// Ids of all that its operations have made.
    async fn made(&self) -> Result<Vec<String>> {
        let list = self.operations().await?.into_iter().filter_map(|operation| operation.status);
        let made: Vec<String> = list
            .flat_map(|status| status.effects)
            .flat_map(|effect| effect.created)
            .map(|made| made.id)
            .collect();
        ensure!(!made.is_empty(), "{} was to make something", self.name);
        Ok(made)
    }

    async fn operations(&self) -> Result<Vec<MachineOperation>> {
        let list = Api::<MachineOperation>::all(self.world.client()?).list(&ListParams::default()).await?;
        let ours = |operation: &MachineOperation| {
            operation.spec.allocation_ref.as_ref().is_some_and(|claim| claim.name == self.name)
        };
        Ok(list.items.into_iter().filter(ours).collect())
    }

    async fn delete(&self) -> Result<()> {
        let api = Api::<MachineAllocation>::all(self.world.client()?);
        api.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until the claim and its Machine are gone.
    async fn gone(&self) -> Result<()> {
        let client = self.world.client()?;
        let (claims, machines): (Api<MachineAllocation>, Api<Machine>) =
            (Api::all(client.clone()), Api::all(client));
        let began = Instant::now();
        loop {
            let (claim, machine) = (claims.get_opt(&self.name).await?, machines.get_opt(&self.name).await?);
            if claim.is_none() && machine.is_none() {
                return Ok(());
            }
            let status = claim.and_then(|claim| claim.status);
            ensure!(began.elapsed() < PATIENCE, "{} is not released: {status:#?}", self.name);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Stops the server behind the daemon's back, which tames the module.
    async fn tame(&self, server: &str) -> Result<()> {
        let cloud = &self.world.cloud;
        let client = Plain::new(cloud.origin(), cloud.ca_pem())?;
        let client = client.with_header("authorization", &format!("Bearer {}", cloud.api_token()));
        let reply =
            client.send(Method::POST, &format!("/v1/servers/{server}/actions/power_off"), None).await?;
        ensure!(reply.status == 201, "the cloud answers {}", reply.status);
        Ok(())
    }
}

/// What was done to a server.
fn done_to(world: &World, server: &str) -> Vec<EffectKind> {
    world.cloud.ledger().effects_of(server).iter().map(|effect| effect.kind).collect()
}

fn lives(world: &World, server: &str) -> bool {
    world.cloud.ledger().live.iter().any(|live| live == server)
}

#[test]
fn what_no_effect_made_becomes_neither_the_host_nor_owned_and_what_was_made_is_released_h3_h8() {
    run(async |world| {
        let attacks = [
            ("claims-in-result", "the result was refused: no effect of this allocation made"),
            ("claims-as-identity", "its `server` was not made by an effect of this allocation (hole H8)"),
            ("claims-in-resources", "which no effect of this allocation made (hole H3)"),
        ];
        try_join_all(attacks.map(|(attack, sentence)| async move {
            let stranger = world.stranger(attack)?;
            let claim = world.claim(attack, attack, &stranger).await?;
            claim.refused(sentence).await?;
            let operations = serde_json::to_string(&claim.operations().await?)?;
            let claimed = claim.status().await?;
            ensure!(claimed.phase != AllocationPhase::Allocated, "{attack}: there is no host: {claimed:#?}");
            // It stands in the class's config, in the offering's attributes and in the refusal, and is nowhere owned.
            for recorded in claim.made().await?.into_iter().chain(claim.recorded().await?) {
                ensure!(recorded != stranger, "{attack}: the stranger's server is on record: {operations}");
            }
            claim.delete().await?;
            claim.gone().await?;
            for made in claim.made().await? {
                let done = done_to(world, &made);
                ensure!(done == [EffectKind::Create, EffectKind::Delete], "{attack}: {made} had {done:?}");
            }
            world.unasked(&stranger)?;
            ensure!(lives(world, &stranger), "{attack}: the stranger's server is gone");
            anyhow::Ok(())
        }))
        .await?;
        world.stands("hosts-that-were-claimed").await
    });
}

/// R2.26: whatever the module claimed, keeps in its state or says is left, a release destroys what the host has on record.
#[test]
fn a_release_by_a_module_that_tampers_with_what_it_owns_destroys_nothing_foreign_r2_26() {
    run(async |world| {
        let neighbour = world.claim("neighbour", "none", "nobody").await?;
        let theirs = neighbour.allocated().await?;
        let destroy = "does not name a `server` that this operation may destroy";
        let attacks = [
            ("claims-in-state", None),
            ("destroys-in-begin", Some(destroy)),
            ("destroys-in-poll", Some(destroy)),
            ("claims-in-remaining", Some("which no effect of this allocation made (hole H3)")),
            ("says-gone", Some("success was refused: nothing shows that server")),
        ];
        // Against a stranger's server, and against one that another claim on the same module owns.
        let (stranger, theirs) = (&world.stranger("stranger-to-a-release")?, &theirs);
        let victims = [("stranger", stranger), ("neighbour", theirs)];
        let cases = victims.into_iter().flat_map(|victim| attacks.map(|attack| (victim, attack)));
        try_join_all(cases.map(|((whose, foreign), (attack, sentence))| async move {
            let name = format!("{attack}-of-a-{whose}");
            let claim = world.claim(&name, attack, foreign).await?;
            let own = claim.allocated().await?;
            claim.delete().await?;
            if let Some(sentence) = sentence {
                claim.refused(sentence).await?;
                ensure!(lives(world, &own), "{name}: its own server is gone, and it did not release it");
                let recorded = claim.recorded().await?;
                ensure!(recorded == [own.clone()], "{name}: on record is {recorded:?}, and it owns {own}");
                claim.tame(&own).await?;
            }
            claim.gone().await?;
            let done = done_to(world, &own);
            ensure!(done.last() == Some(&EffectKind::Delete), "{name}: its own server had {done:?}");
            ensure!(done.iter().filter(|kind| **kind == EffectKind::Delete).count() == 1, "{name}: {done:?}");
            ensure!(lives(world, foreign), "{name}: the server of the {whose} is gone");
            anyhow::Ok(())
        }))
        .await?;
        world.unasked(stranger)?;
        let done = done_to(world, theirs);
        ensure!(done == [EffectKind::Create], "the neighbour's server had {done:?}");
        ensure!(neighbour.recorded().await? == [theirs.clone()], "the neighbour's record is as it was");
        neighbour.tame(theirs).await?;
        neighbour.delete().await?;
        neighbour.gone().await?;
        ensure!(!lives(world, theirs), "its own claim releases it");
        world.stands("releases-that-were-tampered-with").await
    });
}
