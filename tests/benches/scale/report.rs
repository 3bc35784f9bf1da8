//! The tables.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::support::figures::word;
use super::{Cost, FirstBoot, Run};

/// Seconds in which 10,000 machines are to be allocated.
const GOAL: f64 = 120.0;
/// How much more a machine may cost among ten times as many: the noise of a machine that does other things too.
const LINEAR: f64 = 1.15;

/// One line as soon as a size is done.
pub fn progress(run: &Run) {
    println!(
        "{} machines ({}): allocated in {:.1} s, released in {:.1} s",
        run.machines,
        run.first_boot.word(),
        run.allocate.took.as_secs_f64(),
        run.release.took.as_secs_f64()
    );
}

pub fn tables(runs: &[Run]) {
    println!("\n| allocate | machines | first-boot data | s | machines/s | goal | |");
    println!("|---|--:|---|--:|--:|--:|---|");
    for run in runs {
        for (what, cost) in [("allocate", &run.allocate), ("release", &run.release)] {
            let (seconds, machines) = (cost.took.as_secs_f64(), cost.machines);
            let (goal, met) = match (what, machines) {
                ("allocate", 10_000) => ("at most 120 s", word(seconds <= GOAL)),
                _ => ("–", ""),
            };
            let rate = machines as f64 / seconds;
            println!(
                "| {what} | {machines} | {} | {seconds:.1} | {rate:.0} | {goal} | {met} |",
                run.first_boot.word()
            );
        }
    }
    println!(
        "\n| per machine | of | processor ms | writes | commits | durable | KiB written | requests to the cloud |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for run in runs {
        for (what, cost) in [("allocate", &run.allocate), ("release", &run.release)] {
            let each = |value: f64| value / cost.machines as f64;
            println!(
                "| {what}, {} | {} | {:.1} | {:.1} | {:.2} | {:.2} | {:.1} | {:.2} |",
                run.first_boot.word(),
                cost.machines,
                each(cost.cpu * 1000.0),
                each(cost.written.all() as f64),
                each(cost.written.commits as f64),
                each(cost.written.durable as f64),
                each(cost.written.bytes as f64 / 1024.0),
                each(cost.requests.values().sum::<u64>() as f64),
            );
        }
    }
    memory(runs);
    idle(runs);
    growth(runs);
    if let Some(run) = runs.last() {
        println!();
        for (what, cost) in [("allocate", &run.allocate), ("release", &run.release)] {
            let each = |count: f64| format!("{:.2}", count / cost.machines as f64);
            let writes = cost.written.writes.iter().map(|(kind, count)| (kind, each(*count as f64)));
            println!("writes of one machine, {what}: {}", list(writes));
            let requests = cost.requests.iter().map(|(route, count)| (route, each(*count as f64)));
            println!("requests of one machine, {what}: {}", list(requests));
        }
    }
}

fn memory(runs: &[Run]) {
    println!(
        "\n| memory | machines | RSS MiB before | allocated | peak | KiB per machine | store MiB allocated | released | KiB per machine | lists anew |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for run in runs {
        let mib = |kib: u64| kib as f64 / 1024.0;
        let [empty, full, released] = run.store;
        println!(
            "| {} | {} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
            run.first_boot.word(),
            run.machines,
            mib(run.before),
            mib(run.allocated),
            mib(run.peak),
            run.memory_each(),
            mib(full / 1024),
            mib(released / 1024),
            full.saturating_sub(empty) as f64 / 1024.0 / run.machines as f64,
            run.listings,
        );
    }
}

fn idle(runs: &[Run]) {
    println!("\n| idle | machines | processor ms per second | writes | requests to the cloud |");
    println!("|---|--:|--:|---|---|");
    for run in runs {
        for (what, cost) in [("as the clock goes", &run.idle), ("an hour in a moment", &run.hour)] {
            println!(
                "| {what}, {:.0} s | {} | {:.2} | {} | {} |",
                cost.took.as_secs_f64(),
                run.machines,
                cost.cpu * 1000.0 / cost.took.as_secs_f64(),
                counts(&cost.written.writes),
                counts(&cost.requests),
            );
        }
    }
}

/// The cost of one machine among ten times as many.
fn growth(runs: &[Run]) {
    println!("\n| one machine among ten times as many | from | to | ratio | goal | |");
    println!("|---|--:|--:|--:|--:|---|");
    let runs: Vec<&Run> = runs.iter().filter(|run| run.first_boot == FirstBoot::Template).collect();
    for pair in runs.windows(2) {
        let [small, large] = pair else { continue };
        let of = |what: &str, each: &dyn Fn(&Run) -> f64| {
            let (ratio, from, to) = (each(large) / each(small), small.machines, large.machines);
            println!(
                "| {what} | {from} | {to} | {ratio:.2} | at most {LINEAR} | {} |",
                word(ratio <= LINEAR)
            );
        };
        type Phase = fn(&Run) -> &Cost;
        let phases: [(&str, Phase); 2] = [("allocate", |run| &run.allocate), ("release", |run| &run.release)];
        for (what, phase) in phases {
            let each = |run: &Run, value: f64| value / phase(run).machines as f64;
            of(&format!("{what}: time"), &|run| each(run, phase(run).took.as_secs_f64()));
            of(&format!("{what}: processors"), &|run| each(run, phase(run).cpu));
            of(&format!("{what}: writes"), &|run| each(run, phase(run).written.all() as f64));
            of(&format!("{what}: requests"), &|run| {
                each(run, phase(run).requests.values().sum::<u64>() as f64)
            });
        }
        of("memory", &|run| run.memory_each());
    }
}

impl Run {
    /// KiB.
    fn memory_each(&self) -> f64 {
        self.allocated.saturating_sub(self.before) as f64 / self.machines as f64
    }
}

fn counts<N: Display>(counts: &BTreeMap<String, N>) -> String {
    if counts.is_empty() { "none".to_owned() } else { list(counts.iter()) }
}

fn list<K: Display, N: Display>(all: impl Iterator<Item = (K, N)>) -> String {
    all.map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
}
