//! The work queue of all controllers: keys with the time at which they are due, one key of a group at a time.
//!
//! A group is a machine: what happens to it happens in one place at a time. A key that is pushed while it is queued
//! keeps the earlier time; one that is pushed while it runs is run again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::clock::Clock;

/// What there is to look at, by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A MachineOperation.
    Operation(String),
    /// A MachineClass.
    Class(String),
    /// A MachineAllocation.
    Allocation(String),
    /// A Machine that names a class or belongs to an allocation.
    Machine(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::Operation(name) => ("operation", name),
            Self::Class(name) => ("class", name),
            Self::Allocation(name) => ("allocation", name),
            Self::Machine(name) => ("machine", name),
        };
        write!(f, "{kind} {name}")
    }
}

/// A queue of keys.
#[derive(Debug)]
pub struct Queue<K> {
    inner: Mutex<Inner<K>>,
    changed: Notify,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { inner: Mutex::default(), changed: Notify::default() }
    }
}

#[derive(Debug)]
struct Inner<K> {
    by_time: BTreeMap<(Timestamp, u64), K>,
    by_key: HashMap<K, (Timestamp, u64)>,
    running: HashSet<String>,
    /// Keys that came up while their group was running.
    parked: HashMap<String, Vec<K>>,
    sequence: u64,
}

impl<K> Default for Inner<K> {
    fn default() -> Self {
        Self {
            by_time: BTreeMap::new(),
            by_key: HashMap::new(),
            running: HashSet::new(),
            parked: HashMap::new(),
            sequence: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn push(&mut self, key: K, at: Timestamp) {
        if let Some(old) = self.by_key.get(&key) {
            if old.0 <= at {
                return;
            }
            self.by_time.remove(old);
        }
        self.sequence += 1;
        let slot = (at, self.sequence);
        self.by_key.insert(key.clone(), slot);
        self.by_time.insert(slot, key);
    }

    /// The next key that is due, or when there will be one.
    fn pop(
        &mut self,
        now: Timestamp,
        group_of: &dyn Fn(&K) -> String,
    ) -> Result<Claim<K>, Option<Timestamp>> {
        loop {
            let Some((&(at, sequence), _)) = self.by_time.first_key_value() else { return Err(None) };
            if at > now {
                return Err(Some(at));
            }
            let Some(key) = self.by_time.remove(&(at, sequence)) else { return Err(None) };
            self.by_key.remove(&key);
            let group = group_of(&key);
            if self.running.insert(group.clone()) {
                return Ok(Claim { key, group });
            }
            self.parked.entry(group).or_default().push(key);
        }
    }
}

/// A key that is being worked on; give it back with [`Queue::done`].
#[derive(Debug, PartialEq, Eq)]
pub struct Claim<K> {
    /// The key.
    pub key: K,
    group: String,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a key due at a time, or earlier if it was.
    pub fn push(&self, key: impl Into<K>, at: Timestamp) {
        self.lock().push(key.into(), at);
        self.changed.notify_one();
    }

    /// Waits for a key that is due and whose group is free. One caller at a time.
    pub async fn next(&self, clock: &dyn Clock, group_of: &(dyn Fn(&K) -> String + Sync)) -> Claim<K> {
        loop {
            let wait = match self.lock().pop(clock.now(), group_of) {
                Ok(claim) => return claim,
                Err(wait) => wait,
            };
            match wait {
                None => self.changed.notified().await,
                Some(at) => tokio::select! {
                    () = clock.sleep_until(at) => {}
                    () = self.changed.notified() => {}
                },
            }
        }
    }

    /// Frees the group of a claim; what waited for it is due at once.
    pub fn done(&self, claim: &Claim<K>, now: Timestamp) {
        let mut inner = self.lock();
        inner.running.remove(&claim.group);
        for key in inner.parked.remove(&claim.group).unwrap_or_default() {
            inner.push(key, now);
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// How many keys are queued.
    pub fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn first_letter(key: &&'static str) -> String {
        key[..1].to_owned()
    }

    #[test]
    fn a_key_keeps_the_earlier_time_and_is_queued_once() {
        let mut inner: Inner<&str> = Inner::default();
        inner.push("a1", at(9));
        inner.push("a1", at(5));
        inner.push("a1", at(7));
        assert_eq!(inner.pop(at(4), &first_letter), Err(Some(at(5))));
        assert_eq!(inner.pop(at(5), &first_letter).unwrap().key, "a1");
        assert_eq!(inner.pop(at(99), &first_letter), Err(None));
    }

    /// R2.18: one operation at a time per machine.
    #[test]
    fn keys_of_a_group_run_one_at_a_time_and_others_pass_them() {
        let queue: Queue<&str> = Queue::default();
        for key in ["a1", "a2", "b1"] {
            queue.push(key, at(1));
        }
        let first = queue.lock().pop(at(1), &first_letter).unwrap();
        let second = queue.lock().pop(at(1), &first_letter).unwrap();
        assert_eq!((first.key, second.key), ("a1", "b1"));
        assert_eq!(queue.lock().pop(at(1), &first_letter), Err(None));
        queue.push("a1", at(1));
        queue.done(&first, at(2));
        let mut rest = vec![queue.lock().pop(at(2), &first_letter).unwrap().key];
        queue.done(&Claim { key: rest[0], group: "a".into() }, at(2));
        rest.push(queue.lock().pop(at(2), &first_letter).unwrap().key);
        rest.sort();
        assert_eq!(rest, ["a1", "a2"]);
    }
}
