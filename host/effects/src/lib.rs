//! Effects: what must survive a crash of the engine that runs guests.
//!
//! A [`Session`] is one open callback of a guest: it checks phase, declaration and targets, journals every mutating
//! call before it leaves, decides what may be sent again, records ownership before the guest sees a reply, and checks
//! what the guest returns. It knows neither wasm nor Kubernetes.

#![forbid(unsafe_code)]

pub mod callback;
pub mod journal;
pub mod message;

pub use callback::*;
pub use journal::*;
pub use message::*;
