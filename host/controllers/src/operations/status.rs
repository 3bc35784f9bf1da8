//! Changes of an operation's status: phases, conditions, ends. Pure; what is written and when is decided elsewhere.

use holdfast_api::{
    ConditionStatus, MachineOperation, MachineOperationStatus, NewCondition, OperationTarget, OwnedResource,
    Phase, conditions, sanitise_reason, truncate_message,
};
use holdfast_effects::Owned;
use jiff::Timestamp;

use crate::clock::stamp;

/// Condition types of an operation.
pub(crate) const COMPLETED: &str = "Completed";
pub(crate) const FAILED: &str = "Failed";
pub(crate) const STALLED: &str = "ProviderOperationStalled";
pub(crate) const OUTCOME_UNKNOWN: &str = "OutcomeUnknown";

/// Steps of an operation (`status.target.stage`).
pub(crate) mod stage {
    /// A callback that acts may be running, or may have been when the daemon stopped.
    pub(crate) const CALLING: &str = "Calling";
    /// The last callback that acted has answered; the next try is due later.
    pub(crate) const WAITING_RETRY: &str = "WaitingRetry";
    /// A handle is stored and polled.
    pub(crate) const WAITING_PROVIDER: &str = "WaitingProviderOperation";
    /// The same, and the provider was asked to stop.
    pub(crate) const CANCEL_REQUESTED: &str = "CancelRequested";
    /// The result is being written to the Machine.
    pub(crate) const APPLYING: &str = "ApplyingResult";
    /// The result is applied; what it left behind is being removed.
    pub(crate) const CLEANING: &str = "CleaningUp";
}

fn condition(
    status: &mut MachineOperationStatus,
    type_: &str,
    value: ConditionStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let observed_generation = status.observed_generation;
    let new = NewCondition { type_, status: value, reason, message, observed_generation };
    conditions::set(&mut status.conditions, new, stamp(now));
}

/// Enters InProgress. `startedAt` is set once.
pub(crate) fn start(
    status: &mut MachineOperationStatus,
    generation: Option<i64>,
    epoch: i64,
    now: Timestamp,
) {
    status.phase = Phase::InProgress;
    status.reason = Some("InProgress".to_owned());
    status.message = None;
    status.started_at.get_or_insert_with(|| stamp(now));
    status.observed_generation = generation;
    status.lease_epoch = Some(epoch);
    status.waiting = None;
    condition(status, COMPLETED, ConditionStatus::False, "InProgress", "", now);
}

/// Ends well.
pub(crate) fn complete(status: &mut MachineOperationStatus, machine_generation: i64, now: Timestamp) {
    status.phase = Phase::Complete;
    status.reason = Some("Succeeded".to_owned());
    status.message = None;
    status.completed_at = Some(stamp(now));
    status.observed_machine_generation = Some(machine_generation);
    status.waiting = None;
    if let Some(target) = status.target.as_mut() {
        target.stage = None;
        target.result_applied = true;
    }
    settle_conditions(status);
    condition(status, COMPLETED, ConditionStatus::True, "Succeeded", "", now);
}

/// Ends badly. The handle stays, for people to look up. `code` is the contract's, where the failure has one.
pub(crate) fn fail(
    status: &mut MachineOperationStatus,
    reason: &str,
    message: &str,
    code: Option<&str>,
    now: Timestamp,
) {
    status.phase = Phase::Failed;
    status.failure_code = code.map(str::to_owned);
    status.reason = Some(sanitise_reason(reason));
    status.message = Some(truncate_message(message).to_owned());
    status.completed_at = Some(stamp(now));
    status.waiting = None;
    if let Some(target) = status.target.as_mut() {
        target.stage = None;
    }
    settle_conditions(status);
    condition(status, COMPLETED, ConditionStatus::False, reason, message, now);
    condition(status, FAILED, ConditionStatus::True, reason, message, now);
}

fn settle_conditions(status: &mut MachineOperationStatus) {
    conditions::remove(&mut status.conditions, OUTCOME_UNKNOWN);
}

/// Why an outcome is unknown: an effect is in doubt, or it isn't known how far an execution came.
pub(crate) const EFFECT_IN_DOUBT: &str = "EffectInDoubt";
pub(crate) const EXECUTION_UNKNOWN: &str = "ExecutionUnknown";

/// Enters OutcomeUnknown. The condition remembers the generation, so that a later `spec.cancel` can be told from an
/// earlier one.
pub(crate) fn outcome_unknown(
    status: &mut MachineOperationStatus,
    generation: Option<i64>,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    status.phase = Phase::OutcomeUnknown;
    status.observed_generation = generation;
    condition(status, OUTCOME_UNKNOWN, ConditionStatus::True, reason, message, now);
}

/// The generation at which the outcome became unknown.
pub(crate) fn unknown_since(status: &MachineOperationStatus) -> Option<i64> {
    conditions::find(&status.conditions, OUTCOME_UNKNOWN).and_then(|c| c.observed_generation)
}

/// Whether the outcome is unknown for nothing but an effect in doubt.
pub(crate) fn unknown_by_doubt(status: &MachineOperationStatus) -> bool {
    conditions::find(&status.conditions, OUTCOME_UNKNOWN).is_some_and(|c| c.reason == EFFECT_IN_DOUBT)
}

/// Goes on after OutcomeUnknown.
pub(crate) fn go_on(status: &mut MachineOperationStatus, now: Timestamp) {
    status.phase = Phase::InProgress;
    status.reason = Some("InProgress".to_owned());
    status.message = None;
    status.waiting = None;
    condition(status, OUTCOME_UNKNOWN, ConditionStatus::False, "Resolved", "", now);
    if let Some(target) = status.target.as_mut()
        && target.provider_operation.is_none()
    {
        target.stage = Some(stage::WAITING_RETRY.to_owned());
    }
}

/// Says whether the provider's operation takes longer than it should (R2.19: information only).
pub(crate) fn stalled(status: &mut MachineOperationStatus, stalled: bool, reason: &str, now: Timestamp) {
    let (reason, message) = if stalled {
        (reason, "the provider's operation takes longer than expected; it is still followed")
    } else {
        ("WithinExpectedDuration", "")
    };
    condition(status, STALLED, stalled.into(), reason, message, now);
}

/// One more try to act.
pub(crate) fn attempted(target: &mut OperationTarget, now: Timestamp) {
    target.attempts = target.attempts.saturating_add(1);
    target.last_attempt_at = Some(stamp(now));
}

/// Adds what the host recorded as owned. An identity recorded twice is kept once.
pub(crate) fn add_owned(status: &mut MachineOperationStatus, owned: &[Owned], owner: &str) {
    let zone = planned_zone(status);
    for one in owned {
        let resource = OwnedResource {
            binding: one.binding.clone(),
            kind: one.kind.clone(),
            id: one.id.clone(),
            zone: zone.clone(),
            owner: owner.to_owned(),
            place: one.place.clone(),
            incarnation: one.incarnation.clone(),
        };
        let known = status.owned_resources.iter().any(|have| have.is(&resource));
        if !known {
            status.owned_resources.push(resource);
        }
    }
}

/// The zone of the offering that an operation launches from; none of others.
pub(crate) fn planned_zone(status: &MachineOperationStatus) -> Option<String> {
    let input = status.target.as_ref()?.input.as_ref()?;
    input.allocation.as_ref()?.offering.zone.clone()
}

/// Takes out what is released.
pub(crate) fn release(status: &mut MachineOperationStatus, released: &[Owned]) {
    status.owned_resources.retain(|have| {
        !released.iter().any(|one| have.binding == one.binding && have.kind == one.kind && have.id == one.id)
    });
}

/// Whether two statuses differ in more than words: changes of messages alone aren't written.
pub(crate) fn differ_in_meaning(old: &MachineOperationStatus, new: &MachineOperationStatus) -> bool {
    without_words(old) != without_words(new)
}

fn without_words(status: &MachineOperationStatus) -> MachineOperationStatus {
    let mut status = status.clone();
    status.message = None;
    for condition in &mut status.conditions {
        condition.message.clear();
    }
    status
}

/// The target of an operation, if it has one.
pub(crate) fn target(operation: &MachineOperation) -> Option<&OperationTarget> {
    operation.status.as_ref().and_then(|status| status.target.as_ref())
}
