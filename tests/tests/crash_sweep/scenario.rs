//! The table of what is swept: a row is a scenario, a subject is one scenario at work on a machine of its own.

use anyhow::{Context, Result};
use holdfast_api::MachineOperation;
use holdfast_tests::house::{Endpoint, operation};
use holdfast_tests::proxy::{Fault, Gate, Kind, Proxy, Record};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::allocation;
use crate::exchanges::Side;

/// A row. `World` is what its service must know: how the machine stands before, and what must be done to it, once.
#[derive(Debug)]
pub struct Scenario<World> {
    pub name: &'static str,
    pub start: Start,
    /// Calls that a sweep must have met in doubt, and seen sent again.
    pub repeats: &'static [&'static str],
    /// Its change is by a call that is declared `never`: lost, it waits for a person (R2.11).
    pub never: bool,
    /// Its durable writes are points. Rows that differ from another one on the wire only have none of their own.
    pub writes: bool,
    /// Turns that are points; all unless their number is a matter of time.
    pub turns: usize,
    pub world: World,
}

/// How a scenario is set going, once its machine is there.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// A MachineOperation of this kind.
    Operation(&'static str),
    /// A HostReboot with this parameter `restart`.
    Restart(&'static str),
    /// A MachineAllocation, which is deleted as soon as there is a host: HostAllocate, then HostRelease.
    Allocation,
}

impl Start {
    /// The kinds of operation that do the work.
    pub fn kinds(self) -> Vec<&'static str> {
        match self {
            Start::Operation(kind) => vec![kind],
            Start::Restart(_) => vec!["HostReboot"],
            Start::Allocation => vec!["HostAllocate", "HostRelease"],
        }
    }
}

/// A scenario at work: its machine and its operation bear its name, and all its exchanges pass a proxy of its own.
pub struct Subject<World: 'static> {
    pub name: String,
    pub scenario: &'static Scenario<World>,
    /// The server or system at the service.
    pub target: String,
    pub proxy: Proxy,
    /// Places that are asked for whenever their time comes, whatever the subject does.
    pub beside: &'static [&'static str],
    /// Of an allocation: it was asked to go, and may be gone already.
    pub leaves: AtomicBool,
}

impl<World> Subject<World> {
    pub fn new(name: &str, scenario: &'static Scenario<World>, target: String, proxy: Proxy) -> Self {
        let leaves = AtomicBool::new(false);
        Subject { name: name.to_owned(), scenario, target, proxy, beside: &[], leaves }
    }

    /// Creates what sets the scenario going, unless it is there: a daemon may have died while it was created.
    pub async fn create(&self, client: &Client) -> Result<()> {
        let (kind, more) = match self.scenario.start {
            Start::Operation(kind) => (kind, Value::Null),
            Start::Restart(by) => ("HostReboot", json!({ "parameters": { "restart": by } })),
            Start::Allocation => return allocation::create(self, client).await,
        };
        there(operation(client, &self.name, &self.name, kind, more).await)
    }

    /// Whether an operation is at work for this subject.
    pub fn has(&self, operation: &MachineOperation) -> bool {
        match (self.scenario.start, &operation.spec.allocation_ref) {
            (Start::Allocation, Some(allocation)) => allocation.name == self.name,
            (Start::Allocation, None) => false,
            _ => operation.name_any() == self.name,
        }
    }

    /// Holds the first exchange of a turn on one side of the service.
    pub fn hold(&self, side: Side, turn: usize, gate: &Gate) {
        self.strike(held(side, gate), turn);
    }

    /// Lets something happen to the first exchange of a turn.
    pub fn strike(&self, kind: Kind, turn: usize) {
        self.proxy.fault(Fault::new(kind).but(self.beside).turn(turn as u64));
    }

    /// Holds the first exchange of a name, as `exchanges::name_of` gives it.
    pub fn hold_first(&self, side: Side, name: &str, gate: &Gate) -> Result<()> {
        let (method, path) = name.split_once(' ').context("a method and a path")?;
        self.proxy.fault(Fault::new(held(side, gate)).on_method(method.parse()?).on_path(path).nth(1));
        Ok(())
    }

    /// The exchanges that are the subject's own.
    pub fn records(&self) -> Vec<Record> {
        let beside = |record: &Record| {
            let place = record.place();
            self.beside.contains(&place.as_str())
        };
        self.proxy.records().into_iter().filter(|record| !beside(record)).collect()
    }
}

fn held(side: Side, gate: &Gate) -> Kind {
    match side {
        Side::Before | Side::Late => Kind::HoldBefore(gate.clone()),
        Side::After => Kind::HoldReply(gate.clone()),
    }
}

/// What stands outside the daemon, for one provider. One service serves all houses of a sweep.
pub trait Service: Sized {
    /// As it is printed.
    const NAME: &'static str;
    const PROVIDER: &'static str;
    /// How long it stays dead after a death in an exchange.
    const REST: Duration = Duration::ZERO;
    /// How often something is asked for, and in which order, is a matter of time: only the first exchange of each name is
    /// a point.
    const FIRSTS: bool = false;
    type World: 'static;

    async fn start() -> Result<Self>;

    /// Changes the module as it is shipped into one that says what this service does.
    fn edit(_module: &mut [u8]) -> Result<()> {
        Ok(())
    }

    /// The table.
    fn scenarios(&self) -> &'static [Scenario<Self::World>];

    /// A server or system for a scenario, of which no daemon knows yet.
    async fn subject(
        &self,
        name: &str,
        scenario: &'static Scenario<Self::World>,
    ) -> Result<Subject<Self::World>>;

    /// What the configuration of a house with this subject binds, for a site of its own or for all.
    fn endpoint(&self, subject: &Subject<Self::World>) -> Endpoint;

    /// Creates the secrets and the machine of a subject, unless they are there.
    async fn set_up(&self, subject: &Subject<Self::World>, client: &Client) -> Result<()>;

    /// What a person finds who looks at the service: did the call happen that is declared `never`?
    async fn happened(&self, subject: &Subject<Self::World>) -> bool;

    /// Its effects were had once each, and nothing else was done to its machine.
    async fn judge(&self, subject: &Subject<Self::World>, client: &Client) -> Result<()>;

    /// The same of all subjects of a house.
    async fn judge_all(&self, subjects: &[Subject<Self::World>], client: &Client) -> Result<()> {
        for subject in subjects {
            self.judge(subject, client).await?;
        }
        Ok(())
    }

    /// Nothing was done to what is nobody's, and nothing was left over.
    async fn judge_rest(&self) -> Result<()>;
}

/// Takes "it is there already" as success.
pub fn there(made: Result<()>) -> Result<()> {
    match made {
        Err(error) if is_there(&error) => Ok(()),
        made => made,
    }
}

fn is_there(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.reason == "AlreadyExists")
}
