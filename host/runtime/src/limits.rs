//! Bounds on everything that a guest or a file can make large (attacks 78 to 81).
//!
//! Sizes are bytes. What crosses a bound is refused with a sentence that names it; log lines are cut instead.

/// A module file.
pub const MODULE_BYTES: usize = 64 << 20;
/// The manifest's text.
pub const MANIFEST_BYTES: usize = 256 << 10;
/// Core modules in one component, nested ones included; a plain Rust module has 3 or 4.
pub const CORE_MODULES: usize = 20;
/// Components in one file, the outer one included.
pub const COMPONENTS: usize = 20;
/// Functions of all core modules together.
pub const FUNCTIONS: u64 = 200_000;
/// Imports of the component.
pub const IMPORTS: usize = 64;
/// Exports of the component.
pub const EXPORTS: usize = 16;
/// Custom sections of all levels together.
pub const CUSTOM_SECTIONS: usize = 256;

/// JSON of a call's arguments.
pub const ARGS: usize = 64 << 10;
/// A call's name.
pub const CALL_NAME: usize = 64;
/// A `perform` key.
pub const KEY: usize = 64;
/// First-boot data slots filled in one call.
pub const SLOTS: usize = 16;

/// Log lines of one callback, those of stdout and stderr included.
pub const LOG_LINES: u32 = 256;
/// A log line's message; cut.
pub const LOG_MESSAGE: usize = 4 << 10;
/// Fields of a log line; further ones are dropped.
pub const LOG_FIELDS: usize = 32;
/// Name of a log field; cut.
pub const LOG_FIELD_NAME: usize = 64;
/// Value of a log field; cut.
pub const LOG_FIELD_VALUE: usize = 1 << 10;

/// A returned message, before the room below cuts it for people.
pub const MESSAGE: usize = 64 << 10;
/// A returned reason, error word, operation id or identity.
pub const WORD: usize = 4 << 10;
pub const RESUME_TOKEN: usize = 16 << 10;

/// Offerings of a resolved class.
pub const OFFERINGS: usize = 512;
/// Pairs of one list of an offering.
pub const PAIRS: usize = 256;
/// Resources in one list of a result.
pub const OWNED: usize = 128;

/// What the answer to a class resolution may copy out of the guest.
pub const CLASS_BYTES: usize = 2 << 20;
/// What one host call may copy out of the guest: a little above the largest answer allowed.
pub const HOSTCALL_BYTES: usize = 256 << 10;
/// Random bytes of one request.
pub const RANDOM_BYTES: u64 = 64 << 10;
/// Streams and pollables held by a guest at once.
pub const STREAMS: usize = 64;
/// Handles of the component model held by a guest at once.
pub const HANDLES: usize = 1024;
/// Elements of a table.
pub const TABLE_ELEMENTS: usize = 20_000;
