//! The ten invariants, each by its name, against the cloud's ledger and the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_api::{AllocationPhase, Phase, Time, Waiting};
use holdfast_controllers::clock::{Clock as _, add};
use holdfast_simulated_cloud::EffectKind;
use kube::ResourceExt as _;

use crate::disk::{CLASSES, OPERATIONS};
use crate::drive::RESTING_MS;
use crate::world::World;

/// What has not come to rest.
pub fn open(world: &World) -> Vec<String> {
    let objects = world.disk.objects();
    let operations = objects.operations.values().filter_map(|operation| {
        let status = operation.status.clone().unwrap_or_default();
        let rests = status.phase.is_terminal() && operation.metadata.deletion_timestamp.is_none();
        let unknown = status.phase == Phase::OutcomeUnknown;
        let waiting = status.waiting.map(|waiting| waiting.reason);
        (!rests && !unknown)
            .then(|| format!("{} {:?} {waiting:?} {:?}", operation.name_any(), status.phase, status.message))
    });
    let allocations = objects.allocations.values().filter_map(|allocation| {
        let status = allocation.status.clone().unwrap_or_default();
        let ended = matches!(status.phase, AllocationPhase::Allocated | AllocationPhase::Failed);
        let rests = ended && allocation.metadata.deletion_timestamp.is_none() && status.waiting.is_none();
        let waiting = status.waiting.map(|waiting| waiting.reason);
        (!rests)
            .then(|| format!("{} {:?} {waiting:?} {:?}", allocation.name_any(), status.phase, status.message))
    });
    let now = world.clock.now();
    let classes = objects.classes.values().filter_map(|class| {
        let status = class.status.clone().unwrap_or_default();
        // Resolved by a kind cloud, whose offerings hold for days.
        let least = if world.is_healed() { Duration::from_secs(10 * 3600) } else { Duration::ZERO };
        let holds = |until: &Time| until.0 > add(now, least);
        let rests = status.waiting.is_none() && status.valid_until.as_ref().is_some_and(holds);
        (!rests).then(|| format!("class {} {:?}", class.name_any(), status.message))
    });
    operations.chain(allocations).chain(classes).collect()
}

/// I9: whoever waits says why, since when, what comes next and how a person ends it.
pub fn waits(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |name: String, waiting: Option<Waiting>| match waiting {
        None => found.push(format!("I9: {name} waits and does not say so")),
        Some(waiting) => {
            for (what, text) in [
                ("reason", &waiting.reason),
                ("next action", &waiting.next_action),
                ("way out", &waiting.way_out),
            ] {
                if text.trim().is_empty() {
                    found.push(format!("I9: {name} waits for {} without a {what}", waiting.reason));
                }
            }
        }
    };
    let objects = world.disk.objects();
    for operation in objects.operations.values() {
        let status = operation.status.clone().unwrap_or_default();
        if !status.phase.is_terminal() {
            check(format!("{} in {:?}", operation.name_any(), status.phase), status.waiting);
        }
    }
    for allocation in objects.allocations.values() {
        let status = allocation.status.clone().unwrap_or_default();
        if !matches!(status.phase, AllocationPhase::Allocated | AllocationPhase::Failed) {
            check(format!("{} in {:?}", allocation.name_any(), status.phase), status.waiting);
        }
    }
    for class in objects.classes.values() {
        let status = class.status.clone().unwrap_or_default();
        if status.valid_until.is_none() {
            check(format!("class {}", class.name_any()), status.waiting);
        }
    }
    found
}

/// What exists because of us, and who says so.
struct Found {
    /// Servers and parts that live.
    live: BTreeSet<String>,
    /// What is made by us: id → token.
    ours: BTreeMap<String, String>,
    /// Identities that some object records.
    recorded: BTreeSet<String>,
}

fn look(world: &World) -> Found {
    let ledger = world.cloud.ledger();
    let makes = ledger.effects.iter().filter(|effect| effect.kind.makes());
    let ours = makes.map(|it| (it.server.clone(), it.label.clone().unwrap_or_default())).collect();
    let mut recorded = BTreeSet::new();
    let objects = world.disk.objects();
    for allocation in objects.allocations.values() {
        let owned = allocation.status.clone().unwrap_or_default().owned_resources;
        recorded.extend(owned.into_iter().map(|one| one.id));
    }
    for machine in objects.machines.values() {
        let owned = machine.status.clone().unwrap_or_default().owned_resources;
        recorded.extend(owned.into_iter().map(|one| one.id));
        let id = machine.spec.host.external.provider_id.clone().unwrap_or_default();
        recorded.extend(id.strip_prefix("sim://").map(str::to_owned));
    }
    for operation in objects.operations.values() {
        let status = operation.status.clone().unwrap_or_default();
        recorded.extend(status.owned_resources.into_iter().map(|one| one.id));
        recorded.extend(status.effects.into_iter().flat_map(|effect| effect.created).map(|one| one.id));
    }
    let live = ledger.live.into_iter().chain(ledger.live_parts).collect();
    Found { live, ours, recorded }
}

/// When all has come to rest under a kind cloud.
pub fn at_rest(world: &World) -> Vec<String> {
    let mut found = always(world);
    let seen = look(world);
    found.extend(leaks(world, &seen));
    // I1, of hosts: an allocation that is there has one server, the one that its Machine says.
    let allocations = world.disk.objects().allocations;
    let journal = &world.disk.lock().journal;
    let live_of = |allocation: &str| -> Vec<&String> {
        let by = |token: &str| journal.of_token(token).and_then(|known| known.allocation.as_deref());
        let servers = seen.live.iter().filter(|id| id.starts_with("srv-"));
        servers.filter(|id| seen.ours.get(*id).is_some_and(|token| by(token) == Some(allocation))).collect()
    };
    for (name, allocation) in allocations {
        let status = allocation.status.clone().unwrap_or_default();
        let live = live_of(&name);
        let said = status.result.as_ref().map(|result| &result.provider_resource_id);
        match status.phase {
            AllocationPhase::Allocated if live.len() != 1 || live.first().copied() != said => {
                found.push(format!(
                    "I1: {name} is allocated as {said:?}, and these servers live for it: {live:?}"
                ));
            }
            AllocationPhase::Failed if !live.is_empty() && status.owned_resources.is_empty() => {
                found.push(format!(
                    "I5: {name} has failed with nothing owned, and these servers live: {live:?}"
                ));
            }
            _ => {}
        }
    }
    found
}

/// When everything that was allocated has been given back.
pub fn at_the_end(world: &World) -> Vec<String> {
    let mut found = always(world);
    let seen = look(world);
    found.extend(leaks(world, &seen));
    let journal = &world.disk.lock().journal;
    for (id, token) in seen.ours.iter().filter(|(id, _)| seen.live.contains(*id)) {
        if journal.of_token(token).is_none_or(|known| known.allocation.is_some()) {
            found.push(format!("I5: {id} outlives the allocation that it was made for"));
        }
    }
    found
}

/// What lives because of us stands in some record. Where people have deleted a Machine of theirs and the operation that
/// was replacing its host, they have deleted every record there was; what they cannot delete is an allocation's.
fn leaks(world: &World, seen: &Found) -> Vec<String> {
    let machines = world.disk.objects().machines;
    let journal = &world.disk.lock().journal;
    let given_away = |token: &String| {
        let known = journal.of_token(token).filter(|known| known.gone && known.allocation.is_none());
        known.and_then(|known| known.machine.as_ref()).is_some_and(|machine| !machines.contains_key(machine))
    };
    let live = seen.ours.iter().filter(|(id, _)| seen.live.contains(*id) && !seen.recorded.contains(*id));
    live.filter(|(_, token)| !given_away(token))
        .map(|(id, _)| format!("I5: {id} lives and no object records it: a leak"))
        .collect()
}

/// What holds at every moment.
fn always(world: &World) -> Vec<String> {
    let ledger = world.cloud.ledger();
    let mut found: Vec<String> =
        ledger.twins().into_iter().map(|twin| format!("I1: made twice: {twin}")).collect();
    // I4: what is destroyed or changed is ours, or the machine that the operation is for.
    let seeded: BTreeSet<&String> = world.seeded.iter().map(|(_, server)| server).collect();
    let mut made = BTreeSet::new();
    for effect in &ledger.effects {
        if effect.kind.makes() {
            made.insert(&effect.server);
        } else if !made.contains(&effect.server) && !seeded.contains(&effect.server) {
            found.push(format!("I4: {:?} of {}, which is not ours", effect.kind, effect.server));
        }
    }
    let inner = world.disk.lock();
    // I2: nothing was made under a token that no journal knew.
    for effect in ledger.effects.iter().filter(|effect| effect.kind.makes()) {
        let known = effect.label.as_deref().and_then(|token| inner.journal.of_token(token));
        if known.is_none() {
            found.push(format!("I2: {} was made under a token that no journal holds", effect.server));
        }
    }
    // I4: what is released was recorded as made before.
    let created: BTreeSet<&String> =
        inner.journal.effects.values().flat_map(|known| &known.effect.created).map(|one| &one.id).collect();
    let destroys = [EffectKind::Delete, EffectKind::DeleteVolume, EffectKind::DeleteNic];
    for effect in ledger.effects.iter().filter(|effect| destroys.contains(&effect.kind)) {
        if !created.contains(&effect.server) && !seeded.contains(&effect.server) {
            found.push(format!("I4: {} was destroyed and never recorded as owned", effect.server));
        }
    }
    found.extend(inner.leaks.iter().map(|leak| format!("I7: {leak}")));
    found.extend(inner.journal.violations.iter().cloned());
    found.extend(world.traffic.violations.lock().unwrap().iter().cloned());
    found
}

/// I10: what a service refuses for the credentials' or for the rate's sake is not asked again and again. Each life may
/// find out anew; then waits double from seconds to minutes.
pub fn refusals(world: &World, lives: u32) -> Vec<String> {
    let requests = world.cloud.requests();
    let refused = requests.iter().filter(|request| matches!(request.status, Some(401 | 429))).count();
    // Faults that answer so whatever the client does, and the noise of two credentials that change hands.
    let given: u64 = world.plan.rules.iter().map(|bad| bad.times * 2).sum();
    let hours = world.passed() / 3_600_000 + 1;
    let bound = u64::from(lives) * 24 + given + world.plan.acts.len() as u64 * 8 + hours as u64 * 24;
    let found =
        format!("I10: {refused} requests were refused for credentials or rate, of {}", requests.len());
    if refused as u64 > bound { vec![found] } else { Vec::new() }
}

/// Hours in which nothing may happen (I8).
#[derive(Debug)]
pub struct Idle {
    writes: BTreeMap<String, u64>,
    /// Operations that go by themselves some time after their end.
    passing: BTreeSet<String>,
    mutations: u64,
    exchanges: u64,
}

impl Idle {
    pub fn begin(world: &World) -> Idle {
        let (mutations, exchanges) = counts(world);
        let operations = world.disk.objects().operations.into_iter();
        let passing = operations.filter(|(_, operation)| operation.spec.ttl_seconds_after_finished.is_some());
        let passing = passing.map(|(name, _)| name).collect();
        Idle { writes: world.disk.writes(), passing, mutations, exchanges }
    }

    pub fn end(self, world: &World) -> Vec<String> {
        let mut found = Vec::new();
        let objects = world.disk.objects();
        let classes = objects.classes.len() as u64;
        let passed =
            self.passing.iter().filter(|name| !objects.operations.contains_key(*name)).count() as u64;
        for (kind, count) in world.disk.writes() {
            let more = count - self.writes.get(&kind).copied().unwrap_or_default();
            let bound = match kind.as_str() {
                // A class says anew how long its offerings are worth knowing.
                CLASSES => 2 * classes,
                OPERATIONS => passed,
                _ => 0,
            };
            if more > bound && !kind.contains("leases") && !kind.contains("events") {
                found.push(format!("I8: {more} writes of {kind} while nothing happens"));
            }
        }
        let (mutations, exchanges) = counts(world);
        if mutations > self.mutations {
            found.push(format!("I8: {} changes while nothing happens", mutations - self.mutations));
        }
        // A class is resolved by two reads, once or twice, and looks for strangers under our marker every quarter of an
        // hour.
        let quarters = u64::try_from(RESTING_MS / 900_000).unwrap_or_default() + 1;
        if exchanges - self.exchanges > classes * (4 + quarters) {
            found.push(format!("I8: {} calls in hours in which nothing happens", exchanges - self.exchanges));
        }
        found
    }
}

fn counts(world: &World) -> (u64, u64) {
    let traffic = &world.traffic;
    (traffic.mutations.load(Ordering::SeqCst), traffic.exchanges.load(Ordering::SeqCst))
}
