//! A small BMC with hundreds of systems behind a recording proxy: effects are counted by the ledger of the one, and what
//! reached it by the records of the other.

use anyhow::{Context, Result, ensure};
use holdfast_api::MachineOperation;
use holdfast_tests::bmc::{Bmc, Ledger, Location, Options, Personality, Power, ResetAnswer};
use holdfast_tests::house::{Endpoint, Grant, bmc_machine, credential_secret};
use holdfast_tests::proxy::{Fault, Gate, Kind, Proxy};
use holdfast_tests::tls::RunCa;
use http::Method;
use kube::Client;
use std::time::Duration;

use crate::boundaries::Side;
use crate::cases::{Case, Work, World};

const PATIENCE: Duration = Duration::from_secs(60);
/// Systems that are on come first.
const ON: u32 = 200;
const OFF: u32 = 100;
/// Much longer than the provider waits before its first poll.
const SLOW: Duration = Duration::from_secs(8);

const WORKS: [Work; 4] = [Work::PowerOff, Work::PowerOn, Work::Reboot, Work::Restart];

/// Exchanges about the system or its reset action: work, method, which one.
const STOPS: [(Work, Method, u64); 14] = [
    (Work::PowerOff, Method::GET, 1),
    (Work::PowerOff, Method::POST, 1),
    (Work::PowerOff, Method::GET, 2),
    (Work::PowerOn, Method::GET, 1),
    (Work::PowerOn, Method::POST, 1),
    (Work::PowerOn, Method::GET, 2),
    (Work::Reboot, Method::GET, 1),
    (Work::Reboot, Method::POST, 1),
    (Work::Reboot, Method::GET, 2),
    (Work::Reboot, Method::POST, 2),
    (Work::Reboot, Method::GET, 3),
    (Work::Restart, Method::GET, 1),
    (Work::Restart, Method::POST, 1),
    (Work::Restart, Method::GET, 2),
];

pub struct RedfishWorld {
    ca: RunCa,
    bmc: Bmc,
    proxy: Proxy,
    cases: Vec<Case>,
    gate: Gate,
    /// Records before the last renewal.
    before: usize,
}

impl RedfishWorld {
    /// A system for some work, with its machine.
    async fn machine(&mut self, client: &Client, work: Work, auth: &str, secret: &str) -> Result<Case> {
        let number = self.cases.len() as u32 + 1;
        let target = if work == Work::PowerOn { ON + number } else { number };
        ensure!(number <= OFF, "the BMC has too few systems");
        let name = format!("{work:?}-{number}").to_lowercase();
        bmc_machine(client, &name, &self.proxy.origin(), auth, secret, &target.to_string()).await?;
        let case = Case { name, work, target: target.to_string() };
        self.cases.push(case.clone());
        Ok(case)
    }

    fn stop(&self, side: Side, method: Method, path: &str) -> Fault {
        let kind = match side {
            Side::Before | Side::Late => Kind::HoldBefore(self.gate.clone()),
            Side::After => Kind::HoldReply(self.gate.clone()),
        };
        Fault::new(kind).on_method(method).on_path(path)
    }

    /// Exchanges that only some services have: a login, and task monitors.
    async fn hold_extras(&mut self, side: Side, client: &Client) -> Result<Vec<Case>> {
        // Credentials of its own, so that no session is there already.
        let secret = format!("session-{side:?}").to_lowercase();
        self.secret(client, &secret).await?;
        let session = self.machine(client, Work::PowerOff, "session", &secret).await?;
        self.proxy.fault(self.stop(side, Method::POST, "/redfish/v1/SessionService/Sessions").first(1));

        let tasks =
            Personality { reset_answer: ResetAnswer::Task(Location::Relative), ..Personality::default() };
        let slow = Personality { power_delay: SLOW, ..tasks.clone() };
        let off = self.machine(client, Work::PowerOff, "basic", "bmc").await?;
        self.bmc.set_personality(&off.target, slow);
        let restart = self.machine(client, Work::Restart, "basic", "bmc").await?;
        self.bmc.set_personality(&restart.target, tasks);
        // A monitor for each of the two; more is never asked of either while it is held.
        self.proxy.fault(self.stop(side, Method::GET, "/redfish/v1/TaskService/TaskMonitors/*").first(2));
        Ok(vec![session, off, restart])
    }

    async fn secret(&self, client: &Client, name: &str) -> Result<()> {
        let Options { user, password, .. } = Options::default();
        let values: [(&str, &[u8]); 2] = [("user", user.as_bytes()), ("password", password.as_bytes())];
        credential_secret(client, name, "redfish", &values).await
    }

    /// Resets of a system that the BMC accepted, as the proxy saw them.
    fn resets(&self, system: &str) -> usize {
        let path = reset_path(system);
        let records = self.proxy.records();
        let since = records[self.before..].iter();
        since.filter(|record| record.is("POST", &path) && record.took_effect()).count()
    }
}

impl World for RedfishWorld {
    const PROVIDER: &'static str = "redfish";
    const TO_REPEAT: &'static [(&'static str, &'static str)] =
        &[("HostPowerOff", "power"), ("HostPowerOn", "power"), ("HostReboot", "power")];

    async fn start() -> Result<RedfishWorld> {
        let ca = RunCa::new()?;
        let bmc = Bmc::start(&ca, options()).await?;
        let proxy = Proxy::start(&bmc.origin(), bmc.ca_pem(), &ca).await?;
        Ok(RedfishWorld { ca, bmc, proxy, cases: Vec::new(), gate: Gate::closed(), before: 0 })
    }

    fn grant(&self, approved: Grant) -> Grant {
        approved.endpoint(Endpoint::per_machine("bmc", self.ca.pem()))
    }

    async fn secrets(&self, client: &Client) -> Result<()> {
        self.secret(client, "bmc").await
    }

    async fn machines(&mut self, client: &Client) -> Result<()> {
        for work in WORKS {
            self.machine(client, work, "basic", "bmc").await?;
        }
        Ok(())
    }

    fn cases(&self) -> &[Case] {
        &self.cases
    }

    fn exchanges(&self) -> usize {
        self.proxy.records().len()
    }

    async fn renew(&mut self) -> Result<()> {
        self.bmc = Bmc::start(&self.ca, options()).await?;
        self.proxy.set_upstream(&self.bmc.origin(), self.bmc.ca_pem())?;
        self.before = self.proxy.records().len();
        Ok(())
    }

    async fn happened(&self, case: &Case) -> bool {
        self.bmc.until_quiet().await;
        self.bmc.ledger(&case.target).restarts > 0
    }

    async fn judge(&self, _: &[MachineOperation], _: &Client) -> Result<()> {
        self.bmc.until_quiet().await;
        let mut ledgers = self.bmc.ledgers();
        for case in &self.cases {
            let ledger = ledgers.remove(&case.target).context("the BMC has forgotten a system")?;
            let wanted = match case.work {
                Work::PowerOff => (0, 1, 0),
                Work::PowerOn => (1, 0, 0),
                Work::Reboot => (1, 1, 0),
                Work::Restart | Work::Replace => (0, 0, 1),
            };
            let done = (ledger.power_ons, ledger.power_offs, ledger.restarts);
            ensure!(
                done == wanted,
                "{} wants {wanted:?} of on, off and restart, and had {ledger:#?}",
                case.name
            );
            let sent = self.resets(&case.target);
            ensure!(case.work != Work::Restart || sent == 1, "{} reached the BMC {sent} times", case.name);
        }
        let touched: Vec<_> =
            ledgers.into_iter().filter(|(_, ledger)| *ledger != Ledger::default()).collect();
        ensure!(touched.is_empty(), "systems of nobody were touched: {touched:#?}");
        Ok(())
    }

    async fn hold(&mut self, side: Side, client: &Client) -> Result<usize> {
        self.gate = Gate::closed();
        let late = |method: &Method, work| *method != Method::GET && work != Work::Restart;
        let mut cases = Vec::new();
        for (work, method, nth) in
            STOPS.into_iter().filter(|stop| side != Side::Late || late(&stop.1, stop.0))
        {
            let case = self.machine(client, work, "basic", "bmc").await?;
            let path =
                if method == Method::GET { system_path(&case.target) } else { reset_path(&case.target) };
            self.proxy.fault(self.stop(side, method, &path).nth(nth));
            cases.push(case);
        }
        if side != Side::Late {
            cases.extend(self.hold_extras(side, client).await?);
        }
        for case in &cases {
            case.begin(client).await?;
        }
        let arrived = self.gate.until_arrived(cases.len() as u64);
        let in_time = tokio::time::timeout(PATIENCE, arrived).await;
        in_time.with_context(|| {
            let records = self.proxy.records().into_iter().filter(|record| record.seen.is_none());
            let held: Vec<String> = records.map(|it| format!("{} {}", it.method, it.path)).collect();
            format!("{} exchanges were to be held; they are {held:#?}", cases.len())
        })?;
        Ok(cases.len())
    }

    fn forget_holds(&mut self) {
        self.proxy.clear_faults();
    }

    async fn let_go(&mut self, on: bool) -> Result<()> {
        if on {
            self.gate.open();
        } else {
            self.gate.refuse();
        }
        let quiet = async {
            while self.proxy.count(|record| record.seen.is_none()) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, quiet).await.context("released exchanges did not end")
    }
}

fn options() -> Options {
    let systems = (1..=ON + OFF).map(|number| {
        let power = if number <= ON { Power::On } else { Power::Off };
        (number.to_string(), power)
    });
    Options { systems: systems.collect(), ..Options::default() }
}

fn system_path(system: &str) -> String {
    format!("/redfish/v1/Systems/{system}")
}

fn reset_path(system: &str) -> String {
    format!("{}/Actions/ComputerSystem.Reset", system_path(system))
}
