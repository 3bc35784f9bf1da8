//! What a guest returned, before anybody believes it: identities judged, text scanned, cleaned and bounded.

use crate::callback::{BeginResult, OperationResult, PollResult, PollState, ProviderOperation, Returned};
use crate::failure::{failure, violation};
use crate::message::{Failure, Violation};
use crate::session::Room;
use crate::text;
use holdfast_custody::Place;
use holdfast_manifest::{Answers, ERROR_CODES};

/// Longest resume token, in bytes.
const MAX_RESUME: usize = 16 * 1024;
/// Longest operation id, in bytes.
const MAX_OPERATION_ID: usize = 1024;
/// Longest text that is looked at, before it is cut.
const MAX_TEXT: usize = 1024 * 1024;

pub(crate) fn accept(room: &Room, returned: Returned) -> Result<Returned, Violation> {
    Ok(match returned {
        Returned::Execute(Ok(result)) => {
            settled(room)?;
            Returned::Execute(Ok(believed(room, result)?))
        }
        Returned::Begin(Ok(result)) => Returned::Begin(begun(room, result)?),
        Returned::Poll(Ok(result)) => Returned::Poll(Ok(polled(room, result)?)),
        Returned::Cleanup(Ok(())) => {
            settled(room)?;
            Returned::Cleanup(Ok(()))
        }
        Returned::Cancel(Ok(())) => Returned::Cancel(Ok(())),
        Returned::Execute(Err(error)) => Returned::Execute(Err(failed(room, error)?)),
        Returned::Begin(Err(error)) => Returned::Begin(Err(failed(room, error)?)),
        Returned::Poll(Err(error)) => Returned::Poll(Err(failed(room, error)?)),
        Returned::Cancel(Err(error)) => Returned::Cancel(Err(failed(room, error)?)),
        Returned::Cleanup(Err(error)) => Returned::Cleanup(Err(failed(room, error)?)),
        Returned::ResolveClass(_)
        | Returned::PlanAllocation(_)
        | Returned::BeginAllocate(_)
        | Returned::PollAllocate(_)
        | Returned::BeginRelease(_)
        | Returned::PollRelease(_) => {
            return Err(violation("NotServed", "capacity is not served by this version"));
        }
    })
}

/// A success over an effect whose outcome nobody knows is refused.
fn settled(room: &Room) -> Result<(), Violation> {
    match room.in_doubt().first() {
        None => Ok(()),
        Some(effect) => Err(violation(
            "UnsettledEffect",
            format!(
                "success was refused: effect `{}` (call `{}`) is in doubt; a guest returns and is called again until it \
                 is settled",
                effect.key, effect.call
            ),
        )),
    }
}

fn believed(room: &Room, result: OperationResult) -> Result<OperationResult, Violation> {
    for id in [&result.provider_id, &result.cleanup_provider_id].into_iter().flatten() {
        scanned(room, Place::Result, id)?;
    }
    let (provider_id, cleanup_provider_id) = room.judge(result.provider_id, result.cleanup_provider_id)?;
    Ok(OperationResult { provider_id, cleanup_provider_id })
}

fn begun(room: &Room, result: BeginResult) -> Result<Result<BeginResult, Failure>, Violation> {
    let operation = handle(room, result.operation)?;
    let message = message(room, &result.message)?;
    if operation.operation_id.trim().is_empty() {
        let sentence =
            "the provider accepted the operation with a blank operation id; begin is called again (R2.5)";
        return Ok(Err(failure(false, "internal", "BlankOperationID", sentence)));
    }
    Ok(Ok(BeginResult {
        operation,
        message,
        requeue_after_ms: result.requeue_after_ms.and_then(text::clamp_wait),
    }))
}

/// A handle goes back to the guest as it came, so that it is refused rather than changed.
fn handle(room: &Room, operation: ProviderOperation) -> Result<ProviderOperation, Violation> {
    if operation.resume_token.len() > MAX_RESUME {
        return Err(violation(
            "OversizedResumeToken",
            "the result was refused: a resume token has at most 16 KiB",
        ));
    }
    let id = &operation.operation_id;
    if id.len() > MAX_OPERATION_ID || id.chars().any(|c| c.is_control() && !c.is_whitespace()) {
        return Err(violation(
            "BadOperationID",
            "the result was refused: an operation id has at most 1024 bytes and no control characters",
        ));
    }
    scanned(room, Place::ResumeToken, id)?;
    scanned(room, Place::ResumeToken, &operation.resume_token)?;
    Ok(operation)
}

fn polled(room: &Room, poll: PollResult) -> Result<PollResult, Violation> {
    let (state, result) = match poll.state {
        PollState::Succeeded => {
            settled(room)?;
            (PollState::Succeeded, Some(believed(room, poll.result.unwrap_or_default())?))
        }
        PollState::Other(word) => {
            scanned(room, Place::Result, &word)?;
            (PollState::Other(text::reason(&word)), None)
        }
        // Only a success has a result.
        state => (state, None),
    };
    Ok(PollResult {
        state,
        result,
        reason: reason(room, &poll.reason)?,
        message: message(room, &poll.message)?,
        requeue_after_ms: poll.requeue_after_ms.and_then(text::clamp_wait),
    })
}

/// A failure in the contract's words: unknown codes become `other`, native words only where the manifest lists them.
fn failed(room: &Room, error: Failure) -> Result<Failure, Violation> {
    scanned(room, Place::Result, &error.code)?;
    let native = match error.native {
        Some(word) => {
            scanned(room, Place::Result, &word)?;
            Some(word).filter(|word| lists(room, word))
        }
        None => None,
    };
    let code = if ERROR_CODES.contains(&error.code.as_str()) { error.code } else { "other".to_owned() };
    Ok(Failure {
        permanent: error.permanent,
        code,
        reason: reason(room, &error.reason)?,
        message: message(room, &error.message)?,
        native,
        retry_after_ms: error.retry_after_ms.and_then(text::clamp_wait),
    })
}

fn lists(room: &Room, word: &str) -> bool {
    let has = |answers: &Answers| {
        let keys = answers.rejects.keys().chain(answers.fails.keys()).chain(&answers.gone);
        keys.filter_map(|key| key.word.as_deref()).any(|listed| listed == word)
    };
    let manifest = &room.manifest;
    manifest.calls.values().any(|call| has(&call.answers))
        || manifest.endpoints.values().any(|endpoint| has(&endpoint.answers))
}

fn reason(room: &Room, given: &str) -> Result<String, Violation> {
    scanned(room, Place::Result, given)?;
    Ok(text::reason(given))
}

/// Scanned as it came and as it will be shown: cleaning may join what was apart.
fn message(room: &Room, given: &str) -> Result<String, Violation> {
    scanned(room, Place::Result, given)?;
    let shown = text::message(given);
    scanned(room, Place::Result, &shown)?;
    Ok(shown)
}

fn scanned(room: &Room, place: Place, given: &str) -> Result<(), Violation> {
    if given.len() > MAX_TEXT {
        return Err(violation(
            "OversizedText",
            "the result was refused: one of its texts is longer than 1 MiB",
        ));
    }
    room.scan(place, given)
}
