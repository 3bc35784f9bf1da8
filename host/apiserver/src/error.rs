//! What can go wrong with the server as a whole. Answers to requests are in [`crate::status`].

use std::path::PathBuf;

/// Why the embedded API can't be opened or served. Each is one sentence for an operator.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another process holds the state directory.
    #[error("another daemon uses {}: only one may run on a state directory; stop it first", .0.display())]
    Locked(PathBuf),
    /// The store exists but its key doesn't.
    #[error("the store {} exists but its key {} is gone: restore the key file, or remove the store to start anew", .store.display(), .key.display())]
    KeyMissing {
        /// The database.
        store: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// The key isn't the one the store was sealed with.
    #[error("the key {} doesn't open the store {}: restore the key that was made with it", .key.display(), .store.display())]
    KeyWrong {
        /// The database.
        store: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// A private file can be read by others, or has the wrong size.
    #[error("{} {what}: it must be a regular file of mode 0600", .path.display())]
    PrivateFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The store is damaged.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The file system refused.
    #[error("{what} {}: {source}", .path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The database refused.
    #[error("the store {}: {source}", .path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The database's answer.
        source: rusqlite::Error,
    },
    /// A definition can't be served.
    #[error("the definition of {kind} can't be served: {why}")]
    Definition {
        /// The kind.
        kind: String,
        /// What is wrong with it.
        why: String,
    },
    /// Certificates can't be made or read.
    #[error("the server's certificate: {0}")]
    Certificate(String),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random,
}

impl ServerError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}
