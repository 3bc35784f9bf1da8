//! The release of what an allocation owns: with the recorded resources only, again and again until nothing is left, and
//! without any call when nothing is owned (2(e) 23).

use holdfast_api::{ALLOCATION_FINALIZER, AllocationPhase, MachineAllocation};
use kube::ResourceExt as _;

use super::{Allocations, add_owned, deleting, state, status, waits};
use crate::backoff;
use crate::capacity::{Flow, HOST_RELEASE};
use crate::clock::add;
use crate::operations::Next;

impl Allocations {
    pub(super) async fn release(&self, allocation: MachineAllocation) -> Flow<Next> {
        let allocation = self.releasing(allocation).await?;
        // A pause of the next launch is none of the release's.
        if let Some(left) = self.pause(&allocation, &[waits::RELEASE_FAILED]) {
            return Ok(Next::After(left));
        }
        if state(&allocation).owned_resources.is_empty() {
            return match deleting(&allocation) {
                true => self.dissolve(allocation).await,
                false => self.cleaned_up(allocation).await,
            };
        }
        // The allocation is the truth of what is to be released, whatever became of its Machine.
        self.begin(allocation, None, HOST_RELEASE).await
    }

    /// Enters Releasing once. What later operations on the machine have made for it goes with it.
    async fn releasing(&self, allocation: MachineAllocation) -> Flow<MachineAllocation> {
        let before = state(&allocation);
        if before.phase == AllocationPhase::Releasing {
            return Ok(allocation);
        }
        let of_machine = match before.plan {
            Some(_) => self.owned_by_machine(&allocation).await?,
            None => Vec::new(),
        };
        if before.owned_resources.is_empty() && of_machine.is_empty() {
            // Nothing to release: no write is worth telling of it.
            return Ok(allocation);
        }
        let now = self.now();
        self.put(allocation, |status| {
            add_owned(&mut status.owned_resources, &of_machine);
            status::gives_up(status, status::DELETED, waits::DELETED, now);
        })
        .await
    }

    /// What a failed attempt had made is released: the next offering, another try, or the end.
    async fn cleaned_up(&self, allocation: MachineAllocation) -> Flow<Next> {
        if let Some(orphan) = state(&allocation).orphan {
            return self.orphan_released(allocation, &orphan).await;
        }
        let (reason, message) = status::why_not_allocated(&state(&allocation));
        let (now, uid) = (self.now(), allocation.uid().unwrap_or_default());
        let attempt = u32::try_from(state(&allocation).attempt).unwrap_or_default();
        let retry = add(now, backoff::after(attempt + 1, &uid));
        self.put(allocation, |status| status::after(status, &reason, &message, retry, now)).await?;
        Ok(Next::NOW)
    }

    /// Nothing is owned: the Machine goes, and the allocation with it.
    async fn dissolve(&self, allocation: MachineAllocation) -> Flow<Next> {
        let uid = allocation.uid().unwrap_or_default();
        if let Some(place) = self.place(&state(&allocation))
            && self.exhausted.gave_up(&place, &uid)
        {
            self.wake_waiting(&allocation.spec.class_ref.name);
        }
        self.part_from_machine(&allocation).await?;
        self.tell(&allocation, false, "Released", "nothing is owned any more");
        self.deps.set_finalizer(&allocation, ALLOCATION_FINALIZER, false).await?;
        self.deps.counts.forget(&uid);
        Ok(Next::Done)
    }
}
