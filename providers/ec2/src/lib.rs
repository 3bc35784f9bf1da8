//! The provider of Amazon EC2: instances that are made, released, powered and rebooted.
//!
//! What may be sent stands in `provider.toml`. An instance bears the token of the effect that made it as a tag and as its
//! client token, so that a lost create is found before it is ever repeated; what is asked for counts once seen (R2.34).

mod allocate;
mod class;
mod power;
mod release;

use holdfast_guest_sdk::prelude::*;
use std::time::Duration;

provider!("provider.toml", Ec2, capacity);

struct Ec2;

/// Instances change their state in seconds to minutes, and accounts have few requests to spend on watching them.
const SOON: Duration = Duration::from_secs(3);

/// Resource kinds of the manifest.
const INSTANCE: &str = "instance";
const VOLUME: &str = "volume";
const NIC: &str = "nic";

impl Operations for Ec2 {
    fn begin(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        _: Option<UserData<'_>>,
    ) -> Result<BeginResult, Error> {
        power::begin(&request, credentials.required()?)
    }

    fn poll(
        request: OperationRequest,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<Poll, Error> {
        power::poll(&request, &operation, credentials.required()?)
    }
}

impl Capacity for Ec2 {
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
        class::check(&config)?;
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
        request: OperationRequest,
        _: Allocation,
        owned: Vec<OwnedResource>,
        _: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<ReleasePollResult, Error> {
        release::poll(&request, owned, credentials.required()?)
    }
}

/// A requeue as the contract counts it.
fn soon() -> Option<u64> {
    u64::try_from(SOON.as_millis()).ok()
}

#[cfg(test)]
mod tests;
