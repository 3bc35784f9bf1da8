//! The types of `capacity`, into the guest and, bounded, out of it.

use super::{option, state, text, wait};
use crate::bindings::capacity as wit;
use crate::halt::Halt;
use crate::limits;
use crate::shape::few;
use holdfast_effects as effects;

pub(crate) fn class_request(request: effects::ClassRequest) -> wit::ClassRequest {
    wit::ClassRequest {
        class_name: request.class_name,
        class_uid: request.class_uid,
        site_name: request.site_name,
        config: request.config,
    }
}

pub(crate) fn plan_request(request: effects::PlanRequest) -> wit::PlanRequest {
    wit::PlanRequest {
        allocation_name: request.allocation_name,
        allocation_uid: request.allocation_uid,
        host_name: request.host_name,
        config: request.config,
        offering: offering(request.offering),
    }
}

fn offering(offering: effects::ClassOffering) -> wit::Offering {
    wit::Offering {
        name: offering.name,
        instance_type: offering.instance_type,
        zone: offering.zone,
        resources: offering.resources,
        available: offering.available,
        valid_until: offering.valid_until,
        attributes: offering.attributes,
    }
}

pub(crate) fn allocation(allocation: effects::Allocation) -> wit::Allocation {
    wit::Allocation {
        name: allocation.name,
        uid: allocation.uid,
        class_name: allocation.class_name,
        class_uid: allocation.class_uid,
        host_name: allocation.host_name,
        offering: offering(allocation.offering),
        planned_provider_id: allocation.planned_provider_id,
        host_image: allocation.host_image,
    }
}

pub(crate) fn owned(owned: Vec<effects::OwnedResource>) -> Vec<wit::OwnedResource> {
    let one = |one: effects::OwnedResource| wit::OwnedResource { kind: one.kind, id: one.id, zone: one.zone };
    owned.into_iter().map(one).collect()
}

pub(crate) fn offerings_back(offerings: Vec<wit::Offering>) -> Result<Vec<effects::ClassOffering>, Halt> {
    few("offerings", offerings.len(), limits::OFFERINGS)?;
    offerings.into_iter().map(offering_back).collect()
}

fn offering_back(offering: wit::Offering) -> Result<effects::ClassOffering, Halt> {
    Ok(effects::ClassOffering {
        name: text("an offering's name", offering.name, limits::WORD)?,
        instance_type: text("an instance type", offering.instance_type, limits::WORD)?,
        zone: option("a zone", offering.zone, limits::WORD)?,
        resources: pairs("resources", offering.resources)?,
        available: offering.available,
        valid_until: text("a time", offering.valid_until, limits::WORD)?,
        attributes: pairs("attributes", offering.attributes)?,
    })
}

fn pairs(what: &str, pairs: Vec<(String, String)>) -> Result<Vec<(String, String)>, Halt> {
    few(what, pairs.len(), limits::PAIRS)?;
    let one =
        |(name, value)| Ok((text("a name", name, limits::WORD)?, text("a value", value, limits::WORD)?));
    pairs.into_iter().map(one).collect()
}

pub(crate) fn plan_back(plan: wit::Plan) -> Result<effects::Plan, Halt> {
    Ok(effects::Plan {
        provider_id: text("a planned locator", plan.provider_id, limits::WORD)?,
        host_image: text("a planned image", plan.host_image, limits::WORD)?,
    })
}

pub(crate) fn allocate_poll_back(
    result: wit::AllocatePollResult,
) -> Result<effects::AllocatePollResult, Halt> {
    Ok(effects::AllocatePollResult {
        state: state(result.state)?,
        result: result.result.map(allocation_result_back).transpose()?,
        owned_resources: owned_back(result.owned_resources)?,
        reason: text("a reason", result.reason, limits::WORD)?,
        message: text("a message", result.message, limits::MESSAGE)?,
        requeue_after_ms: wait(result.requeue_after),
    })
}

fn allocation_result_back(result: wit::AllocationResult) -> Result<effects::AllocationResult, Halt> {
    Ok(effects::AllocationResult {
        provider_resource_id: text("a resource ID", result.provider_resource_id, limits::WORD)?,
        provider_id: option("a provider ID", result.provider_id, limits::WORD)?,
        instance_type: text("an instance type", result.instance_type, limits::WORD)?,
        zone: option("a zone", result.zone, limits::WORD)?,
        image: option("an image", result.image, limits::WORD)?,
    })
}

pub(crate) fn release_poll_back(result: wit::ReleasePollResult) -> Result<effects::ReleasePollResult, Halt> {
    Ok(effects::ReleasePollResult {
        state: state(result.state)?,
        remaining: owned_back(result.remaining)?,
        reason: text("a reason", result.reason, limits::WORD)?,
        message: text("a message", result.message, limits::MESSAGE)?,
        requeue_after_ms: wait(result.requeue_after),
    })
}

fn owned_back(owned: Vec<wit::OwnedResource>) -> Result<Vec<effects::OwnedResource>, Halt> {
    few("owned resources", owned.len(), limits::OWNED)?;
    let one = |one: wit::OwnedResource| {
        Ok(effects::OwnedResource {
            kind: text("a resource's kind", one.kind, limits::WORD)?,
            id: text("a resource's id", one.id, limits::WORD)?,
            zone: option("a zone", one.zone, limits::WORD)?,
        })
    };
    owned.into_iter().map(one).collect()
}
