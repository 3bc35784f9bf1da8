//! What an allocation waits for. Every wait says what happens by itself and how a person ends it.

use jiff::Timestamp;

use super::choose::NoOffering;
use crate::capacity::Wait;

pub(super) const QUOTA_EXCEEDED: &str = "QuotaExceeded";
pub(super) const PLAN_FAILED: &str = "PlanFailed";
pub(super) const RELEASE_FAILED: &str = "ReleaseFailed";

/// Messages of what ends an allocation.
pub(super) const DELETED: &str = "the allocation was deleted; what was made for it is released";
pub(super) const DEADLINE: &str = "there was no host when the deadline of spec.deadlineSeconds had passed";

fn wait(reason: &'static str, message: impl Into<String>, next: &'static str, out: &'static str) -> Wait {
    Wait { reason, message: message.into(), until: None, next_action: next, way_out: out, warning: true }
}

pub(super) fn class_not_found(name: &str) -> Wait {
    wait(
        "ClassNotFound",
        format!("there is no MachineClass {name}"),
        "goes on when the class is there",
        "make the class, or delete the allocation",
    )
}

pub(super) fn class_not_resolved(name: &str, why: &str) -> Wait {
    wait(
        "ClassNotResolved",
        format!("the class {name} is not resolved: {why}"),
        "goes on when the class is resolved",
        "mend what the class says, or delete the allocation",
    )
}

pub(super) fn no_offering(none: NoOffering, until: Option<Timestamp>) -> Wait {
    let out = match none.reason {
        "NoOfferingFits" => {
            "delete the allocation and make one whose constraints an offering of the class fulfils"
        }
        _ => {
            "wait for capacity, or delete the allocation and make one with other constraints or of another class"
        }
    };
    let next = match until {
        Some(_) => {
            "offerings without capacity are tried again, and the class is looked at when it is resolved again"
        }
        None => "the class is looked at when it is resolved again",
    };
    Wait { until, ..wait(none.reason, none.message, next, out) }
}

pub(super) fn not_registered(provider: &str) -> Wait {
    wait(
        "ProviderNotRegistered",
        format!("the provider {provider} is not loaded, or not approved, or allocates no hosts"),
        "goes on when the provider is loaded",
        "put the provider's module into the providers folder and approve it, or delete the allocation",
    )
}

pub(super) fn plan_failed(message: &str, again: Timestamp) -> Wait {
    let wait = wait(
        PLAN_FAILED,
        message,
        "the host is planned again",
        "mend the provider, or delete the allocation",
    );
    Wait { until: Some(again), ..wait }
}

pub(super) fn quota_exceeded(message: &str, again: Timestamp) -> Wait {
    let wait = wait(
        QUOTA_EXCEEDED,
        message,
        "an offering is tried again",
        "raise the quota of the account, release something else, or delete the allocation",
    );
    Wait { until: Some(again), ..wait }
}

pub(super) fn machine_not_ours(name: &str) -> Wait {
    wait(
        "MachineNotOurs",
        format!("there is a Machine {name} that does not belong to this allocation; nothing was sent"),
        "goes on when the name is free",
        "delete that Machine, or delete the allocation and make one with another spec.machineName",
    )
}

pub(super) fn machine_refused(message: &str) -> Wait {
    wait(
        "MachineRefused",
        format!("the API refuses the planned Machine: {message}"),
        "nothing: the same plan is refused again",
        "delete the allocation, and make one whose name and labels a Machine may have",
    )
}

pub(super) fn other_site(name: &str, has: &str, class: &str) -> Wait {
    wait(
        "OtherSite",
        format!("the Machine {name} is labelled with the site {has}, but its class is of the site {class}"),
        "goes on when the label is changed",
        "set the Machine's label holdfast.dev/site to the site of its class, or delete the Machine",
    )
}

pub(super) fn name_taken(name: &str) -> Wait {
    wait(
        "OperationNameTaken",
        format!("there is an operation {name} that this allocation did not make; nothing was sent"),
        "goes on when the name is free",
        "delete that operation",
    )
}

pub(super) fn allocating(operation: &str) -> Wait {
    let wait = wait(
        "HostAllocate",
        format!("operation {operation} makes the host"),
        "goes on when the operation has ended",
        "see the operation; deleting the allocation cancels it",
    );
    Wait { warning: false, ..wait }
}

pub(super) fn releasing(operation: &str) -> Wait {
    let wait = wait(
        "HostRelease",
        format!("operation {operation} releases what is owned"),
        "goes on when the operation has ended",
        "see the operation",
    );
    Wait { warning: false, ..wait }
}

pub(super) fn no_credentials(operation: &str, message: &str) -> Wait {
    wait(
        crate::index::AUTH_UNAVAILABLE,
        format!("operation {operation}: {message}"),
        "goes on when the credentials are there",
        "mend the ProviderCredential or its Secret as the message says",
    )
}

pub(super) fn cancelling(operation: &str) -> Wait {
    let wait = wait(
        "Cancelling",
        format!("operation {operation} was asked to stop; what it has made is released when it has ended"),
        "goes on when the operation has ended",
        "see the operation",
    );
    Wait { warning: false, ..wait }
}

pub(super) fn outcome_unknown(operation: &str, message: &str) -> Wait {
    wait(
        "OutcomeUnknown",
        format!("operation {operation}: {message}"),
        "nothing: a person must say what happened",
        "look at the service, then set spec.resolve of the operation",
    )
}

/// Of an orphan, which is not touched meanwhile.
pub(super) fn orphan(reason: &'static str, message: impl Into<String>, again: Timestamp) -> Wait {
    let wait = wait(
        reason,
        message,
        "the orphan is looked at again; until then it is not touched",
        "mend what the message says, or delete this request: nothing was sent for it",
    );
    Wait { until: Some(again), ..wait }
}

pub(super) fn release_failed(message: &str, again: Timestamp) -> Wait {
    let wait = wait(
        RELEASE_FAILED,
        message,
        "the release is begun again, with what is still recorded as owned",
        "mend what the message says; the finalizer holds the allocation until nothing is owned",
    );
    Wait { until: Some(again), ..wait }
}
