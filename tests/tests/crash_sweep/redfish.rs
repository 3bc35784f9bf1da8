//! Many systems in one service, with a recording proxy for each: a BMC of our own, whose ledger counts effects, or the
//! sushy-tools emulator, of which nobody here can ask for one.

use anyhow::{Context, Result, bail, ensure};
use data_encoding::HEXLOWER;
use holdfast_tests::bmc::{self, Access, Bmc, Location, Options, Personality, ResetAnswer, Sessions};
use holdfast_tests::counterparts::{self, Account, FakeSystem, Sushy};
use holdfast_tests::house::{Endpoint, bmc_machine, credential_secret};
use holdfast_tests::proxy::Proxy;
use holdfast_tests::tls::RunCa;
use kube::{Api, Client};
use ring::digest::{SHA256, digest};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::scenario::{Scenario, Service, Start, Subject, there};

/// Much longer than the provider waits before its first poll, on however slow a machine.
const SLOW: Duration = Duration::from_secs(20);

type Row = Scenario<System>;

/// What the service must know of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct System {
    on: bool,
    /// Resets that are to take effect, in their order.
    resets: &'static [&'static str],
    /// What these do at our own BMC: changes to on, to off, and restarts.
    done: (u32, u32, u32),
    auth: &'static str,
    /// Changes are followed by a task monitor, and take this long.
    task: Option<Duration>,
}

const OFF: Row = Scenario {
    name: "power-off",
    start: Start::Operation("HostPowerOff"),
    repeats: &["power"],
    never: false,
    writes: true,
    turns: usize::MAX,
    world: OFF_WORLD,
};
const OFF_WORLD: System =
    System { on: true, resets: &["GracefulShutdown"], done: (0, 1, 0), auth: "basic", task: None };

const ON: Row = Scenario {
    name: "power-on",
    start: Start::Operation("HostPowerOn"),
    // Its writes are those of the other change.
    writes: false,
    world: System { on: false, resets: &["On"], done: (1, 0, 0), ..OFF_WORLD },
    ..OFF
};
const REBOOT: Row = Scenario {
    name: "reboot",
    start: Start::Operation("HostReboot"),
    world: System { resets: &["GracefulShutdown", "On"], done: (1, 1, 0), ..OFF_WORLD },
    ..OFF
};
const RESTART_WORLD: System = System { resets: &["ForceRestart"], done: (0, 0, 1), ..OFF_WORLD };
const RESTART: Row = Scenario {
    name: "restart",
    start: Start::Restart("ForceRestart"),
    repeats: &[],
    never: true,
    world: RESTART_WORLD,
    ..OFF
};
/// A login comes first.
const SESSION: Row = Scenario {
    name: "power-off-by-session",
    writes: false,
    world: System { auth: "session", ..OFF_WORLD },
    ..OFF
};
/// The monitor is asked as long as the change is under way: how often is a matter of time.
const TASK: Row = Scenario {
    name: "power-off-with-task",
    writes: false,
    turns: 4,
    world: System { task: Some(SLOW), ..OFF_WORLD },
    ..OFF
};
const RESTART_TASK: Row = Scenario {
    name: "restart-with-task",
    start: Start::Restart("ForceRestart"),
    repeats: &[],
    never: true,
    writes: false,
    world: System { task: Some(Duration::from_millis(50)), ..RESTART_WORLD },
    ..OFF
};

static AT_BMC: [Row; 7] = [OFF, ON, REBOOT, RESTART, SESSION, TASK, RESTART_TASK];
static AT_EMULATOR: [Row; 4] = [OFF, ON, REBOOT, RESTART];

/// Systems of our own BMC and of the emulator; those that are on come first.
const BMC_SYSTEMS: (u32, u32) = (280, 80);
const EMULATOR_SYSTEMS: (u32, u32) = (40, 16);

enum Machines {
    Own(Bmc),
    Emulated(Sushy),
}

/// `EMULATOR`: the sushy-tools emulator, else our own BMC.
pub struct Redfish<const EMULATOR: bool> {
    ca: RunCa,
    machines: Machines,
    systems: (u32, u32),
    next_on: AtomicU32,
    next_off: AtomicU32,
    used: Mutex<BTreeSet<String>>,
}

impl<const EMULATOR: bool> Redfish<EMULATOR> {
    /// Our own BMC.
    pub fn bmc(&self) -> Result<&Bmc> {
        match &self.machines {
            Machines::Own(bmc) => Ok(bmc),
            Machines::Emulated(_) => bail!("the emulator is no BMC of our own"),
        }
    }

    fn upstream(&self) -> (String, &str) {
        match &self.machines {
            Machines::Own(bmc) => (bmc.origin(), bmc.ca_pem()),
            Machines::Emulated(sushy) => (sushy.origin(), sushy.ca_pem()),
        }
    }

    fn number(&self, on: bool) -> Result<u32> {
        let (next, from, most) = match on {
            true => (&self.next_on, 0, self.systems.0),
            false => (&self.next_off, self.systems.0, self.systems.1),
        };
        let number = next.fetch_add(1, Ordering::Relaxed) + 1;
        ensure!(number <= most, "the service has only {most} systems that are on: {on}");
        Ok(from + number)
    }

    /// Resets that the service accepted, as the proxy saw them.
    fn resets(&self, subject: &Subject<System>) -> Vec<&'static str> {
        let words = ["On", "GracefulShutdown", "ForceRestart"];
        let hash = |word: &str| {
            let body = format!("{{\"ResetType\":\"{word}\"}}");
            HEXLOWER.encode(digest(&SHA256, body.as_bytes()).as_ref())
        };
        let path = format!("/Systems/{}/Actions/ComputerSystem.Reset", subject.target);
        let records = subject.proxy.records();
        let took = records.iter().filter(|record| record.is("POST", &path) && record.took_effect());
        let word = |sha: &str| words.into_iter().find(|word| hash(word) == sha).unwrap_or("another one");
        took.map(|record| word(&record.request_sha256)).collect()
    }
}

fn account() -> Account {
    let Options { user, password, .. } = Options::default();
    Account { user, password }
}

fn own_systems() -> Options {
    let (on, off) = BMC_SYSTEMS;
    let power = |number| if number <= on { bmc::Power::On } else { bmc::Power::Off };
    let systems = (1..=on + off).map(|number| (number.to_string(), power(number))).collect();
    // Daemons that are killed leave their sessions there.
    let sessions = Sessions { slots: 64, ..Sessions::default() };
    let access = Access { sessions: Some(sessions), ..Access::default() };
    Options { systems, access, ..Options::default() }
}

fn emulated_systems() -> Vec<FakeSystem> {
    let (on, off) = EMULATOR_SYSTEMS;
    let power = |number| if number <= on { counterparts::Power::On } else { counterparts::Power::Off };
    (1..=on + off).map(|number| FakeSystem::numbered(number, power(number))).collect()
}

impl<const EMULATOR: bool> Service for Redfish<EMULATOR> {
    const NAME: &'static str =
        if EMULATOR { "redfish (the sushy-tools emulator)" } else { "redfish (a BMC of our own)" };
    const PROVIDER: &'static str = "redfish";
    type World = System;

    async fn start() -> Result<Self> {
        let ca = RunCa::new()?;
        let (machines, systems) = if EMULATOR {
            let sushy = Sushy::start(&ca, &emulated_systems(), &account()).await?;
            (Machines::Emulated(sushy), EMULATOR_SYSTEMS)
        } else {
            (Machines::Own(Bmc::start(&ca, own_systems()).await?), BMC_SYSTEMS)
        };
        let (next_on, next_off) = Default::default();
        Ok(Redfish { ca, machines, systems, next_on, next_off, used: Mutex::default() })
    }

    fn scenarios(&self) -> &'static [Row] {
        if EMULATOR { &AT_EMULATOR } else { &AT_BMC }
    }

    async fn subject(&self, name: &str, scenario: &'static Row) -> Result<Subject<System>> {
        let number = self.number(scenario.world.on)?;
        let target = match &self.machines {
            Machines::Own(_) => number.to_string(),
            Machines::Emulated(_) => FakeSystem::numbered(number, counterparts::Power::On).id,
        };
        if let (Machines::Own(bmc), Some(power_delay)) = (&self.machines, scenario.world.task) {
            let reset_answer = ResetAnswer::Task(Location::Relative);
            bmc.set_personality(&target, Personality { reset_answer, power_delay, ..Personality::default() });
        }
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(target.clone());
        let (origin, ca_pem) = self.upstream();
        let proxy = Proxy::start(&origin, ca_pem, &self.ca).await?;
        Ok(Subject::new(name, scenario, target, proxy))
    }

    fn endpoint(&self, _: &Subject<System>) -> Endpoint {
        Endpoint::per_machine("bmc", self.ca.pem())
    }

    async fn set_up(&self, subject: &Subject<System>, client: &Client) -> Result<()> {
        let machines: Api<holdfast_api::Machine> = Api::all(client.clone());
        if machines.get_opt(&subject.name).await?.is_some() {
            return Ok(());
        }
        let Account { user, password } = account();
        let values: [(&str, &[u8]); 2] = [("user", user.as_bytes()), ("password", password.as_bytes())];
        there(credential_secret(client, "bmc", "redfish", &values).await)?;
        let (address, auth) = (subject.proxy.origin(), subject.scenario.world.auth);
        bmc_machine(client, &subject.name, &address, auth, "bmc", &subject.target).await
    }

    async fn happened(&self, subject: &Subject<System>) -> bool {
        if let Machines::Own(bmc) = &self.machines {
            bmc.until_quiet().await;
            return bmc.ledger(&subject.target).restarts > 0;
        }
        !self.resets(subject).is_empty()
    }

    async fn judge(&self, subject: &Subject<System>, _: &Client) -> Result<()> {
        let (name, world, sent) = (&subject.name, &subject.scenario.world, self.resets(subject));
        // A call that can be repeated may reach the service twice; asked twice is asked once.
        let mut wishes = sent.clone();
        if !subject.scenario.never {
            wishes.dedup();
        }
        ensure!(wishes == world.resets, "{name} wants {:?}, and the service accepted {sent:?}", world.resets);
        match &self.machines {
            Machines::Own(bmc) => {
                let ledger = settled(bmc, &subject.target, world.done).await;
                let done = (ledger.power_ons, ledger.power_offs, ledger.restarts);
                ensure!(done == world.done, "{name} wants {:?} done, and had {ledger:#?}", world.done);
            }
            Machines::Emulated(sushy) => {
                let off = world.resets.last() == Some(&"GracefulShutdown");
                let power = if off { counterparts::Power::Off } else { counterparts::Power::On };
                sushy.until_power(&subject.target, power).await.with_context(|| name.clone())?;
            }
        }
        Ok(())
    }

    async fn judge_rest(&self) -> Result<()> {
        let Machines::Own(bmc) = &self.machines else { return Ok(()) };
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let others = bmc.ledgers().into_iter().filter(|(system, _)| !used.contains(system));
        let touched: Vec<_> = others.filter(|(_, ledger)| *ledger != bmc::Ledger::default()).collect();
        ensure!(touched.is_empty(), "systems of nobody were touched: {touched:#?}");
        Ok(())
    }
}

/// The ledger once everything that was accepted of this system is done.
async fn settled(bmc: &Bmc, system: &str, wanted: (u32, u32, u32)) -> bmc::Ledger {
    let ledger = bmc.ledger(system);
    if (ledger.power_ons, ledger.power_offs, ledger.restarts) == wanted {
        return ledger;
    }
    bmc.until_quiet().await;
    bmc.ledger(system)
}

impl<const EMULATOR: bool> Redfish<EMULATOR> {
    /// The row whose endpoint is logged into.
    pub fn by_session() -> &'static Row {
        static ROW: Row = SESSION;
        &ROW
    }
}
