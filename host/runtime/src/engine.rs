//! The engine: one per process, with its clock thread, its threads for guests and its bound on concurrent calls.
//!
//! Guests that last run on a tokio runtime of their own, so that spinning modules cannot freeze the daemon (goals I1 and
//! I2); see [`Module::call`](crate::Module::call) for where they begin.

use crate::bindings::CapacityProvider;
use crate::error::{EngineError, LoadError};
use crate::exports::Exports;
use crate::inspect::{Inspected, inspect};
use crate::module::Module;
use crate::state::State;
use crate::witness::{MemoryWitness, Witnessed};
use crate::{limits, wasi};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy};

/// What long callbacks leave of the processors to the rest of the process: a tenth of its share is theirs when both are
/// busy.
const GUEST_NICENESS: i32 = 10;

/// How an engine is set up. Start from the default.
#[derive(Clone)]
pub struct EngineOptions {
    /// Calls that run at once; each keeps an instance slot and, of address space, some gigabytes. At least 1.
    pub concurrent_calls: u32,
    /// Bytes of linear memory for one call, all its memories together.
    pub memory_limit: usize,
    /// Longest time of one callback, whatever deadline its caller names.
    pub call_timeout: Duration,
    /// A running guest is interrupted this often to let others run and to look at its deadline.
    pub tick: Duration,
    /// Threads that run guests. At least 1.
    pub guest_threads: usize,
    /// Is shown every guest's memory when it ends. Slow: for demonstrations and tests.
    pub witness: Option<Arc<dyn MemoryWitness>>,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            concurrent_calls: 64,
            memory_limit: 64 << 20,
            call_timeout: Duration::from_secs(120),
            tick: Duration::from_millis(10),
            guest_threads: 2,
            witness: None,
        }
    }
}

/// Compiles modules and runs their callbacks. Cheap to clone; make one per process (attack 84).
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: wasmtime::Engine,
    linker: Linker<State>,
    pub(crate) options: EngineOptions,
    /// As many permits as the pool has instances: the pool itself does not wait.
    pub(crate) permits: Arc<Semaphore>,
    guests: tokio::runtime::Handle,
    /// Some until the end; a runtime must not be dropped inside another, see [`Drop`].
    runtime: Option<tokio::runtime::Runtime>,
}

impl Engine {
    /// Starts the engine's threads. They end with the last clone and the last running call.
    ///
    /// # Errors
    /// Where the pool cannot be mapped, or a thread not be started.
    pub fn new(options: EngineOptions) -> Result<Engine, EngineError> {
        let refused = |error: wasmtime::Error| EngineError::Configuration(format!("{error:#}"));
        let engine = wasmtime::Engine::new(&config(&options)).map_err(refused)?;
        let linker = linker(&engine).map_err(|error| EngineError::Link(format!("{error:#}")))?;
        start_ticker(&engine, options.tick)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.guest_threads.max(1))
            .thread_name("holdfast-guest")
            // A worker looks at timers and wake-ups after each poll, and each poll of a guest lasts up to a tick.
            .event_interval(1)
            .global_queue_interval(1)
            // The rest of the process goes first. On Linux this is the thread's own; where it fails all are equal.
            .on_thread_start(|| {
                let _ = rustix::process::nice(GUEST_NICENESS);
            })
            .enable_all()
            .build()
            .map_err(EngineError::Thread)?;
        let permits = Arc::new(Semaphore::new(options.concurrent_calls.max(1) as usize));
        let guests = runtime.handle().clone();
        let inner = Inner { engine, linker, options, permits, guests, runtime: Some(runtime) };
        Ok(Engine { inner: Arc::new(inner) })
    }

    /// Checks, compiles and pre-links a module. Blocks for as long as compiling takes (about a second per megabyte).
    ///
    /// # Errors
    /// One [`LoadError`] that names the rule and the thing to change.
    pub fn load(&self, bytes: &[u8]) -> Result<Arc<Module>, LoadError> {
        self.compile(bytes, inspect(bytes)?)
    }

    /// The second half of [`load`](Self::load), for bytes that were inspected.
    pub(crate) fn compile(&self, bytes: &[u8], inspected: Inspected) -> Result<Arc<Module>, LoadError> {
        let component = Component::new(&self.inner.engine, bytes)
            .map_err(|error| LoadError::Compile(one_line(&format!("{error:#}"))))?;
        let exports = self
            .inner
            .linker
            .instantiate_pre(&component)
            .and_then(|pre| Exports::new(pre, inspected.has_capacity()))
            .map_err(|error| LoadError::Types(one_line(&format!("{error:#}"))))?;
        Ok(Arc::new(Module::new(self.clone(), inspected, exports)))
    }

    pub(crate) fn guests(&self) -> &tokio::runtime::Handle {
        &self.inner.guests
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.permits.close();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn one_line(text: &str) -> String {
    crate::shape::cut(text.split_whitespace().collect::<Vec<_>>().join(" "), 512)
}

/// The only place that decides how modules are compiled and what they may use.
fn config(options: &EngineOptions) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .epoch_interruption(true)
        .memory_init_cow(true)
        .parallel_compilation(true)
        // Nothing of one call's stack may reach another's (attack 24); costs a few microseconds.
        .async_stack_zeroing(true)
        .wasm_backtrace_max_frames(None)
        .shared_memory(false)
        .wasm_tail_call(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .wasm_relaxed_simd(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false);
    match &options.witness {
        None => config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options))),
        Some(witness) => config
            .allocation_strategy(InstanceAllocationStrategy::OnDemand)
            .with_host_memory(Arc::new(Witnessed(witness.clone())))
            .memory_init_cow(false)
            .memory_may_move(true)
            .memory_reservation(0)
            .memory_reservation_for_growth(0)
            .memory_guard_size(0),
    };
    config
}

/// Measured in the performance reference, 3c: without `keep_resident` and `pagemap_scan` two threads are slower
/// than one.
fn pool(options: &EngineOptions) -> PoolingAllocationConfig {
    let n = options.concurrent_calls.max(1);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(n)
        .total_core_instances(4 * n)
        .total_memories(2 * n)
        .total_tables(4 * n)
        .total_stacks(n)
        .max_core_instances_per_component(limits::CORE_MODULES as u32)
        .max_memories_per_component(2)
        .max_tables_per_component(8)
        .max_memory_size(options.memory_limit)
        .table_elements(limits::TABLE_ELEMENTS)
        .linear_memory_keep_resident(2 << 20)
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(64 << 10)
        .pagemap_scan(Enabled::Auto);
    pool
}

fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasi::link(&mut linker)?;
    CapacityProvider::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// A thread and not a task: a busy worker would starve a task, and a guest without a tick runs for ever (attack 79).
/// It holds the engine weakly and ends with it.
fn start_ticker(engine: &wasmtime::Engine, tick: Duration) -> Result<(), EngineError> {
    let engine = engine.weak();
    let tick = tick.max(Duration::from_millis(1));
    std::thread::Builder::new()
        .name("holdfast-tick".to_owned())
        .spawn(move || {
            loop {
                std::thread::sleep(tick);
                match engine.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        })
        .map_err(EngineError::Thread)?;
    Ok(())
}
