//! The orphan sweep: what the service lists under our marker, by the manifest's `list-owned`, is compared with what
//! allocations, machines and running operations have on record.
//!
//! What nobody has on record for longer than a launch may take is told in the class's status. It is never released by
//! itself: the marker is the same for every Holdfast of the account.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::class::{MAX_ORPHANS, Orphan};
use holdfast_api::{MachineClass, OperationInput};
use holdfast_effects::{CallRequest, Owner, OwnerKind, Phase, Port as _};
use holdfast_manifest::Call;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::Value;

use super::Classes;
use crate::capacity::Flow;
use crate::clock::{add, stamp};
use crate::rooms::ProviderModule;

/// Between two sweeps of a class.
const EVERY: Duration = Duration::from_secs(15 * 60);
/// How long something may be listed before it must be on record.
const GRACE: Duration = Duration::from_secs(10 * 60);

/// When classes are swept, and what was seen. A restart begins the grace anew.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    inner: Mutex<HashMap<String, Sweep>>,
}

#[derive(Debug)]
struct Sweep {
    due: Timestamp,
    seen: HashMap<(String, String), Timestamp>,
}

/// What is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    kind: String,
    id: String,
    token: String,
}

impl Sweeps {
    /// Whether a class is to be swept now; if so, it is due again later.
    fn begin(&self, uid: &str, now: Timestamp) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let sweep = inner.entry(uid.to_owned()).or_insert(Sweep { due: now, seen: HashMap::new() });
        let due = sweep.due <= now;
        if due {
            sweep.due = add(now, EVERY);
        }
        due
    }

    /// Remembers what nobody has on record; returns it with the time since when, without what is too young.
    fn ripe(&self, uid: &str, orphans: Vec<Listed>, now: Timestamp) -> Vec<(Listed, Timestamp)> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sweep) = inner.get_mut(uid) else { return Vec::new() };
        let old = std::mem::take(&mut sweep.seen);
        let mut ripe = Vec::new();
        for orphan in orphans {
            let key = (orphan.kind.clone(), orphan.id.clone());
            let since = old.get(&key).copied().unwrap_or(now);
            sweep.seen.insert(key, since);
            if add(since, GRACE) <= now {
                ripe.push((orphan, since));
            }
        }
        ripe
    }

    pub(super) fn forget(&self, uid: &str) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

impl Classes {
    /// Sweeps a resolved class, if it is time and its provider can list. Trouble is told in the log and tried again.
    pub(super) async fn sweep(&self, class: MachineClass, module: &dyn ProviderModule) -> Flow<MachineClass> {
        let (uid, now, manifest) = (class.uid().unwrap_or_default(), self.deps.now(), module.manifest());
        let Some(call) = manifest.provider.list_owned.as_ref().and_then(|name| manifest.calls.get(name))
        else {
            return Ok(class);
        };
        if !self.sweeps.begin(&uid, now) {
            return Ok(class);
        }
        let listed = match self.listed(&class, module, call).await {
            Ok(listed) => listed,
            Err(why) => {
                tracing::warn!(class = %class.name_any(), %why, "what is under our marker could not be listed");
                return Ok(class);
            }
        };
        let open = self.deps.operations.made_by_open();
        let known = |one: &Listed| {
            let key = (one.kind.clone(), one.id.clone());
            open.contains(&key) || self.deps.index.owns(&key)
        };
        let orphans = listed.into_iter().filter(|one| !known(one)).collect();
        let mut ripe = self.sweeps.ripe(&uid, orphans, now);
        ripe.sort_by(|(a, since), (b, then)| (since, &a.kind, &a.id).cmp(&(then, &b.kind, &b.id)));
        self.deps.metrics.orphans(&class.spec.provider, &class.name_any(), ripe.len());
        ripe.truncate(MAX_ORPHANS);
        let before = class.status.clone().unwrap_or_default().orphans;
        let orphans: Vec<Orphan> = ripe.into_iter().map(|(one, since)| told(&before, one, since)).collect();
        let news: Vec<String> = orphans
            .iter()
            .filter(|one| !before.iter().any(|old| old.kind == one.kind && old.id == one.id))
            .map(|one| format!("{} {}", one.kind, one.id))
            .collect();
        let class = self.put(class, |status, _| status.orphans = orphans).await?;
        if !news.is_empty() {
            let note = format!("under our marker, and on nobody's record: {}", news.join(", "));
            self.deps.events.about(&class, true, "OrphansFound", &note, now);
        }
        Ok(class)
    }

    async fn listed(
        &self,
        class: &MachineClass,
        module: &dyn ProviderModule,
        call: &Call,
    ) -> Result<Vec<Listed>, String> {
        let (spec, uid) = (&class.spec, class.uid().unwrap_or_default());
        let input = OperationInput {
            provider: spec.provider.clone(),
            site: spec.site_name.clone(),
            ..OperationInput::default()
        };
        let (manifest, revision, now) = (module.manifest(), module.revision(), self.deps.now());
        let lent = self.deps.credentials.resolve(&input, &manifest, &revision, now).await;
        let lent = lent.map_err(|error| error.to_string())?;
        let owner = Owner { kind: OwnerKind::Cluster, uid };
        let timeout = self.deps.settings.poll_timeout;
        let mut context = self.deps.context(module, Phase::Observe, owner, &spec.site_name, timeout);
        context.credentials = lent.id();
        context.config = class.status.as_ref().and_then(|status| status.config.clone()).unwrap_or_default();
        let session = self.deps.effects.open(context, manifest, None);
        let request = CallRequest {
            call: call.name.clone(),
            args: "{}".to_owned(),
            credentials: lent.id().is_some(),
            user_data: Vec::new(),
        };
        let reply = session.read(request).await.map_err(|error| format!("{error:?}"))?;
        let fields: Value = serde_json::from_str(&reply.fields).map_err(|error| error.to_string())?;
        let mut listed = Vec::new();
        for (kind, adopt) in &call.adopts {
            pairs(&fields, &adopt.field, &adopt.proof, &mut |id, token| {
                listed.push(Listed { kind: kind.clone(), id, token });
            });
        }
        Ok(listed)
    }
}

/// An orphan as the status tells it. What was told before keeps its time.
fn told(before: &[Orphan], one: Listed, since: Timestamp) -> Orphan {
    let old = before.iter().find(|old| old.kind == one.kind && old.id == one.id);
    Orphan {
        first_seen: old.map_or_else(|| stamp(since), |old| old.first_seen.clone()),
        kind: one.kind,
        id: one.id,
        token: one.token,
    }
}

/// The id and the token of every item. Both paths go through the same lists; what bears no token is a stranger's.
fn pairs(value: &Value, id: &[String], token: &[String], found: &mut dyn FnMut(String, String)) {
    match (id, token) {
        ([a, id @ ..], [b, token @ ..]) if a == b && a == "*" => {
            for item in value.as_array().into_iter().flatten() {
                pairs(item, id, token, found);
            }
        }
        ([a, id @ ..], [b, token @ ..]) if a == b => pairs(&value[a.as_str()], id, token, found),
        _ => {
            let text = |path: &[String]| {
                let value = path.iter().try_fold(value, |value, step| value.get(step.as_str()))?;
                value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|number| number.to_string()))
            };
            if let (Some(id), Some(token)) = (text(id), text(token)) {
                found(id, token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn steps(path: &str) -> Vec<String> {
        path.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn ids_and_tokens_are_paired_item_by_item_and_strangers_are_left_alone() {
        let fields = json!({ "all": [
            { "servers": [{ "id": "s1", "token": "t1" }, { "id": 7, "token": "t2" }, { "id": "stranger" }] },
            { "servers": [] },
        ] });
        let mut found = Vec::new();
        pairs(&fields, &steps("all/*/servers/*/id"), &steps("all/*/servers/*/token"), &mut |id, token| {
            found.push((id, token));
        });
        let pair = |id: &str, token: &str| (id.to_owned(), token.to_owned());
        assert_eq!(found, [pair("s1", "t1"), pair("7", "t2")]);
    }

    #[test]
    fn what_is_young_is_not_told_and_a_sweep_is_due_every_quarter_of_an_hour() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let one = || vec![Listed { kind: "server".into(), id: "s".into(), token: "t".into() }];
        let sweeps = Sweeps::default();
        assert!(sweeps.begin("c", at(0)) && !sweeps.begin("c", at(899)) && sweeps.begin("c", at(900)));
        assert!(sweeps.ripe("c", one(), at(0)).is_empty());
        assert_eq!(sweeps.ripe("c", one(), at(900))[0].1, at(0));
        assert!(sweeps.ripe("c", Vec::new(), at(1800)).is_empty());
        assert!(sweeps.ripe("c", one(), at(2700)).is_empty(), "it was on record meanwhile");
    }
}
