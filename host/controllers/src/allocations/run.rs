//! One step with one allocation: what its operation says comes first, then what a person asks for, then the next thing
//! to do.

use holdfast_api::{
    ALLOCATION_FINALIZER, AllocationPhase, MachineAllocation, MachineOperation, OperationReference, Phase,
};
use kube::ResourceExt as _;
use serde_json::json;

use super::operation::Found;
use super::{Allocations, deleting, state, status, waits};
use crate::capacity::{Flow, HOST_ALLOCATE, Stop};
use crate::index::{lacks_credentials, phase};
use crate::operations::Next;

impl Allocations {
    pub(super) async fn run(&self, allocation: MachineAllocation) -> Flow<Next> {
        if !self.served(&allocation) {
            return Ok(Next::Done);
        }
        let allocation = Box::pin(self.settle_operation(allocation)).await?;
        let phase = state(&allocation).phase;
        if deleting(&allocation) || phase == AllocationPhase::Releasing {
            return Box::pin(self.release(allocation)).await;
        }
        match phase {
            AllocationPhase::Pending | AllocationPhase::Allocating => {
                if let Some(named) = allocation.spec.release_orphan.clone() {
                    return Box::pin(self.take_orphan(allocation, &named)).await;
                }
                if self.past_deadline(&allocation) {
                    return self.give_up_unlaunched(allocation).await;
                }
                Box::pin(self.launch(allocation)).await
            }
            AllocationPhase::Allocated => self.keep(allocation).await,
            AllocationPhase::Failed | AllocationPhase::Released | AllocationPhase::Releasing => {
                Ok(Next::Done)
            }
        }
    }

    /// Whether the site and the provider that were chosen are served here. Before that nothing was made.
    fn served(&self, allocation: &MachineAllocation) -> bool {
        let status = state(allocation);
        let chosen = status.site_name.zip(status.provider);
        chosen.is_none_or(|(site, provider)| self.deps.in_scope(&site, &provider))
    }

    /// The finalizer stands before anything is made.
    pub(super) async fn held(&self, allocation: MachineAllocation) -> Flow<MachineAllocation> {
        let written = self.deps.set_finalizer(&allocation, ALLOCATION_FINALIZER, true).await?;
        Ok(written.unwrap_or(allocation))
    }

    /// Nothing is under way afterwards; or the step ends here.
    async fn settle_operation(&self, allocation: MachineAllocation) -> Flow<MachineAllocation> {
        let status = state(&allocation);
        let Some(reference) = &status.operation_ref else { return Ok(allocation) };
        if status.operation_ended {
            self.let_go(&allocation, reference).await?;
            return Ok(allocation);
        }
        let unwanted = reference.kind == HOST_ALLOCATE && self.unwanted(&allocation);
        match self.find(&allocation, reference).await? {
            Found::Ours(operation) => Box::pin(self.follow(allocation, reference, *operation)).await,
            Found::NotMade | Found::NameTaken if unwanted => self.never_made(allocation).await,
            Found::NotMade => Err(Stop::Until(self.make(allocation).await?)),
            Found::NameTaken => Err(Stop::Until(self.rename(allocation).await?)),
            Found::Vanished => self.take_vanished(allocation).await,
        }
    }

    /// Whether no host is wanted any more.
    fn unwanted(&self, allocation: &MachineAllocation) -> bool {
        deleting(allocation)
            || state(allocation).phase == AllocationPhase::Releasing
            || self.past_deadline(allocation)
    }

    /// An operation that is there is followed to its end.
    async fn follow(
        &self,
        allocation: MachineAllocation,
        reference: &OperationReference,
        operation: MachineOperation,
    ) -> Flow<MachineAllocation> {
        let (now, phase) = (self.now(), phase(&operation));
        if phase.is_terminal() {
            let allocation = self.take_end(allocation, &operation).await?;
            self.drop_finalizer(&operation).await?;
            return Ok(allocation);
        }
        let allocation = self.named(allocation, &operation).await?;
        if phase == Phase::OutcomeUnknown {
            let message =
                operation.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default();
            let wait = waits::outcome_unknown(&reference.name, &message);
            self.wait(allocation, wait).await?;
            return Err(Stop::Until(Next::Done));
        }
        let message = operation.status.as_ref().and_then(|status| status.message.as_deref());
        let lack = message
            .filter(|_| lacks_credentials(&operation))
            .map(|message| waits::no_credentials(&reference.name, message));
        if reference.kind != HOST_ALLOCATE {
            self.wait(allocation, lack.unwrap_or_else(|| waits::releasing(&reference.name))).await?;
            return Err(Stop::Until(Next::Done));
        }
        if !self.unwanted(&allocation) {
            let wait = lack.unwrap_or_else(|| waits::allocating(&reference.name));
            let next = self.wait(allocation, wait).await?;
            return Err(Stop::Until(next));
        }
        // Said before it is done, so that a host that comes nevertheless is released.
        let (reason, message) = match deleting(&allocation) {
            true => (status::DELETED, waits::DELETED),
            false => (status::DEADLINE_EXCEEDED, waits::DEADLINE),
        };
        let wait = waits::cancelling(&reference.name);
        self.put(allocation, |status| {
            if !status::given_up(status) {
                status::gives_up(status, reason, message, now);
            }
            status::waits(status, &wait, now);
        })
        .await?;
        self.cancel(&operation).await?;
        Err(Stop::Until(Next::Done))
    }

    async fn cancel(&self, operation: &MachineOperation) -> Flow<()> {
        if operation.spec.cancel {
            return Ok(());
        }
        self.deps.patch(operation, json!({ "spec": { "cancel": true } })).await.map(drop)
    }

    pub(super) fn past_deadline(&self, allocation: &MachineAllocation) -> bool {
        Self::deadline(allocation).is_some_and(|deadline| deadline <= self.now())
    }

    /// The deadline has passed, and nothing is under way.
    async fn give_up_unlaunched(&self, allocation: MachineAllocation) -> Flow<Next> {
        let now = self.now();
        if let Some(place) = self.place(&state(&allocation)) {
            self.exhausted.gave_up(&place, &allocation.uid().unwrap_or_default());
        }
        let allocation = self
            .put(allocation, |status| status::failed(status, status::DEADLINE_EXCEEDED, waits::DEADLINE, now))
            .await?;
        self.tell(&allocation, true, status::DEADLINE_EXCEEDED, waits::DEADLINE);
        Ok(Next::Done)
    }

    /// An allocation that has its host: its machine must be there, or there must be one to release the host by.
    async fn keep(&self, allocation: MachineAllocation) -> Flow<Next> {
        let (allocation, machine) = self.machine(allocation, false).await?;
        let now = self.now();
        self.put(allocation, |status| {
            status::belongs_to(status, &machine);
            status::allocated(status, now);
        })
        .await?;
        Ok(Next::Done)
    }
}
