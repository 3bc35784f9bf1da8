//! The controllers together: lease, watches, workers, and an orderly end.
//!
//! Watches fill the indexes and say whom to look at; workers take names off the queue, one per machine at a time, and
//! put them back for when they are due. Nothing is written and nobody is called while nothing happens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use holdfast_api::{MachineOperation, ProviderCredential};
use holdfast_effects::Effects;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::backoff;
use crate::clock::{Clock, add};
use crate::credentials::Credentials;
use crate::events::{EventWriter, Events};
use crate::index::{CredentialIndex, OperationIndex, Seen};
use crate::lease::{LeaseFence, LeaseSettings, Leaser};
use crate::metrics::Metrics;
use crate::operations::{Next, Operations, OperationsDeps, Scope, Settings, StepError};
use crate::providers::Publisher;
use crate::queue::{Claim, Queue};
use crate::rooms::{CredentialOverlay, Modules, Vault};

/// What the controllers work with.
pub struct Deps {
    /// The API, embedded or a cluster's.
    pub client: Client,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The loaded modules.
    pub modules: Arc<dyn Modules>,
    /// Sessions of callbacks.
    pub effects: Effects,
    /// Where secrets go.
    pub vault: Arc<dyn Vault>,
    /// Secrets of the configuration.
    pub overlay: Arc<dyn CredentialOverlay>,
    /// The lease to hold while acting.
    pub lease: LeaseSettings,
    /// Intervals and limits.
    pub settings: Settings,
    /// Which machines are served.
    pub scope: Scope,
    /// Operations that are driven at a time.
    pub workers: usize,
    /// How long callbacks in flight may take to end when the daemon stops.
    pub drain: Duration,
}

/// The controllers of one daemon.
pub struct Controllers {
    client: Client,
    clock: Arc<dyn Clock>,
    modules: Arc<dyn Modules>,
    effects: Effects,
    operations: Arc<Operations>,
    index: Arc<OperationIndex>,
    credentials: Arc<CredentialIndex>,
    queue: Arc<Queue>,
    fence: Arc<LeaseFence>,
    leaser: Leaser,
    writer: EventWriter,
    publisher: Publisher,
    workers: usize,
    drain: Duration,
}

impl Controllers {
    /// Controllers that don't run yet. Their counters are shown by `registry`.
    pub fn new(deps: Deps, registry: &mut Registry) -> Self {
        let index = Arc::new(OperationIndex::default());
        let credentials = Arc::new(CredentialIndex::default());
        let leaser = Leaser::new(deps.client.clone(), deps.clock.clone(), deps.lease);
        let fence = leaser.fence();
        let (events, writer) = Events::new(deps.client.clone());
        let lent =
            Credentials::new(deps.client.clone(), credentials.clone(), deps.overlay, deps.vault.clone());
        let operations = Operations::new(OperationsDeps {
            client: deps.client.clone(),
            clock: deps.clock.clone(),
            modules: deps.modules.clone(),
            effects: deps.effects.clone(),
            vault: deps.vault,
            fence: fence.clone(),
            credentials: lent,
            events,
            metrics: Metrics::registered(registry),
            index: index.clone(),
            settings: deps.settings,
            scope: deps.scope,
        });
        Self {
            publisher: Publisher::new(deps.client.clone()),
            client: deps.client,
            clock: deps.clock,
            modules: deps.modules,
            effects: deps.effects,
            operations: Arc::new(operations),
            index,
            credentials,
            queue: Arc::default(),
            fence,
            leaser,
            writer,
            workers: deps.workers.max(1),
            drain: deps.drain,
        }
    }

    /// Takes the lease, if it is free. [`Controllers::run`] does it by itself.
    ///
    /// # Errors
    /// When the API doesn't answer.
    pub async fn take_lease(&mut self) -> Result<bool, kube::Error> {
        self.leaser.turn().await
    }

    /// Reads what the watches would tell, once. [`Controllers::run`] does it by itself.
    ///
    /// # Errors
    /// When the API doesn't answer.
    pub async fn refresh(&self) -> Result<(), kube::Error> {
        let (operations, credentials) = (Api::all(self.client.clone()), Api::all(self.client.clone()));
        let operations = operations.list(&ListParams::default()).await?.items;
        self.index.keep_only(&operations.iter().map(MachineOperation::name_any).collect());
        operations.into_iter().for_each(|operation| {
            self.index.seen(Arc::new(operation));
        });
        let credentials = credentials.list(&ListParams::default()).await?.items;
        self.credentials.keep_only(&credentials.iter().map(ProviderCredential::name_any).collect());
        credentials.into_iter().for_each(|credential| self.credentials.seen(Arc::new(credential)));
        Ok(())
    }

    /// Takes one step with one operation, as a worker does: for embedding and for tests.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn reconcile(&self, operation: &str) -> Result<Next, StepError> {
        self.operations.reconcile(operation).await
    }

    /// Makes the `Provider` objects say what the modules say.
    ///
    /// # Errors
    /// When the API doesn't answer.
    pub async fn publish_providers(&self) -> Result<(), kube::Error> {
        self.publisher.publish(self.modules.reports(), self.clock.now()).await
    }

    /// Writes the events that wait.
    pub async fn flush_events(&mut self) {
        self.writer.flush().await;
    }

    /// Runs until `shutdown` becomes true or its sender is gone: waits for the lease, acts, and on the way out lets
    /// callbacks in flight end, gives the lease back and writes the last events. A lost lease stops all sends at once
    /// and everything is taken up again when the lease is back.
    pub async fn run(self, shutdown: watch::Receiver<bool>) {
        let Self { client, clock, modules, effects, operations, index, credentials, queue, .. } = self;
        let (stop_writer, writer_stopped) = watch::channel(false);
        let writer = tokio::spawn(self.writer.run(writer_stopped));
        let loops = Loops { clock, operations, index, credentials, queue, modules, workers: self.workers };
        let stop_watching = watch::Sender::new(false);
        let mut background = JoinSet::new();
        let mut leaser = self.leaser;
        if acquire(&mut leaser, &*loops.clock, shutdown.clone()).await {
            let keeper = tokio::spawn(leaser.keep(stop_watching.subscribe()));
            // Nothing is decided before the indexes are whole: the order of operations and the credentials rest on them.
            let listed = [watch::Sender::new(false), watch::Sender::new(false)];
            let mut whole = listed.each_ref().map(watch::Sender::subscribe);
            let [operations_listed, credentials_listed] = listed;
            background.spawn(loops.clone().watch_operations(Api::all(client.clone()), operations_listed));
            background.spawn(loops.clone().watch_credentials(Api::all(client.clone()), credentials_listed));
            background.spawn(loops.clone().follow_modules(self.publisher));
            let mut stop = shutdown.clone();
            tokio::select! {
                () = crate::told(&mut stop) => {}
                () = async { for listed in &mut whole { crate::told(listed).await } } => {
                    loops.work(shutdown, self.drain).await;
                }
            }
            background.shutdown().await;
            if tokio::time::timeout(self.drain, effects.drain()).await.is_err() {
                tracing::warn!("exchanges were still under way at the end; the journal holds their intents");
            }
            stop_watching.send_replace(true);
            let _ = keeper.await;
        }
        drop(self.fence);
        stop_writer.send_replace(true);
        let _ = writer.await;
    }
}

/// Takes the lease as soon as it is free; false when the daemon stops before that.
async fn acquire(leaser: &mut Leaser, clock: &dyn Clock, mut shutdown: watch::Receiver<bool>) -> bool {
    loop {
        match leaser.turn().await {
            Ok(true) => return true,
            Ok(false) => tracing::debug!("another daemon holds the lease"),
            Err(error) => tracing::warn!(%error, "the lease could not be read"),
        }
        let again = add(clock.now(), Duration::from_secs(2));
        tokio::select! {
            () = crate::told(&mut shutdown) => return false,
            () = clock.sleep_until(again) => {}
        }
    }
}

/// The loops that run while the lease is held.
#[derive(Clone)]
struct Loops {
    clock: Arc<dyn Clock>,
    operations: Arc<Operations>,
    index: Arc<OperationIndex>,
    credentials: Arc<CredentialIndex>,
    queue: Arc<Queue>,
    modules: Arc<dyn Modules>,
    workers: usize,
}

impl Loops {
    /// Takes work until told to stop, then waits for what is under way.
    async fn work(&self, mut shutdown: watch::Receiver<bool>, drain: Duration) {
        let room = Arc::new(Semaphore::new(self.workers));
        let mut running = JoinSet::new();
        loop {
            let index = self.index.clone();
            let group_of = move |name: &str| index.group(name);
            let permit = tokio::select! {
                () = crate::told(&mut shutdown) => break,
                permit = room.clone().acquire_owned() => permit,
            };
            let claim = tokio::select! {
                () = crate::told(&mut shutdown) => break,
                claim = self.queue.next(&*self.clock, &group_of) => claim,
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

    async fn step(&self, claim: Claim) {
        // Gives the machine free on every way out of here, a panic included.
        let mut turn = Turn { loops: self, claim, next: Next::After(backoff::LONGEST) };
        turn.next = match self.operations.reconcile(&turn.claim.key).await {
            Ok(next) => {
                self.operations.step_taken(&turn.claim.key);
                next
            }
            Err(error) => {
                tracing::warn!(operation = %turn.claim.key, %error, "the step was not taken");
                let failures = self.operations.failed_step(&turn.claim.key);
                Next::After(backoff::after(failures, &turn.claim.key))
            }
        };
    }

    fn wake(&self, name: impl Into<String>) {
        self.queue.push(name, self.clock.now());
    }

    /// Whoever waits behind an operation that has ended is looked at.
    fn wake_machine(&self, operation: &MachineOperation) {
        let Some(machine) = &operation.spec.machine_ref else { return };
        for waiting in self.index.open_on(&machine.name) {
            self.wake(waiting.name_any());
        }
    }

    async fn watch_operations(self, api: Api<MachineOperation>, whole: watch::Sender<bool>) {
        let mut listed = BTreeSet::new();
        let mut events = quiet_errors(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(operation) => {
                    listed.insert(operation.name_any());
                    let (name, idle) = (operation.name_any(), idle(&operation));
                    self.index.watched(Arc::new(operation));
                    if !idle {
                        self.wake(name);
                    }
                }
                Event::InitDone => {
                    self.index.keep_only(&std::mem::take(&mut listed));
                    whole.send_replace(true);
                }
                Event::Apply(operation) => {
                    let operation = Arc::new(operation);
                    let ended = crate::index::phase(&operation).is_terminal();
                    match self.index.watched(operation.clone()) {
                        // Only status, and written by ourselves for the most part.
                        Seen::Quiet => {}
                        Seen::New | Seen::Changed => self.wake(operation.name_any()),
                    }
                    if ended {
                        self.wake_machine(&operation);
                    }
                }
                Event::Delete(operation) => {
                    self.index.gone(&operation.name_any());
                    self.wake_machine(&operation);
                    self.wake(operation.name_any());
                }
            }
        }
    }

    async fn watch_credentials(self, api: Api<ProviderCredential>, whole: watch::Sender<bool>) {
        let mut listed = BTreeSet::new();
        let mut events = quiet_errors(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(credential) => {
                    listed.insert(credential.name_any());
                    self.credentials.seen(Arc::new(credential));
                    continue;
                }
                Event::InitDone => {
                    self.credentials.keep_only(&std::mem::take(&mut listed));
                    whole.send_replace(true);
                }
                Event::Apply(credential) => self.credentials.seen(Arc::new(credential)),
                Event::Delete(credential) => self.credentials.gone(&credential.name_any()),
            }
            self.wake_waiting("ProviderAuthUnavailable");
        }
    }

    /// Writes `Provider` objects and wakes who waited for a module, whenever the modules change.
    async fn follow_modules(self, publisher: Publisher) {
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
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn wake_waiting(&self, reason: &str) {
        let waits = |operation: &MachineOperation| {
            let waiting = operation.status.as_ref().and_then(|status| status.waiting.as_ref());
            waiting.is_some_and(|waiting| waiting.reason == reason)
        };
        for name in self.index.waiting(waits) {
            self.wake(name);
        }
    }
}

/// One key in work. When it is dropped, the key is queued again for when it is due, and its group is free.
struct Turn<'a> {
    loops: &'a Loops,
    claim: Claim,
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

/// An operation on which nothing can be left to do: a start with many of them costs one listing.
fn idle(operation: &MachineOperation) -> bool {
    crate::index::phase(operation).is_terminal()
        && operation.spec.ttl_seconds_after_finished.is_none()
        && operation.finalizers().is_empty()
}

/// A watch that goes on after errors, with growing pauses.
fn quiet_errors<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
) -> std::pin::Pin<Box<dyn Stream<Item = Event<K>> + Send>>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    use kube::runtime::WatchStreamExt as _;
    let events = events.default_backoff().filter_map(|event| async move {
        event.inspect_err(|error| tracing::debug!(%error, "a watch was interrupted")).ok()
    });
    Box::pin(events)
}
