//! HostAllocate and HostRelease: operations that serve a `MachineAllocation` (2(b).7).
//!
//! The allocation says which operation is its own and what that works with; both are checked and frozen before anything
//! is called, so that an operation made by hand reaches nothing. What is recorded as owned is all that a release may act
//! on (R2.26), whether the machine is still there or not.

use std::sync::Arc;

use holdfast_api::allocation::ALLOCATION_UID_ANNOTATION;
use holdfast_api::{
    AllocationInput, AllocationPlan, AllocationReference, Effect, EffectState, Machine, MachineAllocation,
    MachineOperation, MachineOperationStatus, Offering, OperationInput, OperationTarget, OwnedResource,
    Phase, TakenOrphan,
};
use holdfast_effects as fx;
use jiff::Timestamp;
use kube::{Api, ResourceExt as _};

use super::journal::Record;
use super::start::Subject;
use super::status;
use super::wait::{Wait, WaitReason};
use super::{Next, Operations, Step};
use crate::capacity_index::machine_name;
use crate::clock::rfc3339;

/// What an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A machine that is there.
    Machine,
    /// A host that is to be made.
    Allocate,
    /// What was made for an allocation.
    Release,
}

/// The role of an operation.
pub(super) fn role(operation: &MachineOperation) -> Role {
    match operation.spec.operation_kind.as_str() {
        "HostAllocate" => Role::Allocate,
        "HostRelease" => Role::Release,
        _ => Role::Machine,
    }
}

/// How long an operation of an allocation that failed, changed nothing and was followed by another is kept at most, in
/// seconds: an hour.
const KEPT_FOR_NOTHING: i64 = 60 * 60;

/// Whether an operation of an allocation failed and changed nothing.
fn changed_nothing(status: &MachineOperationStatus, role: Role) -> bool {
    status.phase == Phase::Failed
        && match role {
            Role::Machine => false,
            Role::Allocate => {
                let sent = status.effects.iter().any(|effect| effect.state != EffectState::Rejected);
                !sent && status.owned_resources.is_empty()
            }
            Role::Release => released_nothing(status),
        }
}

/// Whether a release leaves all that it was given, and nothing is in doubt.
fn released_nothing(status: &MachineOperationStatus) -> bool {
    let settled = |effect: &Effect| matches!(effect.state, EffectState::Done | EffectState::Rejected);
    let input = status.target.as_ref().and_then(|target| target.input.as_ref());
    let given = input.and_then(|input| input.allocation.as_ref()).map(|input| &input.owned_resources);
    let left = |one: &OwnedResource| status.owned_resources.iter().any(|have| have.is(one));
    status.effects.iter().all(settled) && given.is_none_or(|given| given.iter().all(left))
}

const NOT_THEIRS: &str = "NotTheAllocationsOperation";

impl Operations {
    /// The prologue for an operation of an allocation that has touched nothing yet.
    pub(super) async fn allocation_not_started(
        &self,
        record: Arc<Record>,
        machine_name: &str,
        machine: Option<Machine>,
    ) -> Step {
        let operation = record.latest();
        let Some(reference) = &operation.spec.allocation_ref else {
            return self.fail_unstarted(&record, NOT_THEIRS, "the operation names no allocation").await;
        };
        let api: Api<MachineAllocation> = Api::all(self.deps.client.clone());
        let Some(allocation) = api.get_opt(&reference.name).await? else {
            let message = format!("there is no allocation {}", reference.name);
            return self.fail_unstarted(&record, NOT_THEIRS, &message).await;
        };
        if !self.serves(&allocation) {
            return Ok(Next::Done);
        }
        if let Err(message) = belongs(&operation, reference, &allocation) {
            return self.fail_unstarted(&record, NOT_THEIRS, &message).await;
        }
        let role = role(&operation);
        let status = allocation.status.clone().unwrap_or_default();
        // Edge case 15: a machine made anew under the same name is another machine.
        let machine = machine.filter(|machine| machine.uid() == status.machine_uid);
        let input = match frozen(role, &allocation, machine.as_ref()) {
            Ok(input) => input,
            Err(message) => return self.fail_unstarted(&record, "AllocationNotPlanned", &message).await,
        };
        let nothing_owned = input.allocation.as_ref().is_some_and(|input| input.owned_resources.is_empty());
        if role == Role::Release && nothing_owned {
            return self.nothing_to_release(&record, input).await;
        }
        if machine.is_none() && role == Role::Allocate {
            let message = format!("there is no machine {machine_name} of the allocation {}", reference.name);
            return self.fail_unstarted(&record, "MachineNotFound", &message).await;
        }
        if let Some(next) = self.given_up_unstarted(&record).await? {
            return Ok(next);
        }
        if role == Role::Allocate && allocation.metadata.deletion_timestamp.is_some() {
            let message = format!("the allocation {} is being deleted; nothing was sent", reference.name);
            return self.fail_unstarted(&record, "Canceled", &message).await;
        }
        if let Some(message) = expired(role, &input, self.now()) {
            return self.fail_unstarted(&record, "OfferingExpired", &message).await;
        }
        let (kind, provider) = (operation.spec.operation_kind.clone(), input.provider.clone());
        let Some(module) = self.deps.modules.get(&provider) else {
            let message = format!("the provider {provider} is not loaded, or not approved");
            self.wait(&record, &Wait::new(WaitReason::ProviderNotRegistered, message), |_| {}).await?;
            return Ok(self.when_loaded(&provider, &kind));
        };
        let manifest = module.manifest();
        if !manifest.operations.contains_key(&kind) {
            let message = format!("the provider {provider} does not offer {kind}");
            return self.fail_unstarted(&record, "UnsupportedOperation", &message).await;
        }
        if let Some(other) = self.blocked(&operation, machine_name, Some(&manifest)) {
            let wait = Wait::new(WaitReason::OtherOperation, format!("waiting for operation {other}"));
            self.wait(&record, &wait, |_| {}).await?;
            return Ok(Next::After(self.deps.settings.poll_interval));
        }
        let subject = Subject::of_allocation(machine_name, &status, machine);
        Box::pin(self.start_with(record, subject, input, module)).await
    }

    /// How long an operation is kept after its end, in seconds. An allocation in trouble tries again every few minutes, for
    /// as long as a quota is exceeded or a release is refused. The pause stays short, so that it goes on soon after somebody
    /// has mended what was wrong; what has changed nothing goes after an hour instead, and leaves the latest few to be
    /// read. The last of them is kept as long as all others.
    pub(super) async fn time_to_live(
        &self,
        operation: &MachineOperation,
    ) -> Result<Option<i64>, kube::Error> {
        let Some(wanted) = operation.spec.ttl_seconds_after_finished else { return Ok(None) };
        let Some((reference, status)) = operation.spec.allocation_ref.as_ref().zip(operation.status.as_ref())
        else {
            return Ok(Some(wanted));
        };
        if !changed_nothing(status, role(operation)) {
            return Ok(Some(wanted));
        }
        let api: Api<MachineAllocation> = Api::all(self.deps.client.clone());
        let latest =
            api.get_opt(&reference.name).await?.and_then(|allocation| allocation.status?.operation_ref);
        let followed = latest.and_then(|latest| latest.uid) != operation.uid();
        Ok(Some(if followed { wanted.min(KEPT_FOR_NOTHING) } else { wanted }))
    }

    fn serves(&self, allocation: &MachineAllocation) -> bool {
        let scope = &self.deps.scope;
        let status = allocation.status.as_ref();
        let site = status.and_then(|status| status.site_name.as_ref());
        let provider = status.and_then(|status| status.provider.as_ref());
        scope.site.as_ref().is_none_or(|wanted| site == Some(wanted))
            && scope.provider.as_ref().is_none_or(|wanted| provider == Some(wanted))
    }

    /// 2(e) 23: a release with an empty list succeeds without a call.
    async fn nothing_to_release(&self, record: &Record, input: OperationInput) -> Step {
        let (now, epoch) = (self.now(), self.deps.fence.epoch());
        let operation = record
            .update(|operation, status| {
                status::start(status, operation.metadata.generation, epoch, now);
                status.target = Some(OperationTarget {
                    machine_ref: operation.spec.machine_ref.clone().unwrap_or_default(),
                    input: Some(input.clone()),
                    result: Some(Default::default()),
                    ..OperationTarget::default()
                });
                status::complete(status, input.machine_generation, now);
            })
            .await?;
        self.announce_end(&operation);
        self.ended(record).await
    }
}

/// Whether the allocation says that this operation is its own. A name is not enough: an operation can be made anew under
/// it. Until the uid is known the daemon's own mark must stand on it: what is made by hand under a name that is about to
/// be used would launch a host that the allocation, which goes around it, never takes over. Nor is an operation begun
/// whose end was taken over: one that was never made may appear late.
fn belongs(
    operation: &MachineOperation,
    reference: &AllocationReference,
    allocation: &MachineAllocation,
) -> Result<(), String> {
    let status = allocation.status.clone().unwrap_or_default();
    let (name, kind) = (operation.name_any(), &operation.spec.operation_kind);
    let theirs = status.operation_ref.as_ref().is_some_and(|theirs| {
        theirs.name == name
            && theirs.kind == *kind
            && match &theirs.uid {
                Some(uid) => operation.metadata.uid.as_ref() == Some(uid),
                None => operation.annotations().get(ALLOCATION_UID_ANNOTATION) == allocation.uid().as_ref(),
            }
    });
    let theirs = theirs && !status.operation_ended;
    if !theirs {
        return Err(format!(
            "status.operationRef of the allocation {} does not name this operation; {kind} is made by the daemon alone: \
             make or delete the allocation instead",
            reference.name
        ));
    }
    let machine = operation.spec.machine_ref.as_ref().map(|machine| machine.name.as_str());
    let planned = status.machine_ref.as_ref().map(|machine| machine.name.as_str());
    if planned.is_some() && machine != planned {
        return Err(format!("the operation names another machine than the allocation {}", reference.name));
    }
    Ok(())
}

/// Takes the input from the allocation as it is now. It is written once (R2.15).
fn frozen(
    role: Role,
    allocation: &MachineAllocation,
    machine: Option<&Machine>,
) -> Result<OperationInput, String> {
    let status = allocation.status.clone().unwrap_or_default();
    let missing = |what: &str| format!("the allocation {} has no {what} yet", allocation.name_any());
    let (plan, offering) = match &status.orphan {
        Some(orphan) if role == Role::Release => unplanned(allocation, orphan),
        _ => {
            (status.plan.ok_or_else(|| missing("plan"))?, status.offering.ok_or_else(|| missing("offering"))?)
        }
    };
    let owned = match role {
        Role::Release => owned(&status.owned_resources, machine),
        _ => Vec::new(),
    };
    Ok(OperationInput {
        provider: status.provider.ok_or_else(|| missing("provider"))?,
        site: status.site_name.ok_or_else(|| missing("site"))?,
        provider_id: Some(plan.provider_id.clone()).filter(|id| !id.is_empty()),
        provider_ref: None,
        host_image: Some(plan.host_image.clone()).filter(|image| !image.is_empty()),
        user_data: allocation.spec.user_data.clone().filter(|_| role == Role::Allocate),
        allocation: Some(AllocationInput {
            name: allocation.name_any(),
            uid: allocation.uid().unwrap_or_default(),
            attempt: status.attempt,
            class_name: allocation.spec.class_ref.name.clone(),
            class_uid: status.class_uid.unwrap_or_default(),
            host_name: plan.host_name,
            config: status.config,
            offering,
            planned_provider_id: plan.provider_id,
            host_image: plan.host_image,
            owned_resources: owned,
        }),
        machine_generation: machine.and_then(|machine| machine.metadata.generation).unwrap_or_default(),
    })
}

/// An orphan was never planned here, and nobody knows its offering: a release has its record, and needs no more.
fn unplanned(allocation: &MachineAllocation, orphan: &TakenOrphan) -> (AllocationPlan, Offering) {
    let plan = AllocationPlan { host_name: machine_name(allocation), ..AllocationPlan::default() };
    let offering = Offering {
        name: "orphan".to_owned(),
        instance_type: String::new(),
        zone: None,
        resources: Default::default(),
        available: false,
        valid_until: orphan.taken_at.clone(),
        attributes: Default::default(),
    };
    (plan, offering)
}

/// What a release may act on: what is recorded for the allocation, and what later operations on its machine made.
fn owned(recorded: &[OwnedResource], machine: Option<&Machine>) -> Vec<OwnedResource> {
    let mut owned = recorded.to_vec();
    let later = machine.and_then(|machine| machine.status.as_ref()).map(|status| &status.owned_resources);
    for one in later.into_iter().flatten() {
        if !owned.iter().any(|have| have.is(one)) {
            owned.push(one.clone());
        }
    }
    owned
}

/// Why nothing may be launched from the frozen offering any more (R2.23).
pub(super) fn expired(role: Role, input: &OperationInput, now: Timestamp) -> Option<String> {
    let offering = &input.allocation.as_ref().filter(|_| role == Role::Allocate)?.offering;
    (offering.valid_until.0 <= now).then(|| {
        format!(
            "the offering {} was valid until {}; nothing was launched from it",
            offering.name, offering.valid_until.0
        )
    })
}

/// The allocation as a guest sees it.
pub(super) fn guest_allocation(input: &AllocationInput) -> fx::Allocation {
    let offering = &input.offering;
    fx::Allocation {
        name: input.name.clone(),
        uid: input.uid.clone(),
        class_name: input.class_name.clone(),
        class_uid: input.class_uid.clone(),
        host_name: input.host_name.clone(),
        offering: fx::ClassOffering {
            name: offering.name.clone(),
            instance_type: offering.instance_type.clone(),
            zone: offering.zone.clone(),
            resources: offering.resources.clone().into_iter().collect(),
            available: offering.available,
            valid_until: rfc3339(offering.valid_until.0),
            attributes: offering.attributes.clone().into_iter().collect(),
        },
        planned_provider_id: input.planned_provider_id.clone(),
        host_image: input.host_image.clone(),
    }
}
