//! Counts of failures in a row, in memory: they set the pace of retries and the cap on failures that the host made.
//!
//! A restart forgets them, which costs at most one more round of tries; attempts to act are counted in the status.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many of the last failures are told when the cap is reached.
const HISTORY: usize = 5;

#[derive(Debug, Default)]
struct Tally {
    in_a_row: u32,
    host_made: u32,
    history: VecDeque<String>,
}

/// Failures by operation uid.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    by_uid: Mutex<HashMap<String, Tally>>,
}

impl Tallies {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Tally>> {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failure; returns how many there were in a row, this one included.
    pub(crate) fn failed(&self, uid: &str) -> u32 {
        let mut all = self.lock();
        let tally = all.entry(uid.to_owned()).or_default();
        tally.in_a_row = tally.in_a_row.saturating_add(1);
        tally.in_a_row
    }

    /// Counts a failure that the host made; returns how many there were, this one included, and the last of them.
    pub(crate) fn host_made(&self, uid: &str, what: &str) -> (u32, String) {
        let mut all = self.lock();
        let tally = all.entry(uid.to_owned()).or_default();
        tally.host_made = tally.host_made.saturating_add(1);
        if tally.history.len() == HISTORY {
            tally.history.pop_front();
        }
        tally.history.push_back(what.to_owned());
        (tally.host_made, tally.history.iter().map(String::as_str).collect::<Vec<_>>().join("; "))
    }

    /// The provider gave an answer: both counts start over.
    pub(crate) fn answered(&self, uid: &str) {
        if let Some(tally) = self.lock().get_mut(uid) {
            *tally = Tally::default();
        }
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }
}
