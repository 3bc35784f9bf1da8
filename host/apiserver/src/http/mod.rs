//! HTTP: from a request's bytes to a call on [`crate::api::Api`], and from its result to bytes.
//!
//! The same service answers in process and on the network; only who asks is found out differently.

mod answer;
mod body;
mod dispatch;
mod request;
mod service;

pub use answer::ResponseBody;
pub use service::ApiService;
