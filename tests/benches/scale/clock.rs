//! A clock of which an hour can pass in seconds.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdfast_controllers::clock::{Clock, add, until};
use jiff::Timestamp;
use tokio::sync::watch;

/// Goes as fast as the clock of the machine until it is told otherwise.
pub struct QuickClock {
    pace: Mutex<Pace>,
    changed: watch::Sender<u32>,
}

#[derive(Clone, Copy)]
struct Pace {
    at: Timestamp,
    since: Instant,
    times: u32,
}

impl Pace {
    fn now(&self) -> Timestamp {
        add(self.at, self.since.elapsed().saturating_mul(self.times))
    }
}

impl Default for QuickClock {
    fn default() -> QuickClock {
        let pace = Pace { at: Timestamp::now(), since: Instant::now(), times: 1 };
        QuickClock { pace: Mutex::new(pace), changed: watch::Sender::new(1) }
    }
}

impl QuickClock {
    /// Goes so many times as fast from now on.
    pub fn go(&self, times: u32) {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        *pace = Pace { at: pace.now(), since: Instant::now(), times };
        drop(pace);
        self.changed.send_replace(times);
    }

    fn pace(&self) -> Pace {
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl Clock for QuickClock {
    fn now(&self) -> Timestamp {
        self.pace().now()
    }

    async fn sleep_until(&self, at: Timestamp) {
        const LONGEST: Duration = Duration::from_secs(60);
        let mut changed = self.changed.subscribe();
        loop {
            let pace = self.pace();
            let left = until(pace.now(), at);
            if left.is_zero() {
                return;
            }
            // A little more than is left, so that the time has come when this wakes.
            let left = (left / pace.times + Duration::from_micros(1)).min(LONGEST);
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                _ = changed.changed() => {}
            }
        }
    }
}
