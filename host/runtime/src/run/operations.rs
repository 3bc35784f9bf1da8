//! Callbacks of `operations`.

use super::{credentials, judged, misrouted, user_data};
use crate::bindings::operations::Guest;
use crate::convert;
use crate::state::State;
use holdfast_effects::{Callback, Returned};
use wasmtime::Store;

pub(super) async fn drive(
    guest: &Guest,
    store: &mut Store<State>,
    callback: Callback,
) -> wasmtime::Result<Returned> {
    Ok(match callback {
        Callback::Execute { request, lend } => {
            let request = convert::request(request);
            let answer = guest.call_execute(store, &request, credentials(lend), user_data(lend)).await?;
            Returned::Execute(judged(answer, convert::result_back)?)
        }
        Callback::Begin { request, lend } => {
            let request = convert::request(request);
            let answer = guest.call_begin(store, &request, credentials(lend), user_data(lend)).await?;
            Returned::Begin(judged(answer, convert::begin_back)?)
        }
        Callback::Poll { request, operation, lend } => {
            let (request, operation) = (convert::request(request), convert::operation(operation));
            let answer = guest.call_poll(store, &request, &operation, credentials(lend)).await?;
            Returned::Poll(judged(answer, convert::poll_back)?)
        }
        Callback::Cancel { request, operation, lend } => {
            let (request, operation) = (convert::request(request), convert::operation(operation));
            let answer = guest.call_cancel(store, &request, &operation, credentials(lend)).await?;
            Returned::Cancel(judged(answer, Ok)?)
        }
        Callback::Cleanup { request, result, lend } => {
            let (request, result) = (convert::request(request), convert::result(result));
            let answer = guest.call_cleanup(store, &request, &result, credentials(lend)).await?;
            Returned::Cleanup(judged(answer, Ok)?)
        }
        _ => return Err(misrouted().into()),
    })
}
