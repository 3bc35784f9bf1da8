//! Runs of plans: seeds, threads, shrinking, and what is told of it.
//!
//! Every plan has a number, and is made from the seed and its number alone: whatever runs beside it, and in whatever
//! order, one plan is repeated by these two.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::drive::{End, Progress};
use crate::life::live;
use crate::logs;
use crate::plan::{Plan, plans};
use crate::rest;
use crate::wire::Sabotage;
use crate::world::World;

/// Most plans that are tried to make a failing one smaller, and the longest that it may take. Plans that come to no end
/// take longest of all, and are those that are found.
const SHRINKS: u32 = 200;
const SHRINKING: Duration = Duration::from_secs(120);
/// A plan takes a second at most. One that takes so long stands still: it is told, and the process ends.
const STANDSTILL: Duration = Duration::from_secs(900);

pub struct Run {
    pub seed: u64,
    pub cases: u32,
    /// Nothing but the plan of this number.
    pub only: Option<u32>,
    pub sabotage: Sabotage,
}

/// How many plans a run tells, unless it is told otherwise. Without optimisation these take two processors ten minutes.
const USUAL_CASES: u32 = 2000;

pub fn cases() -> u32 {
    number("HOLDFAST_PLANS").and_then(|count| u32::try_from(count).ok()).unwrap_or(USUAL_CASES)
}

/// The one plan that is to be repeated.
pub fn only() -> Option<u32> {
    number("HOLDFAST_PLANS_ONLY").and_then(|number| u32::try_from(number).ok())
}

/// The seed of the ordinary run of the test suite: what lands must not depend on luck.
const USUAL_SEED: u64 = 4321;

/// From the environment, where `random` is a new one. Else always the same.
pub fn seed() -> u64 {
    if std::env::var("HOLDFAST_PLANS_SEED").is_ok_and(|word| word == "random") {
        let mut bytes = [0; 8];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).expect("randomness");
        return u64::from_le_bytes(bytes);
    }
    number("HOLDFAST_PLANS_SEED").unwrap_or(USUAL_SEED)
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
    stills: AtomicU64,
}

/// A plan that failed.
struct Failure {
    seed: u64,
    number: u32,
    sabotage: Sabotage,
    why: String,
    smallest: Option<Plan>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, number, sabotage, why, smallest } = self;
        writeln!(f, "plan {number} of seed {seed} ({sabotage:?}) fails:\n  {why}")?;
        writeln!(f, "again: {}", again(*seed, *number))?;
        match smallest {
            Some(plan) => write!(f, "the smallest plan that was found to fail:\n{plan:#?}"),
            None => Ok(()),
        }
    }
}

fn again(seed: u64, number: u32) -> String {
    format!(
        "HOLDFAST_PLANS_SEED={seed} HOLDFAST_PLANS_ONLY={number} cargo test --workspace --test fault_plans \
         the_ten -- --nocapture"
    )
}

impl Run {
    /// Runs its plans on so many threads, until one fails. The failure names the seed, the plan's number, the smallest
    /// plan, and how it is repeated.
    pub fn on_threads(&self, threads: u32) -> Result<(), String> {
        println!("fault plans: {} with HOLDFAST_PLANS_SEED={}, {:?}", self.cases, self.seed, self.sabotage);
        logs::watch();
        let (began, counts, watch) = (Instant::now(), Counts::default(), Watch::begin(self.seed));
        let (next, failed) = (AtomicU32::new(0), AtomicBool::new(false));
        let failures: Vec<String> = std::thread::scope(|scope| {
            let runner = || {
                let folder = tempfile::tempdir().expect("a folder");
                while !failed.load(Ordering::SeqCst) {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= self.cases {
                        break;
                    }
                    if self.only.is_some_and(|only| only != number) {
                        continue;
                    }
                    if let Err(failure) = self.plan(number, folder.path(), &counts, &watch) {
                        failed.store(true, Ordering::SeqCst);
                        return Some(failure.to_string());
                    }
                }
                None
            };
            let each: Vec<_> = (0..threads).map(|_| scope.spawn(runner)).collect();
            each.into_iter().filter_map(|thread| thread.join().expect("a runner ends")).collect()
        });
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (plans, seconds) = (count(&counts.plans), began.elapsed().as_secs_f64());
        println!(
            "fault plans: {plans} in {seconds:.1} s ({:.1} a second), {} lives, {} steps, {} exchanges, {} waits",
            plans as f64 / seconds,
            count(&counts.lives),
            count(&counts.callbacks),
            count(&counts.exchanges),
            count(&counts.stills)
        );
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n\n")) }
    }

    fn plan(
        &self,
        number: u32,
        folder: &std::path::Path,
        counts: &Counts,
        watch: &Watch,
    ) -> Result<(), Box<Failure>> {
        let config = Config {
            cases: 1,
            // What is broken on purpose need not be told small.
            max_shrink_iters: if self.sabotage == Sabotage::None { SHRINKS } else { 0 },
            max_shrink_time: u32::try_from(SHRINKING.as_millis()).expect("minutes"),
            failure_persistence: None,
            ..Config::default()
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.seed.to_le_bytes());
        bytes[8..12].copy_from_slice(&number.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let first = AtomicBool::new(true);
        let result = runner.run(&plans(), |plan| {
            let violations = watch.over(number, &plan, || told(&plan, self.sabotage, folder, counts));
            if violations.is_empty() {
                return Ok(());
            }
            let why = violations.join("\n  ");
            if first.swap(false, Ordering::SeqCst) && self.sabotage == Sabotage::None {
                // Said at once: making it smaller takes its time.
                println!("plan {number} fails: {why}\nagain: {}\n{plan:?}", again(self.seed, number));
            }
            Err(TestCaseError::fail(why))
        });
        result.map_err(|error| {
            let (why, smallest) = match error {
                TestError::Fail(why, plan) => (why.to_string(), Some(plan)),
                TestError::Abort(why) => (why.to_string(), None),
            };
            Box::new(Failure { seed: self.seed, number, sabotage: self.sabotage, why, smallest })
        })
    }
}

/// Plans under way, so that one that stands still is told and not waited for.
struct Watch {
    under_way: Mutex<BTreeMap<u32, (Instant, String)>>,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Watch {
    fn begin(seed: u64) -> Arc<Watch> {
        let watch = Arc::new(Watch { under_way: Mutex::default(), ended: Arc::default() });
        let (weak, ended) = (Arc::downgrade(&watch), watch.ended.clone());
        std::thread::spawn(move || {
            let mut over = ended.0.lock().unwrap();
            while !*over {
                over = ended.1.wait_timeout(over, Duration::from_secs(5)).unwrap().0;
                let Some(watch) = weak.upgrade() else { return };
                for (number, (since, plan)) in watch.under_way.lock().unwrap().iter() {
                    if since.elapsed() > STANDSTILL {
                        eprintln!("plan {number} stands still: {plan}\nagain: {}", again(seed, *number));
                        std::process::exit(101);
                    }
                }
            }
        });
        watch
    }

    fn over<T>(&self, number: u32, plan: &Plan, run: impl FnOnce() -> T) -> T {
        self.under_way.lock().unwrap().insert(number, (Instant::now(), format!("{plan:?}")));
        let result = run();
        self.under_way.lock().unwrap().remove(&number);
        result
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.ended.0.lock().unwrap() = true;
        self.ended.1.notify_all();
    }
}

/// Tells the story of one plan that is kept; what was violated.
pub fn alone(plan: &Plan) -> Vec<String> {
    logs::watch();
    let folder = tempfile::tempdir().expect("a folder");
    told(plan, Sabotage::None, folder.path(), &Counts::default())
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
    counts.stills.fetch_add(world.stills.load(Ordering::Relaxed), Ordering::Relaxed);
    let mut violations = std::mem::take(&mut progress.violations);
    violations.extend(rest::refusals(&world, progress.lives));
    violations.dedup();
    violations.extend(logs::leaked());
    violations.truncate(20);
    if std::env::var_os("HOLDFAST_PLANS_TRACE").is_some() {
        let (steps, lives) = (progress.callbacks, progress.lives);
        println!("{steps} steps, {lives} lives, {violations:?}: {plan:?}");
        for (name, operation) in world.disk.objects().operations.iter().filter(|_| !violations.is_empty()) {
            println!("{name}: {:#?}", operation.status);
        }
    }
    violations
}
