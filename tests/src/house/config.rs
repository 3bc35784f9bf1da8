//! The configuration file of a house.

use anyhow::Result;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// One `[[provider]]`.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    pub name: String,
    pub sha256: Option<String>,
    pub calls: Option<String>,
    pub grant_calls: Vec<String>,
    pub endpoints: Vec<Endpoint>,
}

/// One `[[provider.endpoint]]`.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    pub name: String,
    pub site: Option<String>,
    pub origin: Option<String>,
    pub ca_pem: Option<String>,
    pub ranges: Vec<String>,
    pub auth: Option<String>,
    /// Values of the binding by the names of the endpoint's `vars`.
    pub vars: Vec<(String, String)>,
}

impl Grant {
    /// Approves the call set of this module's manifest, without pinning the file.
    pub fn approving(manifest: &holdfast_manifest::Manifest) -> Grant {
        Grant {
            name: manifest.provider.name.clone(),
            calls: Some(manifest.call_set.clone()),
            ..Grant::default()
        }
    }

    pub fn endpoint(mut self, endpoint: Endpoint) -> Grant {
        self.endpoints.push(endpoint);
        self
    }
}

impl Endpoint {
    /// An endpoint at a loopback service, for every site.
    pub fn at(name: &str, origin: &str, ca_pem: &str) -> Endpoint {
        Endpoint {
            name: name.to_owned(),
            origin: Some(origin.to_owned()),
            ca_pem: Some(ca_pem.to_owned()),
            ranges: vec!["127.0.0.1/32".to_owned()],
            ..Endpoint::default()
        }
    }

    /// With the value of a variable of the binding.
    pub fn with_var(mut self, name: &str, value: &str) -> Endpoint {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    /// An endpoint whose addresses stand in machine objects, on loopback.
    pub fn per_machine(name: &str, ca_pem: &str) -> Endpoint {
        Endpoint { origin: None, ..Endpoint::at(name, "", ca_pem) }
    }
}

/// `log` is a filter; `limits` and `secrets` are raw TOML.
pub(super) fn render(
    folder: &Path,
    grants: &[Grant],
    log: &str,
    limits: &str,
    secrets: &str,
) -> Result<String> {
    let mut text = format!(
        "state-dir = \"state\"\nproviders-dir = \"providers\"\n\n[api]\nlisten = \"127.0.0.1:0\"\n\n\
         [observe]\nlisten = \"127.0.0.1:0\"\nlog = {log:?}\n",
    );
    if !limits.is_empty() {
        write!(text, "\n[limits]\n{limits}\n")?;
    }
    let mut number = 0;
    for grant in grants {
        write!(text, "\n[[provider]]\nname = {:?}\n", grant.name)?;
        option(&mut text, "sha256", grant.sha256.as_deref())?;
        option(&mut text, "calls", grant.calls.as_deref())?;
        writeln!(text, "grant-calls = {:?}", grant.grant_calls)?;
        for endpoint in &grant.endpoints {
            write!(text, "\n[[provider.endpoint]]\nname = {:?}\n", endpoint.name)?;
            option(&mut text, "site", endpoint.site.as_deref())?;
            option(&mut text, "origin", endpoint.origin.as_deref())?;
            option(&mut text, "auth", endpoint.auth.as_deref())?;
            writeln!(text, "ranges = {:?}", endpoint.ranges)?;
            if !endpoint.vars.is_empty() {
                let vars: Vec<String> =
                    endpoint.vars.iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
                writeln!(text, "vars = {{ {} }}", vars.join(", "))?;
            }
            if let Some(pem) = &endpoint.ca_pem {
                number += 1;
                let name = format!("ca-{number}.pem");
                fs::write(folder.join(&name), pem)?;
                writeln!(text, "ca = {name:?}")?;
            }
        }
    }
    text.push('\n');
    text.push_str(secrets);
    Ok(text)
}

fn option(text: &mut String, key: &str, value: Option<&str>) -> std::fmt::Result {
    match value {
        Some(value) => writeln!(text, "{key} = {value:?}"),
        None => Ok(()),
    }
}
