//! One callback in one store, from a fresh instance to a bounded answer.

use crate::bindings::{Credentials, OperationsProvider, OperationsProviderPre, UserData, types};
use crate::convert;
use crate::error::CallEnd;
use crate::halt::{Halt, call_end};
use crate::imports::{CREDENTIALS, USER_DATA};
use crate::limits;
use crate::state::State;
use holdfast_effects::{Callback, Failure, Lend, Port, Returned};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::Resource;
use wasmtime::{Engine, Store, UpdateDeadline};

/// All that a callback needs, owned: it runs on another runtime than its caller.
pub(crate) struct Call {
    pub(crate) engine: Engine,
    pub(crate) memory_limit: usize,
    pub(crate) pre: OperationsProviderPre<State>,
    pub(crate) callback: Callback,
    pub(crate) port: Arc<dyn Port>,
    pub(crate) until: Instant,
    /// Given back only once the store is gone, so that a permit always stands for a free instance.
    pub(crate) permit: OwnedSemaphorePermit,
}

pub(crate) async fn run(call: Call) -> Result<Returned, CallEnd> {
    let Call { engine, memory_limit, pre, callback, port, until, permit } = call;
    let answer = {
        let mut store = store(&engine, State::new(port, lend(&callback), memory_limit), until);
        let answer = drive(&pre, &mut store, callback).await;
        let said = store.data().output.finish();
        match (answer, said) {
            (Ok(returned), Ok(())) => Ok(returned),
            (Err(error), _) => Err(call_end(&error, store.data().memory.hit())),
            (Ok(_), Err(halt)) => Err(call_end(&halt.into(), None)),
        }
    };
    drop(permit);
    answer
}

fn lend(callback: &Callback) -> Lend {
    match callback {
        Callback::Execute { lend, .. }
        | Callback::Begin { lend, .. }
        | Callback::Poll { lend, .. }
        | Callback::Cancel { lend, .. }
        | Callback::Cleanup { lend, .. }
        | Callback::ResolveClass { lend, .. }
        | Callback::BeginAllocate { lend, .. }
        | Callback::PollAllocate { lend, .. }
        | Callback::BeginRelease { lend, .. }
        | Callback::PollRelease { lend, .. } => *lend,
        Callback::PlanAllocation { .. } => Lend::default(),
    }
}

fn store(engine: &Engine, state: State, until: Instant) -> Store<State> {
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.memory);
    store.set_hostcall_fuel(limits::HOSTCALL_BYTES);
    store.set_max_component_handles(limits::HANDLES);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        if Instant::now() >= until {
            return Err(Halt::Deadline.into());
        }
        Ok(UpdateDeadline::Yield(1))
    });
    store
}

async fn drive(
    pre: &OperationsProviderPre<State>,
    store: &mut Store<State>,
    callback: Callback,
) -> wasmtime::Result<Returned> {
    let instance: OperationsProvider = pre.instantiate_async(&mut *store).await?;
    let guest = instance.holdfast_provider_operations();
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
        Callback::ResolveClass { .. }
        | Callback::PlanAllocation { .. }
        | Callback::BeginAllocate { .. }
        | Callback::PollAllocate { .. }
        | Callback::BeginRelease { .. }
        | Callback::PollRelease { .. } => {
            return Err(
                Halt::violation("NotServed", "capacity is not served by this version".to_owned()).into()
            );
        }
    })
}

fn credentials(lend: Lend) -> Option<Resource<Credentials>> {
    lend.credentials.then(|| Resource::new_borrow(CREDENTIALS))
}

fn user_data(lend: Lend) -> Option<Resource<UserData>> {
    lend.user_data.then(|| Resource::new_borrow(USER_DATA))
}

fn judged<T, U>(
    answer: Result<T, types::Error>,
    good: impl FnOnce(T) -> Result<U, Halt>,
) -> Result<Result<U, Failure>, Halt> {
    Ok(match answer {
        Ok(value) => Ok(good(value)?),
        Err(error) => Err(convert::failure_back(error)?),
    })
}
