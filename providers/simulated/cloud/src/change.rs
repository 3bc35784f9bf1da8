//! The mutations of the data API: what creates, changes and removes servers.
//! A mutation is refused before anything happens, or committed whole: state and ledger change together.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ledger::EffectKind,
    options::{Catalogue, Seed},
    part_api,
    parts::PartKind,
    reply::{Refusal, Reply},
    request::Request,
    secrets::{random_word, sha256},
    server::{Change, Pending, Server, Status, number_of},
    sight::Sight,
    state::{Cause, State, UserDataSeen},
};

/// Body of a create. `start_after_create` is true unless it is sent as false.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Create {
    name: String,
    image: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    zone: Option<String>,
    user_data: String,
    labels: BTreeMap<String, String>,
    start_after_create: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Replace {
    name: String,
    image: String,
    user_data: String,
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rebuild {
    image: String,
    user_data: String,
}

pub(crate) fn mutate(
    state: &mut State,
    catalogue: &Catalogue,
    request: &Request,
    route: &[&str],
    cause: Cause<'_>,
) -> Result<Reply, Refusal> {
    match (request.method.as_str(), route) {
        ("POST", ["v1", "servers"]) => create(state, catalogue, request.parse()?, cause),
        ("POST", ["v1", "servers", id, "replace"]) => {
            let number = target(state, id, request, cause.now)?;
            replace(state, number, request.parse()?, cause)
        }
        ("DELETE", ["v1", "servers", id]) => {
            let number = target(state, id, request, cause.now)?;
            delete(state, number, cause)
        }
        ("POST", ["v1", "servers", id, "actions", command]) => {
            let number = target(state, id, request, cause.now)?;
            act(state, number, command, request, cause)
        }
        ("POST", ["v1", "volumes"]) => part_api::create(state, catalogue, PartKind::Volume, request, cause),
        ("POST", ["v1", "nics"]) => part_api::create(state, catalogue, PartKind::Nic, request, cause),
        ("DELETE", ["v1", "volumes", id]) => part_api::delete(state, PartKind::Volume, id, cause),
        ("DELETE", ["v1", "nics", id]) => part_api::delete(state, PartKind::Nic, id, cause),
        ("DELETE", ["v1", "sessions", id]) => match state.account.end_session(id) {
            true => Ok(Reply::empty(204)),
            false => Err(Refusal::not_found("session")),
        },
        ("POST" | "DELETE", ["v1", "servers", ..]) => Err(Refusal::not_found("address")),
        _ => Err(Refusal::new(405, "method_not_allowed", "this address does not know the method")),
    }
}

/// The server that a mutation is for: visible, not gone, and of the version that `If-Match` names.
fn target(state: &mut State, id: &str, request: &Request, now: i64) -> Result<u64, Refusal> {
    let lock = state.behaviour.lock_while_busy;
    let server = number_of(id, "srv")
        .and_then(|number| state.server(number, now))
        .ok_or_else(|| Refusal::not_found("server"))?;
    if server.sight.is_hidden(now) {
        return Err(Refusal::not_found("server"));
    }
    if request.header("if-match").is_some_and(|wanted| wanted != "*" && wanted != server.etag()) {
        return Err(Refusal::new(412, "precondition_failed", "the server has changed since that version"));
    }
    if lock && server.pending.is_some() {
        return Err(Refusal::new(423, "locked", "an action is running on the server"));
    }
    Ok(server.number)
}

fn create(
    state: &mut State,
    catalogue: &Catalogue,
    body: Create,
    cause: Cause<'_>,
) -> Result<Reply, Refusal> {
    if body.name.is_empty() || body.image.is_empty() {
        return Err(Refusal::invalid("a server needs a name and an image"));
    }
    let first_type = catalogue.types.first().map(|kind| kind.name.clone());
    let kind = body.kind.or(first_type).unwrap_or_default();
    let zone = body.zone.or_else(|| catalogue.zones.first().cloned()).unwrap_or_default();
    if !catalogue.types.iter().any(|it| it.name == kind) || !catalogue.zones.contains(&zone) {
        return Err(Refusal::invalid("there is no such type or zone"));
    }
    let new = New {
        name: body.name,
        image: body.image,
        kind,
        zone,
        labels: body.labels,
        user_data: body.user_data,
        start: body.start_after_create.unwrap_or(true),
    };
    make(state, new, EffectKind::Create, None, cause)
}

fn replace(state: &mut State, old: u64, body: Replace, cause: Cause<'_>) -> Result<Reply, Refusal> {
    let Some(server) = state.servers.get(&old) else { return Err(Refusal::not_found("server")) };
    let pick = |given: String, current: &str| if given.is_empty() { current.to_owned() } else { given };
    let new = New {
        name: pick(body.name, &server.name),
        image: pick(body.image, &server.image),
        kind: server.kind.clone(),
        zone: server.zone.clone(),
        labels: body.labels,
        user_data: body.user_data,
        start: true,
    };
    let replaced = server.id();
    make(state, new, EffectKind::Replace, Some(replaced), cause)
}

struct New {
    name: String,
    image: String,
    kind: String,
    zone: String,
    labels: BTreeMap<String, String>,
    user_data: String,
    start: bool,
}

/// Makes a server, for a create and for a replacement.
fn make(
    state: &mut State,
    new: New,
    kind: EffectKind,
    replaces: Option<String>,
    cause: Cause<'_>,
) -> Result<Reply, Refusal> {
    check_image(state, &new.image)?;
    let seen = look_at_user_data(state, &new.user_data)?;
    let now = cause.now;
    if state.behaviour.unique_names {
        let taken = state.numbers_named(&new.name);
        if taken.into_iter().any(|number| state.server(number, now).is_some()) {
            return Err(Refusal::new(409, "uniqueness_error", "a server of this name exists"));
        }
    }
    state.check_room(&new.zone, &new.kind, now)?;

    let starts = new.start && !cause.fault.no_effect;
    let number = state.take_number();
    let server = Server {
        number,
        name: new.name,
        image: new.image,
        kind: new.kind,
        zone: new.zone,
        labels: new.labels,
        status: if starts { Status::Starting } else { Status::Off },
        power_generation: 0,
        boots: 0,
        version: 1,
        created_ms: now,
        user_data: new.user_data.into_bytes(),
        pending: None,
        gone_ms: None,
        sight: Sight::new(&state.behaviour.visibility, now),
    };
    state.insert(server);
    let action = state.open_action(if replaces.is_some() { "replace" } else { "create" }, number, cause);
    let change = match &action.error {
        Some(_) => Some(Change::Fail),
        None if starts => Some(Change::PowerOn),
        None => None,
    };
    if let Some(server) = state.servers.get_mut(&number) {
        server.pending = change.map(|change| Pending { change, due: action.due, action: action.number });
        server.settle(now);
    }
    state.enter(kind, number, seen, replaces, cause);
    let body = json!({
        "server": state.servers[&number].to_json(),
        "action": action.to_json(now),
        "root_password": random_word("root"),
    });
    Ok(Reply::json(201, &body))
}

fn delete(state: &mut State, number: u64, cause: Cause<'_>) -> Result<Reply, Refusal> {
    let server = &state.servers[&number];
    let running = server.pending.as_ref().filter(|pending| matches!(pending.change, Change::Delete));
    let action = match running.and_then(|pending| state.actions.get(&pending.action)) {
        Some(action) => action.clone(),
        None => {
            let step = (Status::Deleting, Change::Delete);
            state.start(number, ("delete", EffectKind::Delete), step, UserDataSeen::default(), cause)
        }
    };
    state.sweep(cause.now);
    Ok(Reply::json(200, &json!({ "action": action.to_json(cause.now) })))
}

fn act(
    state: &mut State,
    number: u64,
    command: &str,
    request: &Request,
    cause: Cause<'_>,
) -> Result<Reply, Refusal> {
    let server = &state.servers[&number];
    let (on, off) = (server.is_on(), server.is_off());
    if server.status == Status::Deleting {
        return Err(Refusal::new(409, "conflict", "the server is being deleted"));
    }
    let nothing = UserDataSeen::default();
    let action = match command {
        "power_on" if on => state.open_action("power_on", number, cause),
        "power_on" => {
            let step = (Status::Starting, Change::PowerOn);
            state.start(number, ("power_on", EffectKind::PowerOn), step, nothing, cause)
        }
        "power_off" if off => state.open_action("power_off", number, cause),
        "power_off" => {
            let step = (Status::Stopping, Change::PowerOff);
            state.start(number, ("power_off", EffectKind::PowerOff), step, nothing, cause)
        }
        "shutdown" if off => state.open_action("shutdown", number, cause),
        "shutdown" => {
            let step = (Status::Stopping, Change::PowerOff);
            state.start(number, ("shutdown", EffectKind::Shutdown), step, nothing, cause)
        }
        "reset" if off => {
            return Err(Refusal::new(409, "server_off", "a server that is off cannot be reset"));
        }
        "reset" => {
            let step = (Status::Starting, Change::Reset);
            state.start(number, ("reset", EffectKind::Reset), step, nothing, cause)
        }
        "rebuild" => return rebuild(state, number, request.parse()?, cause),
        _ => return Err(Refusal::not_found("action")),
    };
    Ok(Reply::json(201, &json!({ "action": action.to_json(cause.now) })))
}

fn rebuild(state: &mut State, number: u64, body: Rebuild, cause: Cause<'_>) -> Result<Reply, Refusal> {
    check_image(state, &body.image)?;
    let seen = look_at_user_data(state, &body.user_data)?;
    let server = &state.servers[&number];
    let image = if body.image.is_empty() { server.image.clone() } else { body.image };
    let step = (Status::Rebuilding, Change::Rebuild { image, was_off: !server.is_on() });
    let action = state.start(number, ("rebuild", EffectKind::Rebuild), step, seen, cause);
    if !cause.fault.no_effect
        && action.error.is_none()
        && let Some(server) = state.servers.get_mut(&number)
    {
        server.user_data = body.user_data.into_bytes();
    }
    Ok(Reply::json(201, &json!({ "action": action.to_json(cause.now) })))
}

fn check_image(state: &State, image: &str) -> Result<(), Refusal> {
    let known = state.behaviour.images.as_ref();
    if image.is_empty() || known.is_none_or(|images| images.iter().any(|it| it == image)) {
        return Ok(());
    }
    Err(Refusal::new(422, "image_not_found", "there is no such image"))
}

/// Checks first-boot data against the rules and takes its digests.
fn look_at_user_data(state: &State, text: &str) -> Result<UserDataSeen, Refusal> {
    let rules = &state.behaviour.user_data;
    if text.is_empty() {
        return Ok(UserDataSeen::default());
    }
    if text.len() > rules.limit {
        let message = format!("user_data is limited to {} bytes", rules.limit);
        return Err(Refusal::new(422, "user_data_too_long", &message));
    }
    let mut seen = UserDataSeen { received_sha256: Some(sha256(text.as_bytes())), decoded_sha256: None };
    if rules.base64 {
        let decoded = BASE64.decode(text.as_bytes());
        let decoded =
            decoded.map_err(|_| Refusal::new(422, "user_data_encoding", "user_data must be base64"))?;
        seen.decoded_sha256 = Some(sha256(&decoded));
    }
    Ok(seen)
}

/// Puts a server there that nobody made. Returns it.
pub(crate) fn seed(state: &mut State, catalogue: &Catalogue, seed: Seed) -> Result<Value, Refusal> {
    let now = state.clock.now();
    state.sweep(now);
    let status =
        Status::from_word(&seed.status).ok_or_else(|| Refusal::invalid("there is no such status"))?;
    let on = u64::from(status == Status::Running);
    let first_type = catalogue.types.first().map(|kind| kind.name.clone());
    let number = state.take_number();
    state.insert(Server {
        number,
        name: seed.name,
        image: seed.image,
        kind: seed.kind.or(first_type).unwrap_or_default(),
        zone: seed.zone.or_else(|| catalogue.zones.first().cloned()).unwrap_or_default(),
        labels: [("holdfast", seed.label), ("managed-by", seed.manager)]
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect(),
        status,
        power_generation: on,
        boots: on,
        version: 1,
        created_ms: now,
        user_data: seed.user_data.into_bytes(),
        pending: None,
        gone_ms: None,
        sight: Sight::default(),
    });
    Ok(state.servers[&number].to_json())
}
