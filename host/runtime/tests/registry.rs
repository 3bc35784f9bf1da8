//! Module life: what serves after a file came, changed, went bad or went away, and after a policy changed.

mod support;

use holdfast_custody::binding::{Binding, Grants};
use holdfast_effects::Lend;
use holdfast_manifest::Manifest;
use holdfast_runtime::{
    Policies, ProviderPolicy, ProviderReport, ProviderState, Registry, RegistryHooks, inspect,
};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use support::*;

/// What the daemon would do, written down.
#[derive(Default)]
struct Hooks {
    log: Mutex<Vec<String>>,
    unbound: Mutex<Vec<String>>,
    refuse: Mutex<Option<String>>,
}

impl RegistryHooks for Hooks {
    fn register(
        &self,
        revision: holdfast_custody::Revision,
        manifest: Arc<Manifest>,
        grants: Grants,
    ) -> Result<Vec<String>, String> {
        if let Some(reason) = self.refuse.lock().unwrap().clone() {
            return Err(reason);
        }
        let version = &manifest.provider.version;
        self.log.lock().unwrap().push(format!("+{version} {}", grants.bindings.len()));
        assert!(revision.0.starts_with(&format!("{}@", manifest.provider.name)));
        Ok(self.unbound.lock().unwrap().clone())
    }

    fn unregister(&self, _revision: holdfast_custody::Revision) {
        self.log.lock().unwrap().push("-".to_owned());
    }
}

struct World {
    folder: tempfile::TempDir,
    hooks: Arc<Hooks>,
    registry: Registry,
}

impl World {
    fn new(policies: Policies) -> World {
        let folder = tempfile::tempdir().unwrap();
        let hooks = Arc::new(Hooks::default());
        let registry = Registry::new(engine(), folder.path().to_owned(), hooks.clone(), policies);
        World { folder, hooks, registry }
    }

    /// Puts a file there as a careful person does: elsewhere first, then renamed.
    fn drop_in(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        let partial = self.folder.path().join(".partial");
        std::fs::write(&partial, bytes).unwrap();
        std::fs::set_permissions(&partial, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::rename(partial, &path).unwrap();
        path
    }

    async fn look(&self) -> Vec<ProviderReport> {
        self.registry.rescan().await;
        self.registry.snapshot()
    }

    async fn report(&self, name: &str) -> ProviderReport {
        let reports = self.look().await;
        reports
            .into_iter()
            .find(|report| report.name == name)
            .unwrap_or_else(|| panic!("no report of {name}"))
    }

    fn log(&self) -> Vec<String> {
        self.hooks.log.lock().unwrap().clone()
    }
}

fn module(name: &str, version: &str) -> Vec<u8> {
    let text = MANIFEST
        .replace("name = \"tiny\"", &format!("name = \"{name}\""))
        .replace("version = \"0.1.0\"", &format!("version = \"{version}\""));
    with_manifest(&component("", "(i32.const 1024)"), &text)
}

fn approve(modules: &[&[u8]]) -> Policies {
    let policy = |bytes: &&[u8]| {
        let manifest = inspect(bytes).unwrap().manifest;
        let policy = ProviderPolicy { calls: Some(manifest.call_set.clone()), ..ProviderPolicy::default() };
        (manifest.provider.name.clone(), policy)
    };
    Policies { providers: modules.iter().map(policy).collect() }
}

fn reason(report: &ProviderReport) -> &str {
    &report.last_refusal.as_ref().expect("a refusal").reason
}

#[tokio::test]
async fn an_approved_file_serves_and_is_described() {
    let bytes = module("tiny", "1.2.3");
    let world = World::new(approve(&[&bytes]));
    world.drop_in("tiny.wasm", &bytes);
    let report = world.report("tiny").await;
    assert_eq!(report.state, ProviderState::Ready);
    assert_eq!((report.version.as_str(), report.contract.as_str()), ("1.2.3", "0.1.0"));
    assert_eq!(report.operations, ["HostPowerOn"]);
    assert!(report.endpoints.iter().all(|endpoint| endpoint.bound));
    assert!(!report.meaning.is_empty() && report.last_refusal.is_none() && report.add_line.is_none());
    let revision = world.registry.get("tiny").unwrap();
    assert_eq!(revision.id.0, format!("tiny@{}", report.digest));
    let lend = Lend::default();
    revision.module.call(begin(lend), Arc::new(Listener::default()), soon(60_000)).await.unwrap();
    assert!(world.registry.get("other").is_none());
}

#[tokio::test]
async fn an_unapproved_call_set_waits_with_its_meaning_and_the_lines_to_add() {
    let bytes = module("tiny", "1.0.0");
    let world = World::new(Policies::default());
    world.drop_in("tiny.wasm", &bytes);
    let report = world.report("tiny").await;
    assert_eq!(report.state, ProviderState::PendingApproval);
    assert!(world.registry.get("tiny").is_none() && world.log().is_empty(), "nothing is registered");
    assert!(!report.meaning.is_empty());
    let inspected = inspect(&bytes).unwrap();
    let line = report.add_line.unwrap();
    for part in ["[[provider]]", "name = \"tiny\"", &inspected.digest, &inspected.manifest.call_set] {
        assert!(line.contains(part), "{line}");
    }
    // Approved without touching the file, and without compiling it again.
    world.registry.set_policies(approve(&[&bytes]));
    assert_eq!(world.registry.snapshot()[0].state, ProviderState::Ready);
    assert_eq!(world.log(), ["+1.0.0 0"]);
    // And taken back.
    world.registry.set_policies(Policies::default());
    assert_eq!(world.registry.snapshot()[0].state, ProviderState::PendingApproval);
    assert!(world.registry.get("tiny").is_none());
    assert_eq!(world.log(), ["+1.0.0 0", "-"]);
}

#[tokio::test]
async fn a_pinned_digest_refuses_another_file_and_says_which_line_to_change_attack_76() {
    let bytes = module("tiny", "1.0.0");
    let mut policies = approve(&[&bytes]);
    policies.providers.get_mut("tiny").unwrap().sha256 = Some("00".repeat(32));
    let world = World::new(policies);
    world.drop_in("tiny.wasm", &bytes);
    let report = world.report("tiny").await;
    assert_eq!(report.state, ProviderState::Refused);
    let digest = inspect(&bytes).unwrap().digest;
    assert!(reason(&report).contains(&format!("sha256 = \"{digest}\"")), "{}", reason(&report));
}

#[tokio::test]
async fn a_replaced_file_swaps_the_revision_and_calls_in_flight_end_on_the_old_one() {
    let (old, new) = (module("tiny", "1.0.0"), module("tiny", "1.0.1"));
    let world = World::new(approve(&[&old]));
    world.drop_in("tiny.wasm", &old);
    world.look().await;
    let in_flight = world.registry.get("tiny").unwrap();
    world.drop_in("tiny.wasm", &new);
    let report = world.report("tiny").await;
    assert_eq!((report.state, report.version.as_str()), (ProviderState::Ready, "1.0.1"));
    assert_ne!(world.registry.get("tiny").unwrap().id, in_flight.id);
    in_flight.module.call(begin(Lend::default()), Arc::new(Listener::default()), soon(60_000)).await.unwrap();
    assert_eq!(world.log(), ["+1.0.0 0", "+1.0.1 0"], "the old one stays registered while a call holds it");
    drop(in_flight);
    assert_eq!(world.log(), ["+1.0.0 0", "+1.0.1 0", "-"]);
}

#[tokio::test]
async fn a_file_that_comes_back_while_its_old_calls_run_stays_registered() {
    let (old, new) = (module("tiny", "1.0.0"), module("tiny", "1.0.1"));
    let world = World::new(approve(&[&old]));
    world.drop_in("tiny.wasm", &old);
    world.look().await;
    let in_flight = world.registry.get("tiny").unwrap();
    world.drop_in("tiny.wasm", &new);
    world.look().await;
    world.drop_in("tiny.wasm", &old);
    world.look().await;
    drop(in_flight);
    assert_eq!(
        world.log(),
        ["+1.0.0 0", "+1.0.1 0", "+1.0.0 0", "-"],
        "only the middle one was unregistered"
    );
}

#[tokio::test]
async fn a_bad_file_keeps_the_old_revision_serving_and_says_why() {
    let good = module("tiny", "1.0.0");
    let world = World::new(approve(&[&good]));
    world.drop_in("tiny.wasm", &good);
    world.look().await;
    world.drop_in("tiny.wasm", &good[..good.len() / 2]);
    let report = world.report("tiny").await;
    assert_eq!((report.state, report.version.as_str()), (ProviderState::Ready, "1.0.0"));
    let refusal = report.last_refusal.as_ref().unwrap();
    assert_eq!(refusal.file, "tiny.wasm");
    assert_eq!(refusal.digest.len(), 64);
    assert!(world.registry.get("tiny").is_some());
    // A good one clears it.
    world.drop_in("tiny.wasm", &module("tiny", "1.0.2"));
    let report = world.report("tiny").await;
    assert_eq!((report.version.as_str(), report.last_refusal), ("1.0.2", None));
}

#[tokio::test]
async fn a_replacement_with_other_calls_waits_while_the_old_revision_serves() {
    let old = module("tiny", "1.0.0");
    let text = MANIFEST.replace("/v1/status", "/v1/secrets");
    let new = with_manifest(&component("", "(i32.const 1024)"), &text);
    let world = World::new(approve(&[&old]));
    world.drop_in("tiny.wasm", &old);
    world.look().await;
    world.drop_in("tiny.wasm", &new);
    let report = world.report("tiny").await;
    assert_eq!((report.state, report.version.as_str()), (ProviderState::Ready, "1.0.0"));
    assert!(report.add_line.unwrap().contains(&inspect(&new).unwrap().manifest.call_set));
    assert!(report.last_refusal.unwrap().reason.contains("not the approved one"));
}

#[tokio::test]
async fn a_removed_file_ends_the_provider_for_new_calls_and_says_so() {
    let bytes = module("tiny", "1.0.0");
    let world = World::new(approve(&[&bytes]));
    let path = world.drop_in("tiny.wasm", &bytes);
    world.look().await;
    std::fs::remove_file(&path).unwrap();
    let report = world.report("tiny").await;
    assert_eq!(report.state, ProviderState::Refused);
    assert!(reason(&report).contains("removed"));
    assert!(world.registry.get("tiny").is_none());
    assert_eq!(world.log(), ["+1.0.0 0", "-"]);
    world.drop_in("tiny.wasm", &bytes);
    assert_eq!(world.report("tiny").await.state, ProviderState::Ready);
}

#[tokio::test]
async fn two_files_with_one_name_are_a_visible_conflict_until_the_first_goes() {
    let (first, second) = (module("tiny", "1.0.0"), module("tiny", "2.0.0"));
    let world = World::new(approve(&[&first]));
    let path = world.drop_in("a.wasm", &first);
    world.drop_in("b.wasm", &second);
    let report = world.report("tiny").await;
    assert_eq!(
        (report.state, report.version.as_str(), report.file.as_str()),
        (ProviderState::Ready, "1.0.0", "a.wasm")
    );
    assert_eq!(report.last_refusal.as_ref().unwrap().file, "b.wasm");
    assert!(reason(&report).contains("remove one"));
    std::fs::remove_file(path).unwrap();
    let report = world.report("tiny").await;
    assert_eq!((report.version.as_str(), report.file.as_str()), ("2.0.0", "b.wasm"));
    assert_eq!(report.last_refusal, None);
}

#[tokio::test]
async fn unbound_endpoints_are_named_and_the_rest_serves() {
    let bytes = module("tiny", "1.0.0");
    let world = World::new(approve(&[&bytes]));
    *world.hooks.unbound.lock().unwrap() = vec!["api".to_owned()];
    world.drop_in("tiny.wasm", &bytes);
    let report = world.report("tiny").await;
    assert_eq!(report.state, ProviderState::Unbound);
    assert!(!report.endpoints[0].bound);
    assert!(world.registry.get("tiny").is_some());
    // Binding it registers the same revision again, with the new grants.
    world.hooks.unbound.lock().unwrap().clear();
    let mut policies = approve(&[&bytes]);
    policies.providers.get_mut("tiny").unwrap().grants.bindings.push(binding());
    world.registry.set_policies(policies.clone());
    assert_eq!(world.registry.snapshot()[0].state, ProviderState::Ready);
    world.registry.set_policies(policies);
    assert_eq!(world.log(), ["+1.0.0 0", "+1.0.0 1"], "and grants that did not change are left alone");
}

fn binding() -> Binding {
    Binding {
        endpoint: "api".to_owned(),
        site: None,
        value: None,
        origin: Some("https://service.example".to_owned()),
        ca_pem: None,
        pin_sha256: None,
        ranges: Vec::new(),
        vars: BTreeMap::new(),
        auth: None,
        aliases: Vec::new(),
    }
}

#[tokio::test]
async fn a_registration_that_is_refused_is_a_refusal_of_the_file() {
    let bytes = module("tiny", "1.0.0");
    let world = World::new(approve(&[&bytes]));
    *world.hooks.refuse.lock().unwrap() = Some("its call `look` needs a grant".to_owned());
    world.drop_in("tiny.wasm", &bytes);
    let report = world.report("tiny").await;
    assert_eq!((report.state, reason(&report)), (ProviderState::Refused, "its call `look` needs a grant"));
}

#[tokio::test]
async fn unsafe_files_are_refused_by_name_and_others_serve_attack_75() {
    let bytes = module("tiny", "1.0.0");
    let world = World::new(approve(&[&bytes]));
    world.drop_in("tiny.wasm", &bytes);
    let writable = world.drop_in("writable.wasm", &bytes);
    std::fs::set_permissions(writable, std::fs::Permissions::from_mode(0o666)).unwrap();
    let folder = world.folder.path();
    std::os::unix::fs::symlink(folder.join("tiny.wasm"), folder.join("link.wasm")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = folder.join("pipe.wasm");
    rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let reports: BTreeMap<String, ProviderReport> =
        world.look().await.into_iter().map(|report| (report.name.clone(), report)).collect();
    assert_eq!(reports["tiny"].state, ProviderState::Ready);
    for (name, word) in [("writable", "chmod"), ("link", "symbolic link"), ("pipe", "a pipe")] {
        assert_eq!(reports[name].state, ProviderState::Refused, "{name}");
        assert!(reason(&reports[name]).contains(word), "{name}: {}", reason(&reports[name]));
    }
}

#[tokio::test]
async fn a_folder_that_others_can_write_serves_nothing_until_it_is_closed() {
    let bytes = module("tiny", "1.0.0");
    let world = World::new(approve(&[&bytes]));
    world.drop_in("tiny.wasm", &bytes);
    std::fs::set_permissions(world.folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let report = world.report("tiny").await;
    assert_eq!(report.state, ProviderState::Refused);
    assert!(reason(&report).contains("providers folder"), "{}", reason(&report));
    std::fs::set_permissions(world.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(world.report("tiny").await.state, ProviderState::Ready);
}

#[tokio::test]
async fn dotfiles_and_other_endings_are_not_looked_at() {
    let world = World::new(Policies::default());
    for name in [".hidden.wasm", "notes.txt", "tiny.wasm.partial"] {
        world.drop_in(name, b"nothing");
    }
    assert!(world.look().await.is_empty());
}

#[tokio::test]
async fn nothing_new_is_told_where_nothing_changed() {
    let bytes = module("tiny", "1.0.0");
    let world = World::new(approve(&[&bytes]));
    let changes = world.registry.changes();
    world.drop_in("tiny.wasm", &bytes);
    world.drop_in("bad.wasm", b"bad");
    world.look().await;
    let told = *changes.borrow();
    assert!(told > 0);
    world.look().await;
    world.registry.set_policies(approve(&[&bytes]));
    assert_eq!(*changes.borrow(), told);
}

#[tokio::test]
async fn a_running_registry_notices_a_dropped_file_and_ends_when_told() {
    let bytes = module("tiny", "1.0.0");
    let world = World::new(approve(&[&bytes]));
    let mut changes = world.registry.changes();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn({
        let registry = world.registry.clone();
        async move { registry.run(async { drop(stopped.await) }).await }
    });
    world.drop_in("tiny.wasm", &bytes);
    while world.registry.get("tiny").is_none() {
        changes.changed().await.unwrap();
    }
    stop.send(()).unwrap();
    running.await.unwrap();
}
