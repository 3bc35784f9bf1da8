//! A `Provider`, explained.

use super::page::Page;
use holdfast_api::Provider;
use kube::ResourceExt as _;

pub(super) fn tell(page: &mut Page, provider: &Provider) {
    let status = provider.status.clone().unwrap_or_default();
    page.line(0, format!("Provider {} {}: {:?}", provider.name_any(), status.version, status.state));
    page.field(1, "file", Some(&status.file));
    page.field(1, "sha256", Some(&status.digest));
    if let Some(refusal) = &status.last_refusal {
        let at = page.time(&refusal.at);
        page.line(1, format!("file {} was refused at {at}: {}", refusal.file, refusal.reason));
    }
    for endpoint in &status.endpoints {
        let bound = match (&endpoint.origin, endpoint.bound) {
            (Some(origin), true) => format!("bound to {origin}"),
            (None, true) => "bound".to_owned(),
            (_, false) => "not bound: add it to [[provider.endpoint]] of the config".to_owned(),
        };
        page.line(1, format!("endpoint {} ({}): {bound}", endpoint.name, endpoint.about));
    }
    let operations: Vec<String> =
        status.operations.iter().map(|offered| format!("{} ({:?})", offered.kind, offered.mode)).collect();
    page.field(1, "operations", Some(operations.join(", ")));
    if let Some(line) = &status.add_line {
        page.line(1, "approving it means:");
        status.meaning.iter().for_each(|sentence| page.line(2, sentence));
        page.line(1, "and takes this line of the config:");
        page.line(2, line);
    }
    page.conditions(&status.conditions);
}
