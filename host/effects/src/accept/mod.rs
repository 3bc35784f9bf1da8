//! What a guest returned, before anybody believes it: identities judged, text scanned, cleaned and bounded.

mod allocation;
mod class;
mod operations;

use crate::callback::{BeginResult, PollState, ProviderOperation, Returned};
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
    use Returned::*;
    Ok(match returned {
        Execute(answer) => Execute(checked(room, answer, operations::executed)?),
        Begin(answer) => Begin(checked(room, answer, begun)?.flatten()),
        Poll(answer) => Poll(checked(room, answer, operations::polled)?),
        Cancel(answer) => Cancel(checked(room, answer, |_, ()| Ok(()))?),
        Cleanup(answer) => Cleanup(checked(room, answer, |room, ()| settled(room))?),
        ResolveClass(answer) => ResolveClass(checked(room, answer, class::resolved)?),
        PlanAllocation(answer) => PlanAllocation(checked(room, answer, class::planned)?),
        BeginAllocate(answer) => BeginAllocate(checked(room, answer, begun)?.flatten()),
        PollAllocate(answer) => PollAllocate(checked(room, answer, allocation::allocate_polled)?),
        BeginRelease(answer) => BeginRelease(checked(room, answer, begun)?.flatten()),
        PollRelease(answer) => PollRelease(checked(room, answer, allocation::release_polled)?),
    })
}

fn checked<T, U>(
    room: &Room,
    answer: Result<T, Failure>,
    good: impl FnOnce(&Room, T) -> Result<U, Violation>,
) -> Result<Result<U, Failure>, Violation> {
    Ok(match answer {
        Ok(value) => Ok(good(room, value)?),
        Err(error) => Err(failed(room, error)?),
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

/// What goes back to the guest as it came, or stands in names: refused rather than changed.
fn printable(room: &Room, reason: &str, what: &str, given: &str, max: usize) -> Result<(), Violation> {
    scanned(room, Place::Result, given)?;
    if text::bounded(given, max) == given {
        return Ok(());
    }
    Err(violation(
        reason,
        format!("the result was refused: {what} has at most {max} bytes, all of them printable text"),
    ))
}

/// A state of the contract; a word of the guest's own is cleaned.
fn state(room: &Room, given: PollState) -> Result<PollState, Violation> {
    Ok(match given {
        PollState::Other(word) => {
            scanned(room, Place::Result, &word)?;
            PollState::Other(text::reason(&word))
        }
        known => known,
    })
}
