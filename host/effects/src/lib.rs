//! Effects: what must survive a crash of the engine that runs guests.
//!
//! A [`Session`] is one open callback of a guest: it checks phase, declaration and targets, journals every mutating
//! call before it leaves, decides what may be sent again, records ownership before the guest sees a reply, and checks
//! what the guest returns. It knows neither wasm nor Kubernetes.

#![forbid(unsafe_code)]

mod accept;
mod args;
pub mod callback;
mod doubt;
pub mod exchanger;
mod failure;
mod identity;
mod incarnation;
pub mod journal;
mod log;
mod lookup;
pub mod message;
mod observed;
mod ownership;
mod perform;
mod phases;
mod place;
mod resolve;
mod session;
mod settle;
mod shared;
mod targets;
mod text;

pub use callback::*;
pub use exchanger::{Clock, Exchanger, Ready, WallClock};
pub use journal::*;
pub use message::*;
pub use place::MADE_ELSEWHERE;
pub use resolve::{Resolution, ResolveError};
pub use session::{Effects, ReadAt, Session};
