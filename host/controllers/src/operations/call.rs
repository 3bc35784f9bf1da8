//! One callback: the frozen context that the host judges by, the request that the guest sees, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{MachineOperationStatus, OperationResult, ProviderOperation};
use holdfast_custody::UserDataId;
use holdfast_effects as fx;
use holdfast_effects::{Callback, Context, Failure, Lend, Owned, Owner, OwnerKind, Returned};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::port::{Doubt, WatchedPort};
use super::status::{self, add_owned, stage};
use super::wait::{Wait, WaitReason};
use super::ways_out::deadline;
use super::{Next, Run, Step, StepError};
use crate::backoff;
use crate::clock::{add, until};
use crate::credentials::{AuthError, Lent};
use crate::inputs::{self, InputError};
use crate::rooms::{HostFailure, Vault};

/// What is asked of a provider.
pub(crate) enum Ask {
    Execute,
    Begin,
    Poll(ProviderOperation),
    Cancel(ProviderOperation),
    Cleanup(OperationResult),
}

impl Ask {
    fn name(&self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Begin => "begin",
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
    pub owned: Vec<Owned>,
    /// An intent was refused: the operation changed under the call.
    pub fenced: bool,
    /// Counts as an attempt that isn't counted yet.
    pub attempt: bool,
}

/// Why a callback gave nothing to go on with.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub permanent: bool,
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
            reason: reason.to_owned(),
            message: message.to_owned(),
            retry_after_ms: None,
            host_made: None,
        }
    }
}

/// Puts what a callback left behind into a status.
pub(crate) fn record(
    status: &mut MachineOperationStatus,
    called: Option<&Called>,
    uid: &str,
    now: Timestamp,
) {
    let Some(called) = called else { return };
    add_owned(status, &called.owned, uid);
    if called.attempt
        && let Some(target) = status.target.as_mut()
    {
        status::attempted(target, now);
    }
}

/// First-boot data that is lent while this lives (R2.14).
pub(crate) struct LentData {
    vault: Arc<dyn Vault>,
    id: UserDataId,
}

impl Drop for LentData {
    fn drop(&mut self) {
        self.vault.revoke_user_data(self.id);
    }
}

impl Run<'_> {
    /// Credentials for the next callback, or the step that their absence leads to: with progress made the operation
    /// waits, without it fails (edge case 9).
    pub(super) async fn credentials(&self) -> Result<Result<Lent, Next>, StepError> {
        let (manifest, revision) = (self.module.manifest(), self.module.revision());
        let (reason, message) =
            match self.ops.deps.credentials.resolve(&self.input, &manifest, &revision, self.now()).await {
                Ok(lent) => return Ok(Ok(lent)),
                Err(AuthError::Api(error)) => return Err(error.into()),
                Err(AuthError::Refused { reason, message }) => (reason, message),
            };
        let operation = self.record.latest();
        let progress = operation.status.as_ref().is_some_and(|status| {
            let handle =
                status.target.as_ref().is_some_and(|t| t.provider_operation.is_some() || t.result.is_some());
            handle || !status.effects.is_empty()
        });
        if !progress {
            return self.end_failed(reason, &message, None).await.map(Err);
        }
        let wait = Wait::new(WaitReason::AuthUnavailable, format!("{reason}: {message}"));
        let (now, stalled) = (self.now(), self.stalled());
        self.ops
            .wait(&self.record, &wait, |status| {
                if let Some(stalled) = stalled {
                    status::stalled(status, stalled, wait.reason.as_str(), now);
                }
            })
            .await?;
        Ok(Err(Next::After(self.settings().stalled_interval)))
    }

    /// First-boot data, if the kind needs it. Transient trouble is waited out (X.3).
    pub(super) async fn user_data(&self) -> Result<Result<Option<LentData>, Next>, StepError> {
        if !self.operation.requires_replace_user_data {
            return Ok(Ok(None));
        }
        let vault = &self.ops.deps.vault;
        let found = inputs::user_data(&self.ops.deps.client, &self.input).await.and_then(|(name, data)| {
            let id = vault
                .deposit_user_data(&self.module.revision(), &name, data)
                .map_err(InputError::Transient)?;
            Ok(LentData { vault: vault.clone(), id })
        });
        match found {
            Ok(data) => Ok(Ok(Some(data))),
            Err(InputError::Permanent { reason, message }) => {
                self.end_failed(reason, &message, None).await.map(Err)
            }
            Err(InputError::Transient(message)) => {
                let uid = self.uid();
                let delay = backoff::after(self.ops.tallies.failed(&uid), &uid);
                let wait = Wait::new(WaitReason::InputUnavailable, message).until(add(self.now(), delay));
                self.ops.wait(&self.record, &wait, |status| retry_later(status)).await?;
                Ok(Err(Next::After(delay)))
            }
        }
    }

    /// Makes the callback. Nothing of its answer is used before it was accepted.
    pub(super) async fn call(
        &self,
        ask: Ask,
        lent: &Lent,
        data: Option<&LentData>,
    ) -> Result<Called, StepError> {
        self.claim().await?;
        let timeout = if matches!(ask, Ask::Poll(_)) {
            self.settings().poll_timeout
        } else {
            self.settings().act_timeout
        };
        let (begun, started) = (self.now(), std::time::Instant::now());
        let end = add(begun, timeout);
        let context = self.context(&ask, lent, data, begun, end);
        let journal: Arc<dyn fx::Journal> = self.record.clone();
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
        Ok(Called {
            answer: answer.map_err(Trouble::from),
            doubt: port.doubt(),
            owned: open.owned(),
            fenced: self.record.take_fenced(),
            attempt: matches!(ask, Ask::Begin),
        })
    }

    /// Writes this daemon's epoch before its first callback, so that another daemon's writes no longer fit.
    async fn claim(&self) -> Result<(), StepError> {
        let epoch = self.ops.deps.fence.epoch();
        self.record.update(|_, status| status.lease_epoch = Some(epoch)).await?;
        Ok(())
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
        let release = operation.spec.operation_kind == "HostRelease";
        let phase = match ask {
            Ask::Execute | Ask::Begin | Ask::Poll(_) if release => fx::Phase::Release,
            Ask::Execute | Ask::Begin | Ask::Cancel(_) => fx::Phase::Act,
            Ask::Poll(_) => fx::Phase::Track,
            Ask::Cleanup(_) => fx::Phase::Cleanup,
        };
        let owned = status.owned_resources.into_iter();
        Context {
            revision: self.module.revision(),
            provider: self.input.provider.clone(),
            phase,
            owner: Owner { kind: OwnerKind::Operation, uid: uid.clone() },
            operation_uid: uid,
            site: self.input.site.clone(),
            provider_id: self.live_id.clone().filter(|id| !id.is_empty()),
            frozen_provider_id: self.input.provider_id.clone(),
            cleanup_provider_id: match ask {
                Ask::Cleanup(result) => result.cleanup_provider_id.clone(),
                _ => None,
            },
            machine_object: self.input.provider_ref.as_ref().map(inputs::machine_object),
            owned: owned.map(|o| Owned { binding: o.binding, kind: o.kind, id: o.id }).collect(),
            host_image: self.input.host_image.clone(),
            host_name: Some(target.machine_ref.name),
            config: BTreeMap::new(),
            offering: None,
            credentials: lent.id(),
            user_data: data.map(|data| data.id),
            deadline,
            now,
        }
    }

    fn callback(&self, ask: &Ask, lend: Lend) -> Callback {
        let request = self.request(ask);
        match ask {
            Ask::Execute => Callback::Execute { request, lend },
            Ask::Begin => Callback::Begin { request, lend },
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

    fn request(&self, ask: &Ask) -> fx::OperationRequest {
        let operation = self.record.latest();
        let status = operation.status.clone().unwrap_or_default();
        let target = status.target.unwrap_or_default();
        let attempts = u32::try_from(target.attempts).unwrap_or_default();
        let time = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        fx::OperationRequest {
            name: operation.name_any(),
            uid: operation.uid().unwrap_or_default(),
            kind: operation.spec.operation_kind.clone(),
            parameters: operation.spec.parameters.clone().into_iter().collect(),
            machine: inputs::request_machine(&operation, &self.input, self.live_id.as_deref()),
            site: self.input.site.clone(),
            started_at: status.started_at.map(|at| time(at.0)).unwrap_or_default(),
            accepted_at: target.accepted_at.map(|at| time(at.0)),
            deadline: deadline(&operation).map(time),
            // A begin is counted when its outcome is written, an execute before it is called (R2.13).
            attempt: if matches!(ask, Ask::Begin) { attempts + 1 } else { attempts.max(1) },
        }
    }

    /// What follows on a callback that acts and gave nothing to go on with.
    pub(super) async fn act_failed(
        &self,
        called: &Called,
        trouble: &Trouble,
        why: WaitReason,
        default_reason: &str,
    ) -> Step {
        if called.fenced {
            // Not the provider's failure: the operation was changed under the call. Look again.
            return Ok(Next::After(Duration::from_secs(1)));
        }
        let reason = if trouble.reason.trim().is_empty() { default_reason } else { &trouble.reason };
        if let Some(Doubt { key, retry_after_ms: None }) = &called.doubt {
            let message = format!("what became of the effect {key} can't be found out: {}", trouble.message);
            return self.outcome_unknown(&message, Some(called)).await;
        }
        if trouble.permanent {
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
                record(status, Some(called), &uid, now);
                retry_later(status);
            })
            .await?;
        Ok(Next::After(delay))
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

fn guest_handle(handle: &ProviderOperation) -> fx::ProviderOperation {
    fx::ProviderOperation {
        operation_id: handle.operation_id.clone(),
        resume_token: handle.resume_token.clone(),
    }
}

/// The last call has answered: a crash from here on loses nothing.
fn retry_later(status: &mut MachineOperationStatus) {
    if let Some(target) = status.target.as_mut()
        && target.provider_operation.is_none()
        && target.result.is_none()
    {
        target.stage = Some(stage::WAITING_RETRY.to_owned());
    }
}
