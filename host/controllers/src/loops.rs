//! The loops that run while the lease is held: workers that take keys off the queue and step with them.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::allocations::Allocations;
use crate::backoff;
use crate::capacity_index::CapacityIndex;
use crate::classes::Classes;
use crate::clock::{Clock, add};
use crate::counts::Counts;
use crate::index::{CredentialIndex, OperationIndex};
use crate::operations::{Next, Operations};
use crate::providers::Publisher;
use crate::queue::{Claim, Key, Order, Queue};
use crate::rooms::Modules;

/// The loops, with what they share.
#[derive(Clone)]
pub(crate) struct Loops {
    pub clock: Arc<dyn Clock>,
    pub operations: Arc<Operations>,
    pub classes: Arc<Classes>,
    pub allocations: Arc<Allocations>,
    pub index: Arc<OperationIndex>,
    pub capacity: Arc<CapacityIndex>,
    pub credentials: Arc<CredentialIndex>,
    pub queue: Arc<Queue<Key>>,
    pub modules: Arc<dyn Modules>,
    pub workers: usize,
    /// Steps in a row that were not taken, by key.
    pub failures: Arc<Counts>,
}

impl Loops {
    /// Takes work until told to stop, then waits for what is under way.
    pub(crate) async fn work(&self, mut shutdown: watch::Receiver<bool>, drain: Duration) {
        let room = Arc::new(Semaphore::new(self.workers));
        let mut running = JoinSet::new();
        loop {
            let permit = tokio::select! {
                () = crate::told(&mut shutdown) => break,
                permit = room.clone().acquire_owned() => permit,
            };
            let claim = tokio::select! {
                () = crate::told(&mut shutdown) => break,
                claim = self.queue.next(&*self.clock, &self) => claim,
                Some(_) = running.join_next() => continue,
            };
            let loops = self.clone();
            running.spawn(async move {
                loops.step(claim).await;
                drop(permit);
            });
        }
        let all = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(drain, all).await.is_err() {
            tracing::warn!("callbacks were cut off at the end; they are taken up at the next start");
        }
    }

    async fn step(&self, claim: Claim<Key>) {
        // Gives the group free on every way out of here, a panic included.
        let mut turn = Turn { loops: self, claim, next: Next::After(backoff::LONGEST) };
        let (key, who) = (turn.claim.key.clone(), turn.claim.key.to_string());
        let result = match &key {
            Key::Operation(name) => self.operations.reconcile(name).await,
            Key::Class(name) => self.classes.reconcile(name).await,
            Key::Allocation(name) => self.allocations.reconcile(name).await,
            Key::Machine(name) => self.allocations.reconcile_machine(name).await,
        };
        turn.next = match result {
            Ok(next) => {
                self.failures.forget(&who);
                next
            }
            Err(error) => {
                tracing::warn!(key = %who, %error, "the step was not taken");
                Next::After(backoff::after(self.failures.failed(&who), &who))
            }
        };
    }

    pub(crate) fn wake(&self, key: Key) {
        self.queue.push(key, self.clock.now());
    }

    /// Writes `Provider` objects and wakes who waited for a module, whenever the modules change.
    pub(crate) async fn follow_modules(self, publisher: Publisher) {
        let mut changes = self.modules.changes();
        loop {
            changes.mark_unchanged();
            if let Err(error) = publisher.publish(self.modules.reports(), self.clock.now()).await {
                tracing::warn!(%error, "Provider objects were not written");
                changes.mark_changed();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            for reason in ["ProviderNotRegistered", "OperationNotOffered", "ResumeTokenUnreadable"] {
                self.wake_waiting(reason);
            }
            for class in self.capacity.classes(|_| true) {
                self.allocations.wake_waiting(&class);
                self.wake(Key::Class(class));
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Wakes the operations that wait for a reason.
    pub(crate) fn wake_waiting(&self, reason: &str) {
        let waits = |operation: &holdfast_api::MachineOperation| {
            let waiting = operation.status.as_ref().and_then(|status| status.waiting.as_ref());
            waiting.is_some_and(|waiting| waiting.reason == reason)
        };
        for name in self.index.waiting(waits) {
            self.wake(Key::Operation(name));
        }
    }

    /// Whoever waits behind an operation that has ended is looked at.
    pub(crate) fn wake_machine(&self, operation: &holdfast_api::MachineOperation) {
        let Some(machine) = &operation.spec.machine_ref else { return };
        for waiting in self.index.open_on(&machine.name) {
            self.wake(Key::Operation(waiting.name_any()));
        }
    }
}

impl Order<Key> for &Loops {
    /// A machine's operations, a class, an allocation with the Machine of its name.
    fn group(&self, key: &Key) -> String {
        match key {
            Key::Operation(name) => format!("operation {}", self.index.group(name)),
            Key::Class(name) => format!("class {name}"),
            Key::Allocation(name) | Key::Machine(name) => format!("allocation {name}"),
        }
    }

    fn has_begun(&self, key: &Key) -> bool {
        match key {
            Key::Operation(_) | Key::Class(_) => true,
            Key::Allocation(name) => self.capacity.has_begun(name),
            Key::Machine(_) => false,
        }
    }
}

/// One key in work. When it is dropped, the key is queued again for when it is due, and its group is free.
struct Turn<'a> {
    loops: &'a Loops,
    claim: Claim<Key>,
    next: Next,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let now = self.loops.clock.now();
        if let Next::After(after) = self.next {
            self.loops.queue.push(self.claim.key.clone(), add(now, after));
        }
        self.loops.queue.done(&self.claim, now);
    }
}
