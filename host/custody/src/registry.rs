//! What the operator registered: a manifest with its grants, checked once, and bindings resolved by selector.

use crate::binding::{Binding, Grants};
use crate::errors::{RegisterError, refusal};
use crate::grants;
use crate::keys::sha256;
use crate::message::{Refusal, Revision, Selector};
use crate::sign::is_region;
use crate::transport::tls::{Trust, client_config};
use data_encoding::HEXLOWER;
use holdfast_manifest::{Auth, Endpoint, Manifest, Per, Region, Sigv4};
use ipnet::IpNet;
use rustls::ClientConfig;
use std::collections::BTreeMap;
use std::sync::Arc;
use url::{Host, Url};

/// What became of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Endpoints that no binding serves; their calls are refused until the operator binds them.
    pub unbound: Vec<String>,
}

/// One registered revision.
pub(crate) struct Provider {
    pub revision: Revision,
    pub manifest: Arc<Manifest>,
    bindings: Vec<Ready>,
}

/// A binding with what was parsed out of it.
struct Ready {
    binding: Binding,
    origin: Option<Url>,
    aliases: Vec<Url>,
    tls: Arc<ClientConfig>,
}

/// Where one call goes.
pub(crate) struct Bound {
    /// `endpoint/site[/value]` or `endpoint/site/address`.
    pub name: String,
    pub endpoint: String,
    /// `https://host:port/base`.
    pub origin: Url,
    pub aliases: Vec<Url>,
    pub ranges: Vec<IpNet>,
    pub only_ranges: bool,
    pub tls: Arc<ClientConfig>,
    pub vars: BTreeMap<String, String>,
    /// Name of the authentication that was chosen.
    pub auth: String,
    /// Where the binding points, in words that may be kept and shown: `https://host/base?variable=value`; after it the
    /// same under each alias.
    pub places: Vec<String>,
}

impl Bound {
    pub fn host(&self) -> Host<String> {
        self.origin.host().map_or_else(|| Host::Domain(String::new()), |host| host.to_owned())
    }

    pub fn port(&self) -> u16 {
        self.origin.port_or_known_default().unwrap_or(443)
    }

    /// The `Host` header, out of the typed origin (attack 30).
    pub fn authority(&self) -> String {
        let host = self.origin.host_str().unwrap_or_default();
        match self.origin.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    pub fn base(&self) -> &str {
        self.origin.path().trim_end_matches('/')
    }
}

impl Provider {
    pub fn new(
        revision: Revision,
        manifest: Arc<Manifest>,
        grants: Grants,
    ) -> Result<(Provider, Registered), RegisterError> {
        grants::check(&manifest, &grants.calls)?;
        let bindings =
            grants.bindings.into_iter().map(|b| Ready::new(&manifest, b)).collect::<Result<Vec<_>, _>>()?;
        let bound = |name: &&String| !bindings.iter().any(|ready| ready.binding.endpoint == **name);
        let unbound = manifest.endpoints.keys().filter(bound).cloned().collect();
        Ok((Provider { revision, manifest, bindings }, Registered { unbound }))
    }

    pub fn name(&self) -> &str {
        &self.manifest.provider.name
    }

    pub fn endpoint(&self, bound: &Bound) -> Result<&Endpoint, Refusal> {
        self.manifest.endpoints.get(&bound.endpoint).ok_or_else(|| unbound(&bound.endpoint))
    }

    pub fn auth(&self, bound: &Bound) -> Result<&Auth, Refusal> {
        self.endpoint(bound)?.auth.get(&bound.auth).ok_or_else(|| unbound(&bound.endpoint))
    }

    /// The binding of an endpoint: the one of the site before the one for every site.
    pub fn bind(&self, endpoint: &str, selector: &Selector) -> Result<Bound, Refusal> {
        let declared = self.manifest.endpoints.get(endpoint).ok_or_else(|| unbound(endpoint))?;
        let (site, value, machine) = match selector {
            Selector::Site { site } => (site, None, None),
            Selector::Value { site, value } => (site, Some(value), None),
            Selector::Machine { site, address, auth } => (site, None, Some((address, auth))),
        };
        let per_machine = matches!(declared.per, Per::Machine { .. });
        // An endpoint for the whole site (a login service, say) also serves calls that were selected more narrowly.
        let value = if matches!(declared.per, Per::Config(_)) { value } else { None };
        let machine = if per_machine { machine } else { None };
        let fits = |ready: &&Ready| {
            let b = &ready.binding;
            b.endpoint == endpoint
                && b.site.as_ref().is_none_or(|of| of == site)
                && b.value.as_ref() == value
                && per_machine == machine.is_some()
        };
        let ready = self
            .bindings
            .iter()
            .filter(fits)
            .max_by_key(|ready| ready.binding.site.is_some())
            .ok_or_else(|| unbound(endpoint))?;
        let (name, origin, auth) = match machine {
            Some((address, auth)) => {
                let origin = machine_origin(address).ok_or_else(|| {
                    let message = format!(
                        "endpoint `{endpoint}`: the machine object's address is not a host name or IP address, with a port at most"
                    );
                    refusal("invalid-input", "AddressDoesNotFit", message)
                })?;
                (format!("{endpoint}/{site}/{}", authority(&origin)), origin, auth.as_ref())
            }
            None => {
                let origin = ready.origin.clone().ok_or_else(|| unbound(endpoint))?;
                let tail = value.map(|value| format!("/{value}")).unwrap_or_default();
                (format!("{endpoint}/{site}{tail}"), origin, None)
            }
        };
        let auth = choose_auth(declared, auth.or(ready.binding.auth.as_ref())).ok_or_else(|| {
            let names = declared.auth.keys().cloned().collect::<Vec<_>>().join(", ");
            let message = format!("endpoint `{endpoint}`: no such authentication; choose one of {names}");
            refusal("invalid-input", "AuthUnknown", message)
        })?;
        let vars = &ready.binding.vars;
        let places =
            [&origin].into_iter().chain(&ready.aliases).map(|origin| place(origin, declared, vars)).collect();
        Ok(Bound {
            name,
            endpoint: endpoint.to_owned(),
            origin,
            places,
            aliases: ready.aliases.clone(),
            ranges: ready.binding.ranges.clone(),
            only_ranges: per_machine,
            tls: ready.tls.clone(),
            vars: ready.binding.vars.clone(),
            auth,
        })
    }
}

impl Ready {
    fn new(manifest: &Manifest, binding: Binding) -> Result<Ready, RegisterError> {
        let endpoint = binding.endpoint.clone();
        let declared = manifest
            .endpoints
            .get(&endpoint)
            .ok_or_else(|| RegisterError::UnknownEndpoint { endpoint: endpoint.clone() })?;
        let bad_origin = |why: &str| RegisterError::Origin { endpoint: endpoint.clone(), why: why.into() };
        let per_machine = matches!(declared.per, Per::Machine { .. });
        let origin = match (&binding.origin, per_machine) {
            (Some(text), false) => Some(parse_origin(text).map_err(bad_origin)?),
            (None, true) if binding.ranges.is_empty() => {
                return Err(RegisterError::RangesRequired { endpoint });
            }
            (None, true) => None,
            (None, false) => return Err(bad_origin("is missing")),
            (Some(_), true) => return Err(bad_origin("is not wanted: the machine object has the address")),
        };
        let aliases = binding.aliases.iter().map(|text| parse_origin(text).map_err(bad_origin));
        let aliases = aliases.collect::<Result<Vec<_>, _>>()?;
        if let Some(var) = declared.vars.iter().find(|var| !binding.vars.contains_key(*var)) {
            return Err(RegisterError::MissingVar { endpoint, var: var.clone() });
        }
        for auth in declared.auth.values() {
            let Auth::Sigv4(Sigv4 { region: Region::Binding(var), .. }) = auth else { continue };
            if !binding.vars.get(var).is_some_and(|region| is_region(region)) {
                return Err(RegisterError::Region { endpoint, var: var.clone() });
            }
        }
        if (!per_machine || binding.auth.is_some()) && choose_auth(declared, binding.auth.as_ref()).is_none()
        {
            let why = match &binding.auth {
                Some(name) => format!("`{name}` is not declared"),
                None => "has several alternatives".to_owned(),
            };
            let names = declared.auth.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(RegisterError::Auth { endpoint, why, names });
        }
        let trust = match (&binding.ca_pem, &binding.pin_sha256) {
            (pem, Some(sha256)) => Trust::Pin { sha256, pem: pem.as_deref() },
            (Some(pem), None) => Trust::Authorities { pem },
            (None, None) => Trust::System,
        };
        let tls = client_config(&trust).map_err(|why| RegisterError::Trust { endpoint, why })?;
        Ok(Ready { binding, origin, aliases, tls })
    }
}

/// Longest place that is written out. What is longer is known by a digest of its variables.
const LONGEST_PLACE: usize = 512;

/// Origin, base path and the variables that the endpoint declares. Operators choose all of them and none is a secret.
fn place(origin: &Url, declared: &Endpoint, vars: &BTreeMap<String, String>) -> String {
    let mut url = origin.clone();
    let base = origin.path().trim_end_matches('/').to_owned();
    url.set_path(&base);
    let known: Vec<_> = vars.iter().filter(|(name, _)| declared.vars.contains(name)).collect();
    if !known.is_empty() {
        url.query_pairs_mut().extend_pairs(known);
    }
    if url.as_str().len() > LONGEST_PLACE {
        let digest = HEXLOWER.encode(&sha256(url.as_str().as_bytes())[..16]);
        url.set_query(Some(&format!("digest={digest}")));
    }
    url.into()
}

fn choose_auth(declared: &Endpoint, wanted: Option<&String>) -> Option<String> {
    match wanted {
        Some(name) => declared.auth.contains_key(name).then(|| name.clone()),
        None if declared.auth.len() == 1 => declared.auth.keys().next().cloned(),
        None => None,
    }
}

/// Parses an origin once; from here on only the typed value is used (attacks 31, 32).
fn parse_origin(text: &str) -> Result<Url, &'static str> {
    if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("holds spaces, control characters or backslashes");
    }
    let url = Url::parse(text).map_err(|_| "is not a URL")?;
    if url.scheme() != "https" {
        return Err("is not https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds user information");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("holds a query or fragment");
    }
    match url.host() {
        Some(Host::Domain(name)) if name.ends_with('.') || name.contains('*') => {
            Err("has no exact host name")
        }
        Some(_) => Ok(url),
        None => Err("has no host"),
    }
}

/// `host`, `host:port`, `[v6]:port`, a bare IPv6 address, or any of the first three after `https://`.
fn machine_origin(address: &str) -> Option<Url> {
    let rest = address.strip_prefix("https://").unwrap_or(address);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let text = match rest.parse::<std::net::Ipv6Addr>() {
        Ok(v6) => format!("[{v6}]"),
        Err(_) => rest.to_owned(),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    if text.is_empty() || text.len() > 255 || !text.chars().all(plain) {
        return None;
    }
    let url = parse_origin(&format!("https://{text}")).ok()?;
    (url.path() == "/").then_some(url)
}

fn authority(origin: &Url) -> String {
    let host = origin.host_str().unwrap_or_default();
    origin.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The same words for whatever is not granted (attack 90).
fn unbound(endpoint: &str) -> Refusal {
    let message = format!("endpoint `{endpoint}` is not bound here; add a [[provider.binding]] for it");
    refusal("permission-denied", "EndpointNotBound", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_https_and_nothing_but_origins_attacks_31_and_32() {
        for good in ["https://api.example", "https://api.example:8443/base", "https://[2001:db8::1]:8443"] {
            assert!(parse_origin(good).is_ok(), "{good}");
        }
        for evil in [
            "http://api.example",
            "https://user@api.example",
            "https://u:p@api.example",
            "https://api.example?x",
            "https://api.example#x",
            "https://api.example.",
            "https://*.example",
            "https:\\\\api.example",
            "https://api .example",
            "ftp://x",
            "api.example",
            "https://",
            "https://api\t.example",
        ] {
            assert!(parse_origin(evil).is_err(), "{evil}");
        }
    }

    #[test]
    fn a_place_is_origin_base_path_and_declared_variables_attack_a9() {
        let declared =
            Endpoint { vars: vec!["region".into(), "project".into()], ..crate::test_kit::endpoint() };
        let at = |origin: &str, vars: &[(&str, &str)]| {
            let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            place(&parse_origin(origin).unwrap(), &declared, &vars)
        };
        assert_eq!(at("https://API.example:443/v1/", &[]), "https://api.example/v1");
        assert_eq!(
            at("https://api.example", &[("region", "eu"), ("project", "a b"), ("else", "x")]),
            "https://api.example/?project=a+b&region=eu",
            "in one order, and no variable that the endpoint does not declare"
        );
        let (one, other) = ("x".repeat(600), format!("{}y", "x".repeat(599)));
        let long = |value: &str| at("https://api.example", &[("region", value)]);
        assert!(long(&one).len() <= LONGEST_PLACE && long(&one) == long(&one) && long(&one) != long(&other));
    }

    #[test]
    fn numeric_disguises_become_addresses_and_are_checked_as_such_attack_29() {
        for text in ["https://0x7f.1", "https://2130706433", "https://0177.0.0.1", "https://127.1"] {
            let url = parse_origin(text).unwrap();
            assert_eq!(url.host(), Some(Host::Ipv4([127, 0, 0, 1].into())), "{text}");
        }
    }

    #[test]
    fn an_address_per_machine_is_a_host_with_a_port_at_most() {
        for good in
            ["10.0.0.7", "10.0.0.7:8443", "bmc-7.lab", "https://bmc-7.lab:443", "fd00::7", "[fd00::7]:8443"]
        {
            assert!(machine_origin(good).is_some(), "{good}");
        }
        for evil in ["", "a/b", "a@b", "http://a", "https://a/b", "a?b", "a#b", "a b", "a%2eb"] {
            assert!(machine_origin(evil).is_none(), "{evil}");
        }
    }
}
