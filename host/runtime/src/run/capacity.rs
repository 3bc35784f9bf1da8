//! Callbacks of `capacity`, by what they are about.

use super::{credentials, judged, lent_data, misrouted};
use crate::bindings::capacity::Guest;
use crate::convert::{self, capacity as to};
use crate::state::State;
use holdfast_effects::{Callback, Returned};
use wasmtime::Store;

pub(super) async fn class(
    guest: &Guest,
    store: &mut Store<State>,
    callback: Callback,
) -> wasmtime::Result<Returned> {
    Ok(match callback {
        Callback::ResolveClass { request, lend } => {
            let answer =
                guest.call_resolve_class(store, &to::class_request(request), credentials(lend)).await?;
            Returned::ResolveClass(judged(answer, to::offerings_back)?)
        }
        Callback::PlanAllocation { request } => {
            let answer = guest.call_plan_allocation(store, &to::plan_request(request)).await?;
            Returned::PlanAllocation(judged(answer, to::plan_back)?)
        }
        _ => return Err(misrouted().into()),
    })
}

pub(super) async fn allocate(
    guest: &Guest,
    store: &mut Store<State>,
    callback: Callback,
) -> wasmtime::Result<Returned> {
    Ok(match callback {
        Callback::BeginAllocate { request, allocation, config, lend } => {
            let (request, allocation) = (convert::request(request), to::allocation(allocation));
            let (credentials, data) = (credentials(lend), lent_data());
            let answer =
                guest.call_begin_allocate(store, &request, &allocation, &config, credentials, data).await?;
            Returned::BeginAllocate(judged(answer, convert::begin_back)?)
        }
        Callback::PollAllocate { request, allocation, operation, lend } => {
            let (request, allocation) = (convert::request(request), to::allocation(allocation));
            let operation = convert::operation(operation);
            let answer =
                guest.call_poll_allocate(store, &request, &allocation, &operation, credentials(lend)).await?;
            Returned::PollAllocate(judged(answer, to::allocate_poll_back)?)
        }
        _ => return Err(misrouted().into()),
    })
}

pub(super) async fn release(
    guest: &Guest,
    store: &mut Store<State>,
    callback: Callback,
) -> wasmtime::Result<Returned> {
    Ok(match callback {
        Callback::BeginRelease { request, allocation, owned, lend } => {
            let (request, allocation) = (convert::request(request), to::allocation(allocation));
            let owned = to::owned(owned);
            let answer =
                guest.call_begin_release(store, &request, &allocation, &owned, credentials(lend)).await?;
            Returned::BeginRelease(judged(answer, convert::begin_back)?)
        }
        Callback::PollRelease { request, allocation, owned, operation, lend } => {
            let (request, allocation) = (convert::request(request), to::allocation(allocation));
            let (owned, operation) = (to::owned(owned), convert::operation(operation));
            let answer = guest
                .call_poll_release(store, &request, &allocation, &owned, &operation, credentials(lend))
                .await?;
            Returned::PollRelease(judged(answer, to::release_poll_back)?)
        }
        _ => return Err(misrouted().into()),
    })
}
