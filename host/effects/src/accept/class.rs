//! Offerings of a class and the plan of an allocation (R2.22, R2.24).

use super::{printable, scanned};
use crate::callback::{ClassOffering, Plan};
use crate::failure::violation;
use crate::message::Violation;
use crate::session::Room;
use crate::text::shown;
use holdfast_custody::Place;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashSet;

/// Most offerings of one class.
const MAX_OFFERINGS: usize = 512;
/// Most bytes of all texts of a class's offerings together: they stand in one object.
const MAX_CLASS: usize = 512 * 1024;
/// Longest name, in bytes; that of a Kubernetes object.
const MAX_NAME: usize = 253;
/// Longest instance type, zone or resource name, in bytes.
const MAX_WORD: usize = 256;
/// Most resources of an offering.
const MAX_RESOURCES: usize = 32;
/// Longest quantity, in bytes.
const MAX_QUANTITY: usize = 64;
/// Most bytes of an offering's attributes, names and values together.
const MAX_ATTRIBUTES: usize = 4096;
/// Longest life of an offering, in hours. What a service offers today says little about tomorrow.
const MAX_LIFE_HOURS: i64 = 24;
/// Longest planned locator or image, in bytes.
const MAX_PLANNED: usize = 2048;

pub(super) fn resolved(room: &Room, offerings: Vec<ClassOffering>) -> Result<Vec<ClassOffering>, Violation> {
    if offerings.len() > MAX_OFFERINGS {
        return Err(wrong(format!("a class has at most {MAX_OFFERINGS} offerings, not {}", offerings.len())));
    }
    if offerings.iter().map(size).sum::<usize>() > MAX_CLASS {
        return Err(wrong(format!("the offerings of a class have at most {MAX_CLASS} bytes together")));
    }
    let mut names = HashSet::new();
    let mut accepted = Vec::with_capacity(offerings.len());
    for offering in offerings {
        let offering = one(room, offering)?;
        if !names.insert(offering.name.clone()) {
            return Err(wrong(format!("two offerings are named `{}`", offering.name)));
        }
        accepted.push(offering);
    }
    Ok(accepted)
}

fn one(room: &Room, mut offering: ClassOffering) -> Result<ClassOffering, Violation> {
    scanned(room, Place::Result, &offering.name)?;
    let name = shown(&offering.name);
    if !named_like_an_object(&offering.name) {
        return Err(wrong(format!(
            "offering `{name}` is not named like an object: lower-case letters, digits, `-` and `.`, at most \
             {MAX_NAME} bytes"
        )));
    }
    printable(room, "BadOffering", "an instance type (R2.22)", &offering.instance_type, MAX_WORD)?;
    if offering.instance_type.trim().is_empty() {
        return Err(wrong(format!("offering `{name}` names no instance type")));
    }
    offering.zone = offering.zone.filter(|zone| !zone.is_empty());
    if let Some(zone) = &offering.zone {
        printable(room, "BadOffering", "a zone (R2.22)", zone, MAX_WORD)?;
    }
    resources(room, &name, &offering.resources)?;
    attributes(room, &name, &offering.attributes)?;
    scanned(room, Place::Result, &offering.valid_until)?;
    offering.valid_until = until(room.context.now, &offering.valid_until)
        .ok_or_else(|| {
            wrong(format!("`valid-until` of offering `{name}` is no moment in the future in RFC 3339"))
        })?
        .to_string();
    Ok(offering)
}

/// In the future of the guest's own clock; cut to the longest life.
fn until(now: Timestamp, given: &str) -> Option<Timestamp> {
    let most = now.checked_add(SignedDuration::from_hours(MAX_LIFE_HOURS)).ok()?;
    given.parse::<Timestamp>().ok().filter(|until| *until > now).map(|until| until.min(most))
}

fn resources(room: &Room, offering: &str, given: &[(String, String)]) -> Result<(), Violation> {
    unique(offering, "resource", given, MAX_RESOURCES)?;
    for (name, value) in given {
        printable(room, "BadOffering", "a resource's name (R2.22)", name, MAX_WORD)?;
        scanned(room, Place::Result, value)?;
        if !is_quantity(value) {
            return Err(wrong(format!(
                "resource `{}` of offering `{offering}` is `{}`, which is no Kubernetes quantity such as 4 or 16Gi",
                shown(name),
                shown(value)
            )));
        }
    }
    Ok(())
}

/// Opaque, but everybody who may read the class reads them.
fn attributes(room: &Room, offering: &str, given: &[(String, String)]) -> Result<(), Violation> {
    unique(offering, "attribute", given, MAX_ATTRIBUTES)?;
    if given.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_ATTRIBUTES {
        return Err(wrong(format!(
            "the attributes of offering `{offering}` have at most {MAX_ATTRIBUTES} bytes together"
        )));
    }
    given.iter().flat_map(|(name, value)| [name, value]).try_for_each(|text| {
        printable(room, "BadOffering", "an offering's attribute (R2.22)", text, MAX_ATTRIBUTES)
    })
}

fn unique(offering: &str, what: &str, pairs: &[(String, String)], most: usize) -> Result<(), Violation> {
    if pairs.len() > most {
        return Err(wrong(format!("offering `{offering}` has more than {most} {what}s")));
    }
    let mut names = HashSet::new();
    match pairs.iter().find(|(name, _)| name.trim().is_empty() || !names.insert(name)) {
        None => Ok(()),
        Some((name, _)) => Err(wrong(format!(
            "offering `{offering}` has a {what} `{}` that is blank or stands there twice",
            shown(name)
        ))),
    }
}

fn size(offering: &ClassOffering) -> usize {
    let pairs = offering.resources.iter().chain(&offering.attributes);
    let texts = [&offering.name, &offering.instance_type, &offering.valid_until].map(String::len);
    texts.into_iter().sum::<usize>()
        + offering.zone.as_ref().map_or(0, String::len)
        + pairs.map(|(name, value)| name.len() + value.len()).sum::<usize>()
}

/// The planned identity of a host (R2.24). Nobody believes it: it counts for nothing until it is made of owned parts.
pub(super) fn planned(room: &Room, plan: Plan) -> Result<Plan, Violation> {
    printable(room, "BadPlan", "a planned locator (R2.24)", &plan.provider_id, MAX_PLANNED)?;
    printable(room, "BadPlan", "a planned image (R2.24)", &plan.host_image, MAX_PLANNED)?;
    if plan.provider_id.trim().is_empty() {
        return Err(violation("BadPlan", "the plan was refused: it names no locator (R2.24)"));
    }
    Ok(plan)
}

fn wrong(what: String) -> Violation {
    violation("BadOffering", format!("the offerings were refused: {what} (R2.22)"))
}

/// A DNS subdomain, as object names are.
fn named_like_an_object(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let label = |label: &str| {
        let bytes = label.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    };
    name.len() <= MAX_NAME && name.split('.').all(label)
}

/// The grammar of quantities, without those below zero.
fn is_quantity(text: &str) -> bool {
    if text.len() > MAX_QUANTITY {
        return false;
    }
    let number = text.strip_prefix('+').unwrap_or(text);
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let (digits, suffix) = number.split_at(end);
    let plain = digits.matches('.').count() <= 1 && digits.bytes().any(|b| b.is_ascii_digit());
    let exponent = |rest: &str| {
        let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        (1..=3).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_digit())
    };
    plain
        && (matches!(suffix, "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E")
            || matches!(suffix, "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei")
            || suffix.strip_prefix(['e', 'E']).is_some_and(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_follow_the_kubernetes_grammar_and_are_not_below_zero() {
        for good in ["4", "0", "16Gi", "1.5", ".5", "5.", "100m", "1e3", "1E-3", "+2", "64k", "2Ti"] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in
            ["", ".", "-1", "1.2.3", "4 Gi", "Gi", "1K", "1gi", "1e", "0x10", "1e1234", &"1".repeat(65)]
        {
            assert!(!is_quantity(bad), "{bad}");
        }
    }

    #[test]
    fn an_offering_is_named_like_an_object() {
        for good in ["a", "m5.large-eu-1", "0"] {
            assert!(named_like_an_object(good), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", "a/b", &"a".repeat(254)] {
            assert!(!named_like_an_object(bad), "{bad}");
        }
    }
}
