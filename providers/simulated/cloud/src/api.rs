//! The data API: routing, rate limit, authentication, idempotency keys, and the reads.
//! Every function here works on the state under its lock and waits for nothing; delays and lost answers are the
//! business of `serve`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    behaviour::LastPage,
    change, echo,
    faults::Fault,
    options::Catalogue,
    part_api,
    parts::PartKind,
    reply::{Refusal, Reply},
    request::Request,
    secrets::sha256,
    server::{Action, Server, number_of},
    sight::is_over,
    state::{Cause, Kept, State},
};

/// Answers one request of the data API.
pub(crate) fn answer(
    state: &mut State,
    catalogue: &Catalogue,
    request: &Request,
    seq: u64,
    fault: &Fault,
) -> Reply {
    let now = state.clock.now();
    state.sweep(now);
    let mut limit_headers = Vec::new();
    if let Some(rate) = state.behaviour.rate.clone() {
        let (headers, refusal) = state.account.spend(1, &rate, now);
        limit_headers = headers;
        if let Some(refusal) = refusal {
            let mut reply = Reply::from(refusal);
            reply.headers.extend(limit_headers);
            return reply;
        }
    }
    let cause = Cause { request: seq, key: request.header("idempotency-key"), fault, now };
    let mut reply = authenticated(state, catalogue, request, cause).unwrap_or_else(Reply::from);
    reply.headers.extend(limit_headers);
    reply
}

fn authenticated(
    state: &mut State,
    catalogue: &Catalogue,
    request: &Request,
    cause: Cause<'_>,
) -> Result<Reply, Refusal> {
    let segments = request.segments();
    let route: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    match (request.method.as_str(), route.as_slice()) {
        ("GET" | "POST" | "PUT", ["v1", "echo", ..]) => return echo::answer(request),
        ("POST", ["v1", "sessions"]) => return login(state, request, cause),
        _ => {}
    }
    let behaviour = &state.behaviour;
    state.account.check(request.bearer(), request.header("x-session-token"), behaviour, cause.now)?;
    if request.method == "POST" || request.method == "DELETE" {
        return once_per_key(state, catalogue, request, &route, cause);
    }
    read(state, catalogue, request, &route, cause.now)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    user: String,
    password: String,
}

fn login(state: &mut State, request: &Request, cause: Cause<'_>) -> Result<Reply, Refusal> {
    let Login { user, password } = request.parse()?;
    let behaviour = &state.behaviour;
    let (id, token) = state.account.login(&user, &password, behaviour, cause.now)?;
    Ok(Reply::json(201, &json!({ "session": { "id": id } }))
        .with("location", format!("/v1/sessions/{id}"))
        .with("x-session-token", token))
}

/// Runs a mutation, or gives back the answer that its key already got.
fn once_per_key(
    state: &mut State,
    catalogue: &Catalogue,
    request: &Request,
    route: &[&str],
    cause: Cause<'_>,
) -> Result<Reply, Refusal> {
    let Some(key) = cause.key.filter(|_| state.behaviour.idempotency.honoured) else {
        return change::mutate(state, catalogue, request, route, cause);
    };
    let mut all = format!("{} {}\n", request.method, request.path).into_bytes();
    all.extend_from_slice(&request.body);
    let fingerprint = sha256(&all);
    let life = state.behaviour.idempotency.expire_ms;
    let alive = |kept: &&Kept| life.is_none_or(|ms| cause.now < kept.at.saturating_add_unsigned(ms));
    match state.kept.get(key).filter(alive) {
        Some(kept) if kept.fingerprint == fingerprint => {
            return Ok(kept.reply.clone().with("idempotency-replayed", "true"));
        }
        Some(_) => {
            let message = "this idempotency key was used for another request";
            return Err(Refusal::new(409, "idempotency_mismatch", message));
        }
        None => {}
    }
    let reply = change::mutate(state, catalogue, request, route, cause)?;
    state.kept.insert(key.to_owned(), Kept { fingerprint, reply: reply.clone(), at: cause.now });
    Ok(reply)
}

fn read(
    state: &mut State,
    catalogue: &Catalogue,
    request: &Request,
    route: &[&str],
    now: i64,
) -> Result<Reply, Refusal> {
    if request.method != "GET" {
        return Err(Refusal::new(405, "method_not_allowed", "this address does not know the method"));
    }
    match route {
        ["v1", "servers"] => list(state, request, now),
        ["v1", "servers", id] => {
            let server = read_server(state, id, now)?;
            Ok(Reply::json(200, &json!({ "server": server.to_json() })).with("etag", server.etag()))
        }
        // A deliberate trap: a cloud that gives first-boot data back. No provider may declare this call.
        ["v1", "servers", id, "user_data"] => {
            let server = read_server(state, id, now)?;
            Ok(Reply::json(200, &json!({ "user_data": String::from_utf8_lossy(&server.user_data) })))
        }
        ["v1", "volumes"] => part_api::list(state, PartKind::Volume, request, now),
        ["v1", "nics"] => part_api::list(state, PartKind::Nic, request, now),
        ["v1", "volumes", id] => part_api::read(state, PartKind::Volume, id, now),
        ["v1", "nics", id] => part_api::read(state, PartKind::Nic, id, now),
        ["v1", "resources"] => part_api::resources(state, request, now),
        ["v1", "actions", id] => {
            let action = action_of(state, id, now)?;
            Ok(Reply::json(200, &json!({ "action": action.to_json(now) })))
        }
        ["v1", "types"] => Ok(Reply::json(200, &json!({ "types": catalogue.types_json() }))),
        ["v1", "zones"] => Ok(Reply::json(200, &offered(state, catalogue, now))),
        _ => Err(Refusal::not_found("address")),
    }
}

/// A server as reads by id see it: lags of new and of deleted servers apply.
fn read_server<'a>(state: &'a mut State, id: &str, now: i64) -> Result<&'a Server, Refusal> {
    let lag = state.behaviour.visibility.deleted_get_ms;
    let number = number_of(id, "srv").ok_or_else(|| Refusal::not_found("server"))?;
    let server = state.servers.get_mut(&number).ok_or_else(|| Refusal::not_found("server"))?;
    server.settle(now);
    let hidden = server.sight.is_hidden(now);
    if hidden || is_over(server.gone_ms, lag, now) { Err(Refusal::not_found("server")) } else { Ok(server) }
}

fn action_of<'a>(state: &'a State, id: &str, now: i64) -> Result<&'a Action, Refusal> {
    let ttl = state.behaviour.action_ttl_ms;
    number_of(id, "act")
        .and_then(|number| state.actions.get(&number))
        .filter(|action| ttl.is_none_or(|ms| now < action.due.saturating_add_unsigned(ms)))
        .ok_or_else(|| Refusal::not_found("action"))
}

/// What can be had where, and how long that is worth knowing.
fn offered(state: &State, catalogue: &Catalogue, now: i64) -> Value {
    json!({ "zones": zones(state, catalogue, now), "valid_seconds": state.behaviour.offers_valid_s })
}

fn zones(state: &State, catalogue: &Catalogue, now: i64) -> Vec<Value> {
    let room = |zone: &str| -> Vec<Value> {
        let of = |kind: &str| json!({ "type": kind, "left": state.room(zone, kind, now) });
        catalogue.types.iter().map(|kind| of(&kind.name)).collect()
    };
    catalogue.zones.iter().map(|zone| json!({ "name": zone, "capacity": room(zone) })).collect()
}

fn list(state: &mut State, request: &Request, now: i64) -> Result<Reply, Refusal> {
    let query = request.query();
    let number = |name: &str, default: usize| match query.get(name) {
        None => Ok(default),
        Some(text) => {
            text.parse().ok().filter(|it| *it > 0).ok_or_else(|| Refusal::invalid("a page is a number"))
        }
    };
    let page = number("page", 1)?;
    let size = number("per_page", 25)?.min(50);
    let numbers = match (query.get("name"), query.get("label")) {
        (Some(name), _) => state.numbers_named(name),
        (None, Some(label)) => state.numbers_labelled(label),
        (None, None) => state.servers.keys().copied().collect(),
    };
    let mut seen = Vec::new();
    for number in numbers {
        let fits = |server: &Server| query.get("label").is_none_or(|label| server.label() == Some(label));
        if state.servers.get(&number).is_some_and(fits) && is_listed(state, number, now) {
            seen.push(number);
        }
    }
    Ok(page_of(state, &seen, page, size))
}

/// Whether a list shows a server: lags of new and of deleted servers apply; counts the attempt.
fn is_listed(state: &mut State, number: u64, now: i64) -> bool {
    let lag = state.behaviour.visibility.deleted_list_ms;
    let Some(server) = state.servers.get_mut(&number) else { return false };
    server.settle(now);
    !is_over(server.gone_ms, lag, now) && server.sight.is_listed(now)
}

/// A server as lists show it.
pub(crate) fn listed(state: &mut State, number: u64, now: i64) -> Option<Value> {
    is_listed(state, number, now).then(|| state.servers[&number].to_json())
}

fn page_of(state: &State, seen: &[u64], page: usize, size: usize) -> Reply {
    let paging = &state.behaviour.paging;
    let size = paging.force_size.unwrap_or(size).max(1);
    // With short pages, pages 2, 4, 6, … are empty and the others hold the servers.
    let empty = paging.short_pages && page.is_multiple_of(2);
    let index = if paging.short_pages { page / 2 } else { page - 1 };
    let from = index.saturating_mul(size).min(seen.len());
    let to = if empty { from } else { (from + size).min(seen.len()) };
    let servers: Vec<_> = seen[from..to].iter().map(|number| state.servers[number].to_json()).collect();
    let mut pagination = json!({ "page": page, "per_page": size });
    if to < seen.len() {
        pagination["next_page"] = json!(page + 1);
    } else {
        match paging.last {
            LastPage::Null => pagination["next_page"] = Value::Null,
            LastPage::Empty => pagination["next_page"] = json!(""),
            LastPage::Absent => {}
            LastPage::Repeat => pagination["next_page"] = json!(page),
        }
    }
    Reply::json(200, &json!({ "servers": servers, "meta": { "pagination": pagination } }))
}
