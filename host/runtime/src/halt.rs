//! The error that a host function ends a guest with, and what an engine error means.

use crate::error::{CallEnd, TrapKind};
use holdfast_effects::Violation;
use wasmtime::Trap;

/// Why a host function stopped the guest. Travels through the engine as an error and is taken out at the end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Halt {
    #[error("{0}")]
    Violation(Violation),
    #[error("the module called exit")]
    Exit,
    #[error("the callback's deadline")]
    Deadline,
}

impl Halt {
    /// A bound or rule of this crate that the guest broke.
    pub(crate) fn violation(reason: &str, message: impl Into<String>) -> Halt {
        Halt::Violation(Violation { reason: reason.to_owned(), message: message.into() })
    }
}

/// Reads the engine's error. `memory`: the limit, if a growth of memory was refused in this callback.
pub(crate) fn call_end(error: &wasmtime::Error, memory: Option<usize>) -> CallEnd {
    if let Some(halt) = error.downcast_ref::<Halt>() {
        return match halt {
            Halt::Violation(violation) => CallEnd::Violation(violation.clone()),
            Halt::Exit => CallEnd::trap(TrapKind::Exit),
            Halt::Deadline => CallEnd::Deadline,
        };
    }
    if error.is::<wasmtime::PoolConcurrencyLimitError>() {
        return CallEnd::Overloaded;
    }
    if let Some(limit) = memory {
        return CallEnd::Memory { limit };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt | Trap::OutOfFuel) => CallEnd::Deadline,
        Some(trap) => CallEnd::trap(kind(*trap)),
        None => CallEnd::trap(kind_of_text(&format!("{error:#}"))),
    }
}

fn kind(trap: Trap) -> TrapKind {
    match trap {
        Trap::UnreachableCodeReached => TrapKind::Panic,
        Trap::StackOverflow => TrapKind::StackOverflow,
        Trap::MemoryOutOfBounds | Trap::TableOutOfBounds | Trap::HeapMisaligned => TrapKind::OutOfBounds,
        Trap::IntegerOverflow | Trap::IntegerDivisionByZero | Trap::BadConversionToInteger => {
            TrapKind::Arithmetic
        }
        Trap::IndirectCallToNull | Trap::BadSignature | Trap::NullReference => TrapKind::BadCall,
        Trap::InvalidChar
        | Trap::StringOutOfBounds
        | Trap::ListOutOfBounds
        | Trap::InvalidDiscriminant
        | Trap::UnalignedPointer => TrapKind::BadValue,
        _ => TrapKind::Other,
    }
}

/// Errors of the component model have no type of their own. The words only choose a label; nothing depends on it.
fn kind_of_text(text: &str) -> TrapKind {
    const BAD_VALUES: [&str; 7] =
        ["utf-8", "out of bounds", "discriminant", "unaligned", "not aligned", "fuel", "too large"];
    if text.contains("borrow handles still remain") {
        TrapKind::HandleKept
    } else if BAD_VALUES.iter().any(|word| text.contains(word)) {
        TrapKind::BadValue
    } else {
        TrapKind::Other
    }
}
