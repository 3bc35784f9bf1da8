//! The provider of the simulated cloud: each operation kind in as few lines as it takes.
//!
//! What may be sent stands in `provider.toml`. The code decides what to do next, and says success only once the cloud
//! has been seen in the wanted state (R2.34, R2.36).

mod allocate;
mod class;
mod release;

use holdfast_guest_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use std::time::Duration;

provider!("provider.toml", Simulated, capacity);

struct Simulated;

/// The cloud's actions take moments.
const SOON: Duration = Duration::from_secs(1);

/// What a poll needs to know of the begin.
#[derive(Serialize, Deserialize)]
struct Begun {
    server: String,
    /// Unknown where a person settled the effect: nobody has seen the reply then.
    action: Option<String>,
    /// Boots before a reset: more of them prove that it happened.
    boots: i64,
    /// Identity of the machine when a replacement began: poll names it for cleanup, however often it is asked and
    /// whatever the machine is called by then (R2.9).
    old: Option<String>,
}

impl Operations for Simulated {
    /// `HostPowerOff`, immediate and replay-safe: repeated until the server is seen off.
    fn execute(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        _: Option<UserData<'_>>,
    ) -> Result<OperationResult, Error> {
        let credentials = credentials.required()?;
        let id = calls::ProviderId::of(&request.machine)?.server;
        // Seen off, a power-off whose answer was lost is still in doubt: asked again, it is settled without effect.
        if is_done("off") == is_sent("off") && calls::server(credentials, &id)?.state == "off" {
            return Ok(OperationResult::unchanged());
        }
        calls::power_off("off", credentials, &id)?.done()?;
        match calls::server(credentials, &id)?.state.as_str() {
            "off" => Ok(OperationResult::unchanged()),
            state => Err(Error::wait("StillOn", format!("the server is {state}"), SOON)),
        }
    }

    fn begin(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        user_data: Option<UserData<'_>>,
    ) -> Result<BeginResult, Error> {
        let credentials = credentials.required()?;
        let server = calls::ProviderId::of(&request.machine)?.server;
        let begun = match request.kind.as_str() {
            "HostPowerOn" => {
                let action = calls::power_on("on", credentials, &server)?.done()?.action;
                Begun { server, action: Some(action), boots: 0, old: None }
            }
            "HostReboot" => {
                // Once the reset is sent, the count from before it can no longer be read: `recorded` keeps a repeat
                // of this callback from taking the count after it for the one before.
                let boots = if is_sent("reset") { 0 } else { calls::server(credentials, &server)?.boots };
                let action = calls::reset("reset", credentials, &server)?.done()?.action;
                Begun { server, action, boots, old: None }
            }
            "HostReplace" => {
                let data = user_data.ok_or_else(|| {
                    Error::invalid_input("UserDataMissing", "a replacement needs first-boot data")
                })?;
                let server = calls::replace("replace", credentials, data, &server)?.done()?.id;
                Begun { server, action: None, boots: 0, old: request.machine.provider_id.clone() }
            }
            kind => return Err(Error::unsupported(kind)),
        };
        let handle = begun.action.as_ref().unwrap_or(&begun.server).clone();
        info!("accepted {}", request.kind; server = begun.server, handle = handle);
        Ok(BeginResult::accepted(handle, &begun)?.poll_after(SOON))
    }

    fn poll(
        request: OperationRequest,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<Poll, Error> {
        let credentials = credentials.required()?;
        let begun: Begun = ResumeToken::decode(&operation.resume_token)?;
        if let Some(action) = &begun.action {
            let action = calls::action(credentials, action)?;
            if action.state == "error" {
                return Ok(Poll::failed("ActionFailed", "the cloud could not carry out the action"));
            }
            if action.state != "success" {
                return Ok(Poll::in_progress("the action is running").after(SOON));
            }
        }
        let seen = calls::server(credentials, &begun.server)?;
        if seen.state == "error" {
            // It stays so: what is polled for ever ends never.
            return Ok(Poll::failed("ServerFailed", "the cloud could not start the server"));
        }
        if seen.state != "running" || (request.kind == "HostReboot" && seen.boots <= begun.boots) {
            return Ok(Poll::in_progress(format!("the server is {}", seen.state)).after(SOON));
        }
        Ok(Poll::succeeded(match request.kind.as_str() {
            "HostReplace" => {
                OperationResult::replaced(calls::ProviderId { server: begun.server }.text(), begun.old)
            }
            _ => OperationResult::unchanged(),
        }))
    }

    /// Deletes the server that was replaced; one that is gone is a success.
    fn cleanup(
        _: OperationRequest,
        result: OperationResult,
        credentials: Option<Credentials<'_>>,
    ) -> Result<(), Error> {
        let Some(old) = result.cleanup_provider_id else { return Ok(()) };
        let id = calls::ProviderId::parse(&old)
            .ok_or_else(|| {
                Error::invalid_input("ProviderIDInvalid", "the old provider ID is none of this cloud")
            })?
            .server;
        calls::delete("delete-old", credentials.required()?, &id)?.done()?;
        Ok(())
    }
}

impl Capacity for Simulated {
    fn resolve_class(
        request: ClassRequest,
        credentials: Option<Credentials<'_>>,
    ) -> Result<Vec<Offering>, Error> {
        class::resolve(&request, credentials.required()?)
    }

    fn plan_allocation(request: PlanRequest) -> Result<Plan, Error> {
        class::plan(&request)
    }

    fn begin_allocate(
        _: OperationRequest,
        _: Allocation,
        config: ProviderConfig,
        credentials: Option<Credentials<'_>>,
        user_data: UserData<'_>,
    ) -> Result<BeginResult, Error> {
        allocate::begin(&config, credentials.required()?, user_data)
    }

    fn poll_allocate(
        request: OperationRequest,
        _: Allocation,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<AllocatePollResult, Error> {
        allocate::poll(&request, &operation, credentials.required()?)
    }

    fn begin_release(
        request: OperationRequest,
        _: Allocation,
        owned: Vec<OwnedResource>,
        credentials: Option<Credentials<'_>>,
    ) -> Result<BeginResult, Error> {
        release::begin(&request, &owned, credentials.required()?)
    }

    fn poll_release(
        _: OperationRequest,
        _: Allocation,
        owned: Vec<OwnedResource>,
        _: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<ReleasePollResult, Error> {
        release::poll(owned, credentials.required()?)
    }
}

#[cfg(test)]
mod tests;
