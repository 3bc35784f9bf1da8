//! A `MachineOperation`, explained.

use super::journal;
use super::page::Page;
use holdfast_api::{MachineOperation, Phase};
use kube::ResourceExt as _;

pub(super) fn tell(page: &mut Page, operation: &MachineOperation) {
    let status = operation.status.clone().unwrap_or_default();
    let on = operation.spec.machine_ref.as_ref().map(|machine| format!(" on machine {}", machine.name));
    let kind = &operation.spec.operation_kind;
    let reason = status.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    page.line(
        0,
        format!(
            "MachineOperation {}: {kind}{}: {}{reason}",
            operation.name_any(),
            on.unwrap_or_default(),
            status.phase.as_str()
        ),
    );
    page.field(1, "says", status.message.as_ref());
    for (name, at) in [("started", &status.started_at), ("ended", &status.completed_at)] {
        let at = at.as_ref().map(|at| page.time(at));
        page.field(1, name, at);
    }
    if operation.metadata.deletion_timestamp.is_some() && !status.phase.is_terminal() {
        page.line(1, "is being deleted: it was asked to stop, and goes when it has ended");
    }
    page.waiting(status.waiting.as_ref());
    if status.waiting.is_none() && status.phase == Phase::Pending {
        page.line(1, "no controller has looked at it yet");
    }
    if let Some(target) = &status.target {
        input(page, target);
    }
    journal::tell(page, &status.effects);
    page.owned(&status.owned_resources);
    page.conditions(&status.conditions);
}

fn input(page: &mut Page, target: &holdfast_api::OperationTarget) {
    page.field(1, "step", target.stage.as_ref());
    if let Some(input) = &target.input {
        let id = input.provider_id.as_ref().map(|id| format!(", host {id}")).unwrap_or_default();
        page.line(1, format!("works through provider {} at site {}{id}", input.provider, input.site));
    }
    let asked = if target.attempts == 1 { "once".to_owned() } else { format!("{} times", target.attempts) };
    if target.attempts > 0 {
        let last = target.last_attempt_at.as_ref().map(|at| format!(", last {}", page.time(at)));
        page.line(1, format!("the provider was asked to act {asked}{}", last.unwrap_or_default()));
    }
    if let Some(accepted) = &target.accepted_at {
        let accepted = page.time(accepted);
        let handle = target.provider_operation.as_ref().map(|handle| handle.operation_id.as_str());
        page.line(1, format!("accepted as {} at {accepted}", handle.unwrap_or("?")));
    }
}
