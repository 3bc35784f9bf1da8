//! The one writer: a thread that takes queued writes, checks each against the latest state, and commits
//! them together. Nothing is visible, and nothing is answered, before it is on disk.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use crate::ServerError;
use crate::crash;
use crate::hub::{Event, EventType, Hub};
use crate::index::{Index, ObjectKey, Stored};
use crate::registry::{KindId, Registry};
use crate::store::{Row, RowChange, Storage, StoreError};

/// Most writes in one commit.
const MAX_BATCH: usize = 512;
/// How long nothing must happen before upkeep.
const IDLE: Duration = Duration::from_millis(250);

/// What a write requires of the present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// There is no such object.
    Absent,
    /// The object is at this version.
    Version(u64),
}

/// What a write does.
pub(crate) enum Action {
    /// Stores the object. Its `resourceVersion` is set by the writer.
    Put(Value),
    /// Removes the object; the value is its last state.
    Delete(Value),
}

/// One write.
pub(crate) struct Write {
    pub(crate) kind: KindId,
    pub(crate) key: ObjectKey,
    pub(crate) expect: Expect,
    pub(crate) action: Action,
}

/// Why a write was not made.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The present state is not the expected one.
    Moved,
    /// The store refused or failed.
    Store(String),
}

type Answer = Result<Arc<Stored>, WriteError>;
type Job = (Write, oneshot::Sender<Answer>);

/// Counters of the writer.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) writes: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) commits: AtomicU64,
    /// The store failed: no write will be made before a restart.
    pub(crate) failed: AtomicBool,
}

/// The way to the writer's thread.
pub(crate) struct Writer {
    queue: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) counters: Arc<Counters>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(
        storage: Box<dyn Storage>,
        registry: Arc<Registry>,
        index: Arc<Index>,
        hub: Arc<Hub>,
    ) -> Result<Self, ServerError> {
        let (queue, jobs) = channel();
        let counters = Arc::new(Counters::default());
        let mut worker = Worker {
            storage,
            registry,
            index,
            hub,
            counters: counters.clone(),
            crash: crash::Point::from_env(),
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || worker.run(&jobs))
            .map_err(ServerError::io("can't start a thread for", "the store"))?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), counters })
    }

    /// Makes a write; returns when it is on disk and visible.
    pub(crate) async fn write(&self, write: Write) -> Answer {
        let (answer, wait) = oneshot::channel();
        let sent = match &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(queue) => queue.send((write, answer)).is_ok(),
            None => false,
        };
        if !sent {
            return Err(WriteError::Store("the server is shutting down".into()));
        }
        wait.await.unwrap_or_else(|_| Err(WriteError::Store("the store's writer stopped".into())))
    }

    /// Lets queued writes finish and closes the store.
    pub(crate) fn stop(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Worker {
    storage: Box<dyn Storage>,
    registry: Arc<Registry>,
    index: Arc<Index>,
    hub: Arc<Hub>,
    counters: Arc<Counters>,
    crash: crash::Point,
}

/// What a batch came to, before it is committed.
#[derive(Default)]
struct Batch {
    /// State after the writes so far, where it differs from what is visible.
    overlay: HashMap<(KindId, ObjectKey), Option<Arc<Stored>>>,
    rows: Vec<RowChange>,
    visible: Vec<(KindId, ObjectKey, Option<Arc<Stored>>)>,
    events: Vec<Event>,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    durable: bool,
    version: u64,
    names: crash::Names,
}

impl Worker {
    fn run(&mut self, jobs: &Receiver<Job>) {
        loop {
            let first = match jobs.recv_timeout(IDLE) {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) => {
                    self.storage.idle();
                    match jobs.recv() {
                        Ok(job) => job,
                        Err(_) => return,
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut batch = Batch { version: self.index.version(), ..Batch::default() };
            self.take(&mut batch, first);
            while batch.answers.len() < MAX_BATCH {
                let Ok(job) = jobs.try_recv() else { break };
                self.take(&mut batch, job);
            }
            self.commit(batch);
        }
    }

    /// Checks one write against the state after those before it.
    fn take(&self, batch: &mut Batch, (write, answer): Job) {
        let Write { kind: id, key, expect, action } = write;
        let place = (id, key.clone());
        let before = match batch.overlay.get(&place) {
            Some(state) => state.clone(),
            None => self.index.get(id, &key),
        };
        let holds = match (&before, expect) {
            (None, Expect::Absent) => true,
            (Some(object), Expect::Version(version)) => object.version == version,
            _ => false,
        };
        if !holds {
            self.counters.conflicts.fetch_add(1, Ordering::Relaxed);
            batch.answers.push((answer, Err(WriteError::Moved)));
            return;
        }
        let kind = self.registry.kind(id);
        batch.version += 1;
        batch.durable |= kind.durable;
        let (object, type_, after) = match action {
            Action::Put(value) => {
                let object = Arc::new(Stored::new(kind, key.clone(), value, batch.version));
                batch.rows.push(RowChange::Put(Row {
                    kind: kind.stored_as(),
                    namespace: key.namespace.clone(),
                    name: key.name.clone(),
                    version: batch.version,
                    body: object.json.clone(),
                    sealed: kind.sealed,
                }));
                let type_ = if before.is_some() { EventType::Modified } else { EventType::Added };
                (object.clone(), type_, Some(object))
            }
            Action::Delete(value) => {
                let object = Arc::new(Stored::new(kind, key.clone(), value, batch.version));
                batch.rows.push(RowChange::Delete {
                    kind: kind.stored_as(),
                    namespace: key.namespace.clone(),
                    name: key.name.clone(),
                });
                (object, EventType::Deleted, None)
            }
        };
        let bytes = |state: &Option<Arc<Stored>>| state.as_ref().map(|state| state.json.clone());
        if self.crash.asked() {
            batch.names.add(&kind.kind, &key, bytes(&before).as_deref(), bytes(&after).as_deref());
        }
        batch.overlay.insert(place, after.clone());
        batch.visible.push((id, key, after));
        batch.events.push(Event::new(id, type_, object.clone(), before));
        batch.answers.push((answer, Ok(object)));
    }

    /// Commits a batch, shows it, and answers.
    fn commit(&mut self, batch: Batch) {
        let Batch { rows, visible, events, answers, durable, version, mut names, .. } = batch;
        if rows.is_empty() {
            send(answers);
            return;
        }
        if durable {
            self.crash.before_commit(&mut names);
        }
        if let Err(error) = self.storage.commit(&rows, version, durable) {
            tracing::error!(%error, "a batch of {} writes was not made", rows.len());
            if matches!(error, StoreError::Failed(_)) {
                self.counters.failed.store(true, Ordering::Release);
            }
            fail(answers, &error);
            return;
        }
        if durable {
            self.crash.after_commit(&names);
        }
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.counters.writes.fetch_add(rows.len() as u64, Ordering::Relaxed);
        self.hub.publish(events, version, || self.index.apply(&visible, version));
        send(answers);
    }
}

fn send(answers: Vec<(oneshot::Sender<Answer>, Answer)>) {
    for (to, answer) in answers {
        // A client that went away needs no answer; the write stands.
        let _ = to.send(answer);
    }
}

fn fail(answers: Vec<(oneshot::Sender<Answer>, Answer)>, error: &StoreError) {
    for (to, answer) in answers {
        let _ = to.send(answer.and_then(|_| Err(WriteError::Store(error.to_string()))));
    }
}
