//! The exported interfaces of one module, looked up once: `operations`, and `capacity` where the module has it.

use crate::bindings::{capacity, operations};
use crate::halt::Halt;
use crate::state::State;
use wasmtime::Store;
use wasmtime::component::InstancePre;

/// A linked module, ready for any number of fresh instances.
#[derive(Clone)]
pub(crate) struct Exports {
    pre: InstancePre<State>,
    operations: operations::GuestIndices,
    capacity: Option<capacity::GuestIndices>,
}

/// One instance and its interfaces.
pub(crate) struct Guest {
    pub(crate) operations: operations::Guest,
    capacity: Option<capacity::Guest>,
}

impl Exports {
    /// `with_capacity`: does the module export `capacity`?
    pub(crate) fn new(pre: InstancePre<State>, with_capacity: bool) -> wasmtime::Result<Exports> {
        Ok(Exports {
            operations: operations::GuestIndices::new(&pre)?,
            capacity: with_capacity.then(|| capacity::GuestIndices::new(&pre)).transpose()?,
            pre,
        })
    }

    pub(crate) async fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<Guest> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        let capacity = self.capacity.as_ref().map(|found| found.load(&mut *store, &instance)).transpose()?;
        Ok(Guest { operations: self.operations.load(&mut *store, &instance)?, capacity })
    }
}

impl Guest {
    /// Its `capacity`, or the end of the callback.
    pub(crate) fn capacity(&self) -> Result<&capacity::Guest, Halt> {
        self.capacity.as_ref().ok_or_else(|| {
            Halt::violation(
                "NotExported",
                "the module exports no `capacity`; it resolves no classes and allocates no hosts (L11)",
            )
        })
    }
}
