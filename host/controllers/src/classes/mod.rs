//! The class controller: resolves a `MachineClass` into offerings, and again well before they expire.
//!
//! Resolving only reads (R2.21). What was resolved stays until it expires, whatever happens to the provider meanwhile;
//! nobody launches from it after that (R2.23). Nothing is written while nothing changes.

mod config;
mod resolve;
mod schedule;
mod status;
mod sweep;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_api::{MachineClass, MachineClassStatus};
use kube::{Api, ResourceExt as _};

use crate::backoff;
use crate::capacity::{CapacityDeps, Flow, Stop, Trouble, Wait, offers_capacity, step};
use crate::clock::{add, until};
use crate::operations::{Next, StepError};
use schedule::Schedule;
use sweep::Sweeps;

pub(crate) use status::is_resolved;

/// The controller.
pub(crate) struct Classes {
    deps: Arc<CapacityDeps>,
    api: Api<MachineClass>,
    schedule: Schedule,
    sweeps: Sweeps,
    /// Classes that are to be resolved whatever the schedule says.
    asked_for: Mutex<HashSet<String>>,
}

impl Classes {
    pub(crate) fn new(deps: Arc<CapacityDeps>) -> Self {
        Self {
            api: deps.api(),
            deps,
            schedule: Schedule::default(),
            sweeps: Sweeps::default(),
            asked_for: Mutex::default(),
        }
    }

    /// Takes one step with the class of a name.
    ///
    /// # Errors
    /// When the API doesn't answer or this daemon may not write; nothing is lost.
    pub(crate) async fn reconcile(&self, name: &str) -> Result<Next, StepError> {
        let Some(class) = self.api.get_opt(name).await? else {
            self.forget(name);
            return Ok(Next::Done);
        };
        self.deps.index.class_seen(Arc::new(class.clone()));
        // A class that goes is not resolved again. What was allocated from it keeps a copy of all it needs.
        if class.metadata.deletion_timestamp.is_some()
            || !self.deps.in_scope(&class.spec.site_name, &class.spec.provider)
        {
            return Ok(Next::Done);
        }
        step(Box::pin(self.run(class)).await)
    }

    /// The class of a name is gone.
    pub(crate) fn forget(&self, name: &str) {
        let Some(old) = self.deps.index.class_gone(name) else { return };
        let uid = old.uid().unwrap_or_default();
        self.schedule.forget(&uid);
        self.sweeps.forget(&uid);
        self.deps.metrics.no_class(&old.spec.provider, name);
        self.deps.counts.forget(&uid);
    }

    /// Resolves a class at its next step, whatever the schedule says: its credentials changed.
    pub(crate) fn ask_for(&self, name: &str) {
        self.asked_for.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    async fn run(&self, class: MachineClass) -> Flow<Next> {
        let class = self.configured(class).await?;
        let (provider, now) = (class.spec.provider.clone(), self.deps.now());
        let Some(module) = self.deps.modules.get(&provider) else {
            return self.wait(&class, status::not_registered(&provider)).await;
        };
        if !offers_capacity(&module.manifest()) {
            return self.wait(&class, status::not_offered(&provider)).await;
        }
        let revision = module.revision().0;
        let asked = self.asked_for.lock().unwrap_or_else(PoisonError::into_inner).remove(&class.name_any());
        let due = if asked { now } else { self.schedule.due(&class, &revision, now) };
        if due > now {
            let look = self.deps.settings.stalled_interval;
            let sweep = self.sweep(class, &*module).await?;
            return Ok(Next::After(until(now, due).min(look).min(sweep)));
        }
        match self.resolve(&class, &*module).await? {
            Ok(offerings) => {
                let (class, next) = self.resolved(class, offerings, &revision).await?;
                let sweep = self.sweep(class, &*module).await?;
                Ok(next.no_later(sweep))
            }
            Err(trouble) if trouble.permanent => self.invalid(class, &trouble, &revision).await,
            Err(trouble) => self.retry(&class, &trouble, &revision).await,
        }
    }

    async fn resolved(
        &self,
        class: MachineClass,
        offerings: Vec<holdfast_api::Offering>,
        revision: &str,
    ) -> Flow<(MachineClass, Next)> {
        let (now, uid) = (self.deps.now(), class.uid().unwrap_or_default());
        self.deps.counts.forget(&uid);
        self.deps.metrics.resolution(&class.spec.provider, "resolved");
        let before = class.status.clone().unwrap_or_default();
        let look = self.deps.settings.stalled_interval;
        let class = self
            .put(class, |status, generation| status::resolved(status, generation, offerings, revision, now))
            .await?;
        let after = class.status.clone().unwrap_or_default();
        if !status::is_resolved(&before) || before.available != after.available {
            let note = after.message.clone().unwrap_or_default();
            self.deps.events.about(&class, false, "Resolved", &note, now);
        }
        let due = self.schedule.resolved(&uid, revision, after.valid_until.map(|at| at.0), look, now);
        Ok((class, Next::After(until(now, due).min(look))))
    }

    /// The provider will answer so for ever: the configuration is invalid for this revision.
    async fn invalid(&self, class: MachineClass, trouble: &Trouble, revision: &str) -> Flow<Next> {
        let now = self.deps.now();
        self.deps.metrics.resolution(&class.spec.provider, "invalid");
        let known = class.status.as_ref().is_some_and(|status| status::is_invalid(status, trouble));
        let class = self
            .put(class, |status, generation| status::invalid(status, generation, trouble, revision, now))
            .await?;
        if !known {
            let note = class.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default();
            self.deps.events.about(&class, true, "InvalidConfig", &note, now);
        }
        self.schedule.refused(&class.uid().unwrap_or_default(), revision);
        Ok(Next::After(self.deps.settings.stalled_interval))
    }

    async fn retry(&self, class: &MachineClass, trouble: &Trouble, revision: &str) -> Flow<Next> {
        let uid = class.uid().unwrap_or_default();
        self.deps.metrics.resolution(&class.spec.provider, "failed");
        let mut delay = backoff::after(self.deps.counts.failed(&uid), &uid);
        delay = delay.max(backoff::wish(trouble.retry_after_ms, std::time::Duration::ZERO));
        self.schedule.failed(&uid, revision, add(self.deps.now(), delay));
        self.wait(class, status::resolve_failed(trouble, add(self.deps.now(), delay))).await
    }

    /// Writes a wait and says when to look again.
    async fn wait(&self, class: &MachineClass, wait: Wait) -> Flow<Next> {
        let now = self.deps.now();
        let known =
            class.status.as_ref().and_then(|s| s.waiting.as_ref()).is_some_and(|w| w.reason == wait.reason);
        let class = self
            .put(class.clone(), |status, generation| status::waits(status, generation, &wait, now))
            .await?;
        if !known {
            self.deps.metrics.wait(wait.reason);
            self.deps.events.about(&class, true, wait.reason, &wait.message, now);
        }
        let look = self.deps.settings.stalled_interval;
        Ok(Next::After(wait.until.map_or(look, |at| until(now, at).min(look))))
    }

    /// Waits for something that may come at any moment, with a growing pause.
    async fn wait_growing(&self, class: &MachineClass, wait: Wait) -> Stop {
        let uid = class.uid().unwrap_or_default();
        let pause = backoff::after(self.deps.counts.failed(&uid), &uid);
        match self.wait(class, wait).await {
            Ok(_) => Stop::Until(Next::After(pause)),
            Err(stop) => stop,
        }
    }

    /// Changes the status. Nothing is written when nothing changes.
    async fn put(
        &self,
        mut class: MachineClass,
        change: impl FnOnce(&mut MachineClassStatus, Option<i64>),
    ) -> Flow<MachineClass> {
        let old = class.status.clone();
        let mut new = old.clone().unwrap_or_default();
        change(&mut new, class.metadata.generation);
        if old.as_ref() == Some(&new) {
            return Ok(class);
        }
        class.status = Some(new);
        let written = self.deps.put_status(&class).await?;
        self.deps.index.class_seen(Arc::new(written.clone()));
        Ok(written)
    }
}
