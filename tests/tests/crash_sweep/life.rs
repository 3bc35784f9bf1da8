//! One life of the daemon: it works until everything has ended, or dies on the way.

use anyhow::{Context, Result, bail, ensure};
use holdfast_api::{EffectState, MachineOperation, Phase, Provider, ProviderState, Resolution};
use holdfast_tests::house::{House, until};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::scenario::{Service, Subject};
use crate::tally::Tally;

/// Longest life: a loaded machine, a backoff or two, a lookup that waits for absence.
pub const PATIENCE: Duration = Duration::from_secs(240);
const GLANCE: Duration = Duration::from_millis(150);
/// A client may see the end of a daemon a little before its parent does.
const DYING: Duration = Duration::from_secs(20);

pub enum End {
    /// Every operation is Complete and has let go of its finalizer.
    Ended(Vec<MachineOperation>),
    Died(ExitStatus),
}

impl End {
    /// For a daemon that nothing was to kill.
    pub fn ended(self, house: &House) -> Result<Vec<MachineOperation>> {
        match self {
            End::Ended(operations) => Ok(operations),
            End::Died(status) => bail!("the daemon ended by itself with {status}:\n{}", house.log_tail(30)),
        }
    }
}

/// Spawns the daemon, sets the subjects going where they are not, and watches until all have ended. What is unknown is
/// resolved as a person would who looks at the service; only a call that is declared `never` may ask for one (R2.11).
pub async fn live<S: Service>(
    house: &mut House,
    service: &S,
    subjects: &[Subject<S::World>],
    tally: &Tally,
) -> Result<End> {
    if let Err(error) = begin(house, service, subjects).await {
        return died(house).await?.map(End::Died).ok_or(error);
    }
    let operations: Api<MachineOperation> = Api::all(house.client()?);
    let (since, mut resolved) = (Instant::now(), BTreeSet::new());
    loop {
        if let Some(status) = house.ended()? {
            return Ok(End::Died(status));
        }
        // A daemon that dies in the middle of an answer is seen at the next glance.
        let now = operations.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        if now.len() >= subjects.len() && now.iter().all(is_over) {
            return Ok(End::Ended(now));
        }
        for operation in &now {
            match phase(operation) {
                Phase::Failed => bail!("{} failed: {:#?}", operation.name_any(), operation.status),
                Phase::OutcomeUnknown if resolved.insert(operation.name_any()) => {
                    resolve(&operations, operation, service, subjects, tally).await?;
                }
                _ => {}
            }
        }
        if since.elapsed() > PATIENCE {
            let stuck: Vec<_> = now.iter().filter(|operation| !is_over(operation)).collect();
            bail!("did not end within {PATIENCE:?}: {stuck:#?}\n{}", house.log_tail(30));
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Spawns the daemon and sets the subjects going where they are not. Operations are not begun before the provider is
/// ready, so that no life has to wait for it and writes that down.
pub async fn begin<S: Service>(
    house: &mut House,
    service: &S,
    subjects: &[Subject<S::World>],
) -> Result<Client> {
    house.spawn()?;
    house.until_ready().await?;
    let client = house.client()?;
    for subject in subjects {
        service.set_up(subject, &client).await?;
    }
    let ready = |provider: &Provider| {
        provider.status.as_ref().is_some_and(|status| status.state == ProviderState::Ready)
    };
    tokio::select! {
        ready = until(&client, S::PROVIDER, PATIENCE, ready) => ready.map(drop)?,
        status = ends(house) => bail!("the daemon ended with {:?}", status?),
    }
    for subject in subjects {
        subject.scenario.start.create(&client, &subject.name).await?;
    }
    Ok(client)
}

async fn ends(house: &mut House) -> Result<ExitStatus> {
    loop {
        if let Some(status) = house.ended()? {
            return Ok(status);
        }
        tokio::time::sleep(GLANCE).await;
    }
}

async fn died(house: &mut House) -> Result<Option<ExitStatus>> {
    tokio::time::timeout(DYING, ends(house)).await.ok().transpose()
}

fn phase(operation: &MachineOperation) -> Phase {
    operation.status.as_ref().map(|status| status.phase).unwrap_or_default()
}

fn is_over(operation: &MachineOperation) -> bool {
    phase(operation) == Phase::Complete && operation.finalizers().is_empty()
}

async fn resolve<S: Service>(
    api: &Api<MachineOperation>,
    operation: &MachineOperation,
    service: &S,
    subjects: &[Subject<S::World>],
    tally: &Tally,
) -> Result<()> {
    let name = operation.name_any();
    let subject = subjects.iter().find(|subject| subject.name == name);
    let subject = subject.with_context(|| format!("nobody began {name}"))?;
    let effects = operation.status.as_ref().map(|status| status.effects.as_slice()).unwrap_or_default();
    let doubtful = effects.iter().find(|effect| effect.state == EffectState::Intended);
    let effect = doubtful.with_context(|| format!("{name} is unknown, and no effect of it is in doubt"))?;
    ensure!(
        subject.scenario.never,
        "{name} asks for a person, although every call of it can be repeated: {effect:#?}"
    );
    let happened = service.happened(subject).await;
    let outcome = if happened { Resolution::TookEffect } else { Resolution::DidNotHappen };
    let patch = json!({ "spec": { "resolve": { "effect": effect.key, "outcome": outcome } } });
    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    tally.resolved(happened);
    Ok(())
}
