//! Runs of plans: seeds, threads, shrinking, and what is told of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestRng, TestRunner,
};

use crate::drive::{End, Progress};
use crate::life::live;
use crate::logs;
use crate::plan::{Plan, plans};
use crate::rest;
use crate::wire::Sabotage;
use crate::world::World;

/// Most plans that are tried to make a failing one smaller.
const SHRINKS: u32 = 200;

pub struct Run {
    pub seed: u64,
    pub cases: u32,
    pub sabotage: Sabotage,
    /// Failing plans are kept, and kept ones run first.
    pub kept: bool,
}

/// Two thousand. Code that is not optimised takes five times as long for a plan; there a run of the whole test suite is
/// content with fewer, unless it is told otherwise.
pub fn cases() -> u32 {
    let usual = if cfg!(debug_assertions) { 40 } else { 2000 };
    number("HOLDFAST_PLANS").and_then(|count| u32::try_from(count).ok()).unwrap_or(usual)
}

/// The seed of the ordinary run of the test suite: what lands must not depend on luck.
const USUAL_SEED: u64 = 4321;

/// From the environment. Else a new one each time where 2,000 plans are run to find something, and always the same one in
/// the ordinary run of the whole suite.
pub fn seed() -> u64 {
    if let Some(seed) = number("HOLDFAST_PLANS_SEED") {
        return seed;
    }
    if cfg!(debug_assertions) {
        return USUAL_SEED;
    }
    let mut bytes = [0; 8];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).expect("randomness");
    u64::from_le_bytes(bytes)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, and not {text:?}")))
}

#[derive(Default)]
struct Counts {
    plans: AtomicU64,
    lives: AtomicU64,
    callbacks: AtomicU64,
    exchanges: AtomicU64,
}

impl Run {
    /// Runs its plans on so many threads. The failure, if there is one, names the seed and the smallest plan.
    pub fn on_threads(&self, threads: u32) -> Result<(), String> {
        println!("fault plans: {} with HOLDFAST_PLANS_SEED={}, {:?}", self.cases, self.seed, self.sabotage);
        logs::watch();
        let (began, counts) = (Instant::now(), Counts::default());
        let failures: Vec<String> = std::thread::scope(|scope| {
            let each = (0..threads).map(|thread| {
                scope.spawn({
                    let counts = &counts;
                    move || self.on_one(thread, self.cases.div_ceil(threads), counts)
                })
            });
            let each: Vec<_> = each.collect();
            each.into_iter().filter_map(|thread| thread.join().expect("a runner ends").err()).collect()
        });
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (plans, seconds) = (count(&counts.plans), began.elapsed().as_secs_f64());
        println!(
            "fault plans: {plans} in {seconds:.1} s ({:.1} a second), {} lives, {} steps, {} exchanges",
            plans as f64 / seconds,
            count(&counts.lives),
            count(&counts.callbacks),
            count(&counts.exchanges)
        );
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n\n")) }
    }

    fn on_one(&self, thread: u32, cases: u32, counts: &Counts) -> Result<(), String> {
        let folder = tempfile::tempdir().expect("a folder");
        let kept: Box<FileFailurePersistence> =
            Box::new(FileFailurePersistence::Direct("tests/fault_plans/regressions.txt"));
        let config = Config {
            cases,
            // What is broken on purpose need not be told small.
            max_shrink_iters: if self.sabotage == Sabotage::None { SHRINKS } else { 0 },
            failure_persistence: if self.kept { Some(kept) } else { None },
            ..Config::default()
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.seed.to_le_bytes());
        bytes[8..12].copy_from_slice(&thread.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let result = runner.run(&plans(), |plan| {
            let violations = told(&plan, self.sabotage, folder.path(), counts);
            match violations.is_empty() {
                true => Ok(()),
                false => Err(TestCaseError::fail(violations.join("\n  "))),
            }
        });
        result.map_err(|error| format!("HOLDFAST_PLANS_SEED={} (runner {thread}): {error}", self.seed))
    }
}

/// Tells the whole story of a plan; what was violated.
fn told(plan: &Plan, sabotage: Sabotage, folder: &std::path::Path, counts: &Counts) -> Vec<String> {
    let world = World::new(plan, sabotage, folder);
    let mut progress = Progress::default();
    let mut crashes = plan.crashes.iter().copied();
    while live(&world, &mut progress, crashes.next()) == End::Died {}
    counts.plans.fetch_add(1, Ordering::Relaxed);
    counts.lives.fetch_add(progress.lives.into(), Ordering::Relaxed);
    counts.callbacks.fetch_add(progress.callbacks.into(), Ordering::Relaxed);
    counts.exchanges.fetch_add(world.traffic.exchanges.load(Ordering::Relaxed), Ordering::Relaxed);
    let mut violations = std::mem::take(&mut progress.violations);
    violations.extend(rest::refusals(&world, progress.lives));
    violations.dedup();
    violations.extend(logs::leaked());
    violations.truncate(20);
    if std::env::var_os("HOLDFAST_PLANS_TRACE").is_some() {
        let (steps, lives) = (progress.callbacks, progress.lives);
        println!("{steps} steps, {lives} lives, {violations:?}: {plan:?}");
    }
    violations
}
