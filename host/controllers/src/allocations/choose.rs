//! Which offering an allocation launches from: a pure function of the class's offerings, of what the allocation wants,
//! of the time, and of what had no capacity lately.
//!
//! The first offering in the class's order that will do is taken. When none will do, a sentence says how many failed
//! for what.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_api::{Constraints, Offering};
use jiff::Timestamp;

use super::quantity::Quantity;
use crate::clock::add;

/// How much longer than now an offering must be valid: from the choice to the first request some time passes (R2.23).
pub(crate) const MARGIN: Duration = Duration::from_secs(10);

/// Constraints, understood.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wants<'a> {
    offerings: &'a [String],
    instance_types: &'a [String],
    zones: &'a [String],
    resources: BTreeMap<&'a str, Quantity>,
}

impl<'a> Wants<'a> {
    /// Understands constraints.
    ///
    /// # Errors
    /// A sentence that names the quantity that is none.
    pub(crate) fn parse(constraints: &'a Constraints) -> Result<Self, String> {
        let mut resources = BTreeMap::new();
        for (name, text) in &constraints.resources {
            let quantity = Quantity::parse(text).ok_or_else(|| {
                format!(
                    "spec.constraints.resources.{name} is {text:?}, which is no quantity such as 4 or 16Gi"
                )
            })?;
            resources.insert(name.as_str(), quantity);
        }
        Ok(Self {
            offerings: &constraints.offerings,
            instance_types: &constraints.instance_types,
            zones: &constraints.zones,
            resources,
        })
    }

    /// The first thing that an offering lacks.
    fn lacks(&self, offering: &Offering) -> Option<Lack> {
        let wanted = |list: &[String], value: &str| list.is_empty() || list.iter().any(|one| one == value);
        if !wanted(self.offerings, &offering.name) {
            return Some(Lack::Name);
        }
        if !wanted(self.instance_types, &offering.instance_type) {
            return Some(Lack::InstanceType);
        }
        if !wanted(self.zones, offering.zone.as_deref().unwrap_or_default()) {
            return Some(Lack::Zone);
        }
        let enough = |(name, least): (&&str, &Quantity)| {
            let has = offering.resources.get(*name).and_then(|text| Quantity::parse(text));
            has.is_some_and(|has| has >= *least)
        };
        (!self.resources.iter().all(enough)).then_some(Lack::Resources)
    }
}

/// Why an offering will not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Name,
    InstanceType,
    Zone,
    Resources,
    Unavailable,
    Expired,
    Exhausted,
}

impl Lack {
    /// Whether the constraints themselves exclude the offering.
    fn by_constraints(self) -> bool {
        self <= Self::Resources
    }

    fn told(self, count: usize) -> String {
        let (one, more) = match self {
            Self::Name => ("is not among those named", "are not among those named"),
            Self::InstanceType => ("is of another instance type", "are of other instance types"),
            Self::Zone => ("is in another zone", "are in other zones"),
            Self::Resources => ("has too few resources", "have too few resources"),
            Self::Unavailable => ("is unavailable", "are unavailable"),
            Self::Expired => ("has expired", "have expired"),
            Self::Exhausted => ("had no capacity lately", "had no capacity lately"),
        };
        format!("{count} {}", if count == 1 { one } else { more })
    }
}

/// Why no offering will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoOffering {
    /// `NoOfferings`, `NoOfferingFits` or `NoOfferingAvailable`.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
    /// When the first exhausted offering may be tried again.
    pub until: Option<Timestamp>,
}

/// Chooses. `blocked` says until when an offering is not to be tried, because it had no capacity.
///
/// # Errors
/// Why none will do.
pub(crate) fn choose<'a>(
    offerings: &'a [Offering],
    wants: &Wants<'_>,
    now: Timestamp,
    blocked: impl Fn(&Offering) -> Option<Timestamp>,
) -> Result<&'a Offering, NoOffering> {
    let mut lacks: BTreeMap<Lack, usize> = BTreeMap::new();
    let mut until: Option<Timestamp> = None;
    for offering in offerings {
        let lack = wants.lacks(offering).or_else(|| {
            if !offering.available {
                return Some(Lack::Unavailable);
            }
            if offering.valid_until.0 <= add(now, MARGIN) {
                return Some(Lack::Expired);
            }
            let free = blocked(offering)?;
            until = Some(until.map_or(free, |until| until.min(free)));
            Some(Lack::Exhausted)
        });
        match lack {
            None => return Ok(offering),
            Some(lack) => *lacks.entry(lack).or_default() += 1,
        }
    }
    Err(NoOffering { reason: reason(&lacks), message: told(offerings.len(), &lacks), until })
}

fn reason(lacks: &BTreeMap<Lack, usize>) -> &'static str {
    match lacks.keys().next_back() {
        None => "NoOfferings",
        Some(last) if last.by_constraints() => "NoOfferingFits",
        Some(_) => "NoOfferingAvailable",
    }
}

fn told(all: usize, lacks: &BTreeMap<Lack, usize>) -> String {
    if all == 0 {
        return "the class has no offerings".to_owned();
    }
    let told: Vec<String> = lacks.iter().map(|(lack, count)| lack.told(*count)).collect();
    match all {
        1 => format!("the one offering of the class will not do: {}", told.join(", ")),
        all => format!("none of the {all} offerings of the class will do: {}", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_api::Time;

    const NOW: Timestamp = Timestamp::constant(1_000, 0);

    fn offering(name: &str) -> Offering {
        Offering {
            name: name.to_owned(),
            instance_type: "small".to_owned(),
            zone: Some("z1".to_owned()),
            resources: [("cpu".to_owned(), "4".to_owned()), ("memory".to_owned(), "16Gi".to_owned())].into(),
            available: true,
            valid_until: Time(Timestamp::constant(2_000, 0)),
            attributes: BTreeMap::new(),
        }
    }

    fn chosen(offerings: &[Offering], constraints: &Constraints) -> Result<String, NoOffering> {
        let wants = Wants::parse(constraints).unwrap();
        choose(offerings, &wants, NOW, |_| None).map(|offering| offering.name.clone())
    }

    #[test]
    fn the_first_in_the_classs_order_that_will_do_is_taken() {
        let mut first = offering("first");
        first.available = false;
        let all = [first, offering("second"), offering("third")];
        assert_eq!(chosen(&all, &Constraints::default()).unwrap(), "second");
    }

    /// R2.23, with a margin.
    #[test]
    fn an_offering_that_has_expired_or_is_about_to_is_not_taken() {
        for (second, taken) in [(999, false), (1_000, false), (1_010, false), (1_011, true)] {
            let mut one = offering("one");
            one.valid_until = Time(Timestamp::from_second(second).unwrap());
            assert_eq!(chosen(&[one], &Constraints::default()).is_ok(), taken, "{second}");
        }
    }

    #[test]
    fn every_constraint_excludes_and_quantities_are_numbers() {
        let texts = |one: &str| vec![one.to_owned()];
        let least = |name: &str, quantity: &str| Constraints {
            resources: [(name.to_owned(), quantity.to_owned())].into(),
            ..Constraints::default()
        };
        let cases = [
            (Constraints { offerings: texts("one"), ..Constraints::default() }, true),
            (Constraints { offerings: texts("other"), ..Constraints::default() }, false),
            (Constraints { instance_types: texts("small"), ..Constraints::default() }, true),
            (Constraints { instance_types: texts("large"), ..Constraints::default() }, false),
            (Constraints { zones: texts("z1"), ..Constraints::default() }, true),
            (Constraints { zones: texts("z2"), ..Constraints::default() }, false),
            (least("cpu", "3500m"), true),
            (least("cpu", "10"), false),
            (least("memory", "16384Mi"), true),
            (least("memory", "17Gi"), false),
            (least("nvidia.com/gpu", "1"), false),
        ];
        for (constraints, fits) in cases {
            assert_eq!(chosen(&[offering("one")], &constraints).is_ok(), fits, "{constraints:?}");
        }
    }

    #[test]
    fn a_quantity_that_is_none_is_named() {
        let constraints = Constraints {
            resources: [("cpu".to_owned(), "four".to_owned())].into(),
            ..Constraints::default()
        };
        let message = Wants::parse(&constraints).unwrap_err();
        assert!(message.contains("spec.constraints.resources.cpu") && message.contains("four"), "{message}");
    }

    #[test]
    fn the_sentence_tells_how_many_failed_for_what_and_until_when() {
        let mut elsewhere = offering("elsewhere");
        elsewhere.zone = Some("z2".to_owned());
        let mut away = offering("away");
        away.available = false;
        let mut old = offering("old");
        old.valid_until = Time(NOW);
        let all = [elsewhere, away.clone(), away, old, offering("full"), offering("fuller")];
        let constraints = Constraints { zones: vec!["z1".to_owned()], ..Constraints::default() };
        let wants = Wants::parse(&constraints).unwrap();
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let none =
            choose(&all, &wants, NOW, |offering| if offering.name == "full" { at(1_600) } else { at(1_300) })
                .unwrap_err();
        assert_eq!(
            none.message,
            "none of the 6 offerings of the class will do: 1 is in another zone, 2 are unavailable, 1 has expired, \
             2 had no capacity lately"
        );
        assert_eq!((none.reason, none.until), ("NoOfferingAvailable", at(1_300)));
    }

    #[test]
    fn none_at_all_and_none_that_could_ever_fit_are_told_apart() {
        assert_eq!(chosen(&[], &Constraints::default()).unwrap_err().reason, "NoOfferings");
        let constraints = Constraints { zones: vec!["z9".to_owned()], ..Constraints::default() };
        let none = chosen(&[offering("one")], &constraints).unwrap_err();
        assert_eq!(none.reason, "NoOfferingFits");
        assert_eq!(none.message, "the one offering of the class will not do: 1 is in another zone");
    }
}
