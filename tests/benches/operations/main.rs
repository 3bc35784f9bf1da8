//! Operations to completion against the simulated cloud, through all rooms, beside the bare store making the same writes.
//!
//! Each is a `HostPowerOff`: one callback with a look, a power call under the journal, and a second look. The cloud runs
//! in the same process and on the same processors.

mod house;
mod recorder;
#[path = "../support/mod.rs"]
mod support;

use anyhow::Result;
use house::House;
use recorder::{Bare, Recording};
use std::time::Duration;
use support::figures::{Goal, Ratio, Sample, Series, head_of_goals, median, preamble, rounds};
use support::job;
use support::process::processor_time;

/// Operations of a round, and how many of them are under way at once.
const KINDS: [(&str, usize, usize); 2] = [("one at a time", 100, 1), ("64 at once", 640, 64)];

/// What the rounds of one kind came to.
#[derive(Default)]
struct Figures {
    operations: Series,
    bare: Series,
    /// Per operation.
    writes: Vec<f64>,
    commits: Vec<f64>,
    durable: Vec<f64>,
    kib: Vec<f64>,
    requests: Vec<f64>,
    /// Milliseconds of processors, the cloud's part included.
    cpu: Vec<f64>,
}

fn main() -> Result<()> {
    let module = job::module()?;
    // Beside the build and not in /tmp, which may be no disk.
    let folder = tempfile::tempdir_in(holdfast_tests::folders::target())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut house = House::open(folder.path(), &module).await?;
        let mut bare = Bare::open(&folder.path().join("bare"))?;
        preamble("operations");
        let (rounds, _) = rounds(5, 0);
        let mut figures = [Figures::default(), Figures::default()];
        for round in 0..=rounds {
            for ((_, count, at_once), figures) in KINDS.iter().zip(&mut figures) {
                let one = one_round(&mut house, &mut bare, *count, *at_once).await?;
                if round > 0 {
                    figures.add(*count as f64, one);
                }
            }
        }
        house.close().await?;
        report(&figures);
        Ok(())
    })
}

struct Round {
    nanos: Vec<u64>,
    took: Duration,
    cpu: f64,
    bare: Duration,
    recording: Recording,
    requests: u64,
}

async fn one_round(house: &mut House, bare: &mut Bare, count: usize, at_once: usize) -> Result<Round> {
    house.machines(count).await?;
    house.tape.settled().await;
    // What was written to prepare: the bare store holds the same objects, and is not timed over them.
    bare.replay(&house.tape.take())?;
    let requests = house.requests();
    let cpu = processor_time()?;
    let (nanos, took) = house.power_off(count, at_once).await?;
    let cpu = processor_time()? - cpu;
    let requests = house.requests() - requests;
    house.tape.settled().await;
    let recording = house.tape.take();
    let bare = bare.replay(&recording)?;
    Ok(Round { nanos, took, cpu, bare, recording, requests })
}

impl Figures {
    fn add(&mut self, count: f64, round: Round) {
        let per_second = count / round.took.as_secs_f64();
        self.operations.rounds.push(Sample { per_second, ..Sample::of(vec![round.nanos]) });
        let per_second = count / round.bare.as_secs_f64();
        self.bare.rounds.push(Sample { per_second, ..Sample::default() });
        self.writes.push(round.recording.writes() as f64 / count);
        self.commits.push(round.recording.commits() as f64 / count);
        self.durable.push(round.recording.durable() as f64 / count);
        self.kib.push(round.recording.bytes() as f64 / count / 1024.0);
        self.requests.push(round.requests as f64 / count);
        self.cpu.push(round.cpu * 1000.0 / count);
    }
}

fn report(figures: &[Figures; 2]) {
    println!(
        "\n| operations | each ms, p50 | p99 | operations/s | bare store, the same writes: operations/s |"
    );
    println!("|---|--:|--:|--:|--:|");
    for ((name, ..), figures) in KINDS.iter().zip(figures) {
        let ms = |of: fn(&Sample) -> f64| figures.operations.median(of) / 1000.0;
        let rate = |series: &Series| series.median(|sample| sample.per_second);
        println!(
            "| {name} | {:.2} | {:.2} | {:.0} | {:.0} |",
            ms(|sample| sample.p50),
            ms(|sample| sample.p99),
            rate(&figures.operations),
            rate(&figures.bare)
        );
    }
    println!(
        "\n| per operation | writes | commits | of them durable | KiB written | requests to the cloud | processor ms |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for ((name, ..), figures) in KINDS.iter().zip(figures) {
        let [writes, commits, durable, kib, requests, cpu] = [
            &figures.writes,
            &figures.commits,
            &figures.durable,
            &figures.kib,
            &figures.requests,
            &figures.cpu,
        ]
        .map(|values| median(values.clone()));
        println!(
            "| {name} | {writes:.1} | {commits:.2} | {durable:.2} | {kib:.1} | {requests:.1} | {cpu:.2} |"
        );
    }
    head_of_goals();
    let rate = |sample: &Sample| sample.per_second;
    let [one, many] = figures;
    let rows: [(Ratio, &str, Goal); 3] = [
        (
            one.bare.ratio(&one.operations, rate),
            "operations/s over the bare store, one at a time",
            Goal::None,
        ),
        (many.bare.ratio(&many.operations, rate), "operations/s over the bare store, 64 at once", Goal::None),
        (one.operations.ratio(&many.operations, rate), "64 at once over one at a time", Goal::AtLeast(4.0)),
    ];
    for (ratio, what, goal) in rows {
        println!("{}", ratio.row(what, goal));
    }
}
