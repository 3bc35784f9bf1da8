//! What had no capacity lately, shared by all allocations: by provider, account, instance type and zone.
//!
//! Kept in memory: a restart costs one try. When the time of an entry is over, one allocation tries and the others wait
//! for how it ends, so that a thousand that waited don't all ask at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::add;

/// How long an offering without capacity is not tried: doubled with every failure in a row.
const FIRST: Duration = Duration::from_secs(10 * 60);
/// The longest.
const LONGEST: Duration = Duration::from_secs(80 * 60);
/// How long others wait for the one that tries.
const TRIAL: Duration = Duration::from_secs(5 * 60);
/// Failures are forgotten this long after the entry's time was over.
const FORGOTTEN: Duration = Duration::from_secs(6 * 60 * 60);

/// Where capacity ran out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub provider: String,
    /// Name of the credentials: another account has its own capacity.
    pub account: String,
    pub instance_type: String,
    pub zone: Option<String>,
}

#[derive(Debug)]
struct Entry {
    failures: u32,
    until: Timestamp,
    /// Who tries, and until when the others wait for it.
    trial: Option<(String, Timestamp)>,
}

/// The memory.
#[derive(Debug, Default)]
pub(crate) struct Exhausted {
    inner: Mutex<HashMap<Place, Entry>>,
}

impl Exhausted {
    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Entry>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when `who` is not to try.
    pub(crate) fn blocked(&self, place: &Place, who: &str, now: Timestamp) -> Option<Timestamp> {
        let inner = self.lock();
        let entry = inner.get(place)?;
        if entry.until > now {
            return Some(entry.until);
        }
        entry.trial.as_ref().filter(|(other, until)| other != who && *until > now).map(|(_, until)| *until)
    }

    /// `who` tries now. Where there is an entry, it is the only one to try.
    pub(crate) fn tries(&self, place: &Place, who: &str, now: Timestamp) {
        if let Some(entry) = self.lock().get_mut(place) {
            entry.trial = Some((who.to_owned(), add(now, TRIAL)));
        }
    }

    /// There was no capacity. Returns until when nobody tries. Several that were under way together count as one.
    pub(crate) fn failed(&self, place: Place, now: Timestamp) -> Timestamp {
        let mut inner = self.lock();
        inner.retain(|_, entry| add(entry.until, FORGOTTEN) > now);
        let entry = inner.entry(place).or_insert(Entry { failures: 0, until: now, trial: None });
        if entry.until <= now {
            let wait = FIRST.saturating_mul(1 << entry.failures.min(8)).min(LONGEST);
            entry.failures += 1;
            entry.until = add(now, wait);
        }
        entry.trial = None;
        entry.until
    }

    /// There was capacity. Returns whether that is news.
    pub(crate) fn worked(&self, place: &Place) -> bool {
        self.lock().remove(place).is_some()
    }

    /// `who` will not tell how its try ended: another one may try.
    pub(crate) fn gave_up(&self, place: &Place, who: &str) -> bool {
        let mut inner = self.lock();
        let Some(entry) = inner.get_mut(place) else { return false };
        entry.trial.take_if(|(other, _)| other == who).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(zone: &str) -> Place {
        Place {
            provider: "p".into(),
            account: "a".into(),
            instance_type: "small".into(),
            zone: Some(zone.into()),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Field cases F01 and F06.
    #[test]
    fn a_place_without_capacity_is_left_alone_longer_and_longer_and_others_are_not() {
        let memory = Exhausted::default();
        assert_eq!(memory.failed(place("z1"), at(0)), at(600));
        // Under way together with the first.
        assert_eq!(memory.failed(place("z1"), at(5)), at(600));
        assert_eq!(memory.blocked(&place("z1"), "x", at(599)), Some(at(600)));
        assert_eq!(memory.blocked(&place("z2"), "x", at(0)), None);
        assert_eq!(memory.failed(place("z1"), at(600)), at(1_800));
        assert_eq!(memory.failed(place("z1"), at(1_800)), at(4_200));
        assert!(memory.worked(&place("z1")) && !memory.worked(&place("z1")));
        assert_eq!(memory.failed(place("z1"), at(9_000)), at(9_600), "begins anew");
    }

    /// Field case F04.
    #[test]
    fn when_the_time_is_over_one_tries_and_the_others_wait_for_it() {
        let memory = Exhausted::default();
        memory.failed(place("z1"), at(0));
        assert_eq!(memory.blocked(&place("z1"), "x", at(600)), None);
        memory.tries(&place("z1"), "x", at(600));
        assert_eq!(memory.blocked(&place("z1"), "x", at(601)), None, "it may go on after a crash");
        assert_eq!(memory.blocked(&place("z1"), "y", at(601)), Some(at(900)));
        assert_eq!(memory.blocked(&place("z1"), "y", at(900)), None, "nobody waits for ever");
        assert!(memory.gave_up(&place("z1"), "x"));
        assert_eq!(memory.blocked(&place("z1"), "y", at(601)), None);
    }
}
