//! What a sweep met on its way: a sweep that never met what it is for shows nothing.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Met {
    points: usize,
    repeated: BTreeSet<(String, String)>,
    took_effect: usize,
    did_not_happen: usize,
}

/// Counts of one sweep, shared by its lines.
#[derive(Default)]
pub struct Tally(Mutex<Met>);

impl Tally {
    fn met(&self) -> MutexGuard<'_, Met> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The daemon was killed at a point that no other kill covered, and what came of it was judged.
    pub fn covered(&self, points: usize) {
        self.met().points += points;
    }

    /// An effect of this kind of operation by this call was sent more than once.
    pub fn repeated(&self, kind: &str, call: &str) {
        self.met().repeated.insert((kind.to_owned(), call.to_owned()));
    }

    /// A person settled an effect in doubt.
    pub fn resolved(&self, took_effect: bool) {
        let mut met = self.met();
        *(if took_effect { &mut met.took_effect } else { &mut met.did_not_happen }) += 1;
    }

    pub fn points(&self) -> usize {
        self.met().points
    }

    /// How often a person said that an effect took place, and that it did not happen.
    pub fn resolutions(&self) -> (usize, usize) {
        let met = self.met();
        (met.took_effect, met.did_not_happen)
    }

    /// Kinds of operations with the calls that were sent more than once for one effect.
    pub fn repeats(&self) -> Vec<(String, String)> {
        self.met().repeated.iter().cloned().collect()
    }
}
