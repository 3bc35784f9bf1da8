//! Credentials named by the configuration: read when needed, handed to custody, never stored.

use super::{Config, SecretSource};
use anyhow::{Context, bail};
use holdfast_controllers::rooms::Secret;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file that holds more than this is no credential.
const MAX_SECRET: u64 = 64 * 1024;

/// One `[[secret]]` of the configuration with its bytes.
pub struct Overlay {
    pub provider: String,
    pub site: Option<String>,
    pub name: Option<String>,
    pub values: BTreeMap<String, Secret>,
}

/// Reads every `[[secret]]`. Errors name the key and the source, never a value.
pub fn read_overlays(config: &Config) -> anyhow::Result<Vec<Overlay>> {
    config
        .secret
        .iter()
        .map(|secret| {
            let values = secret
                .values
                .iter()
                .map(|(key, source)| {
                    let bytes = read(source)
                        .with_context(|| format!("[[secret]] for {}, key {key}", secret.provider))?;
                    Ok((key.clone(), bytes))
                })
                .collect::<anyhow::Result<_>>()?;
            Ok(Overlay {
                provider: secret.provider.clone(),
                site: secret.site.clone(),
                name: secret.name.clone(),
                values,
            })
        })
        .collect()
}

/// The files that the configuration names for their contents: authorities and secrets.
pub fn files(config: &Config) -> Vec<PathBuf> {
    let authorities = config.provider.iter().flat_map(|provider| &provider.endpoint);
    let authorities = authorities.filter_map(|endpoint| endpoint.ca.clone());
    let sources = config.secret.iter().flat_map(|secret| secret.values.values());
    let secrets = sources.filter_map(|source| match source {
        SecretSource::File(path) => Some(path.clone()),
        SecretSource::SystemdCredential(name) => systemd_credential(name).ok(),
        SecretSource::Env(_) => None,
    });
    authorities.chain(secrets).collect()
}

/// One line for each authority's file and each secret's source that cannot be read; never a value.
pub fn unreadable(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    for provider in &config.provider {
        for endpoint in &provider.endpoint {
            let Some(path) = &endpoint.ca else { continue };
            if let Err(why) = std::fs::read_to_string(path) {
                let (provider, endpoint) = (&provider.name, &endpoint.name);
                let path = path.display();
                lines.push(format!(
                    "[[provider]] {provider}, endpoint {endpoint}: ca {path} cannot be read: {why}"
                ));
            }
        }
    }
    for secret in &config.secret {
        for (key, source) in &secret.values {
            if let Err(why) = read(source) {
                lines.push(format!("[[secret]] for {}, key {key}: {why:#}", secret.provider));
            }
        }
    }
    lines
}

fn systemd_credential(name: &str) -> anyhow::Result<PathBuf> {
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY")
        .context("systemd gave no CREDENTIALS_DIRECTORY (LoadCredential= in the unit)")?;
    if name.contains('/') || name.starts_with('.') {
        bail!("a systemd credential is a plain name");
    }
    Ok(PathBuf::from(folder).join(name))
}

fn read(source: &SecretSource) -> anyhow::Result<Secret> {
    match source {
        SecretSource::File(path) => read_file(path, true),
        SecretSource::SystemdCredential(name) => read_file(&systemd_credential(name)?, false),
        SecretSource::Env(name) => {
            use std::os::unix::ffi::OsStringExt;
            let value = std::env::var_os(name).with_context(|| format!("the environment has no {name}"))?;
            Ok(Secret::new(value.into_vec()))
        }
    }
}

/// The bytes of a file without one trailing newline. Others must not be able to read it.
fn read_file(path: &Path, private: bool) -> anyhow::Result<Secret> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .with_context(|| format!("{} cannot be opened", path.display()))?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > MAX_SECRET {
        bail!("{} is no regular file of at most 64 KiB", path.display());
    }
    if private && meta.mode() & 0o077 != 0 {
        bail!("{} can be read by others: chmod 600 it", path.display());
    }
    let mut bytes = Secret::new(Vec::with_capacity(meta.len() as usize + 1));
    file.by_ref().take(MAX_SECRET + 1).read_to_end(&mut bytes)?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(bytes)
}
