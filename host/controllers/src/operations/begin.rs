//! The begin of a long-running operation (2(b).3 step 6): repeated with the same uid until a handle is stored.

use holdfast_api::{EffectState, ProviderOperation};
use holdfast_effects::{BeginResult, Returned};

use super::allocation::{Role, expired};
use super::call::{self, Ask, Called, Trouble};
use super::port::Doubt;
use super::status::{self, stage};
use super::wait::{Wait, WaitReason};
use super::{Next, Run, Step};
use crate::backoff;
use crate::clock::{add, stamp};
use crate::credentials::Lent;

impl Run<'_> {
    pub(super) async fn begin(&self) -> Step {
        if let Some(message) = self.nothing_launched() {
            return self.end_failed("OfferingExpired", &message, None).await;
        }
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
        let settling = self.settling();
        let ask = if settling.is_some() { Ask::Settle } else { Ask::Begin };
        let called = Box::pin(self.call(ask, &lent, data.as_ref())).await?;
        let answer = match (self.role, &called.answer) {
            (Role::Machine, Ok(Returned::Begin(answer)))
            | (Role::Allocate, Ok(Returned::BeginAllocate(answer)))
            | (Role::Release, Ok(Returned::BeginRelease(answer))) => Ok(answer),
            (_, Ok(_)) => Err(Trouble::bad_answer("WrongAnswer", "the provider answered another question")),
            (_, Err(trouble)) => Err(trouble.clone()),
        };
        let trouble = match answer {
            // Edge case 2, R2.5: an identity of blanks is none.
            Ok(Ok(begun)) if begun.operation.operation_id.trim().is_empty() => {
                Trouble::bad_answer("BlankOperationID", "the provider accepted, but gave no operation ID")
            }
            Ok(Ok(begun)) => return self.begun(begun, &called).await,
            Ok(Err(failure)) => Trouble::from(failure.clone()),
            Err(trouble) => trouble,
        };
        if let Some((reason, why)) = settling {
            return self.settled(reason, &why, &called, &trouble).await;
        }
        self.act_failed(&called, &trouble, WaitReason::BeginFailed, "PermanentProviderFailure").await
    }

    /// Why a HostAllocate may not launch any more: its offering is no longer valid, and nothing that was sent may have
    /// taken effect (R2.23). What has begun is gone on with, so that it is found and not left behind.
    pub(super) fn nothing_launched(&self) -> Option<String> {
        let operation = self.record.latest();
        let status = operation.status.as_ref()?;
        let launched = status.effects.iter().any(|effect| effect.state != EffectState::Rejected);
        if launched || !status.owned_resources.is_empty() {
            return None;
        }
        expired(self.role, &self.input, self.now())
    }

    /// Why a HostAllocate is given up whose begin left an effect in doubt, or made something and told no handle. It is
    /// called again to settle that and to begin nothing new: else something might be left that nobody has recorded.
    pub(super) fn settling(&self) -> Option<(&'static str, String)> {
        self.giving_up(&self.record.latest()).filter(|_| self.begin_must_be_known())
    }

    async fn settled(&self, reason: &str, why: &str, called: &Called, trouble: &Trouble) -> Step {
        let doubt = self.doubtful().is_some();
        // Where the begin would have gone on, or never will, it has told all that it can.
        if !doubt && (called.fenced || trouble.permanent || !self.begin_must_be_known()) {
            return self.end_failed(reason, why, None).await;
        }
        if let Some(Doubt { key, retry_after_ms: None }) = &called.doubt {
            let message = format!("{why}; but what became of the effect {key} can't be found out");
            return self.outcome_unknown(&message, Some(called)).await;
        }
        let uid = self.uid();
        if let Some(message) = self.capped(&uid, trouble) {
            return self.end_failed(reason, &format!("{why}; {message}"), None).await;
        }
        let delay = backoff::after(self.ops.tallies.failed(&uid), &uid);
        let now = self.now();
        let (wait, first) = match doubt {
            true => (WaitReason::EffectInDoubt, "what is in doubt is looked up first"),
            false => (WaitReason::BeginFailed, "the provider is asked first what came with what it made"),
        };
        let message = format!("{why}; {first}: {}", trouble.message);
        let wait = Wait::new(wait, message).until(add(now, delay));
        self.ops.wait(&self.record, &wait, |status| call::record(status, Some(called), now)).await?;
        Ok(Next::After(delay))
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
        // Polls are lent no first-boot data, so that nothing can send it again.
        if let Err(error) = self.ops.forget_first_boot(&self.record.latest()).await {
            tracing::debug!(%error, "kept first-boot data stays until the operation ends");
        }
        self.ops.deps.events.post(&self.record.latest(), false, "Begun", &begun.message, now);
        Ok(Next::After(backoff::wish(begun.requeue_after_ms, self.settings().poll_interval)))
    }
}
