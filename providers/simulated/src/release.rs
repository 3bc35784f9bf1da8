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
    let mut undone = false;
    for one in servers {
        let seen = look(&one, credentials)?;
        undone |= seen == Seen::There;
        if seen != Seen::Gone {
            remaining.push(one);
        }
    }
    if !remaining.is_empty() {
        remaining.extend(parts);
        return Ok(goes_on(remaining, undone, "the server is being deleted"));
    }
    for one in parts {
        let asked = is_deleted(&one, credentials)?;
        let seen = if asked { look(&one, credentials)? } else { Seen::Going };
        undone |= seen == Seen::There;
        if seen != Seen::Gone {
            remaining.push(one);
        }
    }
    match remaining.is_empty() {
        true => Ok(ReleasePollResult::succeeded()),
        false => Ok(goes_on(remaining, undone, "volumes and network interfaces are being deleted")),
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

/// How something looks whose deletion was accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Gone,
    /// It is on its way.
    Going,
    /// Nobody deletes it: what was accepted has failed.
    There,
}

fn look(one: &OwnedResource, credentials: Credentials<'_>) -> Result<Seen, Error> {
    let state = match one.kind.as_str() {
        SERVER => calls::server(credentials, &one.id).map(|seen| seen.state),
        VOLUME => calls::volume(credentials, &one.id).map(|seen| seen.state),
        NIC => calls::nic(credentials, &one.id).map(|seen| seen.state),
        other => return Err(unknown(other)),
    };
    match state {
        Ok(state) if state == "deleting" => Ok(Seen::Going),
        Ok(_) => Ok(Seen::There),
        Err(error) if error.is_not_found() => Ok(Seen::Gone),
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

/// What is asked for is one effect for ever; where it has failed, another release asks anew.
fn goes_on(remaining: Vec<OwnedResource>, undone: bool, message: &str) -> ReleasePollResult {
    match undone {
        true => {
            let message = "the cloud accepted a deletion and did not carry it out";
            ReleasePollResult::failed(remaining, "DeleteFailed", message)
        }
        false => ReleasePollResult::in_progress(remaining, message).after(SOON),
    }
}
