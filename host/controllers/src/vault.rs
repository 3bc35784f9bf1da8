//! The custody room as the vault of this crate.

use std::collections::BTreeMap;

use holdfast_custody::{
    CredentialDeposit, CredentialsId, Custody, DepositError, Revision, SecretBytes, UserDataId,
};

use crate::rooms::{Secret, Vault, VaultError};

impl Vault for Custody {
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
        Custody::deposit_credentials(self, deposit).map_err(VaultError::from)
    }

    fn revoke_credentials(&self, id: CredentialsId) {
        Custody::revoke_credentials(self, id);
    }

    fn deposit_user_data(
        &self,
        revision: &Revision,
        name: &str,
        data: Secret,
    ) -> Result<UserDataId, VaultError> {
        Custody::deposit_user_data(self, revision, name, bytes(data)).map_err(VaultError::from)
    }

    fn revoke_user_data(&self, id: UserDataId) {
        Custody::revoke_user_data(self, id);
    }
}

/// Takes the allocation over; what is left behind is empty.
fn bytes(mut secret: Secret) -> SecretBytes {
    SecretBytes::from(std::mem::take(&mut *secret))
}

impl From<DepositError> for VaultError {
    fn from(error: DepositError) -> Self {
        Self { message: error.to_string(), transient: matches!(error, DepositError::UnknownRevision) }
    }
}
