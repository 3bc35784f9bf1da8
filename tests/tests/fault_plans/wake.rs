//! Who is looked at when an object changes: what the watches of a running daemon would do.

use std::collections::BTreeSet;

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

/// Whom a change wakes.
pub fn woken(change: &Change) -> BTreeSet<Key> {
    let (name, told) = (change.name.clone(), change.told);
    let mut keys = BTreeSet::new();
    match change.kind.as_str() {
        OPERATIONS => {
            keys.extend(change.allocation.clone().map(Key::Allocation));
            keys.extend(told.then_some(Key::Operation(name)));
        }
        CLASSES => keys.extend(told.then_some(Key::Class(name))),
        ALLOCATIONS | MACHINES if told => {
            keys.extend([Key::Allocation(name.clone()), Key::Machine(name)]);
        }
        _ => {}
    }
    keys
}
