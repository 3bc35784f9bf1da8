//! The admin API under `/_sim/`: what a test in another process drives the cloud with.
//! It has its own token, takes no part in faults, limits and the record, and answers in JSON.

use http::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    account::AuthChange,
    behaviour::Behaviour,
    change,
    clock::{ClockChange, rfc3339},
    faults::Rule,
    options::Seed,
    reply::{Refusal, Reply},
    request::Request,
    server::{Server, number_of},
    shared::Shared,
};

/// Body of `POST /_sim/faults`: what is absent stays as it is.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Faults {
    rules: Option<Vec<Value>>,
    behaviour: Option<Behaviour>,
    /// Members that are merged into the behaviour in force as in RFC 7396, except that null stays null: "off".
    patch: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Noise {
    requests: u64,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Release {
    abandon: bool,
}

pub(crate) fn answer(shared: &Shared, request: &Request) -> Reply {
    let wanted = format!("Bearer {}", shared.options.admin_token);
    let given = request.headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    if given != Some(wanted.as_bytes()) {
        return Refusal::new(401, "unauthorized", "the admin API has a token of its own").into();
    }
    route(shared, request).unwrap_or_else(Reply::from)
}

fn route(shared: &Shared, request: &Request) -> Result<Reply, Refusal> {
    let segments = request.segments();
    let route: Vec<&str> = segments.iter().skip(1).map(AsRef::as_ref).collect();
    match (request.method.as_str(), route.as_slice()) {
        ("GET", ["ledger"]) => shown(&shared.state().ledger()),
        ("GET", ["requests"]) => {
            let state = shared.state();
            shown(&json!({ "requests": state.record.requests, "counts": state.record.counts }))
        }
        ("GET", ["faults"]) => {
            let state = shared.state();
            shown(&json!({ "rules": state.plan.states(), "behaviour": state.behaviour }))
        }
        ("POST", ["faults"]) => set_faults(shared, request.parse()?),
        ("GET", ["servers"]) => servers(shared),
        ("POST", ["servers"]) => {
            let seed: Seed = request.parse()?;
            let server = change::seed(&mut shared.state(), &shared.catalogue, seed)?;
            Ok(Reply::json(201, &json!({ "server": server })))
        }
        ("GET", ["servers", id, "user_data"]) => {
            let bytes = number_of(id, "srv").and_then(|number| shared.state().user_data(number));
            let bytes = bytes.ok_or_else(|| Refusal::not_found("server"))?;
            shown(&json!({ "user_data": String::from_utf8_lossy(&bytes) }))
        }
        ("POST", ["reset"]) => {
            shared.reset();
            Ok(Reply::empty(204))
        }
        ("POST", ["clock"]) => {
            let change: ClockChange = request.parse()?;
            let mut state = shared.state();
            state.clock.change(change);
            let now = state.clock.now();
            shown(&json!({ "now_ms": now, "now": rfc3339(now) }))
        }
        ("POST", ["auth"]) => {
            let change: AuthChange = request.parse()?;
            let mut state = shared.state();
            let now = state.clock.now();
            state.account.change(change, now);
            Ok(Reply::empty(204))
        }
        ("POST", ["noise"]) => {
            let Noise { requests } = request.parse()?;
            shared.noise(requests);
            Ok(Reply::empty(204))
        }
        ("GET", ["held"]) => shown(&json!({ "held": shared.holds.list() })),
        ("POST", ["release"]) => {
            let Release { abandon } = request.parse()?;
            shown(&json!({ "released": shared.holds.release(abandon) }))
        }
        _ => Err(Refusal::not_found("admin address")),
    }
}

fn shown(value: &impl Serialize) -> Result<Reply, Refusal> {
    Ok(Reply::json(200, &serde_json::to_value(value).unwrap_or_default()))
}

fn set_faults(shared: &Shared, body: Faults) -> Result<Reply, Refusal> {
    let rules = body.rules.map(|rules| rules.into_iter().map(Rule::from_json).collect::<Result<Vec<_>, _>>());
    let rules = rules.transpose().map_err(|why| Refusal::invalid(&why))?;
    let mut state = shared.state();
    let mut behaviour = body.behaviour.unwrap_or_else(|| state.behaviour.clone());
    if let Some(patch) = body.patch {
        let mut merged = serde_json::to_value(&behaviour).unwrap_or_default();
        merge(&mut merged, patch);
        behaviour = serde_json::from_value(merged).map_err(|why| Refusal::invalid(&why.to_string()))?;
    }
    state.behaviour = behaviour;
    if let Some(rules) = rules {
        state.plan.set(rules);
    }
    Ok(Reply::empty(204))
}

/// A merge in the manner of RFC 7396, in which null does not remove: it turns an optional knob off.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(members) = target.as_object_mut() else { return };
    for (name, value) in patch {
        merge(members.entry(name).or_insert(Value::Null), value);
    }
}

fn servers(shared: &Shared) -> Result<Reply, Refusal> {
    let mut state = shared.state();
    let now = state.clock.now();
    state.sweep(now);
    let all: Vec<Value> = state
        .servers
        .values_mut()
        .map(|server: &mut Server| {
            server.settle(now);
            let mut json = server.to_json();
            json["gone"] = json!(server.gone_ms.is_some());
            json
        })
        .collect();
    shown(&json!({ "servers": all }))
}
