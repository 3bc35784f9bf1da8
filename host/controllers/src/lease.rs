//! One controller per scope at a time: a core `Lease`, whose number of transitions is the journal's epoch.
//!
//! A daemon that can't renew in time stops by itself before another may begin: it stops at two thirds of the
//! duration, others wait for all of it. The epoch is what fences a write that is already on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use holdfast_api::SYSTEM_NAMESPACE;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;

use crate::clock::{Clock, add};
use crate::rooms::Fence;

/// How the lease is held.
#[derive(Debug, Clone)]
pub struct LeaseSettings {
    /// Name of the `Lease` in `holdfast-system`.
    pub name: String,
    /// Who holds it: unique to this process.
    pub identity: String,
    /// How long a holding is good for without renewal. At least 3 s.
    pub duration: Duration,
    /// Take over from another holder at once. Only where something stronger keeps other daemons out: the exclusive
    /// lock of the embedded store.
    pub take_over: bool,
}

impl LeaseSettings {
    /// The settings of a daemon; `identity` must be unique to the process.
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            name: "holdfast-controller".to_owned(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            take_over: false,
        }
    }
}

/// Whether this daemon may act, and under which epoch.
pub struct LeaseFence {
    clock: Arc<dyn Clock>,
    epoch: AtomicI64,
    /// Second until which this daemon may act; 0 when it may not.
    good_until: AtomicI64,
}

impl LeaseFence {
    /// A fence that is shut.
    pub fn shut(clock: Arc<dyn Clock>) -> Self {
        Self { clock, epoch: AtomicI64::new(0), good_until: AtomicI64::new(0) }
    }

    fn open(&self, epoch: i64, until: Timestamp) {
        self.epoch.store(epoch, Ordering::SeqCst);
        self.good_until.store(until.as_second(), Ordering::SeqCst);
    }

    fn close(&self) {
        self.good_until.store(0, Ordering::SeqCst);
    }
}

impl Fence for LeaseFence {
    fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn held(&self) -> bool {
        self.clock.now().as_second() < self.good_until.load(Ordering::SeqCst)
    }
}

/// Acquires and renews the lease.
pub struct Leaser {
    api: Api<Lease>,
    clock: Arc<dyn Clock>,
    settings: LeaseSettings,
    fence: Arc<LeaseFence>,
    held: Option<Lease>,
    /// What another holder last wrote, and when we first saw that by our own clock.
    other: Option<(String, Timestamp)>,
}

impl Leaser {
    /// A leaser that holds nothing yet.
    pub fn new(client: Client, clock: Arc<dyn Clock>, settings: LeaseSettings) -> Self {
        let fence = Arc::new(LeaseFence::shut(clock.clone()));
        Self {
            api: Api::namespaced(client, SYSTEM_NAMESPACE),
            clock,
            settings,
            fence,
            held: None,
            other: None,
        }
    }

    /// What the lease opens and shuts.
    pub fn fence(&self) -> Arc<LeaseFence> {
        self.fence.clone()
    }

    /// Acquires the lease or renews it; says whether it is held.
    ///
    /// # Errors
    /// When the API doesn't answer. A holding that is still good stays good until its time is over.
    pub async fn turn(&mut self) -> Result<bool, kube::Error> {
        let begun = self.clock.now();
        let written = match self.held.take() {
            Some(mine) => self.write(mine, begun, false).await?,
            None => match self.api.get_opt(&self.settings.name).await? {
                None => self.create(begun).await?,
                Some(theirs) if self.may_take(&theirs, begun) => self.write(theirs, begun, true).await?,
                Some(_) => None,
            },
        };
        let Some(lease) = written else {
            self.fence.close();
            return Ok(false);
        };
        let epoch = lease.spec.as_ref().and_then(|s| s.lease_transitions).unwrap_or_default();
        // Good from before the write on, and for less than others wait.
        self.fence.open(i64::from(epoch), add(begun, self.settings.duration.mul_f64(0.67)));
        self.held = Some(lease);
        Ok(true)
    }

    /// Renews until told to stop, then gives the lease back. A lost lease is taken again when it is free.
    pub async fn keep(mut self, mut stop: watch::Receiver<bool>) {
        let every = self.settings.duration / 3;
        loop {
            let next = add(self.clock.now(), every);
            tokio::select! {
                () = crate::told(&mut stop) => break,
                () = self.clock.sleep_until(next) => {}
            }
            match self.turn().await {
                Ok(true) => {}
                Ok(false) => tracing::warn!("another daemon holds the lease; this one does not act"),
                // Not known to be lost: the fence shuts by itself when the time of the holding is over.
                Err(error) => tracing::warn!(%error, "the lease could not be renewed"),
            }
        }
        self.release().await;
    }

    /// Gives the lease back, so that the next daemon need not wait.
    pub async fn release(&mut self) {
        self.fence.close();
        let Some(mut mine) = self.held.take() else { return };
        if let Some(spec) = mine.spec.as_mut() {
            spec.holder_identity = None;
        }
        if let Err(error) = self.api.replace(&self.settings.name, &PostParams::default(), &mine).await {
            tracing::debug!(%error, "the lease could not be given back; it will run out");
        }
    }

    /// A lease is free when nobody holds it, when this process does, or when its holder has not renewed for its whole
    /// duration by *our* clock (clocks of two machines need not agree).
    fn may_take(&mut self, lease: &Lease, now: Timestamp) -> bool {
        let Some(spec) = &lease.spec else { return true };
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == self.settings.identity || self.settings.take_over {
            return true;
        }
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let since = match &self.other {
            Some((seen, since)) if *seen == version => *since,
            _ => {
                self.other = Some((version, now));
                now
            }
        };
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        add(since, Duration::from_secs(seconds.max(1))) <= now
    }

    async fn create(&self, now: Timestamp) -> Result<Option<Lease>, kube::Error> {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.settings.name.clone());
        lease.metadata.namespace = Some(SYSTEM_NAMESPACE.to_owned());
        self.fill(lease.spec.get_or_insert_default(), now, true);
        conflict_is_none(self.api.create(&PostParams::default(), &lease).await)
    }

    /// Compare-and-swap on what was read; `None` when somebody else wrote in between.
    async fn write(
        &self,
        mut lease: Lease,
        now: Timestamp,
        taking: bool,
    ) -> Result<Option<Lease>, kube::Error> {
        self.fill(lease.spec.get_or_insert_default(), now, taking);
        conflict_is_none(self.api.replace(&self.settings.name, &PostParams::default(), &lease).await)
    }

    fn fill(&self, spec: &mut LeaseSpec, now: Timestamp, taking: bool) {
        let micro = MicroTime(now);
        spec.holder_identity = Some(self.settings.identity.clone());
        spec.lease_duration_seconds = i32::try_from(self.settings.duration.as_secs()).ok();
        spec.renew_time = Some(micro.clone());
        if taking {
            spec.acquire_time = Some(micro);
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default() + 1);
        }
    }
}

fn conflict_is_none(result: Result<Lease, kube::Error>) -> Result<Option<Lease>, kube::Error> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(error) if crate::is_status(&error, 409) || crate::is_status(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}
