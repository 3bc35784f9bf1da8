//! The allocation controller: makes a `MachineAllocation` into a `Machine` with a host, and releases what it owns.
//!
//! One step at a time, everything re-read, every write a compare-and-swap. Hosts are made and released by the operations
//! HostAllocate and HostRelease alone; what those have recorded as owned is taken over in one write before anything else
//! is done, and nothing that isn't recorded is ever released (R2.26, R2.27).

mod choose;
mod claim;
mod end;
mod exhausted;
mod launch;
mod machine;
mod operation;
mod orphan;
mod plan;
mod quantity;
mod quarantine;
mod release;
mod run;
mod status;
mod waits;

use std::sync::Arc;

use holdfast_api::{
    ALLOCATION_FINALIZER, AllocationPhase, MachineAllocation, MachineAllocationStatus, MachineOperation,
    OwnedResource,
};
use jiff::Timestamp;
use kube::{Api, ResourceExt as _};

use crate::capacity::{CapacityDeps, Flow, Wait, step};
use crate::clock::{add, until};
use crate::operations::{Next, StepError, planned_zone};
use exhausted::{Exhausted, Place};
use quarantine::Quarantine;

/// The controller.
pub(crate) struct Allocations {
    deps: Arc<CapacityDeps>,
    api: Api<MachineAllocation>,
    exhausted: Exhausted,
    quarantine: Quarantine,
    /// Since when this daemon remembers what had no capacity.
    started: Timestamp,
    takeovers: orphan::Takeovers,
}

impl Allocations {
    pub(crate) fn new(deps: Arc<CapacityDeps>) -> Self {
        Self {
            api: deps.api(),
            started: deps.now(),
            deps,
            exhausted: Exhausted::default(),
            quarantine: Quarantine::default(),
            takeovers: Default::default(),
        }
    }

    fn now(&self) -> Timestamp {
        self.deps.now()
    }

    /// Takes one step with the allocation of a name.
    ///
    /// # Errors
    /// When the API doesn't answer or this daemon may not write; nothing is lost.
    pub(crate) async fn reconcile(&self, name: &str) -> Result<Next, StepError> {
        let Some(allocation) = self.api.get_opt(name).await? else {
            self.deps.index.allocation_gone(name);
            return Ok(Next::Done);
        };
        self.deps.index.allocation_seen(&allocation);
        let held = allocation.finalizers().iter().any(|one| one == ALLOCATION_FINALIZER);
        // Under somebody else's finalizer only: nothing was made, or all is released.
        if allocation.metadata.deletion_timestamp.is_some() && !held {
            return Ok(Next::Done);
        }
        step(Box::pin(self.run(allocation)).await)
    }

    /// Takes one step with a machine that names a class, or that was made for an allocation.
    ///
    /// # Errors
    /// As above.
    pub(crate) async fn reconcile_machine(&self, name: &str) -> Result<Next, StepError> {
        step(Box::pin(self.claim(name)).await)
    }

    /// Changes the status. Nothing is written when nothing changes.
    async fn put(
        &self,
        mut allocation: MachineAllocation,
        change: impl FnOnce(&mut MachineAllocationStatus),
    ) -> Flow<MachineAllocation> {
        let old = allocation.status.clone();
        let mut new = old.clone().unwrap_or_default();
        new.observed_generation = allocation.metadata.generation;
        change(&mut new);
        if old.as_ref() == Some(&new) {
            return Ok(allocation);
        }
        let phase = old.as_ref().map(|old| old.phase);
        if phase != Some(new.phase) {
            self.deps.metrics.allocation(new.provider.as_deref().unwrap_or_default(), new.phase.as_str());
        }
        allocation.status = Some(new);
        let written = self.deps.put_status(&allocation).await?;
        self.deps.index.allocation_seen(&written);
        Ok(written)
    }

    /// Writes a wait, and says when to come back.
    async fn wait(&self, allocation: MachineAllocation, wait: Wait) -> Flow<Next> {
        let now = self.now();
        let known = state(&allocation).waiting.is_some_and(|waiting| waiting.reason == wait.reason);
        let allocation = self.put(allocation, |status| status::waits(status, &wait, now)).await?;
        if !known {
            self.deps.metrics.wait(wait.reason);
            if wait.warning {
                self.deps.events.about(&allocation, true, wait.reason, &wait.message, now);
            }
        }
        let next = wait.until.map_or(Next::Done, |at| Next::After(until(now, at)));
        Ok(self.not_past_deadline(&allocation, next))
    }

    fn tell(&self, allocation: &MachineAllocation, warning: bool, reason: &str, note: &str) {
        self.deps.events.about(allocation, warning, reason, note, self.now());
    }

    /// When an allocation without a host is given up.
    fn deadline(allocation: &MachineAllocation) -> Option<Timestamp> {
        let seconds = u64::try_from(allocation.spec.deadline_seconds?).ok()?;
        let created = allocation.creation_timestamp()?.0;
        let open = matches!(state(allocation).phase, AllocationPhase::Pending | AllocationPhase::Allocating);
        open.then(|| add(created, std::time::Duration::from_secs(seconds)))
    }

    /// Comes back no later than at the deadline.
    fn not_past_deadline(&self, allocation: &MachineAllocation, next: Next) -> Next {
        let left = Self::deadline(allocation).map(|deadline| until(self.now(), deadline));
        match (next, left) {
            (Next::After(after), Some(left)) => Next::After(after.min(left)),
            (Next::Done, Some(left)) => Next::After(left),
            (next, None) => next,
        }
    }

    /// Where the capacity of the chosen offering comes from.
    fn place(&self, status: &MachineAllocationStatus) -> Option<Place> {
        let offering = status.offering.as_ref()?;
        let (site, provider) = (status.site_name.as_deref()?, status.provider.as_deref()?);
        Some(self.place_of(offering, site, provider))
    }

    fn place_of(&self, offering: &holdfast_api::Offering, site: &str, provider: &str) -> Place {
        Place {
            provider: provider.to_owned(),
            account: self.account(site, provider),
            instance_type: offering.instance_type.clone(),
            zone: offering.zone.clone(),
        }
    }

    /// The account behind a site: the secret that its one credential names, else the site itself.
    fn account(&self, site: &str, provider: &str) -> String {
        let found = self.deps.credential_index.of(site, provider);
        let secret = match found.as_slice() {
            [one] => one.spec.auth.secret_ref.as_ref().map(|secret| secret.name.clone()),
            _ => None,
        };
        secret.unwrap_or_else(|| format!("site/{site}"))
    }

    /// Those who wait for a class are looked at, the oldest first and one after the other: what the first learns, the
    /// next knows.
    pub(crate) fn wake_waiting(&self, class: &str) {
        const APART: std::time::Duration = std::time::Duration::from_millis(5);
        const LAST: u32 = 6_000;
        let now = self.now();
        for (place, name) in (0_u32..).zip(self.deps.index.waiting_for(class)) {
            self.deps.queue.push(crate::queue::Key::Allocation(name), add(now, APART * place.min(LAST)));
        }
    }
}

/// The status of an allocation, or the one that it begins with.
fn state(allocation: &MachineAllocation) -> MachineAllocationStatus {
    allocation.status.clone().unwrap_or_default()
}

fn deleting(allocation: &MachineAllocation) -> bool {
    allocation.metadata.deletion_timestamp.is_some()
}

/// Adds resources that aren't there yet, by binding, kind and id.
fn add_owned<'a>(owned: &mut Vec<OwnedResource>, more: impl IntoIterator<Item = &'a OwnedResource>) {
    for one in more {
        if !owned.iter().any(|have| have.is(one)) {
            owned.push(one.clone());
        }
    }
}

/// What an operation has recorded as made: the union of what its effects created and what it lists as owned.
fn made_by(operation: &MachineOperation, owner: &str) -> Vec<OwnedResource> {
    let Some(status) = &operation.status else { return Vec::new() };
    let mut owned = Vec::new();
    add_owned(&mut owned, &status.owned_resources);
    let zone = planned_zone(status);
    let created: Vec<OwnedResource> = status
        .effects
        .iter()
        .flat_map(|effect| &effect.created)
        .map(|created| OwnedResource {
            binding: created.binding.clone(),
            kind: created.kind.clone(),
            id: created.id.clone(),
            zone: zone.clone(),
            owner: owner.to_owned(),
            place: created.place.clone(),
            incarnation: created.incarnation.clone(),
        })
        .collect();
    add_owned(&mut owned, &created);
    owned
}
