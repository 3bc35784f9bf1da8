//! What must survive: rows of objects under a key, committed in batches, whole batches or nothing.
//!
//! The trait is small so that another engine could stand behind it; [`sqlite`] is the one we ship.

mod seal;
mod sqlite;

pub use sqlite::SqliteStore;

use bytes::Bytes;

/// A row as it is stored: one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// `group/plural` of the kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The commit number of its last write.
    pub version: u64,
    /// The object, as JSON.
    pub body: Bytes,
    /// Whether the body is encrypted at rest.
    pub sealed: bool,
}

/// One change of a batch.
#[derive(Clone, Debug)]
pub enum RowChange {
    /// Insert or replace.
    Put(Row),
    /// Remove.
    Delete {
        /// `group/plural` of the kind.
        kind: String,
        /// Namespace, empty for cluster-scoped objects.
        namespace: String,
        /// Name.
        name: String,
    },
}

/// Why a batch was not committed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written; a later batch may succeed (the disk is full, for example).
    #[error("nothing was written: {0}")]
    Refused(String),
    /// It isn't known what was written. No further batch is accepted until a restart has read the store anew.
    #[error("the store failed and must be reopened: {0}")]
    Failed(String),
}

/// Where objects are kept.
pub trait Storage: Send {
    /// Reads every row, once, at start. Returns the last commit number.
    fn load(&mut self, visit: &mut dyn FnMut(Row)) -> Result<u64, crate::ServerError>;

    /// Writes a batch, all of it or nothing, with the commit number it ends at. With `durable` the batch is on
    /// disk when this returns, and with it every batch before; without, a power failure may take it.
    fn commit(&mut self, changes: &[RowChange], version: u64, durable: bool) -> Result<(), StoreError>;

    /// Called when nothing waits: time for upkeep.
    fn idle(&mut self) {}
}
