//! Which file stands for which provider, and which revision of it serves.
//!
//! Pure bookkeeping: files and policies in, revisions and reports out. A provider's name belongs to the file that had it
//! first, until that file is removed or becomes another provider.

use super::file::Stamp;
use super::judge::{Verdict, judge};
use super::policy::{Policies, ProviderPolicy};
use super::report::{EndpointReport, ProviderReport, ProviderState, Refusal};
use super::revision::{Registrations, Revision};
use crate::inspect::Inspected;
use crate::module::Module;
use holdfast_manifest::Manifest;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub(super) struct Slots {
    pub(super) policies: Policies,
    files: BTreeMap<String, KnownFile>,
    providers: BTreeMap<String, Slot>,
    /// What was last told.
    told: Vec<ProviderReport>,
}

struct KnownFile {
    /// `None`: look again in any case.
    stamp: Option<Stamp>,
    content: Content,
}

pub(super) enum Content {
    Loading(Box<Inspected>),
    Loaded(Arc<Module>),
    Bad(Bad),
}

pub(super) struct Bad {
    digest: String,
    reason: String,
    at: Timestamp,
    /// The folder was at fault, not the file.
    folder: bool,
}

/// One provider, by the name in its manifest.
struct Slot {
    file: String,
    serving: Option<Arc<Revision>>,
    /// Grants that the serving revision is registered with, as text to compare.
    grants: String,
    unbound: Vec<String>,
    /// The holder's file waits for approval.
    pending: Option<(Arc<Module>, String)>,
    refusal: Option<Refusal>,
    /// Another file claims the name.
    conflict: Option<Refusal>,
}

impl Content {
    pub(super) fn bad(digest: String, reason: String, folder: bool) -> Content {
        Content::Bad(Bad { digest, reason, at: Timestamp::now(), folder })
    }

    fn name(&self) -> Option<&str> {
        match self {
            Content::Loading(inspected) => Some(&inspected.manifest.provider.name),
            Content::Loaded(module) => Some(module.name()),
            Content::Bad(_) => None,
        }
    }
}

impl Slots {
    pub(super) fn new(policies: Policies) -> Slots {
        Slots { policies, files: BTreeMap::new(), providers: BTreeMap::new(), told: Vec::new() }
    }

    /// Was this content of the file seen? `refused_folder`: is the folder at fault now?
    pub(super) fn is_known(&self, name: &str, stamp: Option<Stamp>, refused_folder: bool) -> bool {
        self.files.get(name).is_some_and(|file| {
            let was_folder = matches!(&file.content, Content::Bad(bad) if bad.folder);
            stamp.is_some() && file.stamp == stamp && was_folder == refused_folder
        })
    }

    pub(super) fn put(&mut self, name: &str, stamp: Option<Stamp>, content: Content) {
        self.files.insert(name.to_owned(), KnownFile { stamp, content });
    }

    /// Forgets files that are not there any more. True where one was.
    pub(super) fn keep_files(&mut self, names: &BTreeSet<String>) -> bool {
        let before = self.files.len();
        self.files.retain(|name, _| names.contains(name));
        before != self.files.len()
    }

    pub(super) fn serving(&self) -> HashMap<String, Arc<Revision>> {
        let serving = |(name, slot): (&String, &Slot)| Some((name.clone(), slot.serving.clone()?));
        self.providers.iter().filter_map(serving).collect()
    }

    /// Decides for every provider who holds its name and who serves.
    pub(super) fn settle(&mut self, registrations: &Arc<Registrations>) {
        self.assign();
        for (name, slot) in &mut self.providers {
            let policy = self.policies.providers.get(name);
            match self.files.get(&slot.file).map(|file| &file.content) {
                Some(Content::Loaded(module)) if module.name() == name => {
                    slot.consider(module, policy, registrations);
                }
                Some(Content::Loading(_)) => slot.keep_if_allowed(policy, registrations),
                Some(Content::Bad(bad)) => {
                    slot.pending = None;
                    slot.refuse(&bad.digest, &bad.reason);
                    slot.keep_if_allowed(policy, registrations);
                }
                _ => slot.end(),
            }
        }
        self.note_conflicts();
    }

    /// Gives names without a holder to the first file, in order, that has them.
    fn assign(&mut self) {
        for (file, known) in &self.files {
            let Some(name) = known.content.name() else { continue };
            let held = self.providers.get(name).is_some_and(|slot| self.holds(slot, name));
            match self.providers.get_mut(name) {
                Some(_) if held => {}
                Some(slot) => slot.file.clone_from(file),
                None => {
                    self.providers.insert(name.to_owned(), Slot::new(file));
                }
            }
        }
    }

    /// A file that went bad still holds its name while its old revision serves.
    fn holds(&self, slot: &Slot, name: &str) -> bool {
        self.files.get(&slot.file).is_some_and(|file| match file.content.name() {
            Some(own) => own == name,
            None => slot.serving.is_some(),
        })
    }

    fn note_conflicts(&mut self) {
        for (name, slot) in &mut self.providers {
            let second = self.files.iter().find_map(|(file, known)| match &known.content {
                Content::Loaded(module) if module.name() == name && *file != slot.file => {
                    Some((file, module))
                }
                _ => None,
            });
            let Some((file, module)) = second else {
                slot.conflict = None;
                continue;
            };
            let reason = format!(
                "{file} also calls itself \"{name}\", which {} holds; remove one of the two files",
                slot.file
            );
            refuse(&mut slot.conflict, file, module.digest(), &reason);
        }
    }

    /// One report for each provider, and one for each file that is none.
    pub(super) fn reports(&self) -> Vec<ProviderReport> {
        let mut reports: BTreeMap<String, ProviderReport> = BTreeMap::new();
        for (name, slot) in &self.providers {
            let content = self.files.get(&slot.file).map(|file| &file.content);
            reports.insert(name.clone(), slot.report(name, content));
        }
        for (file, known) in &self.files {
            let Content::Bad(bad) = &known.content else { continue };
            if self.providers.values().any(|slot| slot.file == *file) {
                continue;
            }
            let refusal = bad.refusal(file);
            let stem = file.trim_end_matches(".wasm").to_owned();
            let report = reports.entry(stem.clone()).or_insert_with(|| blank(&stem, file));
            // A provider's own trouble comes before that of a stray file with its name.
            report.last_refusal.get_or_insert(refusal);
        }
        reports.into_values().collect()
    }

    /// Does [`reports`](Self::reports) say something new? Remembers what it says.
    pub(super) fn reports_changed(&mut self) -> bool {
        let reports = self.reports();
        let changed = reports != self.told;
        self.told = reports;
        changed
    }
}

impl Bad {
    fn refusal(&self, file: &str) -> Refusal {
        Refusal {
            file: file.to_owned(),
            digest: self.digest.clone(),
            reason: self.reason.clone(),
            at: self.at,
        }
    }
}

impl Slot {
    fn new(file: &str) -> Slot {
        Slot {
            file: file.to_owned(),
            serving: None,
            grants: String::new(),
            unbound: Vec::new(),
            pending: None,
            refusal: None,
            conflict: None,
        }
    }

    /// The holder's file is a module of this name: it serves, or the old one does, or nothing.
    fn consider(
        &mut self,
        module: &Arc<Module>,
        policy: Option<&ProviderPolicy>,
        registrations: &Arc<Registrations>,
    ) {
        self.pending = None;
        match judge(module, policy) {
            Verdict::Serve => return self.serve(module, policy, registrations),
            Verdict::Pending { reason, add_line } => {
                self.pending = Some((module.clone(), add_line));
                self.refuse(module.digest(), &reason);
            }
            Verdict::Refused(reason) => self.refuse(module.digest(), &reason),
        }
        self.keep_if_allowed(policy, registrations);
    }

    fn serve(
        &mut self,
        module: &Arc<Module>,
        policy: Option<&ProviderPolicy>,
        registrations: &Arc<Registrations>,
    ) {
        if self.serving.as_ref().is_some_and(|revision| revision.module.digest() == module.digest()) {
            self.refusal = None;
            return self.keep_if_allowed(policy, registrations);
        }
        let grants = policy.map(|policy| policy.grants.clone()).unwrap_or_default();
        match registrations.register(module, &grants) {
            Ok((revision, unbound)) => {
                self.serving = Some(revision);
                self.grants = text(policy);
                self.unbound = unbound;
                self.refusal = None;
            }
            Err(reason) => {
                self.refuse(module.digest(), &reason);
                self.keep_if_allowed(policy, registrations);
            }
        }
    }

    /// The serving revision goes on only while the policy allows it, and with the policy's grants.
    fn keep_if_allowed(&mut self, policy: Option<&ProviderPolicy>, registrations: &Arc<Registrations>) {
        let Some(revision) = &self.serving else { return };
        if !matches!(judge(&revision.module, policy), Verdict::Serve) {
            self.serving = None;
            return;
        }
        let grants = text(policy);
        if grants == self.grants {
            return;
        }
        let wanted = policy.map(|policy| policy.grants.clone()).unwrap_or_default();
        match registrations.replace(revision, &wanted) {
            Ok(unbound) => {
                self.grants = grants;
                self.unbound = unbound;
            }
            Err(reason) => {
                // New grants that cannot be taken must not leave the old ones in force.
                let digest = revision.module.digest().to_owned();
                self.serving = None;
                self.refuse(&digest, &reason);
            }
        }
    }

    fn end(&mut self) {
        self.serving = None;
        self.pending = None;
        self.refuse(
            "",
            "its file was removed, or is another provider now; calls in flight end on the old one, new ones need it back",
        );
    }

    fn refuse(&mut self, digest: &str, reason: &str) {
        refuse(&mut self.refusal, &self.file, digest, reason);
    }

    fn report(&self, name: &str, content: Option<&Content>) -> ProviderReport {
        let mut report = blank(name, &self.file);
        report.last_refusal = self.refusal.clone().or_else(|| self.conflict.clone());
        let shown = self.serving.as_ref().map(|revision| &revision.module);
        let waiting = self.pending.as_ref().map(|(module, _)| module);
        if let Some(module) = shown.or(waiting) {
            describe(&mut report, module.manifest(), module.digest(), module.contract(), &self.unbound);
        } else if let Some(Content::Loading(inspected)) = content {
            describe(&mut report, &inspected.manifest, &inspected.digest, &inspected.contract, &[]);
        }
        report.state = match (shown, content) {
            (Some(_), _) if self.unbound.is_empty() => ProviderState::Ready,
            (Some(_), _) => ProviderState::Unbound,
            (None, Some(Content::Loading(_))) => ProviderState::Loading,
            (None, _) if self.pending.is_some() => ProviderState::PendingApproval,
            (None, _) => ProviderState::Refused,
        };
        if let Some((module, add_line)) = &self.pending {
            report.meaning = module.manifest().meaning();
            report.add_line = Some(add_line.clone());
        }
        report
    }
}

fn blank(name: &str, file: &str) -> ProviderReport {
    ProviderReport {
        name: name.to_owned(),
        file: file.to_owned(),
        digest: String::new(),
        version: String::new(),
        contract: String::new(),
        state: ProviderState::Refused,
        operations: Vec::new(),
        capacity: false,
        endpoints: Vec::new(),
        call_set: String::new(),
        meaning: Vec::new(),
        add_line: None,
        last_refusal: None,
        manifest: None,
    }
}

fn describe(
    report: &mut ProviderReport,
    manifest: &Arc<Manifest>,
    digest: &str,
    contract: &str,
    unbound: &[String],
) {
    report.digest = digest.to_owned();
    report.version = manifest.provider.version.to_string();
    report.contract = contract.to_owned();
    report.operations = manifest.operations.keys().cloned().collect();
    report.capacity = manifest.allocates();
    report.endpoints = manifest
        .endpoints
        .keys()
        .map(|name| EndpointReport { name: name.clone(), bound: !unbound.contains(name) })
        .collect();
    report.call_set = manifest.call_set.clone();
    report.meaning = manifest.meaning();
    report.manifest = Some(manifest.clone());
}

/// Grants as text, to see whether they changed.
fn text(policy: Option<&ProviderPolicy>) -> String {
    policy.and_then(|policy| serde_json::to_string(&policy.grants).ok()).unwrap_or_default()
}

/// Notes a refusal; the same one keeps its time.
fn refuse(noted: &mut Option<Refusal>, file: &str, digest: &str, reason: &str) {
    let same = |old: &Refusal| {
        (old.file.as_str(), old.digest.as_str(), old.reason.as_str()) == (file, digest, reason)
    };
    if noted.as_ref().is_some_and(same) {
        return;
    }
    tracing::warn!(file, digest, reason, "a provider module was refused");
    *noted = Some(Refusal {
        file: file.to_owned(),
        digest: digest.to_owned(),
        reason: reason.to_owned(),
        at: Timestamp::now(),
    });
}
