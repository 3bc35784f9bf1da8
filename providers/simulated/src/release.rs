//! HostRelease: what is recorded as owned is deleted and seen gone; nothing else is touched (R2.26).

use crate::allocate::{NIC, SERVER, VOLUME};
use crate::{SOON, calls};
use holdfast_guest_sdk::prelude::*;

/// Asks for the servers to be deleted. What is attached to them can be deleted once they are gone.
pub fn begin(
    request: &OperationRequest,
    owned: &[OwnedResource],
    credentials: Credentials<'_>,
) -> Result<BeginResult, Error> {
    for one in owned.iter().filter(|one| one.kind == SERVER) {
        calls::delete(&key(one), credentials, &one.id)?.done()?;
        info!("server deleted"; server = one.id);
    }
    let what = owned.first().map_or_else(|| request.uid.clone(), |one| one.id.clone());
    Ok(BeginResult::accepted(what, &())?.poll_after(SOON))
}

/// Deleted is what is no longer shown: an accepted delete alone proves nothing.
pub fn poll(owned: Vec<OwnedResource>, credentials: Credentials<'_>) -> Result<ReleasePollResult, Error> {
    let (servers, parts): (Vec<_>, Vec<_>) = owned.into_iter().partition(|one| one.kind == SERVER);
    let mut remaining = Vec::new();
    for one in servers {
        if is_there(&one, credentials)? {
            remaining.push(one);
        }
    }
    if !remaining.is_empty() {
        remaining.extend(parts);
        return Ok(waits(remaining, "the server is being deleted"));
    }
    for one in parts {
        if !is_deleted(&one, credentials)? || is_there(&one, credentials)? {
            remaining.push(one);
        }
    }
    match remaining.is_empty() {
        true => Ok(ReleasePollResult::succeeded()),
        false => Ok(waits(remaining, "volumes and network interfaces are being deleted")),
    }
}

/// Asks for a part to be deleted; false while the cloud still takes it for attached.
fn is_deleted(one: &OwnedResource, credentials: Credentials<'_>) -> Result<bool, Error> {
    let asked = match one.kind.as_str() {
        VOLUME => calls::delete_volume(&key(one), credentials, &one.id).map(|asked| asked.map(|_| ())),
        NIC => calls::delete_nic(&key(one), credentials, &one.id).map(|asked| asked.map(|_| ())),
        other => return Err(unknown(other)),
    };
    match asked {
        Err(error) if matches!(error.failure().code, Code::Dependency) => Ok(false),
        Err(error) => Err(error),
        Ok(asked) => asked.done().map(|()| true),
    }
}

fn is_there(one: &OwnedResource, credentials: Credentials<'_>) -> Result<bool, Error> {
    let seen = match one.kind.as_str() {
        SERVER => calls::server(credentials, &one.id).map(|_| ()),
        VOLUME => calls::volume(credentials, &one.id).map(|_| ()),
        NIC => calls::nic(credentials, &one.id).map(|_| ()),
        other => return Err(unknown(other)),
    };
    match seen {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// A key says which thing it is about.
fn key(one: &OwnedResource) -> String {
    format!("delete-{}", one.id)
}

fn unknown(kind: &str) -> Error {
    let message = format!("a `{kind}` is nothing that this provider makes");
    Error::permanent(Code::Internal, "UnknownResource", message)
}

fn waits(remaining: Vec<OwnedResource>, message: &str) -> ReleasePollResult {
    ReleasePollResult::in_progress(remaining, message).after(SOON)
}
