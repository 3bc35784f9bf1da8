//! Custody: the host's side of the wall. Every secret byte lives here and nowhere else.
//!
//! [`Custody`] keeps credentials and first-boot data, makes declared calls with them, projects replies to their
//! declared fields, and scans everything that guests say. It knows neither wasm nor Kubernetes; its interface is
//! messages ([`message`]), in which secrets are numbers.

#![forbid(unsafe_code)]

pub mod binding;
pub mod message;

pub use message::*;
