//! What the watches have told: which operations are open on which machine, and which credentials there are.
//!
//! Kept so that no reconcile walks a list (architecture: steady state costs nothing). The truth is always re-read
//! from the API before something is done; the index says only where to look.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_api::{MachineOperation, Phase, ProviderCredential};
use kube::ResourceExt as _;

/// What [`OperationIndex::seen`] found out about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Not known before.
    New,
    /// Spec, deletion or the end of the operation changed: somebody must look (2(b).1, triggers).
    Changed,
    /// Status, labels and the like: nothing to do.
    Quiet,
}

/// Operations by name, and the open ones by machine.
#[derive(Debug, Default)]
pub struct OperationIndex {
    inner: Mutex<Operations>,
}

#[derive(Debug, Default)]
struct Operations {
    by_name: HashMap<String, Arc<MachineOperation>>,
    open: HashMap<String, BTreeSet<String>>,
}

impl Operations {
    fn unlink(&mut self, operation: &MachineOperation) {
        let Some(machine) = machine_of(operation) else { return };
        if let Some(names) = self.open.get_mut(machine) {
            names.remove(&operation.name_any());
            if names.is_empty() {
                self.open.remove(machine);
            }
        }
    }
}

impl OperationIndex {
    fn lock(&self) -> MutexGuard<'_, Operations> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an operation as it was read, watched or written.
    pub fn seen(&self, operation: Arc<MachineOperation>) -> Seen {
        let name = operation.name_any();
        let mut inner = self.lock();
        let old = inner.by_name.get(&name).cloned();
        if let Some(old) = &old {
            if older(&operation, old) {
                return Seen::Quiet;
            }
            inner.unlink(old);
        }
        if !phase(&operation).is_terminal()
            && let Some(machine) = machine_of(&operation)
        {
            inner.open.entry(machine.to_owned()).or_default().insert(name.clone());
        }
        let seen = match &old {
            None => Seen::New,
            Some(old) if matters(old, &operation) => Seen::Changed,
            Some(_) => Seen::Quiet,
        };
        inner.by_name.insert(name, operation);
        seen
    }

    /// Forgets an operation.
    pub fn gone(&self, name: &str) -> Option<Arc<MachineOperation>> {
        let mut inner = self.lock();
        let old = inner.by_name.remove(name)?;
        inner.unlink(&old);
        Some(old)
    }

    /// Forgets every operation that is not in a new listing.
    pub fn keep_only(&self, names: &BTreeSet<String>) {
        let gone: Vec<String> =
            self.lock().by_name.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in gone {
            self.gone(&name);
        }
    }

    /// The open operations of a machine.
    pub fn open_on(&self, machine: &str) -> Vec<Arc<MachineOperation>> {
        let inner = self.lock();
        let names = inner.open.get(machine).into_iter().flatten();
        names.filter_map(|name| inner.by_name.get(name).cloned()).collect()
    }

    /// The machine of an operation, or the operation itself: what may not run twice at a time.
    pub fn group(&self, name: &str) -> String {
        let inner = self.lock();
        let machine = inner.by_name.get(name).and_then(|operation| machine_of(operation));
        machine.map_or_else(|| format!("/{name}"), str::to_owned)
    }

    /// Names of the open operations that wait and for which `which` holds. Walks all: for rare events only.
    pub fn waiting(&self, which: impl Fn(&MachineOperation) -> bool) -> Vec<String> {
        let inner = self.lock();
        let open = inner.open.values().flatten();
        open.filter(|name| {
            inner.by_name.get(*name).is_some_and(|operation| {
                operation.status.as_ref().is_some_and(|s| s.waiting.is_some()) && which(operation)
            })
        })
        .cloned()
        .collect()
    }
}

/// The phase of an operation; without a status it is Pending.
pub fn phase(operation: &MachineOperation) -> Phase {
    operation.status.as_ref().map_or(Phase::Pending, |status| status.phase)
}

fn machine_of(operation: &MachineOperation) -> Option<&str> {
    operation.spec.machine_ref.as_ref().map(|machine| machine.name.as_str())
}

/// Whether `a` is an older version of the very object `b`.
pub(crate) fn older(a: &MachineOperation, b: &MachineOperation) -> bool {
    let version = |o: &MachineOperation| o.metadata.resource_version.as_deref()?.parse::<u64>().ok();
    a.metadata.uid == b.metadata.uid && matches!((version(a), version(b)), (Some(a), Some(b)) if a < b)
}

fn matters(old: &MachineOperation, new: &MachineOperation) -> bool {
    old.metadata.uid != new.metadata.uid
        || old.metadata.generation != new.metadata.generation
        || old.metadata.deletion_timestamp.is_some() != new.metadata.deletion_timestamp.is_some()
        || phase(old).is_terminal() != phase(new).is_terminal()
}

/// Credentials by (site, provider).
#[derive(Debug, Default)]
pub struct CredentialIndex {
    inner: Mutex<Credentials>,
}

#[derive(Debug, Default)]
struct Credentials {
    by_name: HashMap<String, Arc<ProviderCredential>>,
    by_pair: HashMap<(String, String), BTreeSet<String>>,
}

impl CredentialIndex {
    fn lock(&self) -> MutexGuard<'_, Credentials> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a credential.
    pub fn seen(&self, credential: Arc<ProviderCredential>) {
        let name = credential.name_any();
        self.gone(&name);
        let mut inner = self.lock();
        inner.by_pair.entry(pair(&credential)).or_default().insert(name.clone());
        inner.by_name.insert(name, credential);
    }

    /// Forgets a credential.
    pub fn gone(&self, name: &str) {
        let mut inner = self.lock();
        let Some(old) = inner.by_name.remove(name) else { return };
        let pair = pair(&old);
        if let Some(names) = inner.by_pair.get_mut(&pair) {
            names.remove(name);
            if names.is_empty() {
                inner.by_pair.remove(&pair);
            }
        }
    }

    /// Forgets every credential that is not in a new listing.
    pub fn keep_only(&self, names: &BTreeSet<String>) {
        let gone: Vec<String> =
            self.lock().by_name.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in gone {
            self.gone(&name);
        }
    }

    /// The credentials of a provider at a site; there should be exactly one.
    pub fn of(&self, site: &str, provider: &str) -> Vec<Arc<ProviderCredential>> {
        let inner = self.lock();
        let names = inner.by_pair.get(&(site.to_owned(), provider.to_owned())).into_iter().flatten();
        names.filter_map(|name| inner.by_name.get(name).cloned()).collect()
    }
}

fn pair(credential: &ProviderCredential) -> (String, String) {
    (credential.spec.site_name.clone(), credential.spec.provider.clone())
}
