//! What a class offers, and the name of a host that is not there yet.

use crate::calls;
use holdfast_guest_sdk::capacity::{ClassRequest, Offering, Plan, PlanRequest, ProviderConfig};
use holdfast_guest_sdk::{Code, Credentials, Error, now};
use jiff::{SignedDuration, Timestamp};

/// Keys of a class's config; another is a typing error.
const KEYS: [&str; 5] = ["image", "types", "zones", "volumes", "nics"];

/// Most volumes, and most network interfaces, of one host: each is an effect, of which an operation has 32.
const MOST_PARTS: usize = 8;

/// One offering per type and zone, type by type as the class lists them. Only reads (R2.21).
pub fn resolve(request: &ClassRequest, credentials: Credentials<'_>) -> Result<Vec<Offering>, Error> {
    let config = &request.config;
    check(config)?;
    let types = calls::types(credentials)?.types;
    let places = calls::zones(credentials)?;
    let until = valid_until(places.valid)?;
    let kinds = chosen(config, "types", types.iter().map(|one| one.name.as_str()).collect())?;
    let zones = chosen(config, "zones", places.zones.iter().map(|one| one.name.as_str()).collect())?;
    let mut offerings = Vec::new();
    for kind in kinds {
        let Some(kind) = types.iter().find(|one| one.name == kind) else { continue };
        for zone in &zones {
            let Some(place) = places.zones.iter().find(|one| one.name == *zone) else { continue };
            let here = place.capacity.iter().find(|one| one.r#type == kind.name);
            offerings.push(Offering {
                name: format!("{}-{zone}", kind.name),
                instance_type: kind.name.clone(),
                zone: Some((*zone).to_owned()),
                resources: vec![
                    ("cpu".to_owned(), kind.cpus.to_string()),
                    ("memory".to_owned(), format!("{}Mi", kind.memory)),
                ],
                // Truthful (R2.22): what the cloud does not list there cannot be had there.
                available: here.is_some_and(|one| one.left.is_none_or(|left| left > 0)),
                valid_until: until.clone(),
                attributes: Vec::new(),
            });
        }
    }
    Ok(offerings)
}

/// Pure (R2.24): the locator is the allocation's own, and is replaced by the server's once that is there.
pub fn plan(request: &PlanRequest) -> Result<Plan, Error> {
    check(&request.config)?;
    let planned = calls::ProviderId { server: format!("planned-{}", request.allocation_uid) };
    Ok(Plan { provider_id: planned.text(), host_image: image(&request.config)?.to_owned() })
}

/// Sizes of the volumes in GiB, in the order of their keys.
pub fn volumes(config: &ProviderConfig) -> Result<Vec<i64>, Error> {
    let number = |text: &str| text.parse::<i64>().ok().filter(|size| *size > 0);
    let sizes: Option<Vec<i64>> = list(config, "volumes").into_iter().map(number).collect();
    let sizes = sizes.ok_or_else(|| invalid("`volumes` lists sizes in GiB, such as 20,100".to_owned()))?;
    few("volumes", sizes.len()).map(|()| sizes)
}

/// How many network interfaces beside the server's own.
pub fn nics(config: &ProviderConfig) -> Result<usize, Error> {
    let count = value(config, "nics").map_or(Some(0), |text| text.parse().ok());
    let count = count.ok_or_else(|| invalid("`nics` is a number".to_owned()))?;
    few("nics", count).map(|()| count)
}

fn few(key: &str, count: usize) -> Result<(), Error> {
    if count <= MOST_PARTS { Ok(()) } else { Err(invalid(format!("`{key}` is at most {MOST_PARTS}"))) }
}

fn check(config: &ProviderConfig) -> Result<(), Error> {
    if let Some((key, _)) = config.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        return Err(invalid(format!("`{key}` is no key of this provider; there are {}", KEYS.join(", "))));
    }
    image(config)?;
    volumes(config)?;
    nics(config).map(|_| ())
}

fn image(config: &ProviderConfig) -> Result<&str, Error> {
    value(config, "image").ok_or_else(|| invalid("`image` is missing".to_owned()))
}

/// The names that the class lists, each of which must exist; without a list all of them.
fn chosen<'n>(config: &'n ProviderConfig, key: &str, known: Vec<&'n str>) -> Result<Vec<&'n str>, Error> {
    let listed = list(config, key);
    match listed.iter().find(|one| !known.contains(one)) {
        Some(unknown) => {
            Err(invalid(format!("`{key}` names `{unknown}`, and there are {}", known.join(", "))))
        }
        None if listed.is_empty() => Ok(known),
        None => Ok(listed),
    }
}

fn value<'c>(config: &'c ProviderConfig, key: &str) -> Option<&'c str> {
    let found = config.iter().find(|(name, _)| name == key);
    found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
}

fn list<'c>(config: &'c ProviderConfig, key: &str) -> Vec<&'c str> {
    let text = value(config, key).unwrap_or_default();
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).collect()
}

/// By the host's clock, which is the one that offerings are judged by.
fn valid_until(seconds: i64) -> Result<String, Error> {
    let now: Timestamp = now()
        .parse()
        .map_err(|_| Error::transient(Code::Internal, "TimeUnreadable", "the host's time is none"))?;
    let until = now.checked_add(SignedDuration::from_secs(seconds.max(1)));
    Ok(until.unwrap_or(now).to_string())
}

fn invalid(message: String) -> Error {
    Error::invalid_input("InvalidConfig", format!("the class's config cannot be served: {message}"))
}
