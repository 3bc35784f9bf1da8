//! Idle connections. A connection is reused only for the same revision, binding, account and credential bytes
//! (attack 35); it outlives the deposit of the bytes, and is closed when other bytes replace them or after its idle time.

use crate::vault::Identity;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Whose connection it is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolKey {
    pub revision: String,
    pub binding: String,
    /// Whose credentials; `None` for none.
    pub identity: Option<Identity>,
}

/// How long an idle connection is trusted: a service may close it at any time, and a mutation that is written into a
/// closing connection is in doubt, so those take fresher ones only.
const IDLE_READ: Duration = Duration::from_secs(20);
const IDLE_MUTATION: Duration = Duration::from_secs(2);
/// As many as calls of one account are commonly made at once; more are closed after use.
const PER_KEY: usize = 64;
/// Of all keys together; file descriptors are finite.
const ALL: usize = 1024;

#[derive(Default)]
pub(crate) struct Pool {
    idle: Arc<Mutex<Idle>>,
}

#[derive(Default)]
struct Idle {
    lists: HashMap<PoolKey, Vec<(Instant, Sender)>>,
    count: usize,
    /// Does a task close what was idle for too long?
    swept: bool,
}

impl Pool {
    /// An idle connection that is open as far as this end knows.
    pub fn take(&self, key: &PoolKey, mutates: bool) -> Option<Sender> {
        let limit = if mutates { IDLE_MUTATION } else { IDLE_READ };
        let mut idle = lock(&self.idle);
        let list = idle.lists.get_mut(key)?;
        let before = list.len();
        list.retain(|(since, sender)| since.elapsed() < IDLE_READ && !sender.is_closed());
        let taken = match list.last() {
            Some((since, _)) if since.elapsed() < limit => list.pop().map(|(_, sender)| sender),
            _ => None,
        };
        let gone = before - list.len();
        idle.count -= gone;
        taken
    }

    pub fn give(&self, key: PoolKey, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = lock(&self.idle);
        if idle.count >= ALL {
            return;
        }
        let list = idle.lists.entry(key).or_default();
        if list.len() < PER_KEY {
            list.push((Instant::now(), sender));
            idle.count += 1;
        }
        if !std::mem::replace(&mut idle.swept, true) {
            self.sweep();
        }
    }

    /// Closes the idle connections that match.
    pub fn close(&self, matching: impl Fn(&PoolKey) -> bool) {
        let mut idle = lock(&self.idle);
        idle.lists.retain(|key, _| !matching(key));
        idle.count = idle.lists.values().map(Vec::len).sum();
    }

    /// Closes what is idle for too long, in a task that ends when nothing is left.
    fn sweep(&self) {
        let idle = Arc::downgrade(&self.idle);
        tokio::spawn(async move {
            loop {
                sleep(IDLE_READ / 4).await;
                let Some(idle) = idle.upgrade() else { return };
                let mut idle = lock(&idle);
                idle.lists.retain(|_, list| {
                    list.retain(|(since, sender)| since.elapsed() < IDLE_READ && !sender.is_closed());
                    !list.is_empty()
                });
                idle.count = idle.lists.values().map(Vec::len).sum();
                if idle.count == 0 {
                    idle.swept = false;
                    return;
                }
            }
        });
    }
}

fn lock(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
