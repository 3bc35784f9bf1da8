//! A daemon's worth of controllers over a real embedded API in a temporary directory, with a scripted provider
//! module, a fake service behind it, and a clock that moves when told.
#![allow(dead_code)]

pub mod capacity;
pub mod cloud;
pub mod faults;
pub mod hosts;
pub mod modules;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloud::{Cloud, EffectsClock, Wire};
use faults::{Plan, faulty};
use holdfast_api::*;
use holdfast_apiserver::{ApiServer, Options, Stamps};
use holdfast_controllers::clock::{Clock as _, ManualClock};
use holdfast_controllers::rooms::{CredentialOverlay, NoOverlay};
use holdfast_controllers::{Controllers, Deps, Effects, LeaseSettings, Next, Scope, Settings};
use holdfast_effects::{Callback, OperationRequest};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use modules::{OneModule, Scripted, Vaulted};
use serde_json::{Value, json};

pub const SITE: &str = "here";

/// The world that outlives a daemon.
pub struct World {
    pub server: ApiServer,
    pub client: Client,
    pub clock: Arc<ManualClock>,
    pub cloud: Arc<Cloud>,
    pub module: Arc<Scripted>,
    pub modules: Arc<OneModule>,
    pub vault: Arc<Vaulted>,
    pub settings: Settings,
    pub scope: Scope,
    pub overlay: Arc<dyn CredentialOverlay>,
    _directory: tempfile::TempDir,
}

/// One daemon.
pub struct Daemon {
    pub controllers: Controllers,
    pub plan: Arc<Plan>,
}

impl World {
    /// One machine `m` at site `here`, its provider `fake`, and a credential.
    pub async fn new() -> Self {
        let world = Self::empty().await;
        world.machine("m", json!({ "provider": "fake", "providerID": "fake://old" })).await;
        world.credential("cred", SITE, "token-secret").await;
        world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
        world
    }

    /// The same, with a machine that has an image and first-boot data.
    pub async fn for_replace() -> Self {
        let world = Self::empty().await;
        world.credential("cred", SITE, "token-secret").await;
        world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
        world.secret_of_type("boot", "Opaque", "", &[("userData", b"#cloud-config\n")]).await;
        let spec = json!({ "host": { "external": { "provider": "fake", "providerID": "fake://old" }, "image": " img-1 " },
            "userDataRef": { "name": "boot" } });
        world.machine_with("m", json!({ SITE_LABEL: SITE }), spec).await;
        world
    }

    /// What the module was asked, in order.
    pub fn requests(&self) -> Vec<OperationRequest> {
        let calls = self.module.calls.lock().unwrap();
        calls
            .iter()
            .filter_map(|call| match call {
                Callback::Execute { request, .. }
                | Callback::Begin { request, .. }
                | Callback::Poll { request, .. }
                | Callback::Cancel { request, .. }
                | Callback::Cleanup { request, .. }
                | Callback::BeginAllocate { request, .. }
                | Callback::PollAllocate { request, .. }
                | Callback::BeginRelease { request, .. }
                | Callback::PollRelease { request, .. } => Some(request.clone()),
                Callback::ResolveClass { .. } | Callback::PlanAllocation { .. } => None,
            })
            .collect()
    }

    pub async fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(whole_seconds(jiff::Timestamp::now()).0));
        let stamps = clock.clone();
        let options = Options { stamps: Stamps::by(move || stamps.now()), ..Options::default() };
        let server = ApiServer::open(directory.path(), options).await.unwrap();
        let module = Scripted::new();
        let modules = OneModule {
            module: Mutex::new(Some(module.clone())),
            reports: Mutex::default(),
            changes: tokio::sync::watch::Sender::new(0),
        };
        Self {
            client: server.client(),
            server,
            clock,
            cloud: Cloud::new(),
            module,
            modules: Arc::new(modules),
            vault: Arc::default(),
            settings: Settings::default(),
            scope: Scope::default(),
            overlay: Arc::new(NoOverlay),
            _directory: directory,
        }
    }

    pub fn deps(&self, client: Client) -> Deps {
        let clock = Arc::new(EffectsClock(self.clock.clone()));
        Deps {
            client,
            clock: self.clock.clone(),
            modules: self.modules.clone(),
            effects: Effects::with_clock(Arc::new(Wire(self.cloud.clone())), clock),
            vault: self.vault.clone(),
            overlay: self.overlay.clone(),
            lease: LeaseSettings {
                take_over: true,
                duration: Duration::from_secs(1_000_000_000),
                ..LeaseSettings::new(format!("test-{}", self.clock.now()))
            },
            settings: self.settings.clone(),
            scope: self.scope.clone(),
            workers: 4,
            drain: Duration::from_secs(5),
        }
    }

    /// A daemon that starts now.
    pub async fn daemon(&self) -> Daemon {
        self.daemon_under(Plan::never()).await
    }

    pub async fn daemon_under(&self, plan: Arc<Plan>) -> Daemon {
        let client = faulty(self.client.clone(), plan.clone());
        let mut registry = prometheus_client::registry::Registry::default();
        let mut controllers = Controllers::new(self.deps(client), &mut registry);
        assert!(controllers.take_lease().await.unwrap());
        Daemon { controllers, plan }
    }

    pub async fn machine(&self, name: &str, external: Value) -> Machine {
        self.machine_with(name, json!({ SITE_LABEL: SITE }), json!({ "host": { "external": external } }))
            .await
    }

    pub async fn machine_with(&self, name: &str, labels: Value, spec: Value) -> Machine {
        let machine = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "Machine",
            "metadata": { "name": name, "labels": labels }, "spec": spec });
        let api: Api<Machine> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(machine).unwrap()).await.unwrap()
    }

    pub async fn credential(&self, name: &str, site: &str, secret: &str) {
        let spec = ProviderCredentialSpec {
            site_name: site.to_owned(),
            provider: "fake".to_owned(),
            auth: CredentialAuth {
                mode: AuthMode::ExternalPlugin,
                secret_ref: Some(SecretReference { namespace: None, name: secret.to_owned() }),
            },
        };
        let api: Api<ProviderCredential> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &ProviderCredential::new(name, spec)).await.unwrap();
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE)
    }

    pub async fn secret(&self, name: &str, provider: &str, values: &[(&str, &[u8])]) {
        self.secret_of_type(name, CREDENTIAL_SECRET_TYPE, provider, values).await;
    }

    /// For a provider; for none, it is labelled as first-boot data.
    pub async fn secret_of_type(&self, name: &str, type_: &str, provider: &str, values: &[(&str, &[u8])]) {
        let mut secret = Secret { type_: Some(type_.to_owned()), ..Secret::default() };
        secret.metadata.name = Some(name.to_owned());
        let label = match provider {
            "" => ("holdfast.dev/first-boot-data", "true"),
            provider => (PROVIDER_LABEL, provider),
        };
        secret.metadata.labels = Some([(label.0.to_owned(), label.1.to_owned())].into());
        secret.data = Some(values.iter().map(|(k, v)| ((*k).to_owned(), ByteString(v.to_vec()))).collect());
        self.secrets().create(&PostParams::default(), &secret).await.unwrap();
    }

    pub fn operations(&self) -> Api<MachineOperation> {
        Api::all(self.client.clone())
    }

    pub fn machines(&self) -> Api<Machine> {
        Api::all(self.client.clone())
    }

    /// Makes an operation on machine `m`.
    pub async fn operation(&self, name: &str, kind: &str) -> MachineOperation {
        self.operation_with(name, json!({ "machineRef": { "name": "m" }, "operationKind": kind })).await
    }

    pub async fn operation_with(&self, name: &str, spec: Value) -> MachineOperation {
        let operation = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineOperation",
            "metadata": { "name": name }, "spec": spec });
        let operation = serde_json::from_value(operation).unwrap();
        self.operations().create(&PostParams::default(), &operation).await.unwrap()
    }

    pub async fn get(&self, name: &str) -> MachineOperation {
        self.operations().get(name).await.unwrap()
    }

    pub async fn status(&self, name: &str) -> MachineOperationStatus {
        self.get(name).await.status.unwrap_or_default()
    }

    pub async fn target(&self, name: &str) -> OperationTarget {
        self.status(name).await.target.unwrap_or_default()
    }

    /// Changes the status behind the controller's back.
    pub async fn set_status(&self, name: &str, change: impl FnOnce(&mut MachineOperationStatus)) {
        let mut operation = self.get(name).await;
        change(operation.status.get_or_insert_default());
        self.operations().replace_status(name, &PostParams::default(), &operation).await.unwrap();
    }

    pub async fn patch_operation(&self, name: &str, patch: Value) {
        self.operations().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn patch_machine(&self, patch: Value) {
        self.machines().patch("m", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete_operation(&self, name: &str) {
        self.operations().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn provider_id(&self) -> Option<String> {
        self.machines().get("m").await.unwrap().spec.host.external.provider_id
    }

    pub async fn events(&self) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let events = api.list(&ListParams::default()).await.unwrap().items;
        events.into_iter().filter_map(|event| event.reason).collect()
    }

    pub fn clock_now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Passes the rest of whatever backoff an operation is in.
    pub async fn pass_backoff(&self, name: &str) {
        if let Some(until) = self.status(name).await.waiting.and_then(|waiting| waiting.until) {
            self.clock.advance(holdfast_controllers::clock::until(self.clock.now(), until.0));
        }
    }
}

impl Daemon {
    /// One step, after what the watches would tell was read.
    pub async fn step(&self, name: &str) -> Next {
        self.controllers.refresh().await.unwrap();
        self.controllers.reconcile(name).await.unwrap()
    }

    /// One step that the API doesn't let through.
    pub async fn failing_step(&self, name: &str) {
        self.controllers.refresh().await.unwrap();
        self.controllers.reconcile(name).await.expect_err("the step should not go through");
    }
}

pub fn after(seconds: u64) -> Next {
    Next::After(Duration::from_secs(seconds))
}

pub fn condition(status: &MachineOperationStatus, type_: &str) -> Option<(String, String)> {
    conditions::find(&status.conditions, type_).map(|c| (c.status.clone(), c.reason.clone()))
}

pub fn uid(operation: &MachineOperation) -> String {
    operation.uid().unwrap()
}
