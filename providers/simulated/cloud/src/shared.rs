//! What every connection of a cloud shares: the state under its lock, and the exchanges that are held.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

use crate::{
    faults::Moment,
    options::{Catalogue, Options},
    state::State,
};

#[derive(Debug)]
pub(crate) struct Shared {
    pub options: Options,
    pub catalogue: Catalogue,
    pub origin: String,
    pub holds: Holds,
    state: Mutex<State>,
}

impl Shared {
    pub fn new(options: Options, origin: String) -> Shared {
        let catalogue = Catalogue { types: options.types.clone(), zones: options.zones.clone() };
        let state = Mutex::new(State::new(&options));
        Shared { options, catalogue, origin, holds: Holds::default(), state }
    }

    /// The state. A panic under the lock leaves it usable: each request changes it only after all its checks.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything as it was at the start, and held exchanges abandoned. The clock goes on, or stays frozen: time
    /// never runs backwards.
    pub fn reset(&self) {
        let mut state = self.state();
        let clock = std::mem::take(&mut state.clock);
        *state = State::new(&self.options);
        state.clock = clock;
        drop(state);
        self.holds.release(true);
    }

    /// Requests of somebody else in the same account.
    pub fn noise(&self, requests: u64) {
        let mut state = self.state();
        let now = state.clock.now();
        if let Some(rate) = state.behaviour.rate.clone() {
            let _ = state.account.spend(requests, &rate, now);
        }
    }
}

/// An exchange that waits to be released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub method: String,
    pub path: String,
    /// Before or after the effect.
    pub moment: Moment,
}

/// The exchanges that are held now.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    waiting: Mutex<(u64, BTreeMap<u64, Waiting>)>,
    count: watch::Sender<usize>,
}

#[derive(Debug)]
struct Waiting {
    held: Held,
    /// True: go on. False: abandoned.
    go: oneshot::Sender<bool>,
}

impl Holds {
    fn waiting(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Waiting>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits to be released; false if the exchange is abandoned.
    pub async fn hold(&self, held: Held) -> bool {
        let (go, gone) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            waiting.0 += 1;
            let id = waiting.0;
            waiting.1.insert(id, Waiting { held, go });
            self.count.send_replace(waiting.1.len());
        }
        gone.await.unwrap_or(false)
    }

    pub fn list(&self) -> Vec<Held> {
        self.waiting().1.values().map(|waiting| waiting.held.clone()).collect()
    }

    /// Lets all go on, or abandons all. Returns how many there were.
    pub fn release(&self, abandon: bool) -> usize {
        let all = std::mem::take(&mut self.waiting().1);
        self.count.send_replace(0);
        let count = all.len();
        for waiting in all.into_values() {
            // The exchange may have ended with the cloud; then nobody waits.
            let _ = waiting.go.send(!abandon);
        }
        count
    }

    /// Returns once at least so many exchanges are held.
    pub async fn reached(&self, count: usize) {
        let mut watch = self.count.subscribe();
        // The sender lives as long as `self`, so this only ends by reaching the count.
        let _ = watch.wait_for(|held| *held >= count).await;
    }
}
