//! What the operator allows each provider, and what the daemon does when a revision comes and goes.

use holdfast_custody::binding::Grants;
use holdfast_manifest::Manifest;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The operator's configuration of all providers.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    /// By provider name.
    pub providers: BTreeMap<String, ProviderPolicy>,
}

/// One `[[provider]]` of the configuration.
#[derive(Debug, Clone, Default)]
pub struct ProviderPolicy {
    /// The only file that may serve; `None`: any file with the approved call set.
    pub sha256: Option<String>,
    /// The approved call set (`Manifest::call_set`); `None`: nothing is approved.
    pub calls: Option<String>,
    /// Bindings of endpoints, and calls granted by name.
    pub grants: Grants,
}

/// The daemon's side of registration; it hands the declarations to custody.
///
/// Called one at a time, with the registry's lock held: a hook must not call the registry, and must be quick.
pub trait RegistryHooks: Send + Sync + 'static {
    /// Makes a revision's calls possible, or replaces its grants. Returns the endpoints that no binding serves.
    ///
    /// # Errors
    /// One sentence: the revision is refused, and the old one goes on.
    fn register(
        &self,
        revision: holdfast_custody::Revision,
        manifest: Arc<Manifest>,
        grants: Grants,
    ) -> Result<Vec<String>, String>;

    /// The last call on the revision has ended.
    fn unregister(&self, revision: holdfast_custody::Revision);
}
