//! What people do: in mid-flight, and at the end where only a person can tell what happened.

use std::sync::atomic::Ordering;

use holdfast_api::{Effect, EffectState, Phase};
use holdfast_simulated_cloud::{AuthChange, EffectKind};
use kube::ResourceExt as _;
use serde_json::json;

use crate::disk::{ALLOCATIONS, MACHINES, OPERATIONS};
use crate::drive::Progress;
use crate::life::House;
use crate::plan::What;
use crate::rest::Idle;
use crate::world::{World, token};

/// How far the people are.
#[derive(Debug, Default)]
pub struct Acts {
    done: usize,
    /// The cloud's present token.
    token: u32,
    /// The step at which the Secret says so too.
    told: Option<u32>,
    /// The step at which the module is back.
    back: Option<u32>,
    forged: u32,
    pub idle: Option<Idle>,
}

/// Whether everything that people do in mid-flight is done.
pub fn all_done(world: &World, progress: &Progress) -> bool {
    let acts = &progress.acts;
    acts.done == world.plan.acts.len() && acts.told.is_none() && acts.back.is_none()
}

/// Does what is due before this step.
pub async fn due(world: &World, house: &House, progress: &mut Progress) {
    let now = progress.steps;
    while let Some(act) = sorted(world).get(progress.acts.done).filter(|(before, _)| *before <= now).copied()
    {
        progress.acts.done += 1;
        run(world, house, &mut progress.acts, act.1, now).await;
    }
    settle(world, house, &mut progress.acts, now).await;
}

/// Nothing is left half done: the Secret is right and the module there.
pub async fn finish(world: &World, house: &House, progress: &mut Progress) {
    while progress.acts.done < world.plan.acts.len() {
        let act = sorted(world)[progress.acts.done];
        progress.acts.done += 1;
        run(world, house, &mut progress.acts, act.1, 0).await;
    }
    settle(world, house, &mut progress.acts, u32::MAX).await;
    house.person.token(progress.acts.token).await.expect("the Secret can be written");
    world.heal(progress.acts.token);
}

fn sorted(world: &World) -> Vec<(u32, What)> {
    let mut acts: Vec<(u32, What)> = world.plan.acts.iter().map(|act| (act.before, act.what)).collect();
    acts.sort_by_key(|(before, _)| *before);
    acts
}

/// The second halves of what takes two.
async fn settle(world: &World, house: &House, acts: &mut Acts, now: u32) {
    if acts.told.is_some_and(|at| at <= now) {
        acts.told = None;
        house.person.token(acts.token).await.expect("the Secret can be written");
    }
    if acts.back.is_some_and(|at| at <= now) {
        acts.back = None;
        world.traffic.withdrawn.store(false, Ordering::SeqCst);
        world.modules.swap(Some(1));
    }
}

async fn run(world: &World, house: &House, acts: &mut Acts, what: What, now: u32) {
    let objects = world.disk.objects();
    let pick = |kind: &str, n: usize| {
        let all: Vec<&String> = match kind {
            OPERATIONS => objects.operations.keys().collect(),
            ALLOCATIONS => objects.allocations.keys().collect(),
            _ => objects.machines.keys().collect(),
        };
        (!all.is_empty()).then(|| all[n % all.len()].clone())
    };
    // What is gone meanwhile needs nobody any more.
    let _gone = match what {
        What::Cancel(n) => match pick(OPERATIONS, n) {
            Some(name) => {
                house.person.patch("MachineOperation", &name, json!({ "spec": { "cancel": true } })).await
            }
            None => Ok(()),
        },
        What::DeleteOperation(n) => delete(house, "MachineOperation", pick(OPERATIONS, n)).await,
        What::DeleteAllocation(n) => delete(house, "MachineAllocation", pick(ALLOCATIONS, n)).await,
        What::DeleteMachine(n) => delete(house, "Machine", pick(MACHINES, n)).await,
        What::Rotate(late) => {
            acts.token += 1;
            let fresh = Some(token(acts.token));
            world.cloud.auth(AuthChange { token: fresh, end_others_in_ms: Some(0), ..AuthChange::default() });
            acts.told = Some(now.saturating_add(late));
            Ok(())
        }
        What::Replace => {
            house.register(world, 2);
            if acts.back.is_none() {
                world.modules.swap(Some(2));
            }
            Ok(())
        }
        What::Withdraw(steps) => {
            acts.back = Some(now.saturating_add(steps));
            world.traffic.withdrawn.store(true, Ordering::SeqCst);
            world.modules.swap(None);
            Ok(())
        }
        What::Forge(n) => match pick(ALLOCATIONS, n) {
            Some(name) => {
                acts.forged += 1;
                let spec = json!({ "operationKind": "HostRelease", "machineRef": { "name": name },
                    "allocationRef": { "name": name } });
                let forged = format!("forged-{}", acts.forged);
                house.person.make("MachineOperation", &forged, json!({ "spec": spec })).await
            }
            None => Ok(()),
        },
    };
}

async fn delete(house: &House, kind: &str, name: Option<String>) -> Result<(), kube::Error> {
    match name {
        Some(name) => house.person.delete(kind, &name).await,
        None => Ok(()),
    }
}

/// The way out of waits that may last for ever, for what a machine's state does not allow, or for a server that the cloud
/// has made and never starts. Returns whether there was any.
pub async fn cancel(world: &World, house: &House) -> bool {
    let mut said = false;
    for (name, operation) in world.disk.objects().operations {
        let phase = operation.status.as_ref().map(|status| status.phase).unwrap_or_default();
        let open = !phase.is_terminal() && operation.spec.operation_kind != "HostRelease";
        if open && !operation.spec.cancel {
            said = true;
            let patch = json!({ "spec": { "cancel": true } });
            house.person.patch("MachineOperation", &name, patch).await.expect("it can be cancelled");
        }
    }
    said
}

/// A person looks at the cloud and says what became of effects that nobody else can tell of. Returns whether there were
/// any.
pub async fn resolve_unknown(world: &World, house: &House) -> bool {
    let mut said = false;
    for operation in world.disk.objects().operations.values() {
        let status = operation.status.clone().unwrap_or_default();
        if status.phase != Phase::OutcomeUnknown {
            continue;
        }
        said = true;
        let doubt = status.effects.iter().find(|effect| effect.state == EffectState::Intended);
        let patch = match doubt {
            Some(effect) => {
                let outcome = truth(world, effect);
                json!({ "spec": { "resolve": { "effect": effect.key, "outcome": outcome } } })
            }
            None => json!({ "spec": { "cancel": true } }),
        };
        house.person.patch("MachineOperation", &operation.name_any(), patch).await.expect("it can be said");
    }
    said
}

/// What the ledger says of an effect.
fn truth(world: &World, effect: &Effect) -> &'static str {
    let ledger = world.cloud.ledger();
    let made = ledger.effects.iter().any(|it| it.label.as_deref() == Some(&effect.token) && it.kind.makes());
    if made {
        // Its identity would be lost with "it took effect": the person gives up on it, and removes it.
        return "Abandon";
    }
    let kind = match effect.call.as_str() {
        "reset" => EffectKind::Reset,
        "power-on" => EffectKind::PowerOn,
        "power-off" => EffectKind::PowerOff,
        "delete" => EffectKind::Delete,
        _ => return "DidNotHappen",
    };
    let since = effect.first_intended_at.0.as_second() * 1000;
    let at =
        |server: &str| effect.targets.iter().any(|target| target.id == server) || effect.targets.is_empty();
    let took = ledger.effects.iter().any(|it| it.kind == kind && it.at_ms >= since && at(&it.server));
    if took { "TookEffect" } else { "DidNotHappen" }
}
