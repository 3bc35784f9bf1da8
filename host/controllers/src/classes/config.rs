//! The configuration of a class (R2.28): the ConfigMap's data as it was when the class was first resolved. A later edit
//! is told and changes nothing.

use std::collections::BTreeMap;

use holdfast_api::class::MAX_CONFIG_BYTES;
use holdfast_api::{ConditionStatus, MachineClass, SYSTEM_NAMESPACE};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};

use super::{Classes, status};
use crate::capacity::Flow;

type Config = BTreeMap<String, String>;

impl Classes {
    /// The class with its configuration frozen, before anybody is shown it.
    pub(super) async fn configured(&self, class: MachineClass) -> Flow<MachineClass> {
        let reference = &class.spec.provider_config_ref;
        let namespace = reference.namespace.as_deref().unwrap_or(SYSTEM_NAMESPACE);
        let place = format!("{namespace}/{}", reference.name);
        let api: Api<ConfigMap> = Api::namespaced(self.deps.client.clone(), namespace);
        let found = api.get_opt(&reference.name).await?;
        let now = self.deps.now();
        let frozen = class.status.as_ref().and_then(|status| status.config.as_ref());
        let Some(frozen) = frozen else {
            let Some(found) = found else {
                return Err(self.wait_growing(&class, status::config_not_found(&place)).await);
            };
            let config = match readable(found, &place) {
                Ok(config) => config,
                Err(message) => return Err(self.wait_growing(&class, status::config_unfit(message)).await),
            };
            self.deps.counts.forget(&class.uid().unwrap_or_default());
            return self
                .put(class, |status, generation| {
                    status.config = Some(config);
                    status::config_current(status, generation, ConditionStatus::True, "Current", "", now);
                })
                .await;
        };
        let found = found.map(|found| readable(found, &place));
        let (current, reason, message) = match found {
            None => (
                ConditionStatus::Unknown,
                "ConfigMissing",
                format!("the ConfigMap {place} is gone; the class keeps what it was resolved with"),
            ),
            Some(found) if found.as_ref() == Ok(frozen) => (ConditionStatus::True, "Current", String::new()),
            Some(_) => (
                ConditionStatus::False,
                "ConfigChanged",
                format!(
                    "the ConfigMap {place} was changed; the class keeps what it was resolved with: make a new class for \
                     the new configuration"
                ),
            ),
        };
        self.put(class, |status, generation| {
            status::config_current(status, generation, current, reason, &message, now);
        })
        .await
    }
}

fn readable(found: ConfigMap, place: &str) -> Result<Config, String> {
    if found.binary_data.is_some_and(|binary| !binary.is_empty()) {
        return Err(format!("the ConfigMap {place} has binaryData; a provider's configuration is text"));
    }
    let config: Config = found.data.unwrap_or_default();
    let bytes: usize = config.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAX_CONFIG_BYTES {
        return Err(format!(
            "the ConfigMap {place} has {bytes} bytes; a provider's configuration has at most {MAX_CONFIG_BYTES}"
        ));
    }
    Ok(config)
}
