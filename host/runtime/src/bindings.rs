//! Bindings of the contract, generated from `wit/`.
//!
//! One world for all modules: which of its interfaces a module exports is looked up interface by interface.
//! Only calls that leave the house are asynchronous. Tracing stays off: it would print what guests pass (attack 52).

/// What a lent `credentials` handle stands for on this side: nothing but the fact that it was lent.
pub struct Credentials;

/// The same for first-boot data.
pub struct UserData;

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "capacity-provider",
    imports: {
        "holdfast:provider/calls.read": async | trappable,
        "holdfast:provider/calls.perform": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    with: {
        "holdfast:provider/custody.credentials": Credentials,
        "holdfast:provider/custody.user-data": UserData,
    },
});

pub use exports::holdfast::provider::{capacity, operations};
pub use holdfast::provider::{calls, clock, custody, log, types};
