//! The end of a HostRelease, and what it has released so far.
//!
//! `status.ownedResources` of a release begins as the frozen list and shrinks as the host sees things gone; what is left
//! in it at the end is what another release must act on.

use holdfast_api::{EffectKind, EffectState, MachineOperationStatus, OperationResult, OwnedResource};
use holdfast_effects::{self as fx, Owned};

use super::allocation::Role;
use super::call::{self, Called};
use super::case::Case;
use super::status::{self, target};
use super::{Run, Step};
use crate::machines::{Change, MachineError};

impl Case<'_> {
    fn recorded(&self) -> &[OwnedResource] {
        self.input.allocation.as_ref().map_or(&[], |input| &input.owned_resources)
    }

    /// What a release may still act on: what is left, and what it destroyed itself, which it may look at again and
    /// whose destruction the journal proves. What was merely seen to be gone may be somebody else's by now.
    pub(super) fn releasable(&self) -> Vec<OwnedResource> {
        let operation = self.record.latest();
        let status = operation.status.clone().unwrap_or_default();
        let destroyed = |one: &OwnedResource| {
            status.effects.iter().any(|effect| {
                effect.effect == EffectKind::Destroy
                    && effect.state == EffectState::Done
                    && effect.targets.iter().any(|target| {
                        target.binding == one.binding && target.kind == one.kind && target.id == one.id
                    })
            })
        };
        let of = |one: &&OwnedResource| status.owned_resources.contains(one) || destroyed(one);
        self.recorded().iter().filter(of).cloned().collect()
    }

    /// The machine's list without what is released.
    pub(super) fn released_from_machine(&self, left: &[OwnedResource]) -> Change {
        let gone = self.recorded().iter().filter(|one| !left.contains(one));
        Change { released: gone.map(|one| (one.kind.clone(), one.id.clone())).collect(), ..Change::default() }
    }

    /// Says in the result of a release what it could not remove.
    pub(super) fn leave_remaining(&self, status: &mut MachineOperationStatus) {
        let left = status.owned_resources.clone();
        if self.role == Role::Release
            && let Some(target) = status.target.as_mut()
        {
            target.result = Some(OperationResult { remaining: left, ..OperationResult::default() });
        }
    }
}

impl Run<'_> {
    /// The provider has released everything, and the host has seen it. Machine first, then result and Complete in one
    /// write.
    pub(super) async fn released(&self, called: &Called) -> Step {
        if let Some(key) = self.doubtful() {
            let message = format!("the work is done, but what became of the effect {key} isn't known");
            return self.outcome_unknown(&message, Some(called)).await;
        }
        let operation = self.record.latest();
        let mut seen = operation.status.clone().unwrap_or_default();
        status::release(&mut seen, &called.released);
        self.leave_machine(self.released_from_machine(&seen.owned_resources)).await?;
        let generation = self.machine_generation().await?;
        let now = self.now();
        let operation = self
            .record
            .update(|operation, status| {
                status.observed_generation = operation.metadata.generation;
                call::record(status, Some(called), now);
                self.leave_remaining(status);
                status::complete(status, generation, now);
            })
            .await?;
        self.ops.announce_end(&operation);
        self.ops.ended(&self.record).await
    }

    async fn machine_generation(&self) -> Result<i64, kube::Error> {
        let operation = self.record.latest();
        let Some(target) = target(&operation) else { return Ok(self.input.machine_generation) };
        match self.ops.machines.set_provider_id(&target.machine_ref.name, &target.machine_uid, None).await {
            Ok(generation) => Ok(generation),
            Err(MachineError::Api(error)) => Err(error),
            // Gone with the allocation, or made anew.
            Err(_) => Ok(self.input.machine_generation),
        }
    }
}

/// A resource as the effects room knows it.
pub(super) fn owned_of(one: &OwnedResource) -> Owned {
    let known = Owned::new(&one.binding, &one.kind, &one.id);
    Owned { place: one.place.clone(), incarnation: one.incarnation.clone(), ..known }
}

/// A resource in a guest's words.
pub(super) fn guest_owned(one: &OwnedResource) -> fx::OwnedResource {
    fx::OwnedResource { kind: one.kind.clone(), id: one.id.clone(), zone: one.zone.clone() }
}
