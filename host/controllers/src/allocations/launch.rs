//! From a claim to a launched operation: choose an offering, plan the host, write both, make the Machine, begin.
//!
//! Until the operation is begun nothing has left the daemon, and everything may be chosen anew: when the class was made
//! anew under its name, or when the offering has expired meanwhile (R2.23).

use std::time::Duration;

use holdfast_api::{AllocationPlan, MachineAllocation, MachineClass, Offering};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::choose::{MARGIN, NoOffering, Wants, choose};
use super::{Allocations, state, status, waits};
use crate::capacity::{Flow, HOST_ALLOCATE, Stop, Trouble, offers_capacity};
use crate::capacity_index::machine_name;
use crate::clock::{add, until};
use crate::operations::Next;
use crate::{backoff, classes};

/// Failures of a plan that the host made, after which the allocation fails: what is pure fails again (2(e) 24).
const PLAN_CAP: u32 = 5;

impl Allocations {
    pub(super) async fn launch(&self, allocation: MachineAllocation) -> Flow<Next> {
        if let Some(left) = self.pause(&allocation, &[waits::QUOTA_EXCEEDED, waits::PLAN_FAILED]) {
            return Ok(self.not_past_deadline(&allocation, Next::After(left)));
        }
        let constraints = allocation.spec.constraints.clone();
        let wants = match Wants::parse(&constraints) {
            Ok(wants) => wants,
            Err(message) => return self.fail(allocation, "InvalidConstraints", &message).await,
        };
        let Some(class) = self.class(&allocation).await? else {
            return self
                .wait(allocation.clone(), waits::class_not_found(&allocation.spec.class_ref.name))
                .await;
        };
        if !self.deps.in_scope(&class.spec.site_name, &class.spec.provider) {
            return Ok(Next::Done);
        }
        let allocation = self.held(allocation).await?;
        let allocation = if self.still_good(&allocation, &class) {
            allocation
        } else {
            Box::pin(self.choose_anew(allocation, class, &wants)).await?
        };
        let (allocation, machine) = Box::pin(self.machine(allocation, true)).await?;
        self.begin(allocation, Some(&machine), HOST_ALLOCATE).await
    }

    /// What is left of a pause that nothing but time ends, if it is for one of these reasons.
    pub(super) fn pause(&self, allocation: &MachineAllocation, reasons: &[&str]) -> Option<Duration> {
        let waiting = state(allocation).waiting?;
        let fixed = reasons.contains(&waiting.reason.as_str());
        let left = until(self.now(), waiting.until.filter(|_| fixed)?.0);
        (!left.is_zero()).then_some(left)
    }

    /// The class, if it is there to stay.
    pub(super) async fn class(&self, allocation: &MachineAllocation) -> Flow<Option<MachineClass>> {
        let name = &allocation.spec.class_ref.name;
        let class = match self.deps.index.class(name) {
            Some(class) => Some((*class).clone()),
            None => self.deps.api::<MachineClass>().get_opt(name).await?,
        };
        Ok(class.filter(|class| class.metadata.deletion_timestamp.is_none()))
    }

    /// Whether what was chosen and planned can still be launched.
    fn still_good(&self, allocation: &MachineAllocation, class: &MachineClass) -> bool {
        let status = state(allocation);
        let in_time =
            status.offering.is_some_and(|offering| offering.valid_until.0 > add(self.now(), MARGIN));
        status.plan.is_some() && in_time && status.class_uid == class.uid()
    }

    async fn choose_anew(
        &self,
        allocation: MachineAllocation,
        known: MachineClass,
        wants: &Wants<'_>,
    ) -> Flow<MachineAllocation> {
        // What the watch told is enough to go on waiting. Before something is done the class is read again.
        if let Err(none) = self.choice(&allocation, &known, wants) {
            return Err(Stop::Until(self.no_offering(allocation, &known, none).await?));
        }
        let name = &allocation.spec.class_ref.name;
        let Some(class) = self.deps.api::<MachineClass>().get_opt(name).await? else {
            return Err(Stop::Again);
        };
        self.deps.index.class_seen(std::sync::Arc::new(class.clone()));
        let offering = match self.choice(&allocation, &class, wants) {
            Ok(offering) => offering.clone(),
            Err(none) => return Err(Stop::Until(self.no_offering(allocation, &class, none).await?)),
        };
        let plan = self.planned(&allocation, &class, &offering).await?;
        let (now, uid) = (self.now(), allocation.uid().unwrap_or_default());
        let place = self.place_of(&offering, &class.spec.site_name, &class.spec.provider);
        self.exhausted.tries(&place, &uid, now);
        let note =
            format!("offering {} of class {name}; the host will be {}", offering.name, plan.provider_id);
        let allocation =
            self.put(allocation, |status| status::chosen(status, &class, offering, plan, now)).await?;
        self.tell(&allocation, false, "OfferingChosen", &note);
        Ok(allocation)
    }

    fn choice<'a>(
        &self,
        allocation: &MachineAllocation,
        class: &'a MachineClass,
        wants: &Wants<'_>,
    ) -> Result<&'a Offering, NoOffering> {
        let (now, status) = (self.now(), state(allocation));
        let uid = allocation.uid().unwrap_or_default();
        let offerings = class.status.as_ref().map_or(&[][..], |status| &status.offerings);
        let place =
            |offering: &Offering| self.place_of(offering, &class.spec.site_name, &class.spec.provider);
        let blocked = |offering: &Offering| {
            let place = place(offering);
            // What was learned before this daemon began is not in its memory.
            let own = status.exhausted.iter().filter(|tried| {
                tried.at.0 < self.started
                    && tried.name == offering.name
                    && tried.zone == offering.zone
                    && tried.until.0 > now
            });
            own.map(|tried| tried.until.0).chain(self.exhausted.blocked(&place, &uid, now)).max()
        };
        // Rather where hosts become ready (E08); elsewhere only if nothing else will do.
        let shunned =
            |offering: &Offering| self.quarantine.until(&place(offering), now).or_else(|| blocked(offering));
        choose(offerings, wants, now, shunned).or_else(|_| choose(offerings, wants, now, blocked))
    }

    async fn no_offering(
        &self,
        allocation: MachineAllocation,
        class: &MachineClass,
        none: NoOffering,
    ) -> Flow<Next> {
        let status = class.status.clone().unwrap_or_default();
        if status.offerings.is_empty() && !classes::is_resolved(&status) {
            let why = status.message.unwrap_or_else(|| "it was not asked for yet".to_owned());
            return self.wait(allocation, waits::class_not_resolved(&class.name_any(), &why)).await;
        }
        // Those who wait for the same moment don't come at the same moment.
        let until = none.until.map(|until| self.spread(&allocation, until));
        self.wait(allocation, waits::no_offering(none, until)).await
    }

    /// Up to 10 s later, by who waits.
    fn spread(&self, allocation: &MachineAllocation, at: Timestamp) -> Timestamp {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        allocation.uid().hash(&mut hasher);
        add(at, Duration::from_secs(hasher.finish() % 11))
    }

    /// The planned identity of the host (R2.24).
    async fn planned(
        &self,
        allocation: &MachineAllocation,
        class: &MachineClass,
        offering: &Offering,
    ) -> Flow<AllocationPlan> {
        let provider = &class.spec.provider;
        let Some(module) = self.deps.modules.get(provider).filter(|m| offers_capacity(&m.manifest())) else {
            self.wait(allocation.clone(), waits::not_registered(provider)).await?;
            let again = Next::After(self.deps.settings.stalled_interval);
            return Err(Stop::Until(self.not_past_deadline(allocation, again)));
        };
        let uid = allocation.uid().unwrap_or_default();
        let trouble = match self.plan(allocation, class, offering, &*module).await {
            Ok(plan) => {
                self.deps.counts.forget(&uid);
                let (provider_id, host_image) = (plan.provider_id, plan.host_image);
                return Ok(AllocationPlan { provider_id, host_image, host_name: machine_name(allocation) });
            }
            Err(trouble) => trouble,
        };
        let failures = self.deps.counts.failed(&uid);
        if trouble.permanent || (trouble.module_fault && failures >= PLAN_CAP) {
            self.deps.counts.forget(&uid);
            let message = format!("the plan of offering {} failed: {}", offering.name, trouble.message);
            return Err(Stop::Until(self.fail(allocation.clone(), &trouble.reason, &message).await?));
        }
        let delay = backoff::after(failures, &uid).max(backoff::wish(trouble.retry_after_ms, Duration::ZERO));
        let Trouble { reason, message, .. } = trouble;
        let wait = waits::plan_failed(&format!("{reason}: {message}"), add(self.now(), delay));
        Err(Stop::Until(self.wait(allocation.clone(), wait).await?))
    }

    /// Nothing is owned and nothing is under way: there will be no host.
    async fn fail(&self, allocation: MachineAllocation, reason: &str, message: &str) -> Flow<Next> {
        let now = self.now();
        let allocation = self.put(allocation, |status| status::failed(status, reason, message, now)).await?;
        self.tell(&allocation, true, reason, message);
        Ok(Next::Done)
    }
}
