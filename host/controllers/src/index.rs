//! What the watches have told: which operations are open on which machine, and which credentials there are.
//!
//! Kept so that no reconcile walks a list (architecture: steady state costs nothing). The truth is always re-read
//! from the API before something is done; the index says only where to look.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_api::{MachineOperation, MachineOperationStatus, Phase, ProviderCredential};
use kube::ResourceExt as _;

/// What [`OperationIndex::watched`] found out about an operation.
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
    /// What the watch last told, by name. Our own reads and writes don't count: they may be ahead of the watch, and
    /// would then hide a change that nobody has acted on.
    told: HashMap<String, Told>,
}

/// The parts of an operation for which somebody must look.
#[derive(Debug)]
struct Told {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    /// For the operation itself only the end counts.
    phase: Phase,
    /// For its allocation, which says so.
    lacks_credentials: bool,
}

impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        let parts = |told: &Self| (told.generation, told.deleting, told.phase.is_terminal());
        self.uid == other.uid && parts(self) == parts(other)
    }
}

impl Told {
    fn of(operation: &MachineOperation) -> Self {
        Self {
            uid: operation.metadata.uid.clone(),
            generation: operation.metadata.generation,
            deleting: operation.metadata.deletion_timestamp.is_some(),
            phase: phase(operation),
            lacks_credentials: lacks_credentials(operation),
        }
    }
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

    /// Takes in an operation as the watch told it, and says whether somebody must look.
    pub fn watched(&self, operation: Arc<MachineOperation>) -> Seen {
        let told = Told::of(&operation);
        let old = self.lock().told.insert(operation.name_any(), told);
        let seen = match old {
            None => Seen::New,
            Some(old) if old != Told::of(&operation) => Seen::Changed,
            Some(_) => Seen::Quiet,
        };
        self.seen(operation);
        seen
    }

    /// Takes in an operation as it was read or written.
    pub fn seen(&self, operation: Arc<MachineOperation>) {
        let name = operation.name_any();
        let mut inner = self.lock();
        if let Some(old) = inner.by_name.get(&name).cloned() {
            if older(&operation, &old) {
                return;
            }
            inner.unlink(&old);
        }
        if !phase(&operation).is_terminal()
            && let Some(machine) = machine_of(&operation)
        {
            inner.open.entry(machine.to_owned()).or_default().insert(name.clone());
        }
        inner.by_name.insert(name, slim(operation));
    }

    /// Whether an operation of this name is known.
    pub fn knows(&self, name: &str) -> bool {
        self.lock().by_name.contains_key(name)
    }

    /// Whether an operation carries a finalizer, as last told.
    pub fn held(&self, name: &str, finalizer: &str) -> bool {
        let inner = self.lock();
        inner
            .by_name
            .get(name)
            .is_some_and(|operation| operation.finalizers().iter().any(|one| one == finalizer))
    }

    /// The phase of an operation that the watch told last.
    pub fn told_phase(&self, name: &str) -> Option<Phase> {
        self.lock().told.get(name).map(|told| told.phase)
    }

    /// Whether the watch has told last that an operation waits for credentials.
    pub fn told_lack(&self, name: &str) -> bool {
        self.lock().told.get(name).is_some_and(|told| told.lacks_credentials)
    }

    /// Kind and id of what open operations have made. Walks all that are open: for rare events only.
    pub fn made_by_open(&self) -> std::collections::HashSet<(String, String)> {
        let inner = self.lock();
        let open = inner.open.values().flatten().filter_map(|name| inner.by_name.get(name));
        let statuses = open.filter_map(|operation| operation.status.as_ref());
        statuses
            .flat_map(|status| {
                let owned = status.owned_resources.iter().map(|one| (one.kind.clone(), one.id.clone()));
                let created = status.effects.iter().flat_map(|effect| &effect.created);
                owned.chain(created.map(|one| (one.kind.clone(), one.id.clone()))).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Forgets an operation.
    pub fn gone(&self, name: &str) -> Option<Arc<MachineOperation>> {
        let mut inner = self.lock();
        inner.told.remove(name);
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

/// Why an operation, a class or an allocation waits for credentials.
pub const AUTH_UNAVAILABLE: &str = "ProviderAuthUnavailable";

/// Whether an operation waits for credentials.
pub fn lacks_credentials(operation: &MachineOperation) -> bool {
    let waiting = operation.status.as_ref().and_then(|status| status.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.reason == AUTH_UNAVAILABLE)
}

fn machine_of(operation: &MachineOperation) -> Option<&str> {
    operation.spec.machine_ref.as_ref().map(|machine| machine.name.as_str())
}

/// Of an operation that has ended the index needs little, and there may be many.
fn slim(operation: Arc<MachineOperation>) -> Arc<MachineOperation> {
    if !phase(&operation).is_terminal() {
        return operation;
    }
    let mut slim = MachineOperation::new(&operation.name_any(), operation.spec.clone());
    slim.metadata = operation.metadata.clone();
    slim.metadata.managed_fields = None;
    slim.status = operation.status.as_ref().map(|status| MachineOperationStatus {
        phase: status.phase,
        completed_at: status.completed_at.clone(),
        ..MachineOperationStatus::default()
    });
    Arc::new(slim)
}

/// Whether `a` is an older version of the very object `b`.
pub(crate) fn older(a: &MachineOperation, b: &MachineOperation) -> bool {
    let version = |o: &MachineOperation| o.metadata.resource_version.as_deref()?.parse::<u64>().ok();
    a.metadata.uid == b.metadata.uid && matches!((version(a), version(b)), (Some(a), Some(b)) if a < b)
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

    /// The credentials that take a secret of this name. Walks all credentials, of which there are few.
    pub fn naming(&self, secret: &str) -> Vec<Arc<ProviderCredential>> {
        let names = |one: &&Arc<ProviderCredential>| {
            one.spec.auth.secret_ref.as_ref().is_some_and(|reference| reference.name == secret)
        };
        self.lock().by_name.values().filter(names).cloned().collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_api::{MachineOperationSpec, MachineReference};

    fn operation(version: u64, generation: i64) -> Arc<MachineOperation> {
        let machine_ref = Some(MachineReference { name: "m".into() });
        let spec = MachineOperationSpec { machine_ref, ..MachineOperationSpec::default() };
        let mut operation = MachineOperation::new("op", spec);
        operation.metadata.uid = Some("u".into());
        operation.metadata.resource_version = Some(version.to_string());
        operation.metadata.generation = Some(generation);
        Arc::new(operation)
    }

    #[test]
    fn status_changes_are_quiet_and_spec_changes_are_not() {
        let index = OperationIndex::default();
        assert_eq!(index.watched(operation(1, 1)), Seen::New);
        assert_eq!(index.watched(operation(2, 1)), Seen::Quiet);
        assert_eq!(index.watched(operation(3, 2)), Seen::Changed);
    }

    /// A cancel that a conflict made us read before the watch told it is still told.
    #[test]
    fn a_change_that_we_read_ahead_of_the_watch_still_wakes() {
        let index = OperationIndex::default();
        index.watched(operation(1, 1));
        index.seen(operation(3, 2));
        assert_eq!(index.watched(operation(2, 2)), Seen::Changed);
        assert_eq!(index.watched(operation(3, 2)), Seen::Quiet);
        assert_eq!(
            index.open_on("m")[0].metadata.resource_version.as_deref(),
            Some("3"),
            "never back in time"
        );
    }

    #[test]
    fn an_operation_that_has_ended_is_no_longer_open() {
        let index = OperationIndex::default();
        index.watched(operation(1, 1));
        let mut ended = (*operation(2, 1)).clone();
        ended.status =
            Some(MachineOperationStatus { phase: Phase::Failed, ..MachineOperationStatus::default() });
        assert_eq!(index.watched(Arc::new(ended)), Seen::Changed);
        assert!(index.open_on("m").is_empty());
    }
}
