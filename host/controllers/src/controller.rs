//! The controllers together: lease, watches, workers, and an orderly end.
//!
//! Watches fill the indexes and say whom to look at; workers take names off the queue, one per machine at a time, and
//! put them back for when they are due. Nothing is written and nobody is called while nothing happens.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{Machine, MachineAllocation, MachineClass, MachineOperation, ProviderCredential};
use holdfast_effects::Effects;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::allocations::Allocations;
use crate::capacity::CapacityDeps;
use crate::capacity_index::CapacityIndex;
use crate::classes::Classes;
use crate::clock::{Clock, add};
use crate::counts::Counts;
use crate::credentials::Credentials;
use crate::events::{EventWriter, Events};
use crate::index::{CredentialIndex, OperationIndex};
use crate::lease::{LeaseFence, LeaseSettings, Leaser};
use crate::loops::Loops;
use crate::metrics::Metrics;
use crate::operations::{Next, Operations, OperationsDeps, Scope, Settings, StepError};
use crate::providers::Publisher;
use crate::queue::{Key, Queue};
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
    /// Operations, classes and allocations that are driven at a time.
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
    classes: Arc<Classes>,
    allocations: Arc<Allocations>,
    index: Arc<OperationIndex>,
    capacity: Arc<CapacityIndex>,
    credentials: Arc<CredentialIndex>,
    queue: Arc<Queue<Key>>,
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
        let (metrics, queue) = (Metrics::registered(registry), Arc::new(Queue::default()));
        let capacity = Arc::new(CapacityIndex::default());
        let shared = Arc::new(CapacityDeps {
            client: deps.client.clone(),
            clock: deps.clock.clone(),
            modules: deps.modules.clone(),
            effects: deps.effects.clone(),
            fence: fence.clone(),
            credentials: lent.clone(),
            credential_index: credentials.clone(),
            events: events.clone(),
            metrics: metrics.clone(),
            operations: index.clone(),
            index: capacity.clone(),
            queue: queue.clone(),
            settings: deps.settings.clone(),
            scope: deps.scope.clone(),
            counts: Counts::default(),
        });
        let operations = Operations::new(OperationsDeps {
            client: deps.client.clone(),
            clock: deps.clock.clone(),
            modules: deps.modules.clone(),
            effects: deps.effects.clone(),
            vault: deps.vault,
            fence: fence.clone(),
            credentials: lent,
            events,
            metrics,
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
            classes: Arc::new(Classes::new(shared.clone())),
            allocations: Arc::new(Allocations::new(shared)),
            index,
            capacity,
            credentials,
            queue,
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
        self.refresh_capacity().await
    }

    async fn refresh_capacity(&self) -> Result<(), kube::Error> {
        let (list, client) = (ListParams::default(), &self.client);
        let classes = Api::<MachineClass>::all(client.clone()).list(&list).await?.items;
        self.capacity.keep_only_classes(&classes.iter().map(MachineClass::name_any).collect());
        classes.into_iter().for_each(|class| self.capacity.class_seen(Arc::new(class)));
        let allocations = Api::<MachineAllocation>::all(client.clone()).list(&list).await?.items;
        self.capacity.keep_only_allocations(&allocations.iter().map(MachineAllocation::name_any).collect());
        allocations.iter().for_each(|allocation| self.capacity.allocation_seen(allocation));
        let machines = Api::<Machine>::all(client.clone()).list(&list).await?.items;
        machines.iter().for_each(|machine| self.capacity.machine_seen(machine));
        Ok(())
    }

    /// Takes one step with one operation, as a worker does: for embedding and for tests.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn reconcile(&self, operation: &str) -> Result<Next, StepError> {
        self.operations.reconcile(operation).await
    }

    /// Takes one step with one class, as a worker does.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn reconcile_class(&self, class: &str) -> Result<Next, StepError> {
        self.classes.reconcile(class).await
    }

    /// Takes one step with one allocation, as a worker does.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn reconcile_allocation(&self, allocation: &str) -> Result<Next, StepError> {
        self.allocations.reconcile(allocation).await
    }

    /// Takes one step with one machine that names a class or belongs to an allocation, as a worker does.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn reconcile_machine(&self, machine: &str) -> Result<Next, StepError> {
        self.allocations.reconcile_machine(machine).await
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
        let (client, effects) = (self.client, self.effects);
        let (stop_writer, writer_stopped) = watch::channel(false);
        let writer = tokio::spawn(self.writer.run(writer_stopped));
        let loops = Loops {
            clock: self.clock,
            operations: self.operations,
            classes: self.classes,
            allocations: self.allocations,
            index: self.index,
            capacity: self.capacity,
            credentials: self.credentials,
            queue: self.queue,
            modules: self.modules,
            workers: self.workers,
            failures: Arc::default(),
        };
        let stop_watching = watch::Sender::new(false);
        let mut background = JoinSet::new();
        let mut leaser = self.leaser;
        if acquire(&mut leaser, &*loops.clock, shutdown.clone()).await {
            let keeper = tokio::spawn(leaser.keep(stop_watching.subscribe()));
            // Nothing is decided before the indexes are whole: the order of operations and the credentials rest on them.
            let listed: [watch::Sender<bool>; 5] = Default::default();
            let mut whole = listed.each_ref().map(watch::Sender::subscribe);
            let [operations, credentials, classes, allocations, machines] = listed;
            background.spawn(loops.clone().watch_operations(Api::all(client.clone()), operations));
            background.spawn(loops.clone().watch_credentials(Api::all(client.clone()), credentials));
            background.spawn(loops.clone().watch_classes(Api::all(client.clone()), classes));
            background.spawn(loops.clone().watch_allocations(Api::all(client.clone()), allocations));
            background.spawn(loops.clone().watch_machines(Api::all(client.clone()), machines));
            background.spawn(loops.clone().watch_secrets(client.clone()));
            background.spawn(loops.clone().watch_config_maps(client.clone()));
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
