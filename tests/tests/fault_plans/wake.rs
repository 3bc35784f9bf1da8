//! Who is looked at when an object changes: what the watches of a running daemon would do.

use std::collections::BTreeSet;

use kube::ResourceExt as _;

use crate::disk::{ALLOCATIONS, CLASSES, Change, MACHINES, OPERATIONS};
use crate::world::World;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Operation(String),
    Class(String),
    Allocation(String),
    Machine(String),
}

/// Everybody, but for classes, who keep their own time.
pub fn all(world: &World) -> Vec<Key> {
    let objects = world.disk.objects();
    let machines = objects.machines.into_keys().map(Key::Machine);
    let allocations = objects.allocations.into_keys().map(Key::Allocation);
    machines.chain(allocations).chain(objects.operations.into_keys().map(Key::Operation)).collect()
}

/// Everybody on whom something can be left to do.
pub fn awake(world: &World) -> Vec<Key> {
    let objects = world.disk.objects();
    let rests = |key: &Key| match key {
        Key::Operation(name) => objects.operations.get(name).is_none_or(|operation| {
            let phase = operation.status.as_ref().map(|status| status.phase).unwrap_or_default();
            phase.is_terminal() && operation.finalizers().is_empty()
        }),
        _ => false,
    };
    all(world).into_iter().filter(|key| !rests(key)).collect()
}

/// Whom a change wakes.
pub fn woken(world: &World, change: &Change) -> BTreeSet<Key> {
    let (name, told) = (change.name.clone(), change.told);
    let mut keys = BTreeSet::new();
    match change.kind.as_str() {
        OPERATIONS => {
            keys.extend(change.allocation.clone().map(Key::Allocation));
            keys.extend(told.then_some(Key::Operation(name)));
        }
        CLASSES => {
            keys.extend(told.then_some(Key::Class(name)));
            // Whoever waits for what a class offers.
            let allocations = world.disk.objects().allocations.into_iter();
            let waiting =
                allocations.filter(|(_, it)| it.status.as_ref().is_some_and(|it| it.waiting.is_some()));
            keys.extend(waiting.map(|(name, _)| Key::Allocation(name)));
        }
        ALLOCATIONS | MACHINES if told => {
            keys.extend([Key::Allocation(name.clone()), Key::Machine(name)]);
        }
        _ => {}
    }
    keys
}
