//! HostAllocate: one server with its volumes and network interfaces, each made once; done when it is seen running.

use crate::{SOON, calls, class};
use holdfast_guest_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// Resource kinds of the manifest.
pub const SERVER: &str = "server";
pub const VOLUME: &str = "volume";
pub const NIC: &str = "nic";

/// What a poll needs to know of the begin.
#[derive(Serialize, Deserialize)]
struct Begun {
    server: String,
    volumes: Vec<String>,
    nics: Vec<String>,
}

impl Begun {
    fn owned(&self) -> Vec<OwnedResource> {
        let volumes = self.volumes.iter().map(|id| OwnedResource::new(VOLUME, id));
        let nics = self.nics.iter().map(|id| OwnedResource::new(NIC, id));
        std::iter::once(OwnedResource::new(SERVER, &self.server)).chain(volumes).chain(nics).collect()
    }
}

/// Every part is one effect for ever: begin called again, after a crash or a lost answer, goes on where the journal says
/// that it stands (R2.3). What is made is owned from its reply on, also if a later part is refused (R2.27).
pub fn begin(
    config: &ProviderConfig,
    credentials: Credentials<'_>,
    user_data: UserData<'_>,
) -> Result<BeginResult, Error> {
    let (sizes, nics) = (class::volumes(config)?, class::nics(config)?);
    let server = calls::create("server", credentials, user_data)?.done()?.id;
    let mut begun = Begun { server, volumes: Vec::new(), nics: Vec::new() };
    for (n, size) in sizes.into_iter().enumerate() {
        let made = calls::create_volume(&format!("volume-{n}"), credentials, &begun.server, size);
        begun.volumes.push(made.map_err(not_shown_yet)?.done()?.id);
    }
    for n in 0..nics {
        let made = calls::create_nic(&format!("nic-{n}"), credentials, &begun.server);
        begun.nics.push(made.map_err(not_shown_yet)?.done()?.id);
    }
    info!("host made"; server = begun.server);
    Ok(BeginResult::accepted(begun.server.clone(), &begun)?
        .message("the host is being made")
        .poll_after(SOON))
}

/// Of a server that was made a moment ago the cloud may not know yet.
fn not_shown_yet(error: Error) -> Error {
    match error.is_not_found() {
        true => Error::wait("ServerNotShown", "the cloud does not show the new server yet", SOON),
        false => error,
    }
}

pub fn poll(
    request: &OperationRequest,
    operation: &ProviderOperation,
    credentials: Credentials<'_>,
) -> Result<AllocatePollResult, Error> {
    let begun: Begun = ResumeToken::decode(&operation.resume_token)?;
    let owned = begun.owned();
    let seen = match calls::server(credentials, &begun.server) {
        Ok(seen) => seen,
        Err(error) if error.is_not_found() => return Ok(waits(request, owned, "not shown yet")),
        Err(error) => return Err(error),
    };
    Ok(match seen.state.as_str() {
        "running" => AllocatePollResult::succeeded(
            AllocationResult {
                provider_resource_id: begun.server.clone(),
                provider_id: Some(calls::ProviderId { server: begun.server }.text()),
                instance_type: seen.r#type.unwrap_or_default(),
                zone: seen.zone,
                image: seen.image,
            },
            owned,
        ),
        "error" => AllocatePollResult::failed(owned, "CreateFailed", "the cloud could not start the server"),
        state => waits(request, owned, state),
    })
}

/// Waits, but not beyond what is wanted: what is owned is released then (R2.27).
fn waits(request: &OperationRequest, owned: Vec<OwnedResource>, state: &str) -> AllocatePollResult {
    let message = format!("the server is {state}");
    match request.is_given_up() {
        true => AllocatePollResult::canceled(owned, message),
        false => AllocatePollResult::in_progress(owned, message).after(SOON),
    }
}
