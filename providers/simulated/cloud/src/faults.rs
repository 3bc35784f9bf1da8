//! The fault plan: rules on (method, path, which match) and what they do to the exchange.
//! Every rule counts its matches; the first rule that is due acts on the exchange, and only that one.
//! A rule stands in front of the cloud as a gateway does: before authentication and before the rate limiter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One rule. `nth`, `every` and `times` say which matches are due: all of them if none is set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Free text, shown by `GET /_sim/faults`.
    pub name: String,
    /// `*` or empty fits every method.
    pub method: String,
    /// Pattern of the path without query; `*` stands for any text within a segment, a last `**` for any rest.
    pub path: String,
    /// Only the nth match, from 1.
    pub nth: Option<u64>,
    /// Each kth match.
    pub every: Option<u64>,
    /// At most so many times.
    pub times: Option<u64>,
    #[serde(flatten)]
    pub fault: Fault,
}

/// What happens to the exchange. Members combine; the order in time is: `delay_ms`, `hold: before`, `drop: before`,
/// the request itself (unless `status` without `commit`), rewriting, `delay_after_ms`, `hold: after`, `drop: after`,
/// `truncate`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    pub delay_ms: u64,
    pub delay_after_ms: u64,
    /// Keep the exchange waiting until it is released or abandoned.
    pub hold: Option<Moment>,
    /// Reset the connection before anything is done, or after all is done ("effect done, response lost").
    pub drop: Option<Moment>,
    /// Send the head and so many bytes of the body, then close the connection.
    pub truncate: Option<usize>,
    /// Answer with this status. Without `commit` the request is not carried out.
    pub status: Option<u16>,
    /// Carry the request out although `status` answers something else.
    pub commit: bool,
    /// `error.code` and `error.message` of the answer that `status` makes.
    pub code: Option<String>,
    pub message: Option<String>,
    /// Body of the answer, whatever made it. A JSON string is sent as its text, without quotes.
    pub body: Option<Value>,
    /// Headers set on the answer; an empty value removes the header.
    pub headers: BTreeMap<String, String>,
    /// Answer a success with 202, no body, and the action's address in `Location`.
    pub accepted: Option<Location>,
    /// Put what was received (authorization and body) into the answer, in this encoding of the echo endpoint.
    pub echo: Option<String>,
    /// JSON pointers of the answer that `echo` overwrites, besides the member `echo` and the header `X-Echo`.
    pub echo_at: Vec<String>,
    /// How long the action takes that this request starts.
    pub action_ms: Option<u64>,
    /// The action ends in `error` with this code, and without effect (a created server has status `error`).
    pub action_error: Option<String>,
    /// Word shown as the action's status in place of `running`.
    pub action_status: Option<String>,
    /// The request is accepted and its action succeeds, but nothing happens to the machine (a created server stays
    /// off).
    pub no_effect: bool,
}

/// Before or after the effect is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    Before,
    After,
}

/// Form of `Location` on a 202.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    None,
    Relative,
    Absolute,
}

impl Rule {
    /// Reads a rule from JSON. A member that no rule has is an error, because a misspelt fault never fires.
    pub fn from_json(value: Value) -> Result<Rule, String> {
        let known = serde_json::to_value(Rule::default()).unwrap_or_default();
        for key in value.as_object().into_iter().flatten().map(|(key, _)| key) {
            if known.get(key).is_none() {
                return Err(format!("a rule has no member {key:?}"));
            }
        }
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    /// A rule that fits every match of method and path and does nothing yet.
    pub fn on(method: &str, path: &str) -> Rule {
        Rule { method: method.into(), path: path.into(), ..Rule::default() }
    }

    /// Only the nth match, from 1.
    pub fn nth(mut self, nth: u64) -> Rule {
        self.nth = Some(nth);
        self
    }

    /// At most so many times.
    pub fn times(mut self, times: u64) -> Rule {
        self.times = Some(times);
        self
    }

    /// Sets what the rule does.
    pub fn does(mut self, fault: Fault) -> Rule {
        self.fault = fault;
        self
    }

    /// Refuses with a status and an error code, without effect.
    pub fn refuses(self, status: u16, code: &str) -> Rule {
        self.does(Fault { status: Some(status), code: Some(code.into()), ..Fault::default() })
    }

    /// Resets the connection before or after the effect.
    pub fn drops(self, moment: Moment) -> Rule {
        self.does(Fault { drop: Some(moment), ..Fault::default() })
    }

    /// Holds the exchange before or after the effect.
    pub fn holds(self, moment: Moment) -> Rule {
        self.does(Fault { hold: Some(moment), ..Fault::default() })
    }
}

/// A rule with its counters, as `GET /_sim/faults` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleState {
    pub matched: u64,
    pub fired: u64,
    pub rule: Rule,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    rules: Vec<RuleState>,
}

impl Plan {
    pub fn set(&mut self, rules: Vec<Rule>) {
        self.rules = rules.into_iter().map(|rule| RuleState { matched: 0, fired: 0, rule }).collect();
    }

    pub fn states(&self) -> Vec<RuleState> {
        self.rules.clone()
    }

    /// Counts the request in every rule and returns the fault of the first rule that is due.
    pub fn decide(&mut self, method: &str, path: &str) -> Option<Fault> {
        let mut chosen = None;
        for state in &mut self.rules {
            let Rule { method: wanted, path: pattern, nth, every, times, .. } = &state.rule;
            let method_fits = wanted.is_empty() || wanted == "*" || wanted.eq_ignore_ascii_case(method);
            if !method_fits || !fits(pattern, path) {
                continue;
            }
            state.matched += 1;
            let due = nth.is_none_or(|n| n == state.matched)
                && every.is_none_or(|k| k != 0 && state.matched.is_multiple_of(k))
                && times.is_none_or(|most| state.fired < most);
            if due && chosen.is_none() {
                state.fired += 1;
                chosen = Some(state.rule.fault.clone());
            }
        }
        chosen
    }
}

/// Whether a path fits a pattern. An empty pattern fits everything.
fn fits(pattern: &str, path: &str) -> bool {
    if pattern.is_empty() {
        return true;
    }
    let mut wanted = pattern.split('/');
    let mut given = path.split('/');
    loop {
        match (wanted.next(), given.next()) {
            (Some("**"), Some(_)) => return true,
            (Some(one), Some(other)) if segment_fits(one, other) => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

fn segment_fits(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or("");
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_within_a_segment_and_two_stars_take_the_rest() {
        for (pattern, path, expected) in [
            ("", "/anything/at/all", true),
            ("/v1/servers", "/v1/servers", true),
            ("/v1/servers", "/v1/servers/srv-1", false),
            ("/v1/servers/*", "/v1/servers/srv-1", true),
            ("/v1/servers/*", "/v1/servers/srv-1/actions/reset", false),
            ("/v1/servers/**", "/v1/servers/srv-1/actions/reset", true),
            ("/v1/servers/*/actions/power_*", "/v1/servers/srv-1/actions/power_off", true),
            ("/v1/servers/*/actions/power_*", "/v1/servers/srv-1/actions/reset", false),
            ("/v1/s*-*1", "/v1/srv-11", true),
            ("/v1/s*-*2", "/v1/srv-11", false),
        ] {
            assert_eq!(fits(pattern, path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn every_rule_counts_its_matches_although_only_the_first_due_one_acts() {
        let mut plan = Plan::default();
        plan.set(vec![
            Rule::on("POST", "/a").nth(2).refuses(500, "first"),
            Rule::on("*", "/a").times(1).refuses(501, "second"),
            Rule { every: Some(3), ..Rule::on("POST", "/a").refuses(502, "third") },
        ]);
        let codes: Vec<_> =
            (0..6).map(|_| plan.decide("POST", "/a").and_then(|fault| fault.status).unwrap_or(0)).collect();
        assert_eq!(codes, [501, 500, 502, 0, 0, 502]);
        assert_eq!(plan.decide("GET", "/b").and_then(|fault| fault.status), None);
        assert!(plan.states().iter().take(3).all(|state| state.matched == 6));
    }
}
