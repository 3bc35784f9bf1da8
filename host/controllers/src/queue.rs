//! The work queue of all controllers: keys with the time at which they are due, one key of a group at a time.
//!
//! A group is a machine: what happens to it happens in one place at a time. A key that is pushed while it is queued
//! keeps the earlier time; one that is pushed while it runs is run again. What has begun goes before what is new.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
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

/// How much earlier than other work that is due at the same time what has begun is taken. Hosts then come one after
/// another and not all at the end, and what is new still has its turn after waiting for this long.
const AHEAD: SignedDuration = SignedDuration::from_mins(5);

/// What the queue asks about its keys.
pub trait Order<K>: Sync {
    /// What may not be worked on twice at a time.
    fn group(&self, key: &K) -> String;

    /// Whether it goes on with something that has begun.
    fn has_begun(&self, key: &K) -> bool;
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
    /// By the time at which they are due.
    later: BTreeMap<Place, K>,
    /// Due, by that time or one that is [`AHEAD`] of it.
    ready: BTreeMap<Place, K>,
    /// Where each key is in `later`; none if in `ready`.
    by_key: HashMap<K, Option<Place>>,
    running: HashSet<String>,
    /// Keys that came up while their group was running.
    parked: HashMap<String, Vec<K>>,
    sequence: u64,
}

type Place = (Timestamp, u64);

impl<K> Default for Inner<K> {
    fn default() -> Self {
        Self {
            later: BTreeMap::new(),
            ready: BTreeMap::new(),
            by_key: HashMap::new(),
            running: HashSet::new(),
            parked: HashMap::new(),
            sequence: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn push(&mut self, key: K, at: Timestamp) {
        match self.by_key.get(&key) {
            Some(None) => return,
            Some(Some(old)) if old.0 <= at => return,
            Some(Some(old)) => drop(self.later.remove(old)),
            None => {}
        }
        self.sequence += 1;
        let place = (at, self.sequence);
        self.by_key.insert(key.clone(), Some(place));
        self.later.insert(place, key);
    }

    /// What has come due is ready from now on.
    fn ripen(&mut self, now: Timestamp, order: &dyn Order<K>) {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let ((at, sequence), key) = first.remove_entry();
            let ahead = if order.has_begun(&key) { AHEAD } else { SignedDuration::ZERO };
            let rank = at.checked_sub(ahead).unwrap_or(Timestamp::MIN);
            self.by_key.insert(key.clone(), None);
            self.ready.insert((rank, sequence), key);
        }
    }

    /// The next key that is due, or when there will be one.
    fn pop(&mut self, now: Timestamp, order: &dyn Order<K>) -> Result<Claim<K>, Option<Timestamp>> {
        self.ripen(now, order);
        while let Some((_, key)) = self.ready.pop_first() {
            self.by_key.remove(&key);
            let group = order.group(&key);
            if self.running.insert(group.clone()) {
                return Ok(Claim { key, group });
            }
            self.parked.entry(group).or_default().push(key);
        }
        Err(self.later.first_key_value().map(|((at, _), _)| *at))
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
    pub async fn next(&self, clock: &dyn Clock, order: &dyn Order<K>) -> Claim<K> {
        loop {
            let wait = match self.lock().pop(clock.now(), order) {
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

    /// The first letter is the group, and capitals have begun.
    struct Letters;

    impl Order<&'static str> for Letters {
        fn group(&self, key: &&'static str) -> String {
            key[..1].to_owned()
        }

        fn has_begun(&self, key: &&'static str) -> bool {
            key.starts_with(char::is_uppercase)
        }
    }

    #[test]
    fn a_key_keeps_the_earlier_time_and_is_queued_once() {
        let mut inner: Inner<&str> = Inner::default();
        inner.push("a1", at(9));
        inner.push("a1", at(5));
        inner.push("a1", at(7));
        assert_eq!(inner.pop(at(4), &Letters), Err(Some(at(5))));
        assert_eq!(inner.pop(at(5), &Letters).unwrap().key, "a1");
        assert_eq!(inner.pop(at(99), &Letters), Err(None));
    }

    /// R2.18: one operation at a time per machine.
    #[test]
    fn keys_of_a_group_run_one_at_a_time_and_others_pass_them() {
        let queue: Queue<&str> = Queue::default();
        for key in ["a1", "a2", "b1"] {
            queue.push(key, at(1));
        }
        let first = queue.lock().pop(at(1), &Letters).unwrap();
        let second = queue.lock().pop(at(1), &Letters).unwrap();
        assert_eq!((first.key, second.key), ("a1", "b1"));
        assert_eq!(queue.lock().pop(at(1), &Letters), Err(None));
        queue.push("a1", at(1));
        queue.done(&first, at(2));
        let mut rest = vec![queue.lock().pop(at(2), &Letters).unwrap().key];
        queue.done(&Claim { key: rest[0], group: "a".into() }, at(2));
        rest.push(queue.lock().pop(at(2), &Letters).unwrap().key);
        rest.sort();
        assert_eq!(rest, ["a1", "a2"]);
    }

    #[test]
    fn what_has_begun_goes_first_and_what_is_new_is_not_put_off_for_ever() {
        let mut inner: Inner<&str> = Inner::default();
        inner.push("a", at(10));
        inner.push("b", at(30));
        inner.push("B", at(309));
        inner.push("C", at(311));
        let order: Vec<_> = (0..4).map(|_| inner.pop(at(400), &Letters).unwrap().key).collect();
        assert_eq!(order, ["B", "a", "C", "b"]);
        assert_eq!(inner.pop(at(400), &Letters), Err(None));
    }

    #[test]
    fn what_has_begun_is_not_looked_at_before_it_is_due() {
        let mut inner: Inner<&str> = Inner::default();
        inner.push("A", at(10));
        assert_eq!(inner.pop(at(9), &Letters), Err(Some(at(10))));
        inner.push("A", at(8));
        assert_eq!(inner.pop(at(9), &Letters).unwrap().key, "A");
    }
}
