//! The daemon's configuration: one TOML file, every key documented in `holdfast.example.toml`.
//!
//! Unknown keys are errors that name the nearest known one. Secrets never stand in the file: it names files, systemd
//! credentials or environment variables. What a module may reach is decided here and nowhere else.

mod explain;
mod read;
mod secrets;

pub use explain::explain;
pub use read::load;
#[cfg(test)]
pub use read::parse;
pub use secrets::{Overlay, files, read_overlays, unreadable};

use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The file as written. Paths are relative to the file's folder until [`load`] has made them absolute.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    pub state_dir: PathBuf,
    pub providers_dir: PathBuf,
    #[serde(default)]
    pub api: Api,
    #[serde(default)]
    pub observe: Observe,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub orphans: Orphans,
    #[serde(default)]
    pub provider: Vec<Provider>,
    #[serde(default)]
    pub secret: Vec<Secret>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Api {
    /// Loopback only.
    pub listen: SocketAddr,
    /// `None`: `kubeconfig` in the state directory.
    pub kubeconfig: Option<PathBuf>,
}

impl Default for Api {
    fn default() -> Self {
        Api { listen: SocketAddr::from(([127, 0, 0, 1], 7443)), kubeconfig: None }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Observe {
    /// `/metrics`, `/healthz`, `/readyz`; loopback only.
    pub listen: SocketAddr,
    /// A tracing filter. What dependencies may say is capped in code and cannot be raised here.
    pub log: String,
    pub log_format: LogFormat,
}

impl Default for Observe {
    fn default() -> Self {
        Observe {
            listen: SocketAddr::from(([127, 0, 0, 1], 7480)),
            log: "info".into(),
            log_format: LogFormat::Text,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Limits {
    /// Guest calls in flight; each may keep about 70 KiB resident.
    pub concurrent_calls: u32,
    /// Seconds for one callback, remote calls included.
    pub call_seconds: u64,
    /// MiB of linear memory of one guest.
    pub guest_memory_mib: u32,
    /// Threads that run guests, apart from those that serve the API.
    pub guest_threads: usize,
    /// Seconds that a shutdown waits for exchanges on the wire.
    pub drain_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            concurrent_calls: 64,
            call_seconds: 60,
            guest_memory_mib: 64,
            guest_threads: 2,
            drain_seconds: 20,
        }
    }
}

/// What is in the account under our marker and on nobody's record: when it is looked for, and how much of it may go.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Orphans {
    /// Seconds between two sweeps of a class; 1 to a day.
    pub sweep_interval_seconds: u64,
    /// Seconds for which something must have been listed without being on record; 1 to a week.
    pub minimum_age_seconds: u64,
    /// Orphans of one account that are released on request within an hour; 0 releases none.
    pub releases_per_hour: u32,
}

impl Default for Orphans {
    fn default() -> Self {
        Orphans { sweep_interval_seconds: 900, minimum_age_seconds: 900, releases_per_hour: 10 }
    }
}

/// What the operator grants to one module.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Provider {
    pub name: String,
    /// Digest of the file; without it any file of that name whose call set is approved may serve.
    pub sha256: Option<String>,
    /// The approved call set, as `holdfast provider inspect` prints it.
    pub calls: Option<String>,
    /// Calls granted by name: risky reads, credentials outside login, secrets in a query.
    #[serde(default)]
    pub grant_calls: Vec<String>,
    #[serde(default)]
    pub endpoint: Vec<Endpoint>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Endpoint {
    pub name: String,
    pub site: Option<String>,
    pub value: Option<String>,
    pub origin: Option<String>,
    /// PEM file.
    pub ca: Option<PathBuf>,
    pub pin_sha256: Option<String>,
    #[serde(default)]
    pub ranges: Vec<ipnet::IpNet>,
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    pub auth: Option<String>,
    #[serde(default)]
    pub aliases: Vec<String>,
}

/// Credentials that are never stored: an overlay over `ProviderCredential` and `Secret` objects.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Secret {
    pub provider: String,
    /// Serves (site, provider); exactly one of `site` and `name`.
    pub site: Option<String>,
    /// Serves machine objects that name this secret.
    pub name: Option<String>,
    pub values: BTreeMap<String, SecretSource>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum SecretSource {
    File(PathBuf),
    /// Name below `$CREDENTIALS_DIRECTORY`.
    SystemdCredential(String),
    Env(String),
}

impl Config {
    pub fn kubeconfig(&self) -> PathBuf {
        self.api.kubeconfig.clone().unwrap_or_else(|| self.state_dir.join("kubeconfig"))
    }
}
