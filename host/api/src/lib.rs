//! The resource types of Holdfast: group `holdfast.dev`, version `v1alpha1`, all cluster-scoped.
//!
//! Types, schemas and text rules only: nothing here talks to a server. The same types are installed as
//! CRDs in a cluster and served by the embedded API, so their doc comments are the text of `kubectl explain`.

// Two printer columns may have the same type or path; the lint takes that for a slip.
#![allow(clippy::duplicated_attributes)]

pub mod allocation;
pub mod bare_metal;
pub mod class;
pub mod conditions;
pub mod credential;
pub mod effect;
pub mod machine;
pub mod operation;
pub mod provider;
pub mod shared;
pub mod text;

pub use allocation::{
    AllocationPhase, AllocationPlan, AllocationReference, ClassReference, Constraints, MachineAllocation,
    MachineAllocationSpec, MachineAllocationStatus, OperationReference, OrphanReference, TakenOrphan,
    TriedOffering,
};
pub use bare_metal::{
    BareMetalMachine, BareMetalMachineSpec, BareMetalMachineStatus, Bmc, BmcAuth, BmcCredentialsReference,
};
pub use class::{MachineClass, MachineClassSpec, MachineClassStatus, Offering};
pub use conditions::{Change, ConditionStatus, NewCondition};
pub use credential::{
    AuthMode, CredentialAuth, ProviderCredential, ProviderCredentialSpec, ProviderCredentialStatus,
    SecretReference,
};
pub use effect::{CreatedResource, Effect, EffectKind, EffectState, Refusal, Reply, SettledBy};
pub use machine::{ExternalHost, Host, Machine, MachineSpec, MachineStatus, ProviderMachineReference};
pub use operation::{
    AllocationInput, AllocationResult, FIRST_BOOT_SECRET_TYPE, MachineOperation, MachineOperationSpec,
    MachineOperationStatus, ObjectSnapshot, OperationInput, OperationResult, OperationTarget, Phase,
    ProviderOperation, ProviderSnapshot, Resolution, Resolve, Waiting,
};
pub use provider::{
    OperationMode, Provider, ProviderEndpoint, ProviderOperationKind, ProviderRefusal, ProviderSpec,
    ProviderState, ProviderStatus,
};
pub use shared::{
    ConfigMapReference, MachineReference, OwnedResource, TemplateValue, Time, UserDataReference,
    UserDataSource, UserDataTemplate, now, whole_seconds,
};
pub use text::{MAX_MESSAGE_BYTES, MAX_REASON_BYTES, sanitise_reason, truncate_message};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// The API group of every Holdfast kind.
pub const GROUP: &str = "holdfast.dev";
/// The version of every Holdfast kind.
pub const VERSION: &str = "v1alpha1";
/// The label of a `Machine` that names the site it stands at.
pub const SITE_LABEL: &str = "holdfast.dev/site";
/// The label of a credential `Secret` that names the provider that may use it.
pub const PROVIDER_LABEL: &str = "holdfast.dev/provider";
/// The type of a `Secret` that may be lent to a provider. The type of such a `Secret` is immutable.
pub const CREDENTIAL_SECRET_TYPE: &str = "holdfast.dev/credential";
/// The label, with the value `true`, of a `Secret` that may be sent to a machine as first-boot data, or as a part of it.
pub const FIRST_BOOT_LABEL: &str = "holdfast.dev/first-boot-data";
/// The namespace in which credential `Secret`s, leases and events of cluster-scoped kinds live.
pub const SYSTEM_NAMESPACE: &str = "holdfast-system";
/// The finalizer by which a running operation survives its deletion until it is cancelled or settled.
pub const OPERATION_FINALIZER: &str = "holdfast.dev/operation";
/// The finalizer by which an allocation survives its deletion until everything that it owns is released.
pub const ALLOCATION_FINALIZER: &str = "holdfast.dev/allocation";
/// The type of a `Secret` that keeps first-boot data while an operation may have to send it again. Made and removed by
/// the daemon.
pub const USER_DATA_SECRET_TYPE: &str = "holdfast.dev/first-boot-data";

/// The definitions of every Holdfast kind, as they are installed in a cluster.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        Machine::crd(),
        MachineClass::crd(),
        MachineAllocation::crd(),
        MachineOperation::crd(),
        Provider::crd(),
        ProviderCredential::crd(),
        BareMetalMachine::crd(),
    ]
}

#[cfg(test)]
mod tests;
