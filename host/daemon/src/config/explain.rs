//! The effective policy in words: what `holdfast config check` prints.

use super::{Config, Endpoint, Provider, SecretSource};

/// One sentence or line each; holds names and addresses, never a secret.
pub fn explain(config: &Config) -> Vec<String> {
    let mut lines = vec![
        format!("State (store, keys) is kept in {}.", config.state_dir.display()),
        format!("Provider modules are taken from {}.", config.providers_dir.display()),
        format!(
            "The API is served on https://{}; its kubeconfig is {}.",
            config.api.listen,
            config.kubeconfig().display()
        ),
        format!("Metrics and health are served on http://{}.", config.observe.listen),
    ];
    let orphans = &config.orphans;
    lines.push(format!(
        "Orphans are looked for every {} seconds and told when they are {} seconds old; {} of an account are released \
         on request within an hour.",
        orphans.sweep_interval_seconds, orphans.minimum_age_seconds, orphans.releases_per_hour
    ));
    if orphans.minimum_age_seconds < 900 {
        lines.push(
            "Warning: orphans.minimum-age-seconds is less than 900, so that a host that is being made elsewhere under \
             our marker may be told as an orphan."
                .into(),
        );
    }
    if config.provider.is_empty() {
        lines
            .push("No provider is granted anything: every module will wait in state PendingApproval.".into());
    }
    config.provider.iter().for_each(|provider| explain_provider(provider, &mut lines));
    for secret in &config.secret {
        let whom = match (&secret.site, &secret.name) {
            (Some(site), _) => format!("all of {}'s calls at site {site}", secret.provider),
            (None, name) => format!(
                "{}'s machine objects that name {}",
                secret.provider,
                name.as_deref().unwrap_or("nothing")
            ),
        };
        let keys: Vec<String> =
            secret.values.iter().map(|(key, source)| format!("{key} from {}", describe(source))).collect();
        lines.push(format!("Credentials for {whom}: {}.", keys.join(", ")));
    }
    lines
}

fn explain_provider(provider: &Provider, lines: &mut Vec<String>) {
    let name = &provider.name;
    lines.push(match (&provider.calls, &provider.sha256) {
        (Some(calls), Some(sha)) => {
            format!("Provider {name}: only the file {} with call set {} may serve.", short(sha), short(calls))
        }
        (Some(calls), None) => {
            format!("Provider {name}: any file with call set {} may serve.", short(calls))
        }
        (None, _) => {
            format!("Provider {name}: no call set is approved; it will wait in state PendingApproval.")
        }
    });
    if !provider.grant_calls.is_empty() {
        lines.push(format!("Provider {name} may make the risky calls {}.", provider.grant_calls.join(", ")));
    }
    for endpoint in &provider.endpoint {
        lines.push(format!("Provider {name}, {}.", describe_endpoint(endpoint)));
    }
}

fn describe_endpoint(endpoint: &Endpoint) -> String {
    let site = endpoint.site.as_deref().map_or("every site".into(), |site| format!("site {site}"));
    let value = endpoint.value.as_deref().map_or(String::new(), |value| format!(" and value {value}"));
    let whither = match &endpoint.origin {
        Some(origin) => format!("is bound to {origin}"),
        None => "takes its address from each machine object".to_string(),
    };
    let ranges: Vec<String> = endpoint.ranges.iter().map(ToString::to_string).collect();
    let reach = if ranges.is_empty() {
        "and may reach public addresses only".to_string()
    } else {
        format!("and may also reach {}", ranges.join(", "))
    };
    let trust = match (&endpoint.ca, &endpoint.pin_sha256) {
        (Some(ca), _) => format!("trusting {}", ca.display()),
        (None, Some(pin)) => format!("trusting the key {}", short(pin)),
        (None, None) => "trusting the system's authorities".to_string(),
    };
    format!("endpoint {} at {site}{value} {whither}, {trust}, {reach}", endpoint.name)
}

fn describe(source: &SecretSource) -> String {
    match source {
        SecretSource::File(path) => format!("file {}", path.display()),
        SecretSource::SystemdCredential(name) => format!("systemd credential {name}"),
        SecretSource::Env(name) => format!("environment variable {name}"),
    }
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_told_in_sentences() {
        let text = include_str!("../../holdfast.example.toml");
        let config = crate::config::parse(text, std::path::Path::new("/etc/holdfast/h.toml")).unwrap();
        let told = explain(&config).join("\n");
        for part in [
            "endpoint api at site lab is bound to https://cloud.example:8443",
            "may also reach 10.20.0.0/16",
            "endpoint bmc at site lab takes its address from each machine object",
            "user from systemd credential bmc-user",
            "password from environment variable BMC_PASSWORD",
            "every 900 seconds and told when they are 900 seconds old; 10 of an account",
        ] {
            assert!(told.contains(part), "{part} is missing in:\n{told}");
        }
    }
}
