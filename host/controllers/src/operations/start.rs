//! The start of an operation: its inputs are frozen, its credentials found, and the start written, before anything is
//! called (R2.13, R2.15).

use std::sync::Arc;

use holdfast_api::{
    Machine, MachineAllocationStatus, MachineReference, OPERATION_FINALIZER, OperationInput, OperationTarget,
    OwnedResource, Phase,
};
use holdfast_manifest::{Mode, Operation};
use kube::ResourceExt as _;

use super::allocation::{Role, role};
use super::case::Case;
use super::journal::Record;
use super::status::{self, stage};
use super::wait::{Wait, WaitReason};
use super::{Next, Operations, Run, Step, StepError};
use crate::backoff;
use crate::clock::add;
use crate::credentials::{AuthError, site_of};
use crate::inputs::{InputError, freeze};
use crate::machines::Change;
use crate::rooms::ProviderModule;

/// The machine that an operation starts on, as it is now. It need not be there for a release.
pub(super) struct Subject {
    name: String,
    uid: String,
    provider_id: Option<String>,
    owned: Vec<OwnedResource>,
    there: bool,
}

impl Subject {
    fn machine(machine: Machine) -> Self {
        Self {
            name: machine.name_any(),
            uid: machine.uid().unwrap_or_default(),
            provider_id: machine.spec.host.external.provider_id.clone(),
            owned: machine.status.unwrap_or_default().owned_resources,
            there: true,
        }
    }

    pub(super) fn of_allocation(
        name: &str,
        status: &MachineAllocationStatus,
        machine: Option<Machine>,
    ) -> Self {
        machine.map_or_else(
            || Self {
                name: name.to_owned(),
                uid: status.machine_uid.clone().unwrap_or_default(),
                provider_id: status.plan.as_ref().map(|plan| plan.provider_id.clone()),
                owned: Vec::new(),
                there: false,
            },
            Self::machine,
        )
    }
}

impl Operations {
    /// Steps 10 and 11 of the prologue. What can't be had fails the operation (2(b).4, edge case 9); what may come is
    /// waited for (X.3).
    pub(super) async fn start(
        &self,
        record: Arc<Record>,
        machine: Machine,
        module: Arc<dyn ProviderModule>,
    ) -> Step {
        let manifest = module.manifest();
        let kind = record.latest().spec.operation_kind.clone();
        let Some(offered) = manifest.operations.get(&kind).cloned() else { return Ok(Next::Done) };
        let site = match site_of(&machine) {
            Ok(site) => site,
            Err(error) => return self.refuse(&record, error).await,
        };
        let input = match self.inputs(&record, &machine, &site, &offered).await? {
            Ok(input) => input,
            Err(next) => return Ok(next),
        };
        self.start_with(record, Subject::machine(machine), input, module).await
    }

    /// The same from where the input is known.
    pub(super) async fn start_with(
        &self,
        record: Arc<Record>,
        subject: Subject,
        input: OperationInput,
        module: Arc<dyn ProviderModule>,
    ) -> Step {
        let manifest = module.manifest();
        let kind = record.latest().spec.operation_kind.clone();
        let Some(offered) = manifest.operations.get(&kind).cloned() else { return Ok(Next::Done) };
        let lent =
            match self.deps.credentials.resolve(&input, &manifest, &module.revision(), self.now()).await {
                Ok(lent) => lent,
                Err(AuthError::Refused { reason, message }) if role(&record.latest()) != Role::Machine => {
                    return self
                        .unstarted_without_credentials(&record, &input, &*module, reason, &message)
                        .await;
                }
                Err(error) => return self.refuse(&record, error).await,
            };
        record.set_finalizer(OPERATION_FINALIZER, true).await?;
        self.write_start(&record, &subject, &input, &offered).await?;
        let case = Case {
            ops: self,
            role: role(&record.latest()),
            record,
            live_id: subject.provider_id,
            machine_there: subject.there,
            machine_owned: subject.owned,
            input,
        };
        let run = Run { case, module, operation: offered.clone() };
        match offered.mode {
            Mode::Immediate => Box::pin(run.execute(lent)).await,
            Mode::LongRunning => Box::pin(run.begin_with(lent)).await,
        }
    }

    /// Nothing of the operation of an allocation has begun, and it must not end for want of credentials: the allocation
    /// would make another one for the same work, again and again. It waits, unstarted, and is still cancelled at once.
    async fn unstarted_without_credentials(
        &self,
        record: &Record,
        input: &OperationInput,
        module: &dyn ProviderModule,
        reason: &str,
        message: &str,
    ) -> Step {
        let mut wait = Wait::new(WaitReason::AuthUnavailable, format!("{reason}: {message}"));
        wait.way_out = Some(match role(&record.latest()) {
            Role::Release => "mend the ProviderCredential or its Secret as the message says",
            _ => "mend the ProviderCredential or its Secret as the message says, or delete the allocation",
        });
        Box::pin(self.wait_for_credentials(record, input, module, &wait, |_| {})).await
    }

    async fn refuse(&self, record: &Record, error: AuthError) -> Step {
        match error {
            AuthError::Refused { reason, message } => self.fail_unstarted(record, reason, &message).await,
            AuthError::Api(error) => Err(error.into()),
            AuthError::Later(message) => Err(StepError::Later(message)),
        }
    }

    async fn inputs(
        &self,
        record: &Record,
        machine: &Machine,
        site: &str,
        offered: &Operation,
    ) -> Result<Result<OperationInput, Next>, StepError> {
        let frozen = freeze(&self.deps.client, machine, site).await.and_then(|input| {
            if offered.requires_replace_user_data && input.user_data.is_none() {
                return Err(InputError::Permanent {
                    reason: "BootstrapDataMissing",
                    message: "the operation needs first-boot data and the machine has no spec.userDataRef"
                        .to_owned(),
                });
            }
            Ok(input)
        });
        match frozen {
            Ok(input) => Ok(Ok(input)),
            Err(InputError::Permanent { reason, message }) => {
                self.fail_unstarted(record, reason, &message).await.map(Err)
            }
            Err(InputError::Transient(message)) => {
                let uid = record.latest().uid().unwrap_or_default();
                let delay = backoff::after(self.tallies.failed(&uid), &uid);
                let wait = Wait::new(WaitReason::InputUnavailable, message).until(add(self.now(), delay));
                self.wait(record, &wait, |_| {}).await?;
                Ok(Err(Next::After(delay)))
            }
        }
    }

    /// Frozen input and phase InProgress in one write. An immediate operation is about to call, and says so.
    async fn write_start(
        &self,
        record: &Record,
        subject: &Subject,
        input: &OperationInput,
        offered: &Operation,
    ) -> Result<(), StepError> {
        let (now, epoch) = (self.now(), self.deps.fence.epoch());
        let immediate = offered.mode == Mode::Immediate;
        let operation = record
            .update(|operation, status| {
                status::start(status, operation.metadata.generation, epoch, now);
                let mut target = OperationTarget {
                    machine_ref: MachineReference { name: subject.name.clone() },
                    machine_uid: subject.uid.clone(),
                    input: Some(input.clone()),
                    ..OperationTarget::default()
                };
                if immediate {
                    target.stage = Some(stage::CALLING.to_owned());
                    status::attempted(&mut target, now);
                }
                status.target = Some(target);
                // What a release has not released yet. Empty for all others.
                let recorded = input.allocation.as_ref().map(|input| input.owned_resources.clone());
                status.owned_resources = recorded.unwrap_or_default();
            })
            .await?;
        self.tallies.forget(&operation.uid().unwrap_or_default());
        self.deps.events.post(&operation, false, "Started", "the operation started", now);
        self.deps.metrics.phase(self.kind_label(&operation), Phase::InProgress.as_str());
        let change = Change { taken_by: Some(operation.name_any()), ..Change::default() };
        if !subject.there {
            return Ok(());
        }
        if let Err(error) = self.machines.record(&subject.name, &subject.uid, &change).await {
            // For people to read only; the order of operations doesn't rest on it.
            tracing::debug!(%error, "the machine's currentOperation was not written");
        }
        Ok(())
    }
}
