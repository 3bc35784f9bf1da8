//! From the configuration to what `runtime` and `custody` enforce.

use crate::config::{Config, Endpoint, Provider};
use anyhow::Context;
use holdfast_custody::binding::{Binding, Grants};
use holdfast_runtime::{Policies, ProviderPolicy};

/// Reads the authorities' files and builds the policy of every provider.
pub fn policies(config: &Config) -> anyhow::Result<Policies> {
    let providers = config
        .provider
        .iter()
        .map(|provider| Ok((provider.name.clone(), policy(provider)?)))
        .collect::<anyhow::Result<_>>()?;
    Ok(Policies { providers })
}

fn policy(provider: &Provider) -> anyhow::Result<ProviderPolicy> {
    let bindings = provider.endpoint.iter().map(binding).collect::<anyhow::Result<_>>()?;
    Ok(ProviderPolicy {
        sha256: provider.sha256.clone(),
        calls: provider.calls.clone(),
        grants: Grants { bindings, calls: provider.grant_calls.iter().cloned().collect() },
    })
}

fn binding(endpoint: &Endpoint) -> anyhow::Result<Binding> {
    let ca_pem = endpoint
        .ca
        .as_ref()
        .map(|path| {
            std::fs::read_to_string(path).with_context(|| format!("ca {} cannot be read", path.display()))
        })
        .transpose()?;
    Ok(Binding {
        endpoint: endpoint.name.clone(),
        site: endpoint.site.clone(),
        value: endpoint.value.clone(),
        origin: endpoint.origin.clone(),
        ca_pem,
        pin_sha256: endpoint.pin_sha256.clone(),
        ranges: endpoint.ranges.clone(),
        vars: endpoint.vars.clone(),
        auth: endpoint.auth.clone(),
        aliases: endpoint.aliases.clone(),
    })
}
