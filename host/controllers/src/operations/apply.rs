//! The end of a success: the result is stored, written to the machine, cleaned up after, and the operation completed.
//!
//! The result is stored before the machine is patched, for both modes, so that a crash resumes here and neither asks
//! the provider again nor forgets the cleanup (X.3).

use holdfast_api::OperationResult;
use holdfast_effects as fx;
use holdfast_effects::Returned;

use super::call::{self, Ask, Called, Trouble};
use super::case::Case;
use super::port::Doubt;
use super::status::{self, stage, target};
use super::wait::{Wait, WaitReason};
use super::{Next, Run, Step, StepError};
use crate::backoff;
use crate::clock::add;
use crate::machines::{Change, MachineError};

impl Run<'_> {
    /// Takes the result of a provider that is done.
    pub(super) async fn succeeded(&self, result: OperationResult, called: &Called) -> Step {
        Box::pin(async move {
            let new_id = result.provider_id.as_deref().or(self.live_id.as_deref());
            // Edge case 13: what was just made must not be removed.
            if result.cleanup_provider_id.is_some() && result.cleanup_provider_id.as_deref() == new_id {
                let message =
                    "the provider's result asks to remove the machine's new host; it was not applied";
                return self.end_failed("InvalidResult", message, Some(called)).await;
            }
            if let Some(key) = self.doubtful() {
                // Success over an effect that nobody settled is not believed.
                let message =
                    format!("the provider reports success, but what became of the effect {key} isn't known");
                return self.outcome_unknown(&message, Some(called)).await;
            }
            let nothing_to_apply = result.provider_id.is_none() || result.provider_id == self.live_id;
            if nothing_to_apply && !self.wants_cleanup(&result) && self.machine_there {
                let ended = self.complete(result.clone(), Some(called), false).await;
                let open = !crate::index::phase(&self.record.latest()).is_terminal();
                if open && matches!(ended, Err(StepError::Api(_))) {
                    // The provider is done and must not be asked again for a moment's trouble with the machine.
                    self.store_result(&result, called).await?;
                }
                return ended;
            }
            self.store_result(&result, called).await?;
            self.apply().await
        })
        .await
    }

    /// Stores a result that is still to be applied.
    async fn store_result(&self, result: &OperationResult, called: &Called) -> Result<(), StepError> {
        let now = self.now();
        self.record
            .update(|_, status| {
                call::record(status, Some(called), now);
                if let Some(target) = status.target.as_mut() {
                    target.result = Some(result.clone());
                    target.stage = Some(stage::APPLYING.to_owned());
                }
            })
            .await?;
        Ok(())
    }

    fn wants_cleanup(&self, result: &OperationResult) -> bool {
        self.operation.cleanup && result.cleanup_provider_id.is_some()
    }

    /// Goes on from a stored result: machine first, cleanup after it (R2.10), both repeatable.
    pub(super) async fn apply(&self) -> Step {
        let operation = self.record.latest();
        let Some(result) = target(&operation).and_then(|t| t.result.clone()) else { return Ok(Next::NOW) };
        let (name, uid) = self.machine();
        match self.ops.machines.set_provider_id(&name, &uid, result.provider_id.as_deref()).await {
            Ok(_) => {}
            Err(MachineError::Gone(name)) => {
                let message = format!("the result could not be written: there is no machine {name} any more");
                return self.end_failed_anyway("MachineNotFound", &message, None).await;
            }
            Err(refused @ MachineError::Refused { .. }) => {
                return self.end_failed_anyway("ResultRefused", &refused.to_string(), None).await;
            }
            Err(MachineError::Api(error)) => return Err(error.into()),
        }
        if self.wants_cleanup(&result) {
            return self.cleanup(result).await;
        }
        self.complete(result, None, false).await
    }

    fn machine(&self) -> (String, String) {
        let operation = self.record.latest();
        let target = target(&operation);
        target.map(|t| (t.machine_ref.name.clone(), t.machine_uid.clone())).unwrap_or_default()
    }

    async fn cleanup(&self, result: OperationResult) -> Step {
        let lent = match self.credentials().await? {
            Ok(lent) => lent,
            Err(next) => return Ok(next),
        };
        // The guest sees the machine as it is now: with its new identity.
        let live_id = result.provider_id.clone().or_else(|| self.live_id.clone());
        let after = Run {
            case: Case { live_id, ..self.case.clone() },
            module: self.module.clone(),
            operation: self.operation.clone(),
        };
        let called = after.call(Ask::Cleanup(result.clone()), &lent, None).await?;
        let trouble = match &called.answer {
            Ok(Returned::Cleanup(Ok(()))) => return after.complete(result, Some(&called), true).await,
            Ok(Returned::Cleanup(Err(failure))) => Trouble::from(failure.clone()),
            Ok(_) => Trouble::bad_answer("WrongAnswer", "the provider answered another question"),
            Err(trouble) => trouble.clone(),
        };
        after.cleanup_failed(&called, &trouble).await
    }

    async fn cleanup_failed(&self, called: &Called, trouble: &Trouble) -> Step {
        if called.fenced {
            return Ok(Next::After(std::time::Duration::from_secs(1)));
        }
        let reason = if trouble.reason.trim().is_empty() { "CleanupFailed" } else { &trouble.reason };
        if let Some(Doubt { key, retry_after_ms: None }) = &called.doubt {
            let message = format!("what became of the effect {key} of the cleanup can't be found out");
            return self.outcome_unknown(&message, Some(called)).await;
        }
        let uid = self.uid();
        let capped = self.capped(&uid, trouble);
        if trouble.permanent || capped.is_some() {
            let message = capped.unwrap_or_else(|| trouble.message.clone());
            let message = format!("the result is applied, but the cleanup failed: {message}");
            return self.end_failed(reason, &message, Some(called)).await;
        }
        let mut delay = backoff::after(self.ops.tallies.failed(&uid), &uid);
        for wish in [trouble.retry_after_ms, called.doubt.as_ref().and_then(|d| d.retry_after_ms)] {
            delay = delay.max(backoff::wish(wish, std::time::Duration::ZERO));
        }
        let now = self.now();
        let why = if called.doubt.is_some() { WaitReason::CleanupInDoubt } else { WaitReason::CleanupFailed };
        let wait = Wait::new(why, format!("{reason}: {}", trouble.message)).until(add(now, delay));
        self.ops
            .wait(&self.record, &wait, |status| {
                call::record(status, Some(called), now);
                if let Some(target) = status.target.as_mut() {
                    target.result_applied = true;
                    target.stage = Some(stage::CLEANING.to_owned());
                }
            })
            .await?;
        Ok(Next::After(delay))
    }

    /// Result and Complete in one write, after what is owned was copied to the machine. What a cleanup removed is
    /// owned no longer: its identity may come to be somebody else's.
    async fn complete(&self, result: OperationResult, called: Option<&Called>, cleaned: bool) -> Step {
        Box::pin(async move {
            if let Some(key) = self.doubtful() {
                let message = format!("the work is done, but what became of the effect {key} isn't known");
                return self.outcome_unknown(&message, called).await;
            }
            let released =
                if cleaned { self.parts(result.cleanup_provider_id.as_deref()) } else { Vec::new() };
            let operation = self.record.latest();
            let owned =
                operation.status.as_ref().map(|status| status.owned_resources.clone()).unwrap_or_default();
            self.leave_machine(Change { owned, released, ..Change::default() }).await?;
            let (name, machine_uid) = self.machine();
            // Read after every write of ours to the machine's spec, so that it is the generation with the result in it.
            let generation = match self.ops.machines.set_provider_id(&name, &machine_uid, None).await {
                Ok(generation) => generation,
                Err(MachineError::Api(error)) => return Err(error.into()),
                Err(_) => self.input.machine_generation,
            };
            let now = self.now();
            let operation = self
                .record
                .update(|operation, status| {
                    status.observed_generation = operation.metadata.generation;
                    call::record(status, called, now);
                    if let Some(target) = status.target.as_mut() {
                        target.result = Some(result.clone());
                    }
                    status::complete(status, generation, now);
                })
                .await?;
            self.ops.announce_end(&operation);
            self.ops.ended(&self.record).await
        })
        .await
    }

    /// Kinds and ids that an identity is made of, by the manifest's pattern.
    fn parts(&self, identity: Option<&str>) -> Vec<(String, String)> {
        let manifest = self.module.manifest();
        let pattern = manifest.provider.provider_id.as_ref();
        let parts = pattern.zip(identity).and_then(|(pattern, identity)| pattern.parse(identity));
        parts.into_iter().flatten().collect()
    }
}

/// A provider's result as it is stored. Blanks are none.
pub(super) fn in_api(result: fx::OperationResult) -> OperationResult {
    let text = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    OperationResult {
        provider_id: text(result.provider_id),
        cleanup_provider_id: text(result.cleanup_provider_id),
        ..OperationResult::default()
    }
}
