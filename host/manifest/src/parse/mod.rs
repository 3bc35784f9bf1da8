//! From the TOML tree to the model: one file per table of the grammar. Shape only; what must hold between tables is in
//! `rules`.

mod arg;
mod body;
mod call;
mod endpoint;
mod field;
mod provider;
mod signed;

pub use provider::CONTRACT;

use crate::error::{Errors, Rule};
use crate::model::Manifest;
use crate::report::Report;
use crate::table::Tab;
use crate::{MAX_SECTION, digest, printable, rules};
use std::collections::BTreeMap;

const ROOT: &[&str] = &["provider", "operations", "credentials", "endpoints", "calls"];

impl Manifest {
    /// Parses and checks `provider.toml`.
    ///
    /// # Errors
    /// Every refusal that could be found, with line, key path and rule. Rules between tables (L1 to L11) are only
    /// looked at once the tables themselves are well-formed.
    pub fn parse(text: &str) -> Result<Manifest, Errors> {
        let mut report;
        let mut manifest = None;
        if text.len() > MAX_SECTION {
            report = Report::default();
            report.error(Rule::Grammar, "", format!("a manifest has at most {} KiB", MAX_SECTION / 1024));
        } else {
            let (read_report, root) = Report::read(text);
            report = read_report;
            manifest = root.and_then(|root| {
                printable::check(&root, "", &mut report);
                read(&Tab::root(&root), &mut report)
            });
        }
        if let Some(manifest) = manifest.as_mut().filter(|_| report.is_clean()) {
            arg::resolve_types(manifest, &mut report);
            if report.is_clean() {
                rules::check(manifest, &mut report);
            }
        }
        if manifest.is_none() && report.is_clean() {
            report.error(Rule::Grammar, "", "the manifest could not be read");
        }
        report.finish()?;
        let mut manifest = manifest.ok_or_else(|| Errors(Vec::new()))?;
        manifest.call_set = digest::call_set(&manifest);
        Ok(manifest)
    }
}

fn read(root: &Tab<'_>, r: &mut Report) -> Option<Manifest> {
    root.only(ROOT, r);
    let provider = root.need("provider", r).and_then(|node| provider::provider(node, r));
    let operations = provider::operations(root, r);
    let credentials = provider::credentials(root, r);
    let mut endpoints = BTreeMap::new();
    for (name, path, node) in root.named("endpoints", r) {
        if let Some(endpoint) = endpoint::endpoint(node, &path, r) {
            endpoints.insert(name, endpoint);
        }
    }
    let mut calls = BTreeMap::new();
    for (name, path, node) in root.named("calls", r) {
        if let Some(mut call) = call::call(&name, node, &path, r) {
            if let Some(endpoint) = endpoints.get(&call.endpoint) {
                call.answers = std::mem::take(&mut call.answers).over(&endpoint.answers);
            }
            calls.insert(name, call);
        }
    }
    Some(Manifest { provider: provider?, operations, credentials, endpoints, calls, call_set: String::new() })
}
