//! The begin of a long-running operation (2(b).3 step 6): repeated with the same uid until a handle is stored.

use holdfast_api::ProviderOperation;
use holdfast_effects::{BeginResult, Returned};

use super::call::{self, Ask, Called, Trouble};
use super::status::{self, stage};
use super::wait::{Wait, WaitReason};
use super::{Next, Run, Step};
use crate::backoff;
use crate::clock::stamp;
use crate::credentials::Lent;

impl Run<'_> {
    pub(super) async fn begin(&self) -> Step {
        match self.credentials().await? {
            Ok(lent) => self.begin_with(lent).await,
            Err(next) => Ok(next),
        }
    }

    pub(super) async fn begin_with(&self, lent: Lent) -> Step {
        let data = match self.user_data().await? {
            Ok(data) => data,
            Err(next) => return Ok(next),
        };
        let called = self.call(Ask::Begin, &lent, data.as_ref()).await?;
        let trouble = match &called.answer {
            // Edge case 2, R2.5: an identity of blanks is none.
            Ok(Returned::Begin(Ok(begun))) if begun.operation.operation_id.trim().is_empty() => {
                Trouble::bad_answer("BlankOperationID", "the provider accepted, but gave no operation ID")
            }
            Ok(Returned::Begin(Ok(begun))) => return self.begun(begun, &called).await,
            Ok(Returned::Begin(Err(failure))) => Trouble::from(failure.clone()),
            Ok(_) => Trouble::bad_answer("WrongAnswer", "the provider answered another question"),
            Err(trouble) => trouble.clone(),
        };
        self.act_failed(&called, &trouble, WaitReason::BeginFailed, "PermanentProviderFailure").await
    }

    /// Everything that acceptance means, in one write.
    async fn begun(&self, begun: &BeginResult, called: &Called) -> Step {
        let (now, uid) = (self.now(), self.uid());
        let handle = ProviderOperation {
            provider: self.input.provider.clone(),
            operation_id: begun.operation.operation_id.clone(),
            resume_token: begun.operation.resume_token.clone(),
            state_version: self.module.manifest().provider.state_version.to_string(),
        };
        let wait = Wait::new(WaitReason::ProviderOperation, begun.message.as_str());
        self.ops
            .wait(&self.record, &wait, |status| {
                call::record(status, Some(called), now);
                if let Some(target) = status.target.as_mut() {
                    target.provider_operation = Some(handle.clone());
                    target.accepted_at = Some(stamp(now));
                    target.stage = Some(stage::WAITING_PROVIDER.to_owned());
                }
                status::stalled(status, false, "", now);
            })
            .await?;
        self.ops.tallies.answered(&uid);
        self.ops.deps.events.post(&self.record.latest(), false, "Begun", &begun.message, now);
        Ok(Next::After(backoff::wish(begun.requeue_after_ms, self.settings().poll_interval)))
    }
}
