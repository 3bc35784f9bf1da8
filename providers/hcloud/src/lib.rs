//! The provider of Hetzner Cloud: servers that are made, released, powered and rebuilt.
//!
//! What may be sent stands in `provider.toml`. A server's name is the token of the effect that made it, so that a lost
//! create is found and never repeated blindly; whatever is asked for counts only once it has been seen (R2.34).

mod allocate;
mod class;
mod power;
mod release;

use holdfast_guest_sdk::prelude::*;
use std::time::Duration;

provider!("provider.toml", Hcloud, capacity);

struct Hcloud;

/// The service's actions take seconds.
const SOON: Duration = Duration::from_secs(2);

/// Resource kind of the manifest.
const SERVER: &str = "server";

impl Operations for Hcloud {
    fn begin(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        user_data: Option<UserData<'_>>,
    ) -> Result<BeginResult, Error> {
        power::begin(&request, credentials.required()?, user_data)
    }

    fn poll(
        request: OperationRequest,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<Poll, Error> {
        power::poll(&request, &operation, credentials.required()?)
    }
}

impl Capacity for Hcloud {
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
        _: ProviderConfig,
        credentials: Option<Credentials<'_>>,
        user_data: UserData<'_>,
    ) -> Result<BeginResult, Error> {
        allocate::begin(credentials.required()?, user_data)
    }

    fn poll_allocate(
        request: OperationRequest,
        allocation: Allocation,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<AllocatePollResult, Error> {
        allocate::poll(&request, &allocation, &operation, credentials.required()?)
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

/// How an action of the service ended.
enum Ended {
    /// Not yet.
    Running,
    /// Well, or long ago: the service forgets its actions, and the server itself tells.
    Well,
    /// Not, with the service's word for it.
    Badly(String),
}

fn action(credentials: Credentials<'_>, id: &str) -> Result<Ended, Error> {
    match calls::action(credentials, id) {
        Ok(seen) => Ok(match seen.state.as_str() {
            "success" => Ended::Well,
            "error" => Ended::Badly(seen.error.unwrap_or_else(|| "unknown".to_owned())),
            _ => Ended::Running,
        }),
        Err(error) if error.is_not_found() => Ok(Ended::Well),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
