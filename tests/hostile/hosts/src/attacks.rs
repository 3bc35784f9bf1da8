//! The attacks, by name.

use crate::exports::holdfast::provider::capacity::{
    AllocatePollResult, Allocation, AllocationResult, OwnedResource, ReleasePollResult,
};
use crate::exports::holdfast::provider::operations::{
    BeginResult, Credentials, Error, OperationRequest, ProviderOperation, State,
};
use crate::holdfast::provider::calls::{self, Outcome, Request};
use crate::holdfast::provider::types::{Code, Failure};

type Lent<'a> = Option<&'a Credentials>;

/// Makes a server, and keeps in its state what the attack wants there.
pub fn begin_allocate(allocation: &Allocation, lent: Lent<'_>) -> Result<BeginResult, Error> {
    perform("create", "create", "{}", lent)?;
    Ok(begun(if attack(allocation) == "claims-in-state" { foreign(allocation) } else { "ours" }))
}

pub fn poll_allocate(
    request: &OperationRequest,
    allocation: &Allocation,
    lent: Lent<'_>,
) -> Result<AllocatePollResult, Error> {
    let (own, other) = (made()?, foreign(allocation));
    if request.deadline.is_some() {
        return Ok(allocated(State::Canceled, &[&own], None));
    }
    let host = |resource: &str, id: &str| AllocationResult {
        provider_resource_id: resource.to_owned(),
        provider_id: Some(format!("landlord://{id}")),
        instance_type: "small".to_owned(),
        zone: None,
        image: None,
    };
    Ok(match attack(allocation) {
        "claims-in-result" => allocated(State::Succeeded, &[&own], Some(host(other, other))),
        "claims-as-identity" => allocated(State::Succeeded, &[&own], Some(host(&own, other))),
        "claims-in-resources" => {
            read("adopt", "{}", lent)?;
            allocated(State::InProgress, &[&own, other], None)
        }
        _ => allocated(State::Succeeded, &[&own], Some(host(&own, &own))),
    })
}

pub fn begin_release(
    allocation: &Allocation,
    owned: &[OwnedResource],
    lent: Lent<'_>,
) -> Result<BeginResult, Error> {
    if attacks_on(owned, lent) {
        match attack(allocation) {
            "destroys-in-begin" => wipe(foreign(allocation), lent)?,
            "destroys-in-poll" | "claims-in-remaining" | "says-gone" | "forgets" => {
                return Ok(begun(foreign(allocation)));
            }
            _ => {}
        }
    }
    owned.iter().try_for_each(|one| wipe(&one.id, lent))?;
    Ok(begun(foreign(allocation)))
}

/// What is to be destroyed is read from its own state, which is as good as anybody's word.
pub fn poll_release(
    allocation: &Allocation,
    owned: Vec<OwnedResource>,
    operation: &ProviderOperation,
    lent: Lent<'_>,
) -> Result<ReleasePollResult, Error> {
    let other = operation.resume_token.as_str();
    if attacks_on(&owned, lent) {
        match attack(allocation) {
            "destroys-in-poll" => wipe(other, lent)?,
            "claims-in-remaining" => {
                let mut tampered = owned;
                tampered.push(server(other));
                return Ok(released(State::InProgress, tampered));
            }
            "says-gone" => return Ok(released(State::Succeeded, Vec::new())),
            "forgets" => return Ok(released(State::InProgress, Vec::new())),
            _ => {}
        }
    }
    owned.iter().try_for_each(|one| wipe(&one.id, lent))?;
    let gone = |one: &OwnedResource| read("look", &id(&one.id), lent).is_err();
    match owned.iter().all(gone) {
        true => Ok(released(State::Succeeded, Vec::new())),
        false => Ok(released(State::InProgress, owned)),
    }
}

/// Whether its own server runs.
fn attacks_on(owned: &[OwnedResource], lent: Lent<'_>) -> bool {
    let runs = |one: &OwnedResource| {
        read("look", &id(&one.id), lent).is_ok_and(|fields| fields.contains("\"running\""))
    };
    owned.iter().any(runs)
}

fn attack(allocation: &Allocation) -> &str {
    attribute(allocation, "attack")
}

fn foreign(allocation: &Allocation) -> &str {
    attribute(allocation, "foreign")
}

fn attribute<'a>(allocation: &'a Allocation, name: &str) -> &'a str {
    let found = allocation.offering.attributes.iter().find(|(key, _)| key == name);
    found.map_or("", |(_, value)| value)
}

/// The server that the create made, by the journal.
fn made() -> Result<String, Error> {
    let Some(Outcome::Done(reply)) = calls::recorded("create") else { return Err(doubt()) };
    let (_, rest) = reply.fields.split_once(r#""id":""#).unwrap_or_default();
    Ok(rest.split('"').next().unwrap_or_default().to_owned())
}

fn wipe(server: &str, lent: Lent<'_>) -> Result<(), Error> {
    perform(&format!("wipe-{server}"), "wipe", &id(server), lent)
}

fn id(server: &str) -> String {
    format!(r#"{{"id":"{server}"}}"#)
}

fn read(call: &str, args: &str, credentials: Lent<'_>) -> Result<String, Error> {
    let request =
        Request { call: call.to_owned(), args: args.to_owned(), credentials, user_data: Vec::new() };
    calls::read(&request).map(|reply| reply.fields)
}

fn perform(key: &str, call: &str, args: &str, credentials: Lent<'_>) -> Result<(), Error> {
    let request =
        Request { call: call.to_owned(), args: args.to_owned(), credentials, user_data: Vec::new() };
    match calls::perform(key, &request)? {
        Outcome::Done(_) => Ok(()),
        Outcome::InDoubt(_) => Err(doubt()),
    }
}

fn doubt() -> Error {
    Error::Transient(Failure {
        code: Code::Internal,
        reason: "InDoubt".to_owned(),
        message: "an answer was lost".to_owned(),
        native: None,
        retry_after: None,
    })
}

fn server(id: &str) -> OwnedResource {
    OwnedResource { kind: "server".to_owned(), id: id.to_owned(), zone: None }
}

fn begun(state: &str) -> BeginResult {
    BeginResult {
        operation: ProviderOperation { operation_id: state.to_owned(), resume_token: state.to_owned() },
        message: String::new(),
        requeue_after: Some(1),
    }
}

fn allocated(state: State, owned: &[&str], result: Option<AllocationResult>) -> AllocatePollResult {
    AllocatePollResult {
        state,
        result,
        owned_resources: owned.iter().map(|id| server(id)).collect(),
        reason: "Polled".to_owned(),
        message: String::new(),
        requeue_after: Some(1),
    }
}

fn released(state: State, remaining: Vec<OwnedResource>) -> ReleasePollResult {
    ReleasePollResult {
        state,
        remaining,
        reason: "Polled".to_owned(),
        message: String::new(),
        requeue_after: Some(1),
    }
}
