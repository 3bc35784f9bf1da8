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

/// In the order in which each round runs them.
#[derive(Clone, Copy)]
enum Variant {
    Floor,
    Unzeroed,
    House,
    Grpc,
    Floor2,
    House2,
    Grpc2,
    FloorTask,
    HouseTask,
}
use Variant::*;

const VARIANTS: [(Variant, &str); 9] = [
    (Floor, "wasmtime alone, stacks zeroed as in the house"),
    (Unzeroed, "wasmtime alone, stacks not zeroed"),
    (House, "Holdfast, `Module::call`"),
    (Grpc, "gRPC child, unix socket"),
    (Floor2, "wasmtime alone, 2 threads"),
    (House2, "Holdfast, 2 threads"),
    (Grpc2, "gRPC child, 2 threads"),
    (FloorTask, "wasmtime alone, each read answered by another task"),
    (HouseTask, "Holdfast, each read answered by another task"),
];

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
    let mut series = VARIANTS.map(|(_, name)| Series::named(name));
    for round in 0..=rounds {
        for ((variant, _), series) in VARIANTS.into_iter().zip(&mut series) {
            let sample = contest.run(variant, length)?;
            // The first round only warms.
            if round > 0 {
                series.rounds.push(sample);
            }
        }
    }
    report(&series);
    let [store, instance, guest, end] = alone().block_on(contest.floor.parts(20_000))?;
    println!(
        "\nOf a poll by wasmtime alone, in µs at p50: {store:.1} to make the store, {instance:.1} to make the instance, \
         {guest:.1} for the guest's callback with its two reads, {end:.1} to take all of it down."
    );
    Ok(())
}

impl Contest {
    fn run(&mut self, variant: Variant, length: Duration) -> Result<Sample> {
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
            Floor => floor(&self.floor, 1),
            Unzeroed => floor(&self.floor_unzeroed, 1),
            House => house(1),
            Grpc => self.caller.round(1, length)?,
            Floor2 => floor(&self.floor, 2),
            House2 => house(2),
            Grpc2 => self.caller.round(2, length)?,
            FloorTask => {
                let floor = self.floor.clone();
                let task = self.daemon.spawn(async move { floor.polls(length, true).await });
                Sample::of(vec![self.daemon.block_on(task)?])
            }
            HouseTask => {
                let (module, port) = (self.module.clone(), port(true));
                let task = self.daemon.spawn(async move { job::polls(&module, &port, length).await });
                Sample::of(vec![self.daemon.block_on(task)?])
            }
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
    let (p50, p99) = (|sample: &Sample| sample.p50, |sample: &Sample| sample.p99);
    let rate = |sample: &Sample| sample.per_second;
    let ratio = |over: Variant, of: Variant, figure: fn(&Sample) -> f64| {
        series[over as usize].ratio(&series[of as usize], figure)
    };
    let goals = [
        (ratio(Floor, House, p50), "Holdfast over wasmtime alone, p50", Goal::AtMost(1.5)),
        (ratio(Unzeroed, House, p50), "the same, floor without zeroing", Goal::AtMost(1.5)),
        (ratio(Floor, House, p99), "Holdfast over wasmtime alone, p99", Goal::AtMost(3.0)),
        (ratio(House, Grpc, p50), "gRPC child over Holdfast, p50", Goal::AtLeast(4.0)),
        (ratio(House, House2, rate), "Holdfast, calls/s of 2 threads over 1", Goal::AtLeast(1.5)),
        (ratio(Floor, Floor2, rate), "wasmtime alone, calls/s of 2 threads over 1", Goal::None),
        (ratio(Grpc, Grpc2, rate), "gRPC child, calls/s of 2 threads over 1", Goal::None),
        (ratio(FloorTask, HouseTask, p50), "Holdfast over wasmtime alone, reads by a task, p50", Goal::None),
        (ratio(HouseTask, Grpc, p50), "gRPC child over Holdfast with reads by a task, p50", Goal::None),
    ];
    for (ratio, what, goal) in goals {
        println!("{}", ratio.row(what, goal));
    }
}
