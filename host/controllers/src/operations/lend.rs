//! What is lent for a callback: credentials, and first-boot data for those that act.

use std::sync::Arc;

use holdfast_api::allocation::ALLOCATION_UID_ANNOTATION;
use holdfast_api::{
    MachineAllocation, MachineOperation, MachineOperationStatus, OPERATION_FINALIZER, OperationInput,
    UserDataSource,
};
use holdfast_custody::UserDataId;
use kube::{Api, ResourceExt as _};

use super::allocation::{Role, role};
use super::failed::retry_later;
use super::journal::Record;
use super::status;
use super::wait::{Wait, WaitReason};
use super::{Next, Operations, Run, StepError};
use crate::backoff;
use crate::clock::add;
use crate::credentials::{AuthError, Lent};
use crate::first_boot::{self, Facts, Kept};
use crate::index::lacks_credentials;
use crate::inputs::InputError;
use crate::rooms::{ProviderModule, Secret, Vault};

/// First-boot data that is lent while this lives (R2.14).
pub(super) struct LentData {
    vault: Arc<dyn Vault>,
    pub id: UserDataId,
}

impl Drop for LentData {
    fn drop(&mut self) {
        self.vault.revoke_user_data(self.id);
    }
}

impl Run<'_> {
    /// Credentials for the next callback, or the step that their absence leads to: with progress made the operation
    /// waits, without it fails (edge case 9). One of an allocation waits anyway, since another would follow it.
    pub(super) async fn credentials(&self) -> Result<Result<Lent, Next>, StepError> {
        Box::pin(async move {
            let (manifest, revision) = (self.module.manifest(), self.module.revision());
            let (reason, message) = match self
                .ops
                .deps
                .credentials
                .resolve(&self.input, &manifest, &revision, self.now())
                .await
            {
                Ok(lent) => return Ok(Ok(lent)),
                Err(AuthError::Api(error)) => return Err(error.into()),
                Err(AuthError::Later(message)) => return Err(StepError::Later(message)),
                Err(AuthError::Refused { reason, message }) => (reason, message),
            };
            let operation = self.record.latest();
            let progress = operation.status.as_ref().is_some_and(|status| {
                let handle = status
                    .target
                    .as_ref()
                    .is_some_and(|t| t.provider_operation.is_some() || t.result.is_some());
                handle || !status.effects.is_empty()
            });
            if !progress && self.role == Role::Machine {
                return self.end_failed(reason, &message, None).await.map(Err);
            }
            let wait = Wait::new(WaitReason::AuthUnavailable, format!("{reason}: {message}"));
            let (now, stalled) = (self.now(), self.stalled());
            let change = |status: &mut MachineOperationStatus| {
                if let Some(stalled) = stalled {
                    status::stalled(status, stalled, wait.reason.as_str(), now);
                }
            };
            let waits =
                self.ops.wait_for_credentials(&self.record, &self.input, &*self.module, &wait, change);
            Box::pin(waits).await.map(Err)
        })
        .await
    }

    /// First-boot data, if the kind needs it. Transient trouble is waited out (X.3).
    pub(super) async fn user_data(&self) -> Result<Result<Option<LentData>, Next>, StepError> {
        Box::pin(async move {
            if !self.operation.requires_replace_user_data && self.role != Role::Allocate {
                return Ok(Ok(None));
            }
            let vault = &self.ops.deps.vault;
            let found = Box::pin(self.first_boot()).await.and_then(|(name, data)| {
                let id = vault
                    .deposit_user_data(&self.module.revision(), &name, data)
                    .map_err(|error| InputError::Transient(error.message))?;
                Ok(LentData { vault: vault.clone(), id })
            });
            match found {
                Ok(data) => Ok(Ok(Some(data))),
                Err(InputError::Permanent { reason, message }) => {
                    self.end_failed(reason, &message, None).await.map(Err)
                }
                Err(InputError::Transient(message)) => {
                    let uid = self.uid();
                    let delay = backoff::after(self.ops.tallies.failed(&uid), &uid);
                    let wait = Wait::new(WaitReason::InputUnavailable, message).until(add(self.now(), delay));
                    self.ops.wait(&self.record, &wait, retry_later).await?;
                    Ok(Err(Next::After(delay)))
                }
            }
        })
        .await
    }

    /// The bytes that are lent, and the name under which they are known. Once something was sent they are those that
    /// were sent, if they are kept: bytes that were built anew make a repeat another request.
    async fn first_boot(&self) -> Result<(String, Secret), InputError> {
        let operation = self.record.latest();
        let target = status::target(&operation).map(|target| target.machine_ref.name.clone());
        let host = self.input.allocation.as_ref().map(|input| input.host_name.clone()).or(target);
        let host = host.unwrap_or_default();
        // The name of the machine may stand in its data and in replies.
        let name = format!("machine/{host}");
        let Some(source) = &self.input.user_data else {
            return match self.role {
                // The contract lends something; the place of nothing stays unwritten.
                Role::Allocate => Ok((name, Secret::default())),
                _ => Err(InputError::permanent(
                    "BootstrapDataMissing",
                    "the operation needs first-boot data: set spec.userDataRef of the machine and start a new operation",
                )),
            };
        };
        let client = &self.ops.deps.client;
        let keeps = first_boot::may_repeat(&self.module.manifest());
        let sent = operation.status.as_ref().is_some_and(|status| !status.effects.is_empty());
        let kept = Kept::of(client, &operation);
        if keeps
            && sent
            && let Some(bytes) = kept.find().await?
        {
            return Ok((name, bytes));
        }
        let facts = self.facts(host, source).await?;
        let bytes = first_boot::build(client, source, &facts).await?;
        if keeps && !sent {
            kept.keep(&bytes).await?;
        }
        Ok((name, bytes))
    }

    /// What a template sees of the machine. A machine that was allocated has the type and the zone of its allocation.
    async fn facts(&self, name: String, source: &UserDataSource) -> Result<Facts, InputError> {
        let mut facts = Facts {
            name,
            site: self.input.site.clone(),
            image: self.input.host_image.clone().unwrap_or_default(),
            ..Facts::default()
        };
        if let Some(input) = &self.input.allocation {
            facts.instance_type = Some(input.offering.instance_type.clone());
            facts.zone.clone_from(&input.offering.zone);
            return Ok(facts);
        }
        if source.template.is_none() {
            return Ok(facts);
        }
        let Some(machine) = self.ops.machines.get(&facts.name).await? else { return Ok(facts) };
        let uid = machine.annotations().get(ALLOCATION_UID_ANNOTATION).cloned();
        let Some(name) = machine.status.and_then(|status| status.allocation) else { return Ok(facts) };
        let api: Api<MachineAllocation> = Api::all(self.ops.deps.client.clone());
        // One that was made anew under the name says nothing about this machine.
        let allocation =
            api.get_opt(&name).await?.filter(|allocation| uid.is_some() && allocation.uid() == uid);
        let Some(status) = allocation.and_then(|allocation| allocation.status) else { return Ok(facts) };
        let result = status.result.unwrap_or_default();
        let offering = status.offering;
        facts.zone = result.zone.or_else(|| offering.as_ref()?.zone.clone());
        facts.instance_type = Some(result.instance_type)
            .filter(|word| !word.is_empty())
            .or_else(|| Some(offering?.instance_type));
        Ok(facts)
    }
}

impl Operations {
    /// Waits for credentials. A change wakes those whose wait is known: what came while the wait was being written would
    /// be missed, and is looked for once more.
    pub(super) async fn wait_for_credentials(
        &self,
        record: &Record,
        input: &OperationInput,
        module: &dyn ProviderModule,
        wait: &Wait,
        change: impl Fn(&mut MachineOperationStatus),
    ) -> Result<Next, StepError> {
        let known = lacks_credentials(&record.latest());
        self.wait(record, wait, change).await?;
        let (manifest, revision) = (module.manifest(), module.revision());
        let there =
            !known && self.deps.credentials.resolve(input, &manifest, &revision, self.now()).await.is_ok();
        Ok(if there { Next::NOW } else { Next::After(self.deps.settings.stalled_interval) })
    }

    /// Removes the first-boot data that was kept for an operation, if it is one that may have kept some and holds its
    /// finalizer yet: that is taken off only after this.
    pub(super) async fn forget_first_boot(&self, operation: &MachineOperation) -> Result<(), kube::Error> {
        let input = status::target(operation).and_then(|target| target.input.as_ref());
        let Some(input) = input.filter(|input| input.user_data.is_some()) else { return Ok(()) };
        let kind = &operation.spec.operation_kind;
        let manifest = self.deps.modules.get(&input.provider).map(|module| module.manifest());
        // Without the module nobody can say; then it is looked for.
        let offered = manifest.as_ref().and_then(|manifest| manifest.operations.get(kind));
        let lent = role(operation) == Role::Allocate
            || offered.is_none_or(|operation| operation.requires_replace_user_data);
        let held = operation.finalizers().iter().any(|have| have == OPERATION_FINALIZER);
        if lent && held { Kept::of(&self.deps.client, operation).forget().await } else { Ok(()) }
    }
}
