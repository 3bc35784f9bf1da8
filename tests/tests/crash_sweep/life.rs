//! One life of the daemon: it works until everything has ended, or dies on the way.

use anyhow::{Context, Result, bail, ensure};
use holdfast_api::{EffectState, MachineOperation, Phase, Provider, ProviderState, Resolution};
use holdfast_tests::house::House;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::allocation::{self, is_allocation};
use crate::scenario::{Service, Subject};
use crate::tally::Tally;

/// Longest life: a loaded machine, a backoff or two, a lookup that waits for absence.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// Each look costs a handshake of two unoptimised programs.
pub const GLANCE: Duration = Duration::from_millis(600);
/// A client may see the end of a daemon a little before its parent does.
pub const DYING: Duration = Duration::from_secs(60);

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

/// A whole life: spawns the daemon, sets the subjects going where they are not, and watches until all have ended.
pub async fn live<S: Service>(
    house: &mut House,
    service: &S,
    subjects: &[Subject<S::World>],
    tally: &Tally,
) -> Result<Vec<MachineOperation>> {
    house.start().await?;
    begin(house, service, subjects).await?;
    watch(house, service, subjects, tally).await?.ended(house)
}

/// Sets the subjects going in a daemon that runs, where they are not.
pub async fn begin<S: Service>(house: &mut House, service: &S, subjects: &[Subject<S::World>]) -> Result<()> {
    prepare(house, service, subjects).await?;
    set_going(house, subjects).await
}

/// Makes everything that the subjects need. Nothing is begun before the provider is ready and classes are resolved, so
/// that nothing has to wait for that and writes it down.
pub async fn prepare<S: Service>(
    house: &mut House,
    service: &S,
    subjects: &[Subject<S::World>],
) -> Result<()> {
    let client = house.client()?;
    for subject in subjects {
        service.set_up(subject, &client).await?;
    }
    until_provider(house, &Api::all(client.clone()), S::PROVIDER).await?;
    allocation::until_resolved(&client, subjects).await
}

pub async fn set_going<W>(house: &House, subjects: &[Subject<W>]) -> Result<()> {
    let client = house.client()?;
    for subject in subjects {
        subject.create(&client).await?;
    }
    Ok(())
}

async fn until_provider(house: &mut House, providers: &Api<Provider>, name: &str) -> Result<()> {
    let since = Instant::now();
    loop {
        let status = providers.get_opt(name).await?.and_then(|provider| provider.status);
        if status.is_some_and(|status| status.state == ProviderState::Ready) {
            return Ok(());
        }
        ensure!(since.elapsed() < PATIENCE, "the provider does not get ready:\n{}", house.log_tail(30));
        tokio::time::sleep(GLANCE).await;
    }
}

/// Watches a daemon until the operations of these subjects have ended, or it has. What is unknown is resolved as a
/// person would who looks at the service; only a call that is declared `never` may ask for one (R2.11).
pub async fn watch<S: Service>(
    house: &mut House,
    service: &S,
    subjects: &[Subject<S::World>],
    tally: &Tally,
) -> Result<End> {
    let client = house.client()?;
    let operations: Api<MachineOperation> = Api::all(client.clone());
    let wanted: usize = subjects.iter().map(|subject| subject.scenario.start.kinds().len()).sum();
    let (since, mut resolved) = (Instant::now(), BTreeSet::new());
    loop {
        // A daemon that dies in the middle of an answer is seen at the next glance.
        let now = operations.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let ours = |operation: &MachineOperation| subjects.iter().any(|subject| subject.has(operation));
        let now: Vec<_> = now.into_iter().filter(ours).collect();
        allocation::push(house, subjects).await;
        if now.len() == wanted && now.iter().all(is_over) && all_gone(&client, subjects).await {
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
        if let Some(status) = ends(house, GLANCE).await? {
            return Ok(End::Died(status));
        }
    }
}

/// The exit status of a daemon that ends within this time.
pub async fn ends(house: &mut House, within: Duration) -> Result<Option<ExitStatus>> {
    let since = Instant::now();
    loop {
        let status = house.ended()?;
        if status.is_some() || since.elapsed() >= within {
            return Ok(status);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether all allocations among the subjects are gone, as far as the daemon answers.
async fn all_gone<W>(client: &Client, subjects: &[Subject<W>]) -> bool {
    for subject in subjects.iter().filter(|subject| is_allocation(subject)) {
        if !allocation::is_gone(subject, client).await.unwrap_or(false) {
            return false;
        }
    }
    true
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
    let subject = subjects.iter().find(|subject| subject.has(operation));
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
