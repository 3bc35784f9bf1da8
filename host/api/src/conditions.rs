//! Setting and finding conditions, with Kubernetes' rule for `lastTransitionTime`: it moves only when the
//! status moves. Reasons and messages are cleaned on the way in (contract 2, section 2(b).6).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::text::{sanitise_reason, truncate_message};

/// The three values of a condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition doesn't hold.
    False,
    /// Nobody can say.
    Unknown,
}

impl ConditionStatus {
    /// The word that Kubernetes uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// What a condition is to become.
#[derive(Clone, Copy, Debug)]
pub struct NewCondition<'a> {
    /// Type, in CamelCase.
    pub type_: &'a str,
    /// Status.
    pub status: ConditionStatus,
    /// Reason; sanitised by [`sanitise_reason`].
    pub reason: &'a str,
    /// Message; cut by [`truncate_message`].
    pub message: &'a str,
    /// The generation of the object that this was observed at.
    pub observed_generation: Option<i64>,
}

/// What [`set`] changed, so that a caller can leave out writes that only change a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Nothing.
    None,
    /// The message alone.
    Message,
    /// Status, reason or observed generation.
    Meaning,
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Whether the condition of a type is there and True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == ConditionStatus::True.as_str())
}

/// Adds or replaces the condition of a type. `lastTransitionTime` becomes `now` only if the status changes.
pub fn set(conditions: &mut Vec<Condition>, new: NewCondition<'_>, now: Time) -> Change {
    let reason = sanitise_reason(new.reason);
    let message = truncate_message(new.message);
    let status = new.status.as_str();
    let Some(old) = conditions.iter_mut().find(|c| c.type_ == new.type_) else {
        conditions.push(Condition {
            last_transition_time: now,
            message: message.to_owned(),
            observed_generation: new.observed_generation,
            reason,
            status: status.to_owned(),
            type_: new.type_.to_owned(),
        });
        return Change::Meaning;
    };
    let mut change = Change::None;
    if old.message != message {
        old.message = message.to_owned();
        change = Change::Message;
    }
    if old.reason != reason || old.observed_generation != new.observed_generation || old.status != status {
        change = Change::Meaning;
    }
    if old.status != status {
        old.status = status.to_owned();
        old.last_transition_time = now;
    }
    old.reason = reason;
    old.observed_generation = new.observed_generation;
    change
}

/// Removes the condition of a type; says whether there was one.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.type_ != type_);
    conditions.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn new(status: bool, reason: &'static str, message: &'static str) -> NewCondition<'static> {
        NewCondition { type_: "Ready", status: status.into(), reason, message, observed_generation: Some(1) }
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_moves() {
        let mut conditions = Vec::new();
        assert_eq!(set(&mut conditions, new(false, "A", "m"), at(1)), Change::Meaning);
        assert_eq!(set(&mut conditions, new(false, "A", "m"), at(2)), Change::None);
        assert_eq!(set(&mut conditions, new(false, "A", "n"), at(3)), Change::Message);
        assert_eq!(set(&mut conditions, new(false, "B", "n"), at(4)), Change::Meaning);
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert_eq!(set(&mut conditions, new(true, "B", "n"), at(5)), Change::Meaning);
        assert_eq!(conditions[0].last_transition_time, at(5));
        assert!(is_true(&conditions, "Ready") && conditions.len() == 1);
        assert!(remove(&mut conditions, "Ready") && !remove(&mut conditions, "Ready"));
    }

    #[test]
    fn reasons_are_cleaned_on_the_way_in() {
        let mut conditions = Vec::new();
        set(&mut conditions, new(true, "503 oops", ""), at(1));
        assert_eq!(find(&conditions, "Ready").unwrap().reason, "Provider_503_oops");
    }
}
