//! What the author of a Holdfast provider depends on.
//!
//! A provider is a WebAssembly component with a manifest, `provider.toml`, that declares every remote call. The host
//! builds the requests, holds the secrets and hands back the declared fields; the provider decides what to do next.
//! [`provider!`] reads the manifest when the crate is compiled: a manifest that breaks a rule does not compile, and each
//! declared call becomes a typed function of the module `calls`.
//!
//! # A whole provider
//!
//! `examples/tiny/provider.toml` declares two calls, `reboot` and `job`. This is all of the code:
//!
//! ```
//! use holdfast_guest_sdk::prelude::*;
//! use std::time::Duration;
//!
//! provider!("examples/tiny/provider.toml", Tiny);
//!
//! struct Tiny;
//!
//! impl Operations for Tiny {
//!     fn begin(request: OperationRequest, credentials: Option<Credentials<'_>>, _: Option<UserData<'_>>)
//!         -> Result<BeginResult, Error>
//!     {
//!         let server = calls::ProviderId::of(&request.machine)?.server;
//!         // At most once, however often `begin` is repeated: the key makes it one effect.
//!         let made = calls::reboot("reboot", credentials.required()?, &server, calls::RebootKind::Soft)?.done()?;
//!         info!("rebooting {server}"; job = made.job);
//!         BeginResult::accepted(made.job.clone(), &made.job)
//!     }
//!
//!     fn poll(_: OperationRequest, operation: ProviderOperation, credentials: Option<Credentials<'_>>)
//!         -> Result<Poll, Error>
//!     {
//!         let id: String = ResumeToken::decode(&operation.resume_token)?;
//!         let job = calls::job(credentials.required()?, &id)?;
//!         Ok(match job.state.as_str() {
//!             "done" => Poll::succeeded(OperationResult::unchanged()),
//!             "failed" => Poll::failed("RebootFailed", "the cloud could not reboot the server"),
//!             _ => Poll::in_progress(format!("{} %", job.percent.unwrap_or(0))).after(Duration::from_secs(5)),
//!         })
//!     }
//! }
//!
//! // And its test, which runs natively: no wasm, no network, no credentials.
//! # #[cfg(not(target_arch = "wasm32"))]
//! fn main() {
//!     use holdfast_guest_sdk::testing::{self, Fake};
//!     use serde_json::json;
//!
//!     let cloud = Fake::new().reply("reboot", 202, json!({"job": "j-1"})).reply("job", 200, json!({"state": "done"}));
//!     let request = || testing::request("HostReboot", testing::machine("tiny://s-7"));
//!     cloud.run(|| {
//!         let begun = Tiny::begin(request(), testing::credentials(), None).unwrap();
//!         // Repeated before the handle was stored: the cloud is not asked again.
//!         Tiny::begin(request(), testing::credentials(), None).unwrap();
//!         let poll = Tiny::poll(request(), begun.operation, testing::credentials()).unwrap();
//!         assert!(matches!(poll.state, State::Succeeded));
//!     });
//!     assert_eq!(cloud.names(), ["reboot", "job"]);
//!     assert_eq!(cloud.calls()[0].args, json!({"id": "s-7", "kind": "soft"}));
//! }
//! ```
//!
//! Built for `wasm32-wasip2` as a `cdylib`, this is a component that the daemon loads.
//!
//! # What to know
//!
//! * **Nothing is remembered** between callbacks but the resume token ([`ResumeToken`]). It is stored in the clear.
//! * **Callbacks are repeated.** A mutating call has a key, unique within the operation; with the same key it takes effect
//!   at most once, and its recorded reply comes back. A later step asks [`recorded`] or [`is_done`] what is behind it.
//! * **In doubt is not failed.** [`Outcome::InDoubt`] means that nobody knows: return, and be called again;
//!   `outcome.done()?` does so.
//! * **Secrets are handles.** [`Credentials`] and [`UserData`] are lent for one callback and have no bytes.
//! * **Errors have a class.** [`Error::permanent`] only where a retry cannot help.

extern crate self as holdfast_guest_sdk;

#[doc(hidden)]
pub mod bindings;
pub mod capacity;
mod client;
mod error;
mod export;
mod lent;
pub mod log;
pub mod operations;
mod resume;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use client::{Sealed, is_done, is_sent, now, recorded, token};
pub use error::{Code, Error, Failure, Outcome};
pub use holdfast_guest_macros::provider;
pub use lent::{Credentials, Required, UserData};
pub use resume::ResumeToken;

/// Everything that most providers use.
pub mod prelude {
    pub use crate::capacity::{
        AllocatePollResult, Allocation, AllocationResult, Capacity, ClassRequest, Offering, OwnedResource,
        Plan, PlanRequest, ProviderConfig, ReleasePollResult,
    };
    pub use crate::operations::{
        BeginResult, Machine, OperationRequest, OperationResult, Operations, Poll, ProviderOperation, State,
    };
    pub use crate::{
        Code, Credentials, Error, Outcome, Required, ResumeToken, Sealed, UserData, debug, error, info,
        is_done, is_sent, now, provider, recorded, token, warn,
    };
}

#[doc(hidden)]
pub mod __private {
    pub use crate::client::{Fields, Request};
    pub use crate::export::Export;
    pub use serde;
    pub use wit_bindgen;
}
