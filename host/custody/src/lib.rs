//! Custody: the host's side of the wall. Every secret byte lives here and nowhere else.
//!
//! [`Custody`] keeps credentials and first-boot data, makes declared calls with them, projects replies to their
//! declared fields, and scans everything that guests say. It knows neither wasm nor Kubernetes; its interface is
//! messages ([`message`]), in which secrets are numbers. Nothing in this crate prints or logs (attack 56).

#![forbid(unsafe_code)]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::dbg_macro,
    clippy::unwrap_used,
    clippy::expect_used
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod binding;
pub mod manual;
pub mod message;
pub mod scan;

mod breaker;
mod budget;
mod custody;
mod defences;
mod errors;
mod exchange;
mod grants;
mod harden;
mod judge;
mod keys;
mod prepare;
mod registry;
mod reply;
mod request;
mod seal;
mod secret;
mod session;
mod sign;
mod transport;
mod trial;
mod vault;

#[cfg(test)]
mod test_kit;
#[cfg(test)]
mod tests;

pub use binding::{Binding, Grants};
pub use custody::{Custody, Options};
#[cfg(any(test, feature = "harness"))]
pub use defences::Defences;
pub use errors::{CustodyError, DepositError, RegisterError};
pub use harden::harden_process;
pub use message::*;
pub use prepare::Prepared;
pub use registry::Registered;
pub use request::args::written;
pub use secret::SecretBytes;
#[cfg(any(test, feature = "harness"))]
pub use transport::connect::Resolver;
pub use trial::{Tried, try_reply};
pub use vault::CredentialDeposit;
