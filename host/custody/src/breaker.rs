//! The authentication breaker: wrong credentials are tried once per step, so that many operations never lock an
//! account out.
//!
//! Per (origin, account), whichever module calls (G11): credentials that were not proven yet are tried by one call at a time, the others wait for
//! what becomes of it. After a definite refusal nothing is sent until 5 s (doubling to 5 min) have passed.

use crate::registry::Bound;
use crate::vault::Identity;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(300);

/// Origin and account; and which of the account's values are tried, for a wrong password says nothing about a token.
pub(crate) type BreakerKey = (String, String, String);

pub(crate) fn breaker_key<'n>(
    bound: &Bound,
    identity: &Identity,
    values: impl IntoIterator<Item = &'n str>,
) -> BreakerKey {
    let values: BTreeSet<&str> = values.into_iter().collect();
    let values = values.into_iter().collect::<Vec<_>>().join(" ");
    (bound.origin.origin().ascii_serialization(), identity.account.clone(), values)
}

/// What is known of an account's credential bytes, by their keyed digest. Bytes that were refused stay known beside
/// those that replaced them: a call that still holds the old ones must not make one more attempt.
type Known = HashMap<[u8; 32], Entry>;

#[derive(Default)]
pub(crate) struct Breakers {
    entries: Mutex<HashMap<BreakerKey, Known>>,
}

#[derive(Default)]
struct Entry {
    proven: bool,
    failures: u32,
    until: Option<Instant>,
    gate: Arc<AsyncMutex<()>>,
}

/// Leave to authenticate. Dropped without a word, it says nothing about the credentials.
pub(crate) struct Permit<'b> {
    breakers: &'b Breakers,
    key: BreakerKey,
    credential: [u8; 32],
    _gate: Option<OwnedMutexGuard<()>>,
}

impl Breakers {
    /// Waits for a turn. The error is the time until the next attempt.
    pub async fn enter(&self, key: BreakerKey, credential: [u8; 32]) -> Result<Permit<'_>, Duration> {
        let gate = match self.look(&key, credential)? {
            None => return Ok(Permit { breakers: self, key, credential, _gate: None }),
            Some(gate) => gate,
        };
        let turn = gate.lock_owned().await;
        let gate = self.look(&key, credential)?.map(|_| turn);
        Ok(Permit { breakers: self, key, credential, _gate: gate })
    }

    /// Until when refused credentials are held back, by origin and account; who is held back by nothing is not told.
    pub fn open(&self) -> HashMap<(String, String), Timestamp> {
        let (now, wall, mut open) = (Instant::now(), Timestamp::now(), HashMap::new());
        for ((origin, account, _), known) in self.lock().iter() {
            let last = known.values().filter_map(|entry| entry.until).max();
            let wait = last.and_then(|last| last.checked_duration_since(now)).filter(|wait| !wait.is_zero());
            let wait = wait.and_then(|wait| SignedDuration::try_from(wait).ok());
            let Some(until) = wait.and_then(|wait| wall.checked_add(wait).ok()) else { continue };
            let longest = open.entry((origin.clone(), account.clone())).or_insert(until);
            *longest = until.max(*longest);
        }
        open
    }

    /// The gate to pass, or nothing where the credentials are proven.
    fn look(&self, key: &BreakerKey, credential: [u8; 32]) -> Result<Option<Arc<AsyncMutex<()>>>, Duration> {
        let mut entries = self.lock();
        let known = entries.entry(key.clone()).or_default();
        if !known.contains_key(&credential) {
            let now = Instant::now();
            // What is being tried keeps its gate, or a second call would try beside it.
            known.retain(|_, entry| {
                Arc::strong_count(&entry.gate) > 1 || entry.until.is_some_and(|until| until + LONGEST > now)
            });
        }
        let entry = known.entry(credential).or_default();
        if let Some(wait) = entry.until.and_then(|until| until.checked_duration_since(Instant::now()))
            && !wait.is_zero()
        {
            return Err(wait);
        }
        Ok((!entry.proven).then(|| entry.gate.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<BreakerKey, Known>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// The service took the credentials.
    pub fn proven(self) {
        let mut entries = self.breakers.lock();
        if let Some(entry) = entries.get_mut(&self.key).and_then(|known| known.get_mut(&self.credential)) {
            entry.proven = true;
            entry.failures = 0;
            entry.until = None;
        }
    }

    /// The service definitely refused them. Returns the time until the next attempt.
    pub fn refused(self) -> Duration {
        let mut entries = self.breakers.lock();
        let Some(entry) = entries.get_mut(&self.key).and_then(|known| known.get_mut(&self.credential)) else {
            return FIRST;
        };
        let now = Instant::now();
        // Refusals of calls that were on their way together are one step.
        if let Some(until) = entry.until.filter(|until| *until > now) {
            return until - now;
        }
        let wait = FIRST.saturating_mul(1 << entry.failures.min(10)).min(LONGEST);
        entry.failures += 1;
        entry.proven = false;
        entry.until = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> BreakerKey {
        ("https://api.example".into(), "uid".into(), "token".into())
    }

    #[tokio::test(start_paused = true)]
    async fn refused_credentials_are_tried_once_per_step_that_doubles_to_five_minutes() {
        let breakers = Breakers::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            let permit = breakers.enter(key(), [1; 32]).await.ok().unwrap();
            let wait = permit.refused();
            waits.push(wait.as_secs());
            assert!(breakers.enter(key(), [1; 32]).await.is_err());
            tokio::time::advance(wait).await;
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_back_is_told_of_this_account_alone_and_no_longer_than_it_lasts() {
        let breakers = Breakers::default();
        breakers.enter(key(), [1; 32]).await.ok().unwrap().refused();
        let held = |breakers: &Breakers| breakers.open().into_keys().collect::<Vec<_>>();
        assert_eq!(held(&breakers), [("https://api.example".to_owned(), "uid".to_owned())]);
        tokio::time::advance(FIRST).await;
        assert!(held(&breakers).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn many_calls_with_unproven_credentials_make_one_attempt() {
        let breakers = Arc::new(Breakers::default());
        let attempts = Arc::new(Mutex::new(0));
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (breakers, attempts) = (breakers.clone(), attempts.clone());
                tokio::spawn(async move {
                    if let Ok(permit) = breakers.enter(key(), [1; 32]).await {
                        *attempts.lock().unwrap() += 1;
                        tokio::task::yield_now().await;
                        permit.refused();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*attempts.lock().unwrap(), 1);
    }

    /// A call that was lent the old bytes comes late, after the first with the new ones.
    #[tokio::test(start_paused = true)]
    async fn bytes_that_were_refused_stay_held_back_after_they_were_replaced() {
        let breakers = Breakers::default();
        breakers.enter(key(), [1; 32]).await.ok().unwrap().refused();
        breakers.enter(key(), [2; 32]).await.ok().unwrap().proven();
        let wait = breakers.enter(key(), [1; 32]).await.err();
        assert_eq!(wait.map(|wait| wait.as_secs()), Some(5), "no attempt with the old bytes");
        assert!(breakers.enter(key(), [2; 32]).await.is_ok(), "the new ones are not held back for it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_of_new_bytes_keeps_its_gate_while_a_late_call_comes_with_old_ones() {
        let breakers = Breakers::default();
        let trial = breakers.enter(key(), [2; 32]).await.ok().unwrap();
        drop(breakers.enter(key(), [1; 32]).await.ok().unwrap());
        let second = tokio::time::timeout(FIRST, breakers.enter(key(), [2; 32])).await;
        assert!(second.is_err(), "the second call waits for the trial");
        trial.refused();
    }

    /// The bytes of long ago are not remembered for ever.
    #[tokio::test(start_paused = true)]
    async fn many_rotations_leave_no_heap_of_old_digests() {
        let breakers = Breakers::default();
        for byte in 0..200 {
            breakers.enter(key(), [byte; 32]).await.ok().unwrap().refused();
            tokio::time::advance(LONGEST).await;
        }
        assert!(breakers.lock()[&key()].len() <= 3);
    }

    #[tokio::test(start_paused = true)]
    async fn success_and_new_bytes_close_the_breaker() {
        let breakers = Breakers::default();
        breakers.enter(key(), [1; 32]).await.ok().unwrap().refused();
        breakers.enter(key(), [2; 32]).await.ok().unwrap().proven();
        let (one, two) = (breakers.enter(key(), [2; 32]).await, breakers.enter(key(), [2; 32]).await);
        assert!(one.is_ok() && two.is_ok(), "proven credentials don't queue");
        one.ok().unwrap().refused();
        assert_eq!(two.ok().unwrap().refused().as_secs(), 5, "calls on their way together are one step");
    }
}
