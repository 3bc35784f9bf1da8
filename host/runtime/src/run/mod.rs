//! One callback in one store, from a fresh instance to a bounded answer.

mod capacity;
mod operations;

use crate::bindings::{Credentials, UserData, types};
use crate::convert;
use crate::error::CallEnd;
use crate::exports::Exports;
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
    pub(crate) exports: Exports,
    pub(crate) callback: Callback,
    pub(crate) port: Arc<dyn Port>,
    pub(crate) until: Instant,
    /// Given back only once the store is gone, so that a permit always stands for a free instance.
    pub(crate) permit: OwnedSemaphorePermit,
}

pub(crate) async fn run(call: Call) -> Result<Returned, CallEnd> {
    let Call { engine, memory_limit, exports, callback, port, until, permit } = call;
    let answer = {
        let mut store = store(&engine, State::new(port, lend(&callback), memory_limit), until);
        store.set_hostcall_fuel(copied(&callback));
        let answer = drive(&exports, &mut store, callback).await;
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

/// What one host call, or the answer, may copy out of the guest.
fn copied(callback: &Callback) -> usize {
    match callback {
        Callback::ResolveClass { .. } => limits::CLASS_BYTES,
        _ => limits::HOSTCALL_BYTES,
    }
}

async fn drive(
    exports: &Exports,
    store: &mut Store<State>,
    callback: Callback,
) -> wasmtime::Result<Returned> {
    let guest = exports.instantiate(store).await?;
    match callback {
        Callback::Execute { .. }
        | Callback::Begin { .. }
        | Callback::Poll { .. }
        | Callback::Cancel { .. }
        | Callback::Cleanup { .. } => operations::drive(&guest.operations, store, callback).await,
        Callback::ResolveClass { .. } | Callback::PlanAllocation { .. } => {
            capacity::class(guest.capacity()?, store, callback).await
        }
        Callback::BeginAllocate { .. } | Callback::PollAllocate { .. } => {
            capacity::allocate(guest.capacity()?, store, callback).await
        }
        Callback::BeginRelease { .. } | Callback::PollRelease { .. } => {
            capacity::release(guest.capacity()?, store, callback).await
        }
    }
}

/// A callback went to an interface that does not have it.
fn misrouted() -> Halt {
    Halt::violation("Misrouted", "the host sent a callback to the wrong interface; nothing was done")
}

fn credentials(lend: Lend) -> Option<Resource<Credentials>> {
    lend.credentials.then(|| Resource::new_borrow(CREDENTIALS))
}

fn user_data(lend: Lend) -> Option<Resource<UserData>> {
    lend.user_data.then(|| Resource::new_borrow(USER_DATA))
}

/// The contract lends first-boot data to every allocation. A call that presents a handle which was not lent is refused.
fn lent_data() -> Resource<UserData> {
    Resource::new_borrow(USER_DATA)
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
