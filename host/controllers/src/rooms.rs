//! The rooms below this one, as narrow traits: provider modules and the vault of secrets.
//!
//! The daemon hands in the real ones; tests hand in scripted modules. Nothing here knows Kubernetes or wasm.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::ProviderStatus;
use holdfast_custody::{CredentialsId, Revision, UserDataId};
use holdfast_effects::{Callback, Port, Returned, Violation};
use holdfast_manifest::Manifest;
use jiff::Timestamp;
use tokio::sync::watch;
use zeroize::Zeroizing;

/// Bytes of a secret; wiped when dropped.
pub type Secret = Zeroizing<Vec<u8>>;

/// The loaded provider modules.
pub trait Modules: Send + Sync + 'static {
    /// The revision that serves new calls of a provider, if one does.
    fn get(&self, provider: &str) -> Option<Arc<dyn ProviderModule>>;
    /// What is known of every provider file, for the `Provider` objects.
    fn reports(&self) -> Vec<ModuleReport>;
    /// Changes whenever `get` or `reports` may answer differently.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// One revision of one provider. A call in flight ends on the revision that it began with.
#[async_trait::async_trait]
pub trait ProviderModule: Send + Sync + 'static {
    /// `name@sha256`.
    fn revision(&self) -> Revision;
    /// The checked manifest.
    fn manifest(&self) -> Arc<Manifest>;
    /// Runs one callback in a fresh instance and returns what the guest answered, not yet accepted.
    ///
    /// # Errors
    /// When the guest gave no answer: trap, deadline, memory, a violation.
    async fn call(
        &self,
        callback: Callback,
        port: Arc<dyn Port>,
        deadline: Timestamp,
    ) -> Result<Returned, HostFailure>;
}

/// Why a callback has no answer that can be used. Made by the host, never by the guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct HostFailure {
    /// CamelCase: `Trapped`, `DeadlineExceeded`, `SecretInOutput`, …
    pub reason: String,
    /// One sentence, without text of the guest.
    pub message: String,
    /// A repeat can't end differently, because the module's own code decides it (see [`permanent`]).
    pub permanent: bool,
    /// The module had no part in it (overload, shutdown): doesn't count towards the cap.
    pub blameless: bool,
}

impl From<Violation> for HostFailure {
    fn from(violation: Violation) -> Self {
        let permanent = permanent(&violation.reason);
        // An operator's line, and not the module's doing: it is waited for, however long it takes (attack A9).
        let blameless = violation.reason == holdfast_effects::MADE_ELSEWHERE;
        Self { reason: violation.reason, message: violation.message, permanent, blameless }
    }
}

/// Violations after which the operation ends at once. The module's code asked for what its manifest or its phase does
/// not allow; the same code asks for it again. Everything else that the host makes (traps, limits, a secret in an
/// answer) may come from the state of the world and is retried under a cap.
pub fn permanent(reason: &str) -> bool {
    matches!(reason, "UndeclaredCall" | "WrongPhase" | "ForeignTarget" | "ForeignIdentity")
}

/// What is known of one provider file.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleReport {
    /// Name of the provider, which becomes the name of the `Provider` object.
    pub name: String,
    /// Its status; conditions are set by this crate.
    pub status: ProviderStatus,
}

/// Keeps secrets and gives numbers for them.
pub trait Vault: Send + Sync + 'static {
    /// Deposits one set of credentials for the calls of one revision.
    ///
    /// # Errors
    /// What was refused, by which rule, and which line would change it.
    fn deposit_credentials(
        &self,
        revision: &Revision,
        name: &str,
        account: &str,
        values: BTreeMap<String, Secret>,
    ) -> Result<CredentialsId, VaultError>;
    /// Forgets a set of credentials.
    fn revoke_credentials(&self, id: CredentialsId);
    /// Deposits first-boot data of one machine.
    ///
    /// # Errors
    /// One sentence, as above.
    fn deposit_user_data(
        &self,
        revision: &Revision,
        name: &str,
        data: Secret,
    ) -> Result<UserDataId, VaultError>;
    /// Forgets first-boot data.
    fn revoke_user_data(&self, id: UserDataId);
}

/// Why the vault did not take something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct VaultError {
    /// One sentence; never a byte of a secret.
    pub message: String,
    /// The revision of the module was swapped in this moment: worth another try.
    pub transient: bool,
}

/// Secrets that the daemon's configuration names. They come before the store and are never stored.
pub trait CredentialOverlay: Send + Sync + 'static {
    /// The secret that the configuration gives in place of the `Secret` of this name, if this provider may use it.
    fn by_name(&self, provider: &str, name: &str) -> Option<OverlaySecret>;
    /// The secret that the configuration gives to a provider at a site, in place of a `ProviderCredential`.
    fn by_site(&self, provider: &str, site: &str) -> Option<OverlaySecret>;
}

/// One secret out of the configuration.
#[derive(Clone)]
pub struct OverlaySecret {
    /// Shown to operators; budgets belong to it.
    pub name: String,
    /// Changes when the values change.
    pub version: String,
    /// Values by key.
    pub values: BTreeMap<String, Secret>,
}

/// No overlay.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOverlay;

impl CredentialOverlay for NoOverlay {
    fn by_name(&self, _: &str, _: &str) -> Option<OverlaySecret> {
        None
    }

    fn by_site(&self, _: &str, _: &str) -> Option<OverlaySecret> {
        None
    }
}

/// What says whether this daemon may still act.
pub trait Fence: Send + Sync + 'static {
    /// Number of the current holding of the lease; grows with every change of hands.
    fn epoch(&self) -> i64;
    /// Whether the lease is still held.
    fn held(&self) -> bool;
}
