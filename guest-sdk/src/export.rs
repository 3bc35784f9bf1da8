//! From the contract's exports to the author's traits. Named by the expansion of `provider!` only.

use crate::bindings::exports::holdfast::provider::{capacity as cap, operations as ops};
use crate::capacity::Capacity;
use crate::error::Error;
use crate::lent::{Credentials, UserData};
use crate::operations::Operations;
use std::marker::PhantomData;

/// Implements the exported interfaces by the author's type.
#[derive(Debug)]
pub struct Export<T>(PhantomData<T>);

type Lent<'a> = Option<&'a ops::Credentials>;

fn lent(credentials: Lent<'_>) -> Option<Credentials<'_>> {
    credentials.map(Credentials::lent)
}

impl<T: Operations> ops::Guest for Export<T> {
    fn execute(
        request: ops::OperationRequest,
        credentials: Lent<'_>,
        data: Option<&ops::UserData>,
    ) -> Result<ops::OperationResult, Error> {
        T::execute(request, lent(credentials), data.map(UserData::lent))
    }

    fn begin(
        request: ops::OperationRequest,
        credentials: Lent<'_>,
        data: Option<&ops::UserData>,
    ) -> Result<ops::BeginResult, Error> {
        T::begin(request, lent(credentials), data.map(UserData::lent))
    }

    fn poll(
        request: ops::OperationRequest,
        operation: ops::ProviderOperation,
        credentials: Lent<'_>,
    ) -> Result<ops::PollResult, Error> {
        T::poll(request, operation, lent(credentials))
    }

    fn cancel(
        request: ops::OperationRequest,
        operation: ops::ProviderOperation,
        credentials: Lent<'_>,
    ) -> Result<(), Error> {
        T::cancel(request, operation, lent(credentials))
    }

    fn cleanup(
        request: ops::OperationRequest,
        result: ops::OperationResult,
        credentials: Lent<'_>,
    ) -> Result<(), Error> {
        T::cleanup(request, result, lent(credentials))
    }
}

impl<T: Capacity> cap::Guest for Export<T> {
    fn resolve_class(request: cap::ClassRequest, credentials: Lent<'_>) -> Result<Vec<cap::Offering>, Error> {
        T::resolve_class(request, lent(credentials))
    }

    fn plan_allocation(request: cap::PlanRequest) -> Result<cap::Plan, Error> {
        T::plan_allocation(request)
    }

    fn begin_allocate(
        request: ops::OperationRequest,
        allocation: cap::Allocation,
        config: cap::ProviderConfig,
        credentials: Lent<'_>,
        data: &cap::UserData,
    ) -> Result<ops::BeginResult, Error> {
        T::begin_allocate(request, allocation, config, lent(credentials), UserData::lent(data))
    }

    fn poll_allocate(
        request: ops::OperationRequest,
        allocation: cap::Allocation,
        operation: ops::ProviderOperation,
        credentials: Lent<'_>,
    ) -> Result<cap::AllocatePollResult, Error> {
        T::poll_allocate(request, allocation, operation, lent(credentials))
    }

    fn begin_release(
        request: ops::OperationRequest,
        allocation: cap::Allocation,
        owned: Vec<cap::OwnedResource>,
        credentials: Lent<'_>,
    ) -> Result<ops::BeginResult, Error> {
        T::begin_release(request, allocation, owned, lent(credentials))
    }

    fn poll_release(
        request: ops::OperationRequest,
        allocation: cap::Allocation,
        owned: Vec<cap::OwnedResource>,
        operation: ops::ProviderOperation,
        credentials: Lent<'_>,
    ) -> Result<cap::ReleasePollResult, Error> {
        T::poll_release(request, allocation, owned, operation, lent(credentials))
    }
}
