//! Between the messages of `effects` and the generated types of the contract.
//!
//! Into the guest everything is moved. Out of the guest every size is bounded first, an empty text where the contract
//! has an option is none, and a wait of 0 is none (zero values mean "the host's default").

pub(crate) mod capacity;

use crate::bindings::{calls, operations as wit, types};
use crate::halt::Halt;
use crate::limits;
use crate::shape::bounded;
use holdfast_effects as effects;

pub(crate) fn request(request: effects::OperationRequest) -> wit::OperationRequest {
    wit::OperationRequest {
        name: request.name,
        uid: request.uid,
        kind: request.kind,
        parameters: request.parameters,
        machine: machine(request.machine),
        site: request.site,
        started_at: request.started_at,
        accepted_at: request.accepted_at,
        deadline: request.deadline,
        attempt: request.attempt,
    }
}

fn machine(machine: effects::Machine) -> wit::Machine {
    wit::Machine {
        name: machine.name,
        uid: machine.uid,
        generation: machine.generation,
        provider_ref: machine.provider_ref.map(|owned| wit::ProviderMachine {
            object: object(owned.object),
            spec: owned.spec,
            status: owned.status,
        }),
        provider_id: machine.provider_id,
        host_image: machine.host_image,
    }
}

fn object(object: effects::ObjectRef) -> types::ObjectRef {
    types::ObjectRef {
        group: object.group,
        version: object.version,
        kind: object.kind,
        resource: object.resource,
        namespace: object.namespace,
        name: object.name,
        uid: object.uid,
        generation: object.generation,
        creation_timestamp: object.creation_timestamp,
        deletion_timestamp: object.deletion_timestamp,
        labels: object.labels,
    }
}

pub(crate) fn operation(operation: effects::ProviderOperation) -> wit::ProviderOperation {
    wit::ProviderOperation { operation_id: operation.operation_id, resume_token: operation.resume_token }
}

pub(crate) fn result(result: effects::OperationResult) -> wit::OperationResult {
    wit::OperationResult { provider_id: result.provider_id, cleanup_provider_id: result.cleanup_provider_id }
}

pub(crate) fn reply(reply: effects::CallReply) -> calls::Reply {
    calls::Reply { status: reply.status, fields: reply.fields }
}

pub(crate) fn outcome(outcome: effects::CallOutcome) -> calls::Outcome {
    match outcome {
        effects::CallOutcome::Done(answer) => calls::Outcome::Done(reply(answer)),
        effects::CallOutcome::InDoubt(wait) => calls::Outcome::InDoubt(wait),
    }
}

pub(crate) fn failure_to_guest(failure: effects::Failure) -> types::Error {
    let inner = types::Failure {
        code: code(&failure.code),
        reason: failure.reason,
        message: failure.message,
        native: failure.native,
        retry_after: failure.retry_after_ms,
    };
    if failure.permanent { types::Error::Permanent(inner) } else { types::Error::Transient(inner) }
}

pub(crate) fn result_back(result: wit::OperationResult) -> Result<effects::OperationResult, Halt> {
    Ok(effects::OperationResult {
        provider_id: option("a provider ID", result.provider_id, limits::WORD)?,
        cleanup_provider_id: option("a cleanup provider ID", result.cleanup_provider_id, limits::WORD)?,
    })
}

pub(crate) fn begin_back(result: wit::BeginResult) -> Result<effects::BeginResult, Halt> {
    Ok(effects::BeginResult {
        operation: effects::ProviderOperation {
            operation_id: text("an operation ID", result.operation.operation_id, limits::WORD)?,
            resume_token: text("a resume token", result.operation.resume_token, limits::RESUME_TOKEN)?,
        },
        message: text("a message", result.message, limits::MESSAGE)?,
        requeue_after_ms: wait(result.requeue_after),
    })
}

pub(crate) fn poll_back(result: wit::PollResult) -> Result<effects::PollResult, Halt> {
    Ok(effects::PollResult {
        state: state(result.state)?,
        result: result.result.map(result_back).transpose()?,
        reason: text("a reason", result.reason, limits::WORD)?,
        message: text("a message", result.message, limits::MESSAGE)?,
        requeue_after_ms: wait(result.requeue_after),
    })
}

fn state(state: wit::State) -> Result<effects::PollState, Halt> {
    Ok(match state {
        wit::State::InProgress => effects::PollState::InProgress,
        wit::State::Succeeded => effects::PollState::Succeeded,
        wit::State::Failed => effects::PollState::Failed,
        wit::State::Canceled => effects::PollState::Canceled,
        wit::State::Other(word) => effects::PollState::Other(text("a state", word, limits::WORD)?),
    })
}

/// What the guest says went wrong. A word of its own as code (`other`) is only ever `other` to the host.
pub(crate) fn failure_back(error: types::Error) -> Result<effects::Failure, Halt> {
    let (permanent, failure) = match error {
        types::Error::Permanent(failure) => (true, failure),
        types::Error::Transient(failure) => (false, failure),
    };
    Ok(effects::Failure {
        permanent,
        code: code_name(&failure.code).to_owned(),
        reason: text("a reason", failure.reason, limits::WORD)?,
        message: text("a message", failure.message, limits::MESSAGE)?,
        native: option("an error word", failure.native, limits::WORD)?,
        retry_after_ms: wait(failure.retry_after),
    })
}

fn text(what: &str, text: String, limit: usize) -> Result<String, Halt> {
    bounded(what, &text, limit)?;
    Ok(text)
}

fn option(what: &str, value: Option<String>, limit: usize) -> Result<Option<String>, Halt> {
    let value = value.filter(|text| !text.is_empty());
    value.map(|value| text(what, value, limit)).transpose()
}

fn wait(millis: Option<u64>) -> Option<u64> {
    millis.filter(|millis| *millis > 0)
}

fn code(name: &str) -> types::Code {
    match name {
        "not-found" => types::Code::NotFound,
        "already-exists" => types::Code::AlreadyExists,
        "invalid-input" => types::Code::InvalidInput,
        "unsupported" => types::Code::Unsupported,
        "capacity-exhausted" => types::Code::CapacityExhausted,
        "quota-exceeded" => types::Code::QuotaExceeded,
        "throttled" => types::Code::Throttled,
        "unauthenticated" => types::Code::Unauthenticated,
        "permission-denied" => types::Code::PermissionDenied,
        "conflict" => types::Code::Conflict,
        "unavailable" => types::Code::Unavailable,
        "multiple-matches" => types::Code::MultipleMatches,
        "dependency" => types::Code::Dependency,
        "canceled" => types::Code::Canceled,
        "internal" => types::Code::Internal,
        other => types::Code::Other(other.to_owned()),
    }
}

fn code_name(code: &types::Code) -> &'static str {
    match code {
        types::Code::NotFound => "not-found",
        types::Code::AlreadyExists => "already-exists",
        types::Code::InvalidInput => "invalid-input",
        types::Code::Unsupported => "unsupported",
        types::Code::CapacityExhausted => "capacity-exhausted",
        types::Code::QuotaExceeded => "quota-exceeded",
        types::Code::Throttled => "throttled",
        types::Code::Unauthenticated => "unauthenticated",
        types::Code::PermissionDenied => "permission-denied",
        types::Code::Conflict => "conflict",
        types::Code::Unavailable => "unavailable",
        types::Code::MultipleMatches => "multiple-matches",
        types::Code::Dependency => "dependency",
        types::Code::Canceled => "canceled",
        types::Code::Internal => "internal",
        types::Code::Other(_) => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_contract_keeps_its_name_both_ways() {
        for name in holdfast_manifest::ERROR_CODES {
            assert_eq!(code_name(&code(name)), *name);
        }
    }

    #[test]
    fn a_code_that_the_guest_invents_is_never_one_of_the_hosts() {
        let failure = types::Failure {
            code: types::Code::Other("not-found".to_owned()),
            reason: "R".to_owned(),
            message: String::new(),
            native: Some(String::new()),
            retry_after: Some(0),
        };
        let failure = failure_back(types::Error::Transient(failure)).unwrap();
        assert_eq!(failure.code, "other");
        assert_eq!((failure.native, failure.retry_after_ms), (None, None), "zero values are none");
    }
}
