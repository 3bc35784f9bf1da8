//! A `MachineClass`, explained.

use super::page::Page;
use holdfast_api::MachineClass;
use kube::ResourceExt as _;

pub(super) fn tell(page: &mut Page, class: &MachineClass) {
    let status = class.status.clone().unwrap_or_default();
    let reason = status.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    page.line(
        0,
        format!(
            "MachineClass {} of provider {} at site {}{reason}",
            class.name_any(),
            class.spec.provider,
            class.spec.site_name
        ),
    );
    page.field(1, "says", status.message.as_ref());
    page.waiting(status.waiting.as_ref());
    if let Some(resolved) = &status.resolved_at {
        let resolved = page.time(resolved);
        page.line(
            1,
            format!(
                "resolved {resolved}: {} of {} offerings available",
                status.available,
                status.offerings.len()
            ),
        );
    }
    for offering in &status.offerings {
        let zone = offering.zone.as_ref().map(|zone| format!(" in zone {zone}")).unwrap_or_default();
        let available = if offering.available { "available" } else { "not available" };
        let until = page.time(&offering.valid_until);
        let resources: Vec<String> =
            offering.resources.iter().map(|(name, quantity)| format!("{name} {quantity}")).collect();
        let resources =
            if resources.is_empty() { String::new() } else { format!(" ({})", resources.join(", ")) };
        page.line(
            2,
            format!(
                "{}: {}{resources}{zone}, {available}, until {until}",
                offering.name, offering.instance_type
            ),
        );
    }
    if !status.orphans.is_empty() {
        page.line(1, "under our marker, and on nobody's record; a MachineAllocation with spec.releaseOrphan releases one:");
    }
    for orphan in &status.orphans {
        let since = page.time(&orphan.first_seen);
        page.line(
            2,
            format!("{} {}, seen since {since}, bears the token {}", orphan.kind, orphan.id, orphan.token),
        );
    }
    if let Some(sweep) = &status.sweep {
        let at = page.time(&sweep.at);
        page.line(1, format!("sweep {} at {at}: {}", sweep.request, sweep.message));
    }
    page.conditions(&status.conditions);
}
