//! The simulated cloud, with a recording proxy for each server: effects are counted by the cloud's ledger.

use anyhow::{Context, Result, ensure};
use holdfast_api::Machine;
use holdfast_simulated_cloud::{Behaviour, Cloud, EffectKind, Idempotency, Ledger, Options, Seed};
use holdfast_tests::house::{Endpoint, cloud_machine, credential, credential_secret};
use holdfast_tests::proxy::Proxy;
use holdfast_tests::tls::RunCa;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::scenario::{Scenario, Service, Start, Subject, there};

const TOKEN: &str = "token-of-the-crash-sweep";
const FIRST_BOOT: &str = "#cloud-config\nhostname: swept\n";

type Row = Scenario<Server>;

/// What the cloud must know of a scenario.
#[derive(Debug)]
pub struct Server {
    status: &'static str,
    /// All that is to be done to the server.
    effects: &'static [EffectKind],
    /// Another server is to be made that stands in for it.
    replaced: bool,
}

const OFF: Row = Scenario {
    name: "power-off",
    start: Start::Operation("HostPowerOff"),
    repeats: &["power-off"],
    never: false,
    writes: true,
    turns: usize::MAX,
    world: Server { status: "running", effects: &[EffectKind::PowerOff], replaced: false },
};

static ROWS: [Row; 4] = [
    OFF,
    Scenario {
        name: "power-on",
        start: Start::Operation("HostPowerOn"),
        repeats: &["power-on"],
        world: Server { status: "off", effects: &[EffectKind::PowerOn], replaced: false },
        ..OFF
    },
    Scenario {
        name: "reboot",
        start: Start::Operation("HostReboot"),
        repeats: &[],
        never: true,
        world: Server { status: "running", effects: &[EffectKind::Reset], replaced: false },
        ..OFF
    },
    Scenario {
        name: "replace",
        start: Start::Operation("HostReplace"),
        repeats: &["replace", "delete"],
        world: Server { status: "running", effects: &[EffectKind::Delete], replaced: true },
        ..OFF
    },
];

/// `HONEST`: the cloud recognises a repeat by its token, as the manifest says that it does.
pub struct Simulated<const HONEST: bool> {
    pub cloud: Cloud,
    ca: RunCa,
    /// Servers that are to be alive at the end.
    live: Mutex<BTreeSet<String>>,
}

impl<const HONEST: bool> Simulated<HONEST> {
    fn live(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge_replacement(&self, subject: &Subject<Server>, ledger: &Ledger) -> Result<String> {
        let name = &subject.name;
        let stands_in = |replaces: &Option<String>| replaces.as_ref() == Some(&subject.target);
        let made: Vec<_> = ledger.effects.iter().filter(|it| stands_in(&it.replaces)).collect();
        ensure!(made.len() == 1, "{name}: {} servers were made to stand in: {made:#?}", made.len());
        let new = &made[0].server;
        ensure!(ledger.effects_of(new).len() == 1, "{name}: the new server was touched again");
        let data = self.cloud.user_data(new);
        ensure!(data.as_deref() == Some(FIRST_BOOT.as_bytes()), "{name}: other first-boot data arrived");
        Ok(new.clone())
    }
}

fn site(name: &str) -> String {
    format!("site-of-{name}")
}

impl<const HONEST: bool> Service for Simulated<HONEST> {
    const NAME: &'static str = "simulated (the simulated cloud)";
    const PROVIDER: &'static str = "simulated";
    type World = Server;

    async fn start() -> Result<Self> {
        let idempotency = Idempotency { honoured: HONEST, ..Idempotency::default() };
        let behaviour = Behaviour { action_ms: 0, idempotency, ..Behaviour::default() };
        let options = Options { api_token: TOKEN.to_owned(), behaviour, ..Options::default() };
        Ok(Simulated { cloud: Cloud::start(options).await?, ca: RunCa::new()?, live: Mutex::default() })
    }

    fn scenarios(&self) -> &'static [Row] {
        &ROWS
    }

    async fn subject(&self, name: &str, scenario: &'static Row) -> Result<Subject<Server>> {
        let seed = Seed { status: scenario.world.status.to_owned(), ..Seed::named(name) };
        let target = self.cloud.seed_server(seed)?;
        self.live().insert(target.clone());
        let proxy = Proxy::start(self.cloud.origin(), self.cloud.ca_pem(), &self.ca).await?;
        Ok(Subject { name: name.to_owned(), scenario, target, proxy })
    }

    /// Each subject has a site of its own, and so an address of its own.
    fn endpoint(&self, subject: &Subject<Server>) -> Endpoint {
        let endpoint = Endpoint::at("api", &subject.proxy.origin(), self.ca.pem());
        Endpoint { site: Some(site(&subject.name)), ..endpoint }
    }

    async fn set_up(&self, subject: &Subject<Server>, client: &Client) -> Result<()> {
        let (name, site) = (&subject.name, site(&subject.name));
        let machines: Api<Machine> = Api::all(client.clone());
        if machines.get_opt(name).await?.is_some() {
            return Ok(());
        }
        let first_boot: Secret = serde_json::from_value(json!({
            "metadata": { "name": "first-boot" }, "stringData": { "userData": FIRST_BOOT },
        }))?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "holdfast-system");
        there(secrets.create(&PostParams::default(), &first_boot).await.map(drop).map_err(Into::into))?;
        there(credential_secret(client, "cloud", "simulated", &[("api-token", TOKEN.as_bytes())]).await)?;
        there(credential(client, &site, "simulated", "cloud").await)?;
        cloud_machine(client, name, &site, "simulated", &format!("sim://{}", subject.target)).await
    }

    async fn happened(&self, subject: &Subject<Server>) -> bool {
        self.cloud.ledger().count(EffectKind::Reset, &subject.target) > 0
    }

    async fn judge(&self, subject: &Subject<Server>, client: &Client) -> Result<()> {
        let (name, world, ledger) = (&subject.name, &subject.scenario.world, self.cloud.ledger());
        let done: Vec<EffectKind> = ledger.effects_of(&subject.target).iter().map(|it| it.kind).collect();
        let server = match world.replaced {
            true => self.judge_replacement(subject, &ledger)?,
            false => subject.target.clone(),
        };
        ensure!(done == world.effects, "{name} wants {:?} of its server, and had {done:?}", world.effects);
        let id = Api::<Machine>::all(client.clone()).get(name).await?.spec.host.external.provider_id;
        ensure!(id == Some(format!("sim://{server}")), "machine {name} is {id:?} and not {server}");
        let mut live = self.live();
        live.remove(&subject.target);
        live.insert(server);
        Ok(())
    }

    async fn judge_rest(&self) -> Result<()> {
        let (ledger, live) = (self.cloud.ledger(), self.live().clone());
        ensure!(ledger.twins().is_empty(), "twins: {:?}", ledger.twins());
        let there: BTreeSet<String> = ledger.live.into_iter().collect();
        ensure!(there == live, "alive are {there:?}, and machines are {live:?}: a leak");
        Ok(())
    }
}

impl<const HONEST: bool> Simulated<HONEST> {
    /// The row of this name.
    pub fn row(name: &str) -> Result<&'static Row> {
        ROWS.iter().find(|row| row.name == name).with_context(|| format!("no row {name}"))
    }
}
