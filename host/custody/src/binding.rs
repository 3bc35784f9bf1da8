//! What the operator grants: where each endpoint of a provider lies, and what may be reached there.
//!
//! A module asks for an endpoint and never chooses its address. Everything in this file comes from the operator's
//! configuration; the daemon parses it and hands it over at registration.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that an operator grants to one module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Grants {
    pub bindings: Vec<Binding>,
    /// Calls granted by name: risky reads (L9), credential slots outside login (L6), secrets in a query.
    pub calls: BTreeSet<String>,
}

/// One endpoint of a provider at one site (and for one value, where the endpoint is `per` a value).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Binding {
    pub endpoint: String,
    /// `None` serves every site.
    pub site: Option<String>,
    pub value: Option<String>,
    /// `https://host[:port][/base]`; `None` for endpoints with an address per machine.
    pub origin: Option<String>,
    /// PEM of the only certificate authorities to trust; `None` trusts the system's.
    pub ca_pem: Option<String>,
    /// SHA-256 of the server's subject public key info, lower-case hex; replaces name and chain checks when given
    /// without `ca_pem` (bare metal with self-signed certificates, attack 50).
    pub pin_sha256: Option<String>,
    /// Address ranges reachable although they are private, loopback or link-local (attack 29).
    pub ranges: Vec<IpNet>,
    /// Values for the endpoint's `vars`.
    pub vars: BTreeMap<String, String>,
    /// Which of the endpoint's named authentications to use; needed where it has several.
    pub auth: Option<String>,
    /// Further origins that absolute URLs in replies may have.
    pub aliases: Vec<String>,
}
