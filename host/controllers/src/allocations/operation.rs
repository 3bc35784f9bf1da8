//! The operations of an allocation: made once under a name that is written first, held by a finalizer until their end is
//! taken over, and told from operations of other hands by uid.

use holdfast_api::allocation::ALLOCATION_UID_ANNOTATION;
use holdfast_api::{
    ALLOCATION_FINALIZER, AllocationReference, Machine, MachineAllocation, MachineOperation,
    MachineOperationSpec, MachineReference, OperationReference,
};
use kube::ResourceExt as _;
use kube::api::PostParams;

use super::{Allocations, state, status};
use crate::capacity::{Flow, HOST_ALLOCATE, Stop};
use crate::capacity_index::machine_name;
use crate::index::phase;
use crate::operations::Next;
use crate::queue::Key;

/// How long operations of allocations are kept after their end, for people to read: a week. Those that changed nothing
/// and were followed by another go sooner.
const KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;
/// Longest name of an object.
const MAX_NAME: usize = 253;

/// What is there under the name of an operation.
pub(super) enum Found {
    /// The operation.
    Ours(Box<MachineOperation>),
    /// Nothing, and the operation was never made.
    NotMade,
    /// An operation of other hands, and ours was never made.
    NameTaken,
    /// Ours was there, and was taken away by force.
    Vanished,
}

impl Allocations {
    /// Writes which operation is next; it is made from there on.
    pub(super) async fn begin(
        &self,
        allocation: MachineAllocation,
        machine: Option<&Machine>,
        kind: &'static str,
    ) -> Flow<Next> {
        let number = match kind {
            HOST_ALLOCATE => state(&allocation).attempt,
            _ => state(&allocation).releases + 1,
        };
        let plain = operation_name(&allocation, kind, number, false);
        let taken = self.deps.operations.knows(&plain);
        let name = if taken { operation_name(&allocation, kind, number, true) } else { plain };
        let (now, reference) = (self.now(), OperationReference { name, uid: None, kind: kind.to_owned() });
        let before = state(&allocation).operation_ref.filter(|before| before.kind == kind);
        let allocation = self
            .put(allocation, |status| {
                if let Some(machine) = machine {
                    status::belongs_to(status, machine);
                }
                status::begins(status, reference, now);
            })
            .await?;
        if let Some(before) = before {
            // One that failed and changed nothing is kept for less long from now on.
            self.deps.queue.push(Key::Operation(before.name), now);
        }
        self.make(allocation).await
    }

    /// Makes the operation that the status names.
    pub(super) async fn make(&self, allocation: MachineAllocation) -> Flow<Next> {
        let Some(reference) = state(&allocation).operation_ref else { return Err(Stop::Again) };
        self.deps.may_write()?;
        let operation = new_operation(&allocation, &reference);
        let made = match self.deps.api().create(&PostParams::default(), &operation).await {
            Ok(made) => made,
            // What stands there is looked at before anything else.
            Err(error) if crate::is_status(&error, 409) => return Err(Stop::Again),
            Err(error) => return Err(error.into()),
        };
        let verb = if reference.kind == HOST_ALLOCATE { "AllocateBegun" } else { "ReleaseBegun" };
        self.tell(&allocation, false, verb, &format!("operation {}", reference.name));
        let allocation = self.named(allocation, &made).await?;
        Ok(self.not_past_deadline(&allocation, Next::Done))
    }

    /// Takes another name for an operation whose name was taken meanwhile.
    pub(super) async fn rename(&self, allocation: MachineAllocation) -> Flow<Next> {
        let Some(old) = state(&allocation).operation_ref else { return Err(Stop::Again) };
        let status = state(&allocation);
        let number = if old.kind == HOST_ALLOCATE { status.attempt } else { status.releases };
        let name = operation_name(&allocation, &old.kind, number, true);
        if name == old.name {
            let wait = super::waits::name_taken(&name);
            return self
                .wait(allocation, wait)
                .await
                .map(|_| Next::After(self.deps.settings.stalled_interval));
        }
        let reference = OperationReference { name, uid: None, kind: old.kind };
        let allocation = self.put(allocation, |status| status.operation_ref = Some(reference)).await?;
        self.make(allocation).await
    }

    /// The status names the operation with its uid.
    pub(super) async fn named(
        &self,
        allocation: MachineAllocation,
        operation: &MachineOperation,
    ) -> Flow<MachineAllocation> {
        let uid = operation.uid();
        self.put(allocation, |status| {
            if let Some(reference) = status.operation_ref.as_mut() {
                reference.uid = uid;
            }
        })
        .await
    }

    /// What is there under the name.
    pub(super) async fn find(
        &self,
        allocation: &MachineAllocation,
        reference: &OperationReference,
    ) -> Flow<Found> {
        let found: Option<MachineOperation> = self.deps.api().get_opt(&reference.name).await?;
        Ok(match (found, &reference.uid) {
            (None, None) => Found::NotMade,
            (None, Some(_)) => Found::Vanished,
            (Some(found), Some(uid)) if found.uid().as_ref() == Some(uid) => Found::Ours(Box::new(found)),
            (Some(_), Some(_)) => Found::Vanished,
            (Some(found), None) if made_for(&found, allocation, &reference.kind) => {
                Found::Ours(Box::new(found))
            }
            (Some(_), None) => Found::NameTaken,
        })
    }

    /// An operation whose end was taken over may go. The index says whether it is still held.
    pub(super) async fn let_go(
        &self,
        allocation: &MachineAllocation,
        reference: &OperationReference,
    ) -> Flow<()> {
        if !self.deps.operations.held(&reference.name, ALLOCATION_FINALIZER) {
            return Ok(());
        }
        if let Found::Ours(operation) = self.find(allocation, reference).await?
            && phase(&operation).is_terminal()
        {
            self.drop_finalizer(&operation).await?;
        }
        Ok(())
    }

    pub(super) async fn drop_finalizer(&self, operation: &MachineOperation) -> Flow<()> {
        let written = self.deps.set_finalizer(operation, ALLOCATION_FINALIZER, false).await?;
        if let Some(written) = written {
            self.deps.operations.seen(std::sync::Arc::new(written));
        }
        Ok(())
    }
}

/// Whether this controller made an operation for this very allocation.
fn made_for(operation: &MachineOperation, allocation: &MachineAllocation, kind: &str) -> bool {
    operation.annotations().get(ALLOCATION_UID_ANNOTATION) == allocation.uid().as_ref()
        && operation.spec.operation_kind == kind
}

fn new_operation(allocation: &MachineAllocation, reference: &OperationReference) -> MachineOperation {
    let spec = MachineOperationSpec {
        machine_ref: Some(MachineReference { name: machine_name(allocation) }),
        operation_kind: reference.kind.clone(),
        allocation_ref: Some(AllocationReference { name: allocation.name_any() }),
        ttl_seconds_after_finished: Some(KEPT_SECONDS),
        ..MachineOperationSpec::default()
    };
    let mut operation = MachineOperation::new(&reference.name, spec);
    operation.metadata.finalizers = Some(vec![ALLOCATION_FINALIZER.to_owned()]);
    let uid = allocation.uid().unwrap_or_default();
    operation.metadata.annotations = Some([(ALLOCATION_UID_ANNOTATION.to_owned(), uid)].into());
    operation
}

/// `<allocation>-allocate-<attempt>` or `<allocation>-release-<n>`; with the end of the allocation's uid (its
/// beginning is a time) where an
/// operation of an earlier allocation of the name, or of other hands, has it.
fn operation_name(allocation: &MachineAllocation, kind: &str, number: i32, taken: bool) -> String {
    let verb = if kind == HOST_ALLOCATE { "allocate" } else { "release" };
    let uid = allocation.uid().unwrap_or_default();
    let mut tail = format!("-{verb}-{number}");
    if taken {
        tail.push('-');
        tail.push_str(&uid[uid.floor_char_boundary(uid.len().saturating_sub(8))..]);
    }
    let mut name = allocation.name_any();
    if name.len() + tail.len() > MAX_NAME {
        // Cut names of two allocations could be one.
        tail = format!("-{verb}-{number}-{uid}");
        name.truncate(name.floor_char_boundary(MAX_NAME - tail.len()));
        name.truncate(name.trim_end_matches(['-', '.']).len());
    }
    name + &tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::HOST_RELEASE;
    use holdfast_api::MachineAllocationSpec;

    fn allocation(name: &str) -> MachineAllocation {
        let mut allocation = MachineAllocation::new(name, MachineAllocationSpec::default());
        allocation.metadata.uid = Some("01932c3d-0000-7000-8000-00000a1b2c3d".to_owned());
        allocation
    }

    #[test]
    fn names_of_operations_are_told_beforehand_and_fit() {
        let short = allocation("web-1");
        assert_eq!(operation_name(&short, HOST_ALLOCATE, 2, false), "web-1-allocate-2");
        assert_eq!(operation_name(&short, HOST_RELEASE, 1, false), "web-1-release-1");
        assert_eq!(operation_name(&short, HOST_ALLOCATE, 2, true), "web-1-allocate-2-0a1b2c3d");
        let long = allocation(&"a".repeat(253));
        let name = operation_name(&long, HOST_ALLOCATE, 0, false);
        assert!(
            name.len() <= 253 && name.ends_with("-allocate-0-01932c3d-0000-7000-8000-00000a1b2c3d"),
            "{name}"
        );
    }
}
