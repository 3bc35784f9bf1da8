//! Custody as the rooms above it see it: a vault for the controllers, hooks for the registry.

use holdfast_controllers::rooms::{Secret, Vault, VaultError};
use holdfast_custody::binding::Grants;
use holdfast_custody::{
    CredentialDeposit, CredentialsId, Custody, DepositError, Revision, SecretBytes, UserDataId,
};
use holdfast_manifest::Manifest;
use holdfast_runtime::RegistryHooks;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Safe(pub Custody);

impl Vault for Safe {
    fn deposit_credentials(
        &self,
        revision: &Revision,
        name: &str,
        account: &str,
        values: BTreeMap<String, Secret>,
    ) -> Result<CredentialsId, VaultError> {
        let values = values.into_iter().map(|(key, value)| (key, bytes(value))).collect();
        let deposit = CredentialDeposit {
            revision: revision.clone(),
            name: name.to_owned(),
            account: account.to_owned(),
            values,
        };
        self.0.deposit_credentials(deposit).map_err(refused)
    }

    fn revoke_credentials(&self, id: CredentialsId) {
        self.0.revoke_credentials(id);
    }

    fn deposit_user_data(
        &self,
        revision: &Revision,
        name: &str,
        data: Secret,
    ) -> Result<UserDataId, VaultError> {
        self.0.deposit_user_data(revision, name, bytes(data)).map_err(refused)
    }

    fn revoke_user_data(&self, id: UserDataId) {
        self.0.revoke_user_data(id);
    }
}

fn refused(error: DepositError) -> VaultError {
    // Between a look at the registry and the deposit, another revision may have taken over.
    VaultError { transient: matches!(error, DepositError::UnknownRevision), message: error.to_string() }
}

/// Moves the bytes: custody wipes its source where it has to copy.
fn bytes(mut secret: Secret) -> SecretBytes {
    SecretBytes::from(std::mem::take(&mut *secret))
}

pub struct Hooks(pub Custody);

impl RegistryHooks for Hooks {
    fn register(
        &self,
        revision: Revision,
        manifest: Arc<Manifest>,
        grants: Grants,
    ) -> Result<Vec<String>, String> {
        let registered = self.0.register(revision, manifest, grants);
        registered.map(|registered| registered.unbound).map_err(|error| error.to_string())
    }

    fn unregister(&self, revision: Revision) {
        self.0.unregister(&revision);
    }
}
