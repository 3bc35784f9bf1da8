//! The end of an operation, taken over in one write before anything else is done: what is owned, the host, and what
//! follows.

use holdfast_api::{
    Machine, MachineAllocation, MachineOperation, MachineOperationStatus, OwnedResource, Phase, TriedOffering,
};
use kube::ResourceExt as _;

use super::choose::MARGIN;
use super::machine::is_ours;
use super::{Allocations, add_owned, deleting, made_by, state, status, waits};
use crate::backoff;
use crate::capacity::{Flow, HOST_ALLOCATE};
use crate::capacity_index::machine_name;
use crate::clock::{add, stamp};

/// Why there is no host, as far as it decides what follows.
pub(super) struct Failure {
    pub reason: String,
    pub message: String,
}

impl Failure {
    /// Of a HostAllocate that did not succeed. The contract's code decides; the reason is the provider's word. That the
    /// offering has expired the host knows itself: a provider that says so early would be asked for ever without a pause.
    fn of(ended: &MachineOperationStatus) -> Self {
        let message = ended.message.clone().unwrap_or_default();
        let reason = match ended.failure_code.as_deref() {
            Some("capacity-exhausted") => status::CAPACITY_EXHAUSTED.to_owned(),
            Some("quota-exceeded") => status::QUOTA_EXCEEDED.to_owned(),
            _ if ended.phase == Phase::Complete => "NoResult".to_owned(),
            _ => match ended.reason.clone() {
                Some(reason) if reason != status::OFFERING_EXPIRED || expired(ended) => reason,
                _ => "Failed".to_owned(),
            },
        };
        Self { reason, message }
    }
}

/// Whether the offering had expired when its operation ended; one that never started has no frozen offering, and no
/// provider was asked.
fn expired(ended: &MachineOperationStatus) -> bool {
    let input = ended.target.as_ref().and_then(|target| target.input.as_ref());
    let Some(allocation) = input.and_then(|input| input.allocation.as_ref()) else { return true };
    let at = ended.completed_at.as_ref().map(|at| at.0);
    at.is_some_and(|at| allocation.offering.valid_until.0 <= add(at, MARGIN))
}

impl Allocations {
    /// Takes over what an operation ended with.
    pub(super) async fn take_end(
        &self,
        allocation: MachineAllocation,
        operation: &MachineOperation,
    ) -> Flow<MachineAllocation> {
        let ended = operation.status.clone().unwrap_or_default();
        if operation.spec.operation_kind != HOST_ALLOCATE {
            return self.take_release(allocation, operation, &ended).await;
        }
        let uid = allocation.uid().unwrap_or_default();
        let made = made_by(operation, &uid);
        let result = ended.target.as_ref().and_then(|target| target.result.clone()).unwrap_or_default();
        match result.allocation.filter(|_| ended.phase == Phase::Complete) {
            Some(host) => {
                let now = self.now();
                let news = self.place(&state(&allocation)).is_some_and(|place| {
                    self.quarantine.worked(&place);
                    self.exhausted.worked(&place)
                });
                let note = format!("host {}", host.provider_resource_id);
                let unwanted = deleting(&allocation) || status::given_up(&state(&allocation));
                let allocation = self
                    .put(allocation, |status| {
                        add_owned(&mut status.owned_resources, &made);
                        status.operation_ended = true;
                        status.provider_id = result.provider_id;
                        status.result = Some(host);
                        if !unwanted {
                            status.allocated_at = Some(stamp(now));
                            status::allocated(status, now);
                        }
                    })
                    .await?;
                self.tell(&allocation, false, "HostConfirmed", &note);
                if news {
                    self.wake_waiting(&allocation.spec.class_ref.name);
                }
                Ok(allocation)
            }
            None => self.take_failure(allocation, made, Failure::of(&ended)).await,
        }
    }

    /// There is no host. What was made is kept for the release (R2.27); without any, the next thing begins at once.
    async fn take_failure(
        &self,
        allocation: MachineAllocation,
        made: Vec<OwnedResource>,
        failure: Failure,
    ) -> Flow<MachineAllocation> {
        let (now, before, uid) = (self.now(), state(&allocation), allocation.uid().unwrap_or_default());
        let unwanted = deleting(&allocation) || status::given_up(&before);
        let mut tried = None;
        if let Some(place) = self.place(&before) {
            if failure.reason == status::CAPACITY_EXHAUSTED {
                let until = self.exhausted.failed(place, now);
                tried = before.offering.as_ref().map(|offering| TriedOffering {
                    name: offering.name.clone(),
                    zone: offering.zone.clone(),
                    at: stamp(now),
                    until: stamp(until),
                    reason: failure.reason.clone(),
                });
            } else {
                if self.exhausted.gave_up(&place, &uid) {
                    self.wake_waiting(&allocation.spec.class_ref.name);
                }
                // A host that was made and did not become ready, for no wish of anybody's (E08).
                let of_host =
                    ![status::QUOTA_EXCEEDED, status::OFFERING_EXPIRED].contains(&failure.reason.as_str());
                if of_host && !unwanted && !made.is_empty() {
                    self.quarantine.failed(place, now);
                }
            }
        }
        let retry = add(now, backoff::after(u32::try_from(before.attempt).unwrap_or_default() + 1, &uid));
        let allocation = self
            .put(allocation, |status| {
                add_owned(&mut status.owned_resources, &made);
                status.operation_ended = true;
                status::tried(status, tried);
                match (unwanted, status.owned_resources.is_empty()) {
                    (true, _) => {}
                    (false, false) => status::gives_up(status, &failure.reason, &failure.message, now),
                    (false, true) => status::after(status, &failure.reason, &failure.message, retry, now),
                }
            })
            .await?;
        self.tell(&allocation, true, &failure.reason, &failure.message);
        Ok(allocation)
    }

    /// What a release was given and no longer lists was seen to be gone, also when it failed; everything else stays on
    /// record (R2.26).
    async fn take_release(
        &self,
        allocation: MachineAllocation,
        operation: &MachineOperation,
        ended: &MachineOperationStatus,
    ) -> Flow<MachineAllocation> {
        let target = ended.target.clone().unwrap_or_default();
        let given = target.input.and_then(|input| input.allocation).map(|input| input.owned_resources);
        let complete = ended.phase == Phase::Complete;
        let among = |list: &[OwnedResource], one: &OwnedResource| list.iter().any(|have| have.is(one));
        let released = |owned: &OwnedResource| {
            given.as_ref().is_some_and(|given| among(given, owned)) && !among(&ended.owned_resources, owned)
        };
        let reason = ended.reason.clone().unwrap_or_else(|| "Failed".to_owned());
        let message = match (complete, ended.message.clone().filter(|message| !message.is_empty())) {
            (true, _) => "resources were left behind".to_owned(),
            (false, message) => format!("{reason}: {}", message.unwrap_or_default()),
        };
        let (now, uid) = (self.now(), allocation.uid().unwrap_or_default());
        let releases = u32::try_from(state(&allocation).releases).unwrap_or_default();
        let again = add(now, backoff::after(releases, &uid));
        let allocation = self
            .put(allocation, |status| {
                status.operation_ended = true;
                status.owned_resources.retain(|owned| !released(owned));
                add_owned(&mut status.owned_resources, &ended.owned_resources);
                if !status.owned_resources.is_empty() {
                    status::release_failed(status, &waits::release_failed(&message, again), now);
                }
            })
            .await?;
        match state(&allocation).owned_resources.is_empty() {
            true => self.tell(&allocation, false, "ResourcesReleased", &operation.name_any()),
            false => self.tell(&allocation, true, waits::RELEASE_FAILED, &message),
        }
        Ok(allocation)
    }

    /// Somebody took the operation away by force, and its journal with it: what its machine knows is all there is.
    pub(super) async fn take_vanished(&self, allocation: MachineAllocation) -> Flow<MachineAllocation> {
        let kind = state(&allocation).operation_ref.map(|reference| reference.kind).unwrap_or_default();
        let known = self.owned_by_machine(&allocation).await?;
        let message =
            "the operation was removed by force; what it had recorded only there is lost".to_owned();
        if kind == HOST_ALLOCATE {
            let failure = Failure { reason: "OperationVanished".to_owned(), message };
            return self.take_failure(allocation, known, failure).await;
        }
        let (now, uid) = (self.now(), allocation.uid().unwrap_or_default());
        let releases = u32::try_from(state(&allocation).releases).unwrap_or_default();
        let wait = waits::release_failed(&message, add(now, backoff::after(releases, &uid)));
        self.put(allocation, |status| {
            status.operation_ended = true;
            status::release_failed(status, &wait, now);
        })
        .await
    }

    /// The operation that the status names was never made, and no host is wanted.
    pub(super) async fn never_made(&self, allocation: MachineAllocation) -> Flow<MachineAllocation> {
        let known = self.owned_by_machine(&allocation).await?;
        self.put(allocation, |status| {
            status.operation_ended = true;
            add_owned(&mut status.owned_resources, &known);
        })
        .await
    }

    /// What the allocation's Machine lists as owned.
    pub(super) async fn owned_by_machine(&self, allocation: &MachineAllocation) -> Flow<Vec<OwnedResource>> {
        let machine = self.deps.api::<Machine>().get_opt(&machine_name(allocation)).await?;
        let ours = machine.filter(|machine| is_ours(allocation, machine));
        Ok(ours.and_then(|machine| machine.status).unwrap_or_default().owned_resources)
    }
}
