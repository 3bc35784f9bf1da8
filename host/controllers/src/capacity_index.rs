//! What the watches have told of classes, allocations and the machines that belong to them.
//!
//! It says whom to look at, so that no reconcile walks a list: allocations by class and by machine. The truth is
//! re-read from the API before something is done. What we read or wrote ourselves may be ahead of the watch: it never
//! hides a change that the watch has not told yet.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_api::allocation::ALLOCATION_UID_ANNOTATION;
use holdfast_api::class::SWEEP_ANNOTATION;
use holdfast_api::{AllocationPhase, Machine, MachineAllocation, MachineClass, OwnedResource, SITE_LABEL};
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::index::Seen;

/// The parts of an object for which somebody must look.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    /// Of a machine: the site that its label names. Labels don't count as a generation.
    site: Option<String>,
    /// Of a class: the sweep that its annotation asks for.
    sweep: Option<String>,
}

impl Told {
    fn of(object: &impl kube::Resource) -> Self {
        let meta = object.meta();
        Self {
            uid: meta.uid.clone(),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            site: None,
            sweep: None,
        }
    }

    fn seen(old: Option<Self>, new: &Self) -> Seen {
        match old {
            None => Seen::New,
            Some(old) if old != *new => Seen::Changed,
            Some(_) => Seen::Quiet,
        }
    }
}

/// What is kept of an allocation.
#[derive(Debug, Clone)]
struct Known {
    class: String,
    machine: String,
    /// Waits for an offering: by age.
    waits: Option<Timestamp>,
}

/// Classes by name; allocations by class and by machine.
#[derive(Debug, Default)]
pub struct CapacityIndex {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    classes: HashMap<String, Arc<MachineClass>>,
    told_classes: HashMap<String, Told>,
    told_allocations: HashMap<String, Told>,
    allocations: HashMap<String, Known>,
    /// Allocations that have no offering yet, by class; the oldest first.
    waiting: HashMap<String, BTreeSet<(Timestamp, String)>>,
    by_machine: HashMap<String, BTreeSet<String>>,
    machines: HashMap<String, Told>,
    owned: Owned,
    /// Classes whose orphans may have changed by what was done here.
    to_sweep: BTreeSet<String>,
}

/// Kind and id of a remote resource.
type Thing = (String, String);

/// What allocations and machines have on record.
#[derive(Debug, Default)]
struct Owned {
    by_holder: HashMap<String, Vec<Thing>>,
    holders: HashMap<Thing, u32>,
}

impl Owned {
    fn set(&mut self, holder: String, owned: &[OwnedResource]) {
        let things: Vec<Thing> = owned.iter().map(|one| (one.kind.clone(), one.id.clone())).collect();
        if self.by_holder.get(&holder).map_or(&[][..], Vec::as_slice) == things {
            return;
        }
        for thing in &things {
            *self.holders.entry(thing.clone()).or_default() += 1;
        }
        let old = if things.is_empty() {
            self.by_holder.remove(&holder)
        } else {
            self.by_holder.insert(holder, things)
        };
        for thing in old.unwrap_or_default() {
            if let Some(count) = self.holders.get_mut(&thing) {
                *count -= 1;
                if *count == 0 {
                    self.holders.remove(&thing);
                }
            }
        }
    }
}

fn of_allocation(name: &str) -> String {
    format!("allocation {name}")
}

fn of_machine(name: &str) -> String {
    format!("machine {name}")
}

impl Inner {
    fn unlink(&mut self, name: &str) -> Option<Known> {
        let known = self.allocations.remove(name)?;
        if let Some(since) = known.waits {
            drop_from(&mut self.waiting, &known.class, &(since, name.to_owned()));
        }
        drop_from(&mut self.by_machine, &known.machine, &name.to_owned());
        Some(known)
    }
}

fn drop_from<T: Ord>(map: &mut HashMap<String, BTreeSet<T>>, key: &str, value: &T) {
    if let Some(set) = map.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

impl CapacityIndex {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a class as the watch told it; says whether the class itself must be looked at.
    pub fn class_told(&self, class: Arc<MachineClass>) -> Seen {
        let sweep = class.annotations().get(SWEEP_ANNOTATION).cloned();
        let told = Told { sweep, ..Told::of(&*class) };
        let old = self.lock().told_classes.insert(class.name_any(), told.clone());
        self.class_seen(class);
        Told::seen(old, &told)
    }

    /// Takes in a class as it was read or written.
    pub fn class_seen(&self, class: Arc<MachineClass>) {
        let name = class.name_any();
        let mut inner = self.lock();
        if inner.classes.get(&name).is_some_and(|old| older(&*class, &**old)) {
            return;
        }
        inner.classes.insert(name, class);
    }

    /// Forgets a class.
    pub fn class_gone(&self, name: &str) -> Option<Arc<MachineClass>> {
        let mut inner = self.lock();
        inner.told_classes.remove(name);
        inner.classes.remove(name)
    }

    /// A class, as last told.
    pub fn class(&self, name: &str) -> Option<Arc<MachineClass>> {
        self.lock().classes.get(name).cloned()
    }

    /// Names of the classes for which `which` holds. Walks all classes, of which there are few.
    pub fn classes(&self, which: impl Fn(&MachineClass) -> bool) -> Vec<String> {
        let inner = self.lock();
        inner.classes.values().filter(|class| which(class)).map(|class| class.name_any()).collect()
    }

    /// Takes in an allocation as the watch told it; says whether it must be looked at.
    pub fn allocation_told(&self, allocation: &MachineAllocation) -> Seen {
        let told = Told::of(allocation);
        let old = self.lock().told_allocations.insert(allocation.name_any(), told.clone());
        self.allocation_seen(allocation);
        Told::seen(old, &told)
    }

    /// Takes in an allocation as it was read or written.
    pub fn allocation_seen(&self, allocation: &MachineAllocation) {
        let name = allocation.name_any();
        let known = Known {
            class: allocation.spec.class_ref.name.clone(),
            machine: machine_name(allocation),
            waits: waits_for_offering(allocation),
        };
        let mut inner = self.lock();
        inner.unlink(&name);
        if let Some(since) = known.waits {
            inner.waiting.entry(known.class.clone()).or_default().insert((since, name.clone()));
        }
        inner.by_machine.entry(known.machine.clone()).or_default().insert(name.clone());
        let owned = allocation.status.as_ref().map_or(&[][..], |status| &status.owned_resources);
        inner.owned.set(of_allocation(&name), owned);
        inner.allocations.insert(name, known);
    }

    /// Forgets an allocation.
    pub fn allocation_gone(&self, name: &str) {
        let mut inner = self.lock();
        inner.told_allocations.remove(name);
        inner.owned.set(of_allocation(name), &[]);
        inner.unlink(name);
    }

    /// Whether an allocation or a machine has a resource on record, by kind and id.
    pub fn owns(&self, thing: &(String, String)) -> bool {
        self.lock().owned.holders.contains_key(thing)
    }

    /// A class is to be swept at its next step: one of its orphans is on record now.
    pub(crate) fn want_sweep(&self, class: &str) {
        self.lock().to_sweep.insert(class.to_owned());
    }

    /// Whether a class is to be swept; asked once.
    pub(crate) fn sweep_wanted(&self, class: &str) -> bool {
        self.lock().to_sweep.remove(class)
    }

    /// Allocations of a class that have no offering yet; the oldest first.
    pub fn waiting_for(&self, class: &str) -> Vec<String> {
        let inner = self.lock();
        inner.waiting.get(class).into_iter().flatten().map(|(_, name)| name.clone()).collect()
    }

    /// Whether an allocation has an offering, or goes.
    pub fn has_begun(&self, allocation: &str) -> bool {
        self.lock().allocations.get(allocation).is_some_and(|known| known.waits.is_none())
    }

    /// Allocations that name a machine as theirs.
    pub fn of_machine(&self, machine: &str) -> Vec<String> {
        self.lock().by_machine.get(machine).into_iter().flatten().cloned().collect()
    }

    /// Takes in a machine that names a class or belongs to an allocation, as the watch told it; says whether it must be
    /// looked at. Others are none of ours.
    pub fn machine_told(&self, machine: &Machine) -> Seen {
        let ours =
            machine.spec.class_ref.is_some() || machine.annotations().contains_key(ALLOCATION_UID_ANNOTATION);
        let site = machine.labels().get(SITE_LABEL).cloned();
        let (name, told) = (machine.name_any(), Told { site, ..Told::of(machine) });
        self.machine_seen(machine);
        let mut inner = self.lock();
        if !ours {
            inner.machines.remove(&name);
            return Seen::Quiet;
        }
        Told::seen(inner.machines.insert(name, told.clone()), &told)
    }

    /// Takes in what a machine owns, as it was read.
    pub fn machine_seen(&self, machine: &Machine) {
        let owned = machine.status.as_ref().map_or(&[][..], |status| &status.owned_resources);
        self.lock().owned.set(of_machine(&machine.name_any()), owned);
    }

    /// Forgets a machine; says whether it was one of ours.
    pub fn machine_gone(&self, name: &str) -> bool {
        let mut inner = self.lock();
        inner.owned.set(of_machine(name), &[]);
        inner.machines.remove(name).is_some()
    }

    /// Forgets classes that are not in a new listing.
    pub fn keep_only_classes(&self, names: &BTreeSet<String>) {
        let mut inner = self.lock();
        inner.classes.retain(|name, _| names.contains(name));
        inner.told_classes.retain(|name, _| names.contains(name));
    }

    /// The same for allocations.
    pub fn keep_only_allocations(&self, names: &BTreeSet<String>) {
        let mut inner = self.lock();
        let gone: Vec<String> =
            inner.allocations.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in gone {
            inner.told_allocations.remove(&name);
            inner.owned.set(of_allocation(&name), &[]);
            inner.unlink(&name);
        }
    }

    /// The same for machines. Returns those that are gone.
    pub fn keep_only_machines(&self, names: &BTreeSet<String>) -> Vec<String> {
        let mut inner = self.lock();
        let holders = inner.owned.by_holder.keys();
        let stale = holders.filter(|h| h.strip_prefix("machine ").is_some_and(|name| !names.contains(name)));
        for holder in stale.cloned().collect::<Vec<_>>() {
            inner.owned.set(holder, &[]);
        }
        let gone: Vec<String> =
            inner.machines.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in &gone {
            inner.machines.remove(name);
        }
        gone
    }
}

/// Whether `a` is an older version of the very object `b`.
fn older(a: &impl kube::Resource, b: &impl kube::Resource) -> bool {
    let version = |version: &Option<String>| version.as_deref()?.parse::<u64>().ok();
    let (a, b) = (a.meta(), b.meta());
    let versions = (version(&a.resource_version), version(&b.resource_version));
    a.uid == b.uid && matches!(versions, (Some(a), Some(b)) if a < b)
}

/// Name of the machine that an allocation becomes, which is also the host's.
pub(crate) fn machine_name(allocation: &MachineAllocation) -> String {
    allocation.spec.machine_name.clone().unwrap_or_else(|| allocation.name_any())
}

/// How old an allocation is that waits for an offering.
fn waits_for_offering(allocation: &MachineAllocation) -> Option<Timestamp> {
    let pending = allocation.status.as_ref().is_none_or(|status| status.phase == AllocationPhase::Pending);
    let wanted = pending
        && allocation.metadata.deletion_timestamp.is_none()
        && allocation.spec.release_orphan.is_none();
    wanted.then(|| allocation.creation_timestamp().map_or(Timestamp::MIN, |at| at.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_api::{ClassReference, MachineAllocationSpec, MachineAllocationStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn allocation(name: &str, class: &str, created: i64) -> MachineAllocation {
        let spec = MachineAllocationSpec {
            class_ref: ClassReference { name: class.into() },
            ..MachineAllocationSpec::default()
        };
        let mut allocation = MachineAllocation::new(name, spec);
        allocation.metadata.uid = Some(format!("uid-of-{name}"));
        allocation.metadata.creation_timestamp = Some(Time(Timestamp::from_second(created).unwrap()));
        allocation
    }

    #[test]
    fn allocations_that_wait_for_a_class_are_told_the_oldest_first() {
        let index = CapacityIndex::default();
        for (name, class, created) in [("b", "c", 2), ("a", "c", 3), ("z", "c", 1), ("other", "d", 0)] {
            assert_eq!(index.allocation_told(&allocation(name, class, created)), Seen::New);
        }
        assert_eq!(index.waiting_for("c"), ["z", "b", "a"]);
        let mut launched = allocation("b", "c", 2);
        launched.status = Some(MachineAllocationStatus {
            phase: AllocationPhase::Allocating,
            ..MachineAllocationStatus::default()
        });
        assert_eq!(index.allocation_told(&launched), Seen::Quiet);
        assert_eq!(index.waiting_for("c"), ["z", "a"]);
        index.allocation_gone("z");
        index.keep_only_allocations(&["b".to_owned(), "other".to_owned()].into());
        assert_eq!(index.waiting_for("c"), [""; 0]);
        assert_eq!(index.of_machine("b"), ["b"]);
        assert!(index.of_machine("a").is_empty());
    }
}
