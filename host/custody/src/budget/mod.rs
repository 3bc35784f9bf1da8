//! Budgets per (origin, account), shared by all modules and callers of the process (I10): how many requests may be in
//! flight, how fast, and until when none at all.
//!
//! Waiting is bounded. A request that would wait longer is turned away before a byte of it leaves, with the time after
//! which it may come again; so it is never in doubt.

mod account;
pub(crate) mod signal;

use crate::errors::refusal;
use crate::message::{BudgetView, Refusal};
use crate::registry::Bound;
use crate::vault::Credentials;
use account::Account;
pub(crate) use account::{Hold, Lane};
use jiff::{SignedDuration, Timestamp};
use signal::{Load, Remaining};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Longest wait for a turn.
const PATIENCE: Duration = Duration::from_secs(2);
/// What nobody used for this long is forgotten, unless the service asked for a longer wait.
const IDLE: Duration = Duration::from_secs(600);
/// How many accounts there are before the first look for forgotten ones.
const MANY: usize = 256;

/// Whose requests, and where to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BudgetKey {
    /// `https://host[:port]`.
    origin: String,
    /// Uid of the secret; empty where the endpoint takes no credentials.
    account: String,
}

impl BudgetKey {
    pub fn new(bound: &Bound, credentials: Option<&Credentials>) -> BudgetKey {
        BudgetKey {
            origin: bound.origin.origin().ascii_serialization(),
            account: credentials.map(|credentials| credentials.identity.account.clone()).unwrap_or_default(),
        }
    }
}

#[derive(Default)]
pub(crate) struct Budgets {
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    accounts: HashMap<BudgetKey, Shared>,
    sweep_at: usize,
}

type Shared = Arc<Mutex<Account>>;

/// One request on its way. Dropped without a word, it counts as lost; after its deadline, as too slow.
pub(crate) struct Turn {
    account: Shared,
    epoch: u64,
    began: Instant,
    deadline: Instant,
    ended: bool,
}

impl Budgets {
    /// Waits for a turn, no longer than two seconds and three quarters of what the deadline leaves.
    pub async fn enter(
        &self,
        key: BudgetKey,
        name: &str,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Turn, Held> {
        let shared = self.account(key, name);
        let now = Instant::now();
        let patience = now + PATIENCE.min(deadline.saturating_duration_since(now) * 3 / 4);
        let mut place: Option<Place> = None;
        loop {
            let (wake, until) = {
                let mut account = lock(&shared);
                let now = Instant::now();
                let hold = match account.may(lane, place.as_ref().map(|place| place.ticket), now) {
                    Ok(()) => {
                        if let Some(place) = place.take() {
                            place.gone(&mut account);
                        }
                        let epoch = account.depart(lane, now);
                        drop(account);
                        return Ok(Turn { account: shared, epoch, began: now, deadline, ended: false });
                    }
                    Err(hold) => hold,
                };
                let until = match hold {
                    Hold::Until(then) => then,
                    Hold::Full | Hold::Turn => patience,
                };
                if until > patience || now >= patience {
                    account.counts.refused += 1;
                    return Err(Held { hold, wait: account.come_again(hold, now) });
                }
                let place = place.get_or_insert_with(|| Place::take(&shared, &mut account, lane));
                (place.wake.clone(), until)
            };
            tokio::select! {
                () = wake.notified() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// For what must not wait: a logout frees what the service has little of.
    pub fn pass(&self, key: BudgetKey, name: &str, deadline: Instant) -> Turn {
        let shared = self.account(key, name);
        let now = Instant::now();
        let epoch = lock(&shared).depart(Lane::Change, now);
        Turn { account: shared, epoch, began: now, deadline, ended: false }
    }

    /// All budgets, in order.
    pub fn views(&self) -> Vec<BudgetView> {
        let mut all: Vec<(BudgetKey, Shared)> =
            self.lock().accounts.iter().map(|(key, shared)| (key.clone(), shared.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let now = Instant::now();
        let wall = |then: Instant| {
            let wait = SignedDuration::try_from(then.saturating_duration_since(now)).unwrap_or_default();
            Timestamp::now().saturating_add(wait).unwrap_or(Timestamp::MAX)
        };
        let view = |(key, shared): (BudgetKey, Shared)| {
            let account = lock(&shared);
            BudgetView {
                endpoint: key.origin,
                account: key.account,
                name: account.name.clone(),
                limit: account.limit(),
                in_flight: account.in_flight(),
                waiting: account.waiting() as u32,
                throttled_until: account.throttled_until(now).map(wall),
                remaining: account.left(now),
                held_until: None,
                sent: account.counts.sent,
                throttled: account.counts.throttled,
                overloaded: account.counts.overloaded,
                refused: account.counts.refused,
            }
        };
        all.into_iter().map(view).collect()
    }

    fn account(&self, key: BudgetKey, name: &str) -> Shared {
        let mut all = self.lock();
        if let Some(shared) = all.accounts.get(&key) {
            return shared.clone();
        }
        let now = Instant::now();
        if all.accounts.len() >= all.sweep_at.max(MANY) {
            // A strong count of one: nobody is about to enter.
            all.accounts
                .retain(|_, shared| Arc::strong_count(shared) > 1 || !lock(shared).forgettable(now, IDLE));
            all.sweep_at = all.accounts.len() * 2;
        }
        let shared = Arc::new(Mutex::new(Account::new(name.to_owned(), now)));
        all.accounts.insert(key, shared.clone());
        shared
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turn {
    /// The answer came.
    pub fn heard(mut self, (load, left): (Load, Option<Remaining>)) {
        self.end(load, left);
    }

    fn end(&mut self, load: Load, left: Option<Remaining>) {
        let now = Instant::now();
        self.ended = true;
        lock(&self.account).arrive(self.epoch, load, left, now - self.began, now);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.ended {
            let late = Instant::now() >= self.deadline;
            self.end(if late { Load::Overloaded } else { Load::Unknown }, None);
        }
    }
}

/// A place in a queue; left when its owner gives up.
struct Place {
    account: Shared,
    lane: Lane,
    ticket: u64,
    wake: Arc<Notify>,
    left: bool,
}

impl Place {
    fn take(shared: &Shared, account: &mut Account, lane: Lane) -> Place {
        let (ticket, wake) = account.join(lane);
        Place { account: shared.clone(), lane, ticket, wake, left: false }
    }

    /// Its turn has come; the account is locked already.
    fn gone(mut self, account: &mut Account) {
        self.left = true;
        account.leave(self.lane, self.ticket);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.left {
            lock(&self.account).leave(self.lane, self.ticket);
        }
    }
}

/// Turned away before anything was sent.
#[derive(Debug)]
pub(crate) struct Held {
    hold: Hold,
    pub wait: Duration,
}

impl Held {
    /// The same words each time, so that a status that repeats them does not change (H04).
    pub fn refusal(&self, call: &str) -> Refusal {
        let (reason, why) = match self.hold {
            Hold::Until(_) => {
                ("ServiceThrottles", "the service takes no more requests of this account for now")
            }
            Hold::Full | Hold::Turn => {
                ("ServiceBusy", "as many requests of this account as the service bears are on their way")
            }
        };
        let mut refusal =
            refusal("throttled", reason, format!("call `{call}`: {why}; this one was not sent"));
        refusal.retry_after_ms = Some(u64::try_from(self.wait.as_millis()).unwrap_or(u64::MAX).max(1));
        refusal
    }
}

#[cfg(test)]
mod tests;
