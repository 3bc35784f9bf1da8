//! The watches: they fill the indexes and say whom to look at. Whatever concerns nobody wakes nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use holdfast_api::{
    ALLOCATION_FINALIZER, AllocationPhase, Machine, MachineAllocation, MachineClass, MachineOperation,
    PROVIDER_LABEL, Phase, ProviderCredential, SYSTEM_NAMESPACE,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;

use crate::capacity::serves_allocation;
use crate::capacity_index::machine_name;
use crate::index::{AUTH_UNAVAILABLE, Seen, lacks_credentials, phase};
use crate::loops::Loops;
use crate::queue::Key;

impl Loops {
    pub(crate) async fn watch_operations(self, api: Api<MachineOperation>, whole: watch::Sender<bool>) {
        let mut listed = BTreeSet::new();
        let mut events = quiet_errors(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(operation) => {
                    listed.insert(operation.name_any());
                    let (name, idle) = (operation.name_any(), idle(&operation));
                    self.wake_allocation_of(&operation, None);
                    self.index.watched(Arc::new(operation));
                    if !idle {
                        self.wake(Key::Operation(name));
                    }
                }
                Event::InitDone => {
                    self.index.keep_only(&std::mem::take(&mut listed));
                    whole.send_replace(true);
                }
                Event::Apply(operation) => {
                    let operation = Arc::new(operation);
                    let ended = phase(&operation).is_terminal();
                    let name = operation.name_any();
                    let (before, lacked) = (self.index.told_phase(&name), self.index.told_lack(&name));
                    match self.index.watched(operation.clone()) {
                        // Only status, and written by ourselves for the most part.
                        Seen::Quiet => {}
                        Seen::New | Seen::Changed => self.wake(Key::Operation(operation.name_any())),
                    }
                    if ended {
                        self.wake_machine(&operation);
                    }
                    if before != Some(phase(&operation)) {
                        self.wake_allocation_of(&operation, before);
                    }
                    if !ended && lacked != lacks_credentials(&operation) {
                        self.wake_allocation(&operation);
                    }
                }
                Event::Delete(operation) => {
                    self.index.gone(&operation.name_any());
                    self.wake_machine(&operation);
                    self.wake(Key::Operation(operation.name_any()));
                    self.wake_allocation(&operation);
                }
            }
        }
    }

    /// An allocation is looked at when its operation has ended, or needs a person, or does so no longer.
    fn wake_allocation_of(&self, operation: &MachineOperation, before: Option<Phase>) {
        let held = operation.finalizers().iter().any(|one| one == ALLOCATION_FINALIZER);
        let unknown = [Some(phase(operation)), before].contains(&Some(Phase::OutcomeUnknown));
        if unknown || (phase(operation).is_terminal() && held) {
            self.wake_allocation(operation);
        }
    }

    fn wake_allocation(&self, operation: &MachineOperation) {
        if let Some(allocation) = serves_allocation(operation) {
            self.wake(Key::Allocation(allocation.to_owned()));
        }
    }

    pub(crate) async fn watch_credentials(self, api: Api<ProviderCredential>, whole: watch::Sender<bool>) {
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
                Event::Apply(credential) => {
                    self.resolve_with(&credential);
                    self.credentials.seen(Arc::new(credential));
                }
                Event::Delete(credential) => {
                    self.credentials.gone(&credential.name_any());
                    self.resolve_with(&credential);
                }
            }
            self.wake_waiting(AUTH_UNAVAILABLE);
        }
    }

    /// Secrets of credentials, by their metadata alone: whoever waits for one goes on when it is there, or when it has
    /// become what may be lent.
    pub(crate) async fn watch_secrets(self, client: Client) {
        let api: Api<PartialObjectMeta<Secret>> = Api::namespaced(client, SYSTEM_NAMESPACE);
        let labelled = watcher::Config::default().labels(PROVIDER_LABEL);
        let mut events = quiet_errors(watcher(api, labelled));
        while let Some(event) = events.next().await {
            match event {
                Event::Init | Event::InitApply(_) | Event::Delete(_) => continue,
                // What came while nobody watched.
                Event::InitDone => self.resolve_waiting(|_| true),
                Event::Apply(secret) => {
                    let takers = self.credentials.naming(&secret.name_any());
                    self.resolve_waiting(|class| takers.iter().any(|one| serves(one, class)));
                }
            }
            self.wake_waiting(AUTH_UNAVAILABLE);
        }
    }

    /// Classes that wait for credentials, or were not resolved with those that there were, are resolved at once.
    fn resolve_waiting(&self, which: impl Fn(&MachineClass) -> bool) {
        let waits = |class: &MachineClass| {
            let waiting = class.status.as_ref().and_then(|status| status.waiting.as_ref());
            let reason = waiting.map(|waiting| waiting.reason.as_str());
            matches!(reason, Some(AUTH_UNAVAILABLE | "ResolveFailed")) && which(class)
        };
        for class in self.capacity.classes(waits) {
            self.classes.ask_for(&class);
            self.wake(Key::Class(class));
        }
    }

    /// Classes whose credentials changed are resolved again.
    fn resolve_with(&self, credential: &ProviderCredential) {
        for class in self.capacity.classes(|class| serves(credential, class)) {
            self.classes.ask_for(&class);
            self.wake(Key::Class(class));
        }
    }

    /// The ConfigMaps that classes name, by their metadata alone: a class says at once that its own was made, changed or
    /// deleted (R2.28).
    pub(crate) async fn watch_config_maps(self, client: Client) {
        let api: Api<PartialObjectMeta<ConfigMap>> = Api::all(client);
        let mut events = quiet_errors(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Event::Init | Event::InitApply(_) => {}
                // What happened while nobody watched.
                Event::InitDone => self.wake_classes(|_| true),
                Event::Apply(map) | Event::Delete(map) => self.wake_classes(|class| configures(&map, class)),
            }
        }
    }

    fn wake_classes(&self, which: impl Fn(&MachineClass) -> bool) {
        for class in self.capacity.classes(which) {
            self.wake(Key::Class(class));
        }
    }

    pub(crate) async fn watch_classes(self, api: Api<MachineClass>, whole: watch::Sender<bool>) {
        let mut listed = BTreeSet::new();
        let mut events = quiet_errors(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(class) => {
                    listed.insert(class.name_any());
                    self.wake(Key::Class(class.name_any()));
                    self.capacity.class_seen(Arc::new(class));
                }
                Event::InitDone => {
                    self.capacity.keep_only_classes(&std::mem::take(&mut listed));
                    whole.send_replace(true);
                }
                Event::Apply(class) => {
                    let name = class.name_any();
                    if self.capacity.class_told(Arc::new(class)) != Seen::Quiet {
                        self.wake(Key::Class(name.clone()));
                    }
                    // A new resolution, or a new class under the name.
                    self.allocations.wake_waiting(&name);
                }
                Event::Delete(class) => {
                    self.classes.forget(&class.name_any());
                    self.allocations.wake_waiting(&class.name_any());
                }
            }
        }
    }

    pub(crate) async fn watch_allocations(self, api: Api<MachineAllocation>, whole: watch::Sender<bool>) {
        let mut listed = BTreeSet::new();
        let mut events = quiet_errors(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(allocation) => {
                    listed.insert(allocation.name_any());
                    self.capacity.allocation_told(&allocation);
                    if !settled(&allocation) {
                        self.wake(Key::Allocation(allocation.name_any()));
                    }
                }
                Event::InitDone => {
                    self.capacity.keep_only_allocations(&std::mem::take(&mut listed));
                    whole.send_replace(true);
                }
                Event::Apply(allocation) => {
                    if self.capacity.allocation_told(&allocation) != Seen::Quiet {
                        self.wake(Key::Allocation(allocation.name_any()));
                    }
                }
                Event::Delete(allocation) => {
                    self.wake(Key::Allocation(allocation.name_any()));
                    // A Machine with a class that is still there gets a new allocation; another allocation may have
                    // waited for the Machine's name.
                    let machine = machine_name(&allocation);
                    self.wake_who_wants(&machine);
                    self.wake(Key::Machine(machine));
                }
            }
        }
    }

    pub(crate) async fn watch_machines(self, api: Api<Machine>, whole: watch::Sender<bool>) {
        let mut listed = BTreeSet::new();
        let mut events = quiet_errors(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(machine) => {
                    listed.insert(machine.name_any());
                    // Only a Machine that names a class and has no allocation yet, or one that goes, needs anybody.
                    let unserved = machine.spec.class_ref.is_some()
                        && machine.status.as_ref().is_none_or(|status| status.allocation.is_none());
                    let ours = self.capacity.machine_told(&machine) != Seen::Quiet;
                    if ours && (unserved || machine.metadata.deletion_timestamp.is_some()) {
                        self.wake(Key::Machine(machine.name_any()));
                    }
                }
                Event::InitDone => {
                    for gone in self.capacity.keep_only_machines(&std::mem::take(&mut listed)) {
                        self.wake_who_wants(&gone);
                    }
                    whole.send_replace(true);
                }
                Event::Apply(machine) => {
                    if self.capacity.machine_told(&machine) != Seen::Quiet {
                        self.wake(Key::Machine(machine.name_any()));
                        // The label of its site, or its marks, may be what an allocation waited for.
                        self.wake_who_wants(&machine.name_any());
                    }
                }
                Event::Delete(machine) => {
                    self.capacity.machine_gone(&machine.name_any());
                    self.wake_who_wants(&machine.name_any());
                }
            }
        }
    }

    /// A name is free: whoever wants it as its machine's may take it, and whose machine it was must see.
    fn wake_who_wants(&self, machine: &str) {
        for allocation in self.capacity.of_machine(machine) {
            self.wake(Key::Allocation(allocation));
        }
    }
}

/// Whether a class is resolved with a credential.
fn serves(credential: &ProviderCredential, class: &MachineClass) -> bool {
    class.spec.provider == credential.spec.provider && class.spec.site_name == credential.spec.site_name
}

/// Whether a class is configured by a ConfigMap.
fn configures(map: &PartialObjectMeta<ConfigMap>, class: &MachineClass) -> bool {
    let reference = &class.spec.provider_config_ref;
    let namespace = reference.namespace.as_deref().unwrap_or(SYSTEM_NAMESPACE);
    map.name_any() == reference.name && map.namespace().as_deref() == Some(namespace)
}

/// An operation on which nothing can be left to do: a start with many of them costs one listing.
fn idle(operation: &MachineOperation) -> bool {
    phase(operation).is_terminal()
        && operation.spec.ttl_seconds_after_finished.is_none()
        && operation.finalizers().is_empty()
}

/// The same of an allocation.
fn settled(allocation: &MachineAllocation) -> bool {
    let phase = allocation.status.as_ref().map(|status| status.phase);
    matches!(phase, Some(AllocationPhase::Allocated | AllocationPhase::Failed | AllocationPhase::Released))
        && allocation.metadata.deletion_timestamp.is_none()
        && allocation.status.as_ref().is_some_and(|status| status.operation_ended && status.waiting.is_none())
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
