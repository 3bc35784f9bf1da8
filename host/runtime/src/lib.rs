//! Runtime: loads provider modules and runs one callback at a time in a fresh, bounded sandbox.
//!
//! [`Engine::load`] turns the bytes of a file into a checked [`Module`]; [`Module::call`] runs one callback through a
//! [`Port`](holdfast_effects::Port), which is all that a guest can reach. [`Registry`] watches the providers folder and
//! swaps revisions. This crate knows no Kubernetes and holds no secret.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "the generated code lifts and lowers values")]
mod bindings;
mod convert;
mod engine;
mod error;
mod exports;
mod halt;
mod home;
mod imports;
mod inspect;
pub mod limits;
mod module;
mod output;
mod pure;
mod random;
mod registry;
mod run;
mod shape;
mod state;
mod wasi;
#[allow(unsafe_code, reason = "a memory that can be shown is made by hand")]
mod witness;

pub use engine::{Engine, EngineOptions};
pub use error::{CallEnd, EngineError, LoadError, TrapKind};
pub use inspect::{CONTRACT, Inspected, MANIFEST_SECTION, inspect};
pub use module::Module;
pub use registry::{
    EndpointReport, Policies, ProviderPolicy, ProviderReport, ProviderState, Refusal, Registry,
    RegistryHooks, Revision,
};
pub use witness::MemoryWitness;
