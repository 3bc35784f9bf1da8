//! The store on SQLite: write-ahead log, one connection, exclusive, used by one thread.
//!
//! Checkpoints are made by hand, when nothing waits, so that no commit pays for one.

use std::fs::File;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};

use super::seal::Sealer;
use super::{Row, RowChange, Storage, StoreError};
use crate::ServerError;

/// Bytes of log after which an idle moment is used for a checkpoint.
const CHECKPOINT_WHEN_IDLE: usize = 4 << 20;
/// Bytes of log after which a checkpoint no longer waits for an idle moment.
const CHECKPOINT_ALWAYS: usize = 128 << 20;
/// Numbers skipped at each start. A write that need not be durable may be lost after its number was seen;
/// the number must not come again.
const VERSIONS_SKIPPED_AT_START: u64 = 1 << 16;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS objects (
        kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        version INTEGER NOT NULL, sealed INTEGER NOT NULL, body BLOB NOT NULL,
        UNIQUE (kind, namespace, name)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT;
    INSERT OR IGNORE INTO facts VALUES ('version', 0);
";
const PUT: &str =
    "INSERT INTO objects (kind, namespace, name, version, sealed, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (kind, namespace, name) DO UPDATE SET version = ?4, sealed = ?5, body = ?6";
const DELETE: &str = "DELETE FROM objects WHERE kind = ?1 AND namespace = ?2 AND name = ?3";

/// The store on SQLite. Holding it holds the state directory.
pub struct SqliteStore {
    connection: Connection,
    sealer: Sealer,
    path: PathBuf,
    /// Bytes written since the last checkpoint, about.
    logged: usize,
    /// Whether the connection is in `synchronous=FULL` now.
    durable: bool,
    failed: bool,
    /// Held for the life of the store.
    _lock: File,
}

impl SqliteStore {
    /// Opens the store in a directory, both made if absent. Fails if another process has it.
    pub fn open(directory: &Path) -> Result<Self, ServerError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(ServerError::io("can't create", directory))?;
        let lock = lock(directory)?;
        let path = directory.join("holdfast.db");
        let key = directory.join("holdfast.key");
        let exists = path.exists();
        let Some(sealer) = Sealer::open(&key, !exists)? else {
            return Err(ServerError::KeyMissing { store: path, key });
        };
        let connection = connect(&path).map_err(|source| match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                ServerError::Locked(directory.into())
            }
            _ => ServerError::Database { path: path.clone(), source },
        })?;
        let mut store =
            Self { connection, sealer, path, logged: 0, durable: true, failed: false, _lock: lock };
        store.check_key(&key)?;
        Ok(store)
    }

    /// Proves that the key is the one that the store was made with, before anything is sealed with another.
    fn check_key(&mut self, key: &Path) -> Result<(), ServerError> {
        const PLACE: &[u8] = b"facts/key-check";
        let found: Option<Vec<u8>> = self
            .connection
            .query_row("SELECT value FROM facts WHERE name = 'key-check'", [], |row| row.get(0))
            .optional()
            .map_err(|e| self.database(e))?;
        match found {
            Some(sealed) if self.sealer.open_body(PLACE, &sealed).is_some() => Ok(()),
            Some(_) => Err(ServerError::KeyWrong { store: self.path.clone(), key: key.into() }),
            None => {
                let sealed = self.sealer.seal(PLACE, b"")?;
                self.connection
                    .execute("INSERT INTO facts VALUES ('key-check', ?1)", params![sealed])
                    .map_err(|e| self.database(e))?;
                Ok(())
            }
        }
    }

    fn database(&self, source: rusqlite::Error) -> ServerError {
        ServerError::Database { path: self.path.clone(), source }
    }

    fn write(&mut self, changes: &[RowChange], version: u64) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut put = transaction.prepare_cached(PUT)?;
            let mut delete = transaction.prepare_cached(DELETE)?;
            for change in changes {
                match change {
                    RowChange::Put(row) => {
                        let sealed = match row.sealed {
                            true => Some(
                                self.sealer
                                    .seal(place(&row.kind, &row.namespace, &row.name).as_bytes(), &row.body)
                                    .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?,
                            ),
                            false => None,
                        };
                        let body: &[u8] = sealed.as_deref().unwrap_or(&row.body);
                        self.logged += body.len() + 4096;
                        put.execute(params![
                            row.kind,
                            row.namespace,
                            row.name,
                            row.version as i64,
                            row.sealed,
                            body
                        ])?;
                    }
                    RowChange::Delete { kind, namespace, name } => {
                        self.logged += 4096;
                        delete.execute(params![kind, namespace, name])?;
                    }
                }
            }
            transaction
                .prepare_cached("UPDATE facts SET value = ?1 WHERE name = 'version'")?
                .execute(params![version as i64])?;
        }
        transaction.commit()
    }

    fn checkpoint(&mut self) {
        // A checkpoint that fails loses nothing: the log stays, and the next one tries again.
        if let Err(error) = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
            tracing::warn!(%error, "the store's log could not be checkpointed");
        }
        self.logged = 0;
    }
}

impl Storage for SqliteStore {
    fn load(&mut self, visit: &mut dyn FnMut(Row)) -> Result<u64, ServerError> {
        let version: i64 = self
            .connection
            .query_row("SELECT value FROM facts WHERE name = 'version'", [], |row| row.get(0))
            .map_err(|e| self.database(e))?;
        let mut statement = self
            .connection
            .prepare("SELECT kind, namespace, name, version, sealed, body FROM objects")
            .map_err(|e| self.database(e))?;
        let mut rows = statement.query([]).map_err(|e| self.database(e))?;
        while let Some(row) = rows.next().map_err(|e| self.database(e))? {
            let row = read(row).map_err(|e| self.database(e))?;
            visit(self.opened(row)?);
        }
        Ok(u64::try_from(version).unwrap_or(0) + VERSIONS_SKIPPED_AT_START)
    }

    fn commit(&mut self, changes: &[RowChange], version: u64, durable: bool) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Failed("an earlier write failed".into()));
        }
        if durable != self.durable {
            let word = if durable { "FULL" } else { "NORMAL" };
            let set = self.connection.pragma_update(None, "synchronous", word);
            set.map_err(|e| StoreError::Refused(e.to_string()))?;
            self.durable = durable;
        }
        self.write(changes, version).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::TooBig) => StoreError::Refused(error.to_string()),
            _ => {
                self.failed = true;
                StoreError::Failed(error.to_string())
            }
        })?;
        if self.logged > CHECKPOINT_ALWAYS {
            self.checkpoint();
        }
        Ok(())
    }

    fn idle(&mut self) {
        if self.logged > CHECKPOINT_WHEN_IDLE {
            self.checkpoint();
        }
    }
}

impl SqliteStore {
    fn opened(&self, mut row: Row) -> Result<Row, ServerError> {
        if row.sealed {
            let place = place(&row.kind, &row.namespace, &row.name);
            let body = self.sealer.open_body(place.as_bytes(), &row.body);
            row.body =
                body.ok_or_else(|| ServerError::Damaged(format!("{place} can't be decrypted")))?.into();
        }
        Ok(row)
    }
}

/// The additional data of a sealed body. Kinds, namespaces and names hold no NUL.
fn place(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}\0{namespace}\0{name}")
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        kind: row.get(0)?,
        namespace: row.get(1)?,
        name: row.get(2)?,
        version: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
        sealed: row.get(4)?,
        body: row.get::<_, Vec<u8>>(5)?.into(),
    })
}

fn lock(directory: &Path) -> Result<File, ServerError> {
    let path = directory.join("holdfast.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(ServerError::io("can't open", &path))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ServerError::Locked(directory.into())),
        Err(e) => Err(ServerError::io("can't lock", path)(e.into())),
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // Best effort: the directory's own mode is what keeps others out.
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}
