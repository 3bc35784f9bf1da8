//! Why a module was refused, and how a callback ended that gave no answer. Each displays as one sentence.

use crate::limits;
use holdfast_effects::Violation;

/// The engine could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the engine refused its configuration: {0}")]
    Configuration(String),
    #[error("a thread of the engine could not be started: {0}")]
    Thread(#[source] std::io::Error),
    #[error("the engine's own imports could not be linked: {0}")]
    Link(String),
}

/// Why a file is not a module that this host runs: the rule, and the thing to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("the file has {size} bytes and a module may have {limit}; build in release mode and strip it")]
    TooLarge { size: usize, limit: usize },
    #[error("the file is not WebAssembly; a provider is one component built for wasm32-wasip2")]
    NotWasm,
    #[error("this is a core module; build for wasm32-wasip2, which makes a component")]
    CoreModule,
    #[error(
        "the file holds precompiled native code, which nobody can check (attack 74); give the .wasm it was made from"
    )]
    Precompiled,
    #[error("the file is damaged or uses what this host leaves off: {0}; copy it again or rebuild it")]
    Malformed(String),
    #[error(
        "no custom section `{section}` was found; embed provider.toml with the SDK's `provider!` macro",
        section = crate::MANIFEST_SECTION
    )]
    NoManifest,
    #[error(
        "the module has {0} custom sections `{section}` and exactly one is allowed; link one provider into it",
        section = crate::MANIFEST_SECTION
    )]
    SeveralManifests(usize),
    #[error("the manifest has {size} bytes and may have {limit}", limit = limits::MANIFEST_BYTES)]
    ManifestTooLarge { size: usize },
    #[error("the manifest is not UTF-8 text; save provider.toml as UTF-8")]
    ManifestNotText,
    #[error("the manifest was refused: {0}")]
    Manifest(String),
    #[error(
        "module speaks {module}, this host speaks {host}; rebuild it with the SDK of contract {host} (holdfast:provider@{host}.0)",
        host = crate::CONTRACT
    )]
    Contract { module: String },
    #[error("the module exports nothing of `holdfast:provider`; export the interface `operations`")]
    NoContract,
    #[error(
        "the module imports `{name}`, which no provider is given: {rule}; remove the dependency that needs it"
    )]
    Import { name: String, rule: &'static str },
    #[error(
        "the module exports `{name}`, which is not an interface of the contract; a module exports only what it declares"
    )]
    Export { name: String },
    #[error("{what} is not yet served by this version; remove it or use a later one")]
    NotYetServed { what: String },
    #[error("manifest and exports disagree (L11): {0}")]
    Disagreement(String),
    #[error("the module has more than {limit} {what}; a provider needs far fewer")]
    TooMany { what: &'static str, limit: u64 },
    #[error("the module was not compiled: {0}")]
    Compile(String),
    #[error("the module's types do not fit the contract: {0}; rebuild it with the SDK of this contract")]
    Types(String),
}

/// How a callback ended without an answer. `Display` is one sentence and holds no text of the guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallEnd {
    /// The guest did what its phase, its manifest or its limits forbid.
    #[error("{0}")]
    Violation(Violation),
    /// The guest failed by itself.
    #[error("{message}")]
    Trap { reason: TrapKind, message: String },
    /// The callback's time was over. A mutating call on the wire goes on and is recorded.
    #[error("the callback was stopped at its deadline (attack 79)")]
    Deadline,
    /// The guest stopped after it was refused more memory.
    #[error("the module needed more than its {limit} bytes of memory and stopped (attack 80)")]
    Memory { limit: usize },
    /// No instance became free before the deadline.
    #[error("no instance became free in time; raise the number of concurrent calls or ask again later")]
    Overloaded,
    /// The engine is being shut down.
    #[error("the engine is shutting down")]
    Closed,
    /// A fault of this host, not of the module.
    #[error("the host failed inside the callback; the daemon goes on (attack 81)")]
    Fault,
}

impl CallEnd {
    /// CamelCase word for a condition.
    pub fn reason(&self) -> &str {
        match self {
            CallEnd::Violation(violation) => &violation.reason,
            CallEnd::Trap { reason, .. } => reason.as_str(),
            CallEnd::Deadline => "CallbackDeadline",
            CallEnd::Memory { .. } => "OutOfMemory",
            CallEnd::Overloaded => "Overloaded",
            CallEnd::Closed => "ShuttingDown",
            CallEnd::Fault => "HostFault",
        }
    }

    pub(crate) fn trap(reason: TrapKind) -> CallEnd {
        CallEnd::Trap { reason, message: reason.sentence().to_owned() }
    }
}

/// What kind of failure stopped a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TrapKind {
    /// A panic, or another deliberate stop.
    Panic,
    /// Memory or a table was used outside its bounds; endless recursion in Rust looks like this too.
    OutOfBounds,
    StackOverflow,
    Arithmetic,
    /// A call through a bad function pointer.
    BadCall,
    /// The guest called `exit`.
    Exit,
    /// A lent handle was kept beyond the callback.
    HandleKept,
    /// What it passed or returned is no value of the declared type, or is far too large.
    BadValue,
    Other,
}

impl TrapKind {
    /// CamelCase word for a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            TrapKind::Panic => "ModulePanicked",
            TrapKind::OutOfBounds => "ModuleOutOfBounds",
            TrapKind::StackOverflow => "ModuleStackOverflow",
            TrapKind::Arithmetic => "ModuleArithmetic",
            TrapKind::BadCall => "ModuleBadCall",
            TrapKind::Exit => "ModuleExited",
            TrapKind::HandleKept => "HandleKept",
            TrapKind::BadValue => "ModuleBadValue",
            TrapKind::Other => "ModuleFailed",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            TrapKind::Panic => "the module panicked; its log has what it said",
            TrapKind::OutOfBounds => {
                "the module used memory outside its bounds (endless recursion looks like this too)"
            }
            TrapKind::StackOverflow => "the module used up its stack",
            TrapKind::Arithmetic => "the module divided by zero or overflowed",
            TrapKind::BadCall => "the module called through a bad function pointer",
            TrapKind::Exit => "the module called exit instead of returning",
            TrapKind::HandleKept => "the module kept a lent handle beyond the callback",
            TrapKind::BadValue => "the module passed a value that is malformed or far too large",
            TrapKind::Other => "the module failed",
        }
    }
}
