//! Samples, series of rounds, and tables. What is compared is measured round by round, one after the other, because the
//! machine's own speed wanders; a ratio is taken within each round, and of the rounds' ratios the median is shown.

use std::time::{Duration, Instant};

/// One round of one variant. Times are microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    pub per_second: f64,
}

impl Sample {
    /// From the time of each call, by thread.
    pub fn of(threads: Vec<Vec<u64>>) -> Sample {
        let rate = |nanos: &Vec<u64>| nanos.len() as f64 * 1e9 / (nanos.iter().sum::<u64>().max(1)) as f64;
        let per_second = threads.iter().map(rate).sum();
        let mut all: Vec<u64> = threads.into_iter().flatten().collect();
        all.sort_unstable();
        let at = |part: f64| match all.len() {
            0 => 0.0,
            n => all[((n - 1) as f64 * part) as usize] as f64 / 1000.0,
        };
        Sample { p50: at(0.5), p99: at(0.99), max: at(1.0), per_second }
    }
}

/// All rounds of one variant.
#[derive(Debug, Clone, Default)]
pub struct Series {
    pub name: String,
    pub rounds: Vec<Sample>,
}

impl Series {
    pub fn named(name: &str) -> Series {
        Series { name: name.to_owned(), rounds: Vec::new() }
    }

    pub fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    /// `other` over `self`, round by round.
    pub fn ratio(&self, other: &Series, of: impl Fn(&Sample) -> f64) -> Ratio {
        let pairs = self.rounds.iter().zip(&other.rounds);
        Ratio::of(pairs.map(|(own, other)| of(other) / of(own)).collect())
    }

    /// One line of a table: p50 with its spread, p99, calls each second.
    pub fn row(&self) -> String {
        let p50: Vec<f64> = self.rounds.iter().map(|sample| sample.p50).collect();
        let (low, high) = ends(&p50);
        format!(
            "| {} | {:.1} ({low:.1}..{high:.1}) | {:.1} | {:.0} |",
            self.name,
            median(p50),
            self.median(|sample| sample.p99),
            self.median(|sample| sample.per_second)
        )
    }
}

/// A ratio as the rounds had it.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    pub fn of(rounds: Vec<f64>) -> Ratio {
        let (low, high) = ends(&rounds);
        Ratio { median: median(rounds), low, high }
    }

    /// One line of the table of goals. `goal` is a bound with its direction, such as `<= 1.5`.
    pub fn row(&self, what: &str, goal: Goal) -> String {
        let (met, goal) = match goal {
            Goal::AtMost(bound) => (self.median <= bound, format!("at most {bound}")),
            Goal::AtLeast(bound) => (self.median >= bound, format!("at least {bound}")),
            Goal::None => (true, "–".to_owned()),
        };
        let verdict = if goal == "–" { "" } else { word(met) };
        format!("| {what} | {:.2} ({:.2}..{:.2}) | {goal} | {verdict} |", self.median, self.low, self.high)
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    None,
}

pub fn word(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

pub fn head_of_goals() {
    println!("\n| ratio | median of rounds (lowest..highest) | goal | |\n|---|--:|--:|---|");
}

pub fn head_of_calls() {
    println!("\n| variant | p50 µs (of rounds) | p99 µs | calls/s |\n|---|--:|--:|--:|");
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

/// Runs `work` on threads of their own for `length` each.
pub fn on_threads(
    count: usize,
    length: Duration,
    work: impl Fn(Duration) -> Vec<u64> + Send + Sync,
) -> Sample {
    let threads = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(move || work(length))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a measured thread panicked")).collect()
    });
    Sample::of(threads)
}

/// Says where the figures come from, and what else the machine is doing.
pub fn preamble(bench: &str) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let cpus = std::thread::available_parallelism().map_or(0, |n| n.get());
    println!("# {bench}: {cpus} processors, load {load} at the start");
}

/// The time of a number of rounds that the caller may change: `HOLDFAST_BENCH_ROUNDS`, `HOLDFAST_BENCH_MS`.
pub fn rounds(rounds: usize, milliseconds: u64) -> (usize, Duration) {
    let read = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = read("HOLDFAST_BENCH_ROUNDS").map_or(rounds, |n| n as usize);
    (rounds.max(1), Duration::from_millis(read("HOLDFAST_BENCH_MS").unwrap_or(milliseconds)))
}

pub fn nanos_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
