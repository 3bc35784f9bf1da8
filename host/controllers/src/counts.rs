//! Counts of failures in a row, in memory: they set the pace of retries. A restart forgets them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Failures in a row by whoever failed.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    inner: Mutex<HashMap<String, u32>>,
}

impl Counts {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failure; returns how many there were in a row, this one included.
    pub(crate) fn failed(&self, who: &str) -> u32 {
        let mut inner = self.lock();
        let count = inner.entry(who.to_owned()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// It went well, or is gone.
    pub(crate) fn forget(&self, who: &str) {
        self.lock().remove(who);
    }
}
