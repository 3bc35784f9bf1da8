//! The story of a plan, step by step: who is due is stepped with, as a worker would; when nobody is due, time goes on.
//! Chaos first; then the cloud becomes kind and all must come to rest; then hours in which nothing may happen; then
//! everything is given back.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_controllers::{Next, StepError};

use crate::acts;
use crate::disk::{ALLOCATIONS, CLASSES, Change, MACHINES, OPERATIONS};
use crate::life::House;
use crate::module::REAL;
use crate::plan::{Kind, Thing};
use crate::rest;
use crate::wake::{Key, all, awake, woken};
use crate::world::World;

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Died,
    /// The story is told.
    Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Chapter {
    #[default]
    Chaos,
    Healing,
    Resting,
    Leaving,
}

/// How far the story is; outlives lives.
#[derive(Debug, Default)]
pub struct Progress {
    pub chapter: Chapter,
    /// Steps with anything but classes.
    pub steps: u32,
    /// Where the chapter began: steps, and milliseconds.
    since: (u32, i64),
    pub acts: acts::Acts,
    /// Operations of machines that were made.
    made: usize,
    pub violations: Vec<String>,
    pub lives: u32,
    pub callbacks: u32,
}

/// Limits of the chapters: steps, and seconds.
const CHAOS: (u32, i64) = (80, 3600);
const HEALING: (u32, i64) = (1500, 72 * 3600);
/// Time that goes by without a look at everybody.
const SOON_MS: i64 = 4_000;
/// After so much of it a person takes the way out of what still waits.
const PATIENCE: (u32, i64) = (100, 3 * 3600);
/// How long nothing may happen.
pub const RESTING_MS: i64 = 3600 * 1000;

pub struct Due {
    by_time: BTreeMap<(i64, u64), Key>,
    by_key: BTreeMap<Key, (i64, u64)>,
    sequence: u64,
    failures: BTreeMap<Key, u32>,
}

impl Due {
    fn new() -> Due {
        Due { by_time: BTreeMap::new(), by_key: BTreeMap::new(), sequence: 0, failures: BTreeMap::new() }
    }

    pub fn push(&mut self, key: Key, at: i64) {
        if let Some(old) = self.by_key.get(&key).copied() {
            if old.0 <= at {
                return;
            }
            self.by_time.remove(&old);
        }
        self.sequence += 1;
        self.by_key.insert(key.clone(), (at, self.sequence));
        self.by_time.insert((at, self.sequence), key);
    }

    fn first(&self) -> Option<(i64, &Key)> {
        self.by_time.first_key_value().map(|((at, _), key)| (*at, key))
    }

    fn pop(&mut self, now: i64) -> Option<Key> {
        let slot = self.by_time.first_key_value().filter(|((at, _), _)| *at <= now).map(|(slot, _)| *slot)?;
        let key = self.by_time.remove(&slot)?;
        self.by_key.remove(&key);
        Some(key)
    }
}

/// Lives through the story from where it stands.
pub async fn drive(world: &World, house: &mut House, progress: &mut Progress) -> End {
    progress.lives += 1;
    let mut due = Due::new();
    if progress.chapter == Chapter::Chaos && progress.lives == 1 {
        house.person.begin(world).await.expect("the world is made");
    }
    all(world).into_iter().for_each(|key| due.push(key, world.passed()));
    world.disk.objects().classes.into_keys().for_each(|name| due.push(Key::Class(name), world.passed()));
    let mut fresh = true;
    // What is new since everybody was looked at once more.
    let mut looked = None;
    loop {
        if house.death.struck() {
            return End::Died;
        }
        acts::due(world, house, progress).await;
        make_operations(world, house, progress).await;
        let changes = world.disk.take_changes();
        // What the controllers write themselves they know; what others write, a watch would tell.
        let news =
            |change: &Change| change.told && [OPERATIONS, ALLOCATIONS, CLASSES].contains(&&*change.kind);
        fresh |= changes.iter().any(news);
        wake(world, &changes, &mut due);
        if let Some(key) = due.pop(world.passed()) {
            let Some(next) = step(world, house, progress, &key, &mut fresh).await else { return End::Died };
            schedule(&mut due, key, next, world.passed());
            continue;
        }
        // Nobody is due. A look at whoever is not at rest, before much time goes by: what the controllers call to each
        // other is not seen here.
        let soon = due.first().is_some_and(|(at, _)| at - world.passed() <= SOON_MS);
        let version = [OPERATIONS, ALLOCATIONS, MACHINES].map(|kind| world.disk.written(kind));
        if looked != Some(version) && !soon {
            looked = Some(version);
            awake(world).into_iter().for_each(|key| due.push(key, world.passed()));
            continue;
        }
        house.controllers.flush_events().await;
        progress.violations.extend(rest::waits(world));
        if turn_the_page(world, house, progress, &mut due).await {
            return End::Told;
        }
        let next = [due.first().map(|(at, _)| at), next_operation(world, progress)];
        let next = next.into_iter().flatten().min().unwrap_or(i64::MAX);
        let now = world.passed();
        world.advance(next.saturating_sub(now).clamp(1, 3_600_000)).await;
    }
}

/// Goes to the next chapter if this one is over. Returns whether that was the last one.
async fn turn_the_page(world: &World, house: &House, progress: &mut Progress, due: &mut Due) -> bool {
    let (steps, ms) = (progress.steps - progress.since.0, world.passed() - progress.since.1);
    let over = |limits: (u32, i64)| steps > limits.0 || ms > limits.1 * 1000;
    let open = rest::open(world);
    let next = match progress.chapter {
        Chapter::Chaos => {
            let told = acts::all_done(world, progress) && next_operation(world, progress).is_none();
            if (!open.is_empty() || !told) && !over(CHAOS) {
                return false;
            }
            acts::finish(world, house, progress).await;
            while next_operation(world, progress).is_some() {
                make_next(world, house, progress).await;
            }
            Chapter::Healing
        }
        Chapter::Healing => {
            if acts::resolve_unknown(world, house).await {
                return false;
            }
            if !open.is_empty() && over(PATIENCE) && acts::cancel(world, house).await {
                return false;
            }
            if !open.is_empty() && !over(HEALING) {
                return false;
            }
            if !open.is_empty() {
                progress
                    .violations
                    .push(format!("I9: with a kind cloud this does not come to an end: {open:?}"));
                return true;
            }
            progress.violations.extend(rest::at_rest(world));
            progress.acts.idle = Some(rest::Idle::begin(world));
            Chapter::Resting
        }
        Chapter::Resting => {
            if ms < RESTING_MS {
                return false;
            }
            let idle = progress.acts.idle.take();
            progress.violations.extend(idle.map(|idle| idle.end(world)).unwrap_or_default());
            for name in world.disk.objects().allocations.keys() {
                house.person.delete("MachineAllocation", name).await.expect("an allocation can be deleted");
            }
            Chapter::Leaving
        }
        Chapter::Leaving => {
            if acts::resolve_unknown(world, house).await {
                return false;
            }
            let left: Vec<String> = world.disk.objects().allocations.into_keys().collect();
            if (!left.is_empty() || !open.is_empty()) && !over(HEALING) {
                return false;
            }
            if !left.is_empty() || !open.is_empty() {
                progress.violations.push(format!("I5: these are deleted and do not go: {left:?} {open:?}"));
            }
            progress.violations.extend(rest::at_the_end(world));
            return true;
        }
    };
    progress.chapter = next;
    progress.since = (progress.steps, world.passed());
    all(world).into_iter().for_each(|key| due.push(key, world.passed()));
    false
}

/// One step with one key; `None` if the life ended in it.
async fn step(
    world: &World,
    house: &House,
    progress: &mut Progress,
    key: &Key,
    fresh: &mut bool,
) -> Option<Result<Next, StepError>> {
    if !matches!(key, Key::Class(_)) {
        progress.steps += 1;
    }
    progress.callbacks += 1;
    // What is left of the deaths is died later, in the healing or in the giving back.
    world.disk.arm(progress.chapter != Chapter::Resting);
    let refresh = std::mem::take(fresh);
    let controllers = &house.controllers;
    let step = async {
        if refresh {
            controllers.refresh().await?;
        }
        match key {
            Key::Operation(name) => controllers.reconcile(name).await,
            Key::Class(name) => controllers.reconcile_class(name).await,
            Key::Allocation(name) => controllers.reconcile_allocation(name).await,
            Key::Machine(name) => controllers.reconcile_machine(name).await,
        }
    };
    let next = tokio::select! {
        biased;
        () = house.death.wait() => None,
        next = step => Some(next),
        () = time_where_nothing_moves(world) => None,
    };
    world.disk.arm(false);
    next.filter(|_| !house.death.struck())
}

/// Custody may wait for its turn in the middle of a step. When nothing has moved for a while, its time does.
async fn time_where_nothing_moves(world: &World) {
    const LOOK: Duration = Duration::from_millis(25);
    // Longer steps, the longer it waits.
    const STEPS_MS: (i64, i64) = (500, 4_000);
    let moved = || {
        (world.traffic.exchanges.load(std::sync::atomic::Ordering::SeqCst), world.disk.written(OPERATIONS))
    };
    let (mut before, mut ms) = (moved(), STEPS_MS.0);
    loop {
        let _ = REAL.spawn(async { tokio::time::sleep(LOOK).await }).await;
        let now = moved();
        if now == before {
            world.stills.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            world.advance(ms).await;
            ms = (ms + ms / 4).min(STEPS_MS.1);
        } else {
            ms = STEPS_MS.0;
        }
        before = now;
    }
}

fn schedule(due: &mut Due, key: Key, next: Result<Next, StepError>, now: i64) {
    match next {
        Ok(next) => {
            due.failures.remove(&key);
            if let Next::After(after) = next {
                // Clocks move by whole milliseconds.
                let ms = i64::try_from(after.as_micros().div_ceil(1000)).unwrap_or(i64::MAX / 4);
                due.push(key, now.saturating_add(ms));
            }
        }
        Err(_) => {
            let failures = due.failures.entry(key.clone()).or_default();
            *failures += 1;
            let wait = 5_000_i64 << (*failures).min(6);
            due.push(key, now + wait);
        }
    }
}

fn wake(world: &World, changes: &[Change], due: &mut Due) {
    for change in changes {
        woken(world, change).into_iter().for_each(|key| due.push(key, world.passed()));
    }
}

/// Operations on machines in their order: second, machine, number, kind.
fn operations(world: &World) -> Vec<(u64, usize, usize, Kind)> {
    let mut all = Vec::new();
    for (machine, thing) in world.plan.things.iter().enumerate() {
        if let Thing::Machine(operations) = thing {
            let each = operations.iter().enumerate();
            all.extend(each.map(|(number, (kind, at))| (*at, machine, number, *kind)));
        }
    }
    all.sort_by_key(|(at, machine, number, _)| (*at, *machine, *number));
    all
}

fn next_operation(world: &World, progress: &Progress) -> Option<i64> {
    operations(world).get(progress.made).map(|(at, ..)| *at as i64 * 1000)
}

async fn make_operations(world: &World, house: &House, progress: &mut Progress) {
    while next_operation(world, progress).is_some_and(|at| at <= world.passed()) {
        make_next(world, house, progress).await;
    }
}

async fn make_next(world: &World, house: &House, progress: &mut Progress) {
    let Some((_, machine, number, kind)) = operations(world).get(progress.made).copied() else { return };
    progress.made += 1;
    let spec =
        serde_json::json!({ "machineRef": { "name": format!("m-{machine}") }, "operationKind": kind.word() });
    let name = format!("m-{machine}-op-{number}");
    house
        .person
        .make("MachineOperation", &name, serde_json::json!({ "spec": spec }))
        .await
        .expect("an operation can be made");
}
