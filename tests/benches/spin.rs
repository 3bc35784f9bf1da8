//! Other modules' calls while as many guests spin as there are threads for guests (goal I2).
//!
//! Goals: p99 at most 3 times and calls/s at least half of the quiet run; the daemon's own timers at most twice as late.

mod support;

use anyhow::Result;
use holdfast_effects::{Callback, Lend};
use holdfast_runtime::{Engine, EngineOptions, Module};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::figures::{Goal, Sample, Series, head_of_calls, head_of_goals, nanos_since, preamble, rounds};
use support::job::{self, Canned};
use support::spinner;
use tokio::runtime::{Builder, Runtime};

/// Who calls: one task after another, or as many as a busy daemon has.
const CALLERS: usize = 8;

struct World {
    daemon: Runtime,
    module: Arc<Module>,
    spinner: Arc<Module>,
    /// As many as threads for guests.
    spinning: usize,
}

/// What the calls are like.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    callers: usize,
    by_task: bool,
}

const MODES: [Mode; 3] = [
    Mode { name: "reads answered at once", callers: 1, by_task: false },
    Mode { name: "reads answered by another task", callers: 1, by_task: true },
    Mode { name: "the same, 8 callers", callers: CALLERS, by_task: true },
];

fn main() -> Result<()> {
    let options = EngineOptions::default();
    let spinning = options.guest_threads;
    let engine = Engine::new(options)?;
    let world = World {
        daemon: Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
        module: engine.load(&job::module()?)?,
        spinner: engine.load(&spinner::module()?)?,
        spinning,
    };
    preamble("spin");
    let (rounds, length) = rounds(5, 1000);
    // For each mode: calls and timers, quiet and beside spinning guests.
    let mut table = MODES.map(|mode| {
        let named = |what: &str| Series::named(&format!("{}, {what}", mode.name));
        [[named("quiet"), named("timers, quiet")], [named("2 spinning"), named("timers, 2 spinning")]]
    });
    for round in 0..=rounds {
        for (mode, rows) in MODES.iter().zip(&mut table) {
            for (spinning, [calls, timers]) in [0, world.spinning].into_iter().zip(rows) {
                let (called, slept) = world.run(*mode, spinning, length)?;
                if round > 0 {
                    calls.rounds.push(called);
                    timers.rounds.push(slept);
                }
            }
        }
    }
    report(&table);
    Ok(())
}

impl World {
    fn run(&self, mode: Mode, spinning: usize, length: Duration) -> Result<(Sample, Sample)> {
        self.daemon.block_on(async {
            let spinners: Vec<_> =
                (0..spinning).map(|_| tokio::spawn(spin(self.spinner.clone(), length * 2))).collect();
            // The spinners are on their threads before anything is measured.
            tokio::time::sleep(length / 4).await;
            let timers = tokio::spawn(sleeps(length));
            let port = Arc::new(Canned { by_task: mode.by_task });
            let callers: Vec<_> = (0..mode.callers)
                .map(|_| {
                    let (module, port) = (self.module.clone(), port.clone());
                    tokio::spawn(async move { job::polls(&module, &port, length).await })
                })
                .collect();
            let mut calls = Vec::new();
            for caller in callers {
                calls.push(caller.await?);
            }
            let slept = timers.await?;
            for spinner in spinners {
                spinner.abort();
                let _ = spinner.await;
            }
            Ok((Sample::of(calls), Sample::of(vec![slept])))
        })
    }
}

/// One call that ends with its deadline, or with this future.
async fn spin(module: Arc<Module>, length: Duration) {
    let callback =
        Callback::Poll { request: job::request(), operation: job::operation(), lend: Lend::default() };
    let ended = module.call(callback, Arc::new(Canned { by_task: false }), job::soon(length)).await;
    assert!(ended.is_err(), "a spinning guest returned");
}

/// How much later than asked for a task of the daemon wakes.
async fn sleeps(length: Duration) -> Vec<u64> {
    const NAP: Duration = Duration::from_millis(1);
    let (mut late, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < length {
        let one = Instant::now();
        tokio::time::sleep(NAP).await;
        late.push(nanos_since(one).saturating_sub(NAP.as_nanos() as u64));
    }
    late
}

fn report(table: &[[[Series; 2]; 2]; MODES.len()]) {
    head_of_calls();
    for [calls, timers] in table.iter().flatten() {
        println!("{}", calls.row());
        println!(
            "| {} late | {:.0} | {:.0} | |",
            timers.name,
            timers.median(|s| s.p50),
            timers.median(|s| s.p99)
        );
    }
    head_of_goals();
    for (mode, [[quiet, quiet_timers], [spun, spun_timers]]) in MODES.iter().zip(table) {
        let goals = [
            (quiet.ratio(spun, |s| s.p99), "p99", Goal::AtMost(3.0)),
            (quiet.ratio(spun, |s| s.per_second), "calls/s", Goal::AtLeast(0.5)),
            (quiet_timers.ratio(spun_timers, |s| s.p99), "p99 of how late timers are", Goal::AtMost(2.0)),
        ];
        for (ratio, what, goal) in goals {
            println!("{}", ratio.row(&format!("{}: {what}, 2 spinning over quiet", mode.name), goal));
        }
    }
}
