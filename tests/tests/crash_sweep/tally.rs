//! What a sweep met on its way: a sweep that never met what it is for shows nothing.

use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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

    /// Prints what was covered, past the capture of the test's output. Something must have been in doubt.
    pub fn tell(&self, where_: &str, began: Instant) -> Result<()> {
        let met = self.met();
        let (points, seconds) = (met.points, began.elapsed().as_secs());
        let (took, not) = (met.took_effect, met.did_not_happen);
        writeln!(
            std::io::stdout(),
            "crash sweep: {points} points {where_} in {seconds} s; {} calls met in doubt and sent again; resolved by a \
             person: {took} took effect, {not} did not happen",
            met.repeated.len()
        )?;
        ensure!(!met.repeated.is_empty() && took + not > 0, "nothing was ever in doubt: {:?}", met.repeated);
        Ok(())
    }

    /// Every call of these kinds of operations was met in doubt and sent again, and a `never` call lost on both sides.
    pub fn wants(&self, to_repeat: &[(&str, &str)]) -> Result<()> {
        let met = self.met();
        let (took, not) = (met.took_effect, met.did_not_happen);
        for (kind, call) in to_repeat {
            let repeated = met.repeated.contains(&((*kind).to_owned(), (*call).to_owned()));
            ensure!(repeated, "call {call} of {kind} was never in doubt and sent again: {:?}", met.repeated);
        }
        ensure!(took > 0 && not > 0, "a `never` call was never lost on both sides ({took} and {not} times)");
        Ok(())
    }

    pub fn points(&self) -> usize {
        self.met().points
    }
}
