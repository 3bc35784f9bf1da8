//! What a sweep met on its way: a sweep that never met what it is for shows nothing.

use anyhow::{Result, ensure};
use holdfast_api::MachineOperation;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::scenario::{Scenario, Service};

#[derive(Default)]
struct Met {
    points: BTreeSet<String>,
    repeated: BTreeSet<(String, String)>,
    took_effect: usize,
    did_not_happen: usize,
}

/// Counts of one sweep, shared by all that run at a time.
#[derive(Default)]
pub struct Tally(Mutex<Met>);

impl Tally {
    fn met(&self) -> MutexGuard<'_, Met> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A daemon died at this point, and what came of it was judged.
    pub fn covered(&self, point: String) {
        self.met().points.insert(point);
    }

    /// All points that were covered.
    pub fn points(&self) -> BTreeSet<String> {
        self.met().points.clone()
    }

    /// Takes from the journals of ended operations which calls were sent more than once.
    pub fn repeats(&self, ended: &[MachineOperation]) {
        for operation in ended {
            let effects = operation.status.iter().flat_map(|status| &status.effects);
            for effect in effects.filter(|effect| effect.attempts > 1) {
                self.met().repeated.insert((operation.spec.operation_kind.clone(), effect.call.clone()));
            }
        }
    }

    /// A person settled an effect in doubt.
    pub fn resolved(&self, took_effect: bool) {
        let mut met = self.met();
        *(if took_effect { &mut met.took_effect } else { &mut met.did_not_happen }) += 1;
    }

    /// Prints what was covered, past the capture of the test's output.
    pub fn tell<S: Service>(&self, what: &str, began: Instant) -> Result<()> {
        let met = self.met();
        writeln!(
            std::io::stdout(),
            "crash sweep: {} points at {what} over {} in {} s; {} calls met in doubt and sent again; resolved by a \
             person: {} took effect, {} did not happen",
            met.points.len(),
            S::NAME,
            began.elapsed().as_secs(),
            met.repeated.len(),
            met.took_effect,
            met.did_not_happen
        )?;
        Ok(())
    }

    /// Every call of these rows was met in doubt and sent again, and a `never` call lost on both sides.
    pub fn wants<World: 'static>(
        &self,
        rows: impl IntoIterator<Item = &'static Scenario<World>>,
    ) -> Result<()> {
        let met = self.met();
        for row in rows {
            for call in row.repeats {
                let of = |kind: &str| met.repeated.contains(&(kind.to_owned(), (*call).to_owned()));
                let repeated = row.start.kinds().into_iter().any(of);
                ensure!(
                    repeated,
                    "{call} of {} was never in doubt and sent again: {:?}",
                    row.name,
                    met.repeated
                );
            }
            let (took, not) = (met.took_effect, met.did_not_happen);
            ensure!(
                !row.never || (took > 0 && not > 0),
                "the call of {} was never lost on both sides ({took} and {not} times)",
                row.name
            );
        }
        Ok(())
    }
}
