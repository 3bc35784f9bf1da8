//! What every step begins with (2(b).1): is there a machine, does the operation belong to this controller, can its
//! provider do it, and is it its turn.

use std::sync::Arc;

use holdfast_api::{Machine, MachineOperation, OperationInput, SITE_LABEL};
use holdfast_manifest::Manifest;
use kube::ResourceExt as _;

use super::journal::Record;
use super::status::target;
use super::wait::{Wait, WaitReason};
use super::{Next, Operations, Run, Step, order};
use crate::clock::until;
use crate::inputs;

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
            (true, Some(input)) => self.go_on(record, machine, input).await,
            (true, None) => {
                self.fail_unstarted(
                    &record,
                    "TargetStateMissing",
                    "the operation runs, but has no frozen input",
                )
                .await
            }
            (false, _) => self.not_started(record, &reference.name, machine).await,
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
            return Ok(Next::Done);
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
        if let Err(message) = inputs::check_provider_ref(&machine, manifest.provider.machine_kind.as_ref()) {
            return self.fail_unstarted(&record, "InvalidProviderRef", &message).await;
        }
        if let Some(other) = self.blocked(&operation, name, &manifest) {
            let wait = Wait::new(WaitReason::OtherOperation, format!("waiting for operation {other}"));
            self.wait(&record, &wait, |_| {}).await?;
            return Ok(Next::After(self.deps.settings.poll_interval));
        }
        self.start(record, machine, module).await
    }

    /// The same steps for an operation that runs: nothing that changed since may end it silently.
    async fn go_on(&self, record: Arc<Record>, machine: Option<Machine>, input: OperationInput) -> Step {
        let operation = record.latest();
        let kind = operation.spec.operation_kind.as_str();
        let scope = &self.deps.scope;
        if scope.site.as_ref().is_some_and(|site| *site != input.site)
            || scope.provider.as_ref().is_some_and(|provider| *provider != input.provider)
        {
            return Ok(Next::Done);
        }
        let Some(module) = self.deps.modules.get(&input.provider) else {
            let wait = Wait::new(
                WaitReason::ProviderNotRegistered,
                format!("the provider {} is not loaded, or not approved", input.provider),
            );
            self.wait(&record, &wait, |_| {}).await?;
            return Ok(Next::Done);
        };
        let manifest = module.manifest();
        let Some(offered) = manifest.operations.get(kind).cloned() else {
            let message = format!("this revision of the provider {} does not offer {kind}", input.provider);
            self.wait(&record, &Wait::new(WaitReason::OperationNotOffered, message), |_| {}).await?;
            return Ok(Next::Done);
        };
        let target = target(&operation);
        let name = target.map(|t| t.machine_ref.name.clone()).unwrap_or_default();
        let uid = target.map(|t| t.machine_uid.clone()).unwrap_or_default();
        // Edge case 15: a machine made anew under the same name is another machine.
        let same = machine.filter(|machine| machine.uid().as_deref() == Some(uid.as_str()));
        if self.blocked(&operation, &name, &manifest).is_some() {
            return Ok(Next::After(self.deps.settings.poll_interval));
        }
        let live_id = match &same {
            Some(machine) => machine.spec.host.external.provider_id.clone(),
            None => input.provider_id.clone(),
        };
        let machine_there = same.is_some();
        let next = Run {
            ops: self,
            record: record.clone(),
            input,
            module,
            operation: offered,
            live_id,
            machine_there,
        }
        .drive()
        .await?;
        Ok(self.not_past_deadline(&record.latest(), next))
    }

    /// Comes back no later than at the operation's deadline.
    fn not_past_deadline(&self, operation: &MachineOperation, next: Next) -> Next {
        match (next, super::ways_out::deadline(operation)) {
            (Next::After(after), Some(deadline)) => {
                let left = until(self.now(), deadline);
                Next::After(if left.is_zero() { after } else { after.min(left) })
            }
            _ => next,
        }
    }

    fn in_scope(&self, machine: &Machine) -> bool {
        let scope = &self.deps.scope;
        let site = machine.labels().get(SITE_LABEL);
        scope.site.as_ref().is_none_or(|wanted| site == Some(wanted))
            && scope.provider.as_ref().is_none_or(|wanted| *wanted == machine.spec.host.external.provider)
    }

    /// Step 9: the operation that goes first on the machine, if that is another one (R2.18).
    fn blocked(&self, operation: &MachineOperation, machine: &str, manifest: &Manifest) -> Option<String> {
        let open = self.deps.index.open_on(machine);
        let supported = |other: &MachineOperation| {
            order::started(other) || manifest.operations.contains_key(&other.spec.operation_kind)
        };
        order::before(operation, &open, supported).map(|other| other.name_any())
    }

    /// Cancelled, or deleted under somebody's finalizer, before it began: it ends at once.
    async fn given_up_unstarted(&self, record: &Record) -> Result<Option<Next>, super::StepError> {
        let operation = record.latest();
        if !operation.spec.cancel && operation.metadata.deletion_timestamp.is_none() {
            return Ok(None);
        }
        self.fail_unstarted(record, "Canceled", "the operation was cancelled before it began").await.map(Some)
    }
}
