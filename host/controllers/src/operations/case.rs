//! One started operation during one step, as far as it doesn't need its provider: how it ends, and how it becomes
//! unknown. A provider that is not loaded must not take these ways from a person.

use std::sync::Arc;

use holdfast_api::{OperationInput, OwnedResource, Phase};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::allocation::Role;
use super::call::{self, Called};
use super::journal::Record;
use super::residue::with_residue;
use super::status::{self, target};
use super::wait::{Wait, WaitReason};
use super::{Next, Operations, Settings, Step, StepError};
use crate::machines::{Change, MachineError};

/// A started operation, read once for one step.
#[derive(Clone)]
pub(super) struct Case<'a> {
    pub ops: &'a Operations,
    pub role: Role,
    pub record: Arc<Record>,
    /// Frozen at the start.
    pub input: OperationInput,
    /// The machine's identity now; the frozen one when the machine is gone.
    pub live_id: Option<String>,
    /// The machine is there, and is the one that the operation began on.
    pub machine_there: bool,
    /// What the machine owns from operations before this one.
    pub machine_owned: Vec<OwnedResource>,
}

impl Case<'_> {
    pub(super) fn now(&self) -> Timestamp {
        self.ops.now()
    }

    pub(super) fn uid(&self) -> String {
        self.record.latest().uid().unwrap_or_default()
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.ops.deps.settings
    }

    /// Ends the operation as failed, unless an effect is in doubt: then a person must look first. What it owns is
    /// copied to the machine before anything can be removed.
    pub(super) async fn end_failed(&self, reason: &str, message: &str, last: Option<&Called>) -> Step {
        if let Some(key) = self.doubtful() {
            let message = format!("{message} ({reason}); but what became of the effect {key} isn't known");
            return self.outcome_unknown(&message, last).await;
        }
        self.end_failed_anyway(reason, message, last).await
    }

    pub(super) async fn end_failed_anyway(&self, reason: &str, message: &str, last: Option<&Called>) -> Step {
        Box::pin(async move {
            self.copy_owned().await?;
            let now = self.now();
            let code = last.and_then(Called::failure_code);
            let operation = self
                .record
                .update(|operation, status| {
                    status.observed_generation = operation.metadata.generation;
                    call::record(status, last, now);
                    let message = with_residue(status, message);
                    self.leave_remaining(status);
                    status::fail(status, reason, &message, code.as_deref(), now);
                })
                .await?;
            self.ops.announce_end(&operation);
            self.ops.ended(&self.record).await
        })
        .await
    }

    /// Key of an effect without an outcome.
    pub(super) fn doubtful(&self) -> Option<String> {
        let operation = self.record.latest();
        let effects = &operation.status.as_ref()?.effects;
        effects.iter().find(|e| e.state == holdfast_api::EffectState::Intended).map(|e| e.key.clone())
    }

    /// Enters OutcomeUnknown: nothing is done until a person says what happened.
    pub(super) async fn outcome_unknown(&self, message: &str, last: Option<&Called>) -> Step {
        Box::pin(async move {
            let now = self.now();
            let generation = self.record.latest().metadata.generation;
            let reason = match self.doubtful() {
                Some(_) => status::EFFECT_IN_DOUBT,
                None => status::EXECUTION_UNKNOWN,
            };
            self.copy_owned().await?;
            let wait = Wait::new(WaitReason::OutcomeUnknown, message);
            self.ops
                .wait(&self.record, &wait, |status| {
                    call::record(status, last, now);
                    status::outcome_unknown(status, generation, reason, message, now);
                })
                .await?;
            self.ops
                .deps
                .metrics
                .phase(self.ops.kind_label(&self.record.latest()), Phase::OutcomeUnknown.as_str());
            Ok(self.unknown_again())
        })
        .await
    }

    /// An exchange that is still on the wire may settle the effect after all: looked at now and then, at no cost.
    pub(super) fn unknown_again(&self) -> Next {
        match self.doubtful() {
            Some(_) => Next::After(self.settings().stalled_interval),
            None => Next::Done,
        }
    }

    /// Copies what the operation owns to the machine. A machine that is gone can't own anything: the operation's own
    /// status keeps the record.
    pub(super) async fn copy_owned(&self) -> Result<(), StepError> {
        let operation = self.record.latest();
        let owned =
            operation.status.as_ref().map(|status| status.owned_resources.clone()).unwrap_or_default();
        match self.role {
            Role::Release => self.leave_machine(self.released_from_machine(&owned)).await,
            _ => self.leave_machine(Change { owned, ..Change::default() }).await,
        }
    }

    /// Writes a last change to the machine, which is nobody's from then on.
    pub(super) async fn leave_machine(&self, change: Change) -> Result<(), StepError> {
        let operation = self.record.latest();
        let Some(target) = target(&operation) else { return Ok(()) };
        let change = Change { left_by: Some(operation.name_any()), ..change };
        match self.ops.machines.record(&target.machine_ref.name, &target.machine_uid, &change).await {
            Ok(()) | Err(MachineError::Gone(_)) => Ok(()),
            Err(MachineError::Api(error)) => Err(error.into()),
            Err(refused @ MachineError::Refused { .. }) => {
                tracing::warn!(error = %refused, "owned resources were not copied");
                Ok(())
            }
        }
    }
}
