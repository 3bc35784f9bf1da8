//! Volumes and network interfaces in the data API, and the list of everything that bears an owner's label.

use std::{collections::BTreeMap, ops::Bound};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    options::Catalogue,
    parts::{Part, PartKind},
    reply::{Refusal, Reply},
    request::Request,
    server::number_of,
    sight::{Sight, is_over},
    state::{Cause, Owned, State, UserDataSeen},
};

/// Body of a create. `size_gib` is of volumes.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Create {
    name: String,
    zone: Option<String>,
    size_gib: Option<u64>,
    labels: BTreeMap<String, String>,
    server: Option<String>,
}

/// Most resources of one page.
const MOST: usize = 500;

pub(crate) fn create(
    state: &mut State,
    catalogue: &Catalogue,
    kind: PartKind,
    request: &Request,
    cause: Cause<'_>,
) -> Result<Reply, Refusal> {
    let body: Create = request.parse()?;
    if body.name.is_empty() || (kind == PartKind::Volume && body.size_gib.unwrap_or(0) == 0) {
        return Err(Refusal::invalid("a volume needs a name and a size, a network interface a name"));
    }
    let server = body.server.map(|id| attached(state, &id, cause.now)).transpose()?;
    let zone = match server.and_then(|number| state.servers.get(&number)) {
        Some(server) => server.zone.clone(),
        None => body.zone.or_else(|| catalogue.zones.first().cloned()).unwrap_or_default(),
    };
    if !catalogue.zones.contains(&zone) {
        return Err(Refusal::invalid("there is no such zone"));
    }
    state.check_part_quota(kind)?;
    let part = Part {
        kind,
        number: state.parts(kind).take_number(),
        name: body.name,
        zone,
        labels: body.labels,
        size_gib: body.size_gib.filter(|_| kind == PartKind::Volume),
        server,
        created_ms: cause.now,
        gone_ms: None,
        sight: Sight::new(&state.behaviour.visibility, cause.now),
    };
    let shown = part.to_json();
    state.enter_part(kind.created(), &part, cause);
    state.insert_part(part);
    Ok(Reply::json(201, &json!({ kind.word(): shown })))
}

/// The server that a part is attached to: visible, and not on its way out.
fn attached(state: &mut State, id: &str, now: i64) -> Result<u64, Refusal> {
    let number = number_of(id, "srv").ok_or_else(|| Refusal::not_found("server"))?;
    let server = state.server(number, now).ok_or_else(|| Refusal::not_found("server"))?;
    if server.sight.is_hidden(now) { Err(Refusal::not_found("server")) } else { Ok(number) }
}

pub(crate) fn delete(
    state: &mut State,
    kind: PartKind,
    id: &str,
    cause: Cause<'_>,
) -> Result<Reply, Refusal> {
    let now = cause.now;
    let number = number_of(id, kind.prefix()).ok_or_else(|| Refusal::not_found(kind.word()))?;
    let part = state.parts(kind).get(number).filter(|part| part.gone_ms.is_none());
    let part = part.ok_or_else(|| Refusal::not_found(kind.word()))?;
    if part.sight.is_hidden(now) {
        return Err(Refusal::not_found(kind.word()));
    }
    let part = part.clone();
    if part.server.is_some() {
        return Err(Refusal::new(409, "in_use", "it is attached to a server"));
    }
    let lag = &state.behaviour.visibility;
    let until = now.saturating_add_unsigned(lag.deleted_get_ms.max(lag.deleted_list_ms));
    state.parts(kind).end(number, now, until);
    state.enter_part(kind.deleted(), &part, cause);
    state.sweep(now);
    Ok(Reply::empty(204))
}

pub(crate) fn read(state: &mut State, kind: PartKind, id: &str, now: i64) -> Result<Reply, Refusal> {
    let lag = state.behaviour.visibility.deleted_get_ms;
    let number = number_of(id, kind.prefix()).ok_or_else(|| Refusal::not_found(kind.word()))?;
    let part = state.parts(kind).get(number).ok_or_else(|| Refusal::not_found(kind.word()))?;
    if part.sight.is_hidden(now) || is_over(part.gone_ms, lag, now) {
        return Err(Refusal::not_found(kind.word()));
    }
    Ok(Reply::json(200, &json!({ kind.word(): part.to_json() })))
}

/// Parts of one kind, by label, or all of them in the order of their numbers.
pub(crate) fn list(state: &mut State, kind: PartKind, request: &Request, now: i64) -> Result<Reply, Refusal> {
    let query = request.query();
    let after = query.get("after").and_then(|id| number_of(id, kind.prefix())).unwrap_or(0);
    let numbers = match query.get("label") {
        Some(label) => state.parts(kind).labelled(label),
        None => state.parts(kind).after(after, MOST),
    };
    let last = numbers.last().copied().filter(|_| numbers.len() == MOST && !query.contains_key("label"));
    let shown: Vec<Value> =
        numbers.into_iter().filter_map(|number| listed(state, kind, number, now)).collect();
    let next = last.map(|number| format!("{}-{number}", kind.prefix()));
    Ok(Reply::json(200, &json!({ format!("{}s", kind.word()): shown, "meta": { "next": next } })))
}

fn listed(state: &mut State, kind: PartKind, number: u64, now: i64) -> Option<Value> {
    let lag = state.behaviour.visibility.deleted_list_ms;
    let part = state.parts(kind).get(number)?;
    (!is_over(part.gone_ms, lag, now) && part.sight.is_listed(now)).then(|| part.to_json())
}

/// Everything whose label `managed-by` has this value: one resource an item, in the list of its kind. A page begins
/// after the last resource of the one before, so that what is made or deleted meanwhile moves nothing.
pub(crate) fn resources(state: &mut State, request: &Request, now: i64) -> Result<Reply, Refusal> {
    let query = request.query();
    let owner = query.get("managed_by").ok_or_else(|| Refusal::invalid("`managed_by` says whose"))?;
    let size = match query.get("per_page") {
        None => 25,
        Some(text) => {
            text.parse().ok().filter(|it| *it > 0).ok_or_else(|| Refusal::invalid("a page is a number"))?
        }
    };
    let size = state.behaviour.paging.force_size.unwrap_or(size).clamp(1, MOST);
    let after = query.get("after").filter(|text| !text.is_empty());
    let after = after.map(|id| Owned::of_id(id).ok_or_else(|| Refusal::invalid("there is no such page")));
    let start = after.transpose()?.map_or(Bound::Unbounded, Bound::Excluded);
    let page = state.owned_by(owner, start, size);
    let next = page.last().filter(|_| page.len() == size).map(|last| last.id());
    let mut items = Vec::new();
    for owned in page {
        let (list, shown) = match owned {
            Owned::Server(number) => ("servers", crate::api::listed(state, number, now)),
            Owned::Part(kind, number) => match kind {
                PartKind::Volume => ("volumes", listed(state, kind, number, now)),
                PartKind::Nic => ("nics", listed(state, kind, number, now)),
            },
        };
        if let Some(shown) = shown {
            let mut item = json!({ "servers": [], "volumes": [], "nics": [] });
            item[list] = json!([shown]);
            items.push(item);
        }
    }
    Ok(Reply::json(200, &json!({ "resources": items, "meta": { "next": next } })))
}

impl State {
    fn check_part_quota(&mut self, kind: PartKind) -> Result<(), Refusal> {
        let limits = &self.behaviour.limits;
        let most = match kind {
            PartKind::Volume => limits.volumes,
            PartKind::Nic => limits.nics,
        };
        let (status, code) = (limits.quota_status, limits.quota_code.clone());
        if most.is_some_and(|most| self.parts(kind).live >= most) {
            return Err(Refusal::new(status, &code, &format!("the {} limit is reached", kind.word())));
        }
        Ok(())
    }

    fn enter_part(&mut self, kind: crate::ledger::EffectKind, part: &Part, cause: Cause<'_>) {
        self.record_effect(
            kind,
            (part.id(), part.name.clone(), part.label().map(str::to_owned)),
            UserDataSeen::default(),
            None,
            cause,
        );
    }
}
