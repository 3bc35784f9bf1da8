//! Watches: a window of recent events, and a bounded queue for each watcher.
//!
//! An event is encoded once and shared. Who asks for what is before the window, or falls behind, is told
//! 410 and lists anew.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::sync::mpsc;

use crate::index::Stored;
use crate::registry::KindId;

/// Events in the window.
const WINDOW_EVENTS: usize = 8192;
/// Bytes of objects in the window.
const WINDOW_BYTES: usize = 64 << 20;
/// Events that wait for one watcher.
const QUEUE: usize = 1024;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    /// The word on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
pub(crate) struct Event {
    pub(crate) kind: KindId,
    pub(crate) type_: EventType,
    /// The new state; of a deleted object, its last one under the version of the deletion.
    pub(crate) object: Arc<Stored>,
    /// The state before.
    pub(crate) before: Option<Arc<Stored>>,
    line: OnceLock<Bytes>,
}

impl Event {
    pub(crate) fn new(
        kind: KindId,
        type_: EventType,
        object: Arc<Stored>,
        before: Option<Arc<Stored>>,
    ) -> Self {
        Self { kind, type_, object, before, line: OnceLock::new() }
    }

    /// The event as one line of a watch; encoded at the first call, shared after.
    pub(crate) fn line(&self) -> Bytes {
        self.line.get_or_init(|| line(self.type_.as_str(), &self.object.json)).clone()
    }

    fn bytes(&self) -> usize {
        self.object.json.len() + self.before.as_ref().map_or(0, |b| b.json.len())
    }
}

/// One line of a watch.
pub(crate) fn line(type_: &str, object: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(object.len() + 40);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(type_.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
    out.freeze()
}

/// The window and the watchers.
pub(crate) struct Hub {
    inner: Mutex<Inner>,
}

struct Inner {
    window: VecDeque<Arc<Event>>,
    window_bytes: usize,
    /// A watch may begin at this version or later.
    floor: u64,
    /// The last commit number.
    version: u64,
    watchers: Vec<Watcher>,
}

struct Watcher {
    kind: KindId,
    queue: mpsc::Sender<Arc<Event>>,
    overflowed: Arc<AtomicBool>,
}

/// A watcher's end of its queue.
pub(crate) struct Subscription {
    /// Events in order; it ends when the watcher fell behind or the server stops.
    pub(crate) events: mpsc::Receiver<Arc<Event>>,
    /// Events of the window that came before those.
    pub(crate) replay: VecDeque<Arc<Event>>,
    overflowed: Arc<AtomicBool>,
    from: u64,
}

impl Subscription {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Arc<Event>> {
        if let Some(event) = self.replay.pop_front() {
            return Some(event);
        }
        loop {
            let event = self.events.recv().await?;
            if event.object.version > self.from {
                return Some(event);
            }
        }
    }

    /// Whether the queue ended because the watcher fell behind.
    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed.load(Ordering::Acquire)
    }
}

impl Hub {
    /// A hub whose history begins at a version.
    pub(crate) fn new(version: u64) -> Self {
        let inner =
            Inner { window: VecDeque::new(), window_bytes: 0, floor: version, version, watchers: Vec::new() };
        Self { inner: Mutex::new(inner) }
    }

    /// Watches a kind from after a version. `None` if the history since then is not known.
    pub(crate) fn subscribe(&self, kind: KindId, from: u64) -> Option<Subscription> {
        let mut inner = self.lock();
        if from < inner.floor || from > inner.version {
            return None;
        }
        let start = inner.window.partition_point(|e| e.object.version <= from);
        let replay = inner.window.range(start..).filter(|e| e.kind == kind).cloned().collect();
        let (queue, events) = mpsc::channel(QUEUE);
        let overflowed = Arc::new(AtomicBool::new(false));
        inner.watchers.push(Watcher { kind, queue, overflowed: overflowed.clone() });
        Some(Subscription { events, replay, overflowed, from })
    }

    /// The version that a watcher has seen everything up to, or `None` if something waits for it.
    pub(crate) fn caught_up(&self, subscription: &Subscription) -> Option<u64> {
        let inner = self.lock();
        (subscription.events.is_empty() && subscription.replay.is_empty()).then_some(inner.version)
    }

    /// Publishes a batch. `reveal` makes it visible to readers and runs first, so that nobody can watch from
    /// a version that the hub doesn't know yet.
    pub(crate) fn publish(&self, events: Vec<Event>, version: u64, reveal: impl FnOnce()) {
        let mut inner = self.lock();
        reveal();
        inner.version = version;
        for event in events {
            let event = Arc::new(event);
            inner.watchers.retain(|watcher| watcher.kind != event.kind || watcher.offer(&event));
            inner.remember(event);
        }
        inner.watchers.retain(|watcher| !watcher.queue.is_closed());
    }

    /// Ends every watch.
    pub(crate) fn close(&self) {
        self.lock().watchers.clear();
    }

    /// How many watchers there are.
    pub(crate) fn watchers(&self) -> usize {
        self.lock().watchers.iter().filter(|w| !w.queue.is_closed()).count()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    /// Queues an event; false if the watcher is gone or fell behind.
    fn offer(&self, event: &Arc<Event>) -> bool {
        match self.queue.try_send(event.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.overflowed.store(true, Ordering::Release);
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

impl Inner {
    fn remember(&mut self, event: Arc<Event>) {
        self.window_bytes += event.bytes();
        self.window.push_back(event);
        while self.window.len() > WINDOW_EVENTS || self.window_bytes > WINDOW_BYTES {
            let Some(oldest) = self.window.pop_front() else { break };
            self.window_bytes -= oldest.bytes();
            self.floor = oldest.object.version;
        }
    }
}
