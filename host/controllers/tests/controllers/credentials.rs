//! Credentials (2(b).4), failure by failure.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use holdfast_api::*;
use holdfast_controllers::credentials::Credentials;
use holdfast_controllers::rooms::{CredentialOverlay, OverlaySecret, Secret};
use holdfast_custody::{CredentialsId, Revision};
use holdfast_effects::{Callback, PollState};
use jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::modules::*;
use crate::support::*;

async fn reason_of(world: &World) -> String {
    world.operation("op", "HostReboot").await;
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Failed);
    assert!(world.module.called().is_empty());
    status.reason.unwrap()
}

fn credentials(world: &World) -> Api<ProviderCredential> {
    Api::all(world.client.clone())
}

#[tokio::test]
async fn a_machine_without_a_site_label_is_auth_invalid() {
    let world = World::empty().await;
    world
        .machine_with(
            "m",
            json!({}),
            json!({ "host": { "external": { "provider": "fake", "providerID": "x" } } }),
        )
        .await;
    assert_eq!(reason_of(&world).await, "AuthInvalid");
}

#[tokio::test]
async fn no_credential_is_auth_not_found() {
    let world = World::new().await;
    credentials(&world).delete("cred", &DeleteParams::default()).await.unwrap();
    assert_eq!(reason_of(&world).await, "AuthNotFound");
}

#[tokio::test]
async fn two_credentials_are_ambiguous_and_one_of_another_site_is_not_a_second() {
    let world = World::new().await;
    world.credential("elsewhere", "there", "token-secret").await;
    world.credential("twin", SITE, "token-secret").await;
    assert_eq!(reason_of(&world).await, "AuthAmbiguous");
}

#[tokio::test]
async fn a_missing_secret_is_auth_secret_not_found() {
    let world = World::new().await;
    world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
    assert_eq!(reason_of(&world).await, "AuthSecretNotFound");
}

#[tokio::test]
async fn a_secret_of_another_namespace_type_or_provider_is_forbidden() {
    let world = World::new().await;
    let patch =
        json!({ "spec": { "auth": { "secretRef": { "namespace": "default", "name": "token-secret" } } } });
    credentials(&world).patch("cred", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(reason_of(&world).await, "AuthSecretForbidden");
    for (type_, provider) in [("Opaque", "fake"), (CREDENTIAL_SECRET_TYPE, "other")] {
        let world = World::new().await;
        world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
        world.secret_of_type("token-secret", type_, provider, &[("token", b"x")]).await;
        assert_eq!(reason_of(&world).await, "AuthSecretForbidden", "{type_} {provider}");
    }
}

#[tokio::test]
async fn workload_identity_lends_nothing() {
    let world = World::empty().await;
    world.machine("m", json!({ "provider": "fake", "providerID": "fake://old" })).await;
    let spec = ProviderCredentialSpec {
        site_name: SITE.into(),
        provider: "fake".into(),
        auth: CredentialAuth { mode: AuthMode::WorkloadIdentity, secret_ref: None },
    };
    credentials(&world).create(&PostParams::default(), &ProviderCredential::new("w", spec)).await.unwrap();
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h"));
    world.daemon().await.step("op").await;
    let Callback::Begin { lend, .. } = world.module.last() else { panic!("begin") };
    assert!(!lend.credentials);
    assert!(world.vault.credentials.lock().unwrap().is_empty());
}

/// R2.31, edge case 22.
#[tokio::test]
async fn values_reach_the_vault_byte_for_byte() {
    let world = World::new().await;
    world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
    let values: [(&str, &[u8]); 3] = [("token", b"  padded \n"), ("blank", b"   "), ("raw", &[0, 255, 10])];
    world.secret("token-secret", "fake", &values).await;
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let deposited = world.vault.credentials.lock().unwrap().values().next().cloned().unwrap();
    let expected: BTreeMap<String, Vec<u8>> =
        values.iter().map(|(k, v)| ((*k).to_owned(), v.to_vec())).collect();
    assert_eq!(deposited, expected);
}

/// Field cases C14 and K11.
#[tokio::test]
async fn a_rotation_takes_effect_with_the_next_callback_and_the_old_values_are_revoked() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h")).say(poll(PollState::InProgress)).say(poll(PollState::InProgress));
    daemon.step("op").await;
    daemon.step("op").await;
    let first: Vec<u64> = world.vault.credentials.lock().unwrap().keys().copied().collect();
    assert_eq!(first.len(), 1, "one deposit serves both callbacks");
    let patch = json!({ "stringData": { "token": "rotated horse battery" } });
    world.secrets().patch("token-secret", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    daemon.step("op").await;
    let now = world.vault.credentials.lock().unwrap().clone();
    assert_eq!(now.len(), 1);
    assert!(!now.contains_key(&first[0]));
    assert_eq!(now.values().next().unwrap()["token"], b"rotated horse battery");
}

/// Edge case 9.
/// Field case D01.
#[tokio::test]
async fn credentials_that_disappear_under_a_handle_are_waited_for() {
    let world = World::new().await;
    world.operation("op", "HostReboot").await;
    let daemon = world.daemon().await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    world.secrets().delete("token-secret", &DeleteParams::default()).await.unwrap();
    assert_eq!(daemon.step("op").await, after(300));
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::InProgress);
    assert_eq!(status.waiting.unwrap().reason, "ProviderAuthUnavailable");
    assert_eq!(world.module.count("poll"), 0);
    world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
    world.module.say(poll(PollState::Succeeded));
    daemon.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}

struct Configured;

impl CredentialOverlay for Configured {
    fn by_name(&self, provider: &str, name: &str) -> Option<OverlaySecret> {
        (provider == "fake" && name == "token-secret").then(|| secret("by-name"))
    }

    fn by_site(&self, provider: &str, site: &str) -> Option<OverlaySecret> {
        (provider == "fake" && site == "configured").then(|| secret("by-site"))
    }
}

fn secret(name: &str) -> OverlaySecret {
    let values = [("token".to_owned(), Secret::new(name.as_bytes().to_vec()))].into();
    OverlaySecret { name: name.into(), version: "1".into(), values }
}

#[tokio::test]
async fn the_configuration_comes_before_the_store() {
    for (site, expected) in [(SITE, "by-name"), ("configured", "by-site")] {
        let mut world = World::new().await;
        world.overlay = Arc::new(Configured);
        let label = json!({ "metadata": { "labels": { SITE_LABEL: site } } });
        world.patch_machine(label).await;
        world.operation("op", "HostReboot").await;
        world.module.say(accepted("h"));
        let daemon = world.daemon().await;
        daemon.step("op").await;
        let deposited = world.vault.credentials.lock().unwrap().values().next().cloned().unwrap();
        assert_eq!(deposited["token"], expected.as_bytes());
    }
}

/// Bare metal: the machine's own reference comes first where endpoints are per machine.
#[tokio::test]
async fn a_machine_object_that_names_its_own_secret_is_served_with_it() {
    use holdfast_manifest::{Per, Pointer, Step};
    let world = World::empty().await;
    world.secret("bmc-1", "fake", &[("token", b"of the machine")]).await;
    let spec = json!({ "bmc": { "address": "https://bmc.example", "credentialsRef": { "name": "bmc-1" } }, "systemID": "1" });
    let bmm = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "BareMetalMachine",
        "metadata": { "name": "b" }, "spec": spec });
    let api: Api<BareMetalMachine> = Api::all(world.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(bmm).unwrap()).await.unwrap();
    let reference = json!({ "apiGroup": "holdfast.dev", "kind": "BareMetalMachine", "name": "b" });
    world.machine("m", json!({ "provider": "fake", "machineRef": reference })).await;
    let mut per_machine = (*manifest()).clone();
    let pointer = |keys: &[&str]| Pointer(keys.iter().map(|k| Step::Key((*k).to_owned())).collect());
    per_machine.endpoints.get_mut("api").unwrap().per = Per::Machine {
        address: pointer(&["spec", "bmc", "address"]),
        credential: Some(pointer(&["spec", "bmc", "credentialsRef", "name"])),
    };
    *world.module.manifest.lock().unwrap() = Arc::new(per_machine);
    world.operation("op", "HostReboot").await;
    world.module.say(accepted("h"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let deposited = world.vault.credentials.lock().unwrap().values().next().cloned().unwrap();
    assert_eq!(deposited["token"], b"of the machine");
}

/// The first who reads the secret is overtaken by one who reads and deposits the rotated one.
struct Overtaken {
    reads: AtomicUsize,
    credentials: OnceLock<Arc<Credentials>>,
}

impl Overtaken {
    fn credentials(&self) -> &Credentials {
        self.credentials.get().unwrap()
    }

    fn lend(&self) -> CredentialsId {
        let input = serde_json::from_value(json!({ "provider": "fake", "site": SITE })).unwrap();
        let (manifest, revision) = (manifest(), Revision("fake@1".to_owned()));
        let mut lent = pin!(self.credentials().resolve(&input, &manifest, &revision, Timestamp::UNIX_EPOCH));
        match lent.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(lent) => lent.unwrap().id().unwrap(),
            Poll::Pending => panic!("the configuration is read without waiting"),
        }
    }
}

impl CredentialOverlay for Overtaken {
    fn by_name(&self, _: &str, _: &str) -> Option<OverlaySecret> {
        None
    }

    fn by_site(&self, _: &str, _: &str) -> Option<OverlaySecret> {
        let first = self.reads.fetch_add(1, Ordering::SeqCst) == 0;
        if first {
            self.lend();
        }
        let (version, value) = if first { ("1", "former") } else { ("2", "rotated") };
        let values = [("token".to_owned(), Secret::new(value.as_bytes().to_vec()))].into();
        Some(OverlaySecret { name: "token-secret".into(), version: version.into(), values })
    }
}

/// Putting the former bytes back would end the session that the rotated ones have made, and log in once more.
#[tokio::test]
async fn a_reader_who_is_overtaken_by_a_rotation_reads_again_and_never_deposits_the_former_bytes_n08() {
    let world = World::empty().await;
    let overtaken = Arc::new(Overtaken { reads: AtomicUsize::new(0), credentials: OnceLock::new() });
    let credentials =
        Credentials::new(world.client.clone(), Arc::default(), overtaken.clone(), world.vault.clone());
    assert!(overtaken.credentials.set(Arc::new(credentials)).is_ok());
    let lent = overtaken.lend();
    assert_eq!(overtaken.reads.load(Ordering::SeqCst), 3, "the late one has read twice");
    let deposited = world.vault.credentials.lock().unwrap();
    assert_eq!(deposited.len(), 1, "one deposit serves both: {:?}", deposited.keys());
    assert_eq!(deposited[&lent.0]["token"], b"rotated");
}
