//! What a class offers, and the name of a host that is not there yet.

use crate::calls;
use holdfast_guest_sdk::prelude::*;
use jiff::{SignedDuration, Timestamp};

/// How long what the service said is believed. It sells a type in a zone for years and says nothing of its stock.
const VALID: SignedDuration = SignedDuration::from_mins(30);

/// Keys of a class's config; another is a typing error.
const KEYS: [&str; 9] = [
    "image",
    "instance-types",
    "subnet",
    "zones",
    "security-groups",
    "key-name",
    "instance-profile",
    "root-device",
    "root-size",
];

/// One offering per type and zone, type by type as the class lists them. Only reads (R2.21).
pub fn resolve(request: &ClassRequest, credentials: Credentials<'_>) -> Result<Vec<Offering>, Error> {
    let config = &request.config;
    check(config)?;
    let names = list(config, "instance-types");
    let architecture = architecture(credentials, need(config, "image")?)?;
    let zones = zones(config, credentials)?;
    let types = calls::types(credentials, names.clone())?.types;
    let sold = calls::sold(credentials, names.clone())?.sold;
    let until = timestamp(&now())?.saturating_add(VALID).unwrap_or(Timestamp::MAX).to_string();
    let mut offerings = Vec::new();
    for name in names {
        let Some(ty) = types.iter().find(|one| one.name == name) else {
            return Err(invalid(format!("the region has no instance type `{name}`")));
        };
        if !ty.architectures.contains(&architecture) {
            let message =
                format!("the image is for {architecture}, `{name}` runs {}", ty.architectures.join(", "));
            return Err(invalid(message));
        }
        for (zone, open) in &zones {
            let here = sold.iter().any(|one| one.r#type == name && one.zone == *zone);
            offerings.push(Offering {
                name: format!("{name}-{zone}"),
                instance_type: name.clone(),
                zone: Some(zone.clone()),
                resources: vec![
                    ("cpu".to_owned(), ty.cpus.to_string()),
                    ("memory".to_owned(), format!("{}Mi", ty.memory)),
                ],
                available: *open && here,
                valid_until: until.clone(),
                attributes: vec![("architecture".to_owned(), architecture.clone())],
            });
        }
    }
    Ok(offerings)
}

fn architecture(credentials: Credentials<'_>, image: &str) -> Result<String, Error> {
    let images = match calls::image(credentials, image) {
        Ok(seen) => seen.images,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    match images.into_iter().next() {
        Some(image) if image.state == "available" => Ok(image.architecture),
        Some(other) => Err(invalid(format!("image `{image}` is {}", other.state))),
        None => Err(invalid(format!("the account sees no image `{image}` in this region"))),
    }
}

/// The zones of the class, each with whether it can take another instance: a subnet's own, or the default subnets'.
fn zones(config: &ProviderConfig, credentials: Credentials<'_>) -> Result<Vec<(String, bool)>, Error> {
    if let Some(id) = value(config, "subnet") {
        let subnets = match calls::subnet(credentials, id) {
            Ok(seen) => seen.subnets,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let subnet = subnets.into_iter().next();
        let subnet =
            subnet.ok_or_else(|| invalid(format!("the account has no subnet `{id}` in this region")))?;
        return Ok(vec![(subnet.zone, subnet.free > 0)]);
    }
    let known = calls::zones(credentials)?.zones;
    let wanted = list(config, "zones");
    let all = || known.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = wanted.iter().find(|name| known.iter().all(|one| one.name != **name)) {
        return Err(invalid(format!("the region has no zone `{unknown}`; it has {}", all())));
    }
    let chosen = known.into_iter().filter(|one| wanted.is_empty() || wanted.contains(&one.name));
    Ok(chosen.map(|one| (one.name, one.state == "available")).collect())
}

/// Pure (R2.24): the locator is the allocation's own in the offering's zone, and the instance's once that is there.
pub fn plan(request: &PlanRequest) -> Result<Plan, Error> {
    check(&request.config)?;
    let zone = request.offering.zone.clone().ok_or_else(|| {
        Error::invalid_input("ZoneMissing", format!("offering {} names no zone", request.offering.name))
    })?;
    let planned = calls::ProviderId { zone, instance: format!("planned-{}", request.allocation_uid) };
    Ok(Plan { provider_id: planned.text(), host_image: need(&request.config, "image")?.to_owned() })
}

/// What can be said of a config without asking anybody.
pub fn check(config: &ProviderConfig) -> Result<(), Error> {
    if let Some((key, _)) = config.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        return Err(invalid(format!("`{key}` is no key of this provider; there are {}", KEYS.join(", "))));
    }
    need(config, "image")?;
    if list(config, "instance-types").is_empty() {
        return Err(invalid("`instance-types` names no instance type".to_owned()));
    }
    if value(config, "subnet").is_some() && value(config, "zones").is_some() {
        return Err(invalid("a subnet lies in one zone: `subnet` and `zones` exclude each other".to_owned()));
    }
    if value(config, "root-device").is_some() != value(config, "root-size").is_some() {
        return Err(invalid("`root-device` and `root-size` need each other".to_owned()));
    }
    Ok(())
}

fn value<'c>(config: &'c ProviderConfig, key: &str) -> Option<&'c str> {
    let found = config.iter().find(|(name, _)| name == key).map(|(_, value)| value.trim());
    found.filter(|value| !value.is_empty())
}

fn need<'c>(config: &'c ProviderConfig, key: &str) -> Result<&'c str, Error> {
    value(config, key).ok_or_else(|| invalid(format!("`{key}` is missing")))
}

fn list(config: &ProviderConfig, key: &str) -> Vec<String> {
    let text = value(config, key).unwrap_or_default();
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

/// A time of the host.
pub fn timestamp(text: &str) -> Result<Timestamp, Error> {
    text.parse()
        .map_err(|_| Error::transient(Code::Internal, "TimeUnreadable", format!("`{text}` is no time")))
}

fn invalid(message: String) -> Error {
    Error::invalid_input("InvalidConfig", format!("the class's config cannot be served: {message}"))
}
