//! Ways out of an operation: a person's word on an effect (`spec.resolve`), `spec.cancel`, `spec.deadlineSeconds`,
//! deletion, and a machine that is gone.
//!
//! A timeout is no proof that anything stopped (R2.38): what a provider has accepted is followed to its end, and an
//! effect in doubt stays in doubt until it is settled.

use std::time::Duration;

use holdfast_api::{
    EffectState, MachineOperation, MachineOperationStatus, Phase, Resolution, Resolve, SettledBy,
};
use holdfast_effects::Effects;
use jiff::Timestamp;

use super::allocation::Role;
use super::case::Case;
use super::journal::{from_api, to_api};
use super::status::{self, target, unknown_since};
use super::{Next, StepError};
use crate::clock::{add, stamp};

/// When an operation is to be given up.
pub(super) fn deadline(operation: &MachineOperation) -> Option<Timestamp> {
    let seconds = u64::try_from(operation.spec.deadline_seconds?).ok()?;
    let started = operation.status.as_ref()?.started_at.as_ref()?.0;
    Some(add(started, Duration::from_secs(seconds)))
}

impl Case<'_> {
    /// Looks for a way out that was taken. `None`: the operation goes on.
    pub(super) async fn ways_out(&self) -> Result<Option<Next>, StepError> {
        if let Some(next) = self.resolve().await? {
            return Ok(Some(next));
        }
        let operation = self.record.latest();
        if crate::index::phase(&operation) == Phase::OutcomeUnknown
            && let Some(next) = self.still_unknown(&operation).await?
        {
            return Ok(Some(next));
        }
        let operation = self.record.latest();
        let Some((reason, why)) = self.giving_up(&operation) else { return Ok(None) };
        let far = target(&operation).is_some_and(|t| t.provider_operation.is_some() || t.result.is_some());
        if far || self.begin_must_be_known() {
            // Poll asks the provider to stop and follows it; a result that is there is applied. A begin settles what
            // is in doubt of an allocation, and begins nothing new.
            return Ok(None);
        }
        self.end_failed(reason, &why, None).await.map(Some)
    }

    /// Whether a HostAllocate that is given up must be called once more: its begin left an effect in doubt, or made
    /// something and told no handle. Only the provider knows what else comes with what it made, such as disks, and names
    /// it in its polls: what nobody has adopted, nobody would release (attack A8).
    pub(super) fn begin_must_be_known(&self) -> bool {
        let operation = self.record.latest();
        let made = operation.status.as_ref().is_some_and(|status| {
            let handle = status.target.as_ref().is_some_and(|target| target.provider_operation.is_some());
            !handle && status.effects.iter().any(|effect| !effect.created.is_empty())
        });
        self.role == Role::Allocate && (made || self.doubtful().is_some())
    }

    /// Why the operation is to be given up: reason and words.
    pub(super) fn giving_up(&self, operation: &MachineOperation) -> Option<(&'static str, String)> {
        if self.role == Role::Release && begun(operation) {
            // The point of no return: what is half released is released.
            return None;
        }
        if operation.spec.cancel {
            return Some(("Canceled", "the operation was cancelled".to_owned()));
        }
        if operation.metadata.deletion_timestamp.is_some() {
            return Some(("Canceled", "the operation was deleted while it ran".to_owned()));
        }
        if deadline(operation).is_some_and(|deadline| deadline <= self.now()) {
            return Some(("DeadlineExceeded", "the operation's deadlineSeconds are over".to_owned()));
        }
        // The allocation is the truth of what is to be released.
        (!self.machine_there && self.role != Role::Release).then(|| {
            let name = target(operation).map(|t| t.machine_ref.name.clone()).unwrap_or_default();
            ("MachineNotFound", format!("the machine {name} is gone, or was made anew under the same name"))
        })
    }

    /// In OutcomeUnknown. A `spec.cancel` that was set after it means: give it up, whatever happened. One that was set
    /// before has led here and says nothing about the effects.
    async fn still_unknown(&self, operation: &MachineOperation) -> Result<Option<Next>, StepError> {
        let status = operation.status.clone().unwrap_or_default();
        let later = operation.metadata.generation > unknown_since(&status);
        if operation.spec.cancel && later {
            let now = self.now();
            self.record.update(|_, status| abandon_doubts(status, now)).await?;
            let message = "cancelled while the outcome was unknown; effects in doubt were given up";
            return self.end_failed_anyway("Canceled", message, None).await.map(Some);
        }
        if status::unknown_by_doubt(&status) && self.doubtful().is_none() {
            // The answer came after all, and the journal has it.
            let now = self.now();
            self.record.update(|_, status| status::go_on(status, now)).await?;
            return Ok(None);
        }
        if operation.metadata.deletion_timestamp.is_some() && self.doubtful().is_none() {
            return self.end_failed_anyway("Canceled", "the operation was deleted", None).await.map(Some);
        }
        Ok(Some(self.unknown_again()))
    }

    /// A person's word on an effect.
    async fn resolve(&self) -> Result<Option<Next>, StepError> {
        let operation = self.record.latest();
        let status = operation.status.clone().unwrap_or_default();
        let Some(word) = operation.spec.resolve.clone() else { return Ok(None) };
        let unknown = status.phase == Phase::OutcomeUnknown;
        if self.role != Role::Machine && word.outcome == Resolution::Abandon {
            return self.abandoned(&word).await.map(Some);
        }
        // Said after the outcome became unknown, where it is known when that was.
        let newer =
            unknown_since(&status).is_none() || operation.metadata.generation > unknown_since(&status);
        let Some(effect) = status.effects.iter().find(|effect| effect.key == word.effect) else {
            let known: Vec<&str> = status.effects.iter().map(|effect| effect.key.as_str()).collect();
            let message = format!("no effect has the key {}; known are: {}", word.effect, known.join(", "));
            return self.not_resolved(&operation, &message).await;
        };
        if effect.state == EffectState::Intended {
            if unknown && !newer {
                return self.outdated(&operation, &word).await;
            }
            let settled = match Effects::resolve(&from_api(effect).map_err(shape)?, in_effects(word.outcome))
            {
                Ok(settled) => to_api(&settled).map_err(shape)?,
                Err(error) => return self.not_resolved(&operation, &error.to_string()).await,
            };
            let now = self.now();
            let operation = self
                .record
                .update(|operation, status| {
                    status.observed_generation = operation.metadata.generation;
                    if let Some(effect) = status.effects.iter_mut().find(|effect| effect.key == settled.key) {
                        *effect = settled.clone();
                    }
                })
                .await?;
            let note = format!("the effect {} was settled by hand: {:?}", word.effect, word.outcome);
            self.ops.deps.events.post(&operation, false, "Resolved", &note, now);
        } else if unknown && !newer {
            // Said and done before.
            return Ok(None);
        } else if !unknown {
            let by_hand = effect.settled_by == Some(SettledBy::Operator);
            if !(by_hand && effect.state == EffectState::Abandoned && word.outcome == Resolution::Abandon) {
                // Done before, by this word or by the answer: it must not answer the next doubt.
                return self.consume(&word).await;
            }
        }
        if word.outcome == Resolution::Abandon {
            let message = format!("a person gave up on the effect {}", word.effect);
            return self.end_failed("Abandoned", &message, None).await.map(Some);
        }
        if unknown && self.doubtful().is_none() {
            let now = self.now();
            self.record.update(|_, status| status::go_on(status, now)).await?;
        }
        self.consume(&word).await
    }

    /// The way out of an operation of an allocation that its provider never ends, whatever effect is named: all that is
    /// in doubt is given up, and what is recorded stays recorded for a release.
    async fn abandoned(&self, word: &Resolve) -> Result<Next, StepError> {
        let now = self.now();
        self.record.update(|_, status| abandon_doubts(status, now)).await?;
        let message = format!("a person gave up on the operation (effect {})", word.effect);
        self.end_failed_anyway("Abandoned", &message, None).await
    }

    /// One word answers one doubt: a used one is taken out of the spec before anything is called. When another was
    /// said meanwhile, that is looked at first.
    async fn consume(&self, word: &Resolve) -> Result<Option<Next>, StepError> {
        self.record.consume(word).await?;
        Ok(self.record.latest().spec.resolve.as_ref().map(|_| Next::NOW))
    }

    /// A word that is older than the doubt does not answer it. It is taken away, so that it can be said again; unless
    /// the operation is cancelled too, since a cancel is told from an older one by the generation that this raises.
    async fn outdated(
        &self,
        operation: &MachineOperation,
        word: &Resolve,
    ) -> Result<Option<Next>, StepError> {
        if operation.spec.cancel {
            return Ok(None);
        }
        let message = format!(
            "spec.resolve on the effect {} was said before its outcome became unknown; look again and set it again",
            word.effect
        );
        self.ops.deps.events.post(operation, true, "NotResolved", &message, self.now());
        self.consume(word).await
    }

    /// Says once per change of the spec that a word on an effect was not taken.
    async fn not_resolved(
        &self,
        operation: &MachineOperation,
        message: &str,
    ) -> Result<Option<Next>, StepError> {
        let seen = operation.status.as_ref().and_then(|status| status.observed_generation);
        if seen != operation.metadata.generation {
            self.ops.deps.events.post(operation, true, "NotResolved", message, self.now());
            self.record
                .update(|operation, status| {
                    status.observed_generation = operation.metadata.generation;
                    status.message = Some(message.to_owned());
                })
                .await?;
        }
        Ok(None)
    }
}

fn abandon_doubts(status: &mut MachineOperationStatus, now: Timestamp) {
    for effect in status.effects.iter_mut().filter(|effect| effect.state == EffectState::Intended) {
        effect.state = EffectState::Abandoned;
        effect.settled_at = Some(stamp(now));
        effect.settled_by = Some(SettledBy::Operator);
    }
}

/// Whether a provider may have begun.
pub(super) fn begun(operation: &MachineOperation) -> bool {
    let begun = |status: &MachineOperationStatus| {
        let target = status.target.as_ref();
        !status.effects.is_empty()
            || target.is_some_and(|t| t.provider_operation.is_some() || t.result.is_some())
    };
    operation.status.as_ref().is_some_and(begun)
}

fn in_effects(outcome: Resolution) -> holdfast_effects::Resolution {
    match outcome {
        Resolution::TookEffect => holdfast_effects::Resolution::TookEffect,
        Resolution::DidNotHappen => holdfast_effects::Resolution::DidNotHappen,
        Resolution::Abandon => holdfast_effects::Resolution::Abandon,
    }
}

fn shape(error: serde_json::Error) -> StepError {
    StepError::Record(super::RecordError::Shape(error))
}
