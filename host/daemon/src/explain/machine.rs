//! A `Machine`, explained.

use super::page::Page;
use holdfast_api::Machine;
use kube::ResourceExt as _;

pub(super) fn tell(page: &mut Page, machine: &Machine) {
    let status = machine.status.clone().unwrap_or_default();
    let external = &machine.spec.host.external;
    let provider = if external.provider.is_empty() { "no provider yet" } else { &external.provider };
    page.line(0, format!("Machine {} of {provider}", machine.name_any()));
    page.field(1, "host", external.provider_id.as_ref());
    if let Some(reference) = &external.machine_ref {
        page.line(1, format!("its provider's object is {} {}", reference.kind, reference.name));
    }
    page.field(1, "image", machine.spec.host.image.as_ref());
    page.field(1, "class", machine.spec.class_ref.as_ref().map(|class| &class.name));
    page.field(1, "allocation", status.allocation.as_ref());
    if machine.metadata.deletion_timestamp.is_some() {
        page.line(1, "is being deleted: it goes when its host is released");
    }
    match &status.current_operation {
        Some(operation) => page.line(1, format!("operation {operation} holds the machine")),
        None => page.line(1, "no operation holds the machine"),
    }
    page.owned(&status.owned_resources);
    page.conditions(&status.conditions);
}
