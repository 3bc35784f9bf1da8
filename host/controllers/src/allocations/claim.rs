//! Machines with `spec.classRef`: the daemon makes an allocation of the same name for each, and deletes it when the
//! Machine is deleted. Deleting a Machine that was made for an allocation deletes that allocation too: either way the
//! host goes with its Machine.

use std::collections::BTreeMap;

use holdfast_api::allocation::{MACHINE_ANNOTATION, MACHINE_UID_ANNOTATION};
use holdfast_api::{
    ALLOCATION_FINALIZER, ClassReference, ConditionStatus, Machine, MachineAllocation, MachineAllocationSpec,
    NewCondition, conditions,
};
use kube::ResourceExt as _;
use kube::api::PostParams;

use super::machine::{claimed_uid, is_ours};
use super::{Allocations, deleting};
use crate::capacity::{Flow, Stop};
use crate::clock::stamp;
use crate::operations::Next;

/// Condition of a Machine with a class: whether it has an allocation.
const HAS_ALLOCATION: &str = "HasAllocation";

impl Allocations {
    pub(super) async fn claim(&self, name: &str) -> Flow<Next> {
        let Some(machine) = self.deps.api::<Machine>().get_opt(name).await? else {
            return Ok(Next::Done);
        };
        if machine.metadata.deletion_timestamp.is_some() {
            return self.machine_goes(machine).await;
        }
        let Some(class) = machine.spec.class_ref.clone() else { return Ok(Next::Done) };
        if !self.class_in_scope(&class.name) {
            return Ok(Next::Done);
        }
        // Before there is anything to be released: the Machine can't vanish under its allocation.
        let written = self.deps.set_finalizer(&machine, ALLOCATION_FINALIZER, true).await?;
        let machine = written.unwrap_or(machine);
        match self.deps.api::<MachineAllocation>().get_opt(name).await? {
            None => {
                self.make_allocation(&machine, &class).await?;
                Ok(Next::Done)
            }
            Some(allocation) if is_ours(&allocation, &machine) => {
                self.say(machine, ConditionStatus::True, "AllocationFound", "").await
            }
            // Of an earlier Machine of this name, which is gone: the watch tells when its allocation is gone too.
            Some(allocation) if claimed_uid(&allocation).is_some() => {
                if !deleting(&allocation) {
                    self.deps.delete(&allocation).await?;
                }
                let message = "the allocation of an earlier machine of this name is being released first";
                self.say(machine, ConditionStatus::False, "EarlierAllocation", message).await
            }
            Some(_) => {
                let message = format!(
                    "there is a MachineAllocation {name} that was not made for this machine; rename one of the two"
                );
                self.say(machine, ConditionStatus::False, "AllocationNotOurs", &message).await
            }
        }
    }

    fn class_in_scope(&self, class: &str) -> bool {
        match self.deps.index.class(class) {
            Some(class) => self.deps.in_scope(&class.spec.site_name, &class.spec.provider),
            None => self.deps.scope == crate::operations::Scope::default(),
        }
    }

    async fn make_allocation(&self, machine: &Machine, class: &ClassReference) -> Flow<()> {
        let name = machine.name_any();
        let spec = MachineAllocationSpec {
            class_ref: class.clone(),
            user_data: machine.spec.user_data_source(),
            ..MachineAllocationSpec::default()
        };
        let mut allocation = MachineAllocation::new(&name, spec);
        allocation.metadata.finalizers = Some(vec![ALLOCATION_FINALIZER.to_owned()]);
        allocation.metadata.annotations = Some(BTreeMap::from([
            (MACHINE_ANNOTATION.to_owned(), name.clone()),
            (MACHINE_UID_ANNOTATION.to_owned(), machine.uid().unwrap_or_default()),
        ]));
        self.deps.may_write()?;
        let made = match self.deps.api().create(&PostParams::default(), &allocation).await {
            Ok(made) => made,
            Err(error) if crate::is_status(&error, 409) => return Err(Stop::Again),
            Err(error) => return Err(error.into()),
        };
        self.deps.index.allocation_seen(&made);
        self.deps.events.about(machine, false, "AllocationMade", &format!("allocation {name}"), self.now());
        Ok(())
    }

    /// A Machine that is deleted: its allocation goes first.
    async fn machine_goes(&self, machine: Machine) -> Flow<Next> {
        if !machine.finalizers().iter().any(|one| one == ALLOCATION_FINALIZER) {
            return Ok(Next::Done);
        }
        let named = machine.status.as_ref().and_then(|status| status.allocation.clone());
        let mut names = self.deps.index.of_machine(&machine.name_any());
        names.extend(named);
        names.push(machine.name_any());
        names.sort();
        names.dedup();
        for name in names {
            let found = self.deps.api::<MachineAllocation>().get_opt(&name).await?;
            let Some(allocation) = found.filter(|allocation| is_ours(allocation, &machine)) else { continue };
            if !deleting(&allocation) {
                self.deps.delete(&allocation).await?;
            }
            // It takes our finalizer off the Machine when everything is released.
            return Ok(Next::Done);
        }
        self.deps.set_finalizer(&machine, ALLOCATION_FINALIZER, false).await?;
        Ok(Next::Done)
    }

    /// Says on the Machine how it stands with its allocation. That all is well is said only where it was not.
    async fn say(
        &self,
        mut machine: Machine,
        value: ConditionStatus,
        reason: &'static str,
        message: &str,
    ) -> Flow<Next> {
        let now = self.now();
        let observed_generation = machine.metadata.generation;
        let status = machine.status.get_or_insert_default();
        let old = conditions::find(&status.conditions, HAS_ALLOCATION);
        let same = old.is_some_and(|old| old.status == value.as_str() && old.reason == reason);
        if same || (value == ConditionStatus::True && old.is_none()) {
            return Ok(Next::Done);
        }
        let new = NewCondition { type_: HAS_ALLOCATION, status: value, reason, message, observed_generation };
        conditions::set(&mut status.conditions, new, stamp(now));
        let machine = self.deps.put_status(&machine).await?;
        if value != ConditionStatus::True {
            self.deps.events.about(&machine, true, reason, message, now);
        }
        Ok(Next::Done)
    }
}
