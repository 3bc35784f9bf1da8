//! What a class's status says: its offerings, conditions, and what it waits for.

use holdfast_api::{
    ConditionStatus, MachineClassStatus, NewCondition, Offering, conditions, sanitise_reason,
    truncate_message,
};
use jiff::Timestamp;

use crate::capacity::{Trouble, Wait};
use crate::clock::stamp;

const RESOLVED: &str = "Resolved";
const CONFIG_CURRENT: &str = "ConfigCurrent";
/// The reason of a class that the provider refused for good.
const INVALID: &str = "InvalidConfig";

/// The class was resolved. When the very same was resolved before, nothing changes.
pub(super) fn resolved(
    status: &mut MachineClassStatus,
    generation: Option<i64>,
    offerings: Vec<Offering>,
    revision: &str,
    now: Timestamp,
) {
    let available = offerings.iter().filter(|offering| offering.available).count();
    let message = match (offerings.len(), available) {
        (0, _) => "the provider offers nothing for this configuration".to_owned(),
        (all, available) => format!("{available} of {all} offerings are available"),
    };
    let same = status.offerings == offerings
        && status.resolved_by.as_deref() == Some(revision)
        && is_resolved(status)
        && status.waiting.is_none();
    if !same || status.resolved_at.is_none() {
        status.resolved_at = Some(stamp(now));
    }
    status.observed_generation = generation;
    status.valid_until = offerings.iter().map(|offering| offering.valid_until.clone()).min();
    status.available = i32::try_from(available).unwrap_or(i32::MAX);
    status.offerings = offerings;
    status.resolved_by = Some(revision.to_owned());
    status.waiting = None;
    status.reason = Some(RESOLVED.to_owned());
    status.message = Some(message.clone());
    set(status, RESOLVED, ConditionStatus::True, RESOLVED, &message, now);
}

/// The provider refused the configuration for good. What it offered before is not launched from any more.
pub(super) fn invalid(
    status: &mut MachineClassStatus,
    generation: Option<i64>,
    trouble: &Trouble,
    revision: &str,
    now: Timestamp,
) {
    let message = told(trouble);
    status.observed_generation = generation;
    status.offerings.clear();
    status.available = 0;
    status.valid_until = None;
    status.resolved_by = Some(revision.to_owned());
    status.waiting = Some(
        Wait {
            reason: INVALID,
            message: String::new(),
            until: None,
            next_action: "the class is resolved again when another revision of the provider is loaded",
            way_out: "make a class with a configuration that the provider takes, and delete this one",
            warning: true,
        }
        .kept(status.waiting.as_ref(), now),
    );
    status.reason = Some(INVALID.to_owned());
    status.message = Some(message.clone());
    set(status, RESOLVED, ConditionStatus::False, INVALID, &message, now);
}

/// The class waits. Offerings stay until they expire; the class is Resolved as long as one has not.
pub(super) fn waits(status: &mut MachineClassStatus, generation: Option<i64>, wait: &Wait, now: Timestamp) {
    status.observed_generation = generation;
    status.waiting = Some(wait.kept(status.waiting.as_ref(), now));
    status.reason = Some(wait.reason.to_owned());
    status.message = Some(truncate_message(&wait.message).to_owned());
    let good = is_resolved(status) && status.offerings.iter().any(|offering| offering.valid_until.0 > now);
    if !good {
        set(status, RESOLVED, ConditionStatus::False, wait.reason, &wait.message, now);
    }
}

/// Says whether the ConfigMap still says what the class was resolved with.
pub(super) fn config_current(
    status: &mut MachineClassStatus,
    generation: Option<i64>,
    value: ConditionStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    status.observed_generation = generation;
    set(status, CONFIG_CURRENT, value, reason, message, now);
}

fn set(
    status: &mut MachineClassStatus,
    type_: &str,
    value: ConditionStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let observed_generation = status.observed_generation;
    let new = NewCondition { type_, status: value, reason, message, observed_generation };
    conditions::set(&mut status.conditions, new, stamp(now));
}

/// Whether the class is resolved.
pub(crate) fn is_resolved(status: &MachineClassStatus) -> bool {
    conditions::is_true(&status.conditions, RESOLVED)
}

/// Whether the provider refused the class for good.
pub(super) fn refused_for_good(status: &MachineClassStatus) -> bool {
    conditions::find(&status.conditions, RESOLVED).is_some_and(|c| c.status == "False" && c.reason == INVALID)
}

/// Whether the status already tells of this refusal.
pub(super) fn is_invalid(status: &MachineClassStatus, trouble: &Trouble) -> bool {
    refused_for_good(status) && status.message.as_deref() == Some(told(trouble).as_str())
}

fn told(trouble: &Trouble) -> String {
    truncate_message(&format!("{}: {}", sanitise_reason(&trouble.reason), trouble.message)).to_owned()
}

pub(super) fn not_registered(provider: &str) -> Wait {
    Wait {
        reason: "ProviderNotRegistered",
        message: format!("the provider {provider} is not loaded, or not approved"),
        until: None,
        next_action: "the class is resolved when the provider is loaded",
        way_out: "put the provider's module into the providers folder and approve it",
        warning: true,
    }
}

pub(super) fn not_offered(provider: &str) -> Wait {
    Wait {
        reason: "CapacityNotOffered",
        message: format!("this revision of the provider {provider} does not allocate hosts"),
        until: None,
        next_action: "the class is resolved when a revision of the provider allocates hosts",
        way_out: "load a revision of the provider that offers HostAllocate and HostRelease",
        warning: true,
    }
}

pub(super) fn config_not_found(place: &str) -> Wait {
    Wait {
        reason: "ConfigNotFound",
        message: format!("there is no ConfigMap {place}"),
        until: None,
        next_action: "the ConfigMap is looked for again",
        way_out: "make the ConfigMap that the message names",
        warning: true,
    }
}

pub(super) fn config_unfit(message: String) -> Wait {
    Wait {
        reason: "ConfigUnfit",
        message,
        until: None,
        next_action: "the ConfigMap is read again",
        way_out: "change the ConfigMap as the message says; nothing was resolved with it yet",
        warning: true,
    }
}

pub(super) fn no_credentials(message: String) -> Wait {
    Wait {
        reason: crate::index::AUTH_UNAVAILABLE,
        message,
        until: None,
        next_action: "the credentials are looked up again",
        way_out: "mend the ProviderCredential or its Secret as the message says",
        warning: true,
    }
}

pub(super) fn resolve_failed(trouble: &Trouble, again: Timestamp) -> Wait {
    Wait {
        reason: "ResolveFailed",
        message: told(trouble),
        until: Some(again),
        next_action: "the provider is asked again",
        way_out: "mend what the message says; offerings that were resolved before are used until they expire",
        warning: true,
    }
}
