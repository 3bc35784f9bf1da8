//! What one callback's store holds, and the bounds on its memory.

use crate::{halt::Halt, limits, output::Output, random::Random};
use holdfast_effects::{Lend, Port};
use jiff::Timestamp;
use std::sync::Arc;
use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::WasiFilesystemCtx;

/// State of one callback. Lives as long as its store, which serves no other.
pub(crate) struct State {
    pub(crate) port: Arc<dyn Port>,
    /// Which handles were lent; a handle that was not is refused.
    pub(crate) lend: Lend,
    /// Streams and pollables only.
    pub(crate) table: ResourceTable,
    /// Without a single directory.
    pub(crate) files: WasiFilesystemCtx,
    pub(crate) output: Output,
    pub(crate) memory: MemoryLimits,
    random: Option<Random>,
}

impl State {
    pub(crate) fn new(port: Arc<dyn Port>, lend: Lend, memory_limit: usize) -> State {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits::STREAMS);
        State {
            output: Output::new(port.clone()),
            port,
            lend,
            table,
            files: WasiFilesystemCtx::default(),
            memory: MemoryLimits::new(memory_limit),
            random: None,
        }
    }

    /// The callback's frozen clock. A phase that may not see it ends here.
    pub(crate) fn now(&self) -> Result<Timestamp, Halt> {
        let text = self.port.now().map_err(Halt::Violation)?;
        text.parse()
            .map_err(|_| Halt::violation("HostClock", "the host's clock gave no time; nothing was done"))
    }

    /// A phase that may not see the clock gets no random numbers either.
    pub(crate) fn random(&mut self) -> Result<&mut Random, Halt> {
        if self.random.is_none() {
            self.port.now().map_err(Halt::Violation)?;
            self.random = Some(Random::new(self.port.seed()));
        }
        self.random.as_mut().ok_or_else(|| Halt::violation("HostRandom", "no random numbers"))
    }
}

/// Bounds all memories of the callback together, and remembers that one was refused.
pub(crate) struct MemoryLimits {
    limit: usize,
    used: usize,
    refused: bool,
}

impl MemoryLimits {
    fn new(limit: usize) -> MemoryLimits {
        MemoryLimits { limit, used: 0, refused: false }
    }

    /// The limit, if a growth was refused.
    pub(crate) fn hit(&self) -> Option<usize> {
        self.refused.then_some(self.limit)
    }
}

impl ResourceLimiter for MemoryLimits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let used = self.used.saturating_add(desired.saturating_sub(current));
        if used > self.limit {
            self.refused = true;
            return Ok(false);
        }
        self.used = used;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= limits::TABLE_ELEMENTS)
    }

    fn instances(&self) -> usize {
        limits::CORE_MODULES + limits::COMPONENTS
    }

    fn tables(&self) -> usize {
        16
    }

    fn memories(&self) -> usize {
        8
    }
}
