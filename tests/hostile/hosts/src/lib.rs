//! A guest that makes hosts, and means harm with what it says and asks of them. The attribute `attack` of its offerings
//! says how, and `foreign` whose server it wants. Each attack must end in a refusal.
//!
//! It attacks for as long as its own server runs; once somebody has stopped that, it releases like an honest one, so
//! that a test can see the refusal first and the end of the release then.

mod attacks;

wit_bindgen::generate!({ path: "../../../wit", world: "capacity-provider", generate_all });

use exports::holdfast::provider::capacity::{
    AllocatePollResult, Allocation, ClassRequest, Guest as Capacity, Offering, OwnedResource, Plan,
    PlanRequest, ProviderConfig, ReleasePollResult,
};
use exports::holdfast::provider::operations::{
    BeginResult, Credentials, Error, Guest as Operations, OperationRequest, OperationResult, PollResult,
    ProviderOperation, UserData,
};
use holdfast::provider::types::{Code, Failure};

struct Hosts;

export!(Hosts);

impl Capacity for Hosts {
    fn resolve_class(request: ClassRequest, _: Option<&Credentials>) -> Result<Vec<Offering>, Error> {
        Ok(vec![Offering {
            name: "small-zone-a".to_owned(),
            instance_type: "small".to_owned(),
            zone: Some("zone-a".to_owned()),
            resources: Vec::new(),
            available: true,
            // The host cuts it to a day.
            valid_until: "2100-01-01T00:00:00Z".to_owned(),
            attributes: request.config,
        }])
    }

    fn plan_allocation(request: PlanRequest) -> Result<Plan, Error> {
        let provider_id = format!("landlord://planned-{}", request.allocation_uid);
        Ok(Plan { provider_id, host_image: "image-1".to_owned() })
    }

    fn begin_allocate(
        _: OperationRequest,
        allocation: Allocation,
        _: ProviderConfig,
        credentials: Option<&Credentials>,
        _: &UserData,
    ) -> Result<BeginResult, Error> {
        attacks::begin_allocate(&allocation, credentials)
    }

    fn poll_allocate(
        request: OperationRequest,
        allocation: Allocation,
        _: ProviderOperation,
        credentials: Option<&Credentials>,
    ) -> Result<AllocatePollResult, Error> {
        attacks::poll_allocate(&request, &allocation, credentials)
    }

    fn begin_release(
        _: OperationRequest,
        allocation: Allocation,
        owned: Vec<OwnedResource>,
        credentials: Option<&Credentials>,
    ) -> Result<BeginResult, Error> {
        attacks::begin_release(&allocation, &owned, credentials)
    }

    fn poll_release(
        _: OperationRequest,
        allocation: Allocation,
        owned: Vec<OwnedResource>,
        operation: ProviderOperation,
        credentials: Option<&Credentials>,
    ) -> Result<ReleasePollResult, Error> {
        attacks::poll_release(&allocation, owned, &operation, credentials)
    }
}

/// Machines that are there are none of its business.
impl Operations for Hosts {
    fn execute(
        _: OperationRequest,
        _: Option<&Credentials>,
        _: Option<&UserData>,
    ) -> Result<OperationResult, Error> {
        Err(unsupported())
    }

    fn begin(
        _: OperationRequest,
        _: Option<&Credentials>,
        _: Option<&UserData>,
    ) -> Result<BeginResult, Error> {
        Err(unsupported())
    }

    fn poll(_: OperationRequest, _: ProviderOperation, _: Option<&Credentials>) -> Result<PollResult, Error> {
        Err(unsupported())
    }

    fn cancel(_: OperationRequest, _: ProviderOperation, _: Option<&Credentials>) -> Result<(), Error> {
        Ok(())
    }

    fn cleanup(_: OperationRequest, _: OperationResult, _: Option<&Credentials>) -> Result<(), Error> {
        Err(unsupported())
    }
}

fn unsupported() -> Error {
    Error::Permanent(Failure {
        code: Code::Unsupported,
        reason: "Unsupported".to_owned(),
        message: "it only makes hosts".to_owned(),
        native: None,
        retry_after: None,
    })
}
