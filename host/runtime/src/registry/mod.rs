//! Module life: the providers folder, and which revision of each provider serves.
//!
//! A file is read once, judged and compiled off the request path, registered, and swapped in. A bad file keeps the old
//! revision serving and says why; a removed file ends the provider for new calls. Calls in flight end on the revision
//! they began with, because they hold it.

mod file;
mod judge;
mod policy;
mod report;
mod revision;
mod scan;
mod slots;
mod watch;

pub use policy::{Policies, ProviderPolicy, RegistryHooks};
pub use report::{EndpointReport, ProviderReport, ProviderState, Refusal};
pub use revision::Revision;

use crate::engine::Engine;
use revision::Registrations;
use slots::Slots;
use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::watch as signal;

/// The providers of one folder. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    folder: PathBuf,
    registrations: Arc<Registrations>,
    /// What is known of files and providers. Held while the hooks run; never while a file is read or compiled.
    slots: Mutex<Slots>,
    /// Who serves, for calls: never held for longer than a look-up.
    serving: RwLock<HashMap<String, Arc<Revision>>>,
    /// One scan at a time.
    scanning: Mutex<()>,
    changes: signal::Sender<u64>,
}

impl Registry {
    /// Knows nothing until [`run`](Self::run) or [`rescan`](Self::rescan).
    pub fn new(
        engine: Engine,
        folder: PathBuf,
        hooks: Arc<dyn RegistryHooks>,
        policies: Policies,
    ) -> Registry {
        let inner = Inner {
            engine,
            folder,
            registrations: Registrations::new(hooks),
            slots: Mutex::new(Slots::new(policies)),
            serving: RwLock::default(),
            scanning: Mutex::default(),
            changes: signal::Sender::new(0),
        };
        Registry { inner: Arc::new(inner) }
    }

    /// Watches the folder until `shutdown` is ready. Needs a tokio runtime with time.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        watch::run(self, shutdown).await;
    }

    /// Reads what changed in the folder, now. True where a file was still being written and a later look is due.
    pub async fn rescan(&self) -> bool {
        let inner = self.inner.clone();
        match tokio::task::spawn_blocking(move || inner.scan()).await {
            Ok(again) => again,
            Err(error) => {
                tracing::error!(%error, "the look at the providers folder failed and is repeated");
                true
            }
        }
    }

    /// Judges every provider again, without compiling: approvals, pins and grants may have changed.
    pub fn set_policies(&self, policies: Policies) {
        let mut slots = self.inner.slots();
        slots.policies = policies;
        self.inner.settle(&mut slots);
    }

    /// The revision that serves new calls. Keep it for the length of a call and no longer.
    pub fn get(&self, provider: &str) -> Option<Arc<Revision>> {
        self.inner.serving.read().unwrap_or_else(PoisonError::into_inner).get(provider).cloned()
    }

    /// What there is to say of each provider and each file, by provider name.
    pub fn snapshot(&self) -> Vec<ProviderReport> {
        self.inner.slots().reports()
    }

    /// Ticks whenever [`snapshot`](Self::snapshot) would say something else.
    pub fn changes(&self) -> signal::Receiver<u64> {
        self.inner.changes.subscribe()
    }
}

impl Inner {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings who serves in line with files and policies, and tells those who watch.
    fn settle(&self, slots: &mut Slots) {
        slots.settle(&self.registrations);
        let serving = slots.serving();
        let old = {
            let mut current = self.serving.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, serving)
        };
        // Outside the lock: the last holder of a revision tells the hooks.
        drop(old);
        if slots.reports_changed() {
            self.changes.send_modify(|n| *n += 1);
        }
    }
}
