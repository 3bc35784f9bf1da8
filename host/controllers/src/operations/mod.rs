//! The operations controller: drives one `MachineOperation` by one step at a time (contract 2, section 2(b)).
//!
//! [`Operations::reconcile`] reads the operation, takes one step, writes what came of it and says when to come back.
//! It keeps nothing that it could not read again, except counts of failures for the backoff of polls.

mod allocation;
mod apply;
mod begin;
mod call;
mod case;
mod failed;
mod guard;
mod immediate;
mod journal;
mod lend;
mod order;
mod poll;
mod port;
mod prologue;
mod release;
mod residue;
mod start;
mod status;
mod stopping;
mod tally;
mod wait;
mod ways_out;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{MachineOperation, MachineOperationStatus, OPERATION_FINALIZER, Phase};
use holdfast_effects::Effects;
use holdfast_manifest::Operation;
use jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};

pub use journal::{Record, RecordError};
pub(crate) use status::planned_zone;

use allocation::{Role, role};
use case::Case;

use crate::clock::{Clock, add, until};
use crate::credentials::Credentials;
use crate::events::Events;
use crate::index::{OperationIndex, phase};
use crate::machines::Machines;
use crate::metrics::Metrics;
use crate::rooms::{Fence, Modules, ProviderModule, Vault};
use journal::Records;
use status::target;
use tally::Tallies;
use wait::{Wait, WaitReason};

/// Intervals and limits. The defaults are those of contract 2.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Between two polls, where the provider wishes nothing else.
    pub poll_interval: Duration,
    /// From acceptance until an operation counts as stalled.
    pub stall_after: Duration,
    /// Between two polls of a stalled operation, and between two looks at missing credentials.
    pub stalled_interval: Duration,
    /// For one execute, begin, cancel or cleanup.
    pub act_timeout: Duration,
    /// For one poll.
    pub poll_timeout: Duration,
    /// Failures made by the host (traps, limits, withheld answers) after which an operation ends.
    pub host_failure_cap: u32,
    /// Between two sweeps of a class for orphans.
    pub sweep_interval: Duration,
    /// How long something must have been listed without being on record before it is told as an orphan.
    pub orphan_age: Duration,
    /// Most orphans of one account that are released within an hour; 0 releases none.
    pub orphan_releases_per_hour: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(15),
            stall_after: Duration::from_secs(75 * 60),
            stalled_interval: Duration::from_secs(5 * 60),
            act_timeout: Duration::from_secs(300),
            poll_timeout: Duration::from_secs(60),
            host_failure_cap: 20,
            sweep_interval: Duration::from_secs(15 * 60),
            orphan_age: Duration::from_secs(15 * 60),
            orphan_releases_per_hour: 10,
        }
    }
}

/// Which machines this controller serves; `None` serves all. Others are left untouched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Site, as in the label of the machine.
    pub site: Option<String>,
    /// Provider.
    pub provider: Option<String>,
}

/// When to come back to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Not by itself: a watch tells.
    Done,
    /// After this time.
    After(Duration),
}

impl Next {
    /// At once.
    pub const NOW: Self = Self::After(Duration::ZERO);

    /// The same, but after this time at the latest.
    #[must_use]
    pub fn no_later(self, than: Duration) -> Self {
        match self {
            Self::After(after) => Self::After(after.min(than)),
            Self::Done => Self::After(than),
        }
    }
}

/// Why a step was not taken. The operation is as it was, and is tried again with growing intervals.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The record was not written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The API did not answer.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// Something is about to change, for example the revision of a module.
    #[error("{0}")]
    Later(String),
}

type Step = Result<Next, StepError>;

/// What the controller works with.
pub(crate) struct OperationsDeps {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub modules: Arc<dyn Modules>,
    pub effects: Effects,
    pub vault: Arc<dyn Vault>,
    pub fence: Arc<dyn Fence>,
    pub credentials: Credentials,
    pub events: Events,
    pub metrics: Metrics,
    pub index: Arc<OperationIndex>,
    pub settings: Settings,
    pub scope: Scope,
}

/// The controller.
pub struct Operations {
    deps: OperationsDeps,
    api: Api<MachineOperation>,
    machines: Machines,
    records: Records,
    tallies: Tallies,
}

impl Operations {
    pub(crate) fn new(deps: OperationsDeps) -> Self {
        let api: Api<MachineOperation> = Api::all(deps.client.clone());
        Self {
            machines: Machines::new(deps.client.clone()),
            records: Records::new(api.clone(), deps.index.clone(), deps.fence.clone()),
            tallies: Tallies::default(),
            api,
            deps,
        }
    }

    fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    /// Takes one step with the operation of a name.
    ///
    /// # Errors
    /// When the API doesn't answer or this daemon may not write; nothing is lost.
    pub async fn reconcile(&self, name: &str) -> Step {
        let Some(operation) = self.api.get_opt(name).await? else {
            self.forget(name);
            return Ok(Next::Done);
        };
        let record = self.records.open(operation);
        let result = if phase(&record.latest()).is_terminal() {
            self.ended(&record).await
        } else {
            self.prologue(record).await
        };
        match result {
            Err(StepError::Record(RecordError::Gone)) => {
                self.forget(name);
                Ok(Next::Done)
            }
            other => other,
        }
    }

    fn forget(&self, name: &str) {
        if let Some(old) = self.deps.index.gone(name) {
            self.tallies.forget(&old.uid().unwrap_or_default());
        }
    }

    /// 2(b).1 step 2: an operation that has ended loses its finalizer and, after its time to live, is deleted.
    async fn ended(&self, record: &Record) -> Step {
        Box::pin(async move {
            let operation = record.latest();
            self.tallies.forget(&operation.uid().unwrap_or_default());
            self.forget_first_boot(&operation).await?;
            record.set_finalizer(OPERATION_FINALIZER, false).await?;
            let completed = operation.status.as_ref().and_then(|status| status.completed_at.as_ref());
            // Edge case 18: without a time of completion nothing is due.
            let (Some(ttl), Some(completed)) = (self.time_to_live(&operation).await?, completed) else {
                return Ok(Next::Done);
            };
            let due = add(completed.0, Duration::from_secs(u64::try_from(ttl).unwrap_or_default()));
            let left = until(self.now(), due);
            if !left.is_zero() {
                return Ok(Next::After(left));
            }
            let preconditions = Preconditions { uid: operation.uid(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match self.api.delete(&operation.name_any(), &params).await {
                Ok(_) => Ok(Next::Done),
                Err(error) if crate::is_status(&error, 404) || crate::is_status(&error, 409) => {
                    Ok(Next::Done)
                }
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// Ends an operation that never started.
    async fn fail_unstarted(&self, record: &Record, reason: &str, message: &str) -> Step {
        Box::pin(async move {
            let now = self.now();
            let operation = record
                .update(|operation, status| {
                    status.observed_generation = operation.metadata.generation;
                    status::fail(status, reason, message, None, now);
                })
                .await?;
            self.announce_end(&operation);
            self.ended(record).await
        })
        .await
    }

    /// Writes a wait. Nothing is written while the same wait goes on.
    async fn wait(
        &self,
        record: &Record,
        wait: &Wait,
        change: impl Fn(&mut MachineOperationStatus),
    ) -> Result<(), StepError> {
        let now = self.now();
        let before = record.latest();
        let old = before.status.as_ref().and_then(|s| s.waiting.as_ref()).map(|w| w.reason.clone());
        let release = role(&before) == Role::Release && ways_out::begun(&before);
        let wait = if release && phase(&before) == Phase::InProgress {
            wait.clone().of_release()
        } else {
            wait.clone()
        };
        let write = record.update(|operation, status| {
            status.observed_generation = operation.metadata.generation;
            change(status);
            wait.put(status, now);
        });
        let operation = Box::pin(write).await?;
        if old.as_deref() != Some(wait.reason.as_str()) {
            self.deps.metrics.wait(wait.reason.as_str());
            if wait.reason != WaitReason::ProviderOperation {
                let warning = wait.reason != WaitReason::OtherOperation;
                self.deps.events.post(&operation, warning, wait.reason.as_str(), &wait.message, now);
            }
        }
        Ok(())
    }

    /// Tells about an end: event, counter, log.
    fn announce_end(&self, operation: &MachineOperation) {
        let Some(status) = &operation.status else { return };
        let reason = status.reason.as_deref().unwrap_or_default();
        let note = residue::note(status.message.as_deref().unwrap_or_default());
        let failed = status.phase != Phase::Complete;
        self.deps.events.post(operation, failed, reason, &note, self.now());
        self.deps.metrics.phase(self.kind_label(operation), status.phase.as_str());
        tracing::info!(operation = %operation.name_any(), phase = status.phase.as_str(), reason, "operation ended");
    }

    /// The kind as a label: only kinds that a manifest names, so that their number is bounded.
    fn kind_label<'a>(&self, operation: &'a MachineOperation) -> &'a str {
        let kind = operation.spec.operation_kind.as_str();
        let provider = target(operation).and_then(|t| t.input.as_ref()).map(|input| input.provider.as_str());
        let module = provider.and_then(|provider| self.deps.modules.get(provider));
        if module.is_some_and(|m| m.manifest().operations.contains_key(kind)) { kind } else { "other" }
    }
}

/// One step with one started operation and its provider.
struct Run<'a> {
    case: Case<'a>,
    module: Arc<dyn ProviderModule>,
    operation: Operation,
}

impl<'a> Deref for Run<'a> {
    type Target = Case<'a>;

    fn deref(&self) -> &Case<'a> {
        &self.case
    }
}

impl Run<'_> {
    /// Drives the operation on from where its status says it is.
    async fn drive(self) -> Step {
        let operation = self.record.latest();
        let Some(target) = target(&operation) else {
            return self
                .end_failed("TargetStateMissing", "the operation runs, but has no target", None)
                .await;
        };
        if let Some(left) = self.not_yet(&operation) {
            return Ok(Next::After(left));
        }
        if target.result.is_some() {
            return self.apply().await;
        }
        match (self.operation.mode, &target.provider_operation) {
            (holdfast_manifest::Mode::Immediate, _) => Box::pin(self.immediate()).await,
            (holdfast_manifest::Mode::LongRunning, None) => Box::pin(self.begin()).await,
            (holdfast_manifest::Mode::LongRunning, Some(handle)) => Box::pin(self.poll(handle.clone())).await,
        }
    }

    /// How much of a backoff is left.
    fn not_yet(&self, operation: &MachineOperation) -> Option<Duration> {
        let waiting = operation.status.as_ref()?.waiting.as_ref()?;
        let left = until(self.now(), waiting.until.as_ref()?.0);
        (!left.is_zero()).then_some(left)
    }
}
