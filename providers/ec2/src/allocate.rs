//! HostAllocate: one instance, made once, seen running, with what came with it.

use crate::calls::{self, ProviderId};
use crate::class::timestamp;
use crate::{INSTANCE, NIC, SOON, VOLUME, soon};
use holdfast_guest_sdk::prelude::*;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// Key of the create; its token is on everything that it made.
const CREATE: &str = "create";

/// How long the service's lists and reads may lag behind a create (A03, A06).
const LAG: SignedDuration = SignedDuration::from_mins(5);

/// What a poll needs to know of the begin.
#[derive(Serialize, Deserialize)]
struct Begun {
    instance: String,
    nics: Vec<String>,
}

/// The create is one effect for ever: begin called again, after a crash or a lost answer, is answered from the journal,
/// and where the journal does not know, by the tag (R2.3, A01).
pub fn begin(credentials: Credentials<'_>, user_data: UserData<'_>) -> Result<BeginResult, Error> {
    let made = calls::run(CREATE, credentials, user_data)?.done()?;
    info!("instance made"; instance = made.id);
    let begun = Begun { instance: made.id.clone(), nics: made.nics };
    Ok(BeginResult::accepted(made.id, &begun)?.message("the instance is being made").poll_after(SOON))
}

pub fn poll(
    request: &OperationRequest,
    allocation: &Allocation,
    operation: &ProviderOperation,
    credentials: Credentials<'_>,
) -> Result<AllocatePollResult, Error> {
    let begun: Begun = ResumeToken::decode(&operation.resume_token)?;
    let mut owned = vec![OwnedResource::new(INSTANCE, begun.instance.clone())];
    owned.extend(begun.nics.iter().map(|id| OwnedResource::new(NIC, id.clone())));
    let lagging = within_lag(request)?;
    let seen = match calls::instance(credentials, &begun.instance) {
        Ok(seen) => seen,
        Err(error) if error.is_not_found() && lagging && !request.is_given_up() => {
            return Ok(waiting(owned, "the instance is not shown yet".to_owned()));
        }
        Err(error) if error.is_not_found() => {
            let message = format!("instance {} was made and is no longer there", begun.instance);
            return Ok(AllocatePollResult::failed(owned, "InstanceVanished", message));
        }
        Err(error) => return Err(error),
    };
    if seen.state == "pending" {
        return Ok(waiting(owned, "the instance is pending".to_owned()));
    }
    // Adopted by the host before they are seen here; also of an instance that failed, for its release (R2.27).
    let volumes = calls::volumes(credentials, CREATE)?.volumes;
    owned.extend(volumes.iter().map(|one| OwnedResource::new(VOLUME, one.id.clone())));
    if seen.state != "running" {
        return Ok(failed(owned, &seen));
    }
    let attached = seen.volumes.unwrap_or_default();
    let unseen: Vec<&String> =
        attached.iter().filter(|id| volumes.iter().all(|one| one.id != **id)).collect();
    if let Some(id) = unseen.first() {
        // Also of an instance that is no longer wanted: a volume that outlives it is released only if it was adopted.
        if lagging {
            return Ok(waiting(owned, format!("volume {id} does not show its tag yet")));
        }
        // Without our tag it may be anybody's: it is left alone.
        warn!("attached, and not made by this allocation"; volume = id);
    }
    let planned = ProviderId::of(&request.machine).map(|id| id.zone);
    let zone = planned.ok().or_else(|| allocation.offering.zone.clone()).unwrap_or_else(|| seen.zone.clone());
    let result = AllocationResult {
        provider_resource_id: begun.instance.clone(),
        provider_id: Some(ProviderId { zone, instance: begun.instance }.text()),
        instance_type: seen.r#type,
        zone: Some(seen.zone),
        image: Some(seen.image),
    };
    Ok(AllocatePollResult::succeeded(result, owned))
}

fn within_lag(request: &OperationRequest) -> Result<bool, Error> {
    let made = request.accepted_at.as_deref().unwrap_or(&request.started_at);
    Ok(timestamp(&now())?.duration_since(timestamp(made)?) < LAG)
}

fn waiting(owned: Vec<OwnedResource>, message: String) -> AllocatePollResult {
    AllocatePollResult { requeue_after: soon(), ..AllocatePollResult::in_progress(owned, message) }
}

/// An instance that ended by itself. The service accepts a create first and finds the reason against it later.
fn failed(owned: Vec<OwnedResource>, seen: &calls::Instance) -> AllocatePollResult {
    let word = seen.reason.as_deref().unwrap_or("no reason given");
    let reason = match word {
        "Server.InsufficientInstanceCapacity" => "CapacityExhausted",
        "Client.VolumeLimitExceeded" | "Client.InstanceLimitExceeded" => "QuotaExceeded",
        _ => "InstanceEnded",
    };
    AllocatePollResult::failed(owned, reason, format!("the instance is {}: {word}", seen.state))
}
