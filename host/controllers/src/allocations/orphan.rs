//! The release of an orphan that a person names (field case B11): it is taken over by the request, which has it on record
//! from then on, and released like everything else that is on record.
//!
//! It is taken over only if the class tells of it, if the service lists it just now under the very token that was told, and
//! if nobody has it on record or may be about to. Ownership comes from the host's own read, never from a guest. Of one
//! account so many are released in an hour, and no more.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::class::Orphan;
use holdfast_api::{MachineAllocation, MachineClass, OrphanReference, OwnedResource, TakenOrphan};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::{Allocations, state, status, waits};
use crate::backoff;
use crate::capacity::{Flow, offers_capacity};
use crate::clock::{add, stamp, until};
use crate::listing::{Listed, list_owned};
use crate::operations::Next;
use crate::queue::Key;
use crate::records::{Claim, Thing, claimed_by};
use crate::rooms::ProviderModule;

/// For how long a takeover counts.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// After how long an orphan that may be somebody's is looked at again.
const LOOK: Duration = Duration::from_secs(60);
/// After how long a request is looked at that came while another one was.
const BUSY: Duration = Duration::from_secs(1);

/// Takeovers of this daemon, one at a time: two requests for one orphan would both find it to be nobody's.
#[derive(Debug, Default)]
pub(crate) struct Takeovers {
    turn: tokio::sync::Mutex<()>,
    /// Account and time, by the request's uid: also of requests that are deleted since.
    lately: Mutex<HashMap<String, (String, Timestamp)>>,
}

/// Why an orphan is not taken over now.
enum Not {
    /// Never by this request: CamelCase, and one sentence.
    Refused(&'static str, String),
    /// Not yet.
    Later(&'static str, String, Timestamp),
}

impl Allocations {
    /// A request to release an orphan that was not taken over yet.
    pub(super) async fn take_orphan(
        &self,
        allocation: MachineAllocation,
        named: &OrphanReference,
    ) -> Flow<Next> {
        if let Some(left) = self.orphan_pause(&allocation) {
            return Ok(Next::After(left));
        }
        let class_name = &allocation.spec.class_ref.name;
        // What is in the index may be older than the orphan.
        let class: Option<MachineClass> = self.deps.api().get_opt(class_name).await?;
        let Some(class) = class.filter(|class| class.metadata.deletion_timestamp.is_none()) else {
            return self.wait(allocation.clone(), waits::class_not_found(class_name)).await;
        };
        if !self.deps.in_scope(&class.spec.site_name, &class.spec.provider) {
            return Ok(Next::Done);
        }
        let module = self.deps.modules.get(&class.spec.provider);
        let Some(module) = module.filter(|module| offers_capacity(&module.manifest())) else {
            return self.wait(allocation, waits::not_registered(&class.spec.provider)).await;
        };
        let Ok(turn) = self.takeovers.turn.try_lock() else { return Ok(Next::After(BUSY)) };
        let allocation = self.held(allocation).await?;
        let (orphan, listed) = match self.takeable(&allocation, &class, named, &*module).await? {
            Ok(found) => found,
            Err(Not::Refused(reason, message)) => {
                return self.refuse_orphan(allocation, reason, &message).await;
            }
            Err(Not::Later(reason, message, again)) => {
                return self.wait(allocation, waits::orphan(reason, message, again)).await;
            }
        };
        let allocation = self.taken(allocation, &class, orphan, listed).await?;
        drop(turn);
        self.release(allocation).await
    }

    /// What is left of a wait that nothing but time ends: looking costs a walk through everything.
    fn orphan_pause(&self, allocation: &MachineAllocation) -> Option<Duration> {
        let waiting = state(allocation).waiting.filter(|waiting| waiting.reason.starts_with("Orphan"))?;
        let left = until(self.now(), waiting.until?.0);
        (!left.is_zero()).then_some(left)
    }

    /// Whether an orphan may be taken over: what the class tells of it, and how it is listed now.
    async fn takeable(
        &self,
        allocation: &MachineAllocation,
        class: &MachineClass,
        named: &OrphanReference,
        module: &dyn ProviderModule,
    ) -> Flow<Result<(Orphan, Listed), Not>> {
        let (manifest, now, settings) = (module.manifest(), self.now(), &self.deps.settings);
        if list_owned(&manifest).is_none() {
            let message =
                "the provider's manifest names no `list-owned`: nothing can be known to be an orphan";
            return Ok(Err(Not::Refused("OrphansNotListed", message.to_owned())));
        }
        let orphan = match told(class, named, now, settings.orphan_age) {
            Ok(orphan) => orphan,
            Err(not) => return Ok(Err(not)),
        };
        let thing = Thing {
            provider: &class.spec.provider,
            kind: &named.kind,
            id: &named.id,
            first_seen: orphan.first_seen.0,
        };
        let claim = match self.claimed_by_allocation(allocation, class, &thing).await? {
            Ok(claim) => claim,
            Err(not) => return Ok(Err(not)),
        };
        let claim = match claim {
            None => self.deps.claimed_by_machine(&thing, &manifest).await?,
            claim => claim,
        };
        let claim = match claim {
            None => self.deps.claimed_by_operation(&thing).await?,
            claim => claim,
        };
        let what = format!("{} {}", named.kind, named.id);
        match claim {
            Some(Claim::Recorded(who)) => {
                return Ok(Err(Not::Refused("OnRecord", format!("{what} is no orphan: {who}"))));
            }
            Some(Claim::Pending(who)) => {
                let message = format!("{what} may be about to be recorded: {who}");
                return Ok(Err(Not::Later("OrphanInDoubt", message, add(now, LOOK))));
            }
            None => {}
        }
        Ok(self.still_listed(allocation, class, module, orphan).await)
    }

    /// Whether another allocation has it on record, and whether enough were released lately: one walk.
    async fn claimed_by_allocation(
        &self,
        allocation: &MachineAllocation,
        class: &MachineClass,
        thing: &Thing<'_>,
    ) -> Flow<Result<Option<Claim>, Not>> {
        let (now, most) = (self.now(), self.deps.settings.orphan_releases_per_hour);
        let account = self.account(&class.spec.site_name, &class.spec.provider);
        let (mut lately, own) = (self.takeovers.since(now), allocation.uid());
        let look = |other: &MachineAllocation| {
            let status = other.status.as_ref()?;
            if let (Some(orphan), Some(site), Some(provider)) =
                (&status.orphan, &status.site_name, &status.provider)
            {
                let taken = (self.account(site, provider), orphan.taken_at.0);
                lately.insert(other.uid().unwrap_or_default(), taken);
            }
            if other.uid() == own { None } else { claimed_by(other, thing) }
        };
        let claim = self.deps.find_any(look).await?;
        if claim.is_some() {
            return Ok(Ok(claim));
        }
        let mut times: Vec<Timestamp> =
            lately.into_values().filter(|one| one.0 == account).map(|one| one.1).collect();
        times.retain(|at| add(*at, HOUR) > now);
        times.sort();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if most == 0 {
            let message = "`orphans.releases-per-hour` of the configuration is 0: no orphan is released here";
            return Ok(Err(Not::Refused("OrphanReleasesOff", message.to_owned())));
        }
        if times.len() < most {
            return Ok(Ok(None));
        }
        let free = add(times[times.len() - most], HOUR);
        let message = format!(
            "{} orphans of this account were released within the hour; `orphans.releases-per-hour` of the configuration \
             is {most}",
            times.len()
        );
        Ok(Err(Not::Later("OrphanRateCap", message, free)))
    }

    /// Asks the service once more, last of all.
    async fn still_listed(
        &self,
        allocation: &MachineAllocation,
        class: &MachineClass,
        module: &dyn ProviderModule,
        orphan: Orphan,
    ) -> Result<(Orphan, Listed), Not> {
        let uid = allocation.uid().unwrap_or_default();
        let listed = match self.deps.listed(class, module).await {
            Ok(listed) => listed,
            Err(why) => {
                let again = add(self.now(), backoff::after(self.deps.counts.failed(&uid), &uid));
                let message = format!("what is under our marker could not be listed: {why}");
                return Err(Not::Later("OrphanNotListed", message, again));
            }
        };
        self.deps.counts.forget(&uid);
        let what = format!("{} {}", orphan.kind, orphan.id);
        let found = listed.into_iter().find(|one| one.kind == orphan.kind && one.id == orphan.id);
        match found {
            None => Err(Not::Refused(
                "NoLongerListed",
                format!("the service no longer lists {what} under our marker; nothing was sent"),
            )),
            Some(one) if one.token != orphan.token => Err(Not::Refused(
                "AnotherToken",
                format!(
                    "{what} bears another token than status.orphans of the class {} tells: the id was given out again; \
                     nothing was sent",
                    class.name_any()
                ),
            )),
            Some(one) => Ok((orphan, one)),
        }
    }

    /// On record from here on.
    async fn taken(
        &self,
        allocation: MachineAllocation,
        class: &MachineClass,
        orphan: Orphan,
        listed: Listed,
    ) -> Flow<MachineAllocation> {
        let (now, uid) = (self.now(), allocation.uid().unwrap_or_default());
        let note = format!("{} {}, seen since {}", listed.kind, listed.id, orphan.first_seen.0);
        let taken = TakenOrphan {
            kind: listed.kind.clone(),
            id: listed.id.clone(),
            token: listed.token,
            first_seen: orphan.first_seen,
            taken_at: stamp(now),
        };
        let owned = OwnedResource {
            binding: listed.binding,
            kind: listed.kind,
            id: listed.id,
            place: listed.place,
            incarnation: listed.incarnation,
            owner: uid.clone(),
            ..OwnedResource::default()
        };
        let allocation =
            self.put(allocation, |status| status::orphan_taken(status, class, owned, taken, now)).await?;
        self.takeovers.took(uid, self.account(&class.spec.site_name, &class.spec.provider), now);
        self.tell(&allocation, false, status::ORPHAN_TAKEN, &note);
        let name = allocation.name_any();
        self.deps.events.about(
            class,
            false,
            status::ORPHAN_TAKEN,
            &format!("{note}: released by {name}"),
            now,
        );
        self.deps.index.want_sweep(&class.name_any());
        self.deps.queue.push(Key::Class(class.name_any()), now);
        Ok(allocation)
    }

    async fn refuse_orphan(
        &self,
        allocation: MachineAllocation,
        reason: &'static str,
        message: &str,
    ) -> Flow<Next> {
        let now = self.now();
        let allocation =
            self.put(allocation, |status| status::orphan_refused(status, reason, message, now)).await?;
        self.tell(&allocation, true, reason, message);
        Ok(Next::Done)
    }

    /// The host has seen it gone. The request stays, for people to read, until somebody deletes it.
    pub(super) async fn orphan_released(
        &self,
        allocation: MachineAllocation,
        orphan: &TakenOrphan,
    ) -> Flow<Next> {
        let (now, message) = (self.now(), format!("{} {} is gone", orphan.kind, orphan.id));
        let allocation =
            self.put(allocation, |status| status::orphan_released(status, &message, now)).await?;
        self.tell(&allocation, false, status::ORPHAN_RELEASED, &message);
        Ok(Next::Done)
    }
}

impl Takeovers {
    fn took(&self, uid: String, account: String, now: Timestamp) {
        self.lately.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, (account, now));
    }

    fn since(&self, now: Timestamp) -> HashMap<String, (String, Timestamp)> {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        lately.retain(|_, (_, at)| add(*at, HOUR) > now);
        lately.clone()
    }
}

/// The orphan as the class tells it, if it does and if it is old enough.
fn told(class: &MachineClass, named: &OrphanReference, now: Timestamp, age: Duration) -> Result<Orphan, Not> {
    let orphans = class.status.as_ref().map_or(&[][..], |status| &status.orphans);
    let found = orphans.iter().find(|one| one.kind == named.kind && one.id == named.id);
    let what = format!("{} {}", named.kind, named.id);
    let Some(orphan) = found else {
        let message = format!(
            "status.orphans of the class {} does not tell of {what}; nothing was sent: sweep the class and name what it \
             then tells",
            class.name_any()
        );
        return Err(Not::Refused("NotReported", message));
    };
    let ripe = add(orphan.first_seen.0, age);
    if ripe > now {
        let message =
            format!("{what} is listed for less than `orphans.minimum-age-seconds` of the configuration");
        return Err(Not::Later("OrphanYoung", message, ripe));
    }
    Ok(orphan.clone())
}
