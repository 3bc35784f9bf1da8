//! The inputs of an operation (2(b).5): what is frozen at its start, and what a guest is shown of it.
//!
//! The provider's machine object is kept whole in the status, since the host needs its address and its credential
//! reference; a guest gets it without references to secrets.

use holdfast_api::{
    Machine, MachineOperation, ObjectSnapshot, OperationInput, ProviderMachineReference, ProviderSnapshot,
};
use holdfast_effects as fx;
use holdfast_manifest::{GroupKind, Manifest};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

/// Key of first-boot data in a Secret, where the reference names none.
pub const USER_DATA_KEY: &str = "userData";

/// Why inputs can't be made.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The same objects will not do, however often they are read.
    #[error("{message}")]
    Permanent {
        /// CamelCase.
        reason: &'static str,
        /// One sentence.
        message: String,
    },
    /// Something is not there yet, or the API didn't answer: tried again (divergence X.3).
    #[error("{0}")]
    Transient(String),
}

impl InputError {
    pub(crate) fn permanent(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Permanent { reason, message: message.into() }
    }
}

impl From<kube::Error> for InputError {
    fn from(error: kube::Error) -> Self {
        Self::Transient(format!("the API did not answer: {error}"))
    }
}

/// Checks what a machine says of its host (2(b).1 step 8, R2.16).
///
/// # Errors
/// One sentence, for the reason `InvalidProviderRef`.
pub fn check_provider_ref(machine: &Machine, accepted: Option<&GroupKind>) -> Result<(), String> {
    let external = &machine.spec.host.external;
    let has_id = external.provider_id.as_deref().is_some_and(|id| !id.trim().is_empty());
    let Some(reference) = &external.machine_ref else {
        return if has_id {
            Ok(())
        } else {
            Err("the machine has neither a providerID nor a machineRef".to_owned())
        };
    };
    let ProviderMachineReference { api_group, kind, name } = reference;
    if api_group.trim().is_empty() || kind.trim().is_empty() || name.trim().is_empty() {
        return Err("machineRef must name an apiGroup, a kind and a name".to_owned());
    }
    match accepted {
        None => Err(format!("the provider {} takes no machineRef", external.provider)),
        Some(accepted) if accepted.group == *api_group && accepted.kind == *kind => Ok(()),
        Some(accepted) => Err(format!(
            "the provider {} takes a machineRef to {}/{} only, not to {api_group}/{kind}",
            external.provider, accepted.group, accepted.kind
        )),
    }
}

/// Takes the input of an operation from the world as it is now. It is written once (R2.15).
///
/// # Errors
/// Permanent when the machine object doesn't fit; transient when the API doesn't answer.
pub async fn freeze(client: &Client, machine: &Machine, site: &str) -> Result<OperationInput, InputError> {
    let external = &machine.spec.host.external;
    let provider_ref = match &external.machine_ref {
        None => None,
        Some(reference) => Some(snapshot(client, reference).await?),
    };
    let text =
        |text: &Option<String>| text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned);
    Ok(OperationInput {
        provider: external.provider.clone(),
        site: site.to_owned(),
        provider_id: external.provider_id.clone().filter(|id| !id.is_empty()),
        provider_ref,
        host_image: text(&machine.spec.host.image),
        user_data: machine.spec.user_data_source(),
        allocation: None,
        machine_generation: machine.metadata.generation.unwrap_or_default(),
    })
}

async fn snapshot(
    client: &Client,
    reference: &ProviderMachineReference,
) -> Result<ProviderSnapshot, InputError> {
    let (resource, cluster_scoped) = resource_of(client, reference).await?;
    if !cluster_scoped {
        return Err(InputError::permanent(
            "RequestBuildFailed",
            format!("{}/{} is not cluster-scoped", reference.api_group, reference.kind),
        ));
    }
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let Some(object) = api.get_opt(&reference.name).await? else {
        return Err(InputError::permanent(
            "RequestBuildFailed",
            format!("there is no {} {}", reference.kind, reference.name),
        ));
    };
    let uid = object.uid().unwrap_or_default();
    let generation = object.metadata.generation.unwrap_or_default();
    if uid.is_empty() || generation < 1 {
        return Err(InputError::permanent(
            "RequestBuildFailed",
            format!("{} {} has no uid or no generation", reference.kind, reference.name),
        ));
    }
    Ok(ProviderSnapshot {
        object: ObjectSnapshot {
            group: resource.group,
            version: resource.version,
            kind: resource.kind,
            resource: resource.plural,
            name: reference.name.clone(),
            uid,
            generation,
            creation_timestamp: object.creation_timestamp(),
            labels: object.labels().clone(),
        },
        spec: object.data.get("spec").cloned().unwrap_or_default(),
        status: object.data.get("status").cloned().unwrap_or_default(),
    })
}

/// Finds a kind by discovery; our own kinds need none.
async fn resource_of(
    client: &Client,
    reference: &ProviderMachineReference,
) -> Result<(ApiResource, bool), InputError> {
    if reference.api_group == holdfast_api::GROUP && reference.kind == "BareMetalMachine" {
        return Ok((ApiResource::erase::<holdfast_api::BareMetalMachine>(&()), true));
    }
    let none = || {
        InputError::permanent(
            "RequestBuildFailed",
            format!("the API serves no {}/{}", reference.api_group, reference.kind),
        )
    };
    let group = match kube::discovery::group(client, &reference.api_group).await {
        Ok(group) => group,
        Err(kube::Error::Discovery(_)) => return Err(none()),
        Err(error) if crate::is_status(&error, 404) => return Err(none()),
        Err(error) => return Err(error.into()),
    };
    let version = group.preferred_version_or_latest().to_owned();
    let gvk = GroupVersionKind::gvk(&reference.api_group, &version, &reference.kind);
    let found = group.versioned_resources(&version).into_iter().find(|(r, _)| r.kind == gvk.kind);
    let (resource, capabilities) = found.ok_or_else(none)?;
    Ok((resource, capabilities.scope == kube::discovery::Scope::Cluster))
}

/// The machine object as host data: `on`, addresses and credential names are taken from here.
pub fn machine_object(snapshot: &ProviderSnapshot) -> Value {
    let object = &snapshot.object;
    json!({
        "apiVersion": format!("{}/{}", object.group, object.version),
        "kind": object.kind,
        "metadata": { "name": object.name, "uid": object.uid, "generation": object.generation },
        "spec": snapshot.spec,
        "status": snapshot.status,
    })
}

/// Takes references to secrets out of what a guest is shown. By name, at any depth: a reference is only a name, but a
/// guest has no use for it.
pub fn without_secret_refs(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, _)| !names_a_secret(key))
                .map(|(key, value)| (key.clone(), without_secret_refs(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_secret_refs).collect()),
        other => other.clone(),
    }
}

fn names_a_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let key = key.strip_suffix("name").unwrap_or(&key);
    ["credentialsref", "credentialref", "secretref", "secret", "credentials"]
        .iter()
        .any(|end| key.ends_with(end))
}

/// The machine of a request. `live` is its identity now; everything else is frozen.
pub fn request_machine(
    operation: &MachineOperation,
    input: &OperationInput,
    live: Option<&str>,
) -> fx::Machine {
    let target = operation.status.as_ref().and_then(|s| s.target.as_ref());
    fx::Machine {
        name: target.map(|t| t.machine_ref.name.clone()).unwrap_or_default(),
        uid: target.map(|t| t.machine_uid.clone()).unwrap_or_default(),
        generation: input.machine_generation,
        provider_ref: input.provider_ref.as_ref().map(provider_machine),
        provider_id: live.filter(|id| !id.is_empty()).map(str::to_owned),
        host_image: input.host_image.clone(),
    }
}

fn provider_machine(snapshot: &ProviderSnapshot) -> fx::ProviderMachine {
    let object = &snapshot.object;
    fx::ProviderMachine {
        object: fx::ObjectRef {
            group: object.group.clone(),
            version: object.version.clone(),
            kind: object.kind.clone(),
            resource: object.resource.clone(),
            namespace: None,
            name: object.name.clone(),
            uid: object.uid.clone(),
            generation: object.generation,
            creation_timestamp: object
                .creation_timestamp
                .as_ref()
                .map(|at| at.0.to_string())
                .unwrap_or_default(),
            deletion_timestamp: None,
            labels: object.labels.clone().into_iter().collect(),
        },
        spec: without_secret_refs(&snapshot.spec).to_string(),
        status: without_secret_refs(&snapshot.status).to_string(),
    }
}

/// Whether a manifest reads resume tokens of this version.
pub fn reads_tokens(manifest: &Manifest, version: &str) -> bool {
    version.parse().is_ok_and(|version| manifest.provider.reads.contains(&version))
}
