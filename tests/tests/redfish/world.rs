//! What the tests share: one daemon with the redfish module, one certificate authority, one emulator. They live as long
//! as a scenario that uses them; the small BMCs and the proxies are each scenario's own, and so are their bindings.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER;
use holdfast_api::{EffectState, MachineOperation, MachineOperationStatus, Phase, Provider, ProviderState};
use holdfast_manifest::Manifest;
use holdfast_tests::{
    bmc::{Bmc, Options},
    counterparts::{Account, FakeSystem, Power, Sushy},
    house::{Endpoint, Grant, House, bmc_machine, credential_secret, operation, until},
    modules,
    proxy::{Proxy, Record},
    tls::RunCa,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

/// Longest wait for anything: far more than an idle machine needs, so that a loaded one passes too.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Systems of the shared emulator. Each test has numbers of its own; the first half is off, the second on.
pub const SYSTEMS: u32 = 40;

pub struct World {
    pub house: House,
    pub ca: RunCa,
    sushy: OnceCell<Sushy>,
}

static WORLD: Mutex<Weak<World>> = Mutex::const_new(Weak::new());

/// The shared daemon; started by the first scenario, and ended with the last.
pub async fn world() -> Result<Arc<World>> {
    let mut shared = WORLD.lock().await;
    if let Some(world) = shared.upgrade() {
        return Ok(world);
    }
    let ca = RunCa::new()?;
    let mut house = House::new()?;
    house.grant(approved(&ca)?);
    house.drop_in("redfish.wasm", &module()?)?;
    house.start().await?;
    until_state(&house.client()?, ProviderState::Ready).await?;
    let world = Arc::new(World { house, ca, sushy: OnceCell::new() });
    *shared = Arc::downgrade(&world);
    Ok(world)
}

impl World {
    pub async fn sushy(&self) -> Result<&Sushy> {
        self.sushy
            .get_or_try_init(|| async {
                let power = |number| if number <= SYSTEMS / 2 { Power::Off } else { Power::On };
                let systems: Vec<_> =
                    (1..=SYSTEMS).map(|number| FakeSystem::numbered(number, power(number))).collect();
                Sushy::start(&self.ca, &systems, &account()).await
            })
            .await
    }

    /// A BMC of the test's own, with a recording proxy before it and a Secret for it.
    pub async fn bmc(&self, name: &str, options: Options) -> Result<Rack> {
        let account = Account { user: options.user.clone(), password: options.password.clone() };
        let bmc = Bmc::start(&self.ca, options).await?;
        let proxy = Proxy::start(&bmc.origin(), bmc.ca_pem(), &self.ca).await?;
        let bench = Bench::new(self.house.client()?, name, &proxy.origin(), "basic", &account).await?;
        Ok(Rack { bmc, proxy, bench })
    }
}

/// A BMC, what is before it, and how to work on its machines.
pub struct Rack {
    pub bmc: Bmc,
    pub proxy: Proxy,
    pub bench: Bench,
}

/// Machines behind one address with one Secret. All names start with that of the bench, which has no hyphen, and one.
pub struct Bench {
    pub client: Client,
    pub name: String,
    address: String,
    auth: String,
}

impl Bench {
    pub async fn new(
        client: Client,
        name: &str,
        origin: &str,
        auth: &str,
        account: &Account,
    ) -> Result<Bench> {
        let values = [("user", account.user.as_bytes()), ("password", account.password.as_bytes())];
        credential_secret(&client, name, "redfish", &values).await?;
        let address = origin.trim_start_matches("https://").to_owned();
        Ok(Bench { client, name: name.to_owned(), address, auth: auth.to_owned() })
    }

    pub fn named(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }

    pub async fn machine(&self, name: &str, system: &str) -> Result<()> {
        let named = self.named(name);
        bmc_machine(&self.client, &named, &self.address, &self.auth, &self.name, system).await
    }

    /// Starts an operation on a machine of this bench.
    pub async fn operate(&self, name: &str, machine: &str, kind: &str, more: Value) -> Result<()> {
        operation(&self.client, &self.named(name), &self.named(machine), kind, more).await
    }

    /// Makes the machine of a system and starts an operation on it, both named alike.
    pub async fn begin(&self, name: &str, system: &str, kind: &str, more: Value) -> Result<()> {
        self.machine(name, system).await?;
        self.operate(name, name, kind, more).await
    }

    /// The status of each operation of this bench, by its name without that of the bench.
    pub async fn statuses(&self) -> Result<BTreeMap<String, MachineOperationStatus>> {
        let api: Api<MachineOperation> = Api::all(self.client.clone());
        let prefix = self.named("");
        let all = api.list(&ListParams::default()).await?.items.into_iter().filter_map(|operation| {
            let name = operation.metadata.name?.strip_prefix(&prefix)?.to_owned();
            Some((name, operation.status.unwrap_or_default()))
        });
        Ok(all.collect())
    }

    /// Waits until all operations of this bench are as wanted; gives their statuses.
    pub async fn until_all(
        &self,
        what: &str,
        wanted: impl Fn(&str, &MachineOperationStatus) -> bool,
    ) -> Result<BTreeMap<String, MachineOperationStatus>> {
        let began = Instant::now();
        let mut last = String::new();
        while began.elapsed() < PATIENCE {
            match self.statuses().await {
                Ok(all) if all.iter().all(|(name, status)| wanted(name, status)) => return Ok(all),
                Ok(all) => {
                    let odd = all.iter().filter(|(name, status)| !wanted(name, status));
                    last = odd.map(|(name, status)| format!("\n{name}: {status:#?}")).collect();
                }
                Err(error) => last = format!("{error:#}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        bail!("the operations of {} did not all become: {what}; the others:{last}", self.name)
    }

    /// Waits until all operations have ended; gives their statuses.
    pub async fn ended(&self) -> Result<BTreeMap<String, MachineOperationStatus>> {
        self.until_all("ended", |_, status| {
            matches!(status.phase, Phase::Complete | Phase::Failed | Phase::OutcomeUnknown)
        })
        .await
    }

    /// Waits until all operations have ended, and wants all to be complete with every effect known to be done.
    pub async fn all_complete(&self) -> Result<BTreeMap<String, MachineOperationStatus>> {
        let all = self.ended().await?;
        for (name, status) in &all {
            ensure!(status.phase == Phase::Complete, "{name} is to be complete, and is: {status:#?}");
            ensure!(
                status.effects.iter().all(|effect| effect.state == EffectState::Done),
                "every effect of {name} is to be known as done: {:#?}",
                status.effects
            );
        }
        Ok(all)
    }
}

/// Puts another password into the Secret of a bench, as a person with kubectl would.
pub async fn put_password(bench: &Bench, password: &str) -> Result<()> {
    let patch = Patch::Merge(json!({ "data": { "password": STANDARD.encode(password) } }));
    let secrets: Api<Secret> = Api::namespaced(bench.client.clone(), "holdfast-system");
    secrets.patch(&bench.name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The account of the emulator.
pub fn account() -> Account {
    Account { user: "admin".into(), password: "pa:ss \"word\" ü".into() }
}

/// The redfish module, built.
pub fn module() -> Result<Vec<u8>> {
    Ok(std::fs::read(modules::build()?.provider("redfish")?)?)
}

/// Its manifest, as its source folder has it.
pub fn manifest() -> Result<Manifest> {
    let path = holdfast_tests::folders::checkout().join("providers/redfish/provider.toml");
    let text = std::fs::read_to_string(path)?;
    Manifest::parse(&text).map_err(|errors| anyhow::anyhow!("{errors}"))
}

/// The grant that an operator who has read the manifest would write.
pub fn approved(ca: &RunCa) -> Result<Grant> {
    Ok(Grant::approving(&manifest()?).endpoint(Endpoint::per_machine("bmc", ca.pem())))
}

/// Waits for a state of the Provider object.
pub async fn until_state(client: &Client, state: ProviderState) -> Result<Provider> {
    until(client, "redfish", PATIENCE, |provider: &Provider| {
        provider.status.as_ref().is_some_and(|status| status.state == state)
    })
    .await
}

/// A reset request with this type, as the proxy records it.
pub fn is_reset(record: &Record, system: &str, reset: &str) -> bool {
    let body = format!("{{\"ResetType\":\"{reset}\"}}");
    is_any_reset(record, system)
        && record.request_sha256 == HEXLOWER.encode(digest(&SHA256, body.as_bytes()).as_ref())
}

pub fn is_any_reset(record: &Record, system: &str) -> bool {
    record.method == "POST" && record.path.contains(&format!("/Systems/{system}/Actions/"))
}

/// The message of a status.
pub fn message(status: &MachineOperationStatus) -> &str {
    status.message.as_deref().unwrap_or_default()
}

/// Waits for something that is not an object of the API.
pub async fn until_true(what: &str, wanted: impl Fn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !wanted() {
        ensure!(began.elapsed() < PATIENCE, "it did not come to this: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// One status out of many.
pub fn of<'a>(
    all: &'a BTreeMap<String, MachineOperationStatus>,
    name: &str,
) -> Result<&'a MachineOperationStatus> {
    all.get(name).with_context(|| format!("there is no operation {name}"))
}
