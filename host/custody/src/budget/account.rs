//! What one account may do at one origin now: a window of requests in flight that learns, a rate that the service tells,
//! and two queues, for changes and for reads, that take turns.
//!
//! Nothing in this file waits or reads a clock: every decision is a function of what was heard and of `now`.

use super::signal::{Load, Remaining};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Requests in flight that nobody has to earn. From here the window doubles per round trip until the service says no.
const START: f64 = 16.0;
/// Against a service that never says no; above what this process can have open.
const CEILING: f64 = 4096.0;
/// The first wait after a throttled answer that names none; it doubles.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// However long a service wants no requests, one goes after this time and asks whether that still holds: a header that is
/// wrong, or was meant for somebody else, must not stop an account for a day (attack A13).
const PROBE: Duration = Duration::from_secs(3600);

/// Changes must not starve behind a noise of reads, nor the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Change,
    Read,
}

impl Lane {
    fn other(self) -> Lane {
        match self {
            Lane::Change => Lane::Read,
            Lane::Read => Lane::Change,
        }
    }
}

/// Why a request may not go now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Not before this moment.
    Until(Instant),
    /// Not before another is back.
    Full,
    /// Not before those who came first.
    Turn,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub sent: u64,
    pub throttled: u64,
    pub overloaded: u64,
    pub refused: u64,
}

struct Waiter {
    ticket: u64,
    wake: Arc<Notify>,
}

/// What the service has told of its rate. It is not ours alone: each answer corrects it (G04).
struct Rate {
    left: u64,
    whole: Instant,
    /// The most that ever was left: the size of the budget, as far as one can see.
    most: u64,
    /// Earliest next request of each lane while the rest is spread over the time.
    next: [Option<Instant>; 2],
}

pub(crate) struct Account {
    /// Shown to operators.
    pub name: String,
    pub counts: Counts,
    window: f64,
    /// Has it never been told to slow down?
    young: bool,
    /// Requests sent before the last cut of the window say nothing about the window after it.
    epoch: u64,
    in_flight: u32,
    until: Option<Instant>,
    /// Epoch of the request that asks whether a long wait still holds.
    probe: Option<u64>,
    /// Throttled answers in a row.
    row: u32,
    rate: Option<Rate>,
    queues: [VecDeque<Waiter>; 2],
    last: Lane,
    tickets: u64,
    /// Mean time of a request, in seconds.
    mean: f64,
    pub touched: Instant,
}

impl Account {
    pub fn new(name: String, now: Instant) -> Account {
        Account {
            name,
            counts: Counts::default(),
            window: START,
            young: true,
            epoch: 0,
            in_flight: 0,
            until: None,
            probe: None,
            row: 0,
            rate: None,
            queues: [VecDeque::new(), VecDeque::new()],
            last: Lane::Read,
            tickets: 0,
            mean: 0.0,
            touched: now,
        }
    }

    pub fn limit(&self) -> u32 {
        self.window as u32
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub fn waiting(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Does nobody use it, and would it forget nothing that a service asked for?
    pub fn forgettable(&self, now: Instant, idle: Duration) -> bool {
        self.in_flight == 0
            && self.waiting() == 0
            && now.saturating_duration_since(self.touched) >= idle
            && self.throttled_until(now).is_none()
    }

    /// Until when nothing at all is sent.
    pub fn throttled_until(&self, now: Instant) -> Option<Instant> {
        let spent = self.rate.as_ref().filter(|rate| rate.left == 0).map(|rate| rate.whole);
        self.until.max(spent).filter(|until| *until > now)
    }

    /// What is left of the rate, if the service tells it.
    pub fn left(&self, now: Instant) -> Option<u64> {
        self.rate.as_ref().filter(|rate| rate.whole > now).map(|rate| rate.left)
    }

    /// May a request of this lane go, when `ticket` (none: a newcomer) is its place in the queue?
    pub fn may(&self, lane: Lane, ticket: Option<u64>, now: Instant) -> Result<(), Hold> {
        let head = self.queues[lane as usize].front().map(|waiter| waiter.ticket);
        self.room(lane, now)?;
        if head != ticket {
            return Err(Hold::Turn);
        }
        let other = lane.other();
        let theirs = self.last == lane && !self.queues[other as usize].is_empty();
        if theirs && self.room(other, now).is_ok() { Err(Hold::Turn) } else { Ok(()) }
    }

    /// Leaving the queues aside.
    fn room(&self, lane: Lane, now: Instant) -> Result<(), Hold> {
        let until = self.until.filter(|until| *until > now);
        let rate = self.rate.as_ref().filter(|rate| rate.whole > now);
        let spent = rate.filter(|rate| rate.left <= rate.kept(lane)).map(|rate| rate.whole);
        let spread = rate.and_then(|rate| rate.next[lane as usize]).filter(|next| *next > now);
        if let Some(until) = until.or(spent).or(spread)
            && now < self.probe_at()
        {
            return Err(Hold::Until(until.min(self.probe_at())));
        }
        if f64::from(self.in_flight) + 1.0 > self.window { Err(Hold::Full) } else { Ok(()) }
    }

    /// From when on one request may ask whether a wait still holds.
    fn probe_at(&self) -> Instant {
        self.touched + PROBE
    }

    /// Puts a request into its queue.
    pub fn join(&mut self, lane: Lane) -> (u64, Arc<Notify>) {
        self.tickets += 1;
        let wake = Arc::new(Notify::new());
        self.queues[lane as usize].push_back(Waiter { ticket: self.tickets, wake: wake.clone() });
        (self.tickets, wake)
    }

    pub fn leave(&mut self, lane: Lane, ticket: u64) {
        self.queues[lane as usize].retain(|waiter| waiter.ticket != ticket);
        self.wake();
    }

    /// Counts a request out. Returns the epoch to hand back with its end.
    pub fn depart(&mut self, lane: Lane, now: Instant) -> u64 {
        if self.throttled_until(now).is_some() && now >= self.probe_at() {
            self.epoch += 1;
            self.probe = Some(self.epoch);
        }
        self.in_flight += 1;
        self.counts.sent += 1;
        self.last = lane;
        self.touched = now;
        if let Some(rate) = self.rate.as_mut().filter(|rate| rate.whole > now) {
            rate.spend(lane, now);
        }
        self.wake();
        self.epoch
    }

    /// Takes in what became of a request.
    pub fn arrive(&mut self, epoch: u64, load: Load, left: Option<Remaining>, took: Duration, now: Instant) {
        let used = f64::from(self.in_flight);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.touched = now;
        self.mean =
            if self.mean == 0.0 { took.as_secs_f64() } else { self.mean * 0.8 + took.as_secs_f64() * 0.2 };
        let probe = self.probe.take_if(|probe| *probe == epoch).is_some();
        if probe && load == Load::Fine {
            // It does take requests: what it said an hour ago or longer is no longer so.
            self.until = None;
            self.rate = None;
        }
        if let Some(left) = left {
            self.learn(left, now);
        }
        match load {
            Load::Fine => {
                if epoch == self.epoch {
                    self.row = 0;
                }
                // What was never filled says nothing about whether more would be too much.
                if used * 2.0 > self.window {
                    self.window += if self.young { 1.0 } else { 1.0 / self.window };
                    self.window = self.window.min(CEILING);
                }
            }
            Load::Overloaded => {
                self.counts.overloaded += 1;
                self.cut(epoch);
            }
            Load::Throttled(wait) => {
                self.counts.throttled += 1;
                let backoff = FIRST.saturating_mul(1 << self.row.min(10)).min(LONGEST);
                if self.cut(epoch) {
                    self.row += 1;
                }
                self.until = self.until.max(Some(now + wait.unwrap_or(backoff)));
            }
            Load::Unknown => {}
        }
        self.wake();
    }

    /// Halves the window, once for all that were on their way together.
    fn cut(&mut self, epoch: u64) -> bool {
        if epoch != self.epoch {
            return false;
        }
        self.window = (self.window / 2.0).max(1.0);
        self.young = false;
        self.epoch += 1;
        true
    }

    fn learn(&mut self, left: Remaining, now: Instant) {
        let former = self.rate.take();
        let most = former.as_ref().map_or(0, |rate| rate.most).max(left.requests);
        // Those on their way may not be counted yet.
        let requests = left.requests.saturating_sub(u64::from(self.in_flight));
        let mut rate = Rate { left: requests, whole: now + left.reset, most, next: [None; 2] };
        for lane in [Lane::Change, Lane::Read] {
            let next = former.as_ref().and_then(|former| former.next[lane as usize]);
            // A rate that is whole again, or of which more is left than it seemed, is not to be waited for.
            rate.next[lane as usize] =
                next.zip(rate.spacing(lane, now)).map(|(next, gap)| next.min(now + gap));
        }
        self.rate = Some(rate);
    }

    /// When a request that is turned away now could sensibly come again.
    pub fn come_again(&self, hold: Hold, now: Instant) -> Duration {
        match hold {
            Hold::Until(then) => then.saturating_duration_since(now),
            Hold::Full | Hold::Turn => {
                let queue = self.waiting() as f64 + 1.0;
                let wait = queue * self.mean / self.window;
                Duration::from_secs_f64(wait.clamp(1.0, LONGEST.as_secs_f64()))
            }
        }
    }

    /// Lets the first of each queue look again.
    fn wake(&self) {
        self.queues.iter().filter_map(VecDeque::front).for_each(|waiter| waiter.wake.notify_one());
    }
}

impl Rate {
    /// What this lane must not touch: reads leave a tenth for changes, so that hosts can be released (G01).
    fn kept(&self, lane: Lane) -> u64 {
        match lane {
            Lane::Change => 0,
            Lane::Read => self.most / 10,
        }
    }

    fn spend(&mut self, lane: Lane, now: Instant) {
        self.left = self.left.saturating_sub(1);
        self.next[lane as usize] = self.spacing(lane, now).map(|gap| now + gap);
    }

    /// Below half of the budget reads are spread over the time to its reset, below a tenth changes are, so that it
    /// lasts. A budget that fills up all the time settles at half by that.
    fn spacing(&self, lane: Lane, now: Instant) -> Option<Duration> {
        let threshold = match lane {
            Lane::Change => self.most / 10,
            Lane::Read => self.most / 2,
        };
        let usable = self.left.saturating_sub(self.kept(lane));
        let share = u32::try_from(usable).unwrap_or(u32::MAX);
        (self.left < threshold && usable > 0).then(|| self.whole.saturating_duration_since(now) / share)
    }
}
