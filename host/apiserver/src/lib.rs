//! The embedded Kubernetes-style API: what `kubectl` and `kube` use of a real one, over an embedded store.
//!
//! [`ApiServer::open`] opens it on a state directory; [`ApiServer::client`] is a `kube::Client` in process, and
//! [`ApiServer::serve`] serves the same over TLS on loopback. It knows Holdfast's kinds and the core kinds that
//! they refer to, and nothing else: no admission plug-ins, no garbage collector, no server-side apply.

mod api;
mod auth;
mod builtin;
mod crash;
mod discovery;
mod error;
mod files;
mod http;
mod hub;
mod index;
mod kubeconfig;
mod metadata;
mod openapi;
mod patch;
mod protobuf;
mod registry;
mod rules;
mod schema;
mod selector;
mod server;
mod stamps;
mod status;
pub mod store;
mod table;
mod tls;
mod writer;

pub use error::ServerError;
pub use http::{ApiService, ResponseBody};
pub use registry::Kind;
pub use rules::Validator;
pub use server::{ApiServer, Metrics, Options};
pub use stamps::Stamps;
pub use status::{ApiError, Cause};
