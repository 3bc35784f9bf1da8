//! The controllers of Holdfast: operations on machines, credentials, provider objects, the lease.
//!
//! Written once, against a `kube::Client`: in a cluster and on the embedded API they are the same code. What they do is
//! the driving state machine of contract 2; where they differ from it on purpose, the place says so and names X.3.

pub mod backoff;
pub mod clock;
pub mod credentials;
pub mod events;
pub mod index;
pub mod inputs;
pub mod lease;
pub mod machines;
pub mod metrics;
pub mod operations;
pub mod queue;
pub mod rooms;

/// Whether an error is the API's answer with this status code.
pub(crate) fn is_status(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
