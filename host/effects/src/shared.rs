//! What all sessions of a process share: custody, clock, locks per effect, and outcomes that wait to be written.

use crate::exchanger::{Clock, Exchanger};
use crate::journal::Effect;
use jiff::Timestamp;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, watch};
use tokio::task::JoinHandle;

/// Names one effect in this process: provider, operation uid, key.
pub(crate) type EffectName = (String, String, String);

/// Outcomes that may wait for the store at once; beyond it the oldest doubt goes back to the journal's rules.
const MAX_WAITING: usize = 4096;

/// Since when lookups of this process have found nothing.
struct Absence {
    /// As the journal has it, in whole seconds: another one is another absence.
    since: i64,
    /// On the monotonic clock.
    from: Duration,
}

pub(crate) struct Shared {
    pub custody: Arc<dyn Exchanger>,
    pub clock: Arc<dyn Clock>,
    /// The daemon's runtime, not that of the guests: exchanges outlive guests (attack 82).
    handle: Handle,
    turns: Mutex<HashMap<EffectName, Weak<Turn<()>>>>,
    waiting: Mutex<HashMap<EffectName, Effect>>,
    absences: Mutex<HashMap<EffectName, Absence>>,
    in_flight: watch::Sender<usize>,
}

impl Shared {
    pub fn new(custody: Arc<dyn Exchanger>, clock: Arc<dyn Clock>) -> Self {
        Shared {
            custody,
            clock,
            handle: Handle::current(),
            turns: Mutex::default(),
            waiting: Mutex::default(),
            absences: Mutex::default(),
            in_flight: watch::Sender::new(0),
        }
    }

    /// Waits until nobody else works on this effect; an attempt still on the wire is somebody.
    pub async fn turn(&self, name: &EffectName) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = lock(&self.turns);
            if turns.len() >= 1024 {
                turns.retain(|_, turn| turn.strong_count() > 0);
            }
            match turns.get(name).and_then(Weak::upgrade) {
                Some(turn) => turn,
                None => {
                    let turn = Arc::new(Turn::new(()));
                    turns.insert(name.clone(), Arc::downgrade(&turn));
                    turn
                }
            }
        };
        turn.lock_owned().await
    }

    /// Runs on the daemon's runtime, whatever becomes of the caller; counted for [`Shared::drain`].
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let count = Count::up(self.in_flight.clone());
        self.handle.spawn(async move {
            let _count = count;
            work.await
        })
    }

    pub async fn drain(&self) {
        let mut count = self.in_flight.subscribe();
        // The sender lives as long as `self`, so that the only way out is a count of 0.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    /// Keeps an outcome that the store would not take, until the effect's next turn.
    pub fn keep(&self, name: EffectName, outcome: Effect) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() < MAX_WAITING || waiting.contains_key(&name) {
            waiting.insert(name, outcome);
        }
    }

    /// How long this process has found nothing, by a clock that setting the time of day does not move (attack A12). After a
    /// restart it counts anew.
    pub fn absent_for(&self, name: &EffectName, since: Timestamp) -> Duration {
        let (since, now) = (since.as_second(), self.clock.monotonic());
        let mut absences = lock(&self.absences);
        if absences.len() >= MAX_WAITING && !absences.contains_key(name) {
            // Beyond that the oldest begin anew, and wait longer.
            let oldest =
                absences.iter().min_by_key(|(_, absence)| absence.from).map(|(name, _)| name.clone());
            oldest.map(|oldest| absences.remove(&oldest));
        }
        let known = absences.entry(name.clone()).or_insert(Absence { since, from: now });
        if known.since != since {
            *known = Absence { since, from: now };
        }
        now.saturating_sub(known.from)
    }

    pub fn kept(&self, name: &EffectName) -> Option<Effect> {
        lock(&self.waiting).get(name).cloned()
    }

    /// What the journal says of the effect is newer than all that is known of it here.
    pub fn forget(&self, name: &EffectName) {
        lock(&self.waiting).remove(name);
        lock(&self.absences).remove(name);
    }
}

/// A poisoned lock means that a holder panicked between two statements; the maps here stay usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Count(watch::Sender<usize>);

impl Count {
    fn up(sender: watch::Sender<usize>) -> Self {
        sender.send_modify(|count| *count += 1);
        Count(sender)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
