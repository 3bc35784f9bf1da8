//! Sections 1 and 2: `[provider]`, `[operations]`, `[credentials]`.

use crate::error::{Rule, Syntax};
use crate::model::{
    CredentialKey, CredentialKind, GroupKind, Mode, Operation, Place, Pointer, Provider, ProviderIdPattern,
};
use crate::report::{Node, Report};
use crate::table::{Tab, check_name, ok, text};
use std::collections::{BTreeMap, BTreeSet};

/// The contract version that this loader understands.
pub const CONTRACT: &str = "0.1";

const PROVIDER: &[&str] = &[
    "name",
    "version",
    "contract",
    "state-version",
    "reads",
    "machine-kind",
    "list-owned",
    "targets",
    "provider-id",
];

pub(super) fn provider(node: &Node, r: &mut Report) -> Option<Provider> {
    let tab = Tab::open(node, "provider", PROVIDER, r)?;
    let name = tab.need_str("name", r).filter(|name| check_name(name, "provider.name", r));
    let version = tab.need_str("version", r).and_then(|version| {
        ok(
            semver::Version::parse(version).map_err(|e| Syntax::bad(format!("not semver: {e}"))),
            "provider.version",
            r,
        )
    });
    let contract = tab.need_str("contract", r);
    if let Some(other) = contract.filter(|contract| *contract != CONTRACT) {
        r.allowed(Rule::Grammar, "provider.contract", format!("unknown contract `{other}`"), CONTRACT);
    }
    let state_version = tab.int("state-version", 1, u64::from(u32::MAX), r).unwrap_or(1) as u32;
    let machine_kind = tab.get("machine-kind").and_then(|node| {
        let tab = Tab::open(node, "provider.machine-kind", &["group", "kind"], r)?;
        Some(GroupKind {
            group: tab.need_str("group", r)?.to_owned(),
            kind: tab.need_str("kind", r)?.to_owned(),
        })
    });
    let mut targets = BTreeMap::new();
    for (kind, path, node) in tab.named("targets", r) {
        if let Some(pointer) = text(node, &path, r).and_then(|text| ok(machine_object(text), &path, r)) {
            targets.insert(kind, pointer);
        }
    }
    Some(Provider {
        reads: reads(&tab, state_version, r),
        list_owned: tab.str("list-owned", r).map(str::to_owned),
        provider_id: tab.parsed("provider-id", r, ProviderIdPattern::new),
        name: name?.to_owned(),
        version: version?,
        contract: contract?.to_owned(),
        state_version,
        machine_kind,
        targets,
    })
}

fn reads(tab: &Tab<'_>, state_version: u32, r: &mut Report) -> BTreeSet<u32> {
    let path = tab.at("reads");
    let mut reads = BTreeSet::new();
    match tab.get("reads") {
        None => return BTreeSet::from([state_version]),
        Some(Node::List(items)) => {
            for item in items {
                match item {
                    Node::Int(n) if u32::try_from(*n).is_ok_and(|n| n > 0) => {
                        reads.insert(*n as u32);
                    }
                    _ => r.error(Rule::Grammar, &path, "`reads` is a list of positive integers"),
                }
            }
        }
        Some(_) => r.error(Rule::Grammar, &path, "`reads` is a list of positive integers"),
    }
    if !reads.contains(&state_version) {
        r.error(
            Rule::Grammar,
            &path,
            format!("`reads` must hold the module's own state-version, {state_version}"),
        );
    }
    reads
}

/// `machine-object:/spec/bmc/address`
pub(super) fn machine_object(text: &str) -> Result<Pointer, Syntax> {
    let bad = || {
        Syntax::bad(format!(
            "`{text}` is not a place in the machine object; allowed: machine-object:/pointer"
        ))
    };
    let pointer = Pointer::parse(text.strip_prefix("machine-object:").ok_or_else(bad)?)?;
    let plain = pointer.0.iter().all(|step| matches!(step, crate::model::Step::Key(_)));
    if pointer.0.is_empty() || !plain { Err(bad()) } else { Ok(pointer) }
}

pub(super) fn operations(root: &Tab<'_>, r: &mut Report) -> BTreeMap<String, Operation> {
    const KEYS: &[&str] = &["mode", "replay-safe", "requires-replace-user-data", "cleanup"];
    let mut operations = BTreeMap::new();
    let Some(table) = root.below("operations", r) else { return operations };
    for (kind, path, node) in table.iter() {
        let fits = kind.len() <= 63
            && kind.starts_with(|c: char| c.is_ascii_uppercase())
            && kind.chars().all(|c| c.is_ascii_alphanumeric());
        if !fits {
            let message = format!("`{kind}` is not an operation kind");
            r.allowed(
                Rule::L11,
                &path,
                message,
                "CamelCase, not blank, up to 63 letters and digits: HostReboot",
            );
        }
        let Some(tab) = Tab::open(node, &path, KEYS, r) else { continue };
        let modes = [("immediate", Mode::Immediate), ("long-running", Mode::LongRunning)];
        if tab.need("mode", r).is_none() {
            continue;
        }
        let Some(mode) = tab.choice("mode", &modes, r) else { continue };
        let operation = Operation {
            mode,
            replay_safe: tab.bool("replay-safe", false, r),
            requires_replace_user_data: tab.bool("requires-replace-user-data", false, r),
            cleanup: tab.bool("cleanup", false, r),
        };
        operations.insert(kind.to_owned(), operation);
    }
    operations
}

pub(super) fn credentials(root: &Tab<'_>, r: &mut Report) -> BTreeMap<String, CredentialKey> {
    const KEYS: &[&str] = &["required", "about", "public", "kind", "from-file"];
    let mut keys = BTreeMap::new();
    for (name, path, node) in root.named("credentials", r) {
        let Some(tab) = Tab::open(node, &path, KEYS, r) else { continue };
        let kinds = [("text", 0), ("pem", 1), ("json-file", 2)];
        let kind = match tab.choice("kind", &kinds, r).unwrap_or(0) {
            0 => CredentialKind::Text,
            1 => CredentialKind::Pem,
            _ => CredentialKind::JsonFile { from_file: from_file(&tab, r) },
        };
        if tab.has("from-file") && !matches!(kind, CredentialKind::JsonFile { .. }) {
            r.error(Rule::Grammar, &tab.at("from-file"), "`from-file` belongs to `kind = \"json-file\"`");
        }
        let Some(about) = tab.need_str("about", r) else { continue };
        let key = CredentialKey {
            required: tab.bool("required", true, r),
            about: about.to_owned(),
            public: tab.bool("public", false, r),
            kind,
        };
        keys.insert(name, key);
    }
    keys
}

fn from_file(tab: &Tab<'_>, r: &mut Report) -> BTreeMap<String, Pointer> {
    let mut derived = BTreeMap::new();
    for (name, path, node) in tab.named("from-file", r) {
        match text(node, &path, r).and_then(|text| ok(Place::parse(text), &path, r)) {
            Some(Place::Json(pointer)) if !pointer.0.is_empty() => {
                derived.insert(name, pointer);
            }
            Some(_) => r.allowed(
                Rule::Grammar,
                &path,
                "a part of a JSON file stands at a JSON place",
                "json:/pointer",
            ),
            None => {}
        }
    }
    if derived.is_empty() {
        r.error(Rule::Grammar, &tab.path, "a `json-file` says in `from-file` which keys its parts become");
    }
    derived
}
