//! What the registry says of providers, for the `Provider` objects.

use holdfast_manifest::Manifest;
use jiff::Timestamp;
use std::sync::Arc;

/// One provider, or one file that is none.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderReport {
    /// The manifest's name; for a file without a readable one, the file's name without `.wasm`.
    pub name: String,
    /// File name in the providers folder.
    pub file: String,
    /// SHA-256 of the file that serves, or waits; empty where there is none. So are the next two and `call_set`.
    pub digest: String,
    /// The manifest's version.
    pub version: String,
    /// Contract version, for example `0.1.0`.
    pub contract: String,
    pub state: ProviderState,
    /// Operation kinds.
    pub operations: Vec<String>,
    /// Does it allocate and release hosts?
    pub capacity: bool,
    pub endpoints: Vec<EndpointReport>,
    /// What an operator approves.
    pub call_set: String,
    /// The manifest's meaning in sentences: of the file that waits for approval, else of the one that serves.
    pub meaning: Vec<String>,
    /// The configuration that would approve the file that waits.
    pub add_line: Option<String>,
    /// The last file that was refused. An older one may go on serving.
    pub last_refusal: Option<Refusal>,
    /// The manifest that the fields above are of.
    pub manifest: Option<Arc<Manifest>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointReport {
    pub name: String,
    /// Does a binding of the operator serve it?
    pub bound: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderState {
    /// Being read and compiled; nothing serves yet.
    Loading,
    /// Serves.
    Ready,
    /// The operator has not approved its calls; nothing serves.
    PendingApproval,
    /// The file was refused or removed; nothing serves.
    Refused,
    /// Serves, except for calls to endpoints that no binding serves.
    Unbound,
}

impl ProviderState {
    pub fn as_str(self) -> &'static str {
        match self {
            ProviderState::Loading => "Loading",
            ProviderState::Ready => "Ready",
            ProviderState::PendingApproval => "PendingApproval",
            ProviderState::Refused => "Refused",
            ProviderState::Unbound => "Unbound",
        }
    }
}

/// A file that does not serve, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// File name in the providers folder.
    pub file: String,
    /// Empty where the file could not be read.
    pub digest: String,
    /// One sentence: what was refused, by which rule, which line would change it.
    pub reason: String,
    pub at: Timestamp,
}
