//! What each account may ask of each origin, read when somebody scrapes.
//!
//! Labels are origins and names of credentials. A fleet of BMCs has thousands of them: the first [`MOST`] that were seen
//! keep labels of their own for as long as they are in use, all others are summed up under one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use holdfast_custody::{BudgetView, Custody};
use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Most (origin, account) with labels of their own.
const MOST: usize = 64;
/// The label of all the others.
const OTHERS: &str = "others";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Whose {
    endpoint: String,
    account: String,
}

/// The figures of one label set, in the order of [`GAUGES`] and [`COUNTERS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    gauges: [u64; 6],
    counters: [u64; 4],
}

const GAUGES: [(&str, &str); 6] = [
    ("budget_limit", "Most requests in flight, as learnt so far"),
    ("budget_in_flight", "Requests on their way"),
    ("budget_waiting", "Requests that wait for their turn"),
    (
        "budget_remaining",
        "Requests left of the rate that the service declares; absent where it declares none",
    ),
    ("budget_throttled", "1: the service wants no request for now"),
    ("budget_breaker_open", "1: nothing is sent because the service refused the credentials"),
];
const REMAINING: usize = 3;

const COUNTERS: [(&str, &str); 4] = [
    ("budget_sent", "Requests sent"),
    ("budget_throttlings", "Answers that asked for fewer requests"),
    ("budget_overloads", "Answers that told of overload, or did not come in time"),
    ("budget_refusals", "Requests turned away before anything was sent"),
];

pub struct BudgetMetrics {
    custody: Custody,
    named: Mutex<BTreeSet<Whose>>,
}

impl BudgetMetrics {
    pub fn new(custody: Custody) -> BudgetMetrics {
        BudgetMetrics { custody, named: Mutex::default() }
    }
}

impl std::fmt::Debug for BudgetMetrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("BudgetMetrics")
    }
}

impl Whose {
    fn of(view: &BudgetView) -> Whose {
        let account = if view.name.is_empty() { "none" } else { &view.name };
        Whose { endpoint: view.endpoint.clone(), account: account.to_owned() }
    }

    fn others() -> Whose {
        Whose { endpoint: OTHERS.to_owned(), account: OTHERS.to_owned() }
    }
}

/// What is shown, by labels. `remaining` is told where every budget of a label set has one.
fn summed(views: &[BudgetView], named: &mut BTreeSet<Whose>, now: Timestamp) -> BTreeMap<Whose, (Sum, bool)> {
    let there: BTreeSet<Whose> = views.iter().map(Whose::of).collect();
    named.retain(|one| there.contains(one));
    for one in there {
        if named.len() < MOST {
            named.insert(one);
        }
    }
    let mut all: BTreeMap<Whose, (Sum, bool)> = BTreeMap::new();
    for view in views {
        let whose = Some(Whose::of(view)).filter(|one| named.contains(one)).unwrap_or_else(Whose::others);
        let (sum, declared) = all.entry(whose).or_insert((Sum::default(), true));
        let until = |at: Option<Timestamp>| u64::from(at.is_some_and(|at| at > now));
        let gauges = [
            view.limit.into(),
            view.in_flight.into(),
            view.waiting.into(),
            view.remaining.unwrap_or_default(),
            until(view.throttled_until),
            until(view.held_until),
        ];
        let counters = [view.sent, view.throttled, view.overloaded, view.refused];
        sum.gauges.iter_mut().zip(gauges).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        sum.counters.iter_mut().zip(counters).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        *declared &= view.remaining.is_some();
    }
    all
}

impl Collector for BudgetMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let all = {
            let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
            summed(&self.custody.budgets(), &mut named, Timestamp::now())
        };
        if all.is_empty() {
            return Ok(());
        }
        for (place, (name, help)) in GAUGES.into_iter().enumerate() {
            let one = ConstGauge::new(0_i64);
            let mut metric = encoder.encode_descriptor(name, help, None, one.metric_type())?;
            for (whose, (sum, declared)) in &all {
                if place == REMAINING && !declared {
                    continue;
                }
                let value = i64::try_from(sum.gauges[place]).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(metric.encode_family(whose)?)?;
            }
        }
        for (place, (name, help)) in COUNTERS.into_iter().enumerate() {
            let one = ConstCounter::new(0_u64);
            let mut metric = encoder.encode_descriptor(name, help, None, one.metric_type())?;
            // A sum over those that come and go is no counter.
            for (whose, (sum, _)) in all.iter().filter(|(whose, _)| whose.endpoint != OTHERS) {
                ConstCounter::new(sum.counters[place]).encode(metric.encode_family(whose)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(endpoint: &str, name: &str) -> BudgetView {
        BudgetView {
            endpoint: endpoint.to_owned(),
            account: "uid".to_owned(),
            name: name.to_owned(),
            limit: 4,
            in_flight: 1,
            waiting: 2,
            throttled_until: None,
            remaining: None,
            held_until: None,
            sent: 10,
            throttled: 1,
            overloaded: 0,
            refused: 3,
        }
    }

    fn bmc(number: usize) -> BudgetView {
        view(&format!("https://bmc-{number:05}.example"), "bmc")
    }

    #[test]
    fn the_number_of_label_sets_is_bounded_and_who_has_one_keeps_it_while_it_is_in_use() {
        let (mut named, now) = (BTreeSet::new(), Timestamp::now());
        let fleet: Vec<BudgetView> = (100..10_100).map(bmc).collect();
        let all = summed(&fleet, &mut named, now);
        assert_eq!(all.len(), MOST + 1);
        let others = all[&Whose::others()].0;
        assert_eq!(others.gauges[2], 2 * (10_000 - MOST as u64), "all that wait are counted");
        // New ones that come first in the alphabet push nobody out.
        let more: Vec<BudgetView> = (0..10_100).map(bmc).collect();
        let before = named.clone();
        summed(&more, &mut named, now);
        assert_eq!(named, before);
        summed(&more[..10], &mut named, now);
        assert_eq!(named.len(), 10, "who is gone makes room");
    }

    #[test]
    fn credentials_made_anew_under_a_name_share_its_labels_and_what_is_held_back_is_told() {
        let (mut named, now) = (BTreeSet::new(), Timestamp::now());
        let later = now + jiff::SignedDuration::from_secs(5);
        let mut old = view("https://a.example", "cloud");
        old.held_until = Some(later);
        let mut new = view("https://a.example", "cloud");
        (new.account, new.remaining, new.throttled_until) = ("other".into(), Some(7), Some(later));
        let all = summed(&[old, new, view("https://b.example", "")], &mut named, now);
        let shown: Vec<_> = all.keys().map(|w| (w.endpoint.as_str(), w.account.as_str())).collect();
        assert_eq!(shown, [("https://a.example", "cloud"), ("https://b.example", "none")]);
        let (sum, declared) = all.values().next().unwrap();
        assert_eq!((sum.gauges, sum.counters, *declared), ([8, 2, 4, 7, 1, 1], [20, 2, 0, 6], false));
    }
}
