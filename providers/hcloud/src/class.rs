//! What a class offers, and the name of a host that is not there yet.

use crate::calls;
use holdfast_guest_sdk::capacity::{ClassRequest, Offering, Plan, PlanRequest, ProviderConfig};
use holdfast_guest_sdk::{Code, Credentials, Error, now};
use jiff::{SignedDuration, Timestamp};

/// How long what the service said is believed.
const VALID: SignedDuration = SignedDuration::from_mins(10);

/// Keys of a class's config; another is a typing error.
const KEYS: [&str; 6] = ["image", "server-types", "locations", "ssh-keys", "firewalls", "networks"];

/// One offering per type and location, type by type as the class lists them. Only reads (R2.21).
pub fn resolve(request: &ClassRequest, credentials: Credentials<'_>) -> Result<Vec<Offering>, Error> {
    let config = &request.config;
    check_keys(config)?;
    let image = need(config, "image")?;
    let types = list(config, "server-types");
    if types.is_empty() {
        return Err(invalid("`server-types` names no server type".to_owned()));
    }
    if calls::images(credentials, image)?.images.is_empty() && !is_number(image) {
        return Err(invalid(format!("the project has no available image `{image}`")));
    }
    let known: Vec<String> =
        calls::locations(credentials)?.locations.into_iter().map(|one| one.name).collect();
    let mut locations = list(config, "locations");
    if let Some(unknown) = locations.iter().find(|one| !known.contains(one)) {
        return Err(invalid(format!("there is no location `{unknown}`; there are {}", known.join(", "))));
    }
    if locations.is_empty() {
        locations = known;
    }
    let sold = calls::server_types(credentials)?.types;
    let now = timestamp(&now())?;
    let mut offerings = Vec::new();
    for name in types {
        let Some(ty) = sold.iter().find(|one| one.name == name) else {
            let names: Vec<&str> = sold.iter().map(|one| one.name.as_str()).collect();
            return Err(invalid(format!("there is no server type `{name}`; there are {}", names.join(", "))));
        };
        for location in &locations {
            offerings.push(offering(ty, location, now)?);
        }
    }
    Ok(offerings)
}

/// Truthful (R2.22): what is not sold at a place is listed as not available there, and nothing is valid for longer than
/// the service will sell it.
fn offering(ty: &calls::ServerTypesTypes, location: &str, now: Timestamp) -> Result<Offering, Error> {
    let listed = ty.locations.as_ref().filter(|all| !all.is_empty());
    let here = listed.map(|all| all.iter().find(|one| one.name == location));
    let mut until = now.saturating_add(VALID).unwrap_or(now);
    let available = match here {
        None => true,
        Some(None) => false,
        Some(Some(here)) => {
            if let Some(ends) = &here.ends {
                until = until.min(timestamp(ends)?);
            }
            here.available.unwrap_or(true) && until > now
        }
    };
    let resources = vec![
        ("cpu".to_owned(), ty.cores.to_string()),
        ("ephemeral-storage".to_owned(), format!("{}G", ty.disk)),
    ];
    let architecture = ty.architecture.iter().map(|it| ("architecture".to_owned(), it.clone()));
    Ok(Offering {
        name: format!("{}-{location}", ty.name),
        instance_type: ty.name.clone(),
        zone: Some(location.to_owned()),
        resources,
        available,
        valid_until: until.to_string(),
        attributes: architecture.collect(),
    })
}

/// Pure (R2.24): the locator is the allocation's own, and is replaced by the server's once that is there.
pub fn plan(request: &PlanRequest) -> Result<Plan, Error> {
    check_keys(&request.config)?;
    let planned = calls::ProviderId { server: format!("planned-{}", request.allocation_uid) };
    Ok(Plan { provider_id: planned.text(), host_image: need(&request.config, "image")?.to_owned() })
}

fn check_keys(config: &ProviderConfig) -> Result<(), Error> {
    match config.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        None => Ok(()),
        Some((key, _)) => {
            Err(invalid(format!("`{key}` is no key of this provider; there are {}", KEYS.join(", "))))
        }
    }
}

fn value<'c>(config: &'c ProviderConfig, key: &str) -> Option<&'c str> {
    config
        .iter()
        .find(|(name, _)| name == key)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

fn need<'c>(config: &'c ProviderConfig, key: &str) -> Result<&'c str, Error> {
    value(config, key).ok_or_else(|| invalid(format!("`{key}` is missing")))
}

fn list(config: &ProviderConfig, key: &str) -> Vec<String> {
    let text = value(config, key).unwrap_or_default();
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

/// Snapshots have no name: they are used by their number, which only the service can judge.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A time of the host or of the service.
pub fn timestamp(text: &str) -> Result<Timestamp, Error> {
    text.parse()
        .map_err(|_| Error::transient(Code::Internal, "TimeUnreadable", format!("`{text}` is no time")))
}

fn invalid(message: String) -> Error {
    Error::invalid_input("InvalidConfig", format!("the class's config cannot be served: {message}"))
}
