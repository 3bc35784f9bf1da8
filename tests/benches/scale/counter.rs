//! A store that counts what it is given.

use std::collections::BTreeMap;
use std::ops::Sub;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_apiserver::ServerError;
use holdfast_apiserver::store::{Row, RowChange, SqliteStore, Storage, StoreError};

/// What was written so far.
#[derive(Debug, Clone, Default)]
pub struct Written {
    pub commits: usize,
    pub durable: usize,
    /// Bytes of the objects.
    pub bytes: usize,
    /// Writes by kind.
    pub writes: BTreeMap<String, usize>,
}

impl Written {
    pub fn all(&self) -> usize {
        self.writes.values().sum()
    }
}

impl Sub<&Written> for &Written {
    type Output = Written;

    fn sub(self, before: &Written) -> Written {
        let writes = self.writes.iter().map(|(kind, now)| {
            let before = before.writes.get(kind).copied().unwrap_or_default();
            (kind.clone(), now - before)
        });
        Written {
            commits: self.commits - before.commits,
            durable: self.durable - before.durable,
            bytes: self.bytes - before.bytes,
            writes: writes.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// The figures of one store.
#[derive(Default)]
pub struct Tally(Mutex<Written>);

impl Tally {
    pub fn now(&self) -> Written {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub struct Counter {
    pub store: SqliteStore,
    pub tally: Arc<Tally>,
}

impl Storage for Counter {
    fn load(&mut self, visit: &mut dyn FnMut(Row)) -> Result<u64, ServerError> {
        self.store.load(visit)
    }

    fn commit(&mut self, changes: &[RowChange], version: u64, durable: bool) -> Result<(), StoreError> {
        self.store.commit(changes, version, durable)?;
        let mut written = self.tally.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.commits += 1;
        written.durable += usize::from(durable);
        for change in changes {
            let kind = match change {
                RowChange::Put(row) => {
                    written.bytes += row.body.len();
                    &row.kind
                }
                RowChange::Delete { kind, .. } => kind,
            };
            match written.writes.get_mut(kind) {
                Some(count) => *count += 1,
                None => drop(written.writes.insert(kind.clone(), 1)),
            }
        }
        Ok(())
    }

    fn idle(&mut self) {
        self.store.idle();
    }
}
