//! What the server does with a request that has been understood: read, write, watch.
//!
//! Everything here is the same for the in-process client and for clients on the network.

mod admit;
mod read;
mod watch;
mod write;

pub(crate) use read::{ListOptions, Pages};
pub(crate) use watch::{Form, WatchOptions};
pub(crate) use write::{DeleteOptions, FIXED_NAMESPACES, WriteOptions};

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch as stop;

use crate::hub::Hub;
use crate::index::{Index, ObjectKey, Stored};
use crate::openapi::Documents;
use crate::registry::{Kind, Registry};
use crate::rules::Validator;
use crate::stamps::Stamps;
use crate::status::ApiError;
use crate::writer::{WriteError, Writer};

/// Everything that requests are answered from.
pub(crate) struct Api {
    pub(crate) registry: Arc<Registry>,
    pub(crate) index: Arc<Index>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) writer: Writer,
    pub(crate) validators: Vec<Box<dyn Validator>>,
    /// Lists that were given in part, to be gone on with.
    pub(crate) pages: Pages,
    /// The clock that objects are stamped by.
    pub(crate) stamps: Stamps,
    /// The OpenAPI documents, made when they are first asked for.
    pub(crate) documents: OnceLock<Documents>,
    /// Becomes true when the server stops.
    pub(crate) stopping: stop::Receiver<bool>,
}

/// How strictly unknown and repeated fields are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are an error.
    Strict,
    /// They are dropped with a warning.
    #[default]
    Warn,
    /// They are dropped.
    Ignore,
}

/// An object to be answered with.
pub(crate) enum Object {
    /// As it is committed.
    Stored(Arc<Stored>),
    /// As it would be, or as a view shows it.
    Value(Value),
}

impl Object {
    /// The object as JSON.
    pub(crate) fn encode(self, kind: &Kind) -> Bytes {
        match (self, kind.view) {
            (Self::Stored(stored), None) => stored.json.clone(),
            (Self::Stored(stored), Some(view)) => (view.show)(stored.decode()).to_string().into(),
            (Self::Value(value), _) => value.to_string().into(),
        }
    }

    /// The object, decoded.
    pub(crate) fn decode(self, kind: &Kind) -> Value {
        match self {
            Self::Stored(stored) => shown(kind, &stored),
            Self::Value(value) => value,
        }
    }
}

/// A committed object in the form of a kind.
pub(crate) fn shown(kind: &Kind, stored: &Stored) -> Value {
    match kind.view {
        None => stored.decode(),
        Some(view) => (view.show)(stored.decode()),
    }
}

/// What a write came to.
pub(crate) struct Outcome {
    /// HTTP status code.
    pub(crate) code: u16,
    /// The object after the write.
    pub(crate) object: Object,
    /// What the client should know.
    pub(crate) warnings: Vec<String>,
    /// Whether the object is gone.
    pub(crate) deleted: bool,
}

impl Api {
    /// The committed object under a key.
    pub(crate) fn current(&self, kind: &Kind, key: &ObjectKey) -> Result<Arc<Stored>, ApiError> {
        self.index.get(kind.storage, key).ok_or_else(|| ApiError::not_found(kind, &key.name))
    }
}

/// The answer to a write that the store did not make.
pub(crate) fn store_error(error: WriteError, kind: &Kind, name: &str) -> ApiError {
    match error {
        WriteError::Moved => ApiError::modified(kind, name),
        WriteError::Store(why) => ApiError::internal(why),
    }
}
