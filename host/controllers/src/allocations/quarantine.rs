//! Where hosts were made lately that never became ready: others are preferred for a while (field case E08).
//!
//! A preference, and no more: where nothing else will do, what failed is tried again. Kept in memory: a restart costs one
//! try.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::exhausted::Place;
use crate::clock::add;

/// How long others are preferred: doubled with every failure in a row.
const FIRST: Duration = Duration::from_secs(30 * 60);
/// The longest.
const LONGEST: Duration = Duration::from_secs(8 * 60 * 60);
/// Failures are forgotten this long after the entry's time was over.
const FORGOTTEN: Duration = Duration::from_secs(24 * 60 * 60);

/// The memory.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    inner: Mutex<HashMap<Place, Entry>>,
}

#[derive(Debug)]
struct Entry {
    failures: u32,
    until: Timestamp,
}

impl Quarantine {
    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Entry>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when others are preferred.
    pub(crate) fn until(&self, place: &Place, now: Timestamp) -> Option<Timestamp> {
        self.lock().get(place).map(|entry| entry.until).filter(|until| *until > now)
    }

    /// A host was made there, and did not become ready. Several that were under way together count as one.
    pub(crate) fn failed(&self, place: Place, now: Timestamp) {
        let mut inner = self.lock();
        inner.retain(|_, entry| add(entry.until, FORGOTTEN) > now);
        let entry = inner.entry(place).or_insert(Entry { failures: 0, until: now });
        if entry.until <= now {
            entry.until = add(now, FIRST.saturating_mul(1 << entry.failures.min(8)).min(LONGEST));
            entry.failures += 1;
        }
    }

    /// A host became ready there.
    pub(crate) fn worked(&self, place: &Place) {
        self.lock().remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field case E08.
    #[test]
    fn a_place_whose_hosts_fail_is_shunned_longer_and_longer_until_one_becomes_ready() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let place = |zone: &str| Place {
            provider: "p".into(),
            account: "a".into(),
            instance_type: "small".into(),
            zone: Some(zone.into()),
        };
        let memory = Quarantine::default();
        memory.failed(place("z1"), at(0));
        // Under way together with the first.
        memory.failed(place("z1"), at(5));
        assert_eq!(memory.until(&place("z1"), at(5)), Some(at(1_800)));
        assert_eq!(memory.until(&place("z2"), at(5)), None);
        assert_eq!(memory.until(&place("z1"), at(1_800)), None);
        memory.failed(place("z1"), at(1_800));
        assert_eq!(memory.until(&place("z1"), at(1_800)), Some(at(5_400)));
        memory.worked(&place("z1"));
        assert_eq!(memory.until(&place("z1"), at(1_801)), None);
        memory.failed(place("z1"), at(6_000));
        assert_eq!(memory.until(&place("z1"), at(6_000)), Some(at(7_800)), "begins anew");
    }
}
