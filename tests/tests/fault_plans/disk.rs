//! A store in memory that outlives daemons: what is committed stays, and a life may end at a chosen commit.
//!
//! It is where the checks look: every commit is read for secrets and for what it says of effects, before anybody is told
//! that it was made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_api::{Machine, MachineAllocation, MachineClass, MachineOperation};
use holdfast_apiserver::ServerError;
use holdfast_apiserver::store::{Row, RowChange, Storage, StoreError};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::journal::Journal;
use crate::world::CANARY;

/// Whether a life is over. A dead life hears nothing, sends nothing and writes nothing.
#[derive(Debug)]
pub struct Death(watch::Sender<bool>);

impl Death {
    pub fn not_yet() -> Arc<Death> {
        Arc::new(Death(watch::Sender::new(false)))
    }

    pub fn strike(&self) {
        self.0.send_replace(true);
    }

    pub fn struck(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once the life is over.
    pub async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|dead| *dead).await;
    }
}

/// A commit at which the life ends.
#[derive(Debug, Clone, Copy)]
pub struct WriteCrash {
    /// Durable commits that still go through.
    pub left: u32,
    /// The fatal commit is made, and nobody hears of it.
    pub lands: bool,
}

type Place = (String, String, String);

/// A change of one object, for whoever would have seen it on a watch.
#[derive(Debug, Clone)]
pub struct Change {
    pub kind: String,
    pub name: String,
    /// More than the status changed; a change of status alone is the controllers' own, and tells nobody.
    pub told: bool,
    /// The allocation that an operation serves.
    pub allocation: Option<String>,
}

/// What is stored of the kinds that checks look at, read once.
#[derive(Default, Clone)]
pub struct Objects {
    pub operations: BTreeMap<String, Arc<MachineOperation>>,
    pub allocations: BTreeMap<String, Arc<MachineAllocation>>,
    pub classes: BTreeMap<String, Arc<MachineClass>>,
    pub machines: BTreeMap<String, Arc<Machine>>,
}

/// The store.
#[derive(Default)]
pub struct Disk(Mutex<Inner>);

#[derive(Default)]
pub struct Inner {
    rows: BTreeMap<Place, Row>,
    version: u64,
    /// The life that may write, with its death and where it dies. Nothing is counted while it is not armed.
    life: u64,
    death: Option<Arc<Death>>,
    crash: Option<WriteCrash>,
    armed: bool,
    changes: Vec<Change>,
    pub objects: Objects,
    /// Commits of objects by kind.
    pub writes: BTreeMap<String, u64>,
    pub journal: Journal,
    /// Secrets in clear, and where.
    pub leaks: Vec<String>,
}

impl Disk {
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a life; earlier ones can no longer write.
    pub fn open(self: &Arc<Self>, death: Arc<Death>, crash: Option<WriteCrash>) -> Memory {
        let mut inner = self.lock();
        inner.life += 1;
        (inner.death, inner.crash, inner.armed) = (Some(death), crash, false);
        Memory { disk: self.clone(), life: inner.life }
    }

    /// Whether commits count towards the crash: an operator's own writes do not.
    pub fn arm(&self, armed: bool) {
        self.lock().armed = armed;
    }

    /// What has changed since the last look.
    pub fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.lock().changes)
    }

    /// The objects as they stand.
    pub fn objects(&self) -> Objects {
        self.lock().objects.clone()
    }

    /// How often objects of a kind were written.
    pub fn written(&self, kind: &str) -> u64 {
        self.lock().writes.get(kind).copied().unwrap_or_default()
    }

    /// Commits of objects by kind, so far.
    pub fn writes(&self) -> BTreeMap<String, u64> {
        self.lock().writes.clone()
    }
}

impl Inner {
    fn apply(&mut self, change: &RowChange) {
        let (place, after) = match change {
            RowChange::Put(row) => {
                ((row.kind.clone(), row.namespace.clone(), row.name.clone()), Some(row.clone()))
            }
            RowChange::Delete { kind, namespace, name } => {
                ((kind.clone(), namespace.clone(), name.clone()), None)
            }
        };
        let (kind, name) = (place.0.clone(), place.2.clone());
        *self.writes.entry(kind.clone()).or_default() += 1;
        if let Some(row) = after.as_ref().filter(|row| !row.sealed)
            && let Some(found) = find(&row.body, CANARY.as_bytes())
        {
            self.leaks.push(format!("{kind} {name} holds a secret at byte {found}"));
        }
        let body = after.as_ref().map(|row| &row.body[..]);
        let Objects { operations, allocations, classes, machines } = &mut self.objects;
        let mut allocation = None;
        let told = match kind.as_str() {
            OPERATIONS => {
                let (told, operation) = put(operations, &name, body);
                allocation = operation.and_then(|it| Some(it.spec.allocation_ref.as_ref()?.name.clone()));
                self.journal.seen(&name, operations.get(&name).map(|operation| &**operation));
                told
            }
            ALLOCATIONS => put(allocations, &name, body).0,
            CLASSES => put(classes, &name, body).0,
            MACHINES => put(machines, &name, body).0,
            _ => false,
        };
        match after {
            Some(row) => self.rows.insert(place, row),
            None => self.rows.remove(&place),
        };
        self.changes.push(Change { kind, name, told, allocation });
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Puts an object in its place, or takes it away. Tells whether more than its status changed, and what it is or was.
fn put<K: Resource + DeserializeOwned>(
    objects: &mut BTreeMap<String, Arc<K>>,
    name: &str,
    body: Option<&[u8]>,
) -> (bool, Option<Arc<K>>) {
    let before = objects.remove(name);
    let Some(body) = body else { return (true, before) };
    let after: Arc<K> = Arc::new(serde_json::from_slice(body).expect("what is stored is an object"));
    objects.insert(name.to_owned(), after.clone());
    let told = before.is_none_or(|before| {
        let (before, after) = (before.meta(), after.meta());
        before.uid != after.uid
            || before.generation != after.generation
            || before.deletion_timestamp != after.deletion_timestamp
            || before.finalizers != after.finalizers
            || before.labels != after.labels
    });
    (told, Some(after))
}

pub const OPERATIONS: &str = "holdfast.dev/machineoperations";
pub const ALLOCATIONS: &str = "holdfast.dev/machineallocations";
pub const CLASSES: &str = "holdfast.dev/machineclasses";
pub const MACHINES: &str = "holdfast.dev/machines";

/// One life's way to the store.
pub struct Memory {
    disk: Arc<Disk>,
    life: u64,
}

impl Storage for Memory {
    fn load(&mut self, visit: &mut dyn FnMut(Row)) -> Result<u64, ServerError> {
        let inner = self.disk.lock();
        inner.rows.values().cloned().for_each(visit);
        Ok(inner.version + 1000)
    }

    fn commit(&mut self, changes: &[RowChange], version: u64, durable: bool) -> Result<(), StoreError> {
        let over = || Err(StoreError::Failed("the life is over".to_owned()));
        let mut inner = self.disk.lock();
        let dead = inner.death.as_ref().is_none_or(|death| death.struck());
        if inner.life != self.life || dead {
            return over();
        }
        let counts = durable && inner.armed;
        let fatal = counts && inner.crash.is_some_and(|crash| crash.left == 0);
        if let Some(crash) = inner.crash.as_mut().filter(|_| counts && !fatal) {
            crash.left -= 1;
        }
        let lands = inner.crash.is_some_and(|crash| crash.lands);
        if !fatal || lands {
            changes.iter().for_each(|change| inner.apply(change));
            inner.version = version;
        }
        if fatal {
            inner.death.iter().for_each(|death| death.strike());
            return over();
        }
        Ok(())
    }
}
