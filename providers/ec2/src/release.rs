//! HostRelease: recorded instances end, then the recorded volumes and interfaces that they left (R2.26).

use crate::class::timestamp;
use crate::{INSTANCE, NIC, SOON, VOLUME, calls, soon};
use holdfast_guest_sdk::prelude::*;
use jiff::SignedDuration;

/// How long "no such instance" may be the lag of a read behind a create that has just been made: until then it is no
/// proof (B14).
const LAG: SignedDuration = SignedDuration::from_mins(2);

/// Asks for every owned instance to be terminated. One that is gone already is a success (C03).
pub fn begin(
    request: &OperationRequest,
    owned: &[OwnedResource],
    credentials: Credentials<'_>,
) -> Result<BeginResult, Error> {
    owned.iter().try_for_each(known)?;
    for one in owned.iter().filter(|one| one.kind == INSTANCE) {
        // A key says which thing it is about.
        calls::terminate(&format!("terminate-{}", one.id), credentials, &one.id)?.done()?;
        info!("instance terminated"; instance = one.id);
    }
    let what = owned.first().map_or_else(|| request.uid.clone(), |one| one.id.clone());
    Ok(BeginResult::accepted(what, &())?.poll_after(SOON))
}

/// Instances first: what they hold cannot be deleted before, and most of it goes with them.
pub fn poll(
    request: &OperationRequest,
    owned: Vec<OwnedResource>,
    credentials: Credentials<'_>,
) -> Result<ReleasePollResult, Error> {
    owned.iter().try_for_each(known)?;
    for one in owned.iter().filter(|one| one.kind == INSTANCE) {
        if !ended(request, one, credentials)? {
            let message = format!("instance {} is ending", one.id);
            return Ok(waiting(owned, message));
        }
    }
    let mut remaining = Vec::new();
    for one in owned {
        let gone = match one.kind.as_str() {
            VOLUME => volume_gone(&one, credentials)?,
            NIC => nic_gone(&one, credentials)?,
            _ => true,
        };
        if !gone {
            remaining.push(one);
        }
    }
    match remaining.first().map(|one| format!("{} {} is being deleted", one.kind, one.id)) {
        None => Ok(ReleasePollResult::succeeded()),
        Some(message) => Ok(waiting(remaining, message)),
    }
}

/// Terminated, which the service shows for about an hour, or not there, once that means something.
fn ended(
    request: &OperationRequest,
    one: &OwnedResource,
    credentials: Credentials<'_>,
) -> Result<bool, Error> {
    let again = format!("again-{}", one.id);
    match calls::instance(credentials, &one.id) {
        _ if in_doubt(&again) => {
            calls::terminate(&again, credentials, &one.id)?.done()?;
            Ok(false)
        }
        Ok(seen) if seen.state == "terminated" => Ok(true),
        Ok(seen) if seen.state == "shutting-down" => Ok(false),
        // The first terminate may have met a read that lagged behind, and been told that there is none.
        Ok(_) => {
            calls::terminate(&again, credentials, &one.id)?.done()?;
            Ok(false)
        }
        Err(error) if error.is_not_found() => {
            Ok(timestamp(&now())?.duration_since(timestamp(&request.started_at)?) >= LAG)
        }
        Err(error) => Err(error),
    }
}

/// Most volumes go with their instance; what stays is deleted here, once nothing holds it.
fn volume_gone(one: &OwnedResource, credentials: Credentials<'_>) -> Result<bool, Error> {
    let key = format!("delete-{}", one.id);
    match calls::volume(credentials, &one.id) {
        _ if in_doubt(&key) => deleted(calls::delete_volume(&key, credentials, &one.id)),
        Ok(seen) if matches!(seen.state.as_str(), "available" | "error") => {
            deleted(calls::delete_volume(&key, credentials, &one.id))
        }
        Ok(_) => Ok(false),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
    }
}

fn nic_gone(one: &OwnedResource, credentials: Credentials<'_>) -> Result<bool, Error> {
    let key = format!("delete-{}", one.id);
    match calls::nic(credentials, &one.id) {
        _ if in_doubt(&key) => deleted(calls::delete_nic(&key, credentials, &one.id)),
        Ok(_) => deleted(calls::delete_nic(&key, credentials, &one.id)),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether an answer was lost. What is in doubt is asked for again, whatever is seen: nothing else settles it, and no
/// success is accepted before.
fn in_doubt(key: &str) -> bool {
    is_sent(key) && !is_done(key)
}

/// Asked for is not gone: the next poll looks. What something still holds is asked for again then.
fn deleted<T>(answer: Result<Outcome<T>, Error>) -> Result<bool, Error> {
    match answer.and_then(Outcome::done) {
        Ok(_) => Ok(false),
        Err(error) if matches!(error.failure().code, Code::Conflict) => Ok(false),
        Err(error) => Err(error),
    }
}

fn waiting(remaining: Vec<OwnedResource>, message: String) -> ReleasePollResult {
    ReleasePollResult { requeue_after: soon(), ..ReleasePollResult::in_progress(remaining, message) }
}

fn known(one: &OwnedResource) -> Result<(), Error> {
    if [INSTANCE, VOLUME, NIC].contains(&one.kind.as_str()) {
        return Ok(());
    }
    let message = format!("a `{}` is nothing that this provider makes", one.kind);
    Err(Error::permanent(Code::Internal, "UnknownResource", message))
}
