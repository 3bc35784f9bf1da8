//! The orphan sweep: what the service lists under our marker, by the manifest's `list-owned`, is compared with what
//! allocations, machines and running operations have on record.
//!
//! What nobody has on record for longer than a launch may take is told in the class's status (field case B11). It is never
//! released by itself: the marker is the same for every Holdfast of the account. A person asks for a sweep by an annotation.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::class::{MAX_ORPHANS, MAX_SWEEP_REQUEST, Orphan, SWEEP_ANNOTATION, SweepReport};
use holdfast_api::{MachineClass, truncate_message};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::Classes;
use crate::capacity::Flow;
use crate::clock::{add, stamp, until};
use crate::listing::{Listed, list_owned};
use crate::rooms::ProviderModule;

/// When classes are swept, and what was seen. A restart begins the grace anew for what was not told yet.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    inner: Mutex<HashMap<String, Sweep>>,
}

#[derive(Debug)]
struct Sweep {
    due: Timestamp,
    /// By kind, id and token: an id that was given out again is another thing.
    seen: HashMap<(String, String, String), Timestamp>,
}

impl Sweeps {
    /// Whether a class is to be swept now; if so, it is due again after `every`.
    fn begin(&self, uid: &str, asked: bool, every: Duration, now: Timestamp) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let sweep = inner.entry(uid.to_owned()).or_insert(Sweep { due: now, seen: HashMap::new() });
        let due = asked || sweep.due <= now;
        if due {
            sweep.due = add(now, every);
        }
        due
    }

    fn left(&self, uid: &str, now: Timestamp) -> Option<Duration> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.get(uid).map(|sweep| until(now, sweep.due))
    }

    /// Remembers what nobody has on record; returns it with the time since when, without what is younger than `age`.
    fn ripe(
        &self,
        uid: &str,
        orphans: Vec<Listed>,
        before: &[Orphan],
        age: Duration,
        now: Timestamp,
    ) -> Vec<(Listed, Timestamp)> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sweep) = inner.get_mut(uid) else { return Vec::new() };
        let old = std::mem::take(&mut sweep.seen);
        let mut ripe = Vec::new();
        for orphan in orphans {
            let key = (orphan.kind.clone(), orphan.id.clone(), orphan.token.clone());
            // What was told before keeps its time, over restarts too.
            let told = before.iter().find(|old| old.kind == orphan.kind && old.id == orphan.id);
            let told = told.filter(|old| old.token == orphan.token).map(|old| old.first_seen.0);
            let since = told.or_else(|| old.get(&key).copied()).unwrap_or(now);
            sweep.seen.insert(key, since);
            if add(since, age) <= now {
                ripe.push((orphan, since));
            }
        }
        ripe
    }

    pub(super) fn forget(&self, uid: &str) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

/// What a sweep found.
struct Found {
    listed: usize,
    unrecorded: usize,
    ripe: Vec<Orphan>,
    told: usize,
}

impl Classes {
    /// Sweeps a resolved class, if it is time or a person asks for it, and its provider can list. Returns in how long it
    /// is time again. Trouble is told where somebody asked, else in the log, and tried again.
    pub(super) async fn sweep(&self, class: MachineClass, module: &dyn ProviderModule) -> Flow<Duration> {
        let (uid, now, every) = (class.uid().unwrap_or_default(), self.deps.now(), self.every());
        let asked = asked(&class);
        if list_owned(&module.manifest()).is_none() {
            if let Some(request) = asked {
                let message = "nothing was listed: the provider's manifest names no `list-owned`";
                self.report(class, request, message.to_owned(), true).await?;
            }
            return Ok(every);
        }
        let wanted = self.deps.index.sweep_wanted(&class.name_any());
        if self.sweeps.begin(&uid, asked.is_some() || wanted, every, now) {
            self.sweep_now(class, module, asked).await?;
        }
        Ok(self.sweeps.left(&uid, now).unwrap_or(every))
    }

    fn every(&self) -> Duration {
        self.deps.settings.sweep_interval
    }

    async fn sweep_now(
        &self,
        class: MachineClass,
        module: &dyn ProviderModule,
        asked: Option<String>,
    ) -> Flow<()> {
        let listed = match self.deps.listed(&class, module).await {
            Ok(listed) => listed,
            Err(why) => {
                tracing::warn!(class = %class.name_any(), %why, "what is under our marker could not be listed");
                if let Some(request) = asked {
                    self.report(class, request, format!("nothing could be listed: {why}"), true).await?;
                }
                return Ok(());
            }
        };
        let before = class.status.clone().unwrap_or_default().orphans;
        let found = self.compare(&class, listed, &before);
        self.deps.metrics.orphans(&class.spec.provider, &class.name_any(), found.told);
        let news: Vec<String> = found
            .ripe
            .iter()
            .filter(|one| !before.iter().any(|old| old.kind == one.kind && old.id == one.id))
            .map(|one| format!("{} {}", one.kind, one.id))
            .collect();
        let message = self.told(&found);
        let orphans = found.ripe;
        let class = self.put(class, |status, _| status.orphans = orphans).await?;
        if !news.is_empty() {
            let note = format!("under our marker, and on nobody's record: {}", news.join(", "));
            self.deps.events.about(&class, true, "OrphansFound", &note, self.deps.now());
        }
        if let Some(request) = asked {
            self.report(class, request, message, false).await?;
        }
        Ok(())
    }

    fn compare(&self, class: &MachineClass, listed: Vec<Listed>, before: &[Orphan]) -> Found {
        let open = self.deps.operations.made_by_open();
        let known = |one: &Listed| {
            let key = (one.kind.clone(), one.id.clone());
            open.contains(&key) || self.deps.index.owns(&key)
        };
        let all = listed.len();
        let orphans: Vec<Listed> = listed.into_iter().filter(|one| !known(one)).collect();
        let (unrecorded, uid) = (orphans.len(), class.uid().unwrap_or_default());
        let mut ripe =
            self.sweeps.ripe(&uid, orphans, before, self.deps.settings.orphan_age, self.deps.now());
        ripe.sort_by(|(a, since), (b, then)| (since, &a.kind, &a.id).cmp(&(then, &b.kind, &b.id)));
        let told = ripe.len();
        ripe.truncate(MAX_ORPHANS);
        let tell = |(one, since): (Listed, Timestamp)| Orphan {
            kind: one.kind,
            id: one.id,
            token: one.token,
            first_seen: stamp(since),
        };
        Found { listed: all, unrecorded, ripe: ripe.into_iter().map(tell).collect(), told }
    }

    fn told(&self, found: &Found) -> String {
        let Found { listed, unrecorded, told, .. } = found;
        let minutes = self.deps.settings.orphan_age.as_secs().div_ceil(60);
        let first = match told.saturating_sub(MAX_ORPHANS) {
            0 => String::new(),
            _ => format!("; the first {MAX_ORPHANS} are told"),
        };
        format!(
            "{listed} listed under our marker, {unrecorded} of them on nobody's record, {told} for {minutes} minutes or \
             longer{first}"
        )
    }

    /// Answers a person who asked for a sweep: once, in the status.
    async fn report(&self, class: MachineClass, request: String, message: String, warning: bool) -> Flow<()> {
        let now = self.deps.now();
        let message = truncate_message(&message).to_owned();
        let report = SweepReport { request, at: stamp(now), message: message.clone() };
        let class = self.put(class, |status, _| status.sweep = Some(report)).await?;
        self.deps.events.about(&class, warning, if warning { "SweepFailed" } else { "Swept" }, &message, now);
        Ok(())
    }
}

/// The sweep that the annotation asks for, if it was not made yet.
fn asked(class: &MachineClass) -> Option<String> {
    let value = class.annotations().get(SWEEP_ANNOTATION)?;
    let value = &value[..value.floor_char_boundary(MAX_SWEEP_REQUEST)];
    let last = class.status.as_ref().and_then(|status| status.sweep.as_ref());
    (last.is_none_or(|last| last.request != value)).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_young_is_not_told_and_a_sweep_is_due_when_its_time_has_come_or_somebody_asks() {
        let (at, minute) = (|second| Timestamp::from_second(second).unwrap(), Duration::from_secs(60));
        let one = |token: &str| {
            let [kind, id, binding] = ["server", "s", "b"].map(str::to_owned);
            vec![Listed { kind, id, token: token.into(), binding, place: None, incarnation: None }]
        };
        let sweeps = Sweeps::default();
        let due = |asked, second| sweeps.begin("c", asked, minute, at(second));
        assert!(due(false, 0) && !due(false, 59) && due(false, 60));
        assert!(due(true, 61) && !due(false, 120) && due(false, 121));
        assert_eq!(sweeps.left("c", at(131)), Some(Duration::from_secs(50)));
        let ripe = |orphans, before: &[Orphan], second| sweeps.ripe("c", orphans, before, minute, at(second));
        assert!(ripe(one("t"), &[], 0).is_empty());
        assert_eq!(ripe(one("t"), &[], 60)[0].1, at(0));
        assert!(ripe(Vec::new(), &[], 120).is_empty());
        assert!(ripe(one("t"), &[], 180).is_empty(), "it was on record meanwhile");
        let told =
            Orphan { kind: "server".into(), id: "s".into(), token: "t".into(), first_seen: stamp(at(10)) };
        let before = [told];
        assert_eq!(ripe(one("t"), &before, 181)[0].1, at(10), "a restart forgets nothing that was told");
        assert!(ripe(one("other"), &before, 182).is_empty(), "the id was given out again");
    }
}
