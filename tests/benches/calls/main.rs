//! One `poll` of the simulated provider: through the house, through wasmtime alone, and over gRPC.
//!
//! Goals of the issue: at most 1.5 times the floor, at least 4 times as fast as a gRPC child, two threads at least 1.5
//! times as many calls as one.

mod floor;
#[path = "../support/mod.rs"]
mod support;

use anyhow::Result;
use floor::Floor;
use holdfast_runtime::{Engine, EngineOptions, Module};
use std::sync::Arc;
use std::time::Duration;
use support::figures::{Goal, Sample, Series, head_of_calls, head_of_goals, on_threads, preamble, rounds};
use support::job::{self, Canned};
use support::peer::{self, Caller, Provider};
use tokio::runtime::{Builder, Runtime};

struct Contest {
    floor: Arc<Floor>,
    floor_unzeroed: Floor,
    module: Arc<Module>,
    caller: Caller,
    /// As the daemon's: what answers reads runs beside what asks.
    daemon: Runtime,
}

/// The variants, in the order in which each round runs them.
const VARIANTS: [&str; 9] = [
    "wasmtime alone, stacks zeroed as in the house",
    "wasmtime alone, stacks not zeroed",
    "Holdfast, `Module::call`",
    "gRPC child, unix socket",
    "wasmtime alone, 2 threads",
    "Holdfast, 2 threads",
    "gRPC child, 2 threads",
    "wasmtime alone, each read answered by another task",
    "Holdfast, each read answered by another task",
];
const [FLOOR, UNZEROED, HOUSE, GRPC, FLOOR_2, HOUSE_2, GRPC_2, FLOOR_TASK, HOUSE_TASK]: [usize; 9] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8];

fn main() -> Result<()> {
    let (bytes, peer) = (job::module()?, peer::build()?);
    let folder = tempfile::tempdir()?;
    let provider = Provider::start(&peer, folder.path(), "peer")?;
    let mut contest = Contest {
        floor: Arc::new(Floor::new(&bytes, true)?),
        floor_unzeroed: Floor::new(&bytes, false)?,
        module: Engine::new(EngineOptions::default())?.load(&bytes)?,
        caller: Caller::start(&peer, &provider)?,
        daemon: Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
    };
    preamble("calls");
    let (rounds, length) = rounds(7, 400);
    let mut series = VARIANTS.map(Series::named);
    for round in 0..=rounds {
        for (variant, series) in series.iter_mut().enumerate() {
            let sample = contest.run(variant, length)?;
            // The first round only warms.
            if round > 0 {
                series.rounds.push(sample);
            }
        }
    }
    report(&series);
    Ok(())
}

impl Contest {
    fn run(&mut self, variant: usize, length: Duration) -> Result<Sample> {
        let floor = |floor: &Floor, threads| {
            on_threads(threads, length, |length| alone().block_on(floor.polls(length, false)))
        };
        let port = |by_task| Arc::new(Canned { by_task });
        let house = |threads| {
            on_threads(threads, length, |length| {
                alone().block_on(job::polls(&self.module, &port(false), length))
            })
        };
        Ok(match variant {
            FLOOR => floor(&self.floor, 1),
            UNZEROED => floor(&self.floor_unzeroed, 1),
            HOUSE => house(1),
            GRPC => self.caller.round(1, length)?,
            FLOOR_2 => floor(&self.floor, 2),
            HOUSE_2 => house(2),
            GRPC_2 => self.caller.round(2, length)?,
            FLOOR_TASK => {
                let floor = self.floor.clone();
                let task = self.daemon.spawn(async move { floor.polls(length, true).await });
                Sample::of(vec![self.daemon.block_on(task)?])
            }
            HOUSE_TASK => {
                let (module, port) = (self.module.clone(), port(true));
                let task = self.daemon.spawn(async move { job::polls(&module, &port, length).await });
                Sample::of(vec![self.daemon.block_on(task)?])
            }
            _ => Sample::default(),
        })
    }
}

/// A thread's own runtime.
fn alone() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn report(series: &[Series; 9]) {
    head_of_calls();
    for series in series {
        println!("{}", series.row());
    }
    head_of_goals();
    let p50 = |sample: &Sample| sample.p50;
    let p99 = |sample: &Sample| sample.p99;
    let rate = |sample: &Sample| sample.per_second;
    let goals = [
        (series[FLOOR].ratio(&series[HOUSE], p50), "Holdfast over wasmtime alone, p50", Goal::AtMost(1.5)),
        (series[UNZEROED].ratio(&series[HOUSE], p50), "the same, floor without zeroing", Goal::AtMost(1.5)),
        (series[FLOOR].ratio(&series[HOUSE], p99), "Holdfast over wasmtime alone, p99", Goal::AtMost(3.0)),
        (series[HOUSE].ratio(&series[GRPC], p50), "gRPC child over Holdfast, p50", Goal::AtLeast(4.0)),
        (series[HOUSE].ratio(&series[HOUSE_2], rate), "Holdfast, calls/s of 2 threads over 1", Goal::AtLeast(1.5)),
        (series[FLOOR].ratio(&series[FLOOR_2], rate), "wasmtime alone, calls/s of 2 threads over 1", Goal::None),
        (series[GRPC].ratio(&series[GRPC_2], rate), "gRPC child, calls/s of 2 threads over 1", Goal::None),
        (series[FLOOR_TASK].ratio(&series[HOUSE_TASK], p50), "Holdfast over wasmtime alone, reads by a task, p50", Goal::None),
        (series[HOUSE_TASK].ratio(&series[GRPC], p50), "gRPC child over Holdfast with reads by a task, p50", Goal::None),
    ];
    for (ratio, what, goal) in goals {
        println!("{}", ratio.row(what, goal));
    }
}
