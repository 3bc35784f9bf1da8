//! What every step begins with (2(b).1): is there a machine, does the operation belong to this controller, can its
//! provider do it, and is it its turn.

use std::sync::Arc;

use holdfast_api::{
    AllocationPhase, Machine, MachineAllocation, MachineOperation, OperationInput, SITE_LABEL,
};
use holdfast_manifest::Manifest;
use kube::{Api, ResourceExt as _};

use super::allocation::{Role, role};
use super::case::Case;
use super::journal::Record;
use super::status::target;
use super::wait::{Wait, WaitReason};
use super::{Next, Operations, Run, Step, order};
use crate::clock::until;
use crate::index::phase;
use crate::inputs;
use crate::rooms::ProviderModule;

/// Kinds with this prefix are executed by providers; others belong to other executors (R2.20).
const HOST_PREFIX: &str = "Host";

impl Operations {
    pub(super) async fn prologue(&self, record: Arc<Record>) -> Step {
        let operation = record.latest();
        // Step 3. Selectors are for other executors.
        let Some(reference) = &operation.spec.machine_ref else {
            if operation.spec.machine_selector.is_some() {
                return Ok(Next::Done);
            }
            return self.fail_unstarted(&record, "InvalidSpec", "the operation names no machine").await;
        };
        let machine = self.machines.get(&reference.name).await?;
        let input = target(&operation).and_then(|target| target.input.clone());
        match (order::started(&operation), input) {
            // Boxed: the futures of whole operations are large, and stacks are not.
            (true, Some(input)) => Box::pin(self.go_on(record, machine, input)).await,
            (true, None) => {
                self.fail_unstarted(
                    &record,
                    "TargetStateMissing",
                    "the operation runs, but has no frozen input",
                )
                .await
            }
            (false, _) if role(&operation) != Role::Machine => {
                Box::pin(self.allocation_not_started(record, &reference.name, machine)).await
            }
            (false, _) => Box::pin(self.not_started(record, &reference.name, machine)).await,
        }
    }

    /// Steps 4 to 9 for an operation that has touched nothing yet.
    async fn not_started(&self, record: Arc<Record>, name: &str, machine: Option<Machine>) -> Step {
        let operation = record.latest();
        let kind = operation.spec.operation_kind.as_str();
        // Whoever does not carry the prefix is ours only if a provider says so.
        let ours = kind.starts_with(HOST_PREFIX);
        let Some(machine) = machine else {
            if !ours {
                return Ok(Next::Done);
            }
            return self
                .fail_unstarted(&record, "MachineNotFound", &format!("there is no machine {name}"))
                .await;
        };
        if !self.in_scope(&machine) {
            return Ok(Next::Done);
        }
        let provider = machine.spec.host.external.provider.trim();
        if provider.is_empty() {
            if !ours {
                return Ok(Next::Done);
            }
            return self.fail_unstarted(&record, "InvalidHost", "the machine's host names no provider").await;
        }
        let Some(module) = self.deps.modules.get(provider) else {
            if !ours {
                return Ok(Next::Done);
            }
            if let Some(next) = self.given_up_unstarted(&record).await? {
                return Ok(next);
            }
            let wait = Wait::new(
                WaitReason::ProviderNotRegistered,
                format!("the provider {provider} is not loaded, or not approved"),
            );
            self.wait(&record, &wait, |_| {}).await?;
            return Ok(self.when_loaded(provider, kind));
        };
        let manifest = module.manifest();
        if !manifest.operations.contains_key(kind) {
            if !ours {
                return Ok(Next::Done);
            }
            let message = format!("the provider {provider} does not offer {kind}");
            return self.fail_unstarted(&record, "UnsupportedOperation", &message).await;
        }
        if let Some(next) = self.given_up_unstarted(&record).await? {
            return Ok(next);
        }
        if let Some(message) = self.not_allocated(&machine).await? {
            return self.fail_unstarted(&record, "HostNotAllocated", &message).await;
        }
        if let Err(message) = inputs::check_provider_ref(&machine, manifest.provider.machine_kind.as_ref()) {
            return self.fail_unstarted(&record, "InvalidProviderRef", &message).await;
        }
        if let Some(other) = self.blocked(&operation, name, Some(&manifest)) {
            let wait = Wait::new(WaitReason::OtherOperation, format!("waiting for operation {other}"));
            self.wait(&record, &wait, |_| {}).await?;
            return Ok(Next::After(self.deps.settings.poll_interval));
        }
        Box::pin(self.start(record, machine, module)).await
    }

    /// The same steps for an operation that runs: nothing that changed since may end it silently.
    async fn go_on(&self, record: Arc<Record>, machine: Option<Machine>, input: OperationInput) -> Step {
        let operation = record.latest();
        let scope = &self.deps.scope;
        if scope.site.as_ref().is_some_and(|site| *site != input.site)
            || scope.provider.as_ref().is_some_and(|provider| *provider != input.provider)
        {
            return Ok(Next::Done);
        }
        let target = target(&operation);
        let name = target.map(|t| t.machine_ref.name.clone()).unwrap_or_default();
        let uid = target.map(|t| t.machine_uid.clone()).unwrap_or_default();
        // Edge case 15: a machine made anew under the same name is another machine.
        let same = machine.filter(|machine| machine.uid().as_deref() == Some(uid.as_str()));
        let module = self.deps.modules.get(&input.provider);
        let manifest = module.as_ref().map(|module| module.manifest());
        if self.blocked(&operation, &name, manifest.as_deref()).is_some() {
            return Ok(Next::After(self.deps.settings.poll_interval));
        }
        let case = Case {
            ops: self,
            role: role(&operation),
            record: record.clone(),
            live_id: same
                .as_ref()
                .map_or(input.provider_id.clone(), |m| m.spec.host.external.provider_id.clone()),
            machine_there: same.is_some(),
            machine_owned: same.and_then(|machine| machine.status).unwrap_or_default().owned_resources,
            input,
        };
        // What a person asks for needs no provider.
        if let Some(next) = Box::pin(case.ways_out()).await? {
            return Ok(next);
        }
        if let Err(error) = record.readable() {
            let message = format!("status.effects holds an effect that this version can't read: {error}");
            self.wait(&record, &Wait::new(WaitReason::JournalUnreadable, message), |_| {}).await?;
            let next = Next::After(self.deps.settings.stalled_interval);
            return Ok(self.not_past_deadline(&record.latest(), next));
        }
        let Some((module, manifest)) = module.zip(manifest) else {
            let message = format!("the provider {} is not loaded, or not approved", case.input.provider);
            self.wait(&record, &Wait::new(WaitReason::ProviderNotRegistered, message), |_| {}).await?;
            let next = self.when_loaded(&case.input.provider, &operation.spec.operation_kind);
            return Ok(self.not_past_deadline(&record.latest(), next));
        };
        let Some(offered) = manifest.operations.get(&operation.spec.operation_kind).cloned() else {
            let message = format!(
                "this revision of the provider {} does not offer {}",
                case.input.provider, operation.spec.operation_kind
            );
            self.wait(&record, &Wait::new(WaitReason::OperationNotOffered, message), |_| {}).await?;
            let next = self.when_loaded(&case.input.provider, &operation.spec.operation_kind);
            return Ok(self.not_past_deadline(&record.latest(), next));
        };
        let next = Box::pin(Run { case, module, operation: offered }.drive()).await?;
        Ok(self.not_past_deadline(&record.latest(), next))
    }

    /// When to come back to an operation that waits for a module. Whoever loads one wakes those whose wait is known; a
    /// module that came while the wait was being written would be missed.
    pub(super) fn when_loaded(&self, provider: &str, kind: &str) -> Next {
        let offers = |module: Arc<dyn ProviderModule>| module.manifest().operations.contains_key(kind);
        if self.deps.modules.get(provider).is_some_and(offers) {
            return Next::NOW;
        }
        Next::After(self.deps.settings.stalled_interval)
    }

    /// Comes back no later than at the operation's deadline.
    fn not_past_deadline(&self, operation: &MachineOperation, next: Next) -> Next {
        let left = super::ways_out::deadline(operation).map(|deadline| until(self.now(), deadline));
        match (next, left.filter(|left| !left.is_zero())) {
            (Next::After(after), Some(left)) => Next::After(after.min(left)),
            (Next::Done, Some(left)) if !phase(operation).is_terminal() => Next::After(left),
            _ => next,
        }
    }

    /// Why nothing is done with a machine that comes of an allocation: until the host is confirmed, its providerID is a
    /// plan, which names nothing that is known to be ours (hole H8). From the moment that the host is being released
    /// nothing is begun on it: what waited behind the release would make another host, and the machine is about to go.
    async fn not_allocated(&self, machine: &Machine) -> Result<Option<String>, super::StepError> {
        let Some(name) = machine.status.as_ref().and_then(|status| status.allocation.as_ref()) else {
            return Ok(None);
        };
        let api: Api<MachineAllocation> = Api::all(self.deps.client.clone());
        let allocation = api.get_opt(name).await?;
        let goes = allocation.as_ref().is_some_and(|one| one.metadata.deletion_timestamp.is_some());
        let status = allocation.and_then(|allocation| allocation.status).unwrap_or_default();
        if goes || status.phase == AllocationPhase::Releasing {
            return Ok(Some(format!(
                "the host of the machine {} is being released with the allocation {name}",
                machine.name_any()
            )));
        }
        let confirmed = status.result.is_some();
        let message = || {
            format!(
                "the host of the machine {} is not allocated: wait for the allocation {name}",
                machine.name_any()
            )
        };
        Ok((!confirmed).then(message))
    }

    fn in_scope(&self, machine: &Machine) -> bool {
        let scope = &self.deps.scope;
        let site = machine.labels().get(SITE_LABEL);
        scope.site.as_ref().is_none_or(|wanted| site == Some(wanted))
            && scope.provider.as_ref().is_none_or(|wanted| *wanted == machine.spec.host.external.provider)
    }

    /// Step 9: the operation that goes first on the machine, if that is another one (R2.18).
    pub(super) fn blocked(
        &self,
        operation: &MachineOperation,
        machine: &str,
        manifest: Option<&Manifest>,
    ) -> Option<String> {
        let open = self.deps.index.open_on(machine);
        let supported = |other: &MachineOperation| {
            let offers = |manifest: &Manifest| manifest.operations.contains_key(&other.spec.operation_kind);
            order::started(other) || manifest.is_some_and(offers)
        };
        order::before(operation, &open, supported).map(|other| other.name_any())
    }

    /// Cancelled, or deleted under somebody's finalizer, before it began: it ends at once.
    pub(super) async fn given_up_unstarted(&self, record: &Record) -> Result<Option<Next>, super::StepError> {
        let operation = record.latest();
        if !operation.spec.cancel && operation.metadata.deletion_timestamp.is_none() {
            return Ok(None);
        }
        self.fail_unstarted(record, "Canceled", "the operation was cancelled before it began").await.map(Some)
    }
}
