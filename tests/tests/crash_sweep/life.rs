//! One life of the daemon: it works until everything has ended, or dies on the way.

use anyhow::{Context, Result, bail, ensure};
use holdfast_api::{EffectState, MachineOperation, Phase, Resolution};
use holdfast_tests::house::House;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::cases::{Work, World};
use crate::tally::Tally;

/// Longest life: a loaded machine, a backoff or two, a lookup that waits for absence.
const PATIENCE: Duration = Duration::from_secs(120);
const GLANCE: Duration = Duration::from_millis(400);

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

/// Watches a daemon that was spawned. What is unknown is resolved as a person would who looks at the service; only a
/// call that is declared `never` may ask for one (R2.11).
pub async fn live<W: World>(house: &mut House, world: &W, tally: &Tally) -> Result<End> {
    if let Err(error) = house.until_ready().await {
        return match house.ended()? {
            Some(status) => Ok(End::Died(status)),
            None => Err(error),
        };
    }
    let operations: Api<MachineOperation> = Api::all(house.client()?);
    let (began, mut resolved) = (Instant::now(), BTreeSet::new());
    loop {
        if let Some(status) = house.ended()? {
            return Ok(End::Died(status));
        }
        // A daemon that dies in the middle of an answer is seen at the next glance.
        let now = operations.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        if !now.is_empty() && now.iter().all(is_over) {
            return Ok(End::Ended(now));
        }
        for operation in &now {
            match phase(operation) {
                Phase::Failed => bail!("{} failed: {:#?}", operation.name_any(), operation.status),
                Phase::OutcomeUnknown if resolved.insert(operation.name_any()) => {
                    resolve(&operations, operation, world, tally).await?;
                }
                _ => {}
            }
        }
        if began.elapsed() > PATIENCE {
            let stuck: Vec<_> = now.iter().filter(|operation| !is_over(operation)).collect();
            bail!("did not end within {PATIENCE:?}: {stuck:#?}\n{}", house.log_tail(30));
        }
        tokio::time::sleep(GLANCE).await;
    }
}

fn phase(operation: &MachineOperation) -> Phase {
    operation.status.as_ref().map(|status| status.phase).unwrap_or_default()
}

fn is_over(operation: &MachineOperation) -> bool {
    phase(operation) == Phase::Complete && operation.finalizers().is_empty()
}

async fn resolve<W: World>(
    api: &Api<MachineOperation>,
    operation: &MachineOperation,
    world: &W,
    tally: &Tally,
) -> Result<()> {
    let name = operation.name_any();
    let case = world.case(&name)?;
    let effects = operation.status.as_ref().map(|status| status.effects.as_slice()).unwrap_or_default();
    let doubtful = effects.iter().find(|effect| effect.state == EffectState::Intended);
    let effect = doubtful.with_context(|| format!("{name} is unknown, and no effect of it is in doubt"))?;
    let never = matches!((W::PROVIDER, case.work), ("simulated", Work::Reboot) | ("redfish", Work::Restart));
    ensure!(never, "{name} asks for a person, although every call of it can be repeated: {effect:#?}");
    let happened = world.happened(case).await;
    let outcome = if happened { Resolution::TookEffect } else { Resolution::DidNotHappen };
    let patch = json!({ "spec": { "resolve": { "effect": effect.key, "outcome": outcome } } });
    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    tally.resolved(happened);
    Ok(())
}
