//! Registered revisions. Each lives until its last holder, a call in flight perhaps, lets go.

use super::policy::RegistryHooks;
use crate::module::Module;
use holdfast_custody::binding::Grants;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A module that serves, or served and has calls in flight.
pub struct Revision {
    /// `name@sha256`: what custody knows it by.
    pub id: holdfast_custody::Revision,
    pub module: Arc<Module>,
    registrations: Arc<Registrations>,
}

impl Drop for Revision {
    fn drop(&mut self) {
        self.registrations.release(&self.id);
    }
}

/// Counts holders by id, so that a file that comes back while its old calls run is not unregistered by their end.
pub(super) struct Registrations {
    hooks: Arc<dyn RegistryHooks>,
    live: Mutex<HashMap<holdfast_custody::Revision, usize>>,
}

impl Registrations {
    pub(super) fn new(hooks: Arc<dyn RegistryHooks>) -> Arc<Registrations> {
        Arc::new(Registrations { hooks, live: Mutex::default() })
    }

    /// Registers a module's revision. Returns it with the endpoints that are not bound.
    pub(super) fn register(
        self: &Arc<Self>,
        module: &Arc<Module>,
        grants: &Grants,
    ) -> Result<(Arc<Revision>, Vec<String>), String> {
        let id = holdfast_custody::Revision(format!("{}@{}", module.name(), module.digest()));
        let mut live = self.live();
        let unbound = self.hooks.register(id.clone(), module.manifest().clone(), grants.clone())?;
        *live.entry(id.clone()).or_default() += 1;
        let revision = Revision { id, module: module.clone(), registrations: self.clone() };
        Ok((Arc::new(revision), unbound))
    }

    /// Replaces the grants of a revision that serves.
    pub(super) fn replace(&self, revision: &Revision, grants: &Grants) -> Result<Vec<String>, String> {
        let _one_at_a_time = self.live();
        self.hooks.register(revision.id.clone(), revision.module.manifest().clone(), grants.clone())
    }

    fn release(&self, id: &holdfast_custody::Revision) {
        let mut live = self.live();
        let Some(count) = live.get_mut(id) else { return };
        *count -= 1;
        if *count == 0 {
            live.remove(id);
            self.hooks.unregister(id.clone());
        }
    }

    fn live(&self) -> MutexGuard<'_, HashMap<holdfast_custody::Revision, usize>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
