//! Polls of a long-running operation (2(b).3 step 7 and 8): a stored handle is followed to its end.
//!
//! A stall is told and ends no operation that is still wanted (R2.19). A poll on which nothing changes writes nothing.

use std::time::Duration;

use holdfast_api::{AllocationResult, MachineOperation, OperationResult, ProviderOperation};
use holdfast_effects as fx;
use holdfast_effects::{PollState, Returned};

use super::allocation::Role;
use super::apply::in_api;
use super::call::{self, Ask, Called, Trouble};
use super::port::Doubt;
use super::status::{self, stage};
use super::wait::{Wait, WaitReason};
use super::{Next, Run, Step, StepError};
use crate::backoff;
use crate::credentials::Lent;
use crate::inputs::reads_tokens;

impl Run<'_> {
    pub(super) async fn poll(&self, handle: ProviderOperation) -> Step {
        // R2.17, edge case 10: only who issued a handle may be asked about it.
        if handle.provider != self.input.provider {
            let message =
                format!("the handle was issued by {}, not by {}", handle.provider, self.input.provider);
            return self.end_failed_anyway("ProviderOperationMismatch", &message, None).await;
        }
        // What was accepted and has sent nothing launches nothing any more, and has nothing to be followed to.
        if let Some(message) = self.nothing_launched() {
            let end = self.giving_up(&self.record.latest()).unwrap_or(("OfferingExpired", message));
            return self.end_failed(end.0, &end.1, None).await;
        }
        if !reads_tokens(&self.module.manifest(), &handle.state_version) {
            let message = format!(
                "the loaded revision of {} does not read resume tokens of state-version {}",
                handle.provider, handle.state_version
            );
            if let Some(end) = self.not_stopped(None).await? {
                return Ok(end);
            }
            self.ops
                .wait(&self.record, &Wait::new(WaitReason::ResumeTokenUnreadable, message), |_| {})
                .await?;
            return Ok(Next::After(self.settings().stalled_interval));
        }
        let lent = match self.credentials().await? {
            Ok(lent) => lent,
            Err(next) => return Ok(self.not_stopped(None).await?.unwrap_or(next)),
        };
        self.ask_to_cancel(&handle, &lent).await?;
        let called = Box::pin(self.call(Ask::Poll(handle), &lent, None)).await?;
        match Polled::of(self.role, &called.answer) {
            Ok(polled) => self.polled(&polled, &called).await,
            Err(trouble) => self.poll_failed(&called, &trouble).await,
        }
    }

    async fn polled(&self, polled: &Polled, called: &Called) -> Step {
        self.ops.tallies.answered(&self.uid());
        let every = backoff::wish(polled.requeue_after_ms, self.settings().poll_interval);
        if let Some(Doubt { key, retry_after_ms: None }) = &called.doubt {
            let message = format!("what became of the effect {key} can't be found out");
            return self.outcome_unknown(&message, Some(called)).await;
        }
        match &polled.state {
            PollState::Succeeded if self.role == Role::Release => self.released(called).await,
            PollState::Succeeded => self.succeeded(polled.result.clone(), called).await,
            PollState::Failed => self.provider_ended("Failed", polled, called).await,
            PollState::Canceled => self.provider_ended("Canceled", polled, called).await,
            PollState::InProgress => {
                self.keep_polling(WaitReason::ProviderOperation, &polled.message, every, called).await
            }
            // Edge case 4: a state that we don't know yet is no end.
            PollState::Other(_) => {
                self.keep_polling(WaitReason::UnknownProviderState, &polled.message, every, called).await
            }
        }
    }

    async fn provider_ended(&self, state: &str, polled: &Polled, called: &Called) -> Step {
        if let Some((reason, why)) = self.giving_up(&self.record.latest()) {
            let message = format!("{why}; the provider says: {}", polled.message);
            return self.end_failed(reason, &message, Some(called)).await;
        }
        let reason = if polled.reason.trim().is_empty() { state } else { &polled.reason };
        self.end_failed(reason, &polled.message, Some(called)).await
    }

    async fn poll_failed(&self, called: &Called, trouble: &Trouble) -> Step {
        if called.fenced {
            return Ok(Next::After(Duration::from_secs(1)));
        }
        if let Some(Doubt { key, retry_after_ms: None }) = &called.doubt {
            let message = format!("what became of the effect {key} can't be found out: {}", trouble.message);
            return self.outcome_unknown(&message, Some(called)).await;
        }
        let reason = if trouble.reason.trim().is_empty() { "PermanentPollFailure" } else { &trouble.reason };
        if trouble.permanent || self.exhausted(trouble) {
            return self.end_failed(reason, &trouble.message, Some(called)).await;
        }
        let uid = self.uid();
        if let Some(message) = self.capped(&uid, trouble) {
            return self.end_failed(reason, &message, Some(called)).await;
        }
        let mut delay =
            backoff::after(self.ops.tallies.failed(&uid), &uid).max(self.settings().poll_interval);
        for wish in [trouble.retry_after_ms, called.doubt.as_ref().and_then(|d| d.retry_after_ms)] {
            delay = delay.max(backoff::wish(wish, Duration::ZERO));
        }
        let message = format!("{reason}: {}", trouble.message);
        self.keep_polling(WaitReason::PollFailed, &message, delay, called).await
    }

    /// Goes on waiting for the provider. The stalled interval overrides everything else but an operation that is given
    /// up.
    async fn keep_polling(&self, why: WaitReason, message: &str, every: Duration, called: &Called) -> Step {
        if let Some(end) = self.not_stopped(Some(called)).await? {
            return Ok(end);
        }
        let (now, stalled) = (self.now(), self.stalled().unwrap_or(false));
        let stopping = self.stopping_every(every);
        let mut wait = Wait::new(why, message);
        wait.way_out = stopping.map(|_| super::stopping::WAY_OUT);
        self.ops
            .wait(&self.record, &wait, |status| {
                call::record(status, Some(called), now);
                status::stalled(status, stalled, why.as_str(), now);
            })
            .await?;
        let usual = if stalled { self.settings().stalled_interval } else { every };
        Ok(Next::After(stopping.unwrap_or(usual)))
    }

    /// Asks the provider once to stop, when the operation is given up. Asked is not stopped: polling goes on (R2.38).
    async fn ask_to_cancel(&self, handle: &ProviderOperation, lent: &Lent) -> Result<(), StepError> {
        let operation = self.record.latest();
        let Some((_, why)) = self.giving_up(&operation) else { return Ok(()) };
        if asked_to_cancel(&operation) {
            return Ok(());
        }
        let called = match self.takes_cancel() {
            true => Some(self.call(Ask::Cancel(handle.clone()), lent, None).await?),
            false => None,
        };
        let heard = match called.as_ref().map(|called| &called.answer) {
            Some(Ok(Returned::Cancel(Ok(())))) | None => true,
            // It can't be stopped: what runs is followed to its end.
            Some(Ok(Returned::Cancel(Err(failure)))) => failure.permanent || failure.code == "unsupported",
            Some(Ok(_)) => true,
            Some(Err(trouble)) => trouble.permanent,
        };
        if !heard {
            // Asked again with the next poll.
            return Ok(());
        }
        let now = self.now();
        let operation = self
            .record
            .update(|operation, status| {
                call::record(status, called.as_ref(), now);
                status.observed_generation = operation.metadata.generation;
                if let Some(target) = status.target.as_mut() {
                    target.stage = Some(stage::CANCEL_REQUESTED.to_owned());
                }
            })
            .await?;
        let note = format!("{why}; the provider was asked to stop and is followed to its end");
        self.ops.deps.events.post(&operation, false, "CancelRequested", &note, now);
        Ok(())
    }

    /// Whether the module has a `cancel`: it is of the interface that serves the kinds of machines that are there. A
    /// module of hosts alone reads from the request's deadline that the work is no longer wanted.
    fn takes_cancel(&self) -> bool {
        let manifest = self.module.manifest();
        manifest.operations.keys().any(|kind| kind != "HostAllocate" && kind != "HostRelease")
    }
}

/// What a poll said, whatever was polled.
struct Polled {
    state: PollState,
    result: OperationResult,
    reason: String,
    message: String,
    requeue_after_ms: Option<u64>,
}

impl Polled {
    fn of(role: Role, answer: &Result<Returned, Trouble>) -> Result<Self, Box<Trouble>> {
        let (state, result, reason, message, requeue_after_ms) = match (role, answer.clone()?) {
            (Role::Machine, Returned::Poll(poll)) => {
                let poll = poll.map_err(Trouble::from)?;
                let result = in_api(poll.result.unwrap_or_default());
                (poll.state, result, poll.reason, poll.message, poll.requeue_after_ms)
            }
            (Role::Allocate, Returned::PollAllocate(poll)) => {
                let poll = poll.map_err(Trouble::from)?;
                let result = poll.result.map(confirmed).unwrap_or_default();
                (poll.state, result, poll.reason, poll.message, poll.requeue_after_ms)
            }
            (Role::Release, Returned::PollRelease(poll)) => {
                let poll = poll.map_err(Trouble::from)?;
                let nothing = OperationResult::default();
                (poll.state, nothing, poll.reason, poll.message, poll.requeue_after_ms)
            }
            _ => {
                let trouble = Trouble::bad_answer("WrongAnswer", "the provider answered another question");
                return Err(Box::new(trouble));
            }
        };
        Ok(Self { state, result, reason, message, requeue_after_ms })
    }
}

/// The host that was made, as it is stored.
fn confirmed(result: fx::AllocationResult) -> OperationResult {
    OperationResult {
        provider_id: result.provider_id,
        allocation: Some(AllocationResult {
            provider_resource_id: result.provider_resource_id,
            instance_type: result.instance_type,
            zone: result.zone,
            image: result.image,
        }),
        ..OperationResult::default()
    }
}

fn asked_to_cancel(operation: &MachineOperation) -> bool {
    status::target(operation).is_some_and(|t| t.stage.as_deref() == Some(stage::CANCEL_REQUESTED))
}
