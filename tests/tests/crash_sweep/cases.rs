//! What is swept: operations on machines of their own, and the world outside in which their effects are counted.

use anyhow::{Context, Result};
use holdfast_api::MachineOperation;
use holdfast_tests::house::{Grant, operation};
use kube::Client;
use serde_json::json;

use crate::boundaries::Side;
use crate::tally::Tally;

/// What an operation does, with the parameters that make a difference to its effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    PowerOff,
    PowerOn,
    Reboot,
    /// By a restart action of the service, which is declared `never`.
    Restart,
    Replace,
}

impl Work {
    pub fn kind(self) -> &'static str {
        match self {
            Work::PowerOff => "HostPowerOff",
            Work::PowerOn => "HostPowerOn",
            Work::Reboot | Work::Restart => "HostReboot",
            Work::Replace => "HostReplace",
        }
    }
}

/// One operation on one machine; both bear the same name.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub work: Work,
    /// The server or system at the service.
    pub target: String,
}

impl Case {
    /// Creates the operation.
    pub async fn begin(&self, client: &Client) -> Result<()> {
        let more = match self.work {
            Work::Restart => json!({ "parameters": { "restart": "ForceRestart" } }),
            _ => json!({}),
        };
        operation(client, &self.name, &self.name, self.work.kind(), more).await
    }
}

/// The world outside one house.
pub trait World: Sized {
    /// The provider that is swept.
    const PROVIDER: &'static str;

    /// Kinds of operations with the calls that a sweep must have met in doubt, and sent again.
    const TO_REPEAT: &'static [(&'static str, &'static str)];

    /// A service without machines.
    async fn start() -> Result<Self>;

    /// What the configuration grants: the service as the only endpoint.
    fn grant(&self, approved: Grant) -> Grant;

    /// Secrets of the provider.
    async fn secrets(&self, client: &Client) -> Result<()>;

    /// One machine for every kind of work, of which the operations are not begun.
    async fn machines(&mut self, client: &Client) -> Result<()>;

    /// All cases whose effects are to be judged.
    fn cases(&self) -> &[Case];

    /// How many requests the service was sent so far.
    fn exchanges(&self) -> usize;

    /// Everything at the service as it was before any operation.
    async fn renew(&mut self) -> Result<()>;

    /// What a person finds who looks at the service: did the call of this case that is declared `never` happen?
    async fn happened(&self, case: &Case) -> bool;

    /// Each case had its effect, once, and nothing else was done.
    async fn judge(&self, ended: &[MachineOperation], client: &Client) -> Result<()>;

    /// Holds an exchange of each call of each kind of work on one side, begins the operations, and returns how many
    /// exchanges are held.
    async fn hold(&mut self, side: Side, client: &Client) -> Result<usize>;

    /// Forgets what holds exchanges; those that are held stay.
    fn forget_holds(&mut self);

    /// What is held goes on, or ends without having gone on. Returns once no exchange is under way.
    async fn let_go(&mut self, on: bool) -> Result<()>;

    fn case(&self, name: &str) -> Result<&Case> {
        self.cases().iter().find(|case| case.name == name).with_context(|| format!("nobody began {name}"))
    }
}

/// Counts what the journals of ended operations say.
pub fn count_repeats(ended: &[MachineOperation], tally: &Tally) {
    for operation in ended {
        let effects = operation.status.iter().flat_map(|status| &status.effects);
        effects.filter(|effect| effect.attempts > 1).for_each(|effect| {
            tally.repeated(&operation.spec.operation_kind, &effect.call);
        });
    }
}
