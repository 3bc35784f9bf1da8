//! Objects that most tests need, and waiting for what they become.

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use holdfast_api::{BareMetalMachine, Machine, MachineOperation, MachineOperationStatus, ProviderCredential};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// A Secret that a provider may use.
pub async fn credential_secret(
    client: &Client,
    name: &str,
    provider: &str,
    values: &[(&str, &[u8])],
) -> Result<()> {
    let data: Map<String, Value> =
        values.iter().map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value)))).collect();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "holdfast.dev/provider": provider } },
        "type": "holdfast.dev/credential",
        "data": data,
    }))?;
    Api::namespaced(client.clone(), "holdfast-system").create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// A ProviderCredential for (site, provider) that names a Secret.
pub async fn credential(client: &Client, site: &str, provider: &str, secret: &str) -> Result<()> {
    let object: ProviderCredential = serde_json::from_value(json!({
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "ProviderCredential",
        "metadata": { "name": format!("{site}-{provider}") },
        "spec": { "siteName": site, "provider": provider,
                  "auth": { "mode": "ExternalPlugin", "secretRef": { "name": secret } } },
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &object).await?;
    Ok(())
}

/// A Machine of a cloud provider.
pub async fn cloud_machine(client: &Client, name: &str, site: &str, provider: &str, id: &str) -> Result<()> {
    let object: Machine = serde_json::from_value(json!({
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "Machine",
        "metadata": { "name": name, "labels": { "holdfast.dev/site": site } },
        "spec": { "host": { "external": { "provider": provider, "providerID": id }, "image": "image-2" },
                  "userDataRef": { "name": "first-boot" } },
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &object).await?;
    Ok(())
}

/// A Machine at a BMC, with its BareMetalMachine of the same name.
pub async fn bmc_machine(
    client: &Client,
    name: &str,
    address: &str,
    auth: &str,
    secret: &str,
    system: &str,
) -> Result<()> {
    let object: BareMetalMachine = serde_json::from_value(json!({
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "BareMetalMachine",
        "metadata": { "name": name },
        "spec": { "bmc": { "address": address, "auth": auth, "credentialsRef": { "name": secret } },
                  "systemID": system },
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &object).await?;
    let machine: Machine = serde_json::from_value(json!({
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "Machine",
        "metadata": { "name": name, "labels": { "holdfast.dev/site": "lab" } },
        "spec": { "host": { "external": { "provider": "redfish",
            "machineRef": { "apiGroup": "holdfast.dev", "kind": "BareMetalMachine", "name": name } } } },
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &machine).await?;
    Ok(())
}

/// A MachineOperation; `more` is merged into its spec.
pub async fn operation(client: &Client, name: &str, machine: &str, kind: &str, more: Value) -> Result<()> {
    let mut spec = json!({ "machineRef": { "name": machine }, "operationKind": kind });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let object: MachineOperation = serde_json::from_value(json!({
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineOperation",
        "metadata": { "name": name }, "spec": spec,
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Waits until an operation is Complete, Failed or OutcomeUnknown; gives its status.
pub async fn settled(client: &Client, name: &str, patience: Duration) -> Result<MachineOperationStatus> {
    let operation: MachineOperation = until(client, name, patience, |operation: &MachineOperation| {
        let phase = operation.status.as_ref().map(|status| status.phase.as_str());
        matches!(phase, Some("Complete" | "Failed" | "OutcomeUnknown"))
    })
    .await?;
    operation.status.context("the operation has no status")
}

/// Reads an object until it is as wanted. A daemon that does not answer in between is waited for.
pub async fn until<K>(
    client: &Client,
    name: &str,
    patience: Duration,
    wanted: impl Fn(&K) -> bool,
) -> Result<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let began = Instant::now();
    let mut last = None;
    while began.elapsed() < patience {
        match api.get(name).await {
            Ok(object) if wanted(&object) => return Ok(object),
            Ok(object) => last = Some(format!("{object:#?}")),
            Err(error) => last = Some(error.to_string()),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("{} {name} did not become what was wanted; last seen: {}", K::kind(&()), last.unwrap_or_default())
}
