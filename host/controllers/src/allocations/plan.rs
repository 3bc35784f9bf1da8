//! The question for the planned identity of a host. It reaches nothing, and the same question has the same answer
//! (R2.24): what was planned is written once and never asked for again.

use holdfast_api::{MachineAllocation, MachineClass, Offering};
use holdfast_effects::{Callback, ClassOffering, Owner, OwnerKind, Phase, Plan, PlanRequest, Returned};
use kube::ResourceExt as _;

use super::{Allocations, state};
use crate::capacity::Trouble;
use crate::capacity_index::machine_name;
use crate::clock::rfc3339;
use crate::rooms::ProviderModule;

impl Allocations {
    pub(super) async fn plan(
        &self,
        allocation: &MachineAllocation,
        class: &MachineClass,
        offering: &Offering,
        module: &dyn ProviderModule,
    ) -> Result<Plan, Trouble> {
        let uid = allocation.uid().unwrap_or_default();
        let config = class.status.as_ref().and_then(|status| status.config.clone()).unwrap_or_default();
        let owner = Owner { kind: OwnerKind::Allocation, uid: uid.clone() };
        let timeout = self.deps.settings.poll_timeout;
        let mut context = self.deps.context(module, Phase::Pure, owner, &class.spec.site_name, timeout);
        context.attempt = u32::try_from(state(allocation).attempt).unwrap_or_default();
        context.config.clone_from(&config);
        context.host_name = Some(machine_name(allocation));
        context.offering = Some(holdfast_effects::Offering {
            instance_type: offering.instance_type.clone(),
            zone: offering.zone.clone(),
        });
        let request = PlanRequest {
            allocation_name: allocation.name_any(),
            allocation_uid: uid,
            host_name: machine_name(allocation),
            config: config.into_iter().collect(),
            offering: shown(offering),
        };
        match self.deps.ask(module, "plan-allocation", context, Callback::PlanAllocation { request }).await? {
            Returned::PlanAllocation(Ok(plan)) => Ok(plan),
            Returned::PlanAllocation(Err(failure)) => Err(Trouble::told(failure, "PlanFailed")),
            _ => Err(Trouble::wrong_answer()),
        }
    }
}

/// An offering as a guest is shown it.
fn shown(offering: &Offering) -> ClassOffering {
    ClassOffering {
        name: offering.name.clone(),
        instance_type: offering.instance_type.clone(),
        zone: offering.zone.clone(),
        resources: offering.resources.clone().into_iter().collect(),
        available: offering.available,
        valid_until: rfc3339(offering.valid_until.0),
        attributes: offering.attributes.clone().into_iter().collect(),
    }
}
