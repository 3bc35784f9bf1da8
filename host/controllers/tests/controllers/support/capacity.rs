//! Classes and allocations over the fake provider: what it offers, how its launches end, and a daemon that is driven
//! until nothing is left to do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use holdfast_api::*;
use holdfast_controllers::Next;
use holdfast_controllers::clock::until;
use holdfast_effects::{
    CallError, CallOutcome, Callback, ClassOffering, Failure, Plan, PollState, Port, Returned,
};
use holdfast_manifest::Manifest;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::modules::*;
use super::{Daemon, SITE, World};

/// How a launch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch {
    /// A host is made and confirmed.
    Good,
    /// Nothing is made: the contract's code of the failure.
    Refused(&'static str),
    /// Nothing is made: a reason in the provider's own words.
    Said(&'static str),
    /// A server is made, and then the provider gives up for the contract's code.
    Half(&'static str),
    /// A server is made, and the provider goes on for ever.
    Endless,
}

/// What the provider does.
#[derive(Default)]
pub struct Service {
    pub offerings: Mutex<Vec<ClassOffering>>,
    /// How the next launches end; then they are good.
    pub launches: Mutex<VecDeque<Launch>>,
    /// How the next releases end: an error's reason; then they are good.
    pub releases: Mutex<VecDeque<&'static str>>,
    /// Launches under way, by the operation's id.
    running: Mutex<BTreeMap<String, Launch>>,
}

impl Service {
    pub fn offers(&self, offerings: Vec<ClassOffering>) {
        *self.offerings.lock().unwrap() = offerings;
    }

    pub fn next_launch(&self, launch: Launch) {
        self.launches.lock().unwrap().push_back(launch);
    }
}

/// A manifest of the fake provider that allocates hosts.
pub fn capacity_manifest() -> Arc<Manifest> {
    parsed(&manifest_text())
}

/// One that can also list what is under our marker.
pub fn listing_manifest() -> Arc<Manifest> {
    let text = manifest_text().replace("[operations]", "list-owned = \"list-owned\"\n\n[operations]");
    parsed(&format!("{text}\n{LIST_OWNED}"))
}

const LIST_OWNED: &str = r#"
[calls.list-owned]
endpoint = "api"
effect = "read"
method = "GET"
path = "/servers?managed_by=holdfast"
accept = [200]
adopts = { server = { field = "servers/*/id", proof = "servers/*/token" } }

[calls.list-owned.fields.servers]
at = "json:/servers/*"
each = { id = { at = "json:/id", type = "id" }, token = { at = "json:/owner", type = "word", optional = true } }
"#;

fn manifest_text() -> String {
    include_str!("provider.toml").replace(
        "[operations]",
        "[operations]\nHostAllocate = { mode = \"long-running\" }\nHostRelease = { mode = \"long-running\" }",
    )
}

fn parsed(text: &str) -> Arc<Manifest> {
    Arc::new(Manifest::parse(text).unwrap_or_else(|errors| panic!("{errors}")))
}

pub fn refused(permanent: bool, code: &str, reason: &str) -> Failure {
    Failure { code: code.to_owned(), ..failure(permanent, reason, "the provider said so") }
}

fn script(provider: Arc<Service>) -> Script {
    Arc::new(move |callback, port| {
        let provider = provider.clone();
        async move { answer(&provider, callback, port).await }.boxed()
    })
}

async fn answer(provider: &Service, callback: Callback, port: Arc<dyn Port>) -> Answer {
    let doubt = || refused(false, "unavailable", "InDoubt");
    match callback {
        Callback::ResolveClass { .. } => {
            Ok(Returned::ResolveClass(Ok(provider.offerings.lock().unwrap().clone())))
        }
        Callback::PlanAllocation { request } => Ok(Returned::PlanAllocation(Ok(Plan {
            provider_id: format!("fake://planned-{}-{}", request.host_name, request.offering.name),
            host_image: "img-1".to_owned(),
        }))),
        Callback::BeginAllocate { request, .. } => {
            let launch = {
                let mut running = provider.running.lock().unwrap();
                let next = || provider.launches.lock().unwrap().pop_front().unwrap_or(Launch::Good);
                *running.entry(request.uid.clone()).or_insert_with(next)
            };
            if let Launch::Refused(code) = launch {
                return Ok(Returned::BeginAllocate(Err(refused(true, code, "Refused"))));
            }
            if let Launch::Said(reason) = launch {
                return Ok(Returned::BeginAllocate(Err(refused(true, "other", reason))));
            }
            match port.perform("server".into(), plain("make")).await {
                Ok(CallOutcome::Done(_)) => allocate_begun(&request.uid),
                _ => Ok(Returned::BeginAllocate(Err(doubt()))),
            }
        }
        Callback::PollAllocate { request, .. } => match provider.running.lock().unwrap().get(&request.uid) {
            Some(Launch::Half(code)) => Ok(Returned::PollAllocate(Err(refused(true, code, "GaveUp")))),
            Some(Launch::Endless) if request.deadline.is_some() => {
                allocate_polled(PollState::Canceled, None, "Canceled", "stopped")
            }
            Some(Launch::Endless) => allocate_polled(PollState::InProgress, None, "", "going on"),
            _ => allocated("new"),
        },
        Callback::BeginRelease { owned, .. } => {
            if let Some(reason) = provider.releases.lock().unwrap().pop_front() {
                return Ok(Returned::BeginRelease(Err(refused(true, "unavailable", reason))));
            }
            for one in owned {
                let key = format!("drop-{}", one.id);
                match port.perform(key, on("drop", &one.id)).await {
                    Ok(CallOutcome::Done(_)) => {}
                    // The engine ends a guest over this.
                    Err(CallError::Violation(violation)) => return Err(violation.into()),
                    _ => return Ok(Returned::BeginRelease(Err(doubt()))),
                }
            }
            release_begun("r")
        }
        Callback::PollRelease { .. } => release_polled(PollState::Succeeded, "", ""),
        Callback::Cancel { .. } => Ok(Returned::Cancel(Ok(()))),
        other => panic!("nothing is scripted for {}", name_of(&other)),
    }
}

pub fn offering(name: &str, zone: &str, until: Timestamp) -> ClassOffering {
    ClassOffering {
        name: name.to_owned(),
        instance_type: "small".to_owned(),
        zone: Some(zone.to_owned()),
        resources: vec![("cpu".to_owned(), "4".to_owned()), ("memory".to_owned(), "16Gi".to_owned())],
        available: true,
        valid_until: until.to_string(),
        attributes: vec![("size".to_owned(), "s".to_owned())],
    }
}

impl World {
    /// A provider that allocates, its credential, a ConfigMap `conf` and no class yet.
    pub async fn for_capacity() -> (Self, Arc<Service>) {
        let world = Self::empty().await;
        *world.module.manifest.lock().unwrap() = capacity_manifest();
        world.credential("cred", SITE, "token-secret").await;
        world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
        world.config_map("conf", &[("image", "img-1")]).await;
        let provider = Arc::new(Service::default());
        provider.offers(vec![offering("a", "z1", world.in_hours(2)), offering("b", "z2", world.in_hours(2))]);
        *world.module.default.lock().unwrap() = Some(script(provider.clone()));
        (world, provider)
    }

    /// The same with a class `c`.
    pub async fn with_class() -> (Self, Arc<Service>) {
        let (world, provider) = Self::for_capacity().await;
        world.class("c").await;
        (world, provider)
    }

    pub fn in_hours(&self, hours: i64) -> Timestamp {
        self.clock_now() + SignedDuration::from_hours(hours)
    }

    pub async fn config_map(&self, name: &str, data: &[(&str, &str)]) {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.data = Some(data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        self.config_maps().create(&PostParams::default(), &map).await.unwrap();
    }

    pub fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE)
    }

    pub fn classes(&self) -> Api<MachineClass> {
        Api::all(self.client.clone())
    }

    pub fn allocations(&self) -> Api<MachineAllocation> {
        Api::all(self.client.clone())
    }

    pub async fn class(&self, name: &str) -> MachineClass {
        let spec = json!({ "provider": "fake", "siteName": SITE, "providerConfigRef": { "name": "conf" } });
        let class = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineClass",
            "metadata": { "name": name }, "spec": spec });
        self.classes().create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap()
    }

    pub async fn class_status(&self, name: &str) -> MachineClassStatus {
        self.classes().get(name).await.unwrap().status.unwrap_or_default()
    }

    /// An allocation from class `c`, with more in its spec.
    pub async fn allocation(&self, name: &str, more: Value) -> MachineAllocation {
        let mut spec = json!({ "classRef": { "name": "c" } });
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let allocation = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation",
            "metadata": { "name": name }, "spec": spec });
        let allocation = serde_json::from_value(allocation).unwrap();
        self.allocations().create(&PostParams::default(), &allocation).await.unwrap()
    }

    pub async fn claim(&self, name: &str) -> MachineAllocationStatus {
        self.allocations().get(name).await.unwrap().status.unwrap_or_default()
    }

    pub async fn delete_claim(&self, name: &str) {
        self.allocations().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn set_claim(&self, name: &str, change: impl FnOnce(&mut MachineAllocationStatus)) {
        let mut allocation = self.allocations().get(name).await.unwrap();
        change(allocation.status.get_or_insert_default());
        self.allocations().replace_status(name, &PostParams::default(), &allocation).await.unwrap();
    }

    pub async fn patch_any_machine(&self, name: &str, patch: Value) {
        self.machines().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Whether every allocation is where it stays, every operation has ended, and nobody is being deleted.
    pub async fn at_rest(&self) -> bool {
        let list = ListParams::default();
        let allocations = self.allocations().list(&list).await.unwrap().items;
        let stays = |a: &MachineAllocation| {
            let phase = a.status.as_ref().map(|status| status.phase);
            a.metadata.deletion_timestamp.is_none()
                && matches!(
                    phase,
                    Some(AllocationPhase::Allocated | AllocationPhase::Failed | AllocationPhase::Released)
                )
        };
        let machines = self.machines().list(&list).await.unwrap().items;
        let served = |m: &Machine| {
            m.metadata.deletion_timestamp.is_none()
                && (m.spec.class_ref.is_none() || m.status.as_ref().is_some_and(|s| s.allocation.is_some()))
        };
        let operations = self.operations().list(&list).await.unwrap().items;
        let ended = |o: &MachineOperation| {
            o.finalizers().is_empty() && o.status.as_ref().is_some_and(|status| status.phase.is_terminal())
        };
        allocations.iter().all(stays) && machines.iter().all(served) && operations.iter().all(ended)
    }

    /// Takes every finalizer off an operation and deletes it: what nobody should do.
    pub async fn tear_out(&self, operation: &str) {
        let _ = self.operations().delete(operation, &DeleteParams::default()).await;
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let _ = self.operations().patch(operation, &PatchParams::default(), &patch).await;
    }

    /// Names of all operations, in order.
    pub async fn operation_names(&self) -> Vec<String> {
        let all = self.operations().list(&ListParams::default()).await.unwrap().items;
        let mut names: Vec<String> = all.iter().map(MachineOperation::name_any).collect();
        names.sort();
        names
    }

    /// Requests that reached the service, by call.
    pub fn sent(&self, call: &str) -> usize {
        self.cloud.sends.lock().unwrap().iter().filter(|send| send.starts_with(call)).count()
    }
}

impl Daemon {
    pub async fn class_step(&self, name: &str) -> Next {
        self.controllers.refresh().await.unwrap();
        self.controllers.reconcile_class(name).await.unwrap()
    }

    pub async fn claim_step(&self, name: &str) -> Next {
        self.controllers.refresh().await.unwrap();
        self.controllers.reconcile_allocation(name).await.unwrap()
    }

    pub async fn machine_step(&self, name: &str) -> Next {
        self.controllers.refresh().await.unwrap();
        self.controllers.reconcile_machine(name).await.unwrap()
    }

    /// Steps with everything there is, over and over, until a round writes nothing, or the daemon has died. Time stands
    /// still.
    pub async fn settle(&self, world: &World) {
        for _ in 0..60 {
            let before = self.plan.objects_written().len();
            let round = Box::pin(self.round(world));
            tokio::select! {
                () = round => {}
                () = self.plan.death() => return,
            }
            if self.plan.objects_written().len() == before {
                return;
            }
        }
        panic!("no rest: {:?}", self.plan.objects_written().split_off(40));
    }

    /// Settles, and lets time pass, for so many seconds or until nothing is under way any more.
    pub async fn settle_within(&self, world: &World, seconds: u64) {
        for _ in 0..seconds / 15 {
            self.settle(world).await;
            if self.plan.is_dead() || world.at_rest().await {
                return;
            }
            world.pass(15);
        }
        self.settle(world).await;
    }

    async fn round(&self, world: &World) {
        let step = async {
            self.controllers.refresh().await?;
            let list = ListParams::default();
            for class in world.classes().list(&list).await?.items {
                let _ = self.controllers.reconcile_class(&class.name_any()).await;
            }
            for machine in world.machines().list(&list).await?.items {
                let _ = self.controllers.reconcile_machine(&machine.name_any()).await;
            }
            for allocation in world.allocations().list(&list).await?.items {
                let _ = self.controllers.reconcile_allocation(&allocation.name_any()).await;
            }
            for operation in world.operations().list(&list).await?.items {
                let _ = Box::pin(self.controllers.reconcile(&operation.name_any())).await;
            }
            Ok::<_, kube::Error>(())
        };
        step.await.unwrap();
    }
}

pub fn claim_condition(status: &MachineAllocationStatus, type_: &str) -> Option<(String, String)> {
    conditions::find(&status.conditions, type_).map(|c| (c.status.clone(), c.reason.clone()))
}

pub fn class_condition(status: &MachineClassStatus, type_: &str) -> Option<(String, String)> {
    conditions::find(&status.conditions, type_).map(|c| (c.status.clone(), c.reason.clone()))
}

/// How much of a wait is left.
pub fn left(world: &World, waiting: &Option<Waiting>) -> u64 {
    let at = waiting.as_ref().and_then(|waiting| waiting.until.clone()).expect("it waits until then");
    until(world.clock_now(), at.0).as_secs()
}
