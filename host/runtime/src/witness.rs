//! Looking at the whole linear memory of every guest when it ends: evidence that no secret was ever in one.
//!
//! The component model gives no way to a component's own memories, and should not. With a witness the engine makes
//! memories itself instead of taking them from the pool, and shows each one before it is freed. That is slow, and
//! meant for demonstrations and tests.

use std::sync::Arc;
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

/// Is shown memories. Called on whichever thread ends a guest; must not panic.
pub trait MemoryWitness: Send + Sync + 'static {
    /// One linear memory as a guest left it.
    fn memory(&self, bytes: &[u8]);
}

pub(crate) struct Witnessed(pub(crate) Arc<dyn MemoryWitness>);

// SAFETY: `new_memory` gives zeroed memory of at least `minimum` bytes, as `Shown` says; it is used only with an engine
// that was configured without reservation and guard regions, so that compiled code checks every bound itself.
unsafe impl MemoryCreator for Witnessed {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        _: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        if guard != 0 || reserved.is_some_and(|bytes| bytes > minimum) {
            return Err("a witnessed memory has no reservation and no guard region".to_owned());
        }
        let mut memory = Shown { pages: Vec::new(), bytes: 0, witness: self.0.clone() };
        memory.grow_to(minimum).map_err(|error| format!("{error:#}"))?;
        Ok(Box::new(memory))
    }
}

const PAGE: usize = 4096;

/// Memories are page-aligned, as a system's would be.
#[derive(Clone)]
#[repr(align(4096))]
#[allow(dead_code, reason = "read and written through the pointer")]
struct Page([u8; PAGE]);

struct Shown {
    pages: Vec<Page>,
    bytes: usize,
    witness: Arc<dyn MemoryWitness>,
}

// SAFETY: the pointer stands for `bytes` initialised bytes of `pages`, which move only in `grow_to`; the engine reads the
// pointer anew after it, since it was told that memories may move.
unsafe impl LinearMemory for Shown {
    fn byte_size(&self) -> usize {
        self.bytes
    }

    fn byte_capacity(&self) -> usize {
        self.pages.len() * PAGE
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        self.pages.resize(new_size.div_ceil(PAGE), Page([0; PAGE]));
        self.bytes = new_size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.pages.as_ptr() as *mut u8
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // SAFETY: the pages hold at least `bytes` bytes, and the guest that wrote them is gone.
        let bytes = unsafe { std::slice::from_raw_parts(self.as_ptr(), self.bytes) };
        self.witness.memory(bytes);
    }
}
