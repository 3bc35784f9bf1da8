//! Immediate operations (2(b).2): one callback does it all.
//!
//! R2.11 says that only a replay-safe operation may be executed twice. Here that means: when it isn't known how far an
//! execution came (the daemon stopped, or the guest was cut off) and the journal shows that something was sent, or was
//! about to be, then nothing is executed again and a person decides (`OutcomeUnknown`, X.3). Where the journal is
//! empty no effect was ever sent, since the intent is written first, and running again is a first run. An execution
//! that answered with a transient error is known to have ended; it is repeated, and the journal repeats no effect.

use holdfast_effects::{OperationResult, Returned};

use super::apply::in_api;
use super::call::{Ask, Called, Trouble};
use super::status::{self, stage};
use super::wait::WaitReason;
use super::{Run, Step};
use crate::credentials::Lent;

impl Run<'_> {
    /// Goes on with an immediate operation that is InProgress.
    pub(super) async fn immediate(&self) -> Step {
        let operation = self.record.latest();
        let calling = status::target(&operation).is_some_and(|t| t.stage.as_deref() == Some(stage::CALLING));
        if calling && self.must_not_repeat() {
            let message =
                "the daemon stopped while the operation was executed, and it may not be executed twice";
            return self.outcome_unknown(message, None).await;
        }
        // Resolved only for a call that will be made.
        let lent = match self.credentials().await? {
            Ok(lent) => lent,
            Err(next) => return Ok(next),
        };
        let now = self.now();
        self.record
            .update(|_, status| {
                status.waiting = None;
                if let Some(target) = status.target.as_mut() {
                    target.stage = Some(stage::CALLING.to_owned());
                    status::attempted(target, now);
                }
            })
            .await?;
        self.execute(lent).await
    }

    /// Calls `execute`. That it is about to be called is already written (R2.13).
    pub(super) async fn execute(&self, lent: Lent) -> Step {
        let data = match self.user_data().await? {
            Ok(data) => data,
            Err(next) => return Ok(next),
        };
        let called = Box::pin(self.call(Ask::Execute, &lent, data.as_ref())).await?;
        match &called.answer {
            Ok(Returned::Execute(Ok(result))) => self.executed(result.clone(), &called).await,
            Ok(Returned::Execute(Err(failure))) => {
                let trouble = Trouble::from(failure.clone());
                self.act_failed(&called, &trouble, WaitReason::ExecutionFailed, "ExecutionFailed").await
            }
            Ok(_) => {
                let trouble = Trouble::bad_answer("WrongAnswer", "the provider answered another question");
                self.execution_cut(&called, &trouble).await
            }
            Err(trouble) => self.execution_cut(&called, trouble).await,
        }
    }

    async fn executed(&self, result: OperationResult, called: &Called) -> Step {
        self.ops.tallies.answered(&self.uid());
        self.succeeded(in_api(result), called).await
    }

    /// The guest was cut off in the middle: as far as it goes, the same as a crash.
    async fn execution_cut(&self, called: &Called, trouble: &Trouble) -> Step {
        if !called.fenced && self.must_not_repeat() {
            let message =
                format!("the execution was cut off, and it may not be executed twice: {}", trouble.message);
            return self.outcome_unknown(&message, Some(called)).await;
        }
        self.act_failed(called, trouble, WaitReason::ExecutionFailed, "ExecutionFailed").await
    }

    fn must_not_repeat(&self) -> bool {
        let operation = self.record.latest();
        !self.operation.replay_safe
            && operation.status.as_ref().is_some_and(|status| !status.effects.is_empty())
    }
}
