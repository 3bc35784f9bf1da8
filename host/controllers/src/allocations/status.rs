//! Changes of an allocation's status: phases, conditions, waits.

use holdfast_api::{
    AllocationPhase, AllocationPlan, ConditionStatus, Machine, MachineAllocationStatus, MachineClass,
    MachineReference, NewCondition, Offering, OperationReference, OwnedResource, TakenOrphan, TriedOffering,
    conditions, sanitise_reason, truncate_message,
};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::waits;
use crate::capacity::{HOST_ALLOCATE, Wait};
use crate::clock::stamp;

const ALLOCATED: &str = "Allocated";
const RELEASED: &str = "Released";

/// Reasons of a failed attempt after which there is another one.
pub(super) const CAPACITY_EXHAUSTED: &str = "CapacityExhausted";
pub(super) const QUOTA_EXCEEDED: &str = "QuotaExceeded";
/// The operations controller's word for an offering that expired before anything was sent.
pub(super) const OFFERING_EXPIRED: &str = "OfferingExpired";
/// Reasons for which no host is wanted any more.
pub(super) const DELETED: &str = "Deleted";
pub(super) const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// An orphan's way.
pub(super) const ORPHAN_TAKEN: &str = "OrphanTaken";
pub(super) const ORPHAN_RELEASED: &str = "OrphanReleased";

/// Most tried offerings that a status lists.
const MAX_TRIED: usize = 32;

fn set(
    status: &mut MachineAllocationStatus,
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

fn say(status: &mut MachineAllocationStatus, reason: &str, message: &str) {
    status.reason = Some(sanitise_reason(reason));
    status.message = Some(truncate_message(message).to_owned()).filter(|message| !message.is_empty());
}

/// Waits. The condition says so while there is no host.
pub(super) fn waits(status: &mut MachineAllocationStatus, wait: &Wait, now: Timestamp) {
    status.waiting = Some(wait.kept(status.waiting.as_ref(), now));
    say(status, wait.reason, &wait.message);
    if matches!(status.phase, AllocationPhase::Pending | AllocationPhase::Allocating) {
        set(status, ALLOCATED, ConditionStatus::False, wait.reason, &wait.message, now);
    }
}

/// An offering is chosen and the host planned: everything that a launch and a release need is frozen here.
pub(super) fn chosen(
    status: &mut MachineAllocationStatus,
    class: &MachineClass,
    offering: Offering,
    plan: AllocationPlan,
    now: Timestamp,
) {
    status.phase = AllocationPhase::Allocating;
    status.class_uid = class.uid();
    status.provider = Some(class.spec.provider.clone());
    status.site_name = Some(class.spec.site_name.clone());
    status.config = class.status.as_ref().and_then(|status| status.config.clone()).unwrap_or_default();
    status.offering = Some(offering);
    status.plan = Some(plan);
    status.waiting = None;
    say(status, "OfferingChosen", "");
    set(status, ALLOCATED, ConditionStatus::False, "OfferingChosen", "", now);
}

/// The Machine by name and uid.
pub(super) fn belongs_to(status: &mut MachineAllocationStatus, machine: &Machine) {
    status.machine_ref = Some(MachineReference { name: machine.name_any() });
    status.machine_uid = machine.uid();
}

/// Names the operation that is about to be made.
pub(super) fn begins(status: &mut MachineAllocationStatus, reference: OperationReference, now: Timestamp) {
    let wait = if reference.kind == HOST_ALLOCATE {
        status.phase = AllocationPhase::Allocating;
        waits::allocating(&reference.name)
    } else {
        status.phase = AllocationPhase::Releasing;
        status.releases += 1;
        set(status, RELEASED, ConditionStatus::False, "Releasing", "", now);
        waits::releasing(&reference.name)
    };
    status.operation_ref = Some(reference);
    status.operation_ended = false;
    waits(status, &wait, now);
}

/// The host is there.
pub(super) fn allocated(status: &mut MachineAllocationStatus, now: Timestamp) {
    status.phase = AllocationPhase::Allocated;
    status.waiting = None;
    say(status, ALLOCATED, "");
    set(status, ALLOCATED, ConditionStatus::True, "HostConfirmed", "", now);
}

/// What there is will be released: no host is wanted any more, or an attempt failed that has made something. The
/// condition remembers what for.
pub(super) fn gives_up(status: &mut MachineAllocationStatus, reason: &str, message: &str, now: Timestamp) {
    status.phase = AllocationPhase::Releasing;
    status.waiting = None;
    say(status, reason, message);
    set(status, ALLOCATED, ConditionStatus::False, reason, message, now);
}

/// Whether it was written that no host is wanted any more.
pub(super) fn given_up(status: &MachineAllocationStatus) -> bool {
    status.phase == AllocationPhase::Releasing
}

/// The reason and the message for which there is no host.
pub(super) fn why_not_allocated(status: &MachineAllocationStatus) -> (String, String) {
    conditions::find(&status.conditions, ALLOCATED)
        .map_or_else(Default::default, |condition| (condition.reason.clone(), condition.message.clone()))
}

/// What follows on a failed attempt that left nothing: the next offering, another try after a pause, or the end.
pub(super) fn after(
    status: &mut MachineAllocationStatus,
    reason: &str,
    message: &str,
    retry: Timestamp,
    now: Timestamp,
) {
    if ![CAPACITY_EXHAUSTED, QUOTA_EXCEEDED, OFFERING_EXPIRED].contains(&reason) {
        return failed(status, reason, message, now);
    }
    status.phase = AllocationPhase::Pending;
    status.attempt += 1;
    status.offering = None;
    status.plan = None;
    status.result = None;
    status.provider_id = None;
    status.waiting = None;
    say(status, reason, message);
    set(status, ALLOCATED, ConditionStatus::False, reason, message, now);
    conditions::remove(&mut status.conditions, RELEASED);
    if reason == QUOTA_EXCEEDED {
        waits(status, &waits::quota_exceeded(message, retry), now);
    }
}

/// There will be no host. Nothing is owned.
pub(super) fn failed(status: &mut MachineAllocationStatus, reason: &str, message: &str, now: Timestamp) {
    status.phase = AllocationPhase::Failed;
    status.waiting = None;
    say(status, reason, message);
    set(status, ALLOCATED, ConditionStatus::False, reason, message, now);
    if status.releases > 0 {
        set(status, RELEASED, ConditionStatus::True, RELEASED, "", now);
    }
}

/// An orphan is on this allocation's record from now on, and is released.
pub(super) fn orphan_taken(
    status: &mut MachineAllocationStatus,
    class: &MachineClass,
    owned: OwnedResource,
    orphan: TakenOrphan,
    now: Timestamp,
) {
    status.phase = AllocationPhase::Releasing;
    status.class_uid = class.uid();
    status.provider = Some(class.spec.provider.clone());
    status.site_name = Some(class.spec.site_name.clone());
    status.config = class.status.as_ref().and_then(|status| status.config.clone()).unwrap_or_default();
    status.owned_resources = vec![owned];
    status.orphan = Some(orphan);
    status.waiting = None;
    say(status, ORPHAN_TAKEN, "");
    set(status, RELEASED, ConditionStatus::False, ORPHAN_TAKEN, "", now);
}

/// The orphan is not touched.
pub(super) fn orphan_refused(
    status: &mut MachineAllocationStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    status.phase = AllocationPhase::Failed;
    status.waiting = None;
    say(status, reason, message);
    set(status, RELEASED, ConditionStatus::False, reason, message, now);
}

/// The orphan is gone.
pub(super) fn orphan_released(status: &mut MachineAllocationStatus, message: &str, now: Timestamp) {
    status.phase = AllocationPhase::Released;
    status.waiting = None;
    say(status, ORPHAN_RELEASED, message);
    set(status, RELEASED, ConditionStatus::True, ORPHAN_RELEASED, message, now);
}

/// Not everything is released yet.
pub(super) fn release_failed(status: &mut MachineAllocationStatus, wait: &Wait, now: Timestamp) {
    waits(status, wait, now);
    set(status, RELEASED, ConditionStatus::False, wait.reason, &wait.message, now);
}

/// Adds an offering that had no capacity.
pub(super) fn tried(status: &mut MachineAllocationStatus, tried: Option<TriedOffering>) {
    let Some(tried) = tried else { return };
    status.exhausted.retain(|old| old.name != tried.name || old.zone != tried.zone);
    status.exhausted.push(tried);
    let surplus = status.exhausted.len().saturating_sub(MAX_TRIED);
    status.exhausted.drain(..surplus);
}
