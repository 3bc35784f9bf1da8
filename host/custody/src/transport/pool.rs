//! Idle connections. A connection is reused only for the same revision, binding, account and credential bytes
//! (attack 35); it outlives the deposit of the bytes, and is closed when other bytes replace them or after its idle time.

use crate::vault::Identity;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use rustix::process::{Resource, getrlimit};
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
/// Of all keys together: this share of the file descriptors that the process may have, and no more than this.
const SHARE: u64 = 4;
const ALL: u64 = 4096;

pub(crate) struct Pool {
    most: usize,
    idle: Arc<Mutex<Idle>>,
}

impl Default for Pool {
    fn default() -> Pool {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Pool { most: (files / SHARE).min(ALL) as usize, idle: Arc::default() }
    }
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
        if idle.count >= self.most {
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

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::client::conn::http1::handshake;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};
    use tokio::time::advance;

    fn key(digest: u8) -> PoolKey {
        let identity = Identity { account: "uid-1".into(), digest: [digest; 32] };
        PoolKey { revision: "cloud@1".into(), binding: "api/lab".into(), identity: Some(identity) }
    }

    /// A connection that is idle in the pool, and its far end.
    async fn idle(pool: &Pool, key: PoolKey) -> DuplexStream {
        let (near, far) = duplex(1024);
        let (sender, connection) = handshake(TokioIo::new(near)).await.unwrap();
        tokio::spawn(connection);
        pool.give(key, sender);
        far
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_serves_changes_for_two_seconds_and_reads_for_twenty_and_is_closed_then() {
        let pool = Pool::default();
        let mut far = idle(&pool, key(1)).await;
        assert!(pool.take(&key(2), false).is_none(), "other bytes (attack 35)");
        let sender = pool.take(&key(1), true).unwrap();
        pool.give(key(1), sender);
        advance(Duration::from_secs(3)).await;
        assert!(pool.take(&key(1), true).is_none());
        let sender = pool.take(&key(1), false).unwrap();
        pool.give(key(1), sender);
        // Nobody asks for it any more: the far end sees it closed all the same.
        assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
        assert_eq!(lock(&pool.idle).count, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded_for_each_key_and_for_all() {
        let pool = Pool { most: PER_KEY + 1, ..Pool::default() };
        let mut ends = Vec::new();
        for _ in 0..PER_KEY + 5 {
            ends.push(idle(&pool, key(1)).await);
        }
        assert_eq!(lock(&pool.idle).count, PER_KEY);
        for digest in 2..5 {
            ends.push(idle(&pool, key(digest)).await);
        }
        assert_eq!(lock(&pool.idle).count, PER_KEY + 1);
        pool.close(|key| key.identity.as_ref().is_some_and(|identity| identity.digest == [1; 32]));
        assert_eq!(lock(&pool.idle).count, 1);
    }
}
