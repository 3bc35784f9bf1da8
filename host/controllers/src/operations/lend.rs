//! What is lent for a callback: credentials, and first-boot data for those that act.

use std::sync::Arc;

use holdfast_custody::UserDataId;

use super::failed::retry_later;
use super::status;
use super::wait::{Wait, WaitReason};
use super::{Next, Run, StepError};
use crate::backoff;
use crate::clock::add;
use crate::credentials::{AuthError, Lent};
use crate::inputs::{self, InputError};
use crate::rooms::Vault;

/// First-boot data that is lent while this lives (R2.14).
pub(super) struct LentData {
    vault: Arc<dyn Vault>,
    pub id: UserDataId,
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
                Err(AuthError::Later(message)) => return Err(StepError::Later(message)),
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
                .map_err(|error| InputError::Transient(error.message))?;
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
                self.ops.wait(&self.record, &wait, retry_later).await?;
                Ok(Err(Next::After(delay)))
            }
        }
    }
}
