//! The host's clock. Stalls, deadlines, time to live and backoff are counted by it and by nothing else, so that
//! tests can move time instead of sleeping.

use std::sync::Mutex;
use std::time::Duration;

use holdfast_api::{Time, whole_seconds};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

/// Tells the time and waits for it.
#[async_trait::async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// Returns once `now` is at or past `at`.
    async fn sleep_until(&self, at: Timestamp);
}

/// A time as guests read it: RFC 3339 in whole seconds.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait::async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep_until(&self, at: Timestamp) {
        // A wall clock may be set while we sleep: never sleep longer than this without looking again.
        const LONGEST: Duration = Duration::from_secs(60);
        loop {
            let left = until(self.now(), at);
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LONGEST)).await;
        }
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
    moving: Mutex<()>,
}

impl ManualClock {
    /// A clock that stands at `at`.
    pub fn new(at: Timestamp) -> Self {
        Self { now: watch::Sender::new(at), moving: Mutex::new(()) }
    }

    /// Moves the clock forward and wakes who waited for that.
    pub fn advance(&self, by: Duration) {
        let _one = self.moving.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = *self.now.borrow();
        self.now.send_replace(add(now, by));
    }
}

#[async_trait::async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    async fn sleep_until(&self, at: Timestamp) {
        let mut now = self.now.subscribe();
        // The sender lives as long as the clock, so this ends only when the time has come.
        let _ = now.wait_for(|now| *now >= at).await;
    }
}

/// `at` plus `by`, or the end of time.
pub fn add(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| at.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// How long it is from `from` until `to`; zero if that is past.
pub fn until(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// The time as objects keep it.
pub fn stamp(at: Timestamp) -> Time {
    whole_seconds(at)
}
