//! A `MachineAllocation`, explained.

use super::page::Page;
use holdfast_api::{MachineAllocation, TakenOrphan as Orphan};
use kube::ResourceExt as _;

/// Name of the operation that the allocation waits for, or that was its last.
pub(super) fn operation(allocation: &MachineAllocation) -> Option<&str> {
    Some(allocation.status.as_ref()?.operation_ref.as_ref()?.name.as_str())
}

pub(super) fn tell(page: &mut Page, allocation: &MachineAllocation) {
    let status = allocation.status.clone().unwrap_or_default();
    let reason = status.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    page.line(
        0,
        format!(
            "MachineAllocation {} from class {}: {}{reason}",
            allocation.name_any(),
            allocation.spec.class_ref.name,
            status.phase.as_str()
        ),
    );
    page.field(1, "says", status.message.as_ref());
    match (&status.orphan, &allocation.spec.release_orphan) {
        (Some(orphan), _) => {
            let (seen, taken) = (page.time(&orphan.first_seen), page.time(&orphan.taken_at));
            let Orphan { kind, id, token, .. } = orphan;
            page.line(
                1,
                format!(
                    "took over the orphan {kind} {id} at {taken}: seen since {seen}, bears the token {token}"
                ),
            );
        }
        (None, Some(orphan)) => {
            page.line(1, format!("asks for the release of the orphan {} {}", orphan.kind, orphan.id));
        }
        (None, None) => {}
    }
    if allocation.metadata.deletion_timestamp.is_some() {
        page.line(1, "is being deleted: it goes when everything that it owns is released");
    }
    page.waiting(status.waiting.as_ref());
    if let Some(offering) = &status.offering {
        let zone = offering.zone.as_ref().map(|zone| format!(" in zone {zone}")).unwrap_or_default();
        let until = page.time(&offering.valid_until);
        page.line(
            1,
            format!(
                "chose offering {}: {}{zone}, valid until {until}",
                offering.name, offering.instance_type
            ),
        );
    }
    for tried in &status.exhausted {
        let zone = tried.zone.as_ref().map(|zone| format!(" in zone {zone}")).unwrap_or_default();
        let (at, until) = (page.time(&tried.at), page.time(&tried.until));
        page.line(
            1,
            format!(
                "offering {}{zone} had no capacity at {at} ({}); not tried until {until}",
                tried.name, tried.reason
            ),
        );
    }
    if let Some(plan) = &status.plan {
        page.line(
            1,
            format!("planned host {} as {}, image {}", plan.host_name, plan.provider_id, plan.host_image),
        );
    }
    if let Some(machine) = &status.machine_ref {
        page.line(1, format!("machine {}", machine.name));
    }
    if let Some(result) = &status.result {
        let zone = result.zone.as_ref().map(|zone| format!(" in zone {zone}")).unwrap_or_default();
        page.line(1, format!("host {}: {}{zone}", result.provider_resource_id, result.instance_type));
    }
    page.owned(&status.owned_resources);
    page.conditions(&status.conditions);
}
