//! First-boot data: taken whole from a Secret, or made from a template (ConfigMap) and values (Secrets, plain text).
//!
//! Built right before it is lent and wiped right after (R2.14). While a repeat may have to send the same bytes again they
//! are kept in a Secret of the daemon's own (`kept`), which the store encrypts.

mod filters;
mod kept;
mod placeholder;
mod template;

use std::collections::BTreeMap;

use holdfast_api::{
    CREDENTIAL_SECRET_TYPE, FIRST_BOOT_LABEL, FIRST_BOOT_SECRET_TYPE, SYSTEM_NAMESPACE, UserDataReference,
    UserDataSource, UserDataTemplate,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret as CoreSecret};
use kube::{Api, Client, ResourceExt as _};
use zeroize::Zeroizing;

pub use kept::{Kept, may_repeat};
pub use template::{Facts, Given, MAX_BUILT, MAX_TEMPLATE, TemplateError, render};

use crate::inputs::{InputError, USER_DATA_KEY};
use crate::rooms::Secret;

/// Key of a template in a ConfigMap, where the reference names none.
pub const TEMPLATE_KEY: &str = "template";

/// Type of the Secrets that hold tokens of a cluster's service accounts.
const SERVICE_ACCOUNT_SECRET_TYPE: &str = "kubernetes.io/service-account-token";

/// Builds first-boot data.
///
/// # Errors
/// Transient when something that is named is not there or a Secret is not labelled as first-boot data, or the API
/// doesn't answer; permanent (`BootstrapDataFailed`) when the template can't be rendered. Never a byte of a secret.
pub async fn build(client: &Client, source: &UserDataSource, facts: &Facts) -> Result<Secret, InputError> {
    match (&source.secret_ref, &source.template) {
        (Some(reference), None) => secret(client, reference, USER_DATA_KEY).await,
        (None, Some(template)) => from_template(client, template, facts).await,
        _ => Err(permanent("the first-boot data must name a Secret or a template, and not both".to_owned())),
    }
}

fn permanent(message: String) -> InputError {
    InputError::Permanent { reason: "BootstrapDataFailed", message }
}

async fn from_template(
    client: &Client,
    template: &UserDataTemplate,
    facts: &Facts,
) -> Result<Secret, InputError> {
    let reference = &template.config_map_ref;
    let namespace = reference.namespace.as_deref().unwrap_or(SYSTEM_NAMESPACE);
    let key = template.key.as_deref().unwrap_or(TEMPLATE_KEY);
    let name = format!("{namespace}/{}", reference.name);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.get_opt(&reference.name).await?;
    let map = map.ok_or_else(|| InputError::Transient(format!("there is no ConfigMap {name}")))?;
    let text = map.data.unwrap_or_default().remove(key);
    let text = text.ok_or_else(|| {
        InputError::Transient(format!("the ConfigMap {name} has nothing under the key {key}"))
    })?;
    let mut values = Vec::with_capacity(template.values.len());
    for value in &template.values {
        let given = match (&value.value, &value.secret_ref) {
            (Some(text), None) => Given::Plain(text.clone()),
            (None, Some(reference)) => Given::Secret(secret(client, reference, &value.name).await?),
            _ => {
                return Err(permanent(format!(
                    "the value {} must have a value or a secretRef, not both",
                    value.name
                )));
            }
        };
        values.push((value.name.clone(), given));
    }
    let facts = facts.clone();
    // The engine computes as long as its fuel lasts; other tasks of this thread should not wait for it.
    let rendered = tokio::task::spawn_blocking(move || render(&text, &facts, values)).await;
    match rendered {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(permanent(format!("the template {name} ({key}) can't be rendered: {error}"))),
        Err(_) => {
            Err(InputError::Transient(format!("the template {name} ({key}) was not rendered; tried again")))
        }
    }
}

/// One key of a Secret, all others wiped at once.
async fn secret(
    client: &Client,
    reference: &UserDataReference,
    default_key: &str,
) -> Result<Secret, InputError> {
    let namespace = reference.namespace.as_deref().unwrap_or(SYSTEM_NAMESPACE);
    let key = reference.key.as_deref().unwrap_or(default_key);
    let api: Api<CoreSecret> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(&reference.name).await?;
    let Some(found) = found else {
        return Err(InputError::Transient(format!("there is no Secret {namespace}/{}", reference.name)));
    };
    // Who may write an allocation must not be able to send a provider's credentials to a machine, nor a token of the
    // cluster's own API.
    let kept = [CREDENTIAL_SECRET_TYPE, FIRST_BOOT_SECRET_TYPE, SERVICE_ACCOUNT_SECRET_TYPE];
    if found.type_.as_deref().is_some_and(|type_| kept.contains(&type_)) {
        let _ = wiping(found);
        let message = format!(
            "the Secret {namespace}/{} is of a type that is kept from machines; first-boot data is taken from others",
            reference.name
        );
        return Err(permanent(message));
    }
    // Nor anything else that nobody meant for machines: whoever may write the Secret says so. Nothing is told of what it
    // has before.
    if found.labels().get(FIRST_BOOT_LABEL).is_none_or(|value| value != "true") {
        let _ = wiping(found);
        let name = &reference.name;
        return Err(InputError::Transient(format!(
            "the Secret {namespace}/{name} is not labelled as first-boot data, and is sent to no machine; if it is meant \
             for one: kubectl label secret {name} -n {namespace} {FIRST_BOOT_LABEL}=true"
        )));
    }
    match wiping(found).remove(key) {
        Some(bytes) if !bytes.is_empty() => Ok(bytes),
        _ => Err(InputError::Transient(format!(
            "the Secret {namespace}/{} has nothing under the key {key}",
            reference.name
        ))),
    }
}

/// The data of a Secret, all of it in wiping buffers, that which nobody asks for too.
fn wiping(mut secret: CoreSecret) -> BTreeMap<String, Secret> {
    let data = secret.data.take().unwrap_or_default().into_iter();
    data.map(|(key, bytes)| (key, Zeroizing::new(bytes.0))).collect()
}
