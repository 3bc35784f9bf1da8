//! Built first-boot data, kept while a repeat may have to send the same bytes again.
//!
//! A repeat with other bytes is no repeat, and the effects room knows it by the fingerprint; a template whose values
//! change with time (a bootstrap token) would never give the same bytes twice. So they are kept from before the first
//! send until no callback is lent them any more, in a Secret named by the operation's uid.

use std::collections::BTreeMap;

use holdfast_api::{FIRST_BOOT_SECRET_TYPE, MachineOperation, SYSTEM_NAMESPACE};
use holdfast_manifest::{Manifest, Replay, SlotKind};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as CoreSecret;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, Resource as _};
use zeroize::Zeroize as _;

use crate::inputs::{InputError, USER_DATA_KEY};
use crate::rooms::Secret;

/// Whether a call of this provider that takes first-boot data may be sent again.
pub fn may_repeat(manifest: &Manifest) -> bool {
    let repeats = |replay: &Option<Replay>| matches!(replay, Some(Replay::Token { .. } | Replay::Idempotent));
    let mut calls = manifest.calls.values();
    calls.any(|call| {
        repeats(&call.replay) && call.slots.values().any(|slot| matches!(slot.kind, SlotKind::UserData))
    })
}

/// The kept bytes of one operation.
pub struct Kept<'a> {
    api: Api<CoreSecret>,
    operation: &'a MachineOperation,
    name: String,
}

impl<'a> Kept<'a> {
    /// Of this operation.
    pub fn of(client: &Client, operation: &'a MachineOperation) -> Self {
        let uid = operation.metadata.uid.as_deref().unwrap_or_default();
        Self {
            api: Api::namespaced(client.clone(), SYSTEM_NAMESPACE),
            operation,
            name: format!("first-boot-{uid}"),
        }
    }

    /// The bytes, if they are kept.
    ///
    /// # Errors
    /// Permanent when something else stands under the name; transient when the API doesn't answer.
    pub async fn find(&self) -> Result<Option<Secret>, InputError> {
        let Some(found) = self.api.get_opt(&self.name).await? else { return Ok(None) };
        self.ours(&found)?;
        // Present and empty is kept, too: nothing is what was sent.
        Ok(Some(super::wiping(found).remove(USER_DATA_KEY).unwrap_or_default()))
    }

    /// Keeps the bytes. What was kept before was never sent, and is replaced.
    ///
    /// # Errors
    /// As [`Kept::find`].
    pub async fn keep(&self, bytes: &Secret) -> Result<(), InputError> {
        let mut secret = self.secret(bytes);
        let created = self.api.create(&PostParams::default(), &secret).await;
        let result = match created {
            Err(error) if crate::is_status(&error, 409) => self.replace(&mut secret, bytes).await,
            other => other.map(wipe).map_err(InputError::from),
        };
        wipe(secret);
        result
    }

    async fn replace(&self, secret: &mut CoreSecret, bytes: &Secret) -> Result<(), InputError> {
        let Some(old) = self.api.get_opt(&self.name).await? else {
            return Err(InputError::Transient(format!("the Secret {} changed meanwhile", self.name)));
        };
        self.ours(&old)?;
        secret.metadata.resource_version = old.metadata.resource_version.clone();
        let same = super::wiping(old).remove(USER_DATA_KEY).is_some_and(|kept| kept == *bytes);
        if !same {
            wipe(self.api.replace(&self.name, &PostParams::default(), secret).await?);
        }
        Ok(())
    }

    /// Removes them, if they are there. What somebody else has put under the name stays.
    ///
    /// # Errors
    /// When the API doesn't answer.
    pub async fn forget(&self) -> Result<(), kube::Error> {
        let Some(found) = self.api.get_opt(&self.name).await? else { return Ok(()) };
        let (ours, uid) = (self.ours(&found).is_ok(), found.metadata.uid.clone());
        wipe(found);
        if !ours {
            return Ok(());
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version: None }),
            ..DeleteParams::default()
        };
        match self.api.delete(&self.name, &params).await {
            Err(error) if !crate::is_status(&error, 404) && !crate::is_status(&error, 409) => Err(error),
            Ok(answer) => {
                answer.map_left(wipe);
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    fn ours(&self, found: &CoreSecret) -> Result<(), InputError> {
        if found.type_.as_deref() == Some(FIRST_BOOT_SECRET_TYPE) {
            return Ok(());
        }
        Err(InputError::Permanent {
            reason: "BootstrapDataFailed",
            message: format!(
                "the Secret {SYSTEM_NAMESPACE}/{} is not of type {FIRST_BOOT_SECRET_TYPE}: the name is the daemon's own",
                self.name
            ),
        })
    }

    fn secret(&self, bytes: &Secret) -> CoreSecret {
        let mut secret =
            CoreSecret { type_: Some(FIRST_BOOT_SECRET_TYPE.to_owned()), ..CoreSecret::default() };
        secret.metadata.name = Some(self.name.clone());
        // A cluster's garbage collector removes what a daemon that never came back has left.
        secret.metadata.owner_references = self.operation.owner_ref(&()).map(|owner| vec![owner]);
        secret.data = Some(BTreeMap::from([(USER_DATA_KEY.to_owned(), ByteString(bytes.to_vec()))]));
        secret
    }
}

/// Wipes what the API's types hold.
fn wipe(secret: CoreSecret) {
    for (_, ByteString(mut bytes)) in secret.data.unwrap_or_default() {
        bytes.zeroize();
    }
}
