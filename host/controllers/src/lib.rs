//! The controllers of Holdfast: operations on machines, classes, allocations, credentials, provider objects, the lease.
//!
//! Written once, against a `kube::Client`: in a cluster and on the embedded API they are the same code. What they do is
//! the driving state machine of contract 2; where they differ from it on purpose, the place says so and names X.3.

mod allocations;
pub mod backoff;
mod capacity;
pub mod capacity_index;
mod classes;
pub mod clock;
mod controller;
mod counts;
pub mod credentials;
pub mod events;
pub mod first_boot;
pub mod index;
pub mod inputs;
pub mod lease;
mod listing;
mod loops;
pub mod machines;
pub mod metrics;
pub mod operations;
pub mod providers;
pub mod queue;
mod records;
mod registry;
pub mod rooms;
mod vault;
mod watches;

pub use controller::{Controllers, Deps};
pub use holdfast_effects::Effects;
pub use lease::LeaseSettings;
pub use operations::{Next, Scope, Settings, StepError};

/// Whether an error is the API's answer with this status code.
pub(crate) fn is_status(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Returns when told to stop, or when nobody is left who could tell.
pub(crate) async fn told(stop: &mut tokio::sync::watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
