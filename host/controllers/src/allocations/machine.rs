//! The Machine of an allocation: made before the host, with the planned identity. Each side names the other by uid, so
//! that a Machine of other hands is never taken for ours, nor written to.

use std::collections::BTreeMap;

use holdfast_api::allocation::{ALLOCATION_UID_ANNOTATION, MACHINE_UID_ANNOTATION};
use holdfast_api::{
    ALLOCATION_FINALIZER, ExternalHost, Host, Machine, MachineAllocation, MachineSpec, SITE_LABEL,
};
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{Allocations, deleting, state, waits};
use crate::capacity::{Flow, Stop};
use crate::capacity_index::machine_name;
use crate::operations::StepError;

impl Allocations {
    /// The allocation's Machine, made if it isn't there. With `planned` it gets the planned identity: only while nothing
    /// was launched.
    pub(super) async fn machine(
        &self,
        allocation: MachineAllocation,
        planned: bool,
    ) -> Flow<(MachineAllocation, Machine)> {
        let machine = match self.deps.api::<Machine>().get_opt(&machine_name(&allocation)).await? {
            Some(machine) if is_ours(&allocation, &machine) => machine,
            Some(_) => {
                let wait = waits::machine_not_ours(&machine_name(&allocation));
                return Err(Stop::Until(self.wait(allocation, wait).await?));
            }
            None if claimed_uid(&allocation).is_some() && !deleting(&allocation) => {
                return self.end_with_machine(&allocation).await;
            }
            None => self.make_machine(&allocation).await?,
        };
        if machine.metadata.deletion_timestamp.is_some() && !deleting(&allocation) {
            return self.end_with_machine(&allocation).await;
        }
        let machine = if planned { self.shape(&allocation, machine).await? } else { machine };
        let machine = self.mark(&allocation, machine).await?;
        Ok((allocation, machine))
    }

    /// The Machine goes, and the allocation with it.
    async fn end_with_machine<T>(&self, allocation: &MachineAllocation) -> Flow<T> {
        self.tell(allocation, false, "MachineDeleted", "the machine was deleted; the allocation is released");
        self.deps.delete(allocation).await?;
        Err(Stop::Again)
    }

    async fn make_machine(&self, allocation: &MachineAllocation) -> Flow<Machine> {
        let status = state(allocation);
        let (site, uid) =
            (status.site_name.clone().unwrap_or_default(), allocation.uid().unwrap_or_default());
        let spec = MachineSpec {
            host: planned_host(allocation)?,
            user_data: allocation.spec.user_data.clone(),
            ..MachineSpec::default()
        };
        let mut machine = Machine::new(&machine_name(allocation), spec);
        let mut labels = allocation.spec.machine_labels.clone();
        labels.insert(SITE_LABEL.to_owned(), site);
        machine.metadata.labels = Some(labels);
        machine.metadata.annotations = Some(BTreeMap::from([(ALLOCATION_UID_ANNOTATION.to_owned(), uid)]));
        machine.metadata.finalizers = Some(vec![ALLOCATION_FINALIZER.to_owned()]);
        self.deps.may_write()?;
        let made = match self.deps.api().create(&PostParams::default(), &machine).await {
            Ok(made) => made,
            Err(kube::Error::Api(refusal)) if matches!(refusal.code, 400 | 422) => {
                let wait = waits::machine_refused(&refusal.message);
                return Err(Stop::Until(self.wait(allocation.clone(), wait).await?));
            }
            Err(error) => return Err(error.into()),
        };
        self.tell(allocation, false, "MachineMade", &format!("machine {}", machine_name(allocation)));
        Ok(made)
    }

    /// Gives a Machine the planned identity, and the marks by which it is held.
    async fn shape(&self, allocation: &MachineAllocation, machine: Machine) -> Flow<Machine> {
        let site = state(allocation).site_name.unwrap_or_default();
        if let Some(other) = machine.labels().get(SITE_LABEL).filter(|other| **other != site) {
            let wait = waits::other_site(&machine.name_any(), other, &site);
            return Err(Stop::Until(self.wait(allocation.clone(), wait).await?));
        }
        let wanted = planned_host(allocation)?;
        let marked = machine.annotations().get(ALLOCATION_UID_ANNOTATION) == allocation.uid().as_ref()
            && machine.labels().contains_key(SITE_LABEL)
            && machine.finalizers().iter().any(|one| one == ALLOCATION_FINALIZER);
        if machine.spec.host == wanted && marked {
            return Ok(machine);
        }
        let mut finalizers = machine.finalizers().to_vec();
        if !finalizers.iter().any(|one| one == ALLOCATION_FINALIZER) {
            finalizers.push(ALLOCATION_FINALIZER.to_owned());
        }
        let external = &wanted.external;
        let patch = json!({
            "metadata": {
                "annotations": { ALLOCATION_UID_ANNOTATION: allocation.uid() },
                "labels": { SITE_LABEL: site },
                "finalizers": finalizers,
            },
            "spec": { "host": {
                "external": { "provider": external.provider, "providerID": external.provider_id, "machineRef": Value::Null },
                "image": wanted.image,
            } },
        });
        self.deps.patch(&machine, patch).await
    }

    /// The Machine's status names the allocation.
    async fn mark(&self, allocation: &MachineAllocation, mut machine: Machine) -> Flow<Machine> {
        let name = allocation.name_any();
        let status = machine.status.get_or_insert_default();
        if status.allocation.as_ref() == Some(&name) {
            return Ok(machine);
        }
        status.allocation = Some(name);
        self.deps.put_status(&machine).await
    }

    /// Everything is released: what was made for the allocation goes, and a Machine that goes may go.
    pub(super) async fn part_from_machine(&self, allocation: &MachineAllocation) -> Flow<()> {
        let Some(mut machine) = self.deps.api::<Machine>().get_opt(&machine_name(allocation)).await? else {
            return Ok(());
        };
        if !is_ours(allocation, &machine) {
            return Ok(());
        }
        let made_here = machine.spec.class_ref.is_none();
        if made_here && machine.metadata.deletion_timestamp.is_none() {
            self.deps.delete(&machine).await?;
            let Some(now) = self.deps.api::<Machine>().get_opt(&machine_name(allocation)).await? else {
                return Ok(());
            };
            machine = now;
            if !is_ours(allocation, &machine) {
                return Ok(());
            }
        }
        if machine.metadata.deletion_timestamp.is_some() {
            self.deps.set_finalizer(&machine, ALLOCATION_FINALIZER, false).await?;
        }
        Ok(())
    }
}

/// Uid of the Machine with `spec.classRef` that an allocation was made for.
pub(super) fn claimed_uid(allocation: &MachineAllocation) -> Option<&String> {
    allocation.annotations().get(MACHINE_UID_ANNOTATION)
}

/// Whether a Machine is the allocation's: made for it, or the one that it was made for. Anybody who makes an allocation
/// may write a Machine's uid on it, so that the claim counts under the Machine's own name alone, which is taken once the
/// daemon has made the allocation: another one would move that Machine's host, and release what it owns.
pub(super) fn is_ours(allocation: &MachineAllocation, machine: &Machine) -> bool {
    let named = machine.annotations().get(ALLOCATION_UID_ANNOTATION);
    if named.is_some() && named == allocation.uid().as_ref() {
        return true;
    }
    let claimed = claimed_uid(allocation);
    claimed.is_some()
        && claimed == machine.uid().as_ref()
        && allocation.name_any() == machine.name_any()
        && machine.spec.class_ref.is_some()
}

/// The host as it is known: confirmed, or else planned.
fn planned_host(allocation: &MachineAllocation) -> Flow<Host> {
    let status = state(allocation);
    let (Some(provider), Some(plan)) = (status.provider, status.plan) else {
        let message = "the allocation has no plan, and no machine can be made without".to_owned();
        return Err(Stop::Failed(StepError::Later(message)));
    };
    Ok(Host {
        external: ExternalHost {
            provider,
            provider_id: Some(status.provider_id.unwrap_or(plan.provider_id)),
            machine_ref: None,
        },
        image: Some(plan.host_image).filter(|image| !image.trim().is_empty()),
    })
}
