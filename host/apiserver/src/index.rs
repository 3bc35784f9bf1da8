//! The objects as they are committed, in memory, encoded once: what get and list answer from.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use serde_json::Value;

use crate::registry::{Kind, KindId};
use crate::table::{Path, look_up};

/// Namespace (empty for cluster-scoped objects) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One committed state of one object.
pub(crate) struct Stored {
    pub(crate) key: ObjectKey,
    /// The commit number, which is the object's `resourceVersion`.
    pub(crate) version: u64,
    pub(crate) labels: BTreeMap<String, String>,
    /// The selectable fields that have a value.
    pub(crate) fields: Vec<(String, String)>,
    /// The object as JSON, in its stored form.
    pub(crate) json: Bytes,
    /// When this state came to be known, in Unix seconds; events age by it.
    pub(crate) since: i64,
}

impl Stored {
    /// Encodes an object, with the version set.
    pub(crate) fn new(kind: &Kind, key: ObjectKey, mut object: Value, version: u64) -> Self {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.insert("resourceVersion".into(), version.to_string().into());
        }
        let json = Bytes::from(object.to_string());
        Self::index(kind, key, &object, json, version)
    }

    /// Reads an object that was encoded before.
    pub(crate) fn from_json(kind: &Kind, key: ObjectKey, json: Bytes, version: u64) -> Option<Self> {
        let object: Value = serde_json::from_slice(&json).ok()?;
        object["metadata"].is_object().then(|| Self::index(kind, key, &object, json, version))
    }

    fn index(kind: &Kind, key: ObjectKey, object: &Value, json: Bytes, version: u64) -> Self {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        let field = |(name, path): &(String, Path)| {
            let value = look_up(object, path)?.as_str()?;
            Some((name.clone(), value.to_owned()))
        };
        let fields = kind.selectable.iter().filter_map(field).collect();
        Self { key, version, labels, fields, json, since: jiff::Timestamp::now().as_second() }
    }

    /// The object, decoded, in its stored form. What was encoded here can be decoded.
    pub(crate) fn decode(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }
}

/// All objects of all kinds, and the commit number that they are the state of.
pub(crate) struct Index {
    inner: RwLock<Inner>,
}

struct Inner {
    kinds: Vec<BTreeMap<ObjectKey, Arc<Stored>>>,
    version: u64,
}

impl Index {
    pub(crate) fn new(kinds: usize) -> Self {
        Self { inner: RwLock::new(Inner { kinds: vec![BTreeMap::new(); kinds], version: 0 }) }
    }

    /// The object under a key.
    pub(crate) fn get(&self, kind: KindId, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.read().kinds[kind].get(key).cloned()
    }

    /// The objects of a kind in order of their keys, of one namespace or of all, and the version they are at.
    pub(crate) fn list(&self, kind: KindId, namespace: Option<&str>) -> (Vec<Arc<Stored>>, u64) {
        let inner = self.read();
        let objects = match namespace {
            None => inner.kinds[kind].values().cloned().collect(),
            Some(namespace) => {
                let first = ObjectKey { namespace: namespace.to_owned(), name: String::new() };
                let rest = inner.kinds[kind].range(first..);
                rest.take_while(|(key, _)| key.namespace == namespace).map(|(_, o)| o.clone()).collect()
            }
        };
        (objects, inner.version)
    }

    /// The last commit number.
    pub(crate) fn version(&self) -> u64 {
        self.read().version
    }

    /// Makes a batch visible, at once.
    pub(crate) fn apply(&self, changes: &[(KindId, ObjectKey, Option<Arc<Stored>>)], version: u64) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        for (kind, key, object) in changes {
            match object {
                Some(object) => drop(inner.kinds[*kind].insert(key.clone(), object.clone())),
                None => drop(inner.kinds[*kind].remove(key)),
            }
        }
        inner.version = version;
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }
}
