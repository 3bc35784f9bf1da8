//! One callback: the frozen context that the host judges by, the request that the guest sees, and what came of it.

use std::sync::Arc;

use holdfast_api::{
    AllocationInput, MachineOperation, MachineOperationStatus, OperationResult, ProviderOperation,
};
use holdfast_effects as fx;
use holdfast_effects::{Callback, Context, Failure, Lend, Owned, Owner, OwnerKind, Returned};
use holdfast_manifest::ERROR_CODES;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::allocation::{Role, guest_allocation};
use super::guard::{Guarded, Rule};
use super::lend::LentData;
use super::port::{Doubt, WatchedPort};
use super::release::{guest_owned, owned_of};
use super::status;
use super::ways_out::deadline;
use super::{Run, StepError};
use crate::clock::{add, rfc3339};
use crate::credentials::Lent;
use crate::inputs;
use crate::rooms::HostFailure;

/// What is asked of a provider.
pub(crate) enum Ask {
    Execute,
    Begin,
    /// A begin that may begin nothing new: it settles what is in doubt of an operation that is given up.
    Settle,
    Poll(ProviderOperation),
    Cancel(ProviderOperation),
    Cleanup(OperationResult),
}

impl Ask {
    fn name(&self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Begin | Self::Settle => "begin",
            Self::Poll(_) => "poll",
            Self::Cancel(_) => "cancel",
            Self::Cleanup(_) => "cleanup",
        }
    }
}

/// What came of a callback.
pub(crate) struct Called {
    pub answer: Result<Returned, Trouble>,
    /// The effect that the guest was told is in doubt.
    pub doubt: Option<Doubt>,
    /// An intent was refused: the operation changed under the call.
    pub fenced: bool,
    /// Counts as an attempt that isn't counted yet.
    pub attempt: bool,
    /// What a release has been seen to have released.
    pub released: Vec<Owned>,
}

impl Called {
    /// The contract's code of the failure that this was, if it was one of the provider's own. A poll has no code; its
    /// reason may be one in CamelCase.
    pub(crate) fn failure_code(&self) -> Option<String> {
        let (code, reason) = match &self.answer {
            Err(trouble) => (trouble.code.as_deref(), None),
            Ok(
                Returned::Execute(Err(failure))
                | Returned::Begin(Err(failure))
                | Returned::Poll(Err(failure))
                | Returned::Cleanup(Err(failure))
                | Returned::BeginAllocate(Err(failure))
                | Returned::PollAllocate(Err(failure))
                | Returned::BeginRelease(Err(failure))
                | Returned::PollRelease(Err(failure)),
            ) => (Some(failure.code.as_str()), None),
            Ok(Returned::Poll(Ok(poll))) => (None, Some(poll.reason.as_str())),
            Ok(Returned::PollAllocate(Ok(poll))) => (None, Some(poll.reason.as_str())),
            Ok(Returned::PollRelease(Ok(poll))) => (None, Some(poll.reason.as_str())),
            Ok(_) => (None, None),
        };
        let named = |known: &&&str| {
            code == Some(**known)
                || reason.is_some_and(|reason| reason.eq_ignore_ascii_case(&known.replace('-', "")))
        };
        ERROR_CODES.iter().find(named).map(|code| (*code).to_owned())
    }
}

/// Why a callback gave nothing to go on with.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub permanent: bool,
    /// The contract's, of a failure of the provider.
    pub code: Option<String>,
    pub reason: String,
    pub message: String,
    pub retry_after_ms: Option<u64>,
    /// Made by the host; counts towards the cap unless the module had no part in it.
    pub host_made: Option<HostFailure>,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self {
            permanent: failure.permanent,
            code: Some(failure.code),
            reason: failure.reason,
            message: failure.message,
            retry_after_ms: failure.retry_after_ms,
            host_made: None,
        }
    }
}

impl From<HostFailure> for Trouble {
    fn from(failure: HostFailure) -> Self {
        Self {
            permanent: failure.permanent,
            code: None,
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            retry_after_ms: None,
            host_made: Some(failure),
        }
    }
}

impl Trouble {
    /// An answer that breaks the contract in a way that may pass.
    pub(crate) fn bad_answer(reason: &str, message: &str) -> Self {
        Self {
            permanent: false,
            code: None,
            reason: reason.to_owned(),
            message: message.to_owned(),
            retry_after_ms: None,
            host_made: None,
        }
    }
}

/// What a poll has shown to be released. A deletion that was accepted may still fail: what the provider says is left is
/// left, and nothing is believed before a poll.
fn seen_released(remaining: &[fx::OwnedResource], released: Vec<Owned>) -> Vec<Owned> {
    let left = |one: &Owned| remaining.iter().any(|left| left.kind == one.kind && left.id == one.id);
    released.into_iter().filter(|one| !left(one)).collect()
}

/// Puts what a callback left behind into a status.
pub(crate) fn record(status: &mut MachineOperationStatus, called: Option<&Called>, now: Timestamp) {
    let Some(called) = called else { return };
    if called.attempt
        && let Some(target) = status.target.as_mut()
    {
        status::attempted(target, now);
    }
    status::release(status, &called.released);
}

impl Run<'_> {
    /// Makes the callback. Nothing of its answer is used before it was accepted.
    pub(super) async fn call(
        &self,
        ask: Ask,
        lent: &Lent,
        data: Option<&LentData>,
    ) -> Result<Called, StepError> {
        self.claim().await?;
        self.still_wanted(&ask)?;
        let timeout = if matches!(ask, Ask::Poll(_)) {
            self.settings().poll_timeout
        } else {
            self.settings().act_timeout
        };
        let (begun, started) = (self.now(), std::time::Instant::now());
        let end = add(begun, timeout);
        let context = self.context(&ask, lent, data, begun, end);
        let (record, clock) = (self.record.clone(), self.ops.deps.clock.clone());
        let journal: Arc<dyn fx::Journal> = Arc::new(Guarded { record, rule: self.rule(&ask), clock });
        let open = self.ops.deps.effects.open(context, self.module.manifest(), Some(journal));
        self.record.take_fenced();
        let lend = Lend { credentials: lent.id().is_some(), user_data: data.is_some() };
        let callback = self.callback(&ask, lend);
        let port = Arc::new(WatchedPort::new(open.clone()));
        let answer = self.module.call(callback, port.clone(), end).await;
        self.ops.deps.metrics.callback(&self.input.provider, ask.name(), started.elapsed());
        let answer = answer.and_then(|returned| open.accept(returned).map_err(HostFailure::from));
        for line in open.logs() {
            tracing::info!(
                provider = %self.input.provider, operation_uid = %self.uid(), callback = ask.name(),
                level = ?line.level, fields = ?line.fields, "provider: {}", line.message
            );
        }
        if let Err(failure) = &answer {
            tracing::warn!(provider = %self.input.provider, callback = ask.name(), %failure, "no usable answer");
        }
        let released = match &answer {
            Ok(Returned::PollRelease(Ok(poll))) => seen_released(&poll.remaining, open.released()),
            _ => Vec::new(),
        };
        Ok(Called {
            released,
            answer: answer.map_err(Trouble::from),
            doubt: port.doubt(),
            fenced: self.record.take_fenced(),
            attempt: matches!(ask, Ask::Begin | Ask::Settle),
        })
    }

    /// Writes this daemon's epoch before its first callback, so that another daemon's writes no longer fit.
    async fn claim(&self) -> Result<(), StepError> {
        let epoch = self.ops.deps.fence.epoch();
        self.record.update(|_, status| status.lease_epoch = Some(epoch)).await?;
        Ok(())
    }

    /// Writes of this step may have met a cancel or a deletion that came after the step looked for one, and read on:
    /// the fence of the first intent would no longer see it. Nothing new is begun over it, nor over a journal that
    /// can't be read.
    fn still_wanted(&self, ask: &Ask) -> Result<(), StepError> {
        self.record.readable()?;
        if !matches!(ask, Ask::Execute | Ask::Begin) {
            return Ok(());
        }
        match self.giving_up(&self.record.latest()) {
            Some((_, why)) => Err(StepError::Later(format!("{why}; nothing was called"))),
            None => Ok(()),
        }
    }

    fn rule(&self, ask: &Ask) -> Rule {
        match (self.role, ask, &self.input.allocation) {
            (_, Ask::Settle, _) => Rule::SettleOnly,
            // A module may launch in its begin or in any poll.
            (Role::Allocate, Ask::Begin | Ask::Poll(_), Some(input)) => {
                Rule::LaunchBefore(input.offering.valid_until.0)
            }
            _ => Rule::Any,
        }
    }

    fn context(
        &self,
        ask: &Ask,
        lent: &Lent,
        data: Option<&LentData>,
        now: Timestamp,
        deadline: Timestamp,
    ) -> Context {
        let operation = self.record.latest();
        let uid = self.uid();
        let status = operation.status.clone().unwrap_or_default();
        let target = status.target.unwrap_or_default();
        let phase = match ask {
            _ if self.role == Role::Release => fx::Phase::Release,
            Ask::Execute | Ask::Begin | Ask::Settle | Ask::Cancel(_) => fx::Phase::Act,
            Ask::Poll(_) => fx::Phase::Track,
            Ask::Cleanup(_) => fx::Phase::Cleanup,
        };
        let mut owned: Vec<Owned> = match self.role {
            Role::Machine => status.owned_resources.iter().chain(&self.machine_owned).map(owned_of).collect(),
            // What other operations made for the machine is none of this attempt's.
            Role::Allocate => status.owned_resources.iter().map(owned_of).collect(),
            Role::Release => self.releasable().iter().map(owned_of).collect(),
        };
        let mut seen = std::collections::BTreeSet::new();
        owned.retain(|one| seen.insert(one.clone()));
        let allocation = self.input.allocation.as_ref();
        let owner = match allocation {
            Some(input) => Owner { kind: OwnerKind::Allocation, uid: input.uid.clone() },
            None => Owner { kind: OwnerKind::Operation, uid: uid.clone() },
        };
        Context {
            revision: self.module.revision(),
            provider: self.input.provider.clone(),
            phase,
            owner,
            operation_uid: uid,
            attempt: allocation.map_or(0, |input| u32::try_from(input.attempt).unwrap_or_default()),
            site: self.input.site.clone(),
            // A planned locator is nobody's identity yet (hole H8).
            provider_id: self.live_id.clone().filter(|id| !id.is_empty() && self.role == Role::Machine),
            frozen_provider_id: self.input.provider_id.clone(),
            cleanup_provider_id: match ask {
                Ask::Cleanup(result) => result.cleanup_provider_id.clone(),
                _ => None,
            },
            machine_object: self.input.provider_ref.as_ref().map(inputs::machine_object),
            owned,
            host_image: self.input.host_image.clone(),
            host_name: Some(allocation.map_or(target.machine_ref.name, |input| input.host_name.clone())),
            config: allocation.map(|input| input.config.clone()).unwrap_or_default(),
            offering: allocation.map(|input| fx::Offering {
                instance_type: input.offering.instance_type.clone(),
                zone: input.offering.zone.clone(),
            }),
            credentials: lent.id(),
            user_data: data.map(|data| data.id),
            deadline,
            now,
        }
    }

    fn callback(&self, ask: &Ask, lend: Lend) -> Callback {
        let request = self.request(ask);
        if let Some(input) = &self.input.allocation
            && !matches!(ask, Ask::Cancel(_))
        {
            return self.allocation_callback(ask, input, request, lend);
        }
        match ask {
            Ask::Execute => Callback::Execute { request, lend },
            Ask::Begin | Ask::Settle => Callback::Begin { request, lend },
            Ask::Poll(handle) => Callback::Poll { request, operation: guest_handle(handle), lend },
            Ask::Cancel(handle) => Callback::Cancel { request, operation: guest_handle(handle), lend },
            Ask::Cleanup(result) => Callback::Cleanup {
                request,
                result: fx::OperationResult {
                    provider_id: result.provider_id.clone(),
                    cleanup_provider_id: result.cleanup_provider_id.clone(),
                },
                lend,
            },
        }
    }

    /// Configuration and first-boot data are given when a HostAllocate begins, and never else (R2.25, R2.14).
    fn allocation_callback(
        &self,
        ask: &Ask,
        input: &AllocationInput,
        request: fx::OperationRequest,
        lend: Lend,
    ) -> Callback {
        let allocation = guest_allocation(input);
        let owned = || self.releasable().iter().map(guest_owned).collect();
        match (self.role, ask) {
            (Role::Release, Ask::Poll(handle)) => {
                let operation = guest_handle(handle);
                Callback::PollRelease { request, allocation, owned: owned(), operation, lend }
            }
            (Role::Release, _) => Callback::BeginRelease { request, allocation, owned: owned(), lend },
            (_, Ask::Poll(handle)) => {
                Callback::PollAllocate { request, allocation, operation: guest_handle(handle), lend }
            }
            _ => {
                let config = input.config.clone().into_iter().collect();
                Callback::BeginAllocate { request, allocation, config, lend }
            }
        }
    }

    fn request(&self, ask: &Ask) -> fx::OperationRequest {
        let operation = self.record.latest();
        let status = operation.status.clone().unwrap_or_default();
        let target = status.target.unwrap_or_default();
        let attempts = u32::try_from(target.attempts).unwrap_or_default();
        fx::OperationRequest {
            name: operation.name_any(),
            uid: operation.uid().unwrap_or_default(),
            kind: operation.spec.operation_kind.clone(),
            parameters: operation.spec.parameters.clone().into_iter().collect(),
            machine: inputs::request_machine(&operation, &self.input, self.live_id.as_deref()),
            site: self.input.site.clone(),
            started_at: status.started_at.map(|at| rfc3339(at.0)).unwrap_or_default(),
            accepted_at: target.accepted_at.map(|at| rfc3339(at.0)),
            deadline: self.wanted_until(&operation).map(rfc3339),
            // A begin is counted when its outcome is written, an execute before it is called (R2.13).
            attempt: if matches!(ask, Ask::Begin | Ask::Settle) { attempts + 1 } else { attempts.max(1) },
        }
    }

    /// Until when the operation is wanted: its deadline, and no longer than until now once it is given up. A provider
    /// whose work may have no end by itself ends it then (R2.42 has no field of its own).
    fn wanted_until(&self, operation: &MachineOperation) -> Option<Timestamp> {
        let given_up = self.giving_up(operation).map(|_| self.now());
        deadline(operation).into_iter().chain(given_up).min()
    }
}

fn guest_handle(handle: &ProviderOperation) -> fx::ProviderOperation {
    fx::ProviderOperation {
        operation_id: handle.operation_id.clone(),
        resume_token: handle.resume_token.clone(),
    }
}
