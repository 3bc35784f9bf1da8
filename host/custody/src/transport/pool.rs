//! Idle connections. A connection is reused only for the same revision, binding and credentials (attack 35).

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Whose connection it is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolKey {
    pub revision: String,
    pub binding: String,
    /// Number of the credentials; 0 for none.
    pub credentials: u64,
}

/// How long an idle connection is trusted: a service may close it at any time, and a mutation that is written into a
/// closing connection is in doubt, so those take fresher ones only.
const IDLE_READ: Duration = Duration::from_secs(20);
const IDLE_MUTATION: Duration = Duration::from_secs(2);
const PER_KEY: usize = 4;
/// Keys with idle connections at once; beyond that, connections are closed after use.
const KEYS: usize = 512;

#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<HashMap<PoolKey, Vec<(Instant, Sender)>>>,
}

impl Pool {
    /// An idle connection that is open as far as this end knows.
    pub fn take(&self, key: &PoolKey, mutates: bool) -> Option<Sender> {
        let limit = if mutates { IDLE_MUTATION } else { IDLE_READ };
        let mut idle = self.lock();
        let list = idle.get_mut(key)?;
        list.retain(|(since, sender)| since.elapsed() < IDLE_READ && !sender.is_closed());
        let last = list.last()?;
        if last.0.elapsed() >= limit {
            return None;
        }
        list.pop().map(|(_, sender)| sender)
    }

    pub fn give(&self, key: PoolKey, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.lock();
        idle.retain(|_, list| {
            list.retain(|(since, _)| since.elapsed() < IDLE_READ);
            !list.is_empty()
        });
        if idle.len() >= KEYS && !idle.contains_key(&key) {
            return;
        }
        let list = idle.entry(key).or_default();
        if list.len() < PER_KEY {
            list.push((Instant::now(), sender));
        }
    }

    /// Closes the connections of credentials that were revoked, or of everything.
    pub fn close(&self, matching: impl Fn(&PoolKey) -> bool) {
        self.lock().retain(|key, _| !matching(key));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PoolKey, Vec<(Instant, Sender)>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
