//! The floor: wasmtime alone, with a host of a few lines that knows its answers, and the pool that the house uses.
//!
//! No limits on memory, handles or copies, no deadline, no checks of what is said, no threads of the guests' own.

use crate::support::{
    figures::{median, nanos_since},
    job,
};
use anyhow::Result;
use std::time::{Duration, Instant};
use wasmtime::component::{Component, HasSelf, Linker, Resource, ResourceTable};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

wasmtime::component::bindgen!({
    path: "../wit",
    world: "operations-provider",
    imports: {
        "holdfast:provider/calls.read": async | trappable,
        "holdfast:provider/calls.perform": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});

use exports::holdfast::provider::operations::{Machine, OperationRequest, ProviderOperation, State as Seen};
use holdfast::provider::{calls, clock, custody, log, types};

pub struct State {
    table: ResourceTable,
    wasi: WasiCtx,
    by_task: bool,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl types::Host for State {}
impl custody::Host for State {}

impl custody::HostCredentials for State {
    fn drop(&mut self, _: Resource<custody::Credentials>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl custody::HostUserData for State {
    fn drop(&mut self, _: Resource<custody::UserData>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl calls::Host for State {
    async fn read(
        &mut self,
        request: calls::Request,
    ) -> wasmtime::Result<Result<calls::Reply, types::Error>> {
        let reply = move || calls::Reply { status: 200, fields: job::answer(&request.call).to_owned() };
        if !self.by_task {
            return Ok(Ok(reply()));
        }
        // The request holds handles, which stay here.
        let reply = reply();
        Ok(Ok(tokio::spawn(async move { reply }).await?))
    }

    async fn perform(
        &mut self,
        _key: String,
        _request: calls::Request,
    ) -> wasmtime::Result<Result<calls::Outcome, types::Error>> {
        Err(wasmtime::Error::msg("a poll performs nothing"))
    }

    fn recorded(&mut self, _key: String) -> wasmtime::Result<Option<calls::Outcome>> {
        Ok(None)
    }

    fn token(&mut self, key: String) -> wasmtime::Result<String> {
        Ok(key)
    }
}

impl log::Host for State {
    fn write(&mut self, _: log::Level, _: String, _: Vec<(String, String)>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<String> {
        Ok("2026-01-01T00:00:00Z".to_owned())
    }
}

/// An engine with one component.
pub struct Floor {
    engine: Engine,
    pre: OperationsProviderPre<State>,
}

impl Floor {
    /// `zeroing`: stacks are zeroed between calls, as in the house.
    pub fn new(module: &[u8], zeroing: bool) -> Result<Floor> {
        let mut config = Config::new();
        config
            .epoch_interruption(true)
            .async_stack_zeroing(zeroing)
            .allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        OperationsProvider::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        let pre = linker.instantiate_pre(&Component::new(&engine, module)?)?;
        let ticking = engine.weak();
        std::thread::spawn(move || {
            while let Some(engine) = ticking.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Ok(Floor { engine, pre: OperationsProviderPre::new(pre)? })
    }

    async fn poll(
        &self,
        request: &OperationRequest,
        operation: &ProviderOperation,
        by_task: bool,
    ) -> Result<()> {
        let (request, operation) = (request.clone(), operation.clone());
        let mut store = self.store(by_task);
        let instance = self.pre.instantiate_async(&mut store).await?;
        let guest = instance.holdfast_provider_operations();
        let credentials = Some(Resource::new_borrow(1));
        match guest.call_poll(&mut store, &request, &operation, credentials).await? {
            Ok(poll) if matches!(poll.state, Seen::Succeeded) => Ok(()),
            other => anyhow::bail!("the poll did not succeed: {other:?}"),
        }
    }

    /// Where one poll's time goes, median of many, in microseconds: store, instance, the guest's own callback, the end.
    pub async fn parts(&self, times: usize) -> Result<[f64; 4]> {
        let (request, operation) = (request(), operation());
        let mut parts: [Vec<f64>; 4] = Default::default();
        for _ in 0..times {
            let mut marks = [Instant::now(); 5];
            let mut store = self.store(false);
            marks[1] = Instant::now();
            let instance = self.pre.instantiate_async(&mut store).await?;
            marks[2] = Instant::now();
            let guest = instance.holdfast_provider_operations();
            let answer =
                guest.call_poll(&mut store, &request, &operation, Some(Resource::new_borrow(1))).await?;
            anyhow::ensure!(answer.is_ok(), "the poll did not succeed");
            marks[3] = Instant::now();
            drop(store);
            marks[4] = Instant::now();
            for (part, mark) in parts.iter_mut().zip(marks.windows(2)) {
                part.push((mark[1] - mark[0]).as_nanos() as f64 / 1000.0);
            }
        }
        Ok(parts.map(median))
    }

    fn store(&self, by_task: bool) -> Store<State> {
        let state = State { table: ResourceTable::new(), wasi: WasiCtx::builder().build(), by_task };
        let mut store = Store::new(&self.engine, state);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store
    }

    /// Polls until the time is over; how long each took.
    pub async fn polls(&self, length: Duration, by_task: bool) -> Vec<u64> {
        let (request, operation) = (request(), operation());
        let (mut nanos, begun) = (Vec::with_capacity(1 << 16), Instant::now());
        while begun.elapsed() < length {
            let one = Instant::now();
            self.poll(&request, &operation, by_task).await.expect("the floor's poll");
            nanos.push(nanos_since(one));
        }
        nanos
    }
}

/// The numbers of the house's own pool.
fn pool() -> PoolingAllocationConfig {
    let n = holdfast_runtime::EngineOptions::default().concurrent_calls;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(n)
        .total_core_instances(4 * n)
        .total_memories(2 * n)
        .total_tables(4 * n)
        .total_stacks(n)
        .max_memory_size(holdfast_runtime::EngineOptions::default().memory_limit)
        .table_elements(holdfast_runtime::limits::TABLE_ELEMENTS)
        .linear_memory_keep_resident(2 << 20)
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(64 << 10)
        .pagemap_scan(Enabled::Auto);
    pool
}

fn request() -> OperationRequest {
    let request = job::request();
    OperationRequest {
        name: request.name,
        uid: request.uid,
        kind: request.kind,
        parameters: request.parameters,
        machine: Machine {
            name: request.machine.name,
            uid: request.machine.uid,
            generation: request.machine.generation,
            provider_ref: None,
            provider_id: request.machine.provider_id,
            host_image: request.machine.host_image,
        },
        site: request.site,
        started_at: request.started_at,
        accepted_at: request.accepted_at,
        deadline: request.deadline,
        attempt: request.attempt,
    }
}

fn operation() -> ProviderOperation {
    let operation = job::operation();
    ProviderOperation { operation_id: operation.operation_id, resume_token: operation.resume_token }
}
