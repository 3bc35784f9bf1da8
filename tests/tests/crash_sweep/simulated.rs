//! The simulated cloud: effects are counted by its ledger.

use anyhow::{Context, Result, ensure};
use holdfast_api::{Machine, MachineOperation};
use holdfast_simulated_cloud::{
    Behaviour, Cloud, EffectKind, Idempotency, Ledger, Moment, Options, Rule, Seed,
};
use holdfast_tests::house::{Endpoint, Grant, cloud_machine, credential, credential_secret};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::boundaries::Side;
use crate::cases::{Case, Work, World};

const SITE: &str = "lab";
const TOKEN: &str = "token-of-the-crash-sweep";
const FIRST_BOOT: &str = "#cloud-config\nhostname: swept\n";
const PATIENCE: Duration = Duration::from_secs(60);

const WORKS: [Work; 4] = [Work::PowerOff, Work::PowerOn, Work::Reboot, Work::Replace];

/// Exchanges that their method and the server's own address tell: work, method, what follows the address, which one.
const OWN: [(Work, &str, &str, u64); 10] = [
    (Work::PowerOff, "GET", "", 1),
    (Work::PowerOff, "POST", "/actions/power_off", 1),
    (Work::PowerOff, "GET", "", 2),
    (Work::PowerOn, "POST", "/actions/power_on", 1),
    (Work::PowerOn, "GET", "", 1),
    (Work::Reboot, "GET", "", 1),
    (Work::Reboot, "POST", "/actions/reset", 1),
    (Work::Reboot, "GET", "", 2),
    (Work::Replace, "POST", "/replace", 1),
    (Work::Replace, "DELETE", "", 1),
];

/// Works that are held where they look at their action, or at the new server.
const OTHER: [Work; 3] = [Work::PowerOn, Work::Reboot, Work::Replace];

/// `HONEST`: the cloud recognises a repeat by its token, as the manifest says that it does.
pub struct SimulatedWorld<const HONEST: bool> {
    cloud: Cloud,
    cases: Vec<Case>,
}

impl<const HONEST: bool> SimulatedWorld<HONEST> {
    /// A server at the cloud for some work; nobody has told the daemon of it.
    fn seed(&mut self, work: Work) -> Result<Case> {
        let name = format!("{work:?}-{}", self.cases.len()).to_lowercase();
        let case = Case { target: seed(&self.cloud, &name, work)?, name, work };
        self.cases.push(case.clone());
        Ok(case)
    }

    async fn held(&self, count: usize) -> Result<()> {
        let held = tokio::time::timeout(PATIENCE, self.cloud.held(count)).await;
        let so_far = self.cloud.faults();
        held.with_context(|| format!("{count} exchanges were to be held; the rules: {so_far:#?}"))?;
        Ok(())
    }

    fn judge_replacement(&self, case: &Case, ledger: &Ledger) -> Result<String> {
        let name = &case.name;
        let made: Vec<_> =
            ledger.effects.iter().filter(|it| it.replaces.as_ref() == Some(&case.target)).collect();
        ensure!(made.len() == 1, "{name}: {} servers were made to stand in: {made:#?}", made.len());
        let new = &made[0].server;
        ensure!(ledger.effects_of(new).len() == 1, "{name}: the new server was touched again");
        let old = ledger.effects_of(&case.target);
        let deleted = ledger.count(EffectKind::Delete, &case.target);
        ensure!(
            old.len() == 1 && deleted == 1,
            "{name}: the old server was deleted {deleted} times: {old:#?}"
        );
        let data = self.cloud.user_data(new);
        ensure!(
            data.as_deref() == Some(FIRST_BOOT.as_bytes()),
            "{name}: the new server has other first-boot data"
        );
        Ok(new.clone())
    }

    fn open_requests(&self) -> usize {
        self.cloud.requests().iter().filter(|request| request.status.is_none()).count()
    }
}

impl<const HONEST: bool> World for SimulatedWorld<HONEST> {
    const PROVIDER: &'static str = "simulated";
    const TO_REPEAT: &'static [(&'static str, &'static str)] = &[
        ("HostPowerOff", "power-off"),
        ("HostPowerOn", "power-on"),
        ("HostReplace", "replace"),
        ("HostReplace", "delete"),
    ];

    async fn start() -> Result<Self> {
        let idempotency = Idempotency { honoured: HONEST, ..Idempotency::default() };
        let behaviour = Behaviour { action_ms: 0, idempotency, ..Behaviour::default() };
        let options = Options { api_token: TOKEN.to_owned(), behaviour, ..Options::default() };
        Ok(SimulatedWorld { cloud: Cloud::start(options).await?, cases: Vec::new() })
    }

    fn grant(&self, approved: Grant) -> Grant {
        approved.endpoint(Endpoint::at("api", self.cloud.origin(), self.cloud.ca_pem()))
    }

    async fn secrets(&self, client: &Client) -> Result<()> {
        credential_secret(client, "cloud", "simulated", &[("api-token", TOKEN.as_bytes())]).await?;
        credential(client, SITE, "simulated", "cloud").await?;
        let first_boot: Secret = serde_json::from_value(json!({
            "metadata": { "name": "first-boot" }, "stringData": { "userData": FIRST_BOOT },
        }))?;
        Api::namespaced(client.clone(), "holdfast-system")
            .create(&PostParams::default(), &first_boot)
            .await?;
        Ok(())
    }

    async fn machines(&mut self, client: &Client) -> Result<()> {
        for work in WORKS {
            machine(client, &self.seed(work)?).await?;
        }
        Ok(())
    }

    fn cases(&self) -> &[Case] {
        &self.cases
    }

    fn exchanges(&self) -> usize {
        self.cloud.requests().len()
    }

    async fn renew(&mut self) -> Result<()> {
        self.cloud.reset();
        for case in &self.cases {
            let target = seed(&self.cloud, &case.name, case.work)?;
            ensure!(target == case.target, "the cloud numbers its servers otherwise after a reset");
        }
        Ok(())
    }

    async fn happened(&self, case: &Case) -> bool {
        self.cloud.ledger().count(EffectKind::Reset, &case.target) > 0
    }

    async fn judge(&self, _: &[MachineOperation], client: &Client) -> Result<()> {
        let (ledger, machines) = (self.cloud.ledger(), Api::<Machine>::all(client.clone()));
        let mut live = BTreeSet::new();
        for case in &self.cases {
            let (name, done) = (&case.name, ledger.effects_of(&case.target));
            let wanted = match case.work {
                Work::PowerOff => EffectKind::PowerOff,
                Work::PowerOn => EffectKind::PowerOn,
                Work::Reboot | Work::Restart => EffectKind::Reset,
                Work::Replace => EffectKind::Delete,
            };
            ensure!(
                done.len() == 1 && done[0].kind == wanted,
                "{name} wants one {wanted:?}, and had: {done:#?}"
            );
            let server = match case.work {
                Work::Replace => self.judge_replacement(case, &ledger)?,
                _ => case.target.clone(),
            };
            let id = machines.get(name).await?.spec.host.external.provider_id;
            ensure!(id == Some(format!("sim://{server}")), "machine {name} is {id:?} and not {server}");
            live.insert(server);
        }
        ensure!(ledger.twins().is_empty(), "twins: {:?}", ledger.twins());
        let there: BTreeSet<String> = ledger.live.into_iter().collect();
        ensure!(there == live, "alive are {there:?}, and machines are {live:?}: a leak");
        Ok(())
    }

    async fn hold(&mut self, side: Side, client: &Client) -> Result<usize> {
        let moment = if side == Side::After { Moment::After } else { Moment::Before };
        let late = |method: &str, work| method != "GET" && work != Work::Reboot;
        let (mut rules, mut cases) = (Vec::new(), Vec::new());
        for (work, method, tail, nth) in
            OWN.into_iter().filter(|stop| side != Side::Late || late(stop.1, stop.0))
        {
            let case = self.seed(work)?;
            rules
                .push(Rule::on(method, &format!("/v1/servers/{}{tail}", case.target)).nth(nth).holds(moment));
            cases.push(case);
        }
        self.cloud.set_faults(rules);
        begin(client, &cases).await?;
        self.held(cases.len()).await?;
        if side == Side::Late {
            return Ok(cases.len());
        }
        // Nothing but what is held is under way, so that rules for all actions and all servers strike these only.
        let (mut rules, mut others) = (Vec::new(), Vec::new());
        for work in OTHER {
            let case = self.seed(work)?;
            rules.push(Rule::on("GET", &format!("/v1/servers/{}", case.target)));
            others.push(case);
        }
        rules.push(Rule::on("GET", "/v1/actions/*").holds(moment));
        rules.push(Rule::on("GET", "/v1/servers/*").holds(moment));
        self.cloud.set_faults(rules);
        begin(client, &others).await?;
        self.held(cases.len() + others.len()).await?;
        Ok(cases.len() + others.len())
    }

    fn forget_holds(&mut self) {
        self.cloud.set_faults(Vec::new());
    }

    async fn let_go(&mut self, on: bool) -> Result<()> {
        let open = self.open_requests();
        if !on {
            self.cloud.abandon();
            return Ok(());
        }
        let left = open - self.cloud.release();
        let quiet = async {
            while self.open_requests() > left {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, quiet).await.context("released exchanges did not end")
    }
}

fn seed(cloud: &Cloud, name: &str, work: Work) -> Result<String> {
    let status = if work == Work::PowerOn { "off" } else { "running" };
    Ok(cloud.seed_server(Seed { status: status.to_owned(), ..Seed::named(name) })?)
}

async fn machine(client: &Client, case: &Case) -> Result<()> {
    cloud_machine(client, &case.name, SITE, "simulated", &format!("sim://{}", case.target)).await
}

async fn begin(client: &Client, cases: &[Case]) -> Result<()> {
    for case in cases {
        machine(client, case).await?;
        case.begin(client).await?;
    }
    Ok(())
}
