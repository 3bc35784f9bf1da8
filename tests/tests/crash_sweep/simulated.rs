//! The simulated cloud, with a recording proxy for each server: effects are counted by the cloud's ledger.

use anyhow::{Context, Result, ensure};
use holdfast_api::Machine;
use holdfast_simulated_cloud::{
    Behaviour, Cloud, EffectKind, Idempotency, Ledger, Options, Seed, Visibility,
};
use holdfast_tests::house::{Endpoint, cloud_machine, credential, credential_secret};
use holdfast_tests::modules::edited;
use holdfast_tests::proxy::Proxy;
use holdfast_tests::tls::RunCa;
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::allocation::{self, FIRST_BOOT_DATA, is_allocation};
use crate::scenario::{Scenario, Service, Start, Subject, there};

const TOKEN: &str = "token-of-the-crash-sweep";

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

static ROWS: [Row; 5] = [
    OFF,
    Scenario {
        name: "allocation",
        start: Start::Allocation,
        repeats: &["create", "create-volume", "create-nic", "delete", "delete-volume", "delete-nic"],
        world: Server { status: "", effects: &[], replaced: false },
        ..OFF
    },
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

/// What is asked for a class, and not for what is allocated from it.
const BESIDE: [&str; 3] = ["/v1/types", "/v1/zones", "/v1/resources"];

/// What the cloud is like, and what the module says of it.
pub trait Nature {
    const NAME: &'static str;
    const REST: Duration = Duration::ZERO;
    const LAGS: bool = false;

    fn behaviour() -> Behaviour;

    fn edit(_module: &mut [u8]) -> Result<()> {
        Ok(())
    }
}

/// It recognises a repeat by its token, as the manifest says.
pub struct Honest;
/// It does not recognise any, although the manifest says so.
pub struct Faithless;
/// It recognises a repeat for 9 s, as the manifest says instead of 1 h. After that, what became of a call is looked up.
pub struct Expiring;
/// It does not recognise any, and the manifest says that what became of a call is looked up. What is new is shown late, in
/// lists later still, and what is deleted is shown for longer than it is there.
pub struct Ignoring;

/// Of a token of [`Expiring`].
pub const LIFE: Duration = Duration::from_secs(9);

fn tokens(honoured: bool, expire_ms: Option<u64>) -> Behaviour {
    let idempotency = Idempotency { honoured, expire_ms };
    Behaviour { action_ms: 0, offers_valid_s: 86_400, idempotency, ..Behaviour::default() }
}

impl Nature for Honest {
    const NAME: &'static str = "simulated (the simulated cloud)";

    fn behaviour() -> Behaviour {
        tokens(true, None)
    }
}

impl Nature for Faithless {
    const NAME: &'static str = "simulated (the simulated cloud, which forgets tokens against its word)";

    fn behaviour() -> Behaviour {
        tokens(false, None)
    }
}

impl Nature for Expiring {
    const NAME: &'static str = "simulated (the simulated cloud, whose tokens expire)";
    const REST: Duration = LIFE;

    fn behaviour() -> Behaviour {
        tokens(true, Some(LIFE.as_millis() as u64))
    }

    fn edit(module: &mut [u8]) -> Result<()> {
        edited(module, "token-life = \"1h\"", "token-life = \"9s\"")
    }
}

impl Nature for Ignoring {
    const NAME: &'static str = "simulated (the simulated cloud, which lags and knows no tokens)";
    const LAGS: bool = true;

    fn behaviour() -> Behaviour {
        let visibility = Visibility {
            get_ms: 500,
            list_ms: 3_000,
            deleted_get_ms: 1_000,
            deleted_list_ms: 20_000,
            ..Visibility::default()
        };
        Behaviour { visibility, ..tokens(false, None) }
    }

    fn edit(module: &mut [u8]) -> Result<()> {
        let declared = "replay = \"token\"\ntoken-life = \"1h\"";
        let instead = format!("{:width$}", "replay = \"lookup\"", width = declared.len());
        edited(module, declared, &instead)
    }
}

pub struct Simulated<N> {
    pub cloud: Cloud,
    ca: RunCa,
    /// Servers that are to be alive at the end.
    live: Mutex<BTreeSet<String>>,
    /// What was made for allocations and is gone.
    released: Mutex<BTreeSet<String>>,
    nature: PhantomData<N>,
}

impl<N: Nature> Simulated<N> {
    fn live(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn released(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that its operations say they made was made once, and released once.
    async fn judge_allocation(
        &self,
        subject: &Subject<Server>,
        client: &Client,
        ledger: &Ledger,
    ) -> Result<()> {
        let made = allocation::made(subject, client).await?;
        for id in &made {
            let done: Vec<bool> = ledger.effects_of(id).iter().map(|it| it.kind.makes()).collect();
            ensure!(done == [true, false], "{id} of {} was to be made and deleted: {done:?}", subject.name);
        }
        let server = made.iter().find(|id| id.starts_with("srv")).context("a server")?;
        let data = self.cloud.user_data(server);
        ensure!(
            data.as_deref() == Some(FIRST_BOOT_DATA.as_bytes()),
            "{}: other first-boot data",
            subject.name
        );
        self.released().extend(made);
        Ok(())
    }

    fn judge_replacement(&self, subject: &Subject<Server>, ledger: &Ledger) -> Result<String> {
        let name = &subject.name;
        let stands_in = |replaces: &Option<String>| replaces.as_ref() == Some(&subject.target);
        let made: Vec<_> = ledger.effects.iter().filter(|it| stands_in(&it.replaces)).collect();
        ensure!(made.len() == 1, "{name}: {} servers were made to stand in: {made:#?}", made.len());
        let new = &made[0].server;
        ensure!(ledger.effects_of(new).len() == 1, "{name}: the new server was touched again");
        let data = self.cloud.user_data(new);
        ensure!(data.as_deref() == Some(FIRST_BOOT_DATA.as_bytes()), "{name}: other first-boot data arrived");
        Ok(new.clone())
    }
}

fn site(name: &str) -> String {
    format!("site-of-{name}")
}

impl<N: Nature> Service for Simulated<N> {
    const NAME: &'static str = N::NAME;
    const PROVIDER: &'static str = "simulated";
    const REST: Duration = N::REST;
    const FIRSTS: bool = N::LAGS;
    type World = Server;

    async fn start() -> Result<Self> {
        let options =
            Options { api_token: TOKEN.to_owned(), behaviour: N::behaviour(), ..Options::default() };
        let cloud = Cloud::start(options).await?;
        let stranger = Seed { label: Some("somebody-elses".to_owned()), ..Seed::named("a-stranger") };
        let live = Mutex::new(BTreeSet::from([cloud.seed_server(stranger)?]));
        Ok(Simulated { cloud, ca: RunCa::new()?, live, released: Mutex::default(), nature: PhantomData })
    }

    fn edit(module: &mut [u8]) -> Result<()> {
        N::edit(module)
    }

    fn scenarios(&self) -> &'static [Row] {
        &ROWS
    }

    async fn subject(&self, name: &str, scenario: &'static Row) -> Result<Subject<Server>> {
        let proxy = Proxy::start(self.cloud.origin(), self.cloud.ca_pem(), &self.ca).await?;
        if matches!(scenario.start, Start::Allocation) {
            return Ok(Subject { beside: &BESIDE, ..Subject::new(name, scenario, String::new(), proxy) });
        }
        let seed = Seed { status: scenario.world.status.to_owned(), ..Seed::named(name) };
        let target = self.cloud.seed_server(seed)?;
        self.live().insert(target.clone());
        Ok(Subject::new(name, scenario, target, proxy))
    }

    /// Each subject has a site of its own, and so an address of its own.
    fn endpoint(&self, subject: &Subject<Server>) -> Endpoint {
        let endpoint = Endpoint::at("api", &subject.proxy.origin(), self.ca.pem());
        Endpoint { site: Some(site(&subject.name)), ..endpoint }
    }

    async fn set_up(&self, subject: &Subject<Server>, client: &Client) -> Result<()> {
        let (name, site) = (&subject.name, site(&subject.name));
        let machines: Api<Machine> = Api::all(client.clone());
        if !is_allocation(subject) && machines.get_opt(name).await?.is_some() {
            return Ok(());
        }
        allocation::first_boot(client).await?;
        there(credential_secret(client, "cloud", "simulated", &[("api-token", TOKEN.as_bytes())]).await)?;
        there(credential(client, &site, "simulated", "cloud").await)?;
        if is_allocation(subject) {
            let config = json!({
                "image": "image-1", "types": "small", "zones": "zone-a", "volumes": "10", "nics": "1",
            });
            return allocation::class(client, name, &site, "simulated", config).await;
        }
        cloud_machine(client, name, &site, "simulated", &format!("sim://{}", subject.target)).await
    }

    async fn happened(&self, subject: &Subject<Server>) -> bool {
        self.cloud.ledger().count(EffectKind::Reset, &subject.target) > 0
    }

    async fn judge(&self, subject: &Subject<Server>, client: &Client) -> Result<()> {
        let (name, world, ledger) = (&subject.name, &subject.scenario.world, self.cloud.ledger());
        if is_allocation(subject) {
            return self.judge_allocation(subject, client, &ledger).await;
        }
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
        let (ledger, live, released) = (self.cloud.ledger(), self.live().clone(), self.released().clone());
        ensure!(ledger.twins().is_empty(), "twins: {:?}", ledger.twins());
        let parts = |id: &str| id.starts_with("vol-") || id.starts_with("nic-");
        for effect in &ledger.effects {
            let known = released.contains(&effect.server);
            let ours = effect.kind == EffectKind::Create || parts(&effect.server);
            ensure!(known || !ours, "{:?} of {} was for nobody", effect.kind, effect.server);
        }
        ensure!(ledger.live_parts.is_empty(), "a leak: {:?}", ledger.live_parts);
        let there: BTreeSet<String> = ledger.live.into_iter().collect();
        ensure!(there == live, "alive are {there:?}, and machines are {live:?}: a leak");
        Ok(())
    }
}
