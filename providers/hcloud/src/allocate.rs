//! HostAllocate: one server, made once, seen running.

use crate::calls::{self, ProviderId};
use crate::class::timestamp;
use crate::{Ended, SERVER, SOON, action};
use holdfast_guest_sdk::prelude::*;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// How long after its create a server that is not shown may yet appear (field reports A03, A06).
const APPEARS_WITHIN: SignedDuration = SignedDuration::from_mins(5);

/// What a poll needs to know of the begin.
#[derive(Serialize, Deserialize)]
struct Begun {
    server: String,
    /// Unknown where the create was found by its name: nobody has seen the reply then.
    action: Option<String>,
}

/// The create is one effect for ever: begin called again, after a crash or a lost answer, is answered from the journal,
/// and where the journal does not know, by the name (R2.3, A01).
pub fn begin(credentials: Credentials<'_>, user_data: UserData<'_>) -> Result<BeginResult, Error> {
    let made = calls::create("create", credentials, user_data)?.done()?;
    info!("server made"; server = made.id);
    let begun = Begun { server: made.id.clone(), action: made.action };
    Ok(BeginResult::accepted(made.id, &begun)?.message("the server is being made").poll_after(SOON))
}

pub fn poll(
    request: &OperationRequest,
    allocation: &Allocation,
    operation: &ProviderOperation,
    credentials: Credentials<'_>,
) -> Result<AllocatePollResult, Error> {
    let begun: Begun = ResumeToken::decode(&operation.resume_token)?;
    let owned = vec![OwnedResource::new(SERVER, begun.server.clone())];
    match begun.action.as_deref().map(|id| action(credentials, id)).transpose()? {
        Some(Ended::Running) => {
            return Ok(soon(AllocatePollResult::in_progress(owned, "the server is being made")));
        }
        Some(Ended::Badly(word)) => return Ok(failed(owned, &word)),
        Some(Ended::Well) | None => {}
    }
    let seen = match calls::server(credentials, &begun.server) {
        Ok(seen) => seen,
        Err(error) if error.is_not_found() => return absent(request, owned, &begun.server),
        Err(error) => return Err(error),
    };
    Ok(match seen.state.as_str() {
        "running" => AllocatePollResult::succeeded(
            AllocationResult {
                provider_resource_id: begun.server.clone(),
                provider_id: Some(ProviderId { server: begun.server }.text()),
                instance_type: seen.r#type,
                zone: seen.place.or_else(|| allocation.offering.zone.clone()),
                image: seen.image,
            },
            owned,
        ),
        state => soon(AllocatePollResult::in_progress(owned, format!("the server is {state}"))),
    })
}

/// The server has an id and is not shown: lists and reads may lag behind a create, but not for ever.
fn absent(
    request: &OperationRequest,
    owned: Vec<OwnedResource>,
    server: &str,
) -> Result<AllocatePollResult, Error> {
    let made = request.accepted_at.as_deref().unwrap_or(&request.started_at);
    if timestamp(&now())?.duration_since(timestamp(made)?) < APPEARS_WITHIN && !request.is_given_up() {
        return Ok(soon(AllocatePollResult::in_progress(owned, "the server is not shown yet")));
    }
    let message = format!("server {server} was made and is no longer there");
    Ok(AllocatePollResult::failed(owned, "ServerVanished", message))
}

/// A create that the service gives up. Its server is owned still, and a release removes what is left of it.
fn failed(owned: Vec<OwnedResource>, word: &str) -> AllocatePollResult {
    let reason = match word {
        "resource_unavailable" | "placement_error" => "CapacityExhausted",
        "resource_limit_exceeded" => "QuotaExceeded",
        _ => "CreateFailed",
    };
    AllocatePollResult::failed(owned, reason, format!("the service could not make the server: {word}"))
}

fn soon(mut result: AllocatePollResult) -> AllocatePollResult {
    result.requeue_after = u64::try_from(SOON.as_millis()).ok();
    result
}
