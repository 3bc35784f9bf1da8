//! Reading and checking the file: precise errors with line, key and the nearest known key.

use super::{Config, Endpoint};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{path}: cannot be read: {why}")]
    Unreadable { path: PathBuf, why: std::io::Error },
    #[error("{path}:{line}: {message}")]
    Syntax { path: PathBuf, line: usize, message: String },
    #[error("{path}: {message}")]
    Wrong { path: PathBuf, message: String },
}

/// Reads the file and makes its paths absolute (relative ones start at the file's folder).
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|why| ConfigError::Unreadable { path: path.to_path_buf(), why })?;
    let base = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    parse(&text, &base)
}

/// Parses text as the file `path` would be.
pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
    let mut config: Config = toml::from_str(text).map_err(|error| syntax(text, path, &error))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    absolute(&mut config, folder);
    check(&config).map_err(|message| ConfigError::Wrong { path: path.to_path_buf(), message })?;
    Ok(config)
}

fn syntax(text: &str, path: &Path, error: &toml::de::Error) -> ConfigError {
    let at = error.span().map_or(0, |span| span.start);
    let line = text[..at.min(text.len())].matches('\n').count() + 1;
    ConfigError::Syntax { path: path.to_path_buf(), line, message: with_nearest(error.message()) }
}

/// "unknown field `prot`, expected one of `port`, `host`" gains a guess at what was meant.
fn with_nearest(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (Some(unknown), true) = (quoted.first(), message.starts_with("unknown field")) else {
        return message.to_string();
    };
    let nearest = quoted[1..]
        .iter()
        .max_by(|a, b| strsim::jaro_winkler(unknown, a).total_cmp(&strsim::jaro_winkler(unknown, b)));
    match nearest {
        Some(known) if strsim::jaro_winkler(unknown, known) > 0.7 => {
            format!("{message}; did you mean `{known}`?")
        }
        _ => message.to_string(),
    }
}

fn absolute(config: &mut Config, folder: &Path) {
    let fix = |path: &mut PathBuf| *path = folder.join(&path);
    fix(&mut config.state_dir);
    fix(&mut config.providers_dir);
    config.api.kubeconfig.iter_mut().for_each(fix);
    for endpoint in config.provider.iter_mut().flat_map(|p| &mut p.endpoint) {
        endpoint.ca.iter_mut().for_each(fix);
    }
    for source in config.secret.iter_mut().flat_map(|s| s.values.values_mut()) {
        if let super::SecretSource::File(path) = source {
            fix(path);
        }
    }
}

fn check(config: &Config) -> Result<(), String> {
    for (key, listen) in [("api.listen", config.api.listen), ("observe.listen", config.observe.listen)] {
        if !listen.ip().is_loopback() {
            return Err(format!("{key} = \"{listen}\" is refused: the daemon listens on loopback only"));
        }
    }
    let limits = &config.limits;
    if limits.concurrent_calls == 0 || limits.guest_threads == 0 || limits.call_seconds == 0 {
        return Err("limits: concurrent-calls, guest-threads and call-seconds must be at least 1".into());
    }
    if !(2..=1024).contains(&limits.guest_memory_mib) {
        return Err("limits.guest-memory-mib must be 2 to 1024".into());
    }
    let orphans = &config.orphans;
    if !(1..=86_400).contains(&orphans.sweep_interval_seconds) {
        return Err("orphans.sweep-interval-seconds must be 1 to 86400".into());
    }
    if !(1..=604_800).contains(&orphans.minimum_age_seconds) {
        return Err("orphans.minimum-age-seconds must be 1 to 604800".into());
    }
    let mut names = BTreeSet::new();
    for provider in &config.provider {
        if !names.insert(&provider.name) {
            return Err(format!("[[provider]] {}: the name stands twice", provider.name));
        }
        for (key, digest) in [("sha256", &provider.sha256), ("calls", &provider.calls)] {
            if digest.as_ref().is_some_and(|d| !is_digest(d)) {
                return Err(format!(
                    "[[provider]] {}: {key} must be 64 lower-case hex digits",
                    provider.name
                ));
            }
        }
        provider.endpoint.iter().try_for_each(|endpoint| check_endpoint(&provider.name, endpoint))?;
    }
    for secret in &config.secret {
        if secret.site.is_some() == secret.name.is_some() {
            return Err(format!("[[secret]] for {}: give either `site` or `name`", secret.provider));
        }
    }
    Ok(())
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn check_endpoint(provider: &str, endpoint: &Endpoint) -> Result<(), String> {
    let at = format!("[[provider]] {provider}, [[provider.endpoint]] {}", endpoint.name);
    for origin in endpoint.origin.iter().chain(&endpoint.aliases) {
        let url = url::Url::parse(origin).map_err(|why| format!("{at}: \"{origin}\" is no URL: {why}"))?;
        if url.scheme() != "https" {
            return Err(format!("{at}: \"{origin}\" is refused: only https carries credentials (attack 50)"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!("{at}: an origin holds no user or password (attack 31)"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{at}: \"{origin}\" holds more than scheme, host, port and base path"));
        }
    }
    if endpoint.origin.is_none() && endpoint.ranges.is_empty() {
        return Err(format!("{at}: give an `origin`, or `ranges` where addresses stand in machine objects"));
    }
    if endpoint.pin_sha256.as_ref().is_some_and(|pin| !is_digest(pin)) {
        return Err(format!("{at}: pin-sha256 must be 64 lower-case hex digits"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(text: &str) -> String {
        let head = "state-dir = 'state'\nproviders-dir = 'providers'\n";
        parse(&format!("{head}{text}"), Path::new("/etc/holdfast/holdfast.toml")).unwrap_err().to_string()
    }

    #[test]
    fn the_commented_example_parses_and_its_paths_become_absolute() {
        let text = include_str!("../../holdfast.example.toml");
        let config = parse(text, Path::new("/etc/holdfast/holdfast.toml")).unwrap();
        assert!(config.state_dir.is_absolute() && config.providers_dir.is_absolute());
        assert!(config.provider.iter().any(|p| p.name == "redfish"));
        assert!(!config.secret.is_empty());
        let shown = &config.orphans;
        let shown = (shown.sweep_interval_seconds, shown.minimum_age_seconds, shown.releases_per_hour);
        assert_eq!(shown, (900, 900, 10), "the example shows what holds without it");
    }

    #[test]
    fn a_sweep_without_a_pause_and_an_orphan_without_an_age_are_refused() {
        for (key, value) in [
            ("sweep-interval-seconds", 0),
            ("sweep-interval-seconds", 86_401),
            ("minimum-age-seconds", 0),
            ("minimum-age-seconds", 604_801),
        ] {
            let error = refuse(&format!("[orphans]\n{key} = {value}\n"));
            assert!(error.contains(&format!("orphans.{key} must be 1 to")), "{error}");
        }
        let error = refuse("[orphans]\nminimum-age = 5\n");
        assert!(error.contains("did you mean `minimum-age-seconds`?"), "{error}");
    }

    #[test]
    fn the_example_names_every_key_of_the_grammar() {
        let text = include_str!("../../holdfast.example.toml");
        for key in [
            "state-dir",
            "providers-dir",
            "listen",
            "kubeconfig",
            "log",
            "log-format",
            "concurrent-calls",
            "call-seconds",
            "guest-memory-mib",
            "guest-threads",
            "drain-seconds",
            "sweep-interval-seconds",
            "minimum-age-seconds",
            "releases-per-hour",
            "name",
            "sha256",
            "calls",
            "grant-calls",
            "site",
            "value",
            "origin",
            "ca",
            "pin-sha256",
            "ranges",
            "vars",
            "auth",
            "aliases",
            "provider",
            "values",
            "file",
            "systemd-credential",
            "env",
        ] {
            assert!(text.contains(key), "the example does not show {key}");
        }
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_known_key() {
        let error = refuse("[api]\nlisten = '127.0.0.1:1'\nkubeconfg = 'x'\n");
        assert!(error.contains("holdfast.toml:5:"), "{error}");
        assert!(error.contains("did you mean `kubeconfig`?"), "{error}");
    }

    #[test]
    fn a_public_listener_is_refused() {
        assert!(refuse("[api]\nlisten = '0.0.0.0:7443'\n").contains("loopback only"));
    }

    #[test]
    fn an_origin_without_tls_or_with_a_password_is_refused() {
        let endpoint = |origin: &str| {
            refuse(&format!("[[provider]]\nname='p'\n[[provider.endpoint]]\nname='api'\norigin='{origin}'\n"))
        };
        assert!(endpoint("http://cloud.example").contains("only https"));
        assert!(endpoint("https://u:p@cloud.example").contains("no user or password"));
        assert!(endpoint("https://cloud.example/?q=1").contains("more than scheme"));
    }

    #[test]
    fn a_secret_serves_a_site_or_a_name_and_never_both() {
        let error = refuse("[[secret]]\nprovider='p'\nsite='s'\nname='n'\nvalues={}\n");
        assert!(error.contains("either `site` or `name`"));
    }
}
