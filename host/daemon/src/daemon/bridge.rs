//! Custody as the registry sees it: who comes and goes.

use holdfast_custody::binding::Grants;
use holdfast_custody::{Custody, Revision};
use holdfast_manifest::Manifest;
use holdfast_runtime::RegistryHooks;
use std::sync::Arc;

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
