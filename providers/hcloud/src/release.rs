//! HostRelease: the recorded servers are deleted and seen gone; nothing else is touched (R2.26).

use crate::{SERVER, SOON, calls};
use holdfast_guest_sdk::prelude::*;

/// Asks for every owned server to be deleted. One that is gone already is a success (C03); one that an action still
/// holds answers `locked`, and begin is called again (B13).
pub fn begin(
    request: &OperationRequest,
    owned: &[OwnedResource],
    credentials: Credentials<'_>,
) -> Result<BeginResult, Error> {
    for one in owned {
        known(one)?;
        // A key says which thing it is about: ids of the service are numbers.
        calls::delete(&format!("delete-{}", one.id), credentials, &one.id)?.done()?;
        info!("server deleted"; server = one.id);
    }
    let what = owned.first().map_or_else(|| request.uid.clone(), |one| one.id.clone());
    Ok(BeginResult::accepted(what, &())?.poll_after(SOON))
}

/// Deleted is what is no longer shown: an accepted delete alone proves nothing.
pub fn poll(owned: Vec<OwnedResource>, credentials: Credentials<'_>) -> Result<ReleasePollResult, Error> {
    let mut remaining = Vec::new();
    for one in owned {
        known(&one)?;
        match calls::server(credentials, &one.id) {
            Ok(_) => remaining.push(one),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    if remaining.is_empty() {
        return Ok(ReleasePollResult::succeeded());
    }
    let mut result = ReleasePollResult::in_progress(remaining, "the server is being deleted");
    result.requeue_after = u64::try_from(SOON.as_millis()).ok();
    Ok(result)
}

fn known(one: &OwnedResource) -> Result<(), Error> {
    if one.kind == SERVER {
        return Ok(());
    }
    let message = format!("a `{}` is nothing that this provider makes", one.kind);
    Err(Error::permanent(Code::Internal, "UnknownResource", message))
}
