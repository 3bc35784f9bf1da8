//! When a class is resolved again: after half of the time that its offerings have left, at once for another revision of
//! the provider, and after a refusal only then.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_api::MachineClass;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::status;
use crate::clock::{add, until};

/// A class is not resolved more often than this, however short its offerings live.
const LEAST: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
struct Planned {
    revision: String,
    due: Timestamp,
}

/// When classes are due, by uid. What a restart forgets is found in the status.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    inner: Mutex<HashMap<String, Planned>>,
}

impl Schedule {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Planned>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the class is to be resolved by a revision.
    pub(super) fn due(&self, class: &MachineClass, revision: &str, now: Timestamp) -> Timestamp {
        let uid = class.uid().unwrap_or_default();
        if let Some(planned) = self.lock().get(&uid) {
            return if planned.revision == revision { planned.due } else { now };
        }
        let Some(status) = &class.status else { return now };
        if let Some(wait) = status.waiting.as_ref().and_then(|waiting| waiting.until.as_ref()) {
            return wait.0;
        }
        if status.resolved_by.as_deref() != Some(revision) {
            return now;
        }
        if status::refused_for_good(status) {
            return Timestamp::MAX;
        }
        match (&status.resolved_at, &status.valid_until) {
            (Some(at), Some(valid)) if status.waiting.is_none() => half(&uid, at.0, valid.0),
            _ => now,
        }
    }

    /// The class was resolved; returns when it is due again. `empty` is how long a class without offerings is left.
    pub(super) fn resolved(
        &self,
        uid: &str,
        revision: &str,
        valid_until: Option<Timestamp>,
        empty: Duration,
        now: Timestamp,
    ) -> Timestamp {
        let due = valid_until.map_or_else(|| add(now, empty), |valid| half(uid, now, valid));
        self.lock().insert(uid.to_owned(), Planned { revision: revision.to_owned(), due });
        due
    }

    /// The provider refused the class for good.
    pub(super) fn refused(&self, uid: &str, revision: &str) {
        let planned = Planned { revision: revision.to_owned(), due: Timestamp::MAX };
        self.lock().insert(uid.to_owned(), planned);
    }

    /// It didn't work; tried again then.
    pub(super) fn failed(&self, uid: &str, revision: &str, again: Timestamp) {
        self.lock().insert(uid.to_owned(), Planned { revision: revision.to_owned(), due: again });
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }
}

/// After half of what is left, less up to a tenth of that, so that classes of one provider don't come together.
fn half(uid: &str, from: Timestamp, valid_until: Timestamp) -> Timestamp {
    let half = until(from, valid_until) / 2;
    let mut hasher = DefaultHasher::new();
    (uid, from).hash(&mut hasher);
    let tenth = u64::try_from(half.as_millis() / 10).unwrap_or(u64::MAX - 1);
    let early = Duration::from_millis(hasher.finish() % (tenth + 1));
    add(from, half.saturating_sub(early).max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_class_is_due_after_half_of_what_is_left_and_not_before_thirty_seconds() {
        for uid in ["a", "b", "c", "d", "e"] {
            let due = half(uid, at(0), at(3_600));
            assert!(due <= at(1_800) && due >= at(1_620), "{due}");
            assert_eq!(half(uid, at(0), at(20)), at(30));
            assert_eq!(half(uid, at(100), at(0)), at(130));
        }
    }
}
