//! What follows on a callback that gave nothing to go on with: a person, an end, or another try after a growing wait.

use std::time::Duration;

use holdfast_api::MachineOperationStatus;

use super::allocation::Role;
use super::call::{self, Called, Trouble};
use super::port::Doubt;
use super::status::{self, stage};
use super::wait::{Wait, WaitReason};
use super::{Next, Run, Step};
use crate::backoff;
use crate::clock::{add, until};

impl Run<'_> {
    /// What follows on a callback that acts and gave nothing to go on with.
    pub(super) async fn act_failed(
        &self,
        called: &Called,
        trouble: &Trouble,
        why: WaitReason,
        default_reason: &str,
    ) -> Step {
        if called.fenced {
            // Not the provider's failure: the operation was changed under the call, which has ended and sent nothing
            // more. Look again; it is no execution that was cut off in the middle.
            self.record.update(|_, status| retry_later(status)).await?;
            return Ok(Next::After(Duration::from_secs(1)));
        }
        let reason = if trouble.reason.trim().is_empty() { default_reason } else { &trouble.reason };
        if let Some(Doubt { key, retry_after_ms: None }) = &called.doubt {
            let message = format!("what became of the effect {key} can't be found out: {}", trouble.message);
            return self.outcome_unknown(&message, Some(called)).await;
        }
        if trouble.permanent || self.exhausted(trouble) {
            return self.end_failed(reason, &trouble.message, Some(called)).await;
        }
        let uid = self.uid();
        if let Some(message) = self.capped(&uid, trouble) {
            return self.end_failed(reason, &message, Some(called)).await;
        }
        let mut delay = backoff::after(self.ops.tallies.failed(&uid), &uid);
        for wish in [trouble.retry_after_ms, called.doubt.as_ref().and_then(|d| d.retry_after_ms)] {
            delay = delay.max(backoff::wish(wish, Duration::ZERO));
        }
        let why = if called.doubt.is_some() { WaitReason::EffectInDoubt } else { why };
        let now = self.now();
        let wait = Wait::new(why, format!("{reason}: {}", trouble.message)).until(add(now, delay));
        self.ops
            .wait(&self.record, &wait, |status| {
                call::record(status, Some(called), now);
                retry_later(status);
            })
            .await?;
        Ok(Next::After(delay))
    }

    /// Another offering may have what this one has not, and a quota is for a person to raise: the allocation chooses
    /// again, or waits and says so, rather than this operation. Over a quota only while nothing is made, since what is
    /// made need not be made again.
    pub(super) fn exhausted(&self, trouble: &Trouble) -> bool {
        let ends = match trouble.code.as_deref() {
            Some("capacity-exhausted") => true,
            Some("quota-exceeded") => !self.has_made(),
            _ => false,
        };
        self.role == Role::Allocate && ends && self.doubtful().is_none()
    }

    fn has_made(&self) -> bool {
        let operation = self.record.latest();
        operation.status.as_ref().is_some_and(|status| {
            !status.owned_resources.is_empty() || status.effects.iter().any(|one| !one.created.is_empty())
        })
    }

    /// Counts a failure that the host made; the message to end with once there were too many.
    pub(super) fn capped(&self, uid: &str, trouble: &Trouble) -> Option<String> {
        let failure = trouble.host_made.as_ref().filter(|failure| !failure.blameless)?;
        let (count, history) = self.ops.tallies.host_made(uid, &failure.to_string());
        (count >= self.settings().host_failure_cap)
            .then(|| format!("the host got no usable answer {count} times; the last were: {history}"))
    }

    /// Whether the provider's operation takes too long, counted from its acceptance; none before that.
    pub(super) fn stalled(&self) -> Option<bool> {
        let operation = self.record.latest();
        let accepted = status::target(&operation)?.accepted_at.as_ref()?.0;
        Some(until(accepted, self.now()) >= self.settings().stall_after)
    }
}

/// The last call has answered: a crash from here on loses nothing.
pub(super) fn retry_later(status: &mut MachineOperationStatus) {
    if let Some(target) = status.target.as_mut()
        && target.provider_operation.is_none()
        && target.result.is_none()
    {
        target.stage = Some(stage::WAITING_RETRY.to_owned());
    }
}
