//! An allocation with its machine, as the allocation controller leaves them before it makes an operation.

use std::sync::Arc;

use holdfast_api::*;
use holdfast_effects::{CallOutcome, CallRequest, Callback, PollState, Returned};
use holdfast_manifest::Manifest;
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::modules::*;
use super::{SITE, World, whole_seconds};

pub const PLANNED: &str = "fake://web-1";

pub fn hosts_manifest() -> Arc<Manifest> {
    static PARSED: std::sync::OnceLock<Arc<Manifest>> = std::sync::OnceLock::new();
    let parse =
        || Arc::new(Manifest::parse(include_str!("hosts.toml")).unwrap_or_else(|errors| panic!("{errors}")));
    PARSED.get_or_init(parse).clone()
}

impl World {
    /// A provider of hosts and its credential.
    pub async fn of_hosts() -> Self {
        let world = Self::empty().await;
        *world.module.manifest.lock().unwrap() = hosts_manifest();
        *world.cloud.vault.lock().unwrap() = Some(world.vault.clone());
        world.credential("cred", SITE, "token-secret").await;
        world.secret("token-secret", "fake", &[("token", b"correct horse battery")]).await;
        world
    }

    /// The same, with the allocation `web-1` and its machine; its operation is `op`, a HostAllocate.
    pub async fn for_allocate() -> Self {
        Self::for_allocate_with(json!({ "classRef": { "name": "small" } })).await
    }

    pub async fn for_allocate_with(spec: Value) -> Self {
        let world = Self::of_hosts().await;
        world.planned(spec).await;
        world.name_operation("op", "HostAllocate").await;
        world.allocation_operation("op", "HostAllocate").await;
        world
    }

    /// The same, where the host is there: `op` is a HostRelease of what is recorded.
    pub async fn for_release(owned: &[(&str, &str)]) -> Self {
        let world = Self::of_hosts().await;
        let uid = world.planned(json!({ "classRef": { "name": "small" } })).await;
        let owned: Vec<OwnedResource> = owned.iter().map(|(kind, id)| resource(kind, id, &uid)).collect();
        world.set_allocation(|status| status.owned_resources = owned).await;
        world.name_operation("op", "HostRelease").await;
        world.allocation_operation("op", "HostRelease").await;
        world
    }

    pub fn claims_api(&self) -> Api<MachineAllocation> {
        Api::all(self.client.clone())
    }

    /// Makes the allocation `web-1` with a plan, and its machine. Returns the allocation's uid.
    pub async fn planned(&self, spec: Value) -> String {
        let allocation = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation",
            "metadata": { "name": "web-1" }, "spec": spec });
        let allocation: MachineAllocation = serde_json::from_value(allocation).unwrap();
        let allocation = self.claims_api().create(&PostParams::default(), &allocation).await.unwrap();
        let spec = json!({ "host": { "external": { "provider": "fake", "providerID": PLANNED }, "image": "img-1" } });
        let machine = self.machine_with("web-1", json!({ SITE_LABEL: SITE }), spec).await;
        let valid_until =
            Time(holdfast_controllers::clock::add(self.clock_now(), std::time::Duration::from_secs(3600)));
        let valid_until = whole_seconds(valid_until.0);
        self.set_allocation(|status| {
            status.phase = AllocationPhase::Allocating;
            status.class_uid = Some("class-uid".to_owned());
            status.provider = Some("fake".to_owned());
            status.site_name = Some(SITE.to_owned());
            status.config = [("region".to_owned(), "north".to_owned())].into();
            status.offering = Some(Offering {
                name: "small-z1".to_owned(),
                instance_type: "small".to_owned(),
                zone: Some("z1".to_owned()),
                resources: [("cpu".to_owned(), "2".to_owned())].into(),
                available: true,
                valid_until,
                attributes: Default::default(),
            });
            status.plan = Some(AllocationPlan {
                provider_id: PLANNED.to_owned(),
                host_image: "img-1".to_owned(),
                host_name: "web-1".to_owned(),
            });
            status.machine_ref = Some(MachineReference { name: "web-1".to_owned() });
            status.machine_uid = machine.uid();
        })
        .await;
        allocation.uid().unwrap()
    }

    /// Changes the allocation's status as its controller would.
    pub async fn set_allocation(&self, change: impl FnOnce(&mut MachineAllocationStatus)) {
        let mut allocation = self.claims_api().get("web-1").await.unwrap();
        change(allocation.status.get_or_insert_default());
        self.claims_api().replace_status("web-1", &PostParams::default(), &allocation).await.unwrap();
    }

    /// Says that an operation is the allocation's.
    pub async fn name_operation(&self, name: &str, kind: &str) {
        let reference = OperationReference { name: name.to_owned(), uid: None, kind: kind.to_owned() };
        self.set_allocation(|status| status.operation_ref = Some(reference)).await;
    }

    pub async fn allocation_operation(&self, name: &str, kind: &str) -> MachineOperation {
        let spec = json!({ "machineRef": { "name": "web-1" }, "allocationRef": { "name": "web-1" },
            "operationKind": kind });
        self.marked_operation(name, spec).await
    }

    /// An operation with the mark that the allocation controller puts on those that it makes.
    pub async fn marked_operation(&self, name: &str, spec: Value) -> MachineOperation {
        let uid = self.claims_api().get("web-1").await.unwrap().uid();
        let operation = json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineOperation",
            "metadata": { "name": name, "annotations": { "holdfast.dev/allocation-uid": uid } }, "spec": spec });
        let operation = serde_json::from_value(operation).unwrap();
        self.operations().create(&PostParams::default(), &operation).await.unwrap()
    }

    pub async fn template(&self, name: &str, key: &str, text: &str) {
        use k8s_openapi::api::core::v1::ConfigMap;
        let map = json!({ "metadata": { "name": name }, "data": { key: text } });
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        api.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }

    pub async fn change_template(&self, name: &str, key: &str, text: &str) {
        use k8s_openapi::api::core::v1::ConfigMap;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let patch = Patch::Merge(json!({ "data": { key: text } }));
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Names of the Secrets in which first-boot data is kept.
    pub async fn kept(&self) -> Vec<String> {
        let secrets = self.secrets().list(&Default::default()).await.unwrap().items;
        let kept = secrets.into_iter().filter(|one| one.type_.as_deref() == Some(FIRST_BOOT_SECRET_TYPE));
        kept.map(|secret| secret.name_any()).collect()
    }

    pub async fn machine_owned(&self) -> Vec<(String, String)> {
        let machine = self.machines().get("web-1").await.unwrap();
        pairs(&machine.status.unwrap_or_default().owned_resources)
    }

    pub async fn host_id(&self) -> Option<String> {
        self.machines().get("web-1").await.unwrap().spec.host.external.provider_id
    }
}

pub fn resource(kind: &str, id: &str, owner: &str) -> OwnedResource {
    OwnedResource {
        binding: "api/here".to_owned(),
        kind: kind.to_owned(),
        id: id.to_owned(),
        owner: owner.to_owned(),
        ..OwnedResource::default()
    }
}

pub fn pairs(owned: &[OwnedResource]) -> Vec<(String, String)> {
    owned.iter().map(|one| (one.kind.clone(), one.id.clone())).collect()
}

/// A request for a call with first-boot data in its slot.
pub fn with_data(call: &str) -> CallRequest {
    CallRequest { user_data: vec!["user-data".to_owned()], ..plain(call) }
}

/// Makes a volume and a server, is done at the first poll; destroys what it is given, is done when that is done. Comes
/// back while something is in doubt.
pub fn hosts() -> Script {
    Arc::new(|callback, port| {
        Box::pin(async move {
            let doubt = || failure(false, "InDoubt", "an effect is in doubt");
            match callback {
                Callback::BeginAllocate { .. } => {
                    for (key, request) in [("volume", plain("volume")), ("server", with_data("make"))] {
                        match port.perform(key.into(), request).await {
                            Ok(CallOutcome::Done(_)) => {}
                            _ => return Ok(Returned::BeginAllocate(Err(doubt()))),
                        }
                    }
                    allocate_begun("h")
                }
                Callback::PollAllocate { .. } => allocated("new"),
                Callback::BeginRelease { owned, .. } => {
                    for one in owned {
                        let call = if one.kind == "server" { "drop" } else { "drop-volume" };
                        match port.perform(format!("drop-{}", one.id), on(call, &one.id)).await {
                            Ok(CallOutcome::Done(_)) => {}
                            _ => return Ok(Returned::BeginRelease(Err(doubt()))),
                        }
                    }
                    release_begun("r")
                }
                Callback::PollRelease { .. } => release_polled(PollState::Succeeded, "", ""),
                Callback::Cancel { .. } => Ok(Returned::Cancel(Ok(()))),
                other => panic!("nothing is scripted for {}", name_of(&other)),
            }
        })
    })
}
