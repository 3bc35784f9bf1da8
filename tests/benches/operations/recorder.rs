//! A store that remembers what it was given, so that the same writes can be made again without the house.

use anyhow::Result;
use holdfast_apiserver::ServerError;
use holdfast_apiserver::store::{Row, RowChange, SqliteStore, Storage, StoreError};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One commit as it was asked for.
#[derive(Clone)]
struct Commit {
    changes: Vec<RowChange>,
    version: u64,
    durable: bool,
}

/// What was committed since it was last taken.
#[derive(Default)]
pub struct Tape {
    commits: Mutex<Vec<Commit>>,
    /// How often the writer had nothing to do and put its log in order.
    idle: AtomicUsize,
}

impl Tape {
    pub fn take(&self) -> Recording {
        Recording(std::mem::take(&mut *self.commits.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits until the writer has been idle since now: late writes are made, and its upkeep disturbs nobody.
    pub async fn settled(&self) {
        let before = self.idle.load(Ordering::Acquire);
        while self.idle.load(Ordering::Acquire) == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub struct Recorder {
    store: SqliteStore,
    tape: Arc<Tape>,
}

impl Recorder {
    pub fn new(store: SqliteStore, tape: Arc<Tape>) -> Recorder {
        Recorder { store, tape }
    }
}

impl Storage for Recorder {
    fn load(&mut self, visit: &mut dyn FnMut(Row)) -> Result<u64, ServerError> {
        self.store.load(visit)
    }

    fn commit(&mut self, changes: &[RowChange], version: u64, durable: bool) -> Result<(), StoreError> {
        self.store.commit(changes, version, durable)?;
        let commit = Commit { changes: changes.to_vec(), version, durable };
        self.tape.commits.lock().unwrap_or_else(PoisonError::into_inner).push(commit);
        Ok(())
    }

    fn idle(&mut self) {
        self.store.idle();
        self.tape.idle.fetch_add(1, Ordering::Release);
    }
}

/// Commits in their order.
#[derive(Default)]
pub struct Recording(Vec<Commit>);

impl Recording {
    pub fn commits(&self) -> usize {
        self.0.len()
    }

    pub fn durable(&self) -> usize {
        self.0.iter().filter(|commit| commit.durable).count()
    }

    pub fn writes(&self) -> usize {
        self.0.iter().map(|commit| commit.changes.len()).sum()
    }

    /// Bytes of the objects written.
    pub fn bytes(&self) -> usize {
        let size = |change: &RowChange| match change {
            RowChange::Put(row) => row.body.len(),
            RowChange::Delete { .. } => 0,
        };
        self.0.iter().flat_map(|commit| &commit.changes).map(size).sum()
    }
}

/// The store alone.
pub struct Bare(SqliteStore);

impl Bare {
    pub fn open(folder: &Path) -> Result<Bare> {
        Ok(Bare(SqliteStore::open(folder)?))
    }

    /// Makes the same commits, one after the other.
    pub fn replay(&mut self, recording: &Recording) -> Result<Duration> {
        let begun = Instant::now();
        for commit in &recording.0 {
            self.0.commit(&commit.changes, commit.version, commit.durable)?;
        }
        let took = begun.elapsed();
        self.0.idle();
        Ok(took)
    }
}
