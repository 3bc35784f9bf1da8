//! What outlives daemons: the cloud, the store, the time, and the people.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use holdfast_api::{PROVIDER_LABEL, SITE_LABEL, SYSTEM_NAMESPACE, whole_seconds};
use holdfast_controllers::clock::{Clock as _, ManualClock};
use holdfast_custody::binding::{Binding, Grants};
use holdfast_simulated_cloud::{AuthChange, ClockChange, Cloud, Options, Rule, Seed};
use kube::Client;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Api, api::Patch};
use serde_json::{Value, json};

use crate::disk::Disk;
use crate::module::{OneModule, REAL, manifest};
use crate::plan::{Plan, Thing};
use crate::wire::{Sabotage, Traffic};

pub const SITE: &str = "lab";
/// Every secret of a plan begins with it: where it stands in clear, a secret has got out.
pub const CANARY: &str = "hfcanary-";
pub const USER_DATA: &str = "#cloud-config\n# hfcanary-user-data-of-this-plan\n";

pub struct World {
    pub plan: Plan,
    pub cloud: Cloud,
    pub disk: Arc<Disk>,
    pub clock: Arc<ManualClock>,
    pub modules: Arc<OneModule>,
    pub traffic: Arc<Traffic>,
    pub sabotage: Sabotage,
    /// Certificates and tokens of the API server.
    pub folder: std::path::PathBuf,
    /// Servers of the machines that are there from the beginning, by machine.
    pub seeded: Vec<(String, String)>,
    /// How often time went on because nothing moved.
    pub stills: AtomicU64,
    /// Milliseconds that passed since the beginning.
    passed: AtomicI64,
    refuses: AtomicBool,
    healed: AtomicBool,
    began: jiff::Timestamp,
}

pub fn token(number: u32) -> String {
    format!("{CANARY}token-number-{number:06}")
}

impl World {
    pub fn new(plan: &Plan, sabotage: Sabotage, folder: &std::path::Path) -> World {
        let options = Options { api_token: token(0), ..Options::default() };
        let cloud = REAL.block_on(Cloud::start(options)).expect("the cloud starts");
        let now_ms = cloud.clock(ClockChange { freeze: Some(true), advance_ms: None });
        cloud.behave(|behaviour| {
            plan.cloud.put(behaviour, plan.replays, now_ms);
            if sabotage == Sabotage::TokensForgotten {
                behaviour.idempotency.honoured = false;
            }
        });
        let manifest = manifest(plan.replays);
        let disk = Arc::new(Disk::default());
        disk.lock().journal.manifest = Some(manifest.clone());
        let began = whole_seconds(jiff::Timestamp::now()).0;
        let seed = |name: &str| cloud.seed_server(Seed::named(name)).expect("a server can be put there");
        // Nobody's business: what is done to them is done to strangers.
        ["bystander-0", "bystander-1"].into_iter().for_each(|name| drop(seed(name)));
        let machines = plan.things.iter().enumerate().filter(|(_, thing)| matches!(thing, Thing::Machine(_)));
        let seeded = machines.map(|(n, _)| (format!("m-{n}"), seed(&format!("m-{n}")))).collect();
        cloud.set_faults(plan.rules.iter().flat_map(|bad| bad.rules()).collect());
        World {
            plan: plan.clone(),
            disk,
            clock: Arc::new(ManualClock::new(began)),
            modules: OneModule::new(manifest),
            traffic: Arc::default(),
            sabotage,
            folder: folder.to_owned(),
            seeded,
            stills: AtomicU64::new(0),
            passed: AtomicI64::new(0),
            refuses: AtomicBool::new(false),
            healed: AtomicBool::new(false),
            began,
            cloud,
        }
    }

    pub fn grants(&self) -> Grants {
        let binding = Binding {
            endpoint: "api".to_owned(),
            site: Some(SITE.to_owned()),
            value: None,
            origin: Some(self.cloud.origin().to_owned()),
            ca_pem: Some(self.cloud.ca_pem().to_owned()),
            pin_sha256: None,
            ranges: vec!["127.0.0.1/32".parse().expect("a range")],
            vars: Default::default(),
            auth: None,
            aliases: Vec::new(),
        };
        Grants { bindings: vec![binding], calls: Default::default() }
    }

    /// Milliseconds since the beginning.
    pub fn passed(&self) -> i64 {
        self.clock.now().duration_since(self.began).as_millis() as i64
    }

    /// All clocks go on; must be called inside a life, whose timers it moves.
    pub async fn advance(&self, ms: i64) {
        let by = Duration::from_millis(u64::try_from(ms.max(1)).unwrap_or(1));
        let before = self.passed.fetch_add(ms.max(1), Ordering::SeqCst);
        self.cloud.clock(ClockChange { freeze: None, advance_ms: Some(by.as_millis() as u64) });
        // The `Date` header stays where the daemon's wall clock is: skew is another plan's business.
        let offset = self.plan.cloud.date_offset_s * 1000 - before - ms.max(1);
        self.cloud.behave(|behaviour| behaviour.date_offset_ms = offset);
        self.refusing();
        self.clock.advance(by);
        tokio::time::advance(by).await;
    }

    /// Whether the cloud takes credentials now.
    fn refusing(&self) {
        let Some((from, length)) = self.plan.cloud.refuses else { return };
        let now = self.passed.load(Ordering::SeqCst) / 1000;
        let refuses = (from as i64..(from + length) as i64).contains(&now);
        if self.refuses.swap(refuses, Ordering::SeqCst) == refuses || self.healed.load(Ordering::SeqCst) {
            return;
        }
        let refusal = refuses.then(|| Rule::on("*", "/v1/**").refuses(401, "unauthorized"));
        let rest = self.plan.rules.iter().flat_map(|bad| bad.rules());
        self.cloud.set_faults(refusal.into_iter().chain(rest).collect());
    }

    pub fn is_healed(&self) -> bool {
        self.healed.load(Ordering::SeqCst)
    }

    /// The cloud becomes kind: what is left to do can be done.
    pub fn heal(&self, number: u32) {
        self.healed.store(true, Ordering::SeqCst);
        self.cloud.set_faults(Vec::new());
        self.cloud.behave(|behaviour| {
            behaviour.offers_valid_s = 2 * 86_400;
            behaviour.limits = Default::default();
            behaviour.rate = None;
            behaviour.lock_while_busy = false;
            behaviour.action_ms = 50;
        });
        self.cloud.auth(AuthChange { unlock: true, token: Some(token(number)), ..AuthChange::default() });
        self.modules.swap(Some(1));
        self.traffic.withdrawn.store(false, Ordering::SeqCst);
    }
}

/// A person at the API.
#[derive(Clone)]
pub struct Person(pub Client);

impl Person {
    pub fn api(&self, kind: &str, namespaced: bool) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Secret" | "ConfigMap" => ("", "v1"),
            _ => ("holdfast.dev", "v1alpha1"),
        };
        let plural = match kind {
            "MachineClass" => "machineclasses".to_owned(),
            other => format!("{}s", other.to_lowercase()),
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
            kind: kind.to_owned(),
            plural,
        };
        match namespaced {
            true => Api::namespaced_with(self.0.clone(), SYSTEM_NAMESPACE, &resource),
            false => Api::all_with(self.0.clone(), &resource),
        }
    }

    pub async fn make(&self, kind: &str, name: &str, mut rest: Value) -> Result<(), kube::Error> {
        let namespaced = matches!(kind, "Secret" | "ConfigMap");
        let api = self.api(kind, namespaced);
        rest["apiVersion"] = if namespaced { json!("v1") } else { json!("holdfast.dev/v1alpha1") };
        rest["kind"] = json!(kind);
        rest["metadata"]["name"] = json!(name);
        let object: DynamicObject = serde_json::from_value(rest).expect("an object");
        api.create(&PostParams::default(), &object).await.map(drop)
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: Value) -> Result<(), kube::Error> {
        let api = self.api(kind, matches!(kind, "Secret" | "ConfigMap"));
        api.patch(name, &Default::default(), &Patch::Merge(patch)).await.map(drop)
    }

    pub async fn delete(&self, kind: &str, name: &str) -> Result<(), kube::Error> {
        self.api(kind, false).delete(name, &Default::default()).await.map(drop)
    }

    pub async fn token(&self, number: u32) -> Result<(), kube::Error> {
        self.patch("Secret", "cloud", json!({ "stringData": { "api-token": token(number) } })).await
    }

    /// Everything that is there at the beginning. Operations come later.
    pub async fn begin(&self, world: &World) -> Result<(), kube::Error> {
        let credential = json!({ "type": "holdfast.dev/credential",
            "metadata": { "labels": { PROVIDER_LABEL: "simulated" } }, "stringData": { "api-token": token(0) } });
        self.make("Secret", "cloud", credential).await?;
        let boot = json!({ "type": "Opaque", "metadata": { "labels": { "holdfast.dev/first-boot-data": "true" } },
            "stringData": { "userData": USER_DATA } });
        self.make("Secret", "boot", boot).await?;
        let auth = json!({ "mode": "ExternalPlugin", "secretRef": { "name": "cloud" } });
        let spec = json!({ "siteName": SITE, "provider": "simulated", "auth": auth });
        self.make("ProviderCredential", "lab-simulated", json!({ "spec": spec })).await?;
        for (name, server) in &world.seeded {
            let external = json!({ "provider": "simulated", "providerID": format!("sim://{server}") });
            let spec = json!({ "host": { "external": external, "image": "image-2" }, "userDataRef": { "name": "boot" } });
            let labels = json!({ "labels": { SITE_LABEL: SITE } });
            self.make("Machine", name, json!({ "metadata": labels, "spec": spec })).await?;
        }
        for (name, data) in [
            ("bare", json!({ "image": "image-1", "types": "small" })),
            ("parts", json!({ "image": "image-1", "types": "small,large", "volumes": "10,20", "nics": "1" })),
        ] {
            let wanted = |thing: &Thing| matches!(thing, Thing::Allocation(claim) if claim.with_parts == (name == "parts"));
            if !world.plan.things.iter().any(wanted) {
                continue;
            }
            self.make("ConfigMap", name, json!({ "data": data })).await?;
            let config = json!({ "name": name });
            let spec = json!({ "provider": "simulated", "siteName": SITE, "providerConfigRef": config });
            self.make("MachineClass", name, json!({ "spec": spec })).await?;
        }
        for (n, thing) in world.plan.things.iter().enumerate() {
            let Thing::Allocation(claim) = thing else { continue };
            let class = if claim.with_parts { "parts" } else { "bare" };
            let mut spec = json!({ "classRef": { "name": class } });
            if claim.user_data {
                spec["userData"] = json!({ "secretRef": { "name": "boot" } });
            }
            if let Some(seconds) = claim.deadline {
                spec["deadlineSeconds"] = json!(seconds);
            }
            self.make("MachineAllocation", &format!("a-{n}"), json!({ "spec": spec })).await?;
        }
        Ok(())
    }
}
